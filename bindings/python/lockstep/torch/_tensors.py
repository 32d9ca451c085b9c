"""Tensors of torch as arrays of a call."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Callable

import torch
import torch.distributed as dist

from .._lockstep import Result
from ..train.arrays import host_memory
from ..types import OpName
from ._work import Finish, Tensors


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction of torch.

    op: the operation's name in Lockstep.
    factor: what each contribution is multiplied by first; None: nothing.
    """

    op: OpName
    factor: float | None = None


_OPS: tuple[tuple[Any, OpName], ...] = (
    (dist.ReduceOp.SUM, "sum"),
    (dist.ReduceOp.AVG, "avg"),
    (dist.ReduceOp.PRODUCT, "prod"),
    (dist.ReduceOp.MIN, "min"),
    (dist.ReduceOp.MAX, "max"),
    (dist.ReduceOp.BAND, "band"),
    (dist.ReduceOp.BOR, "bor"),
    (dist.ReduceOp.BXOR, "bxor"),
)


def plain_op(op: Any) -> OpName | None:
    """The operation that torch names, if it is one without a factor."""
    for torchs, name in _OPS:
        if op == torchs:
            return name
    return None


def reduction_of(op: Any) -> Reduction:
    """The reduction that torch names."""
    plain = plain_op(op)
    if plain is not None:
        return Reduction(plain)
    if op == dist.ReduceOp.PREMUL_SUM:
        _, factor = op.__getstate__()
        return Reduction("sum", float(factor))
    raise NotImplementedError(f"Lockstep has no reduction {op}")


