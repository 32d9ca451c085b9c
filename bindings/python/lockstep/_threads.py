"""Threads of the package, which end before the interpreter does."""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import Callable

_END_WITHIN = 2.0  # seconds for all threads together; a function of the program may be in the way

_ends: dict[threading.Thread, Callable[[], object]] = {}
"""What tells a thread to end."""


def start(target: Callable[[], object], name: str, end: Callable[[], object] = lambda: None) -> threading.Thread:
    """Starts a daemon thread. At exit, once the program's own threads have ended, it is told to end, and joined.

    A thread that is inside of torch when the interpreter goes away would be stopped there, which C++ does not survive.

    end: called at exit; makes the target return. Not needed by a target that waits for calls of a communicator only:
        these end at exit.
    """
    thread = threading.Thread(target=target, name=name, daemon=True)
    for other in [other for other in _ends.copy() if not other.is_alive()]:
        _ends.pop(other, None)
    thread.start()
    _ends[thread] = end
    return thread


def _join_all() -> None:
    limit = time.monotonic() + _END_WITHIN
    threads = _ends.copy()
    for end in threads.values():
        end()
    for thread in threads:
        thread.join(max(0.0, limit - time.monotonic()))


atexit.register(_join_all)
os.register_at_fork(after_in_child=_ends.clear)  # they exist only in the parent
