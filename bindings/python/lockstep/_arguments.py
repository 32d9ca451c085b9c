"""Arguments that several functions take. An invalid value raises an error that names the argument."""

from __future__ import annotations

import os
from collections.abc import Iterable

_LONGEST = 100  # characters of a value in an error text


def shown(value: object) -> str:
    """A value for an error text: its repr(), cut if it is long."""
    try:
        text = repr(value)
    except Exception:  # an error that hides the one that is to be told
        text = f"a {type(value).__qualname__}"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def path_of(path: object, argument: str) -> bytes:
    """A path in the encoding of the system, for the native part."""
    try:
        return os.fsencode(path)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        raise TypeError(f"{argument} is {shown(path)}; allowed: a path, as a str, bytes or os.PathLike") from None


def names_of(names: Iterable[str], argument: str) -> frozenset[str]:
    """Names of entries of a state."""
    if not isinstance(names, (str, bytes)) and isinstance(names, Iterable):
        given = list(names)
        if all(isinstance(name, str) for name in given):
            return frozenset(given)
    raise TypeError(f"{argument} is {shown(names)}; allowed: names of arrays, such as ['weights']")
