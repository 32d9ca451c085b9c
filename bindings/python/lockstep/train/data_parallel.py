"""Data parallel training: every step averages the gradients of all peers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..types import WireFormat, WireFormatName
from . import pipeline, tags
from .agreement import Setting
from .arrays import Floats, zeros
from .average_call import AverageCall
from .checked import check_state, check_tensors, weight_of
from .flat import HostTensors, borrowable, check_types, gradient_of
from .optimizer_state import needs_closure, state_of
from .run_loop import Run
from .sharding import local_of
from .shared_model import SharedModel, copies_of, take_copies
from .step_info import StepInfo
from .strategy import Strategy
from .training import Parts, Training
from .wire import Wire

_MOST_TENSORS = 60_000  # of one call; the library allows some more


class DataParallel(Strategy):
    """Averages the gradients of all peers before every step of the inner optimizer, in one all-reduce.

        gradient = average of gradient_m        then the inner optimizer makes its step

    A hook of the (first) inner optimizer takes the average, so the loop is that of the other strategies. The state of
    the inner optimizer is part of the shared state, and newcomers take it over. The steps of torch's optimizers are
    equal bit for bit on CPUs of one kind only; on others use DiLoCo(inner_steps=1, outer=SGD(1)) with an inner SGD.

    weight: set it before the step of the inner optimizer: how much this peer's gradient counts, such as its number of
        examples. All peers set it, or none does (None).
    inner: an optimizer of torch, or a list of optimizers.
    wire: a lockstep.train.Wire, or a wire format for both ways.
    run, model, minimum_world, check_every: a run or None, the module, a least number of members, and steps between two
        comparisons of hashes; LocalSGD tells more.
    A gradient that is None counts as zeros, and is set to the average.
    The gradients of a model above 8 MiB of float32 are reduced where they are, if they are float32, contiguous, in the
    memory of the host and share no memory; others are copied there. The all-reduce needs memory for one copy of its
    input.
    Raises ValueError, TypeError.
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 100,
    ) -> None:
        parts = Parts(run, model, inner, minimum_world, check_every)
        self._steps = _GradientSteps(parts, Wire.of(wire))
        super().__init__(self._steps)

    @property
    def weight(self) -> float | None:
        """How much this peer's next gradient counts; None if no peer has weights."""
        return self._steps.weight

    @weight.setter
    def weight(self, weight: float | None) -> None:
        self._steps.weight = weight

    def step(self, weight: float | None = None) -> StepInfo:
        """Ends a step: lets newcomers in. See Strategy.step(). weight: None; set the attribute instead."""
        self._check_entered()
        if weight is not None:
            raise ValueError("the gradients are averaged already: set `weight` before the step of the inner optimizer")
        return super().step()


