"""What tests of the Python package share: peers in threads, processes, deadlines."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, TypeVar

import lockstep
import pytest

IN_TIME = 30.0  # seconds; nothing here takes so long unless it hangs

T = TypeVar("T")
Main = Callable[[lockstep.Communicator, int], T]


class InOrder:
    """Peers that connect one after the other: the founders' ranks are their places."""

    def __init__(self, coordinator: str, count: int) -> None:
        self._coordinator = coordinator
        self._arrived = [threading.Event() for _ in range(count + 1)]
        self._arrived[0].set()

    def __call__(self, run: lockstep.Communicator, place: int) -> lockstep.Work:
        """Begins to connect once the peer before has reached the coordinator. The call, once this peer has, too."""
        try:
            assert self._arrived[place].wait(IN_TIME)
            joining = run.connect_async(self._coordinator, timeout=IN_TIME)
            until(lambda: joining.done() or run.stage not in ("new", "reaching"))
            return joining
        finally:
            self._arrived[place + 1].set()


class Peers:
    """Runs one function as several peers of one run, a thread each.

    Founders connect one after the other, so that their ranks are their numbers; or with a turn, so many ranks further.
    """

    def __init__(self, coordinator: lockstep.Coordinator, turn: int = 0) -> None:
        self._coordinator = coordinator
        self._turn = turn

    def __call__(
        self, count: int, main: Main[T], *, each: Callable[[int], Mapping[str, Any]] | None = None, **options: Any
    ) -> list[T]:
        """What main(run, number) returns, by number. Raises what the first of them to fail has raised.

        Nobody leaves before all of them have returned. each: further options of the peer of that number.
        """
        results: dict[int, T] = {}
        failures: list[BaseException] = []
        runs: list[lockstep.Communicator] = []
        ended = threading.Barrier(count)
        options = {"founders": count, "listen_host": "127.0.0.1", "spin": 0, **options}
        connect = InOrder(self._coordinator.token, count)

        def peer(number: int) -> None:
            place = (number + self._turn) % count
            try:
                mine = {**options, **(each(number) if each else {})}
                with lockstep.Communicator(**mine) as run:
                    connect(run, place).wait()
                    runs.append(run)
                    results[number] = main(run, number)
                    ended.wait(2 * IN_TIME)
            except BaseException as error:
                failures.append(error)
                ended.abort()
                for run in list(runs):
                    run.close()  # nobody waits for what will not come

        in_threads(peer, count)
        if failures:
            raise failures[0]
        return [results[number] for number in range(count)]


def at_each_rank(count: int) -> pytest.MarkDecorator:
    """Runs a test with so many peers once for each turn, so that the peer of each number has each rank."""
    return pytest.mark.parametrize("peers", range(count), indirect=True, ids=lambda turn: f"turn {turn}")


def in_threads(function: Callable[[int], object], count: int) -> None:
    """Runs function(0) ... function(count - 1) at once, and waits for them."""
    threads = [threading.Thread(target=function, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * IN_TIME)
        assert not thread.is_alive(), f"{thread.name} has not ended"


class Meeting:
    """A place where the threads of so many peers wait for each other, outside of the library."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def __call__(self) -> None:
        self._barrier.wait(IN_TIME)


def until(condition: Callable[[], object]) -> None:
    """Looks again and again, giving way to other threads, until the condition holds; fails when that takes too long."""
    deadline = time.monotonic() + IN_TIME
    look = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for has not come"
        look.wait(0.001)


class Processes:
    """Starts Python programs; kills what is left of them at the end of the test."""

    def __init__(self) -> None:
        self._started: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """`python arguments`, with the same package, warnings and development mode as this process."""
        options = [f"-W{option}" for option in sys.warnoptions] + (["-Xdev"] if sys.flags.dev_mode else [])
        process = subprocess.Popen(
            [sys.executable, *options, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **environment},
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it has started
            process.communicate()


def lines_of(process: subprocess.Popen[str]) -> Iterator[str]:
    """Lines of its output as they come."""
    assert process.stdout is not None
    for line in process.stdout:
        yield line.rstrip("\n")


def ends_well(process: subprocess.Popen[str]) -> str:
    """Waits for its end; its output since the last line that was read."""
    output, errors = process.communicate(timeout=IN_TIME)
    assert process.returncode == 0, f"exit status {process.returncode}: {errors}"
    assert without_slow_steps(errors) == ""
    return output


def without_slow_steps(errors: str) -> str:
    """Errors without notes of asyncio that a step of a loop was slow: its debug mode writes them on a busy machine."""
    return re.sub(r"^Executing <.*> took \d+\.\d+ seconds\n", "", errors, flags=re.MULTILINE)


def says(text: object, parts: Sequence[str]) -> None:
    """The text has all of the parts."""
    missing = [part for part in parts if part not in str(text)]
    assert not missing, f"{str(text)!r} says nothing of {missing}"
