"""Fault-tolerant collectives over the public internet.

Peers join, leave and crash at any moment while they all-reduce arrays with each other and keep a shared state equal,
down to the last bit.

    import lockstep, numpy as np

    with lockstep.connect("env:LOCKSTEP_COORDINATOR", founders=2) as run:
        gradient = np.ones(1 << 20, np.float32)
        for step in range(100):
            result = run.all_reduce(gradient, op="avg")  # continues among the survivors when a peer is lost
            run.admit()                                  # newcomers join here

Every run needs a coordinator: the command `lockstep coordinator`, or lockstep.Coordinator. The command prints a run
token, "lks1_...": the string that every peer connects with, here from a variable of the environment.

connect, Communicator   this process's place in a run: collectives, admission, the world
Options                 keyword arguments of both
Work, wait_any          calls in flight; `await work` under asyncio
no_wait                 launches that find no room for another call raise TooManyInFlight instead of waiting
Result                  how a call ended: who contributed, hash, retries, the sizes of the run, newcomers
State                   arrays and numbers that a sync makes equal on all peers
Coordinator             a coordinator inside this process
Error                   base of what calls raise; see lockstep.errors
Op, WireFormat, ...     enums that also accept their names
sim                     the simulator: runs of many peers in one process, from a seed
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import errors
from ._launches import no_wait
from ._lockstep import Result, Work, version
from ._renamed import renamed
from ._wait import wait_any
from .certificates import Certificates
from .communicator import COLLECTIVE_TIMEOUT, CONNECT_TIMEOUT, Communicator, Options, connect
from .coordinator import Coordinator
from .errors import (
    Aborted,
    ArrayError,
    BelowMinimum,
    BufferTooSmall,
    CohortClosed,
    Desync,
    Error,
    Evicted,
    Forked,
    InternalError,
    InvalidArgument,
    Mismatch,
    NotConnected,
    OutcomeUnknown,
    OutOfMemory,
    PeerLost,
    ProtocolError,
    Refused,
    StateConflict,
    StateUndefined,
    TimedOut,
    TooManyInFlight,
    Unreachable,
    WaitTimedOut,
    WorldChanged,
)
from .state import State
from .types import LAYER_TAGS, Algorithm, Op, PeerId, Stage, Status, SyncStrategy, WireFormat, World

if TYPE_CHECKING:
    from . import sim as sim
else:

    def __getattr__(name: str) -> object:
        """`lockstep.sim` is imported when it is used first: most programs never use it."""
        if name == "sim":
            return importlib.import_module(".sim", __name__)
        return renamed(__name__, name, {"Strategy": "SyncStrategy"})


def __dir__() -> list[str]:
    return sorted({*globals(), "sim"})


__version__ = version()

__all__ = [
    "COLLECTIVE_TIMEOUT",
    "CONNECT_TIMEOUT",
    "LAYER_TAGS",
    "Aborted",
    "Algorithm",
    "ArrayError",
    "BelowMinimum",
    "BufferTooSmall",
    "Certificates",
    "CohortClosed",
    "Communicator",
    "Coordinator",
    "Desync",
    "Error",
    "Evicted",
    "Forked",
    "InternalError",
    "InvalidArgument",
    "Mismatch",
    "NotConnected",
    "Op",
    "Options",
    "OutOfMemory",
    "OutcomeUnknown",
    "PeerId",
    "PeerLost",
    "ProtocolError",
    "Refused",
    "Result",
    "Stage",
    "State",
    "StateConflict",
    "StateUndefined",
    "Status",
    "SyncStrategy",
    "TimedOut",
    "TooManyInFlight",
    "Unreachable",
    "WaitTimedOut",
    "WireFormat",
    "Work",
    "World",
    "WorldChanged",
    "__version__",
    "connect",
    "errors",
    "no_wait",
    "wait_any",
]
