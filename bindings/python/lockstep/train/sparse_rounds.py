"""Rounds in which peers exchange few elements, in an all-gather: the engine of SparseLoCo and DeMo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _lockstep as native
from ..errors import InvalidArgument
from ..types import PeerId
from .agreement import Setting
from .arrays import Bytes, Floats
from .codec.sparse import Source, Sparse, SparseCodec
from .codec.sparse_average import SparseAverage
from .flat import Fragment
from .local_rounds import GatherRounds
from .outer import OuterOptimizer
from .run_loop import ALONE
from .training import Parts


class SparseRounds(GatherRounds):
    """Keeps what was not sent, the error, in the residual of its fragment. The error belongs to this peer.

    outer: has the settings of the outer step. Native code makes the step.
    average: how the elements of all peers are averaged.
    """

    def __init__(self, parts: Parts, inner_steps: int, outer: OuterOptimizer, average: SparseAverage) -> None:
        super().__init__(parts, inner_steps)
        self.outer = outer
        self.model.fragments = [Fragment(self.model.named, outer, error_feedback=True)]
        self._average = average

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), **self.outer.settings()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Training; forgets the error."""
        super().load_state_dict(state)
        self.error.fill(0)

    def enter(self) -> None:
        """See Training."""
        before = self.loop.outer_step
        super().enter()
        if self.loop.outer_step != before:  # the error is that of other parameters
            self.error.fill(0)

    @property
    @abstractmethod
    def codec(self) -> SparseCodec:
        """How elements are sent."""

    @property
    @abstractmethod
    def rate(self) -> float:
        """The rate of the outer step."""

    @property
    def error(self) -> Floats:
        """What was not sent, as large as theta."""
        residual = self.model.whole.residual
        if residual is None:
            raise ValueError("this fragment has no error feedback")
        return residual

    def exchange(self, source: Source) -> tuple[native.SparseAverage, native.SparseBlock | None, bool]:
        """Sends the largest elements of what a source gives, and receives those of the others.

        Changes nothing unless the blocks of all contributors are here and good.
        Returns the average of what all peers have sent; what this peer has sent, None if it counts with weight 0; and
        whether a contributor has seen newcomers.
        """
        loop = self.loop
        block = self.codec.encode(source, self.weight, loop.sees_newcomers(), self.rate)
        gathered = sorted(loop.gather(block, self.codec.most_bytes))
        contributions = decode_all(self.codec, gathered)
        own = contributions[[peer for peer, _ in gathered].index(loop.own_id)]
        average = self._average.of(contributions)
        self.weight = None
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
