"""Waiting for one of several calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from . import _lockstep
from ._arguments import shown
from ._lockstep import Work
from .errors import InvalidArgument


def wait_any(works: Sequence[Work], timeout: float | None = None) -> Work:
    """Waits until one of several calls is over, successful or not. Returns its Work; of several ended calls, the first.

    timeout: seconds; None for no limit, 0 to check once. Raises WaitTimedOut; the calls continue.

    Example:
        >>> works = [run.all_reduce_async(g, tag=i) for i, g in enumerate(gradients)]
        >>> first = lockstep.wait_any(works, timeout=30)
    """
    if not isinstance(works, Iterable):
        raise TypeError(f"works is {shown(works)}; allowed: a list of lockstep.Work")
    given: list[Work] = list(works)
    if not given:
        raise InvalidArgument("works is empty; give at least one call")
    return given[_lockstep.wait_any(given, timeout)]
