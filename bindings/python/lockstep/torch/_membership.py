"""Changes of membership: the processes that are named meet anew, in a run of their own."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import os
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Callable
from urllib.parse import urlsplit

import torch.distributed as dist

from .. import _threads
from .._lockstep import Result
from ..errors import Error, PeerLost, Refused, TimedOut, Unreachable
from ..types import OpName, PeerId
from ._rendezvous import Participation, host_of_store, own_host
from ._store import Store, StoreServer, connect_store, keep
from ._work import Pending

_CAME = "lockstep/came/"
_FAILED = "lockstep/failed"  # the kind of an error, and its text
_FAILURES: dict[str, type[Error]] = {"timed-out": TimedOut, "refused": Refused}
_LEAVE_WITHIN = 2.0  # seconds
_GRACE = 2.0  # seconds from a limit until a change of membership ends without an answer of the network
_TELL_WITHIN = 1.0  # seconds
_MOST_CALLS = 64  # whose options are kept


@dataclasses.dataclass
class ReconfigureOptions:
    """What torch.distributed._reconfigure gives to a group, for a torch that has no such class.

    uuid: number of the new membership, never used before.
    handles: one of get_reconfigure_handle() for each member; a list assigns the ranks, a set leaves them to the group.
    timeout: limit; None for the group's.
    hints: not used.
    """

    uuid: int = 0
    handles: list[str] | set[str] = dataclasses.field(default_factory=list)
    timeout: timedelta | None = None
    hints: dict[str, str] = dataclasses.field(default_factory=dict)


class Membership:
    """This process's part in one membership of a group.

    participation: the part in the run.
    store: torch's store, where the members meet.
    members: the members in rank order, equal on all of them, lost ones included until the group has shrunk.
    has_sent: whether this process has sent anything to one rank.
    end_of_run: why the run is over for this process, once a call has said so.
    chains: numbers of the calls that are made of several, equal on all members.
    send_plain, recv_plain: begin a transfer of one plain tensor; see Communicator.plain_transfers().
    """

    def __init__(self, participation: Participation, store: Any, timeout: timedelta, members: Sequence[PeerId]) -> None:
        self.participation = participation
        self.store = store
        self.members = list(members)
        self.has_sent = False
        self.end_of_run: Error | None = None
        self.chains = itertools.count()
        self.send_plain, self.recv_plain = participation.run.plain_transfers()
        self._all_reduces: dict[tuple[OpName, float, int], Callable[[Any], Result]] = {}

    def all_reduce(self, op: OpName, seconds: float, elastic: bool) -> Callable[[Any], Result]:
        """The all-reduce of one array in place. elastic: among survivors; otherwise among all members."""
        least = 0 if elastic else len(self.members)
        call = self._all_reduces.get((op, seconds, least))
        if call is None:
            call = self.participation.run.all_reduce_with(op=op, timeout=seconds, minimum_world=least, retry=elastic)
            if len(self._all_reduces) >= _MOST_CALLS:
                self._all_reduces.clear()
            self._all_reduces[op, seconds, least] = call
        return call

    def retire(self) -> None:
        """Leaves the run, on a thread. A coordinator of this process goes on for the others; see end()."""
        _threads.start(self._retire, "lockstep-retire")

    def _retire(self) -> None:
        with contextlib.suppress(Error):
            self.participation.run.abort_all("the process group was reconfigured")
            self.participation.run.leave(timeout=_LEAVE_WITHIN)
        self.participation.run.close()

    def end(self, others_leave_within: float) -> None:
        """Leaves the run, after the others if the coordinator is in this process."""
        self.participation.leave(others_leave_within)


def first_membership(store: Any, rank: int, size: int, timeout: timedelta, coordinator: str | None) -> Membership:
    """The membership that torch gives to a new group. coordinator: see Participation."""
    participation = Participation(store, rank, size, timeout, coordinator)
    members = participation.run.members()
    if len(members) < size:
        participation.close()
        raise PeerLost(f"{size - len(members)} of {size} ranks were lost while the group was made")
    return Membership(participation, store, timeout, members)


def join(store: Any, rank: int, size: int, seconds: float, timeout: timedelta, what: str) -> Membership:
    """All `size` processes meet, or every one of them gets the same error.

    store: torch's store, fresh for this change; all of them use it.
    seconds: limit. timeout: default of the new membership's calls. what: the change, for error texts.
    Raises TimedOut, Refused.
    """
    limit = time.monotonic() + seconds

    def check() -> None:
        if store.check([_FAILED]):
            raise _FailedElsewhere()

    try:
        check()
        store.set(f"{_CAME}{rank}", b"1")
        participation = Participation(store, rank, size, timedelta(seconds=seconds), None, check)
        try:
            # Nobody has moved until this barrier has committed, and it has one outcome for all.
            left = max(0.001, limit - time.monotonic())
            result = participation.run.barrier(timeout=left, minimum_world=size, retry=False)
        except BaseException:
            participation.close()
            raise
        return Membership(participation, store, timeout, result.contributors)
    except (Error, RuntimeError, OSError) as error:
        is_late = isinstance(error, TimedOut) or time.monotonic() >= limit
        text = f"{what} timed out after {seconds:g} s" if is_late else f"{what} failed"
        why = str(error) if isinstance(error, Error) else f"rank 0 cannot be reached ({error})"
        own = (TimedOut if is_late else Refused)(f"{text}: {_missing(store, size) or why}")
        raise _agreed_failure(store, own) from error


class _FailedElsewhere(Refused):
    """Another process has failed to join. The store has its error."""


def _missing(store: Any, size: int) -> str:
    try:
        absent = [rank for rank in range(size) if not store.check([f"{_CAME}{rank}"])]
    except (RuntimeError, OSError):
        return ""
    return f"ranks {absent} did not come" if absent else ""


def _agreed_failure(store: Any, own: Error) -> Error:
    """Tells the others that this change has failed. Returns the error of the first that has told so."""
    name = next(name for name, kind in _FAILURES.items() if type(own) is kind)
    try:
        name, _, text = keep(store, _FAILED, f"{name} {own}").partition(" ")
    except (RuntimeError, OSError):
        return own
    return _FAILURES[name](text)


class NextMembership:
    """The next membership of a group: where this process can be met for it, in a store of its own.

    A handle is lockstep://host:port/name: the address of that store, and the process's name in this group.

    near: a host, or torch's store of the group on it, by whose network others reach this host; None: see _lighthouse().
    """

    def __init__(self, near: Any) -> None:
        self._near = near
        self._server: StoreServer | None = None
        self._store: Store | None = None
        self._name = uuid.uuid4().hex
        self._used: set[int] = set()
        self._opening = threading.Lock()

    def handle(self) -> str:
        """The handle of this process; always the same."""
        with self._opening:
            if self._server is None or self._store is None:
                self._server = StoreServer()
                near = self._near or _lighthouse()
                host = near if isinstance(near, str) else host_of_store(near)
                self._store = Store(self._server, own_host(host))
            return f"lockstep://{self._store.host}:{self._server.port}/{self._name}"

    def join(self, number: int, handles: Iterable[str], seconds: float, timeout: timedelta) -> Membership:
        """Meets the processes of the handles in the store of the first of them: all of them come, or none moves."""
        own, wanted = self.handle(), _in_order(handles)
        if own not in wanted:
            raise Refused(f"handles have {len(wanted)} members without this process, whose handle is {own}")
        if len(set(wanted)) < len(wanted):
            raise Refused(f"handles name a process twice: {wanted}")
        what = f"reconfigure with uuid {number}"
        limit = time.monotonic() + seconds
        name = hashlib.sha256("\n".join(wanted).encode()).hexdigest()[:16]
        refused = ""
        if number in self._used:
            refused = f"{what} failed: rank {wanted.index(own)} has already used this uuid (already used); take another"
            seconds = min(seconds, _TELL_WITHIN)
        self._used.add(number)
        try:
            store = self._store if wanted[0] == own and self._store is not None else _store_at(wanted[0], seconds)
        except OSError as error:
            if refused:
                raise Refused(refused) from error
            if time.monotonic() < limit:
                raise Unreachable(f"{what} failed: rank 0 cannot be reached ({error})") from error
            raise TimedOut(f"{what} timed out after {seconds:g} s: rank 0 cannot be reached ({error})") from error
        store = store.under(f"lockstep/{number}/{name}")
        if refused:
            _agreed_failure(store, Refused(refused))
            raise Refused(refused)
        return join(store, wanted.index(own), len(wanted), max(0.001, limit - time.monotonic()), timeout, what)

    def close(self) -> None:
        """Ends the store."""
        with self._opening:
            if self._server is not None:
                self._server.close()
            self._server = self._store = None


def _lighthouse() -> str | None:
    """The host of torchft's lighthouse, which reaches all replicas."""
    return urlsplit(os.environ.get("TORCHFT_LIGHTHOUSE", "")).hostname


