"""The options of calls as they go to the native part: typed, and as cheap as a tuple."""

from __future__ import annotations

from typing import NamedTuple


class AllReduceOptions(NamedTuple):
    """Of an all-reduce. The native part reads the fields by their places (native/call_options.h), and checks them.

    op, up, down, algorithm: numbers of the enums in the C library.
    tag, timeout, minimum_world, retry, weight: see Communicator.all_reduce().
    """

    op: int
    tag: int
    timeout: float | None
    minimum_world: int
    retry: bool
    up: int
    down: int
    weight: float | None
    algorithm: int
