"""The exceptions of calls. Each is a lockstep.Error; most are also a matching built-in exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._context import context
from ._status import Status

if TYPE_CHECKING:
    from ._lockstep import Result

__all__ = [
    "Aborted",
    "ArrayError",
    "BelowMinimum",
    "BufferTooSmall",
    "CohortClosed",
    "Desync",
    "DeviceArray",
    "Error",
    "Evicted",
    "Forked",
    "InternalError",
    "InvalidArgument",
    "Mismatch",
    "NotConnected",
    "OutOfMemory",
    "OutcomeUnknown",
    "PeerLost",
    "ProtocolError",
    "Refused",
    "StateConflict",
    "StateUndefined",
    "TimedOut",
    "TooManyInFlight",
    "Unreachable",
    "WaitTimedOut",
    "WorldChanged",
]


class Error(Exception):
    """Base of all errors. The text says what happened, with which values, and what to do."""

    _status = 18
    result: Result | None = None
    """What is known about the failed call, for example `error.result.world_size`; None if the call never started."""

    @property
    def status(self) -> Status:
        """The status of the C library."""
        return Status(self._status)


class InvalidArgument(Error, ValueError):
    """An argument is invalid: nothing was started. Or a peer's data cannot be reduced: the text names the peer."""

    _status = 1


class ArrayError(InvalidArgument, TypeError):
    """An array that a call cannot use. The text names shape, strides, dtype and the remedy."""


class DeviceArray(ArrayError):
    """An array that lies in the memory of a CUDA device."""


class Mismatch(Error, ValueError):
    """Peers gave different arguments for one call; nothing was reduced. The text names both sides."""

    _status = 2


class PeerLost(Error, ConnectionError):
    """A member was lost, and this call does not retry. Inputs are restored."""

    _status = 3


class WorldChanged(Error):
    """A member left or joined, and the arguments of this call depend on the members."""

    _status = 4


class BelowMinimum(Error):
    """Fewer members than minimum_world are left; wait_for_world() waits. Inputs are restored."""

    _status = 5


class Aborted(Error):
    """A caller on some peer aborted the call; the text names the peer and the reason."""

    _status = 6


class TimedOut(Error, TimeoutError):
    """The timeout of a call on some peer ended the call on every peer."""

    _status = 7


class CohortClosed(Error):
    """A member has called admit, so it can no longer take part in this call."""

    _status = 8


class OutcomeUnknown(Error, ConnectionError):
    """The run was lost before this peer learned the outcome. Connect again as a new peer, and sync."""

    _status = 9


class Evicted(Error, ConnectionError):
    """The coordinator removed this peer; the text says why. Connect again as a new peer, and sync."""

    _status = 10


class NotConnected(Error, ConnectionError):
    """The communicator is not, or no longer, part of a run."""

    _status = 11


class Unreachable(Error, ConnectionError):
    """An address could not be resolved or reached.

    Also: a call needs a link between two members of which nobody can dial either. The text names them.
    """

    _status = 12


class Refused(Error, ConnectionRefusedError):
    """The coordinator refused this peer, or shows another key than the run token names; the text says why."""

    _status = 13


class TooManyInFlight(Error):
    """65,536 calls were in flight or waited, or 16 states were published or fetched. Wait for one of them first.

    A launch raises this inside no_wait() and in an event loop of asyncio; elsewhere the launch waits for room.
    """

    _status = 14


class BufferTooSmall(Error, ValueError):
    """A receiving array cannot hold the result; the text says what it needs."""

    _status = 15


class OutOfMemory(Error, MemoryError):
    """There was not enough memory for the call."""

    _status = 16


class ProtocolError(Error, ConnectionError):
    """The other side does not speak Lockstep, or another version of it."""

    _status = 17


class InternalError(Error, RuntimeError):
    """Results differ, or memory changed during the call: the text names the place; or a bug in Lockstep: report it."""

    _status = 18


class StateUndefined(Error):
    """A sync: no member that may send has a state. Load a checkpoint on one of them."""

    _status = 19


class StateConflict(Error):
    """A sync: this newcomer's revision is higher than the run's, and its state was not overwritten.

    The members go on without this peer. Join again, and sync with strategy="newest" if the state of this peer shall
    win, or with strategy="receive-only" if it may be overwritten.
    """

    _status = 20


class Desync(Error, RuntimeError):
    """The states of members differ that must be equal; all members raise it alike, and the text says where.

    Of sync(strict=True): a member of the last agreed revision came with another state, which the sync has overwritten.
    All members hold the same state now. The member has a bug, or the memory of its host is broken.
    """

    _status = 0  # the call itself has succeeded


class Forked(Error, RuntimeError):
    """The communicator belongs to the parent process. Create a new one in the child."""

    _status = 102


class WaitTimedOut(Error, TimeoutError):
    """Only the wait ended; the call continues."""

    _status = 100


BY_STATUS: dict[int, type[Error]] = {
    kind._status: kind
    for kind in (
        InvalidArgument,
        Mismatch,
        PeerLost,
        WorldChanged,
        BelowMinimum,
        Aborted,
        TimedOut,
        CohortClosed,
        OutcomeUnknown,
        Evicted,
        NotConnected,
        Unreachable,
        Refused,
        TooManyInFlight,
        BufferTooSmall,
        OutOfMemory,
        ProtocolError,
        InternalError,
        StateUndefined,
        StateConflict,
        Forked,
        WaitTimedOut,
    )
}


def error_of(status: int, text: str, result: Result | None) -> Error:
    """The exception for a status of the C library; another one for a peer that was killed in a swarm."""
    if context.place is not None:
        context.place.check()
    error = BY_STATUS.get(status, InternalError)(text)
    error.result = result
    return error
