"""What the strategies of a run must have in common, compared before they share a state of one layout."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Union

import numpy as np

from ..communicator import Communicator
from ..state import State

Setting = Union[int, float, str]

TENSORS = "the tensors of the shared state"

_ROOM = 16 << 10  # bytes of a description


def tensors_of(entries: Mapping[str, Any]) -> str:
    """Number, size and hash of the tensors of a state: their names, types and shapes."""
    arrays = {name: entry for name, entry in entries.items() if hasattr(entry, "dtype") and hasattr(entry, "shape")}
    words = [f"{name} {str(array.dtype).rpartition('.')[2]} {tuple(array.shape)}" for name, array in arrays.items()]
    digest = hashlib.blake2b("\n".join(sorted(words)).encode(), digest_size=8).hexdigest()
    return f"{len(arrays)} of {sum(int(np.prod(array.shape)) for array in arrays.values())} elements ({digest})"


def compared(run: Communicator, settings: Mapping[str, Setting], revision: int, tag: int) -> dict[str, ValueError]:
    """Compares settings with those of the run; all members and newcomers call it.

    revision: of the state that they will share: the settings of the peer whose state wins are those of the run.
    Returns an error for each setting in which this peer differs.
    """
    own = json.dumps(dict(settings)).encode()
    if len(own) > _ROOM:
        raise ValueError(f"the settings of the strategy take {len(own)} bytes; allowed: at most {_ROOM}")
    room = np.zeros(_ROOM, np.uint8)
    room[: len(own)] = np.frombuffer(own, np.uint8)
    run.sync(State({"settings": room}, revision=revision), strict=False, tag=tag)
    agreed: dict[str, Setting] = json.loads(room.tobytes().rstrip(b"\0"))
    errors = {}
    for name in [*settings, *(name for name in agreed if name not in settings)]:
        mine, theirs = settings.get(name, "not set"), agreed.get(name, "not set")
        if mine != theirs:
            text = f"{name} is {mine} on this peer, and {theirs} in the run; allowed: equal settings"
            errors[name] = ValueError(text)
    return errors
