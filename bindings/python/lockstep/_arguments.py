"""Arguments that several functions take: what cannot be is refused under the argument's own name."""

from __future__ import annotations

import os
from collections.abc import Iterable

_LONGEST = 100  # characters of a value in an error text


def shown(value: object) -> str:
    """A value in an error text: its repr(), cut where it is long."""
    try:
        text = repr(value)
    except Exception:  # an error that hides the one that is to be told
        text = f"a {type(value).__qualname__}"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def path_of(path: object, argument: str) -> bytes:
    """A path as the system knows it, for the native part."""
    try:
        return os.fsencode(path)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        raise TypeError(f"{argument} is {shown(path)}; allowed: a path, as a str, bytes or os.PathLike") from None


def names_of(names: Iterable[str], argument: str) -> frozenset[str]:
    """The names of entries of a state."""
    if not isinstance(names, (str, bytes)) and isinstance(names, Iterable):
        given = list(names)
        if all(isinstance(name, str) for name in given):
            return frozenset(given)
    raise TypeError(f"{argument} is {shown(names)}; allowed: names of arrays, such as ['weights']")
