"""The environment of a thread's communicators: real sockets, or the simulated swarm that the program runs in."""

from __future__ import annotations

import threading
from typing import Any, Protocol


class Place(Protocol):
    """The interface of a swarm's program to the package. One per thread of a swarm."""

    def open(self, options: dict[str, Any]) -> Any:
        """Creates a native communicator."""

    strict: bool
    """Whether a sync that repairs a state is a failure of the swarm."""

    def note_repair(self, text: str) -> None:
        """A sync has repaired a state: fails the swarm, also if the program catches the error."""

    def check(self) -> None:
        """Raises lockstep.sim.Killed once the peer has crashed."""

    def spend(self, seconds: float) -> None:
        """Lets virtual time pass."""

    def now(self) -> float:
        """Virtual seconds since the swarm's run began."""


class _Context(threading.local):
    place: Place | None = None


context = _Context()
