"""Programs that end in every way, as processes that end as Python programs do: the interpreter finalizes.

python torch_exits.py <repetitions> <at once> [name]...     # a line of JSON for each end: [name, exit code, output]

Each end is forked from this process, which has imported torch, and goes on behind the loop below as the main program.
It is rank 0 of a group; rank 1 waits until rank 0 has gone. SLOW is inside of torch,
without the GIL, when the interpreter finalizes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
from datetime import timedelta
from typing import Any

import lockstep.torch
import torch
import torch.distributed as dist

LIMIT = 30  # seconds of one end

PENDING = """
works = [dist.all_reduce(torch.ones(64), async_op=True) for _ in range(4)]
futures = [work.get_future() for work in works]
transfers = [dist.irecv(torch.zeros(3), 1, tag=7), dist.isend(torch.zeros(3), 1, tag=8)]
"""
RAISE = "raise lockstep.torch.CollectiveError('planted', [])\n"

ENDS = {
    "pending": PENDING + RAISE,
    "pending, normal end": PENDING,
    "pending, sys.exit": PENDING + "sys.exit(3)",
    "pending, os._exit": PENDING + "os._exit(4)",
    "pending, SIGTERM": PENDING
    + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\nsignal.raise_signal(signal.SIGTERM)",
    "pending, Ctrl-C": PENDING + "signal.raise_signal(signal.SIGINT)",
    "pending in a cycle": PENDING + "works.append(works)\nworks[0].me = works\n" + RAISE,
    "second group": PENDING
    + "more = dist.all_reduce(torch.ones(9), group=SECOND, async_op=True)\nmore.get_future()\n"
    + RAISE,
    "callback inside torch": PENDING + "futures[0].then(lambda _: SLOW())\n" + RAISE,
    "callbacks": PENDING + "[future.then(lambda _: torch.ones(9) + 1) for future in futures]\n" + RAISE,
    "daemon thread inside torch": "thread(lambda: (call(dist.barrier), SLOW()))\n" + RAISE,
    "daemon thread that goes on": "thread(lambda: [(call(dist.barrier), torch.ones(9) + 1) for _ in FOREVER])\n"
    + RAISE,
    "daemon threads and futures": PENDING + "[thread(lambda f=f: (call(f.wait), SLOW())) for f in futures]\n" + RAISE,
    "daemon thread, torch alone": "thread(lambda: [torch.ones(99, 99) @ torch.ones(99, 99) for _ in FOREVER])",
    "thread that waits for a future": PENDING + "thread(lambda: call(futures[3].wait), daemon=False)\n" + RAISE,
    "sys.exit in a thread": PENDING + "thread(lambda: sys.exit(6)).join()\n" + RAISE,
    "forked before": "forked()\n" + PENDING + RAISE,
    "forked while pending": PENDING + "forked()\n" + RAISE,
    "used at exit": PENDING + "late.use = lambda: call(dist.barrier)\n" + RAISE,
}


def thread(function: Any, daemon: bool = True) -> threading.Thread:
    """A thread that has begun its first call, as far as one can see."""
    begun = threading.Event()

    def run() -> None:
        begun.set()
        function()

    started = threading.Thread(target=run, daemon=daemon)
    started.start()
    begun.wait()
    return started


def call(function: Any) -> None:
    """Calls it; a collective may fail, as the process ends."""
    with contextlib.suppress(RuntimeError, lockstep.Error):
        function()


def forked() -> None:
    """A child that ends as a program does, before this process goes on."""
    if (pid := os.fork()) == 0:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0


class Late:
    """Goes in the middle of the finalization, and gives threads time to come back meanwhile."""

    use = staticmethod(lambda: None)

    def __del__(self, event: Any = threading.Event) -> None:
        self.use()
        event().wait(0.15)


def SLOW() -> None:  # noqa: N802
    """Operations of torch, one after the other, until the interpreter finalizes."""
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        torch.ones(300, 300) @ torch.ones(300, 300)


def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Running:
    """The processes of one end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.output = os.memfd_create("output")
        self.code = 0
        self.port = port()
        self.pids: list[int] = []


def main(repetitions: int, at_once: int, names: list[str]) -> Running | None:
    """Returns in each forked process the end that it is part of, or None when all are over."""
    waiting = [Running(name) for _ in range(repetitions) for name in names]
    running: list[Running] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            end = waiting.pop()
            running.append(end)
            for _ in range(2):
                if (pid := os.fork()) == 0:
                    return end
                end.pids.append(pid)
        pid, status = os.wait()
        for end in running:
            if pid == end.pids[0]:
                end.code = os.waitstatus_to_exitcode(status)
                os.kill(end.pids[1], signal.SIGKILL)
            elif pid == end.pids[1]:
                output = os.pread(end.output, 1 << 20, 0).decode(errors="replace")
                os.close(end.output)
                print(json.dumps([end.name, end.code, output]), flush=True)
                running.remove(end)
                break
    return None


mine = main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:] or list(ENDS))
if mine is not None:
    faulthandler.register(signal.SIGALRM, chain=True)  # without a thread, which a forked child would miss
    signal.alarm(LIMIT)
    os.dup2(mine.output, 1)
    os.dup2(mine.output, 2)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(mine.port), RANK=str(len(mine.pids)), WORLD_SIZE="2")
    dist.init_process_group("lockstep", timeout=timedelta(seconds=LIMIT))
    SECOND = dist.new_group([0, 1])
    if mine.pids:
        while True:
            signal.pause()
    FOREVER = iter(int, 1)
    late = sys.modules["late"] = Late()  # type: ignore[assignment]
    exec(ENDS[mine.name])
