"""Calls that begin anew when they fail, whether somebody waits for them or not."""

from __future__ import annotations

import itertools
import logging
import select
import threading
import time
from typing import Any, Callable

from .._lockstep import Waker, Work
from ..errors import Error, WaitTimedOut
from ._work import Call

_log = logging.getLogger("lockstep")


class Repeated:
    """A call that may begin anew. It does so by itself: other members may wait for that before they do anything else.

    call: the first attempt.
    again: gets the error of an attempt; begins the next one, or raises the error of the whole call.
    """

    def __init__(self, call: Call, again: Callable[[Error], Call]) -> None:
        self._again = again
        self._error: Error | None = None
        self._beginning = threading.Lock()
        self._begin(call)

    def _begin(self, call: Call) -> None:
        self._call = call
        if isinstance(call, Work):
            _repeater.watch(self, call)

    def done(self) -> bool:
        """Whether the last attempt is over."""
        while self._error is None:
            call = self._call
            if not call.done():
                return False
            try:
                call.wait()
                return True
            except Error as error:
                self._begin_again(call, error)
        return True

    def wait(self, timeout: float | None = None) -> Any:
        """Waits at most so many seconds for the last attempt. Raises what it ended with, or WaitTimedOut."""
        limit = None if timeout is None else time.monotonic() + timeout
        while self._error is None:
            call = self._call
            try:
                return call.wait(None if limit is None else max(0.0, limit - time.monotonic()))
            except WaitTimedOut:
                raise
            except Error as error:
                self._begin_again(call, error)
        raise self._error

    def _begin_again(self, call: Call, error: Error) -> None:
        """Begins the attempt after `call`, once for all who have seen it fail."""
        with self._beginning:
            if self._call is not call or self._error is not None:
                return
            try:
                self._begin(self._again(error))
            except Error as last:
                self._error = last


class _Repeater:
    """One thread that looks at the attempts of all calls when they are over."""

    def __init__(self) -> None:
        self._starting = threading.Lock()
        self._waker: Waker | None = None
        self._numbers = itertools.count()
        self._calls: dict[int, Repeated] = {}

    def watch(self, call: Repeated, attempt: Work) -> None:
        with self._starting:
            if self._waker is None:
                self._waker = Waker()
                threading.Thread(target=self._run, args=(self._waker,), name="lockstep-repeat", daemon=True).start()
            number = next(self._numbers)
            self._calls[number] = call
        self._waker.watch(attempt, number)

    def _run(self, waker: Waker) -> None:
        ready = select.poll()
        ready.register(waker.fileno(), select.POLLIN)
        while True:
            ready.poll()
            for number in waker.take():
                try:
                    self._calls.pop(number).done()
                except Exception:
                    _log.exception("a call could not begin anew")


_repeater = _Repeater()