_REDUCED = (
    *(torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64),
    *(torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
_COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
_QUANTIZED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


def check_reduced(tensor: torch.Tensor) -> None:
    """Raises TypeError for a tensor whose elements Lockstep cannot reduce."""
    if tensor.dtype not in _REDUCED and tensor.dtype not in _COMPLEX:
        raise TypeError(
            f"a tensor of {tensor.dtype}, which cannot be reduced; allowed: bool, integers of 8 to 64 bits, float16, "
            "bfloat16, float32, float64, complex numbers; x.to(torch.float32) makes one"
        )


def moved(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor that is moved only: elements of a type that Lockstep or torch cannot copy are integers of their size.

    Raises TypeError for a quantized tensor: its scale would stay behind.
    """
    if tensor.dtype in _QUANTIZED:
        raise TypeError(
            f"a quantized tensor, of {tensor.dtype}; allowed: any other dtype: move x.int_repr(), x.q_scale() and "
            "x.q_zero_point(), or x.dequantize()"
        )
    known = tensor.dtype in _REDUCED or tensor.dtype in _COMPLEX
    return tensor if known else tensor.view(_INTEGERS[tensor.element_size()])


class Staged:
    """A tensor, or a copy of it that a call can use: in the memory of the CPU, contiguous, without complex numbers.

    reduction: what is done with the elements; None: they are moved only.
    reads: whether the call reads the tensor; otherwise the copy begins undefined.
    memory: the array for the call.
    Raises TypeError for a tensor that the call cannot take.
    """

    def __init__(self, tensor: torch.Tensor, reduction: Reduction | None = None, reads: bool = True) -> None:
        if tensor.layout is not torch.strided:
            raise TypeError(f"a tensor of layout {tensor.layout}; allowed: dense tensors; x.to_dense() makes one")
        if reduction is not None:
            check_reduced(tensor)
        own = tensor.detach() if reduction is not None else moved(tensor.detach())
        self._target = own
        multiplies = reads and reduction is not None and reduction.factor is not None
        usable = own.device.type == "cpu" and own.is_contiguous() and not own.is_conj() and not own.is_neg()
        if usable and not multiplies:
            memory = own
        else:
            memory = host_memory(own.shape, own.dtype, own.device.type == "cuda")
            if reads:
                memory.copy_(own)
            if multiplies and reduction is not None:
                memory.mul_(reduction.factor)
        self._whole = memory
        if memory.is_complex() and reduction is not None:
            if reduction.op not in ("sum", "avg"):
                raise TypeError(f"complex numbers have no {reduction.op}; allowed: SUM and AVG")
            memory = torch.view_as_real(memory)
        self.memory = memory

    def give_back(self) -> None:
        """After the call: the tensor holds what the call has left in the array."""
        if self._whole is not self._target:
            self._target.copy_(self._whole)


class Blocks:
    """Tensors that get the blocks of a call.

    sizes: of the blocks, in bytes.
    memory: where the call writes the blocks, one after the other, as bytes.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._targets = [moved(tensor.detach()) for tensor in tensors]
        self.sizes = [target.numel() * target.element_size() for target in self._targets]
        self.memory = host_memory(sum(self.sizes), torch.uint8)

    def give_back(self) -> None:
        """After the call: the tensors hold the blocks."""
        for target, block in zip(self._targets, self.memory.split(self.sizes)):
            if block.numel():
                target.copy_(block.view(target.dtype).view(target.shape))


def giving_back(staged: Sequence[Staged | Blocks]) -> Finish:
    """What gives back all of them when calls have ended."""

    def finish(_: Sequence[Result]) -> None:
        for one in staged:
            one.give_back()

    return finish


def filling(
    blocks: Sequence[Blocks], operation: str, sent: Callable[[Result], Sequence[int]] = lambda result: result.blocks
) -> Finish:
    """What gives back the blocks of each call. Raises ValueError if the ranks have not sent blocks of these sizes."""

    def finish(results: Sequence[Result]) -> None:
        for result, one in zip(results, blocks):
            sizes = list(sent(result))
            if sizes != one.sizes:
                raise ValueError(f"{operation}: the ranks sent {sizes} bytes, and the outputs have {one.sizes}")
            one.give_back()

    return finish


def by_dtype(staged: Sequence[Staged]) -> Iterable[list[torch.Tensor]]:
    """The memories of each dtype."""
    memories: dict[torch.dtype, list[torch.Tensor]] = {}
    for one in staged:
        memories.setdefault(one.memory.dtype, []).append(one.memory)
    return memories.values()


def rows_for(size: int, tensor: torch.Tensor, sizes: Sequence[int], what: str) -> list[torch.Tensor]:
    """The rows of a tensor for each of `size` ranks. sizes: how many rows for each; none: equally many."""
    if tensor.numel() == 0:
        return [tensor.new_empty(0)] * size
    rows = tensor.shape[0]
    if sizes and (len(sizes) != size or sum(sizes) != rows):
        raise ValueError(
            f"the split sizes of the {what} are {list(sizes)}; allowed: {size} sizes that add up to its {rows} rows"
        )
    if not sizes and rows % size != 0:
        raise ValueError(f"the {what} has {rows} rows, which are no equal parts for {size} ranks: give split sizes")
    return list(tensor.split(list(sizes) if sizes else rows // size))


def array_of(memory: torch.Tensor) -> Any:
    """The memory of a Staged as the array that costs a call least: numpy's, where numpy has its type."""
    try:
        return memory.numpy()
    except (RuntimeError, TypeError):  # no numpy; a type that numpy lacks, such as bfloat16
        return memory


def plain_array(tensor: torch.Tensor) -> Any:
    """The memory of a tensor that a reduction can use without Staged, as numpy's array; None for other tensors."""
    try:
        return tensor.numpy() if tensor.is_contiguous() and not tensor.is_complex() else None
    except (RuntimeError, TypeError):  # also: on a device, sparse, requires a gradient, negated later
        return None


def transfer_array(memory: torch.Tensor) -> Any:
    """The memory of a Staged as the array of a send or a recv; complex numbers as bytes."""
    return as_bytes(memory) if memory.is_complex() else array_of(memory)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor of any type."""
    return tensor.reshape(-1).view(torch.uint8)
