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

_CAME = "lockstep/came/"
_FAILED = "lockstep/failed"  # the kind of an error, and its text
_FAILURES: dict[str, type[Error]] = {"timed-out": TimedOut, "refused": Refused}
_LEAVE_WITHIN = 2.0  # seconds
_TELL_WITHIN = 1.0  # seconds
_MOST_CALLS = 64  # whose options are kept
_FIRST_TAG = 1 << 62  # of the group's own


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

    participation: the part in the run; `run` is its communicator.
    store: torch's store, where the members meet.
    members: the members in rank order, equal on all of them, lost ones included until the group has shrunk.
    has_sent: whether this process has sent anything to one rank.
    end_of_run: why the run is over for this process, once a call has said so.
    monitored: numbers of monitored barriers, equal on all members.
    send_plain, recv_plain: begin a transfer of one plain tensor; see Communicator.plain_transfers().
    """

    def __init__(self, participation: Participation, store: Any, members: Sequence[PeerId]) -> None:
        self.participation = participation
        self.run = participation.run
        self.store = store
        self.members = list(members)
        self.has_sent = False
        self.end_of_run: Error | None = None
        self.monitored = itertools.count()
        self.send_plain, self.recv_plain = self.run.plain_transfers()
        self._tags = itertools.count(_FIRST_TAG)
        self._all_reduces: dict[tuple[OpName, float, int], Callable[[Any], Result]] = {}

    def peer(self, rank: int) -> PeerId:
        """The member of a rank. Raises ValueError."""
        if not 0 <= rank < len(self.members):
            raise ValueError(f"rank {rank} is not in this group of {len(self.members)}")
        return self.members[rank]

    def lost(self) -> list[int]:
        """The ranks that the run has lost."""
        alive = set(self.run.members())
        return [rank for rank, member in enumerate(self.members) if member not in alive]

    def adopt(self, result: Result) -> None:
        """The contributors of a committed round are the members, equal on every one of them."""
        alive = set(result.contributors)
        self.members = [member for member in self.members if member in alive]

    def new_tag(self) -> int:
        """A tag for a collective that is made of several calls, equal on all members."""
        return next(self._tags)

    def all_reduce(
        self, op: OpName, seconds: float, least: Callable[[int], int], retries: bool
    ) -> Callable[[Any], Result]:
        """The all-reduce of one array in place. least, retries: see FailurePolicy; always the same ones."""
        size = len(self.members)
        call = self._all_reduces.get((op, seconds, size))
        if call is None:
            call = self.run.all_reduce_with(op=op, timeout=seconds, minimum_world=least(size), retry=retries)
            if len(self._all_reduces) >= _MOST_CALLS:
                self._all_reduces.clear()
            self._all_reduces[op, seconds, size] = call
        return call

    def retire(self) -> None:
        """Leaves the run, on a thread. A coordinator of this process goes on for the others until it is closed."""

        def leave() -> None:
            with contextlib.suppress(Error):
                self.run.abort_all("the process group was reconfigured")
                self.run.leave(timeout=_LEAVE_WITHIN)
            self.run.close()

        _threads.start(leave, "lockstep-retire")


def first_membership(store: Any, rank: int, size: int, timeout: timedelta, coordinator: str | None) -> Membership:
    """The membership that torch gives to a new group. coordinator: see Participation."""
    participation = Participation(store, rank, size, timeout, coordinator)
    members = participation.run.members()
    if len(members) < size:
        participation.close()
        raise PeerLost(f"{size - len(members)} of {size} ranks were lost while the group was made")
    return Membership(participation, store, members)


def join(store: Any, rank: int, size: int, seconds: float, what: str) -> Membership:
    """All `size` processes meet, or every one of them gets the same error.

    store: torch's store, fresh for this change; all of them use it.
    seconds: limit. what: the change, for error texts.
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
        return Membership(participation, store, result.contributors)
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

    near: a host, or torch's store of the group on it, by whose network others reach this host; None:
        the host of torchft's lighthouse, which reaches all replicas.
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
                near = self._near or urlsplit(os.environ.get("TORCHFT_LIGHTHOUSE", "")).hostname
                host = near if isinstance(near, str) else host_of_store(near)
                self._store = Store(self._server, own_host(host))
            return f"lockstep://{self._store.host}:{self._server.port}/{self._name}"

    def join(self, number: int, handles: Iterable[str], seconds: float) -> Membership:
        """Meets the processes of the handles in the store of the first of them: all of them come, or none moves."""
        own, is_set = self.handle(), isinstance(handles, (set, frozenset))
        wanted = sorted(handles) if is_set else list(handles)
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
        return join(store, wanted.index(own), len(wanted), max(0.001, limit - time.monotonic()), what)

    def close(self) -> None:
        """Ends the store."""
        with self._opening:
            if self._server is not None:
                self._server.close()
            self._server = self._store = None


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
