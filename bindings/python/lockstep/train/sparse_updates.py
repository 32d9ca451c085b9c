"""Strategies that exchange few elements, in an all-gather: the engine of SparseLoCo and DeMo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _lockstep as native
from ..errors import Error, InvalidArgument
from ..types import PeerId
from .arrays import Bytes, Floats
from .codec.sparse import Source, Sparse, SparseCodec
from .codec.sparse_average import SparseAverage
from .flat import Fragment
from .local_updates import LocalUpdates
from .strategy import ALONE


class SparseUpdates(LocalUpdates):
    """Keeps what was not sent, the error, in the residual of its fragment. The error belongs to this peer."""

    _codec: SparseCodec
    _average: SparseAverage
    _is_stored = False  # the model has the shared parameters, since a step a moment ago

    def load_global_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a global_state_dict(), and forgets the error; see Strategy.load_global_state_dict()."""
        super().load_global_state_dict(state)
        self._forget()

    # ---- the engine ----

    def _make_fragments(self) -> list[Fragment]:
        return [Fragment(self._named, self._outer, error_feedback=True)]

    def _enter(self) -> None:
        before = self._outer_step
        super()._enter()
        if self._outer_step != before:  # the error is that of other parameters
            self._forget()

    def _after_inner_step(self) -> int | None:
        if self._inner_step % self._inner_steps:
            return None
        try:
            has_newcomers = self._step_with_peers(self._fragments[0])
        except Error:  # the next step tries again
            self._inner_step -= 1
            raise
        try:
            self._end_gathering(has_newcomers)
        finally:
            self._is_stored = False
        return 0

    def _sync(self) -> None:
        super()._sync()
        self._is_stored = False

    def _store(self) -> None:
        if not self._is_stored:
            super()._store()

    @abstractmethod
    def _step_with_peers(self, fragment: Fragment) -> bool:
        """The outer step along the peers' progress; tells in _is_stored whether the model has the new parameters.

        Returns whether a contributor has seen newcomers.
        """

    @abstractmethod
    def _rate(self) -> float:
        """The rate of the outer step."""

    def _forget(self) -> None:
        self._error_of(self._fragments[0]).fill(0)

    def _error_of(self, fragment: Fragment) -> Floats:
        if fragment.residual is None:
            raise ValueError("this fragment has no error feedback")
        return fragment.residual

    def _exchange(self, source: Source) -> tuple[native.SparseAverage, native.SparseBlock | None, bool]:
        """Sends the largest elements of what a source gives, and receives those of the others.

        Changes nothing unless the blocks of all contributors are here and good.
        Returns the average of what all peers have sent; what this peer has sent, None if it counts with weight 0; and
        whether a contributor has seen newcomers.
        """
        block = self._codec.encode(source, self._weight, self._sees_newcomers(), self._rate())
        gathered = sorted(self._gather(block, self._codec.most_bytes))
        contributions = decode_all(self._codec, gathered)
        own = contributions[[peer for peer, _ in gathered].index(self._own_id)]
        average = self._average.of(contributions)
        self._weight = None
        sent = None if own.weight == 0 else own.block
        return average, sent, any(one.has_newcomers for one in contributions)


def decode_all(codec: SparseCodec, blocks: Sequence[tuple[PeerId, Bytes]]) -> list[Sparse]:
    """What the blocks say.

    Raises InvalidArgument, alike on all peers, for a block that is wrong or does not fit the first one.
    """
    contributions: list[Sparse] = []
    first = blocks[0][0]
    for peer, block in blocks:
        try:
            decoded = codec.decode(block)
        except ValueError as error:
            sender = "this peer" if peer == ALONE else f"peer {peer}"
            raise InvalidArgument(f"the contribution of {sender} cannot be used: {error}") from None
        contributions.append(decoded)
        if (decoded.weight is None) != (contributions[0].weight is None):
            with_weight, without = (first, peer) if decoded.weight is None else (peer, first)
            raise InvalidArgument(
                f"peer {with_weight} gives a weight, and peer {without} gives none; allowed: all give one, or none does"
            )
        if decoded.rate != contributions[0].rate:
            raise InvalidArgument(
                f"the rate of peer {first} is {contributions[0].rate}, that of peer {peer} is {decoded.rate}; "
                "allowed: equal rates"
            )
    return contributions
