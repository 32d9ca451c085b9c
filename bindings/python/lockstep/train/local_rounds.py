"""Rounds of inner steps that a peer makes alone, each followed by an outer step with the other peers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..errors import Error
from .agreement import Setting
from .checked import check_state, weight_of, whole_number
from .flat import Fragment, HostTensors
from .step_info import StepInfo
from .training import Parts, Training

_STATE = {"parameters": Mapping, "momentum": Mapping, "model": Mapping, "inner_step": int, "outer_step": int}


class LocalRounds(Training):
    """Inner steps alone, then an outer step; each kind of outer step derives from it.

    inner_steps: of a round. weight: sum of those that step() has got since the last outer step; None if it gets none.
    boundary: inner step of the run to which the shared parameters belong.
    starts_next: whether members begin a reduction right after a sync.
    """

    def __init__(self, parts: Parts, inner_steps: int) -> None:
        super().__init__(parts)
        self.inner_steps = whole_number(inner_steps, "inner_steps", 1)
        self.loop.samplers.round_steps = self.inner_steps
        self.weight: float | None = None
        self.boundary = 0
        self.starts_next = False

    # ---- what a strategy asks for ----

    def step(self, weight: float | None) -> StepInfo:
        """Ends an inner step; each inner_steps-th one is an outer step. See Strategy.step()."""
        if weight is not None:
            self.weight = (self.weight or 0.0) + weight_of(weight)
        self.loop.inner_step += 1
        begin = self.loop.now
        with torch.no_grad():
            fragment = self.after_inner_step()
            self.loop.publication.offer()
        number = fragment if len(self.model.fragments) > 1 else None
        return self.loop.info(self.loop.now - begin, fragment is not None, number)

    def enter(self) -> None:
        """See Training."""
        self.model.load()
        self.loop.inner_step = self.boundary
        self.starts_next = False
        with torch.no_grad():
            self.loop.join()
            self.loop.sync()
            if self.starts_next:
                self.on_admitted()
            self.loop.inner_step = self.boundary
            self.model.store()

    def on_admitted(self) -> None:
        """A newcomer has entered right before the reduction of a round."""

    def finish(self) -> None:
        """See Training."""
        self.wait()
        with torch.no_grad():
            for fragment in self.model.fragments:
                fragment.store(fragment.theta)

    def state_dict(self) -> dict[str, Any]:
        """See Training."""
        return {**self.model.state_dict(), "inner_step": self.boundary, "outer_step": self.loop.outer_step}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Training."""
        check_state(state, _STATE)
        self.model.load_state_dict(state)
        self.loop.inner_step = self.boundary = int(state["inner_step"])
        self.loop.outer_step = int(state["outer_step"])

    # ---- what the loop asks for ----

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {"inner_steps": self.inner_steps}

    def entries(self) -> dict[str, Any]:
        """See SharedTraining."""
        return {**self.model.entries(), **self.counters()}

    def whole_state(self) -> tuple[dict[str, Any], Sequence[HostTensors]]:
        """See SharedTraining."""
        rest = self.model.rest()
        rest.fetch()
        return {**rest.arrays, **self.entries()}, [rest]

    def on_synced(self, state: Mapping[str, Any]) -> None:
        """See SharedTraining."""
        self.model.is_stored = False
        self.take_counters(state)
        if not (self.starts_next and self.publishes):  # a newcomer of the last moment draws in the next round
            self.loop.allocate_samples(self.boundary)

    def on_fetched(self, state: Mapping[str, Any]) -> None:
        """See SharedTraining."""
        self.take_counters(state)
        self.starts_next = False

    # ---- for those derived from it ----

    @abstractmethod
    def after_inner_step(self) -> int | None:
        """Makes an outer step if it is time.

        Returns the number of the fragment that has made one; None if there was none.
        """

    def counters(self) -> dict[str, float]:
        """The numbers of the shared state."""
        steps = {"inner_step": self.boundary, "outer_step": self.loop.outer_step}
        return {**steps, "starts_next": int(self.starts_next)}

    def take_counters(self, state: Mapping[str, Any]) -> None:
        """Takes them over from a state."""
        self.boundary = int(state["inner_step"])
        self.loop.outer_step = int(state["outer_step"])
        self.starts_next = bool(state["starts_next"])

    def take_weight(self) -> float | None:
        """The weight since the last outer step; the next round begins without."""
        weight, self.weight = self.weight, None
        return weight


class GatherRounds(LocalRounds):
    """Rounds whose outer step is made from the blocks that all peers have sent, by one all-gather."""

    def after_inner_step(self) -> int | None:
        """See LocalRounds."""
        if self.loop.inner_step % self.inner_steps:
            return None
        try:
            has_newcomers = self.step_with_peers(self.model.whole)
        except Error:  # the next step tries again
            self.loop.inner_step -= 1
            raise
        self.end_round(has_newcomers)
        return 0

    @abstractmethod
    def step_with_peers(self, fragment: Fragment) -> bool:
        """The outer step; sets model.is_stored if the model has the new parameters.

        Changes nothing unless the blocks of all contributors are here and good. Returns whether a contributor has seen
        newcomers.
        """

    def end_round(self, has_newcomers: bool) -> None:
        """After the outer step: the admission of newcomers."""
        loop = self.loop
        try:
            loop.samplers.settle(loop.members)
            loop.outer_step += 1
            self.boundary = loop.inner_step
            loop.average_buffers()
            loop.admit(has_newcomers)
            self.model.store()
        finally:
            self.model.is_stored = False
