"""Whether launches wait for room when very many calls are in flight."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ._lockstep import set_no_wait


@contextmanager
def no_wait() -> Iterator[None]:
    """Launches of this thread inside the block fail at once when there is no room for another call.

    65,536 calls of a communicator may be in flight or wait for their turn. Without this block, a further launch blocks
    until a call ends. Inside the block, and in an event loop of asyncio, the launch raises TooManyInFlight; nothing is
    launched then.

        with lockstep.no_wait():
            works = [run.all_reduce_async(array, tag=tag) for tag, array in enumerate(arrays)]
    """
    before = set_no_wait(True)
    try:
        yield
    finally:
        set_no_wait(before)
