"""Arrays in the memory of the host: their types, memory for them, and exact arithmetic on them."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

_BLOCK = 1 << 16  # elements that one pass changes: they stay in the cache between its operations
_HUGE = 1 << 20  # elements from which on an array has pages of its own


def host_memory(shape: Any, dtype: torch.dtype, pinned: bool = False) -> torch.Tensor:
    """A tensor of any values in the memory of the host, whatever the default device is. pinned: a device copies it."""
    return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=pinned)


def zeros(count: int, pinned: bool) -> Floats:
    """An array of zeros whose memory stays where it is; in huge pages where the system has them."""
    array: Floats
    if pinned or count < _HUGE:
        array = torch.zeros(count, dtype=torch.float32, device="cpu", pin_memory=pinned).numpy()
    else:
        pages = mmap.mmap(-1, 4 * count, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        with contextlib.suppress(AttributeError, OSError):  # an older system
            pages.madvise(mmap.MADV_HUGEPAGE)
        array = np.frombuffer(pages, np.float32)
    return array


def blocks(count: int) -> Iterator[slice]:
    """Slices that tile `count` elements."""
    for begin in range(0, count, _BLOCK):
        yield slice(begin, min(begin + _BLOCK, count))


@contextlib.contextmanager
def exact() -> Iterator[None]:
    """Arithmetic of this thread keeps denormal numbers, also after torch.set_flush_denormal(True)."""
    least: Any = np.full(1, np.finfo(np.float32).tiny, np.float32)
    flushes = not (least * np.float32(0.5)).view(np.uint32)[0]
    if flushes:
        torch.set_flush_denormal(False)
    try:
        with np.errstate(all="ignore"):  # a run that diverges says so by its loss
            yield
    finally:
        if flushes:
            torch.set_flush_denormal(True)
