"""Transfers between two ranks.

A group of two transfers over its own run. In larger groups each pair has a run of its own, made when its first transfer
begins: a transfer does not end when a third rank is lost.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Callable

import torch

from .._lockstep import Result
from ..errors import NotConnected, PeerLost
from ._place import Place
from ._store import under
from ._tensors import Staged, as_bytes
from ._work import Pending, Work

if TYPE_CHECKING:
    from ..types import PeerId
    from ._process_group import ProcessGroup

_LEAVE_WITHIN = 2.0  # seconds
_FIRST_TAG = 1 << 63  # of the transfers in the run of a group of two, above the tags of its collectives


class _Line:
    """The transfers of one direction between this process and another, one after the other, on a thread."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def add(self, job: Callable[[], Result]) -> Pending:
        transfer = Pending()
        self._jobs.put((job, transfer))
        return transfer

    def close(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while True:
            task = self._jobs.get()
            if task is None:
                return
            job, transfer = task
            try:
                transfer.future.set_result(job())
            except BaseException as error:
                transfer.future.set_exception(error)


class _Pair:
    """The run of this process and one other."""

    def __init__(self) -> None:
        self.making = threading.Lock()
        self.place: Place | None = None


class Pairs:
    """The transfers of a process group with its partners.

    store: torch's store of the group, where partners meet.
    timeout: limit for a partner to appear.
    place: the place in the run of the group if it has two members; else None.
    """

    def __init__(self, store: Any, timeout: timedelta, place: Place | None) -> None:
        self._store = store
        self._timeout = timeout
        self._place = place
        self._lines: dict[tuple[PeerId, bool], _Line] = {}
        self._pairs: dict[PeerId, _Pair] = {}
        self._is_closed = False

    def transfer(self, group: ProcessGroup, tensors: Sequence[torch.Tensor], rank: int, tag: int, sends: bool) -> Work:
        """Begins a transfer; those of one direction between two ranks keep their order."""
        own, other = group.communicator.id, group._peer(rank)
        if own == other:
            raise ValueError(f"rank {rank} cannot send to itself")
        line = self._lines.get((other, sends))
        if line is None:
            line = self._lines[other, sends] = _Line(f"lockstep-{'send' if sends else 'recv'}-{rank}")
        staged = [Staged(tensor, reads=sends) for tensor in tensors]

        def job() -> Result:
            # Each direction has tags of its own.
            number = 2 * tag + int((own < other) == sends)
            if self._place is not None:
                run, root = self._place.run, own if sends else other
                number += _FIRST_TAG
            else:
                run = self._place_of(group, own, other, rank).run
                root = run.members()[(own > other) if sends else (own < other)]
            limit = self._timeout.total_seconds()
            results = [
                run.broadcast(as_bytes(one.memory), root, tag=number, timeout=limit, minimum_world=2) for one in staged
            ]
            return results[-1]

        def finish(_: Sequence[Result]) -> None:
            if not sends:
                for one in staged:
                    one.give_back()

        return Work([line.add(job)], tensors, finish, group._failure)

    def close(self) -> None:
        """Ends all transfers; partners see the end as a loss."""
        self._is_closed = True
        for line in self._lines.values():
            line.close()
        for pair in list(self._pairs.values()):
            if pair.place is not None:
                pair.place.leave(_LEAVE_WITHIN)

    def _place_of(self, group: ProcessGroup, own: PeerId, other: PeerId, rank: int) -> Place:
        pair = self._pairs.setdefault(other, _Pair())  # one for the lines of both directions
        with pair.making:
            if pair.place is None:
                first, second = sorted((own, other))

                def check() -> None:
                    if self._is_closed:
                        raise NotConnected("the process group was destroyed")
                    if other not in group.communicator.members():
                        raise PeerLost(f"rank {rank} was lost before it took part in the transfer")

                store = under(self._store, f"lockstep/pair/{first.hex()}-{second.hex()}")
                pair.place = Place(store, int(own != first), 2, self._timeout, None, check)
            return pair.place
