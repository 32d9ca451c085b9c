"""All-reduce of tensors in the memory of a CUDA device.

Copies the tensors in pieces through pinned host memory, so that copies and network transfers overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ._call_options import AllReduceOptions
from ._lockstep import Communicator, Result, Work
from .errors import ArrayError, DeviceArray, InvalidArgument

PIECE_BYTES = 16 << 20  # the copy of a piece takes about a millisecond over PCIe
"""Size of a piece. Each piece is its own call, so that copies and network transfers overlap. Equal on all peers."""

MOST_IN_FLIGHT = 16


CUDA_DEVICE = 2
"""kDLCUDA of DLPack."""


def is_on_device(array: Any) -> bool:
    """Whether the array, or the first of several, lies in the memory of a CUDA device."""
    first = array[0] if isinstance(array, (list, tuple)) and array else array
    on_device = getattr(first, "is_cuda", None)  # torch tells it faster than DLPack
    if isinstance(on_device, bool):
        return on_device
    device = getattr(first, "__dlpack_device__", None)
    return device is not None and bool(device()[0] == CUDA_DEVICE)


def all_reduce(native: Communicator, array: Any, out: Any, residual: Any, options: AllReduceOptions) -> Result:
    """The blocking all-reduce of tensors on a CUDA device. Raises DeviceArray for arrays that cannot be staged."""
    try:
        tensors, outs = _arguments(array, out, residual)
    except Exception as error:
        for _ in range(_pieces(array)):  # each piece is a call of the other members
            native.refuse("all_reduce", options.tag, str(error))
        raise
    import torch

    sizes = [tensor.numel() for tensor in tensors]
    staged = torch.empty(sum(sizes), dtype=tensors[0].dtype, device="cpu", pin_memory=True)
    stream = torch.cuda.Stream(tensors[0].device)
    stream.wait_stream(torch.cuda.current_stream(tensors[0].device))
    while True:
        with torch.cuda.stream(stream):
            pieces = list(_copied(tensors, staged, stream))
        results = _reduce_pieces(native, pieces, options)
        # A member that was lost between two pieces contributed to the first piece only. All members detect this and
        # start again: the device still holds the inputs.
        if len({result.contributors for result in results}) == 1:
            break
    with torch.cuda.stream(stream):
        for target, host in zip(outs, staged.split(sizes)):
            target.detach().view(-1).copy_(host, non_blocking=True)
    stream.synchronize()  # the pinned memory goes back to its pool
    return results[-1]


def _arguments(array: Any, out: Any, residual: Any) -> tuple[list[Any], list[Any]]:
    if residual is not None:
        raise DeviceArray(
            "residual: error feedback needs arrays in memory of the CPU; pass x.cpu(), and copy the result back"
        )
    tensors = _tensors(array, "array")
    outs = tensors if out is None else _tensors(out, "out")
    _refuse_immutable(*((array, "array") if out is None else (out, "out")))
    _check(tensors, outs)
    return tensors, outs


def _pieces(array: Any) -> int:
    """The number of calls for these arrays, as far as their sizes are known."""
    many = array if isinstance(array, (list, tuple)) else [array]
    size = sum(getattr(one, "nbytes", 0) for one in many)
    return max(1, -(-size // PIECE_BYTES))


def _tensors(given: Any, argument: str) -> list[Any]:
    """The arrays as torch tensors that share their memory."""
    import torch

    many = list(given) if isinstance(given, (list, tuple)) else [given]
    tensors = [one if isinstance(one, torch.Tensor) else torch.from_dlpack(one) for one in many]
    for index, tensor in enumerate(tensors):
        name = f"{argument}[{index}]" if isinstance(given, (list, tuple)) else argument
        described = f"{name} of shape {tuple(tensor.shape)}, strides {tensor.stride()} and dtype {tensor.dtype}"
        if not tensor.is_cuda:
            raise ArrayError(
                f"{described} is in memory of the CPU, another array of the call on a CUDA device: "
                "pass all arrays on one device"
            )
        if not tensor.is_contiguous():
            raise ArrayError(f"{described} is not contiguous: pass x.contiguous(), and copy the result back")
        if tensor.dtype != tensors[0].dtype:
            raise ArrayError(
                f"{described}: {argument}[0] has dtype {tensors[0].dtype}, and arrays of one call have one dtype"
            )
        if tensor.device != tensors[0].device:
            raise ArrayError(f"{described} is on {tensor.device}, {argument}[0] on {tensors[0].device}: use one device")
    return tensors


def _refuse_immutable(given: Any, argument: str) -> None:
    """Arrays of JAX are immutable, and DLPack would hand out their memory without a word."""
    for one in given if isinstance(given, (list, tuple)) else [given]:
        if type(one).__module__.partition(".")[0] in ("jax", "jaxlib"):
            raise ArrayError(
                f"{argument}: an array of JAX of shape {tuple(one.shape)} and dtype {one.dtype} is read-only, and the "
                "call writes to it: pass `out`, for example torch.empty(x.shape, device='cuda')"
            )


def _check(tensors: Sequence[Any], outs: Sequence[Any]) -> None:
    if len(outs) != len(tensors):
        raise InvalidArgument(f"out holds {len(outs)} arrays, array holds {len(tensors)}: give one for each")
    for tensor, out in zip(tensors, outs):
        if (out.numel(), out.dtype, out.device) != (tensor.numel(), tensor.dtype, tensor.device):
            raise InvalidArgument(
                f"out has {out.numel()} elements of {out.dtype} on {out.device}, array has {tensor.numel()} elements "
                f"of {tensor.dtype} on {tensor.device}: they must be equal"
            )


def _copied(tensors: Sequence[Any], staged: Any, stream: Any) -> Iterator[tuple[Any, Any]]:
    """Copies tensors into host memory, one after another. Yields each piece with the event that ends its copy."""
    step = max(1, PIECE_BYTES // staged.element_size())
    begin = offset = 0
    for tensor in tensors:
        flat = tensor.detach().view(-1)
        place = 0
        while place < flat.numel():
            count = min(begin + step - offset, flat.numel() - place)
            staged[offset : offset + count].copy_(flat[place : place + count], non_blocking=True)
            offset += count
            place += count
            if offset == begin + step:
                yield staged[begin:offset], stream.record_event()
                begin = offset
    if begin < offset or offset == 0:
        yield staged[begin:offset], stream.record_event()


def _reduce_pieces(native: Communicator, pieces: Sequence[tuple[Any, Any]], options: AllReduceOptions) -> list[Result]:
    """Starts the call of each piece as soon as the piece is in host memory. Calls of one tag meet in order.

    Starts all calls, also after a failure, because other peers count the calls of the tag. Raises the first failure.
    """
    works: list[Work] = []
    failure: BaseException | None = None
    for host, event in pieces:
        try:
            event.synchronize()
            if failure is None and len(works) >= MOST_IN_FLIGHT:
                works[len(works) - MOST_IN_FLIGHT].wait()
        except BaseException as error:  # a call that failed, or Ctrl-C
            failure = error
        work = native.all_reduce_async(host, None, None, options)
        if failure is not None:
            work.abort("another piece of the same tensors failed")
        works.append(work)
    try:
        if failure is None:
            return [work.wait() for work in works]
    except BaseException as error:
        failure = error
    for work in works:
        if not work.done():
            work.abort("another piece of the same tensors failed")
    assert failure is not None
    raise failure
