"""The statuses of calls."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """The status of a call, numbered as in the C library (`lockstep.Error.status`, `lockstep.Result.status`)."""

    OK = 0
    INVALID_ARGUMENT = 1
    MISMATCH = 2
    PEER_LOST = 3
    WORLD_CHANGED = 4
    BELOW_MINIMUM = 5
    ABORTED = 6
    TIMED_OUT = 7
    COHORT_CLOSED = 8
    OUTCOME_UNKNOWN = 9
    EVICTED = 10
    NOT_CONNECTED = 11
    UNREACHABLE = 12
    REFUSED = 13
    TOO_MANY_IN_FLIGHT = 14
    BUFFER_TOO_SMALL = 15
    OUT_OF_MEMORY = 16
    PROTOCOL = 17
    INTERNAL = 18
    STATE_UNDEFINED = 19
    STATE_CONFLICT = 20
    PENDING = 100
    INTERRUPTED = 101
    FORKED = 102
