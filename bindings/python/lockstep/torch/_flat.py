"""Tensors of a model as arrays in the memory of the host: flat float32 fragments, and copies of what cannot be lent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from ._outer import Floats, OuterOptimizer, blocks, exact
from ._replica import local_of

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def check_types(named: Sequence[tuple[str, Any]]) -> None:
    """Raises TypeError for a parameter that float32 does not hold."""
    for name, parameter in named:
        if parameter.dtype not in _DTYPES:
            allowed = ", ".join(str(dtype) for dtype in _DTYPES)
            raise TypeError(f"parameter {name} is of {parameter.dtype}; allowed: {allowed}")


def gradient_of(name: str, parameter: Any) -> Any:
    """The part of the gradient that lies in this process. Raises TypeError for a sparse one."""
    gradient = local_of(parameter.grad)
    if gradient.layout is not torch.strided:
        raise TypeError(f"the gradient of {name} is {gradient.layout}; allowed: a dense one (sparse=False)")
    return gradient


def zeros(count: int, pinned: bool) -> Floats:
    """An array of zeros whose memory stays where it is."""
    array: Floats = torch.zeros(count, dtype=torch.float32, pin_memory=pinned).numpy()
    return array


class Fragment:
    """Some parameters of a model, their shared copy, and what the outer optimizer keeps for them.

    theta: the shared parameters, float32, one dimension, in the order of the names; equal on all peers.
    momentum: of the outer optimizer, as large as theta; None if it has none; equal on all peers.
    gradient: this peer's progress, old minus new parameters; after a reduction the average of all peers' progress.
    residual: what rounding has lost so far; None without error feedback.
    begin: what this peer's parameters were when it began to measure its progress; None if that is theta.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, Any]],
        outer: OuterOptimizer,
        *,
        error_feedback: bool,
        keeps_begin: bool = False,
    ) -> None:
        check_types(named)
        self._parts: list[tuple[str, Any, slice]] = []
        count = 0
        for name, parameter in named:
            size = local_of(parameter).numel()
            self._parts.append((name, parameter, slice(count, count + size)))
            count += size
        pinned = any(parameter.device.type == "cuda" for _, parameter in named)
        self._outer = outer
        self.theta = zeros(count, pinned)
        self.momentum: Floats | None = zeros(count, pinned) if outer.has_momentum else None
        self.gradient = zeros(count, pinned)
        self.residual: Floats | None = zeros(count, pinned) if error_feedback else None
        self.begin: Floats | None = zeros(count, pinned) if keeps_begin else None

    def load(self) -> None:
        """The shared parameters become those of the model."""
        self.read(self.theta)

    def read(self, target: Floats) -> None:
        """An array like theta takes the parameters of the model."""
        for _, parameter, part in self._parts:
            _as_tensor(target[part], parameter).copy_(local_of(parameter))

    def store(self, source: Floats) -> None:
        """The parameters of the model become those of an array like theta."""
        for _, parameter, part in self._parts:
            local_of(parameter).copy_(_as_tensor(source[part], parameter))

    def measure(self) -> None:
        """Sets the gradient: what the parameters were, minus what they are now."""
        begin = self.theta if self.begin is None else self.begin
        with exact():
            for _, parameter, part in self._parts:
                gradient = _as_tensor(self.gradient[part], parameter)
                gradient.copy_(local_of(parameter))
                old = begin[part]
                if parameter.dtype is not torch.float32:  # what the model held was rounded, too
                    old = torch.from_numpy(old).to(parameter.dtype).float().numpy()
                for piece in blocks(old.size):
                    new = self.gradient[part][piece]
                    np.subtract(old[piece], new, out=new)

    def take_gradients(self) -> None:
        """Sets the gradient: that of the parameters; zeros where there is none."""
        for name, parameter, part in self._parts:
            if parameter.grad is None:
                self.gradient[part].fill(0)
            else:
                _as_tensor(self.gradient[part], parameter).copy_(gradient_of(name, parameter))

    def mix(self, alpha: float) -> None:
        """The model's parameters become alpha times themselves plus 1 - alpha times the shared ones."""
        if alpha == 1:
            return
        if alpha > 0:
            own, shared = np.float32(alpha), np.float32(1 - alpha)
            for _, parameter, part in self._parts:
                _as_tensor(self.gradient[part], parameter).copy_(local_of(parameter))
            with exact():
                for piece in blocks(self.theta.size):
                    mixed = self.gradient[piece]
                    np.multiply(mixed, own, out=mixed)
                    np.add(mixed, self.theta[piece] * shared, out=mixed)
            self.store(self.gradient)
        else:
            self.store(self.theta)

    def begin_at(self, lr: float = 0.0, members: int = 1) -> None:
        """Starts a measurement: the model begins with the shared parameters, less this peer's share of its gradient.

        The share is lr * (gradient / members), each operation rounded; with lr 0 there is none.
        """
        if self.begin is None:
            raise ValueError("this fragment measures from theta")
        if lr:
            with exact():
                for piece in blocks(self.theta.size):
                    share = self.begin[piece]
                    np.divide(self.gradient[piece], np.float32(members), out=share)
                    np.multiply(share, np.float32(lr), out=share)
                    np.subtract(self.theta[piece], share, out=share)
        else:
            np.copyto(self.begin, self.theta)
        self.store(self.begin)

    def step(self) -> None:
        """Applies the outer optimizer; the gradient is used up."""
        self._outer.step(self.theta, self.momentum, self.gradient)

    def entries(self) -> dict[str, Floats]:
        """The arrays of the shared state, by name; each parameter has its own."""
        arrays = {f"parameters/{name}": self.theta[part] for name, _, part in self._parts if part.start < part.stop}
        if self.momentum is not None:
            for name, _, part in self._parts:
                if part.start < part.stop:
                    arrays[f"momentum/{name}"] = self.momentum[part]
        return arrays

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the parts of the parameters that lie in this process, in the order of theta."""
        return {name: tuple(local_of(parameter).shape) for name, parameter, _ in self._parts}

    @property
    def names(self) -> set[str]:
        """The names of the parameters."""
        return {name for name, _, _ in self._parts}

    def tensors(self, array: Floats) -> dict[str, Any]:
        """Copies of the parts of an array like theta, by name, in the shape of the parameters of this process."""
        return {name: _as_tensor(array[part], parameter).clone() for name, parameter, part in self._parts}

    def take(self, array: Floats, tensors: Any) -> None:
        """Copies tensors, as tensors() gives them, into an array like theta. Raises KeyError, ValueError."""
        for name, parameter, part in self._parts:
            tensor, own = tensors[name], _as_tensor(array[part], parameter)
            if tensor.shape != own.shape:
                raise ValueError(f"tensor {name} has shape {tuple(tensor.shape)}; allowed: {tuple(own.shape)}")
            own.copy_(tensor)


class HostTensors:
    """Tensors by name, in memory that a call can use: their own, or a copy if they lie elsewhere."""

    def __init__(self, named: Iterable[tuple[str, Any]]) -> None:
        self._pairs: list[tuple[Any, Any]] = []
        self.arrays: dict[str, Any] = {}
        for name, tensor in named:
            own = local_of(tensor)
            if not own.numel():
                continue
            usable = own.device.type == "cpu" and own.is_contiguous() and not own.is_complex()
            memory = own if usable else torch.empty(own.shape, dtype=own.dtype)
            if memory is not own:
                self._pairs.append((own, memory))
            self.arrays[name] = torch.view_as_real(memory) if memory.is_complex() else memory

    def fetch(self) -> None:
        """Before a call: copies hold what the tensors hold."""
        for own, memory in self._pairs:
            memory.copy_(own)

    def give_back(self) -> None:
        """After a call: the tensors hold what the copies hold."""
        for own, memory in self._pairs:
            own.copy_(memory)


def _as_tensor(array: Floats, parameter: Any) -> Any:
    """A tensor in the memory of an array, in the shape of the part of a parameter that lies in this process."""
    return torch.from_numpy(array).view(local_of(parameter).shape)
