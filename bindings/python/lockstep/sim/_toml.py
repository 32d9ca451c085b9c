"""Scenarios as TOML text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def to_toml(values: Mapping[str, Any]) -> str:
    """A table as TOML: strings, numbers, bools, lists and nested tables; lists of tables become `[[name]]`."""
    return "\n".join(line for line, _, _ in _lines(values)) + "\n"


def key_of_line(values: Mapping[str, Any], line: int) -> tuple[str, Any]:
    """The key that is on this line of to_toml(), from 1, and its value: "peers", or "do[1]" of a list of tables."""
    _, key, value = _lines(values)[line - 1]
    return key, value


def _lines(values: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """The lines of a table, each with the key that it belongs to and the value of the key."""
    plain = {name: value for name, value in values.items() if not _is_tables(value)}
    lines = [(f"{_key(name)} = {_named(name, value)}", name, value) for name, value in plain.items()]
    for name, entries in values.items():
        if name in plain:
            continue
        for number, entry in enumerate(entries):
            where = f"{name}[{number}]"
            lines += [("", where, entry), (f"[[{_key(name)}]]", where, entry)]
            lines += [(f"{_key(key)} = {_named(key, value)}", f"{where}: {key}", value) for key, value in entry.items()]
    return lines


def _named(name: str, value: Any) -> str:
    """A value; the error names its key."""
    try:
        return _value(value)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _key(name: str) -> str:
    return name if name and all(c.isalnum() or c in "-_" for c in name) else json.dumps(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(name)} = {_value(entry)}" for name, entry in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(entry) for entry in value) + "]"
    raise TypeError(f"{value!r} is a {type(value).__name__}; a scenario holds str, int, float, bool, lists and dicts")
