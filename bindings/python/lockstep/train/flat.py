"""Tensors of a model as arrays in the memory of the host: flat float32 fragments, and copies of what cannot be lent."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import _lockstep as native
from .arrays import Floats, blocks, exact, host_memory, zeros
from .outer import SGD, Nesterov, OuterOptimizer, steps_into
from .sharding import local_of

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


class Scratch:
    """Memory for the gradients of fragments of which one at a time needs it; as large as the largest of them."""

    def __init__(self) -> None:
        self._count = 0
        self._array: Floats | None = None

    def reserve(self, count: int) -> None:
        """A fragment has so many elements."""
        self._count = max(self._count, count)

    def array(self, count: int, pinned: bool) -> Floats:
        """An array of so many elements, with any values; the same memory each time."""
        if self._array is None or self._array.size < count:
            self._array = zeros(max(self._count, count), pinned)
        return self._array[:count]


class Fragment:
    """Some parameters of a model, their shared copy, and what the outer optimizer keeps for them.

    theta: the shared parameters, float32, one dimension, in the order of the names; equal on all peers.
    momentum: of the outer optimizer, as large as theta; None if it has none; equal on all peers.
    gradient: this peer's progress, old minus new parameters; after a reduction the average of all peers' progress. Its
        memory, as large as theta, is taken when it is used first; a step in pieces uses none.
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
        scratch: Scratch | None = None,
    ) -> None:
        check_types(named)
        self._parts: list[tuple[str, Any, slice]] = []
        count = 0
        for name, parameter in named:
            size = local_of(parameter).numel()
            self._parts.append((name, parameter, slice(count, count + size)))
            count += size
        self._pinned = pinned = any(parameter.device.type == "cuda" for _, parameter in named)
        self._outer = outer
        self._scratch = Scratch() if scratch is None else scratch
        self._scratch.reserve(count)
        self._gradient: Floats | None = None
        self.theta = zeros(count, pinned)
        self.momentum: Floats | None = zeros(count, pinned) if outer.has_momentum else None
        self.residual: Floats | None = zeros(count, pinned) if error_feedback else None
        self.begin: Floats | None = zeros(count, pinned) if keeps_begin else None

    @property
    def gradient(self) -> Floats:
        """See the class."""
        if self._gradient is None:
            self._gradient = self._scratch.array(self.theta.size, self._pinned)
        return self._gradient

    @gradient.setter
    def gradient(self, array: Floats) -> None:
        self._gradient = array

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
        for _, parameter, part in self._parts:
            own = local_of(parameter).detach()
            if own.device.type != "cpu" and own.dtype is torch.float32:
                _as_tensor(self.gradient[part], parameter).copy_(own)
                native.difference(self.gradient[part], begin[part], self.gradient[part])
            else:
                native.difference(self.gradient[part], begin[part], _flat(own))

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
        if alpha == 0:
            self.store(self.theta)
            return
        own, shared = float(np.float32(alpha)), float(np.float32(1 - alpha))
        tensors = [local_of(parameter).detach() for _, parameter, _ in self._parts]
        lent = borrowable(tensors)
        flats = [_flat(one if id(one) in lent else one.clone(memory_format=torch.contiguous_format)) for one in tensors]
        for tensor, flat, (_, _, part) in zip(tensors, flats, self._parts):
            native.mix(flat, self.theta[part], own, shared)
            if id(tensor) not in lent:
                tensor.copy_(torch.as_tensor(flat, device="cpu").view(tensor.shape))

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

    def borrow(self) -> Borrowed:
        """The model's parameters, for an outer step in pieces."""
        outer = steps_into(self._outer)
        if outer is None:
            raise ValueError(f"outer is {self._outer!r}; allowed: one that steps in native code")
        rows: list[_Row] = []
        owns = [local_of(parameter).detach() for _, parameter, _ in self._parts]
        lent = borrowable(owns)
        for own, (_, _, part) in zip(owns, self._parts):
            if own.numel():
                now = _flat(own) if id(own) in lent else _flat(own.clone(memory_format=torch.contiguous_format))
                average = now if own.dtype is torch.float32 else self.gradient[part]
                rows.append(_Row(part, own, now, average, id(own) in lent))
        return Borrowed(self, outer, rows)

    def entries(self) -> dict[str, Floats]:
        """The arrays of the shared state, by name; each parameter has its own."""
        arrays = {f"parameters/{name}": self.theta[part] for name, _, part in self._parts if part.start < part.stop}
        if self.momentum is not None:
            for name, _, part in self._parts:
                if part.start < part.stop:
                    arrays[f"momentum/{name}"] = self.momentum[part]
        return arrays

    @property
    def parts(self) -> list[tuple[Any, slice]]:
        """The part of each parameter that lies in this process, with its place in theta."""
        return [(local_of(parameter).detach(), part) for _, parameter, part in self._parts]

    @property
    def gradients(self) -> list[Any]:
        """The gradients of these parts; None where there is none. Raises TypeError for a sparse one."""
        return [None if one.grad is None else gradient_of(name, one).detach() for name, one, _ in self._parts]

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