def _in_order(handles: Iterable[str]) -> list[str]:
    return sorted(handles) if isinstance(handles, (set, frozenset)) else list(handles)


def _store_at(handle: str, seconds: float) -> Store:
    parts = urlsplit(handle)
    if parts.scheme != "lockstep" or not parts.hostname or not parts.port:
        raise Refused(f"{handle!r} is no handle of the backend lockstep")
    return connect_store(parts.hostname, parts.port, seconds)


def store_of_address(address: str, seconds: float) -> Any:
    """The store of torch's that torchft names: host:port/prefix."""
    place, _, prefix = address.partition("/")
    host, _, port = place.rpartition(":")
    limit = timedelta(seconds=seconds)
    store = dist.TCPStore(host.strip("[]"), int(port), is_master=False, wait_for_workers=False, timeout=limit)
    return dist.PrefixStore(prefix, store)


class Attempt(Pending):
    """A change of membership on a thread.

    meet: joins the others; take: goes over to the new membership. Either take() has been called when wait() returns,
    or it never is.
    seconds: limit, after which the attempt ends even if no store answers.
    """

    def __init__(
        self, meet: Callable[[], Membership], take: Callable[[Membership], None], seconds: float, what: str
    ) -> None:
        super().__init__()
        self._meet = meet
        self._take = take
        self._deciding = threading.Lock()
        self._timer = threading.Timer(seconds + _GRACE, self.give_up, (f"{what} timed out after {seconds:g} s",))
        self._timer.daemon = True
        self._timer.start()
        _threads.start(self._run, "lockstep-reconfigure")

    def _run(self) -> None:
        try:
            joined = self._meet()
        except BaseException as error:
            with self._deciding:
                if not self.done():
                    self.future.set_exception(error)
        else:
            with self._deciding:
                if self.done():
                    joined.participation.close()
                else:
                    self._take(joined)
                    self.future.set_result(None)
        self._timer.cancel()

    def give_up(self, text: str) -> None:
        """Ends the attempt, unless it is over."""
        with self._deciding:
            if not self.done():
                self.future.set_exception(TimedOut(text))
