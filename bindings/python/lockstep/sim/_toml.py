"""Scenarios as TOML text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def to_toml(values: Mapping[str, Any]) -> str:
    """A table as TOML: strings, numbers, bools, lists and nested tables; lists of tables become `[[name]]`."""
    plain = {name: value for name, value in values.items() if not _is_tables(value)}
    tables = {name: value for name, value in values.items() if _is_tables(value)}
    lines = [f"{_key(name)} = {_value(value)}" for name, value in plain.items()]
    for name, entries in tables.items():
        for entry in entries:
            lines += ["", f"[[{_key(name)}]]", *(f"{_key(key)} = {_value(value)}" for key, value in entry.items())]
    return "\n".join(lines) + "\n"


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
