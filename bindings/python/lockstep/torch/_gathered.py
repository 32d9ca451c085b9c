"""Short messages of all peers, with one outcome for all of them, also when a peer is lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable

import numpy as np
from numpy.typing import NDArray

from .._lockstep import Result
from ..communicator import Communicator
from ..errors import BelowMinimum, BufferTooSmall, Mismatch, PeerLost, WorldChanged
from ..types import PeerId

Bytes = NDArray[np.uint8]

_SPARE = 1 << 16  # bytes: a message that is too long by less is received, and its sender named


@dataclass(frozen=True)
class Gathered:
    """What a gathering has given; equal on all peers, but for the result's own traffic.

    messages: of the contributors, in rank order. contributors: their ids, in the same order.
    has_newcomers: whether a contributor has seen newcomers.
    result: the receipt; None alone. retries: attempts that were given up because a member was lost.
    """

    messages: Sequence[Bytes]
    contributors: Sequence[PeerId]
    has_newcomers: bool = False
    result: Result | None = None
    retries: int = 0


def gather(
    run: Communicator, message: Bytes, *, sizes: range, tag: int, minimum_world: int, regain: Callable[[], None]
) -> Gathered:
    """Gives every member the messages of all, with the same contributors on all members.

    When a member is lost, the same message is sent once more. A byte before each message says whether newcomers wait.

    sizes: the sizes of a message that are allowed, in bytes; the message of a peer is untrusted in all else, too.
    minimum_world, regain: with fewer members, `regain` waits for more; 0: never.
    Raises Mismatch for a size that is not allowed, on all peers alike, and the errors of Communicator.all_reduce().
    """
    blob = np.empty(1 + message.size, np.uint8)
    blob[1:] = message
    retries = 0
    while True:
        blob[0] = run.pending > 0
        room = np.empty(run.world_size * sizes.stop + _SPARE, np.uint8)  # stop: the largest message and its first byte
        try:
            result = run.all_gather_async(blob, room, tag=tag, minimum_world=minimum_world).wait()
            break
        except (PeerLost, WorldChanged):
            retries += 1
        except BelowMinimum:
            if not minimum_world:
                raise
            regain()
        except BufferTooSmall as error:
            raise Mismatch(
                f"a peer has sent too much; allowed: {sizes.start + 1} to {sizes.stop} bytes; {error}"
            ) from error
    blobs = np.split(room, np.cumsum(result.blocks))[:-1]
    for peer, one in zip(result.contributors, blobs):
        if one.size - 1 not in sizes:
            raise Mismatch(f"peer {peer} has sent {one.size} bytes; allowed: {sizes.start + 1} to {sizes.stop}")
    return Gathered(
        [one[1:] for one in blobs], result.contributors, any(bool(one[0]) for one in blobs), result, retries
    )
