"""The samplers of a strategy: each gives the samples of a run to its members, and its position is shared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .agreement import Setting


class Sampler(Protocol):
    """What a strategy uses of a sampler, whose position is part of the shared state; see RunSampler."""

    @property
    def settings(self) -> Mapping[str, float]:
        """What must be equal on all peers."""

    def allocate(self, members: Sequence[bytes], own: bytes, steps: int, inner_step: int) -> None:
        """Members that have no slice of the current round get one for so many steps, from this inner step on."""

    def end_round(self) -> None:
        """The samples of the round are drawn; its reduction ends during the next round."""

    def settle(self, contributors: Sequence[bytes]) -> None:
        """The samples of the oldest round that is drawn are used up, as far as these peers have contributed."""

    def forget_rounds(self) -> None:
        """Begins anew at the position."""

    def entry(self) -> Any:
        """The position, for the shared state."""

    def take(self, entry: Any) -> None:
        """Takes over the position of the run."""

    def state(self) -> dict[str, Any]:
        """The position after the last outer step, for a checkpoint."""

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a state(). Raises KeyError, ValueError, TypeError."""


class Samplers:
    """All samplers of a strategy, in the order in which the program has made them.

    round_steps: inner steps from the begin of one reduction to that of the next. A strategy sets it.
    """

    def __init__(self) -> None:
        self.round_steps = 1
        self._samplers: list[Sampler] = []
        self._checkpoint: Sequence[Mapping[str, Any]] | None = None

    def add(self, sampler: Sampler) -> None:
        """Before the strategy enters a run."""
        self._samplers.append(sampler)

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """They begin at the positions of a checkpoint the next time."""
        self._checkpoint = states

    def begin(self) -> None:
        """The strategy enters a run. Raises ValueError for the checkpoint of another number of samplers."""
        states, count = self._checkpoint, len(self._samplers)
        if states is not None and count and len(states) != count:
            raise ValueError(f"the state has {len(states)} samplers, and this strategy {count}; allowed: as many")
        for number, sampler in enumerate(self._samplers):
            sampler.forget_rounds()
            if states is not None:
                sampler.load(states[number])
        self._checkpoint = None

    def settings(self) -> dict[str, Setting]:
        """What must be equal on all peers."""
        every: dict[str, Setting] = {"samplers": len(self._samplers)}
        for number, sampler in enumerate(self._samplers):
            every.update({f"{name} of sampler {number}": value for name, value in sampler.settings.items()})
        return every

    def entries(self) -> dict[str, Any]:
        """The positions, for the shared state."""
        return {f"sampler {number}": sampler.entry() for number, sampler in enumerate(self._samplers)}

    def take(self, entries: Mapping[str, Any]) -> None:
        """Takes over the positions of the run, from what entries() has given or from a state with them."""
        for number, sampler in enumerate(self._samplers):
            sampler.take(entries[f"sampler {number}"])

    def states(self) -> list[dict[str, Any]]:
        """The positions after the last outer step, for a checkpoint."""
        return [sampler.state() for sampler in self._samplers]

    def allocate(self, members: Sequence[bytes], own: bytes, inner_step: int) -> None:
        """Members that have no slice of the current round get one, from this inner step on to the end of the round."""
        steps = self.round_steps - inner_step % self.round_steps
        for sampler in self._samplers:
            sampler.allocate(members, own, steps, inner_step)

    def end_round(self) -> None:
        """See Sampler.end_round()."""
        for sampler in self._samplers:
            sampler.end_round()

    def settle(self, contributors: Sequence[bytes]) -> None:
        """See Sampler.settle()."""
        for sampler in self._samplers:
            sampler.settle(contributors)
