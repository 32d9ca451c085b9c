"""Tensors of torch as arrays of a call."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.distributed as dist

from ..train.arrays import host_memory
from ..types import OpName


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction of torch.

    op: the operation's name in Lockstep.
    factor: what each contribution is multiplied by first; None: nothing.
    """

    op: OpName
    factor: float | None = None


_REDUCTIONS: tuple[tuple[Any, Reduction], ...] = (
    (dist.ReduceOp.SUM, Reduction("sum")),
    (dist.ReduceOp.AVG, Reduction("avg")),
    (dist.ReduceOp.PRODUCT, Reduction("prod")),
    (dist.ReduceOp.MIN, Reduction("min")),
    (dist.ReduceOp.MAX, Reduction("max")),
    (dist.ReduceOp.BAND, Reduction("band")),
    (dist.ReduceOp.BOR, Reduction("bor")),
    (dist.ReduceOp.BXOR, Reduction("bxor")),
)


def reduction_of(op: Any) -> Reduction:
    """The reduction that torch names."""
    for torchs, reduction in _REDUCTIONS:
        if op == torchs:
            return reduction
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
