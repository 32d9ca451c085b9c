"""What a strategy does in its rounds: the base of all kinds of training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import torch

from .._lockstep import Work
from .agreement import Setting
from .checked import check_parts
from .flat import HostTensors
from .run_loop import Run, RunLoop
from .shared_model import AllParameters, Buffers, SharedModel
from .step_info import StepInfo

Inner = Union[torch.optim.Optimizer, Sequence[torch.optim.Optimizer], AllParameters]
"""The optimizer of the inner steps, or several; or all parameters, for a strategy that has none."""


@dataclass(frozen=True)
class Parts:
    """The arguments that all strategies have.

    run: a lockstep.Communicator, a Replica, or None to train alone. model: a module. inner: an optimizer of torch, or a
    list of them. minimum_world: with fewer members the strategy waits for more; 0: never. check_every: every so many
    outer steps the peers compare a hash of the shared state; 0: never.
    """

    run: Run
    model: torch.nn.Module
    inner: Inner
    minimum_world: int
    check_every: int


class Training(ABC):
    """A loop of training in a run: its rounds, and the state that its members share. A Strategy calls it.

    loop: the run. model: what is trained.
    Raises TypeError, ValueError.
    """

    def __init__(self, parts: Parts) -> None:
        optimizers = list(parts.inner) if isinstance(parts.inner, (list, tuple)) else [parts.inner]
        check_parts(parts.run, parts.model, optimizers)
        self.model = SharedModel(parts.model, optimizers)
        self.loop = RunLoop(parts.run, self, Buffers(parts.model), parts.minimum_world, parts.check_every)

    # ---- what a strategy asks for ----

    @abstractmethod
    def step(self, weight: float | None) -> StepInfo:
        """See Strategy.step()."""

    @abstractmethod
    def enter(self) -> None:
        """Makes the state that of the run."""

    def wait(self) -> None:  # noqa: B027 - most trainings have nothing in flight
        """See Strategy.wait()."""

    @abstractmethod
    def finish(self) -> None:
        """The model takes over the shared parameters."""

    def detach(self) -> None:  # noqa: B027 - most trainings have nothing to do
        """The `with` block is over, perhaps by an error."""

    def left_behind(self) -> Sequence[Work]:
        """The calls of a step that has failed, besides averages; they are given out once."""
        return ()

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """See Strategy.global_state_dict(); without samplers."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Strategy.load_global_state_dict(); without samplers."""

    # ---- what the loop asks for: see SharedTraining ----

    @property
    def publishes(self) -> bool:
        """Not, unless a training says so: something that is shared changes between an outer step and a reduction."""
        return False

    @abstractmethod
    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""

    @abstractmethod
    def entries(self) -> dict[str, Any]:
        """See SharedTraining."""

    @abstractmethod
    def whole_state(self) -> tuple[dict[str, Any], Sequence[HostTensors]]:
        """See SharedTraining."""

    @abstractmethod
    def on_synced(self, state: Mapping[str, Any]) -> None:
        """See SharedTraining."""

    @abstractmethod
    def on_fetched(self, state: Mapping[str, Any]) -> None:
        """See SharedTraining."""

    def before_newcomers(self) -> None:  # noqa: B027 - most trainings have nothing to do
        """See SharedTraining."""
