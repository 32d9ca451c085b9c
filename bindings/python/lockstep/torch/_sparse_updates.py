"""Strategies that exchange few elements, in an all-gather: the engine of SparseLoCo and DeMo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from .. import _lockstep as native
from ..errors import Error
from ._flat import Fragment
from ._local_updates import LocalUpdates
from ._outer import Floats
from ._sparse_average import SparseAverage, decode_all
from ._sparse_codec import Source, SparseCodec


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
