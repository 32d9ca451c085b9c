"""The parameters of a model as native code reads and writes them: in the memory of the host, piece by piece."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .flat import Fragment

_PIECE = 1 << 20  # elements of a copy, about


class HostParameters:
    """The parameters of a fragment, in the order of theta.

    Pieces are the model's own memory where they can be, else copies. These cost memory for a piece, and for the whole
    parameter if it is not contiguous.

    parts: the part of each parameter that lies in this process, with its place in theta.
    can_be_stored: whether all pieces are the model's own memory, and no two parameters share any: what is written into
        a piece is the parameter then.
    """

    def __init__(self, fragment: Fragment) -> None:
        self.parts: Sequence[tuple[Any, slice]] = fragment.parts
        self._begins = [part.start for _, part in self.parts]
        self.can_be_stored = _lie_apart([own for own, _ in self.parts if own.numel()])

    def pieces(self, number: int, multiple: int = 1) -> Iterator[tuple[slice, Any]]:
        """The memory of one parameter, with its place in theta; pieces begin at multiples of so many elements."""
        own, part = self.parts[number]
        if is_lendable(own):
            if own.numel():
                yield part, memory_of(own.view(-1))
            return
        flat = own.reshape(-1)
        step = max(1, _PIECE // multiple) * multiple
        for begin in range(0, flat.numel(), step):
            end = min(begin + step, flat.numel())
            yield slice(part.start + begin, part.start + end), memory_of(flat[begin:end].cpu().contiguous())

    def overlaps(self, piece: slice, reads: bool = True) -> Iterator[tuple[slice, Any]]:
        """What a piece of theta has of each parameter: the place in theta, and its memory; None unless it is read."""
        for own, part in self.parts[max(0, bisect_right(self._begins, piece.start) - 1) :]:
            begin, end = max(part.start, piece.start), min(part.stop, piece.stop)
            if part.start >= piece.stop:
                return
            if begin >= end:
                continue
            place = slice(begin, end)
            yield place, self._range(own, begin - part.start, end - part.start) if reads else None

    def _range(self, own: Any, begin: int, end: int) -> Any:
        return memory_of((own.view(-1) if is_lendable(own) else own.reshape(-1))[begin:end].cpu().contiguous())


def is_lendable(tensor: Any) -> bool:
    """Whether native code can use the memory of a tensor."""
    return bool(tensor.device.type == "cpu" and tensor.is_contiguous())


def memory_of(flat: Any) -> Any:
    """The memory of a contiguous tensor of one dimension on the host, as the array that costs a call least."""
    return flat if flat.dtype is torch.bfloat16 else flat.numpy()  # numpy has no bfloat16


def _lie_apart(tensors: Sequence[Any]) -> bool:
    """Whether tensors can all be lent, and no two share memory."""
    if not all(is_lendable(tensor) for tensor in tensors):
        return False
    ranges = sorted(
        (tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()) for tensor in tensors
    )
    return all(end <= begin for (_, end), (begin, _) in zip(ranges, ranges[1:]))