@dataclass(frozen=True)
class _Row:
    """A parameter of a borrowed model.

    part: its place in theta. own: its part in this process. now: what the model holds, flat, in the memory of the host.
    average: float32, where the average of all peers' progress goes; may be the memory of `now`.
    is_lent: whether `now` is the memory of the model itself.
    """

    part: slice
    own: Any
    now: Any
    average: Floats
    is_lent: bool


class Borrowed:
    """The parameters of a model during an outer step in pieces, which needs no memory of their size.

    Where parameters are float32 and lie in the memory of the host, each other's apart, the averages take their place
    until the end of the step, when theta and momentum change. So until then an outer step may fail: restore().
    """

    def __init__(self, fragment: Fragment, outer: SGD | Nesterov, rows: list[_Row]) -> None:
        self._fragment = fragment
        self._outer = outer
        self._rows = rows
        self._begins = [row.part.start for row in rows]

    def measure(self, into: Floats, piece: slice) -> None:
        """This peer's progress in a piece of the parameters: theta minus what they are now."""
        theta = self._fragment.theta
        for row, of_row, of_piece in self._overlaps(piece):
            of_theta = slice(piece.start + of_piece.start, piece.start + of_piece.stop)
            native.difference(into[of_piece], theta[of_theta], row.now[of_row])

    def put(self, average: Floats, piece: slice) -> None:
        """Keeps the average of a piece; the progress of this peer is gone there."""
        for row, of_row, of_piece in self._overlaps(piece):
            np.copyto(row.average[of_row], average[of_piece])

    def step(self) -> None:
        """The outer step, along the averages of all pieces. The model has the shared parameters then."""
        theta, momentum = self._fragment.theta, self._fragment.momentum
        for row in self._rows:
            part = row.part
            model = row.now if row.is_lent else None
            self._outer.step_into(theta[part], None if momentum is None else momentum[part], row.average, model)
            if not row.is_lent:
                row.own.copy_(torch.from_numpy(theta[part]).view(row.own.shape))

    def restore(self) -> None:
        """The model takes the shared parameters in place of averages."""
        self._fragment.store(self._fragment.theta)

    def _overlaps(self, piece: slice) -> Iterator[tuple[_Row, slice, slice]]:
        """The rows that share elements with a piece: which of the row, and which of the piece."""
        number = bisect_right(self._begins, piece.start) - 1
        for row in self._rows[number:]:
            begin, end = max(row.part.start, piece.start), min(row.part.stop, piece.stop)
            if begin >= end:
                return
            at, place = begin - row.part.start, begin - piece.start
            yield row, slice(at, at + end - begin), slice(place, place + end - begin)


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
            memory = own if usable else host_memory(own.shape, own.dtype)
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


def _flat(own: Any) -> Any:
    """A tensor's elements in one dimension, in the memory of the host: its own memory where it can be."""
    flat = own.cpu().contiguous().view(-1)
    return flat if flat.dtype is torch.bfloat16 else flat.numpy()  # numpy has no bfloat16


def borrowable(owns: Sequence[Any]) -> set[int]:
    """The ids of the tensors whose memory can be borrowed: of the host, contiguous, and of no other tensor as well."""
    lent: set[int] = set()
    last: Any = None
    end = 0
    for own in sorted((own for own in owns if own.numel()), key=lambda own: int(own.data_ptr())):
        if own.device.type != "cpu":
            continue
        if own.data_ptr() < end:
            lent.discard(id(last))
        elif own.is_contiguous():
            lent.add(id(own))
        extent = sum((size - 1) * stride for size, stride in zip(own.shape, own.stride())) + 1
        if own.data_ptr() + extent * own.element_size() > end:
            last, end = own, own.data_ptr() + extent * own.element_size()
    return lent


def _as_tensor(array: Floats, parameter: Any) -> Any:
    """A tensor in the memory of an array, in the shape of the part of a parameter that lies in this process."""
    return torch.from_numpy(array).view(local_of(parameter).shape)
