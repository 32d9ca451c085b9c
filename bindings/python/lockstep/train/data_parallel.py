"""Data parallel training: every step averages the gradients of all peers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..state import State
from ..types import WireFormat, WireFormatName
from . import pipeline
from .arrays import Floats, zeros
from .checked import check_state, check_tensors, sampler_states_of, weight_of
from .flat import HostTensors, borrowable, check_types, gradient_of
from .optimizer_state import needs_closure, state_of
from .sharding import local_of
from .strategy import GRADIENT_TAG, Reduction, Run, StepInfo, Strategy, Wire, copies_of, take_copies

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
    The other arguments are those of LocalSGD. A gradient that is None counts as zeros, and is set to the average.
    The gradients of a model above 8 MiB of float32 are reduced where they are, if they are float32, contiguous, in the
    memory of the host and share no memory; others are copied there. The all-reduce needs memory for one copy of its
    input.
    Raises ValueError, TypeError.
    """

    def __init__(
        self,
        run: Run,
        model: Any,
        inner: Any,
        *,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 100,
    ) -> None:
        super().__init__(run, model, inner, minimum_world=minimum_world, check_every=check_every)
        for optimizer in self._optimizers:
            if needs_closure(optimizer):
                raise ValueError(
                    f"{type(optimizer).__name__} evaluates the loss several times in a step, and DataParallel averages "
                    "one gradient; allowed: an optimizer whose step() needs no closure, or another strategy"
                )
        self.weight: float | None = None
        self._wire = Wire.of(wire)
        check_types(self._named)
        ends = list(itertools.accumulate(local_of(parameter).numel() for _, parameter in self._named))
        self._parts = [slice(begin, end) for begin, end in zip([0, *ends], ends)]
        self._pinned = any(parameter.device.type == "cuda" for _, parameter in self._named)
        self._copies: Floats | None = None  # of gradients that cannot be reduced where they are
        residual = zeros(ends[-1], self._pinned) if self._wire.error_feedback else None
        self._is_large = ends[-1] > pipeline.SMALL and len(ends) < _MOST_TENSORS
        self._residuals = None if residual is None else [residual]
        if residual is not None and self._is_large:
            self._residuals = [residual[part] for part in self._parts]
        self._reduction: Reduction | None = None
        self._hook: Any = None
        self._is_asking = False  # a step of the inner optimizer is none of the program's: it makes its tensors
        self._seconds = 0.0
        self._synced: list[HostTensors] = []  # what the last sync has shared

    def step(self, weight: float | None = None) -> StepInfo:
        """Ends a step: lets newcomers in. See Strategy.step(). weight: None; set the attribute instead."""
        self._check_entered()
        if weight is not None:
            raise ValueError("the gradients are averaged already: set `weight` before the step of the inner optimizer")
        if self._reduction is None:
            raise RuntimeError("step() comes after the step of the inner optimizer, which has made none")
        reduction, self._reduction = self._reduction, None
        begin = self._now()
        self._inner_step += 1
        self._outer_step += 1
        with torch.no_grad():
            self._average_buffers()
            self._withdraw()
            self._admit(reduction.has_newcomers)
            self._offer()
        seconds, self._seconds = self._seconds + self._now() - begin, 0.0
        return self._info(seconds, True)

    def global_state_dict(self) -> dict[str, Any]:
        """A copy of the shared state, with "optimizer"; see Strategy.global_state_dict()."""
        tensors = copies_of(self._tensors())
        trained = {name for name, _ in self._named}
        return {
            "parameters": {name: tensor for name, tensor in tensors.items() if name in trained},
            "momentum": {},
            "model": {name: tensor for name, tensor in tensors.items() if name not in trained},
            "optimizer": copies_of(self._optimizer_tensors()),
            "inner_step": self._inner_step,
            "outer_step": self._outer_step,
            "samplers": [sampler.state() for sampler in self._samplers],
        }

    def load_global_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a global_state_dict(); see Strategy.load_global_state_dict()."""
        if self._entered:
            raise RuntimeError("load_global_state_dict() comes before the `with` block")
        kinds = {"parameters": Mapping, "model": Mapping, "optimizer": Mapping, "inner_step": int, "outer_step": int}
        check_state(state, kinds)
        check_tensors(state["parameters"], {name for name, _ in self._named}, "parameters")
        with torch.no_grad():
            take_copies(self._tensors(), {**state["parameters"], **state["model"]})
        take_copies(self._optimizer_tensors(), state["optimizer"])
        self._inner_step, self._outer_step = int(state["inner_step"]), int(state["outer_step"])
        self._sampler_states = sampler_states_of(state)

    # ---- the engine ----

    @property
    def _round_steps(self) -> int:
        return 1

    def _tensors(self) -> HostTensors:
        kept = set(self._model.state_dict())
        named = [*self._model.named_parameters(), *self._model.named_buffers()]
        return HostTensors((f"model/{name}", tensor) for name, tensor in named if name in kept)

    def _optimizer_tensors(self) -> HostTensors:
        self._is_asking = True
        try:
            return HostTensors(
                (f"optimizer/{number}/{name}", tensor)
                for number, optimizer in enumerate(self._optimizers)
                for name, tensor in state_of(optimizer).items()
            )
        finally:
            self._is_asking = False

    def _enter(self) -> None:
        self._reduction = None
        self._synced = []
        self._join()
        self._sync()
        self._hook = self._optimizers[0].register_step_pre_hook(self._average)

    def _finish(self) -> None:
        """The model has the shared parameters at any time."""

    def _detach(self) -> None:
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _entries_of(self, tensors: Sequence[HostTensors]) -> dict[str, Any]:
        entries: dict[str, Any] = {"inner_step": self._inner_step, "outer_step": self._outer_step}
        for group in tensors:
            group.fetch()
            entries.update(group.arrays)
        return entries

    def _whole_state(self) -> tuple[State, Sequence[HostTensors]]:
        tensors = self._synced or [self._tensors(), self._optimizer_tensors()]
        entries = {**self._entries_of(tensors), **self._sampler_entries()}
        return State(entries, revision=self._outer_step), tensors

    def _take_whole_state(self, state: State) -> None:
        self._inner_step, self._outer_step = int(state["inner_step"]), int(state["outer_step"])

    def _sync(self) -> None:
        tensors = self._synced = [self._tensors(), self._optimizer_tensors()]
        entries = self._entries_of(tensors)
        state = self._sync_state(entries, self._wire.settings("wire"), revision=self._outer_step)
        for group in tensors:
            group.give_back()
        self._inner_step, self._outer_step = int(state["inner_step"]), int(state["outer_step"])
        self._deal(self._inner_step)

    def _shared(self) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for group in (
            HostTensors((f"model/{name}", p) for name, p in self._model.named_parameters()),
            self._optimizer_tensors(),
        ):
            group.fetch()
            entries.update(group.arrays)
        return {**entries, "inner_step": self._inner_step, "outer_step": self._outer_step}

    def _average(self, *_: Any) -> None:
        """Before the step of the inner optimizer: all peers have the average gradient."""
        if self._is_asking:
            return
        if self._reduction is not None:
            raise RuntimeError("the inner optimizer makes a second step; allowed: step() of the strategy after each")
        begin = self._now()
        with torch.no_grad():
            for parameter in [one for _, one in self._named]:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            gradients = [gradient_of(name, parameter) for name, parameter in self._named]
            arrays = self._arrays_of(gradients)
            weight = None if self.weight is None else weight_of(self.weight)
            whole = arrays if self._is_large or self._copies is None else [self._copies]
            reduction = Reduction(whole, weight, GRADIENT_TAG, self._residuals)
            self._begin(reduction, self._wire)
            for gradient, array in zip(gradients, arrays):
                if array.ctypes.data != gradient.data_ptr():
                    gradient.copy_(torch.from_numpy(array).view(gradient.shape))
        self._reduction = reduction
        self._seconds = self._now() - begin

    def _arrays_of(self, gradients: list[Any]) -> list[Floats]:
        """The gradients as arrays that can be reduced in place: their own memory if they are large, or copies."""
        lent = borrowable(gradients) if self._is_large else set()
        arrays = []
        for gradient, part in zip(gradients, self._parts):
            if id(gradient) in lent and gradient.dtype is torch.float32:
                arrays.append(gradient.view(-1).numpy())
                continue
            if self._copies is None:
                self._copies = zeros(self._parts[-1].stop, self._pinned)
            arrays.append(self._copies[part])
            torch.from_numpy(arrays[-1]).view(gradient.shape).copy_(gradient)
        return arrays
