"""Calls in flight as torch's Work."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Callable, Protocol

import torch
import torch.distributed as dist

from .. import _lockstep, _threads
from .._lockstep import Result
from ..errors import Error, WaitTimedOut
from ..types import PeerId

_log = logging.getLogger("lockstep")


class Call(Protocol):
    """What is needed of a call in flight: lockstep.Work is one."""

    def done(self) -> bool:
        """Whether the call is over."""

    def wait(self, timeout: float | None = None) -> Any:
        """Waits at most so many seconds; raises what the call ended with, or WaitTimedOut."""


class Ended:
    """A call that is over: its Result, or its error."""

    def __init__(self, outcome: Result | Error) -> None:
        self._outcome = outcome

    def done(self) -> bool:
        """True."""
        return True

    def wait(self, timeout: float | None = None) -> Result:
        """The result; raises the error."""
        if isinstance(self._outcome, Error):
            raise self._outcome
        return self._outcome


Tensors = Sequence[torch.Tensor]
Finish = Callable[[Sequence[Result]], object]
Fail = Callable[[BaseException], BaseException]


class GroupWork(dist.Work):  # type: ignore[misc]  # torch is not there for everybody who checks
    """Calls of a process group that are in flight.

    calls: the calls.
    tensors: what `result()` and the future give.
    finish: what happens once all calls have succeeded, before a waiter goes on: copies into the caller's tensors. On a
        CUDA device copies come behind what the caller had begun there in its stream, whichever thread makes them.
    fail: makes the exception for an error of a call.
    members: of a send or a recv: the ranks' ids when the calls began; not changed later.
    """

    _error: BaseException | None = None
    _is_over = False
    _future: torch.futures.Future[Any] | None = None
    _started: torch.futures.Future[Any] | None = None

    def __init__(
        self, calls: Sequence[Call], tensors: Tensors, finish: Finish, fail: Fail, members: Sequence[PeerId] = ()
    ) -> None:
        super().__init__()
        self.calls = list(calls)
        self.tensors = list(tensors)
        self.finish = finish
        self._fail = fail
        self._members = members
        self._streams = [torch.cuda.current_stream(device) for device in {one.device for one in tensors if one.is_cuda}]
        self._ending = threading.Lock()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until the calls are over. Returns True. Raises CollectiveError; WaitTimedOut: the calls go on.

        timeout: limit of this wait; none, or zero, for no limit.
        """
        seconds = timeout.total_seconds() if timeout is not None else 0.0
        self.end(seconds if seconds > 0 else None)
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether the calls are over, however they ended. Never blocks."""
        if not self._is_over and all(call.done() for call in self.calls):
            self.end(None)
        return self._is_over

    def is_success(self) -> bool:
        """Whether the calls are over without an error."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """The error of a call that is over."""
        return self._error if self.is_completed() else None

    def result(self) -> list[torch.Tensor]:
        """The tensors of the call. Waits."""
        self.wait()
        return self.tensors

    def _source_rank(self) -> int:
        """The rank that sent what was received. Waits. Torch's name."""
        partner: PeerId = self.calls[-1].wait().partner
        return self._members.index(partner)

    def synchronize(self) -> None:
        """Waits, as there is no stream that could wait instead."""
        self.wait()

    def get_future(self) -> torch.futures.Future[Any]:
        """A future of the tensors. A failed call ends it with the error. When wait() returns, it is over."""
        with self._ending:
            is_new = self._future is None
            if is_new:
                self._started = torch.futures.Future()
                self._future = self._started.then(self._outcome)
            is_over = self._is_over
        if is_over:
            self._complete_future()
        elif is_new:
            _watcher.watch(self)
        return self._future

    # An exception in a callback is an error of torch's future: C++ code that waits for it sees the error, too.
    def _outcome(self, _: Any) -> Any:
        if self._error is not None:
            raise self._error
        return self.tensors

    def _complete_future(self) -> None:
        with self._ending:
            started, self._started = self._started, None
        if started is not None:  # whose callbacks run here, without the lock
            started.set_result(None)
        elif self._future is not None and not self._future.done():  # another thread completes it
            with contextlib.suppress(Exception):  # the call's error, which wait() raises itself
                self._future.wait()

    def end(self, seconds: float | None) -> None:
        """Waits for the calls and finishes them, once; all who wait see the same end."""
        try:
            results = [call.wait(seconds) for call in self.calls]
        except WaitTimedOut:
            raise
        except Error as error:
            with self._ending:
                if not self._is_over:
                    self._error = self._fail(error)
                    self._is_over = True
        else:
            with self._ending:
                if not self._is_over:
                    try:
                        self._finish_in_streams(results)
                    except Exception as error:
                        self._error = error
                    self._is_over = True
        self._complete_future()

    def _finish_in_streams(self, results: Sequence[Result]) -> None:
        with contextlib.ExitStack() as stack:
            for stream in self._streams:
                stack.enter_context(torch.cuda.stream(stream))
            self.finish(results)


class PlainTransfer(GroupWork):
    """A send or a recv of one tensor of the CPU: nothing remains to be done at its end. Small ones are frequent."""

    def __init__(self, call: _lockstep.Work, tensors: Tensors, fail: Fail, members: Sequence[PeerId]) -> None:
        dist.Work.__init__(self)
        self._call = call
        self.calls = [call]
        self.tensors = list(tensors)
        self._fail = fail
        self._members = members
        self._ending = threading.Lock()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits until the transfer is over. Returns True. Raises CollectiveError; WaitTimedOut: the transfer goes on.

        timeout: limit of this wait; none, or zero, for no limit.
        """
        if timeout is None and not self._is_over:
            try:
                _lockstep.until_over(self._call)
            except Error:  # which the call raises again
                return super().wait()
            self._is_over = True
            if self._future is not None:
                self._complete_future()
            return True
        return super().wait(timeout)

    def _finish_in_streams(self, results: Sequence[Result]) -> None:
        pass


class EndedWork(GroupWork):
    """A call that was over before it had a Work: nobody waits for it. error: what it ended with."""

    def __init__(self, tensors: Tensors, error: BaseException | None) -> None:
        dist.Work.__init__(self)
        self.calls = []
        self.tensors = list(tensors)
        self._error = error
        self._is_over = True
        self._ending = threading.Lock()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Returns True. Raises CollectiveError."""
        if self._error is not None:
            raise self._error
        return True


class _Watcher:
    """One thread that ends the works of all process groups whose futures were asked for, in that order."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """A child of fork() has no thread yet."""
        self._works: queue.SimpleQueue[GroupWork | None] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._is_started = False

    def watch(self, work: GroupWork) -> None:
        with self._starting:
            if not self._is_started:
                _threads.start(self._watch, "lockstep-futures", self._end)
                self._is_started = True
            self._works.put(work)

    def _watch(self) -> None:
        works = self._works
        while (work := works.get()) is not None:
            try:
                work.end(None)
            except Exception:
                _log.exception("a future could not be completed")

    def _end(self) -> None:
        self._works.put(None)
        self.begin_anew()


_watcher = _Watcher()
os.register_at_fork(after_in_child=_watcher.begin_anew)
