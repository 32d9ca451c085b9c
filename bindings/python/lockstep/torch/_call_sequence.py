"""Calls one after the other: the end of each decides what begins next, whether somebody waits for it or not."""

from __future__ import annotations

import functools
import itertools
import logging
import os
import select
import socket
import threading
import time
from typing import Any, Callable, Union

from .. import _threads
from .._lockstep import Result, Waker, Work
from ..errors import Error, WaitTimedOut
from ._work import Call

_log = logging.getLogger("lockstep")

Outcome = Union[Result, Error]


class CallSequence:
    """Calls one after the other. The next begins by itself: other members may wait for it before they do anything else.

    call: the first call.
    following: gets the outcome of each call; begins the next one, returns None if that was the last, or raises the
        error of the whole chain.
    """

    def __init__(self, call: Call, following: Callable[[Outcome], Call | None]) -> None:
        self._following = following
        self._outcome: Outcome | None = None
        self._going_on = threading.Lock()
        self._begin(call)

    def _begin(self, call: Call) -> None:
        self._call = call
        if isinstance(call, Work):
            _conductor.watch(self, call)

    def done(self) -> bool:
        """Whether the last call is over."""
        while self._outcome is None:
            call = self._call
            if not call.done():
                return False
            self._go_on(call, _outcome_of(call, None))
        return True

    def wait(self, timeout: float | None = None) -> Any:
        """Waits at most so many seconds for the last call. Raises what it ended with, or WaitTimedOut."""
        limit = None if timeout is None else time.monotonic() + timeout
        while self._outcome is None:
            call = self._call
            self._go_on(call, _outcome_of(call, None if limit is None else max(0.0, limit - time.monotonic())))
        if isinstance(self._outcome, Error):
            raise self._outcome
        return self._outcome

    def _go_on(self, call: Call, outcome: Outcome) -> None:
        """Begins what follows `call`, once for all who have seen its end."""
        with self._going_on:
            if self._call is not call or self._outcome is not None:
                return
            try:
                following = self._following(outcome)
            except Error as last:
                self._outcome = last
                return
            if following is None:
                self._outcome = outcome
            else:
                self._begin(following)


def _outcome_of(call: Call, timeout: float | None) -> Outcome:
    """How a call ended. Waits at most so many seconds; raises WaitTimedOut."""
    try:
        result: Result = call.wait(timeout)
        return result
    except WaitTimedOut:
        raise
    except Error as error:
        return error


class _Conductor:
    """One thread that looks at the calls of all chains when they are over."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """A child of fork() has no thread yet."""
        self._starting = threading.Lock()
        self._waker: Waker | None = None
        self._numbers = itertools.count()
        self._calls: dict[int, CallSequence] = {}

    def watch(self, call: CallSequence, link: Work) -> None:
        with self._starting:
            if self._waker is None:
                self._waker = Waker()
                ending, end = socket.socketpair()
                run = functools.partial(self._run, self._waker, self._calls, ending)
                _threads.start(run, "lockstep-chain", end.close)
            number = next(self._numbers)
            self._calls[number] = call
            waker = self._waker
        waker.watch(link, number)

    def _run(self, waker: Waker, calls: dict[int, CallSequence], ending: socket.socket) -> None:
        ready = select.poll()
        ready.register(waker.fileno(), select.POLLIN)
        ready.register(ending, select.POLLIN)
        with ending:
            while not any(descriptor == ending.fileno() for descriptor, _ in ready.poll()):
                for number in waker.take():
                    try:
                        calls.pop(number).done()
                    except Exception:
                        _log.exception("a chain of calls could not go on")
        self.begin_anew()


_conductor = _Conductor()
os.register_at_fork(after_in_child=_conductor.begin_anew)
