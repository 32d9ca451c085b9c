"""All-reduce of tensors in the memory of a CUDA device: through pinned host memory, in pieces, while others are on the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import ArrayError, DeviceArray

if TYPE_CHECKING:
    from ._lockstep import Result, Work
    from .communicator import Communicator

PIECE_BYTES = 16 << 20  # of one call; the copy of a piece takes about a millisecond over PCIe
"""Pieces of a tensor that go as calls of their own, so that copies and network overlap."""


def all_reduce(communicator: Communicator, array: Any, out: Any, residual: Any, options: tuple[Any, ...]) -> Result:
    """The blocking all-reduce of torch tensors on a CUDA device. Raises DeviceArray for what it cannot stage."""
    tensors: list[Any] = list(array) if isinstance(array, (list, tuple)) else [array]
    outs: list[Any] = tensors if out is None else list(out) if isinstance(out, (list, tuple)) else [out]
    if residual is not None:
        raise DeviceArray("residual: error feedback needs arrays in memory of the CPU; pass x.cpu(), and copy the result back")
    for index, tensor in enumerate([*tensors, *outs]):
        if not getattr(tensor, "is_cuda", False):
            raise ArrayError(f"array {index} does not lie on a CUDA device, another one does: arrays of one call lie in one place")
        if not tensor.is_contiguous():
            raise ArrayError(
                f"array {index} of shape {tuple(tensor.shape)}, strides {tensor.stride()} and dtype {tensor.dtype} is not contiguous: "
                "pass x.contiguous(), and copy the result back"
            )
    import torch

    staged = [torch.empty(tensor.numel(), dtype=tensor.dtype, pin_memory=True) for tensor in tensors]
    stream = torch.cuda.Stream(tensors[0].device)
    stream.wait_stream(torch.cuda.current_stream(tensors[0].device))
    while True:
        copied = []
        with torch.cuda.stream(stream):
            for tensor, host in zip(tensors, staged):
                for piece in _pieces(host):
                    host[piece].copy_(tensor.detach().reshape(-1)[piece], non_blocking=True)
                    copied.append((host[piece], stream.record_event()))
        results = _reduce_pieces(communicator, copied, options)
        # A member that is lost between two pieces contributed to the first only. All members see that alike, and begin anew: the
        # device still holds the inputs.
        if len({result.contributors for result in results}) == 1:
            break
    with torch.cuda.stream(stream):
        for target, host in zip(outs, staged):
            target.detach().reshape(-1).copy_(host, non_blocking=True)
    stream.synchronize()  # the pinned memory goes back to its pool
    return results[-1]


def _pieces(host: Any) -> list[slice]:
    step = max(1, PIECE_BYTES // host.element_size())
    return [slice(begin, begin + step) for begin in range(0, host.numel(), step)] or [slice(0, 0)]


def _reduce_pieces(communicator: Communicator, copied: list[tuple[Any, Any]], options: tuple[Any, ...]) -> list[Result]:
    """A call for each piece as soon as it has arrived in host memory. Calls of one tag meet in order."""
    works: list[Work] = []
    try:
        for host, event in copied:
            event.synchronize()
            works.append(communicator._native.all_reduce_async(host, None, None, options))
        return [work.result() for work in works]
    except BaseException:
        for work in works:
            if not work.done():
                work.abort("another piece of the same tensor failed")
        raise
