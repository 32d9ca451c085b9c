"""Log and journal lines: a thread fetches the lines from the native part and passes them to the program."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import os
import threading
import weakref
from typing import Callable

from . import _lockstep
from ._arguments import shown

Taker = Callable[[str], object]

_numbers = itertools.count(1)
_lock = threading.Lock()
_thread: threading.Thread | None = None
_ending = threading.Event()
_log = logging.getLogger("lockstep")


class Sink:
    """A function that receives lines, and the number under which the native part delivers them.

    The object that produces the lines owns the sink, so that the garbage collector can free a communicator together
    with a function that refers to it. The function runs on a thread of the package.

    warner: receives warnings instead; None for the same function.
    """

    def __init__(self, taker: Taker, warner: Taker | None = None) -> None:
        global _thread
        self.taker = taker
        self.warner = taker if warner is None else warner
        self.number = next(_numbers)
        with _lock:
            _sinks[self.number] = self
            if _thread is None or not _thread.is_alive():
                _thread = threading.Thread(target=_run, name="lockstep-lines", daemon=True)
                _thread.start()

    def keep(self) -> None:
        """Keeps the sink alive until its last line was delivered."""
        _kept[self.number] = self


_sinks: weakref.WeakValueDictionary[int, Sink] = weakref.WeakValueDictionary()
_kept: dict[int, Sink] = {}


# Events that a person should see although nothing fails (core/trace/event.cc).
_WARNINGS = ("call-waits", "state-replaced", "state-repaired")


def log_sink(logger: logging.Logger) -> Sink:
    """Logs lines as records of level INFO, and warnings as such."""
    if not isinstance(logger, (logging.Logger, logging.LoggerAdapter)):
        raise TypeError(f"logger is {shown(logger)}; allowed: a logging.Logger, such as logging.getLogger('training')")

    def log(line: str) -> None:
        logger.log(logging.WARNING if line.startswith(_WARNINGS) else logging.INFO, "%s", line)

    return Sink(log, lambda line: logger.warning("%s", line))


def _run() -> None:
    while not _ending.is_set():
        _take(1.0)


def _take(seconds: float) -> None:
    lines, dropped = _lockstep.fetch_lines(seconds)
    if dropped:
        _log.warning("%d lines of log were dropped: they came faster than they were taken", dropped)
    for number, line, warns in lines:
        if line is None:
            _kept.pop(number, None)
            continue
        sink = _kept.get(number) or _sinks.get(number)  # what is being collected is no longer in _sinks
        if sink is None:
            continue
        try:
            (sink.warner if warns else sink.taker)(line)
        except BaseException:  # of the program's function: the run goes on, and so do the lines of others
            with contextlib.suppress(BaseException):
                _log.exception("a function that takes lines of log or journal failed; the line was: %s", line)


def _end() -> None:
    """Delivers the remaining lines before the interpreter exits."""
    if _thread is None:
        return
    _ending.set()
    _lockstep.end_lines()
    _thread.join(2)  # a function of the program may be in the way
    _take(0)


def _start_again_in_child() -> None:
    """The thread exists only in the parent process."""
    global _thread, _lock
    _thread = None
    _lock = threading.Lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_start_again_in_child)
