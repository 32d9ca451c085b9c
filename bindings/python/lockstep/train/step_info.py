"""What a step did, and the traffic that it needed."""

from __future__ import annotations

from dataclasses import dataclass

from .._lockstep import Result
from ..types import PeerId


@dataclass(frozen=True)
class StepInfo:
    """What step() did.

    outer: whether this step ended with an outer step, that is, with a reduction among the peers.
    inner_step, outer_step: the run's counters after this step.
    fragment: the fragment that was reduced; None if all parameters were, or none.
    world: with an outer step, number of contributors to its reduction, which newcomers are not part of; else the
        members that take part in the next one.
    contributors: their ids, in rank order, equal on all peers; empty without an outer step, or alone.
    retries: attempts that were given up because a member was lost.
    bytes_sent, bytes_received: payload of this step's reductions, in bytes.
    seconds: time that this step waited for other peers and computed the outer step.
    """

    outer: bool
    inner_step: int
    outer_step: int
    fragment: int | None
    world: int
    contributors: tuple[PeerId, ...]
    retries: int
    bytes_sent: int
    bytes_received: int
    seconds: float


@dataclass
class Traffic:
    """What the calls of one step have sent and received, in bytes, and how many attempts they have given up."""

    sent: int = 0
    received: int = 0
    retries: int = 0

    def add(self, result: Result) -> None:
        """Counts a call that is over."""
        self.sent += result.bytes_sent
        self.received += result.bytes_received
        self.retries += result.retries
