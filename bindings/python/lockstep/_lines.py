"""Log and journal lines: a thread fetches them from the native part and hands them to the program."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import threading
from typing import Callable

from . import _lockstep

Taker = Callable[[str], object]

_takers: dict[int, Taker] = {}
_numbers = itertools.count(1)
_lock = threading.Lock()
_thread: threading.Thread | None = None
_ending = threading.Event()
_log = logging.getLogger("lockstep")


def sink(taker: Taker) -> int:
    """A number under which the native part hands over lines for `taker`, which runs on a thread of the package."""
    global _thread
    with _lock:
        number = next(_numbers)
        _takers[number] = taker
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_run, name="lockstep-lines", daemon=True)
            _thread.start()
    return number


def log_sink(logger: logging.Logger) -> int:
    """Lines become records of level INFO."""
    if not isinstance(logger, (logging.Logger, logging.LoggerAdapter)):
        raise TypeError(f"logger is {logger!r}; allowed: a logging.Logger, such as logging.getLogger('training')")
    return sink(lambda line: logger.info("%s", line))


def journal_sink(journal: str | os.PathLike[str] | Taker) -> str | int:
    """A path goes to the native part, which writes the file itself; a function gets the lines."""
    return sink(journal) if callable(journal) else os.fspath(journal)


def _run() -> None:
    while not _ending.is_set():
        _take(1.0)


def _take(seconds: float) -> None:
    lines, dropped = _lockstep.fetch_lines(seconds)
    if dropped:
        _log.warning("%d lines of log were dropped: they came faster than they were taken", dropped)
    for number, line in lines:
        if line is None:
            _takers.pop(number, None)
            continue
        taker = _takers.get(number)
        if taker is None:
            continue
        try:
            taker(line)
        except BaseException:  # of the program's function: the run goes on, and so do the lines of others
            with contextlib.suppress(BaseException):
                _log.exception("a function that takes lines of log or journal failed; the line was: %s", line)


def _end() -> None:
    """Fetches what is left. At exit, before the interpreter goes."""
    if _thread is None:
        return
    _ending.set()
    _lockstep.end_lines()
    _thread.join(2)  # a function of the program may be in the way
    _take(0)


def _start_again_in_child() -> None:
    """The thread is in the parent."""
    global _thread, _lock
    _thread = None
    _lock = threading.Lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_start_again_in_child)
