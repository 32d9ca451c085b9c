"""How the processes of a group find each other and get the ranks that torch has given them."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from datetime import timedelta
from typing import Any, Callable

from .. import _lockstep
from ..communicator import Communicator
from ..coordinator import Coordinator
from ..errors import Error, NotConnected, Refused, TimedOut, WaitTimedOut

COORDINATOR = "LOCKSTEP_COORDINATOR"
"""Environment variable with the coordinator of the default group, as lockstep.connect() takes it."""

HOST = "LOCKSTEP_HOST"
"""Environment variable with this host's address for other processes, where the address cannot be guessed."""

_POLL = 0.002  # seconds between two looks at torch's store
_LEAVING_TAKES = 1.0  # seconds at most of those for leaving, if the other ranks have not gone before
_SLICE = 0.1  # seconds after which a wait looks whether it still makes sense


class Participation:
    """Part in a run whose ranks are those of torch.

    store: torch's store of the group; the members meet there.
    coordinator: of the run, as lockstep.connect() takes it; None: rank 0 runs one.
    timeout: limit for all members to join.
    check: raises when there is nobody left to wait for; called again and again during every wait.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout: timedelta,
        coordinator: str | None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self._limit = time.monotonic() + timeout.total_seconds()
        self.coordinator: Coordinator | None = None
        if coordinator is None:
            if rank == 0:
                host = own_host(host_of_store(store))
                listen = f"{host}:0" if host.startswith("127.") else ":0"
                self.coordinator = Coordinator(listen, advertise=host, shared_thread=True)
                coordinator = self.coordinator.token
                store.set("lockstep/coordinator", coordinator)
            else:
                self._await(store, "lockstep/coordinator", "rank 0 to start the coordinator")
                coordinator = store.get("lockstep/coordinator").decode()
        # Between processes of one host a second stream gains nothing, and costs a descriptor.
        stripes = 1 if _lockstep.addresses_of(coordinator).startswith("127.") else 2
        self.run = Communicator(name=own_name(f"rank {rank}"), shared_thread=True, stripes=stripes)
        try:
            self._take_rank(store, rank, size, coordinator)
        except BaseException:
            self.close()
            raise

    def _take_rank(self, store: Any, rank: int, size: int, coordinator: str) -> None:
        """Joins behind the rank before: a run numbers its members in the order in which they are admitted."""
        if rank > 0:
            self._await(store, f"lockstep/joined/{rank - 1}", f"rank {rank - 1} to join")
        self._connect(coordinator)
        if self.run.rank != rank:
            raise Refused(
                f"rank {rank} of the group became rank {self.run.rank} of the run at "
                f"{_lockstep.addresses_of(coordinator)}: other processes are in this run already; give every group a "
                "coordinator of its own"
            )
        store.set(f"lockstep/joined/{rank}", b"1")
        for members in range(rank + 2, size + 1):
            self._await_world(members, size)

    def _connect(self, coordinator: str) -> None:
        connecting = self.run.connect_async(coordinator, timeout=self._left())
        while not connecting.done():
            self._check()
            with contextlib.suppress(WaitTimedOut):
                connecting.wait(_SLICE)
        connecting.wait()

    def _await(self, store: Any, key: str, what: str) -> None:
        """Waits for a key without keeping the store from other threads."""
        while not store.check([key]):
            self._check()
            if _lockstep.is_exiting():
                raise NotConnected(f"the process ends; waited in vain for {what}")
            if time.monotonic() > self._limit:
                raise TimedOut(f"waited in vain for {what}")
            time.sleep(_POLL)  # a blocking wait() would keep the store from other threads

    def _await_world(self, members: int, size: int) -> None:
        while True:
            self._check()
            try:
                self.run.wait_for_world(members, timeout=min(_SLICE, self._left()))
                return
            except TimedOut:
                if time.monotonic() > self._limit:
                    raise TimedOut(f"{self.run.world_size} of {size} ranks have joined in time") from None

    def _left(self) -> float:
        return max(0.001, self._limit - time.monotonic())

    def leave(self, others_leave_within: float) -> None:
        """Leaves the run, in so many seconds. The process that runs the coordinator first waits for the others."""
        limit = time.monotonic() + others_leave_within
        alone = limit - min(_LEAVING_TAKES, others_leave_within / 2)
        try:
            while self.coordinator is not None and self.run.world_size > 1 and time.monotonic() < alone:
                time.sleep(0.002)  # no call waits for fewer members
            self.run.leave(timeout=max(_SLICE, limit - time.monotonic()))
        except Error:
            pass  # the run is over already
        self.close()

    def close(self) -> None:
        """Ends every call in flight, and the coordinator if it runs here."""
        self.run.close()
        if self.coordinator is not None:
            self.coordinator.stop()


def host_of_store(store: Any) -> str | None:
    """The host of torch's store; None for a store without a network."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host: str | None = getattr(store, "host", None) or os.environ.get("MASTER_ADDR")
    return host


def own_name(part: str) -> str:
    """The name of this process's part in a run, for logs and `lockstep status`: "node7[4123] rank 0"."""
    return f"{socket.gethostname().partition('.')[0][:32]}[{os.getpid()}] {part}"


def own_host(target: str | None) -> str:
    """This host's address for others: the one from which it reaches `target`; None: all processes are on this host."""
    given = os.environ.get(HOST)
    if given:
        return given
    if target is None:
        return "127.0.0.1"
    family, kind, _, _, place = socket.getaddrinfo(target, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as probe:  # sends nothing; asks the system which address it would use
        probe.connect(place)
        host = str(probe.getsockname()[0])
    return f"[{host}]" if ":" in host else host
