"""Runs tests of the package in a forked process: on a copy of the package in a scratch folder, within a limit.

The process that forks has imported torch and pytest, so that a trial begins within milliseconds. Nothing is written to
the sources: the copy consists of links, except for the changed files.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Callable

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "bindings/python/lockstep"
BUILT = ROOT / "build/release/bindings/python/lockstep"  # links to the sources, and the extension module
SCRATCH = ROOT / "build/mutants-python"

SLOW_MODULES = ("asyncio", "numpy", "numpy.random", "numpy.typing", "hypothesis.strategies")
SLOW_MODULES_OF_TORCH = (  # torch.optim imports torch._dynamo when a test makes the first optimizer
    "torch",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.nn.parallel",
)

SURVIVED = "survived"
HUNG = "hung"
Outcome = str  # SURVIVED, HUNG, or the test that failed


def sources() -> Iterator[str]:
    """The files that have mutants, as paths in the package."""
    for path in sorted([*SOURCES.glob("*.py"), *SOURCES.glob("torch/*.py"), *SOURCES.glob("train/**/*.py")]):
        yield str(path.relative_to(SOURCES))


def copy_of_package(folder: Path, changed: Mapping[str, str], changed_at: int) -> None:
    """Makes folder/lockstep: links to the built package, and the changed files.

    changed_at: the modification time of these, in seconds. Python tells an outdated file of bytecode by this time, so
    texts of one file have different times.
    """
    shutil.rmtree(folder / "lockstep", ignore_errors=True)
    for one in BUILT.rglob("*"):
        if one.is_dir() and not one.is_symlink():
            continue
        link = folder / "lockstep" / one.relative_to(BUILT)
        link.parent.mkdir(parents=True, exist_ok=True)
        text = changed.get(str(one.relative_to(BUILT)))
        if text is None:
            link.symlink_to(one.resolve())
        else:
            link.write_text(text)
            os.utime(link, (changed_at, changed_at))


PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # prctl(2)


def become_reaper() -> None:
    """Orphans among the descendants of this process become its children; SIGTERM ends it by SystemExit."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def import_slow_modules(with_torch: bool) -> None:
    """Imports what trials need, except for the package."""
    for name in (*SLOW_MODULES, *(SLOW_MODULES_OF_TORCH if with_torch else ())):
        try:
            __import__(name)
        except ImportError:  # the tests that need it are skipped
            continue
    gc.collect()
    gc.freeze()  # collections in trials do not look at these modules


class FirstFailure:
    """A plugin of pytest that writes the name of the first failed test."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._path.exists():
            self._path.write_text(report.nodeid)


def failure_of(folder: Path, tests: Sequence[str], limit: float) -> Outcome:
    """What becomes of the tests, in this order and up to the first failure, with the package in the folder."""
    told = folder / "failed"
    told.unlink(missing_ok=True)
    plugin = FirstFailure(told)
    code = run(folder, lambda: run_pytest(["-x", *tests], plugin), limit)
    if code is None:
        return HUNG
    if code == 0:
        return SURVIVED
    return told.read_text() if told.exists() else f"exit code {code}"


def run_pytest(arguments: Sequence[str], plugin: object) -> int:
    """Runs pytest in this process, which may have imported modules that pytest would like to rewrite."""
    return int(pytest.main(["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments], plugins=[plugin]))


def run(folder: Path, function: Callable[[], int], limit: float) -> int | None:
    """The exit code of function() in a forked process that imports the package from the folder.

    None if the process took longer than the limit, in seconds; then the process has been killed, and all that it has
    started.
    """
    child = os.fork()
    if child == 0:
        code = 70
        try:
            _enter(folder)
            code = function()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    try:
        return _exit_code(child, limit)
    finally:
        end_descendants()


def _enter(folder: Path) -> None:
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(ROOT)
    sys.modules["__main__"] = types.ModuleType("__main__")  # which multiprocessing would import again in processes
    own = str(Path(__file__).parent)
    sys.path[:] = [str(folder), *(path for path in sys.path if path != own)]
    sys.pycache_prefix = str(SCRATCH / "pycache")
    sys.dont_write_bytecode = False  # without bytecode, a trial would take ten seconds more
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.update(
        PYTHONPATH=str(folder),
        PYTHONPYCACHEPREFIX=sys.pycache_prefix,
        HYPOTHESIS_STORAGE_DIRECTORY=str(SCRATCH / "hypothesis"),
    )


def _exit_code(child: int, limit: float) -> int | None:
    done = threading.Event()
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        done.wait(0.02)
    return None


def end_descendants() -> None:
    """Kills the descendants of this process, and waits for them."""
    while True:
        found = list(_descendants())
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return  # there is none
        threading.Event().wait(0.005)


def _descendants() -> Iterator[int]:
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_text()
            except OSError:  # it has ended
                continue
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    below = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        if not more:
            break
        below |= more
    yield from below - {os.getpid()}


def write_json(path: Path, value: object) -> None:
    """Writes a file that is whole or old, also if this process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(value))
    new.replace(path)
