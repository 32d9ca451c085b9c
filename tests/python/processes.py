"""Python processes for tests: pieces of code that run with `-X dev -W error`, whose lines are read with a deadline."""

from __future__ import annotations

import contextlib
import inspect
import os
import queue
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Callable

import lockstep
from support import without_slow_steps

LIMIT = 20.0  # seconds that a process may take for anything, on a busy machine

PRELUDE = '''
from __future__ import annotations

import os, signal, sys, threading, time
import lockstep
import numpy as np

COORDINATOR = sys.argv[1]
def say(*words):
    # At once, also from a signal handler that has interrupted this function.
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())


def asked():
    """The next line that the test sends; ends the process when the test is over."""
    line = sys.stdin.readline()
    if not line:
        os._exit(9)
    return line.split()


def until(condition, seconds=20):
    """Looks at a condition until it holds."""
    tick = threading.Event()
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("not in time: " + condition.__name__)
        tick.wait(0.002)


def seconds_in_queue(thread=None):
    """How long a thread was ready to run and no core was free, so far; 0 where the kernel does not tell."""
    try:
        with open(f"/proc/self/task/{thread or threading.get_native_id()}/schedstat") as stat:
            return int(stat.read().split()[1]) / 1e9
    except OSError:
        return 0.0


def say_interrupted():
    """The time, less how long this thread has been ready to run without a core since it was blocked."""
    say("interrupted", time.monotonic() - (seconds_in_queue() - in_queue))


IS_BLOCKED


def say_when_blocked(word, thread=None):
    """Says a word once a thread (this one, if none is given) waits inside of the package."""
    watched = thread or threading.current_thread()
    native_id = None if thread else threading.get_native_id()
    say_when(word, is_blocked(watched, native_id), native_id or watched.native_id)


def say_when(word, condition, native_id):
    """Says a word once a condition of a thread holds."""

    def watch():
        global in_queue
        until(condition)
        in_queue = seconds_in_queue(native_id)
        say(word)

    threading.Thread(target=watch, daemon=True).start()
'''


def is_blocked(thread: threading.Thread, native_id: int | None = None) -> Callable[[], bool]:
    """Whether a thread waits inside of the package, seen several times in a row."""
    native_id = native_id or thread.native_id
    seen = 0

    def blocked() -> bool:
        nonlocal seen
        frame = sys._current_frames().get(thread.ident or 0)
        code = frame and frame.f_code
        package = os.path.dirname(lockstep.__file__)
        inside = code and (os.path.dirname(code.co_filename) == package or code.co_name in ("wait_for", "<lambda>"))
        try:
            with open(f"/proc/self/task/{native_id}/stat") as stat:
                asleep = stat.read().rpartition(")")[2].split()[0] == "S"
        except OSError:  # it has ended
            return False
        seen = seen + 1 if inside and asleep else 0
        return seen >= 5

    return blocked


PRELUDE = PRELUDE.replace("IS_BLOCKED", inspect.getsource(is_blocked).rstrip())


class Child:
    """A process that runs `code` behind PRELUDE. As a context manager it is killed at the end."""

    def __init__(self, code: str, *arguments: str, flags: tuple[str, ...] = ("-X", "dev", "-W", "error")) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed by close()
        program = PRELUDE + textwrap.dedent(code)
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-c", program, *(arguments or ("",))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.strip())
        self._lines.put(None)

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self, within: float = LIMIT) -> str:
        """The next line that it prints."""
        try:
            line = self._lines.get(timeout=within)
        except queue.Empty:
            self.fail(f"printed nothing for {within} s")
        if line is None:
            self.fail("ended")
        return line

    def expect(self, word: str, within: float = LIMIT) -> list[str]:
        """The words of the next line, which begins with `word`."""
        line = self.line(within)
        if line.split()[:1] != [word]:
            self.fail(f"printed {line!r}, expected {word!r}")
        return line.split()

    def ask(self, *words: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def signal(self, number: int) -> float:
        """Sends a signal; the time at which it did."""
        at = time.monotonic()
        self.process.send_signal(number)
        return at

    def end(self, within: float = LIMIT) -> int:
        """Waits for its exit code."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            return self.fail(f"still runs after {within} s")

    def errors(self) -> str:
        """What it wrote to stderr, except that a step of an asyncio loop was slow."""
        self._errors.seek(0)
        return without_slow_steps(self._errors.read())

    def fail(self, what: str) -> int:
        """Fails the test with where the process was."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                self.process.send_signal(signal.SIGABRT)  # -X dev: prints where all threads are
                self.process.wait(10)
        code = self.process.poll()
        raise AssertionError(f"the process {what} (exit code {code}); its stderr:\n{self.errors()}")

    def close(self) -> None:
        """Kills it, and the children that it has forked."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(LIMIT)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._errors.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


COORDINATOR = """
with lockstep.Coordinator("127.0.0.1:0") as coordinator:
    say("listens", coordinator.address)
    sys.stdin.read()
"""


@contextlib.contextmanager
def coordinator_process() -> Iterator[tuple[Child, str]]:
    """A coordinator in a process of its own, that can be stopped and killed, and its address."""
    with Child(COORDINATOR) as child:
        yield child, child.expect("listens")[1]


def until(condition: Callable[[], bool], within: float = LIMIT) -> bool:
    """Looks at a condition until it holds; False if it does not in time."""
    tick = threading.Event()
    end = time.monotonic() + within
    while not condition():
        if time.monotonic() > end:
            return False
        tick.wait(0.002)
    return True


CONNECTS = """
run = lockstep.Communicator(founders=2, listen_host="127.0.0.1")
joining = run.connect_async(COORDINATOR, timeout=20)
until(lambda: joining.done() or run.stage not in ("new", "reaching"))
say("reached")
joining.wait()
"""


@contextlib.contextmanager
def pair_of(code: str, rank: int, *arguments: str) -> Iterator[tuple[Child, lockstep.Communicator]]:
    """A process of this rank, 0 or 1, that runs `code` with its communicator `run`; and its partner."""
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        with lockstep.Communicator(founders=2, listen_host="127.0.0.1") as partner:
            if rank == 1:
                joining = partner.connect_async(coordinator.address, timeout=LIMIT)
                assert until(lambda: partner.stage == "waiting")
            with Child(CONNECTS + textwrap.dedent(code), coordinator.address, *arguments) as child:
                child.expect("reached")
                if rank == 0:
                    joining = partner.connect_async(coordinator.address, timeout=LIMIT)
                joining.wait()
                assert partner.rank == 1 - rank
                yield child, partner
