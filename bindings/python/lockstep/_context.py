"""Where a thread's communicators live: on real sockets, or in a simulated swarm, for a program that runs in one."""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Place(Protocol):
    """What the program of a swarm is to the package. One per thread of a swarm."""

    def open(self, options: dict[str, Any]) -> Any:
        """A native communicator."""

    def check(self) -> None:
        """Raises lockstep.sim.Killed once the peer has crashed."""

    def spend(self, seconds: float) -> None:
        """Lets virtual time pass."""

    def now(self) -> float:
        """Virtual seconds since the swarm's run began."""


class _Context(threading.local):
    place: Place | None = None


context = _Context()
