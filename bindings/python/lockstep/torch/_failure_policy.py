"""What the loss of a rank means for a group: strict or elastic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, Union

import torch.distributed as dist

from .._lockstep import Result
from ..communicator import Communicator
from ..errors import Error, PeerLost, WorldChanged
from ..types import PeerId
from ._call_sequence import CallSequence, Outcome
from ._membership import Membership
from ._work import Call


class CollectiveError(dist.DistBackendError):  # type: ignore[misc]  # torch is not there for everybody who checks
    """A collective that failed. The text is that of the Lockstep error, which is also `__cause__`.

    lost: ranks of the group that are gone.
    """

    def __init__(self, text: str, lost: Sequence[int]) -> None:
        super().__init__(text)
        self.lost = list(lost)


def failure_of(error: BaseException, text: str | None = None, lost: Sequence[int] = ()) -> CollectiveError:
    """A CollectiveError that an error has caused. text: None for the error's."""
    failure = CollectiveError(str(error) if text is None else text, lost)
    failure.__cause__ = error
    return failure


class Strict:
    """A lost rank ends the collectives of all ranks, until every survivor has called shrink().

    retries: whether a call that a lost rank has ended is made again.
    """

    retries = False

    def least(self, size: int) -> int:
        """The minimum number of contributors of a call in a group of `size` members."""
        return size

    def broadcast_tag(self, now: Membership) -> int:
        """The tag of the calls that continue a broadcast; no call does."""
        return 0

    def broadcast(self, call: Call, run: Communicator, root: tuple[int, PeerId], again: Callable[[], Call]) -> Call:
        """A broadcast that was begun. root: rank and id. again: begins the broadcast again."""
        return call

    def committed(self, result: Result, now: Membership) -> None:
        """A call has ended well: all members were contributors."""

    def failure(self, lost: list[int]) -> CollectiveError | None:
        """Why the group cannot go on without these ranks; None if it can."""
        return CollectiveError(f"ranks {lost} are gone", lost) if lost else None

    def advice(self, lost: list[int]) -> str:
        """The end of the text of a failed call."""
        return f" (ranks that are gone: {lost}; lockstep.torch.shrink(group) goes on without them)" if lost else ""


class Elastic:
    """All-reduce, barrier and broadcast go on among the survivors, and the group shrinks by itself. See Strict."""

    retries = True

    def least(self, size: int) -> int:
        return 0

    def broadcast_tag(self, now: Membership) -> int:
        """Members call again at different places of their programs: each broadcast has a tag of its own for that."""
        return now.new_tag()

    def broadcast(self, call: Call, run: Communicator, root: tuple[int, PeerId], again: Callable[[], Call]) -> Call:
        """A broadcast that is called again when a rank is lost, until the root is lost."""
        rank, root_id = root

        def following(outcome: Outcome) -> Call | None:
            if not isinstance(outcome, Error):
                return None
            try:
                is_alive = root_id in run.members()
            except Error:  # the run is over
                raise outcome from None
            if not is_alive:
                raise PeerLost(f"rank {rank}, the root of the broadcast, is lost ({outcome})") from outcome
            if not isinstance(outcome, (PeerLost, WorldChanged)):
                raise outcome
            return again()

        return CallSequence(call, following)

    def committed(self, result: Result, now: Membership) -> None:
        """A call has ended well: members that were no contributors have left the group."""
        if len(result.contributors) < len(now.members):
            now.adopt(result)

    def failure(self, lost: list[int]) -> None:
        return None

    def advice(self, lost: list[int]) -> str:
        return ""


FailurePolicy = Union[Strict, Elastic]
