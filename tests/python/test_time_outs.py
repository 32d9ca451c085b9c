"""A time-out ends a call neither early nor late, whichever peer waits."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Callable

import lockstep
import numpy as np
import pytest
from support import Meeting, Peers

Run = lockstep.Communicator
Wait = Callable[[Run, float, int], object]  # of a communicator, a time-out and a tag

LATE = 0.020  # seconds; on an idle machine
TRIES = 10  # other programs may take the processor in one of them
WORLD = 3
LARGE = 300_000  # elements; a small tensor is sent before its receiver calls


def partner(run: Run) -> lockstep.PeerId:
    return run.members()[(run.rank + 1) % run.world_size]


def awaited(run: Run, timeout: float, tag: int) -> object:
    async def wait() -> object:
        return await run.all_reduce_async(np.ones(100), tag=tag, timeout=timeout)

    return asyncio.run(wait())


WAITS: dict[str, Wait] = {
    "all_reduce": lambda run, timeout, tag: run.all_reduce(np.ones(100), tag=tag, timeout=timeout),
    "all_reduce_async": lambda run, timeout, tag: run.all_reduce_async(np.ones(100), tag=tag, timeout=timeout).wait(),
    "await": awaited,
    "barrier": lambda run, timeout, tag: run.barrier(tag=tag, timeout=timeout),
    "recv": lambda run, timeout, tag: run.recv(np.ones(100), partner(run), tag=tag, timeout=timeout),
    "send": lambda run, timeout, tag: run.send(np.ones(LARGE), partner(run), tag=tag, timeout=timeout),
    "wait_for_world": lambda run, timeout, tag: run.wait_for_world(WORLD + 1, timeout=timeout),
}


def on_time(wait: Callable[[float], object], timeout: float, raises: type[BaseException] = lockstep.TimedOut) -> None:
    """wait(timeout) raises this after that time: never before, and at most LATE after it in one of TRIES."""
    late = []
    for _ in range(TRIES):
        began = time.monotonic()
        with pytest.raises(raises):
            wait(timeout)
        late.append(time.monotonic() - began - timeout)
        assert late[-1] >= 0, f"ended {-late[-1]:.6f} s early"
        if late[-1] <= LATE:
            return
    pytest.fail(f"in each of {TRIES} tries the time-out came more than {LATE} s late: {late}")


@pytest.mark.parametrize("name", list(WAITS))
def test_a_time_out_is_never_early_and_hardly_late(peers: Peers, name: str) -> None:
    meet = Meeting(WORLD)
    tags = itertools.count()  # a call with a tag whose call another peer has ended would end with it

    def main(run: Run, number: int) -> None:
        for waiting in range(WORLD):
            meet()
            if run.rank == waiting:
                on_time(lambda timeout: WAITS[name](run, timeout, next(tags)), 0.05)
        meet()

    peers(WORLD, main)


def test_a_connect_times_out_on_time(coordinator: lockstep.Coordinator) -> None:
    def connect(timeout: float) -> None:
        lockstep.connect(coordinator.address, founders=2, listen_host="127.0.0.1", timeout=timeout)

    on_time(connect, 0.1)


def test_a_wait_for_a_work_returns_on_time(peers: Peers) -> None:
    """wait(timeout) of a Work is the caller's own patience: the call goes on."""
    meet = Meeting(WORLD)

    def main(run: Run, number: int) -> None:
        for waiting in range(WORLD):
            meet()
            if run.rank == waiting:
                work = run.barrier_async(tag=waiting)
                on_time(work.wait, 0.05, lockstep.WaitTimedOut)
                assert not work.done()
            meet()
            if run.rank != waiting:
                run.barrier(tag=waiting)
            else:
                work.wait()

    peers(WORLD, main)