class _GradientSteps(Training):
    """Steps before each of which a hook of the inner optimizer averages the gradients. weight: see DataParallel."""

    def __init__(self, parts: Parts, wire: Wire) -> None:
        super().__init__(parts)
        for optimizer in self.model.optimizers:
            if needs_closure(optimizer):
                raise ValueError(
                    f"{type(optimizer).__name__} evaluates the loss several times in a step, and DataParallel averages "
                    "one gradient; allowed: an optimizer whose step() needs no closure, or another strategy"
                )
        self.weight: float | None = None
        self._wire = wire
        self._gradients = _Gradients(self.model, wire.error_feedback)
        self._average: AverageCall | None = None
        self._hook: Any = None
        self._is_asking = False  # a step of the inner optimizer is none of the program's: it makes its tensors
        self._seconds = 0.0

    def step(self, weight: float | None) -> StepInfo:
        """See Training."""
        if self._average is None:
            raise RuntimeError("step() comes after the step of the inner optimizer, which has made none")
        average, self._average = self._average, None
        loop = self.loop
        begin = loop.now
        loop.inner_step += 1
        loop.outer_step += 1
        with torch.no_grad():
            loop.average_buffers()
            loop.publication.withdraw()
            loop.admit(average.has_newcomers)
            loop.publication.offer()
        seconds, self._seconds = self._seconds + loop.now - begin, 0.0
        return loop.info(seconds, True)

    def enter(self) -> None:
        """See Training."""
        self._average = None
        self.loop.join()
        self.loop.sync()
        self._hook = self.model.optimizers[0].register_step_pre_hook(self._before_step)

    def finish(self) -> None:
        """The model has the shared parameters at any time."""

    def detach(self) -> None:
        """Removes the hook."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _before_step(self, *_: Any) -> None:
        """Before the step of the inner optimizer: all peers have the average gradient."""
        if self._is_asking:
            return
        if self._average is not None:
            raise RuntimeError("the inner optimizer makes a second step; allowed: step() of the strategy after each")
        begin = self.loop.now
        with torch.no_grad():
            arrays = self._gradients.take()
            weight = None if self.weight is None else weight_of(self.weight)
            average = AverageCall(arrays, weight, self._wire, tags.PROGRESS, self._gradients.residuals)
            self.loop.average(average)
            self._gradients.give_back()
        self._average = average
        self._seconds = self.loop.now - begin

    # ---- checkpoints ----

    def state_dict(self) -> dict[str, Any]:
        """See Training; with "optimizer"."""
        tensors = copies_of(self._tensors())
        trained = {name for name, _ in self.model.named}
        return {
            "parameters": {name: tensor for name, tensor in tensors.items() if name in trained},
            "momentum": {},
            "model": {name: tensor for name, tensor in tensors.items() if name not in trained},
            "optimizer": copies_of(self._optimizer_tensors()),
            **self._counters(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Training."""
        kinds = {"parameters": Mapping, "model": Mapping, "optimizer": Mapping, "inner_step": int, "outer_step": int}
        check_state(state, kinds)
        check_tensors(state["parameters"], {name for name, _ in self.model.named}, "parameters")
        with torch.no_grad():
            take_copies(self._tensors(), {**state["parameters"], **state["model"]})
        take_copies(self._optimizer_tensors(), state["optimizer"])
        self.take_counters(state)

    # ---- the shared state ----

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**self._wire.settings("wire")}

    def entries(self) -> dict[str, Any]:
        """See SharedTraining."""
        named = self.model.module.named_parameters()
        return self._entries_of([HostTensors((f"model/{name}", p) for name, p in named), self._optimizer_tensors()])

    def whole_state(self) -> tuple[dict[str, Any], Sequence[HostTensors]]:
        """See SharedTraining."""
        tensors = [self._tensors(), self._optimizer_tensors()]
        return self._entries_of(tensors), tensors

    def on_synced(self, state: Mapping[str, Any]) -> None:
        """See SharedTraining."""
        self.take_counters(state)
        self.loop.allocate_samples(self.loop.inner_step)

    def on_fetched(self, state: Mapping[str, Any]) -> None:
        """See SharedTraining."""
        self.take_counters(state)

    def take_counters(self, state: Mapping[str, Any]) -> None:
        """The run's counters are those of a state, or of a checkpoint."""
        self.loop.inner_step, self.loop.outer_step = int(state["inner_step"]), int(state["outer_step"])

    def _counters(self) -> dict[str, Any]:
        return {"inner_step": self.loop.inner_step, "outer_step": self.loop.outer_step}

    def _entries_of(self, tensors: Sequence[HostTensors]) -> dict[str, Any]:
        entries = self._counters()
        for group in tensors:
            group.fetch()
            entries.update(group.arrays)
        return entries

    def _tensors(self) -> HostTensors:
        module = self.model.module
        kept = set(module.state_dict())
        named = [*module.named_parameters(), *module.named_buffers()]
        return HostTensors((f"model/{name}", tensor) for name, tensor in named if name in kept)

    def _optimizer_tensors(self) -> HostTensors:
        self._is_asking = True
        try:
            return HostTensors(
                (f"optimizer/{number}/{name}", tensor)
                for number, optimizer in enumerate(self.model.optimizers)
                for name, tensor in state_of(optimizer).items()
            )
        finally:
            self._is_asking = False


class _Gradients:
    """The gradients of a model as arrays that can be reduced in place: their own memory if they are large, or copies.

    residuals: what rounding has lost of each array; None without error feedback.
    """

    def __init__(self, model: SharedModel, error_feedback: bool) -> None:
        check_types(model.named)
        self._named = model.named
        ends = list(itertools.accumulate(local_of(parameter).numel() for _, parameter in model.named))
        self._parts = [slice(begin, end) for begin, end in zip([0, *ends], ends)]
        self._pinned = model.pinned
        self._copies: Floats | None = None  # of gradients that cannot be reduced where they are
        self._is_large = ends[-1] > pipeline.SMALL and len(ends) < _MOST_TENSORS
        self._copied: list[tuple[Any, Floats]] = []  # gradients, and where their averages are
        residual = zeros(ends[-1], self._pinned) if error_feedback else None
        self.residuals = None if residual is None else [residual]
        if residual is not None and self._is_large:
            self.residuals = [residual[part] for part in self._parts]

    def take(self) -> list[Floats]:
        """The arrays of the present gradients; a gradient that is None becomes zeros."""
        for _, parameter in self._named:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [gradient_of(name, parameter) for name, parameter in self._named]
        lent = borrowable(gradients) if self._is_large else set()
        arrays = []
        self._copied = []
        for gradient, part in zip(gradients, self._parts):
            if id(gradient) in lent and gradient.dtype is torch.float32:
                arrays.append(gradient.view(-1).numpy())
                continue
            if self._copies is None:
                self._copies = zeros(self._parts[-1].stop, self._pinned)
            copy = self._copies[part]
            torch.from_numpy(copy).view(gradient.shape).copy_(gradient)
            self._copied.append((gradient, copy))
            arrays.append(copy)
        return arrays if self._is_large or self._copies is None else [self._copies]

    def give_back(self) -> None:
        """After the average: the gradients have it."""
        for gradient, array in self._copied:
            gradient.copy_(torch.from_numpy(array).view(gradient.shape))
        self._copied = []
