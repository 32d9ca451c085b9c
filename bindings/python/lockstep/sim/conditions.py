"""The conditions of a swarm from the arguments of Swarm. An error names the argument, its value and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _lockstep
from .._arguments import shown
from ..errors import InvalidArgument
from ._toml import key_of_line, to_toml

_CHURN = ("crashes", "vanishes", "leaves", "joins", "stalls", "cuts", "resets")
_SECTIONS = {"net": "net", "do": "do", "link": "link", "line": "line"}
"""Arguments that are tables, or lists of tables, and the section of `lockstep sim scenario keys` with their keys."""
_PLACE = re.compile(r"\d+:\d+: ")
"""What precedes an error in the text that a scenario is passed as: line and column."""


def scenario_of(
    peers: int, net: Mapping[str, Any] | None, faults: Sequence[Mapping[str, Any]], further: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of Swarm as the keys of a scenario. Raises InvalidArgument."""
    keys: dict[str, Any] = {"peers": peers, **further}
    if net is not None and not isinstance(net, Mapping):
        raise InvalidArgument(f"net is {shown(net)}; allowed: a dict, such as {{'profile': 'world'}}")
    if net:
        keys["net"] = dict(net)
    if faults:
        keys["do"] = list(faults)
    known = _lockstep.Conditions.keys()
    _check("", keys, known["top"], known["own"])
    for name, section in _SECTIONS.items():
        given = keys.get(name, ())
        tables = given if isinstance(given, list) else [given] if isinstance(given, Mapping) else []
        argument = "faults" if name == "do" else name
        for number, table in enumerate(tables):
            where = f"{argument}[{number}]" if isinstance(given, list) else argument
            if not isinstance(table, Mapping):
                raise InvalidArgument(f"{where} is {shown(table)}; allowed: a dict of {', '.join(known[section])}")
            _check(where, table, known[section], known["own"])
    return keys


def conditions_of(keys: Mapping[str, Any], seed: int) -> _lockstep.Conditions:
    """The conditions of a scenario, with the draws of the seed. Raises InvalidArgument, TypeError."""
    if not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise InvalidArgument(f"seed is {shown(seed)}; allowed: a number from 0 to 2**64 - 1")
    try:
        return _lockstep.Conditions.from_scenario(to_toml(keys), seed)
    except InvalidArgument as error:
        text = str(error)
        place = _PLACE.match(text)
        if place is None:
            raise
        name, value = key_of_line(keys, int(text.partition(":")[0]))
        name = re.sub(r"^do\[", "faults[", name)  # as Swarm calls them
        raise InvalidArgument(f"{name} is {shown(value)}: {text[place.end() :]}") from None


def churn_of(churn: Mapping[str, Any] | bool | None, peers: int) -> dict[str, Any]:
    """The numbers of faults that the seed draws. Raises InvalidArgument."""
    if churn is True:
        few = max(1, peers // 4)
        return {"crashes": few, "joins": few, "leaves": few // 2, "stalls": 1, "cuts": 1, "resets": few, "until": 10.0}
    if not churn:
        return {}
    if not isinstance(churn, Mapping):
        raise InvalidArgument(f"churn is {shown(churn)}; allowed: True, or a dict of {', '.join(_CHURN)}, until")
    _check("churn", churn, (*_CHURN, "until"), ())
    for name, value in churn.items():
        is_number = isinstance(value, (int, float) if name == "until" else int) and not isinstance(value, bool)
        if not is_number or not 0 <= value < 1 << 32:
            allowed = "seconds, such as 20.0" if name == "until" else "a number of faults, at least 0"
            raise InvalidArgument(f"churn: {name} is {shown(value)}; allowed: {allowed}")
    return dict(churn)


def _check(where: str, given: Mapping[str, Any], names: Sequence[str], own: Sequence[str]) -> None:
    """All keys are known. The native part refuses those of the simulator's own program, and says why."""
    for name, value in given.items():
        if name in names or name in own:
            continue
        guess = difflib.get_close_matches(str(name), names, 1)
        hint = f"did you mean {guess[0]!r}? " if guess else ""
        raise InvalidArgument(
            f"{where + ': ' if where else ''}unknown key {name!r} with the value {shown(value)}; {hint}"
            f"allowed: {', '.join(names)}"
        )
