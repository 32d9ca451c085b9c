"""Arguments and results of calls: enums that also accept their names, peer ids, the world."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from ._arguments import shown
from ._lockstep import peer_id_text
from ._renamed import renamed
from ._status import Status
from .errors import InvalidArgument

__all__ = [
    "LAYER_TAGS",
    "Algorithm",
    "AlgorithmName",
    "Op",
    "OpName",
    "PeerId",
    "Stage",
    "Status",
    "SyncStrategy",
    "SyncStrategyName",
    "WireFormat",
    "WireFormatName",
    "World",
]


LAYER_TAGS = 1 << 63
"""Tags from here on are for layers above, such as lockstep.torch: a program that uses lower tags meets none of them."""


class Op(str, enum.Enum):
    """The operation that folds elements; its name works, too: `op="avg"`.

    Equal bits on every peer and CPU. Integers wrap; AVG of integers divides the wrapped sum, toward zero. Floats follow
    IEEE 754; float16 and bfloat16 are folded in float32 and rounded after every fold. Any NaN becomes the canonical
    NaN. BAND, BOR and BXOR act on the bits of integers. For bool, SUM, MAX and BOR mean any, PROD, MIN and BAND mean
    all, BXOR means an odd number; there is no AVG.
    """

    SUM = "sum"
    AVG = "avg"
    PROD = "prod"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


class WireFormat(str, enum.Enum):
    """The wire format of float32 elements in an all-reduce; its name works, too: `up="int8"`.

    ============== ================ ================= =============================================
    name           bits per element elements per block largest error of an element x
    ============== ================ ================= =============================================
    native         32                                 none
    bf16           16                                 abs(x) / 256
    f16            16                                 abs(x) / 2048; larger values become 65504
    int8           8.125            256               largest abs(x) / 254
    int8-min-max   8.25             256               (largest x - smallest x) / 510
    int8-codebook  10               4096              a bin of 6 root mean squares / 256
    int4           4.5              64                largest abs(x) / 14
    e3m0           4.125            64                abs(x) / 3; the smallest values may become 0
    ============== ================ ================= =============================================
    """

    NATIVE = "native"
    BF16 = "bf16"
    F16 = "f16"
    INT8 = "int8"
    INT8_MIN_MAX = "int8-min-max"
    INT8_CODEBOOK = "int8-codebook"
    INT4 = "int4"
    E3M0 = "e3m0"


class Algorithm(str, enum.Enum):
    """How contributions to an all-reduce become its result; the name works, too.

    RING sends chunks around the ring: 2(n-1) hops. DIRECT sends every contribution straight to the chunk's owner, and a
    wire format rounds it once: 2 hops. GRID sends them by relays, so that a member has about 2 sqrt(n) links: 4 hops,
    no wire formats and weights; it adds in an order of its own. AUTO is DIRECT if `up` has less than 8 bits. Else,
    where a member is 1 ms or more from the coordinator and all links work, it is DIRECT in a group of at most 64
    members, and GRID in a larger one, without wire formats and weights. Else RING. Reduce-scatter, all-gather,
    broadcast and reduce are AUTO, too; a broadcast or a reduce of many bytes takes the RING.
    """

    AUTO = "auto"
    RING = "ring"
    DIRECT = "direct"
    GRID = "grid"


class SyncStrategy(str, enum.Enum):
    """A peer's part in a sync; the name works, too: `strategy="receive-only"`.

    POPULAR votes and takes over the winning state. SEND_ONLY is never overwritten: its state wins. RECEIVE_ONLY never
    votes and never sends. NEWEST is like POPULAR, and wins also as a newcomer if its revision is higher than that of
    every member: progress outlives a run that others founded anew.
    """

    POPULAR = "popular"
    SEND_ONLY = "send-only"
    RECEIVE_ONLY = "receive-only"
    NEWEST = "newest"


class Stage(str, enum.Enum):
    """How far a communicator is on its way into a run and out of it (`run.stage`).

    NEW: connect() was not called. REACHING: no coordinator has answered yet. WAITING: the coordinator knows this peer,
    and the members have not admitted it yet. MEMBER: part of the run. LEAVING: in leave(). OVER: the run is over.
    """

    NEW = "new"
    REACHING = "reaching"
    WAITING = "waiting"
    MEMBER = "member"
    LEAVING = "leaving"
    OVER = "over"


OpName = Literal["sum", "avg", "prod", "min", "max", "band", "bor", "bxor"]
WireFormatName = Literal["native", "bf16", "f16", "int8", "int8-min-max", "int8-codebook", "int4", "e3m0"]
AlgorithmName = Literal["auto", "ring", "direct", "grid"]
SyncStrategyName = Literal["popular", "send-only", "receive-only", "newest"]

E = TypeVar("E", bound=enum.Enum)


def _numbers(kind: type[E]) -> dict[object, int]:
    return {member.value: number for number, member in enumerate(kind)}


OPS: Mapping[object, int] = _numbers(Op)
WIRE_FORMATS: Mapping[object, int] = _numbers(WireFormat)
ALGORITHMS: Mapping[object, int] = _numbers(Algorithm)
STRATEGIES: Mapping[object, int] = _numbers(SyncStrategy)


def number_of(numbers: Mapping[object, int], value: str | enum.Enum, argument: str) -> int:
    """The C library's number of an enum member or its name."""
    try:
        return numbers[value]
    except (KeyError, TypeError):
        allowed = ", ".join(repr(name) for name in numbers)
        raise InvalidArgument(f"{argument} is {shown(value)}; allowed: {allowed}") from None


class PeerId(bytes):
    """One process in a run: 16 random bytes, never reused. Compares and hashes like bytes; str() returns 32 hex digits.

    Example:
        >>> run.broadcast(weights, root=run.members()[0])
    """

    __slots__ = ()

    def __str__(self) -> str:
        return peer_id_text(self)

    def __repr__(self) -> str:
        return f"PeerId({peer_id_text(self)[:8]})"


@dataclass(frozen=True)
class World:
    """The newest view, as this peer sees it (`run.world`). A view may be followed by another one at any moment."""

    view: int
    """Number of the view."""
    cohort: int
    """Number of the view of the newest admission."""
    term: int
    """Term of the coordinator."""
    self: PeerId
    """This peer's id."""
    group: int
    """This peer's group."""
    rank: int
    """This peer's place in its group, from 0."""
    world_size: int
    """Members of this peer's group."""
    members: int
    """Members of all groups."""
    groups: int
    """Groups with at least one member."""
    pending: int
    """Peers that wait for admission."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return renamed(__name__, name, {"Strategy": "SyncStrategy", "StrategyName": "SyncStrategyName"})
