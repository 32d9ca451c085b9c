"""Every dtype of torch, and what a process group of Lockstep makes of it.

usage: python torch_dtypes.py <rank> <size> <init method>
"""

from __future__ import annotations

import ctypes
import datetime
import sys
import warnings
from typing import Any, Callable

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")  # torch warns of types that it will remove

REDUCED = (
    *(torch.bool, torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64),
    *(torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64),
)
"""Both APIs reduce these."""
COMPLEX = (torch.complex32, torch.complex64, torch.complex128)
"""The backend of torch reduces these, too."""
QUANTIZED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)
"""Neither reduced nor moved: their scale would stay behind."""
ALL = sorted({one for name in dir(torch) if isinstance(one := getattr(torch, name), torch.dtype)}, key=str)
"""All others are moved, and not reduced."""

BYTES = 16


def tensor_of(dtype: torch.dtype, rank: int) -> Any:
    """A tensor of 16 bytes or more; for each rank another."""
    if dtype in QUANTIZED:
        return quantized(dtype, 4, 0.5 + rank)
    if dtype in REDUCED:
        return (torch.arange(16) % 3 + rank).to(dtype)
    if dtype in COMPLEX:
        return torch.complex(torch.arange(4.0), torch.full((4,), 1.0 + rank)).to(dtype)
    return (torch.arange(BYTES, dtype=torch.uint8) + 16 * rank).view(dtype)


def quantized(dtype: torch.dtype, rows: int, scale: float) -> Any:
    if dtype in (torch.quint4x2, torch.quint2x4):
        return torch.quantize_per_channel(torch.ones(rows, 4), torch.full((rows,), scale), torch.zeros(rows), 0, dtype)
    return torch.quantize_per_tensor(torch.ones(rows, 4), scale, 0, dtype)


def sum_of(dtype: torch.dtype, size: int) -> Any:
    """The sum of tensor_of() over the ranks; of bool, whether any is true."""
    if dtype is torch.bool:
        return torch.stack([tensor_of(dtype, rank) for rank in range(size)]).any(0)
    if dtype is torch.complex32:
        return sum(tensor_of(dtype, rank).to(torch.complex64) for rank in range(size)).to(dtype)
    if dtype in COMPLEX or dtype.is_floating_point:
        return sum(tensor_of(dtype, rank) for rank in range(size))
    return sum(tensor_of(dtype, rank).to(torch.int64) for rank in range(size)).to(dtype)


def bytes_of(tensor: Any) -> bytes:
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def blank(dtype: torch.dtype, count: int = 1) -> Any:
    """A tensor with room for `count` tensors, which is zero where torch knows how."""
    like = tensor_of(dtype, 0)
    if dtype in QUANTIZED:
        return quantized(dtype, 4 * count, 0.5)
    return torch.zeros(count * like.numel() * like.element_size(), dtype=torch.uint8).view(dtype)


def root_of(opts: Any, root: int = 0) -> Any:
    opts.rootRank = root
    return opts


def reductions(group: Any, dtype: torch.dtype, rank: int, size: int) -> dict[str, Callable[[], Any]]:
    """Every reduction, by its name. Each returns what must be the sum, or None where this rank gets none."""

    def given() -> Any:
        return tensor_of(dtype, rank)

    def all_reduce(is_async: bool) -> Any:
        x = given()
        work = dist.all_reduce(x, async_op=is_async)
        if is_async:
            work.wait()
        return x

    def coalesced() -> Any:
        x = given()
        group.allreduce_coalesced([x]).wait()
        return x

    def reduce() -> Any:
        x = given()
        dist.reduce(x, 0)
        return x if rank == 0 else None

    def reduce_scatter() -> Any:
        out = blank(dtype)
        dist.reduce_scatter(out, [given() for _ in range(size)])
        return out

    def reduce_scatter_tensor() -> Any:
        out, many = blank(dtype), blank(dtype, size)
        if dtype in REDUCED or dtype in COMPLEX:
            many = torch.cat([given() for _ in range(size)])
        dist.reduce_scatter_tensor(out, many)
        return out

    return {
        "all_reduce": lambda: all_reduce(False),
        "all_reduce, asynchronous": lambda: all_reduce(True),
        "all_reduce_coalesced": coalesced,
        "reduce": reduce,
        "reduce_scatter": reduce_scatter,
        "reduce_scatter_tensor": reduce_scatter_tensor,
    }


def moves(group: Any, dtype: torch.dtype, rank: int, size: int) -> dict[str, Callable[[], Any]]:
    """Every move, by its name. Each returns what must be the tensors of the ranks; None where this rank gets none."""

    def given() -> Any:
        return tensor_of(dtype, rank)

    def broadcast() -> Any:
        x = given()
        dist.broadcast(x, 0)
        return {0: x}

    def all_gather() -> Any:
        out = [blank(dtype) for _ in range(size)]
        dist.all_gather(out, given())
        return dict(enumerate(out))

    def all_gather_into_tensor() -> Any:
        out = blank(dtype, size)
        dist.all_gather_into_tensor(out, given())
        return dict(enumerate(out.chunk(size)))

    def gather() -> Any:
        out = [blank(dtype) for _ in range(size)]
        dist.gather(given(), out if rank == 0 else None, 0)
        return dict(enumerate(out)) if rank == 0 else {}

    def scatter() -> Any:
        out = blank(dtype)
        dist.scatter(out, [tensor_of(dtype, one) for one in range(size)] if rank == 0 else None, 0)
        return {rank: out}

    def all_to_all() -> Any:
        out = [blank(dtype) for _ in range(size)]
        group.alltoall(out, [given() for _ in range(size)]).wait()
        return dict(enumerate(out))

    def send_and_recv() -> Any:
        out = blank(dtype)
        other = (rank + 1) % size
        calls = [lambda: dist.isend(given(), other), lambda: dist.irecv(out, other)]
        for work in [call() for call in calls]:
            work.wait()
        return {other: out}

    return {
        "broadcast": broadcast,
        "all_gather": all_gather,
        "all_gather_into_tensor": all_gather_into_tensor,
        "gather": gather,
        "scatter": scatter,
        "all_to_all": all_to_all,
        "send": send_and_recv,
    }


def must_be_refused(name: str, call: Callable[[], Any], dtype: torch.dtype) -> None:
    try:
        call()
    except Exception as error:
        text = f"{name}: {type(error).__name__}: {error}"
        assert str(dtype) in text, text
        assert "allowed: " in text, text
    else:
        raise AssertionError(f"{name} takes {dtype}")


def main() -> None:
    rank, size, method = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    seconds = datetime.timedelta(seconds=30)
    dist.init_process_group("lockstep", init_method=method, rank=rank, world_size=size, timeout=seconds)
    group = dist.group.WORLD
    for dtype in ALL:
        for name, call in reductions(group, dtype, rank, size).items():
            if dtype in REDUCED or dtype in COMPLEX:
                got = call()
                assert got is None or bytes_of(got) == bytes_of(sum_of(dtype, size)), (name, dtype, got)
            else:
                must_be_refused(name, call, dtype)
        for name, call in moves(group, dtype, rank, size).items():
            if dtype in QUANTIZED:
                must_be_refused(name, call, dtype)
                continue
            for sender, got in call().items():
                assert bytes_of(got) == bytes_of(tensor_of(dtype, sender)), (name, dtype, got)
    print(f"right or refused: {len(ALL)} dtypes", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    import lockstep.torch

    lockstep.torch.register()
    main()
