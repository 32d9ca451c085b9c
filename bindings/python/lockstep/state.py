"""The shared state of all peers."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Union

from ._arguments import names_of, shown
from ._lockstep import bytes_of
from .errors import InvalidArgument

__all__ = ["State"]

Value = Union[int, float]

_INT, _UINT, _REAL = 0, 1, 2


class State(Mapping[str, Any]):
    """Arrays, ints and floats by name, and a revision. A sync makes them equal, bit for bit, on all peers.

    entries: arrays (numpy, torch, anything with the buffer protocol or DLPack; C-contiguous and writable; not copied: a
        sync writes to them in place), ints of 64 bits (numpy's unsigned ints, and ints from 2**63 on, stay unsigned)
        and floats. Names, dtypes and sizes must be the same, in the same order, on all peers.
    revision: a counter that the program raises with every change of the state; the highest revision wins a vote.
    lineage: 0 for a state that was never synced. A sync sets it: states that grew out of one have the same. Keep it,
        and the revision, in checkpoints.
    may_differ: names of arrays that are neither compared nor sent.

    Ints and floats are read and set by name: `state["step"] += 1`. A sync sets them, and the revision, to the elected
    values.

    Example:
        >>> state = lockstep.State({"weights": weights, "step": 0, "rate": 0.1})
        >>> run.sync(state)
        >>> state["step"] += 1
        >>> state.revision += 1
    """

    def __init__(
        self,
        entries: Mapping[str, Any],
        *,
        revision: int = 0,
        lineage: int = 0,
        may_differ: Iterable[str] = (),
    ) -> None:
        if not isinstance(entries, Mapping):
            raise TypeError(f"entries is {shown(entries)}; allowed: a mapping of names to arrays, ints and floats")
        self._arrays: dict[str, Any] = {}
        self._values: dict[str, Value] = {}
        self._types: dict[str, int] = {}
        self._may_differ = names_of(may_differ, "may_differ")
        self._names = tuple(entries)
        for name, entry in entries.items():
            if not isinstance(name, str):
                raise InvalidArgument(f"a state has an entry named {shown(name)}; allowed: str")
            if _is_value(entry):
                self._types[name] = _type_of(entry)
                self._values[name] = int(entry) if isinstance(entry, numbers.Integral) else float(entry)
            else:
                self._arrays[name] = entry
        unknown = self._may_differ - set(self._arrays)
        if unknown:
            raise InvalidArgument(
                f"may_differ names {', '.join(sorted(unknown))}; the arrays are: {', '.join(self._arrays)}"
            )
        self.revision = revision
        """Version of the state; raise it with every change."""
        self.lineage = lineage
        """Equal for states that grew out of one; a sync sets it."""
        self._is_undefined = False  # a call ended while it wrote to the arrays: they hold a part of another state

    def __getitem__(self, name: str) -> Any:
        return self._values[name] if name in self._values else self._arrays[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Sets an int or a float, or replaces an array by one of the same dtype and size."""
        if name in self._values:
            is_real = self._types[name] == _REAL
            wanted: Any = numbers.Real if is_real else numbers.Integral
            if not isinstance(value, wanted) or isinstance(value, bool):
                raise InvalidArgument(
                    f"state value {shown(name)} is {'a float' if is_real else 'an int'}; {shown(value)} is none"
                )
            self._values[name] = float(value) if is_real else int(value)
        elif name in self._arrays:
            if _is_value(value):
                raise InvalidArgument(
                    f"state entry {shown(name)} is an array; write to it in place, or set another array"
                )
            self._arrays[name] = value
        else:
            raise KeyError(f"{shown(name)}: a state has the entries it was made with: {', '.join(self._names)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<lockstep.State revision={self.revision} entries={', '.join(self._names)}>"

    def _describe(self, unchanged: Iterable[str] = ()) -> dict[str, list[tuple[Any, ...]]]:
        """The description for the native part."""
        same = names_of(unchanged, "unchanged")
        if same - set(self._arrays):
            raise InvalidArgument(
                f"unchanged names {', '.join(sorted(same - set(self._arrays)))}, which is no array of the state"
            )
        return {
            "tensors": [(name, array, name in self._may_differ, name in same) for name, array in self._arrays.items()],
            "values": [(name, self._types[name], value) for name, value in self._values.items()],
        }

    def _contents(self) -> dict[str, Any]:
        """What peers with equal states have in common: the bytes of the arrays, and the numbers."""
        arrays = {name: bytes_of(array) for name, array in self._arrays.items() if name not in self._may_differ}
        return {**arrays, **self._values}

    def _note(self, is_undefined: bool) -> None:
        """What a call has left in the arrays."""
        self._is_undefined = is_undefined

    def _take(self, values: list[Value], revision: int, lineage: int) -> None:
        """Stores the results of a sync or prefetch."""
        for name, value in zip(self._values, values):
            self._values[name] = value
        self.revision = revision
        self.lineage = lineage


def _is_value(entry: object) -> bool:
    return isinstance(entry, numbers.Real) and not isinstance(entry, bool)


def _type_of(value: numbers.Real) -> int:
    if not isinstance(value, numbers.Integral):
        return _REAL
    unsigned = int(value) >= 1 << 63 or getattr(getattr(value, "dtype", None), "kind", "") == "u"
    return _UINT if unsigned else _INT
