"""Processes for tests of lockstep.torch: forked from a process that has imported torch, which takes seconds."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    ["torch", "torch._dynamo", "torch.distributed.fsdp", "lockstep.torch", "torch_processes"]
)

IN_TIME = 60.0  # seconds


class TorchProcess:
    """A Python program whose lines are read as they come. As a context manager it is killed at the end.

    program: a file. arguments, variables: what sys.argv and os.environ have besides.
    """

    def __init__(self, program: Path | str, *arguments: object, variables: Mapping[str, str] | None = None) -> None:
        ours, theirs = _context.Pipe(duplex=False)
        self.lines: list[tuple[float, str]] = []
        """Every line with the time at which it was read."""
        self.ended = 0.0
        """When its output ended, which is when it did."""
        self._more = threading.Condition()
        self.process = _context.Process(
            target=_main, args=(str(program), [str(one) for one in arguments], dict(variables or {}), theirs)
        )
        self.process.start()
        theirs.close()
        self._stream = os.fdopen(os.dup(ours.fileno()), errors="replace")
        ours.close()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._stream:
            with self._more:
                self.lines.append((time.monotonic(), line.rstrip("\n")))
                self._more.notify_all()
        with self._more:
            self.ended = time.monotonic()
            self._more.notify_all()

    def wait_for(self, words: str, after: float = 0.0, within: float = IN_TIME) -> float:
        """Waits for a line with these words that comes later than `after`. Returns the time at which it came."""
        limit = time.monotonic() + within
        seen = 0
        with self._more:
            while True:
                for at, line in self.lines[seen:]:
                    if at > after and words in line:
                        return at
                seen = len(self.lines)
                if self.ended or not self._more.wait(max(0.0, limit - time.monotonic())):
                    raise AssertionError(f"no line with {words!r} in time:\n{self.output()}")

    def kill(self) -> float:
        """Sends SIGKILL. Returns the time at which it did."""
        at = time.monotonic()
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        return at

    def end(self, within: float = IN_TIME) -> int:
        """Waits for its end. Returns its exit code."""
        self.process.join(within)
        assert self.process.exitcode is not None, f"still runs:\n{self.output()}"
        self._reader.join(within)
        return self.process.exitcode

    def output(self) -> str:
        return "\n".join(line for _, line in self.lines)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.join()
        self._reader.join(IN_TIME)
        self._stream.close()

    def __enter__(self) -> TorchProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _main(program: str, arguments: Sequence[str], variables: Mapping[str, str], out: object) -> None:
    for stream in (1, 2):
        os.dup2(out.fileno(), stream)  # type: ignore[attr-defined]
    os.environ.update(variables)
    sys.argv = [program, *arguments]
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")


@contextlib.contextmanager
def ranks(
    program: Path | str, arguments: Sequence[Sequence[object]], variables: Mapping[str, str] | None = None
) -> Iterator[list[TorchProcess]]:
    """The processes of a program, one for each list of arguments."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(TorchProcess(program, *one, variables=variables)) for one in arguments]


def run_ranks(
    program: Path | str, arguments: Sequence[Sequence[object]], variables: Mapping[str, str] | None = None
) -> list[tuple[int, str]]:
    """Runs a program once for each list of arguments, at once. Returns exit codes and outputs."""
    with ranks(program, arguments, variables) as started:
        return [(process.end(), process.output()) for process in started]
