"""The members that a group has, and the way to its next ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent import futures
from typing import Any, Callable

from .. import _threads
from ..errors import NotConnected, TimedOut, WaitTimedOut
from ._failure_policy import failure_of
from ._membership import Membership, NextMembership, join, store_of_address
from ._work import GroupWork

_GRACE = 2.0  # seconds from a limit until a change of membership ends without an answer of the network


class GroupMembership:
    """The membership of a group, and at most one change of it at a time.

    now: the present membership; None for a group without members.
    next: how others meet this process for the next one.
    near: see NextMembership.
    """

    def __init__(self, now: Membership | None, near: Any) -> None:
        self.now = now
        self._former: Membership | None = None
        self.next = NextMembership(near)
        self._change: Attempt | None = None

    @property
    def present(self) -> Membership:
        """The present membership. Raises NotConnected without members."""
        if self.now is None:
            raise NotConnected("the process group has no members: it was destroyed, or waits for a reconfigure")
        return self.now

    def reconfigure(self, number: int, handles: Iterable[str], seconds: float) -> GroupWork:
        """Begins to go over to the processes of the handles; see NextMembership.join(). Raises CollectiveError."""
        return self._begin(lambda: self.next.join(number, handles, seconds), seconds, f"reconfigure {number}")

    def configure(self, store_addr: str, rank: int, size: int, seconds: float) -> GroupWork:
        """Begins to go over to the processes that meet in a store of torch's; see store_of_address()."""

        def meet() -> Membership:
            limit = time.monotonic() + seconds
            store = store_of_address(store_addr, seconds)
            return join(store, rank, size, max(0.001, limit - time.monotonic()), "configure")

        return self._begin(meet, seconds, "configure")

    def _begin(self, meet: Callable[[], Membership], seconds: float, what: str) -> GroupWork:
        if self._change is not None and not self._change.done():
            raise RuntimeError(f"{what}: another change of membership is in flight")
        self._change = Attempt(meet, self._take, seconds, what)
        return GroupWork([self._change], [], lambda _: None, failure_of)

    def _take(self, new: Membership) -> None:
        """Goes over to a membership that all of its members have agreed on."""
        old, self.now = self.now, new
        if self._former is not None:  # its members have had time to leave
            self._former.participation.close()
        self._former = old
        if old is not None:
            old.retire()

    def end(self, others_leave_within: float) -> None:
        """Ends a change in flight, and leaves the run; see Participation.leave()."""
        if self._change is not None:
            self._change.give_up(TimedOut("the process group was destroyed"))
        now, self.now = self.now, None
        if now is not None:
            now.participation.leave(others_leave_within)
        if self._former is not None:
            self._former.participation.close()
        self.next.close()


class Attempt:
    """A change of membership on a thread.

    meet: joins the others; take: goes over to the new membership. Either take() has been called when wait() returns,
    or it never is.
    seconds: limit, after which the attempt ends even if no store answers.
    """

    def __init__(
        self, meet: Callable[[], Membership], take: Callable[[Membership], None], seconds: float, what: str
    ) -> None:
        self._end: futures.Future[None] = futures.Future()
        self._meet = meet
        self._take = take
        self._deciding = threading.Lock()
        late = TimedOut(f"{what} timed out after {seconds:g} s")
        self._timer = threading.Timer(seconds + _GRACE, self.give_up, (late,))
        self._timer.daemon = True
        self._timer.start()
        _threads.start(self._run, "lockstep-reconfigure")

    def done(self) -> bool:
        """Whether it is over."""
        return self._end.done()

    def wait(self, timeout: float | None = None) -> None:
        """Waits at most so many seconds; raises what the attempt ended with, or WaitTimedOut."""
        if not futures.wait([self._end], timeout).done:
            raise WaitTimedOut("the call is still in flight")
        self._end.result()

    def _run(self) -> None:
        try:
            joined = self._meet()
        except BaseException as error:
            self.give_up(error)
        else:
            with self._deciding:
                if self.done():
                    joined.participation.close()
                else:
                    self._take(joined)
                    self._end.set_result(None)
        self._timer.cancel()

    def give_up(self, error: BaseException) -> None:
        """Ends the attempt, unless it is over."""
        with self._deciding:
            if not self.done():
                self._end.set_exception(error)
