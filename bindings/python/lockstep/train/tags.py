"""The tags of a strategy's calls: a program that uses tags of its own below lockstep.types.LAYER_TAGS meets none."""

from __future__ import annotations

from ..types import LAYER_TAGS

STATE = LAYER_TAGS | int.from_bytes(b"strategy", "big")  # the first of all tags here
BUFFERS = STATE + 1  # buffers of type i: BUFFERS + (i << 32)
PROGRESS = STATE + 2  # fragment i: PROGRESS + i
DESYNC = STATE - 1
MOMENTS = STATE - 2
SETTINGS = STATE - 3
