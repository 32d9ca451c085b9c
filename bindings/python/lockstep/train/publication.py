"""Publishes the shared state to newcomers while all members wait for each other, when it does not change."""

from __future__ import annotations

from contextlib import suppress
from typing import Callable

from .._lockstep import Result, Work
from ..communicator import Communicator
from ..errors import Error, WaitTimedOut
from ..state import State

_STEADY = 0.1  # seconds that a shared state must stay as it is before it is published: short rounds cost nothing


class Publication:
    """The shared state, as newcomers see it: published from offer() to withdraw().

    run: None if newcomers fetch nothing, as with the shards of a Replica. whole_state: gives what is published.
    tag: of the state.
    """

    def __init__(self, run: Communicator | None, whole_state: Callable[[], State], tag: int) -> None:
        self._run = run
        self._whole_state = whole_state
        self._tag = tag
        self._is_offered = False  # the shared state is published, and does not change
        self._steady_since = 0.0  # the shared state is as it is

    def wait(self, work: Work) -> Result:
        """Waits for a call of all members. Meanwhile the shared state does not change, and newcomers may fetch it."""
        while True:
            try:
                return work.wait(timeout=_STEADY)
            except WaitTimedOut:
                self.offer()

    def offer(self, at_once: bool = False) -> None:
        """Publishes the shared state until withdraw(), if newcomers fetch it and it has been the same for a while."""
        run = self._run
        if run is None or self._is_offered or not (run.fetching or run.holding):
            return
        if not at_once and run.now - self._steady_since < _STEADY:
            return
        self._is_offered = True
        with suppress(Error):  # the run may be over, which the next call says
            run.publish(self._whole_state(), stable=True, tag=self._tag)

    def withdraw(self) -> None:
        """Before the shared state changes."""
        if self._run is None:
            return
        self._steady_since = self._run.now
        if self._is_offered:
            self._is_offered = False
            with suppress(Error):
                self._run.unpublish(self._tag)
