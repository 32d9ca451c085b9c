"""The list of mutants that survive, each with its reason."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

LIST = Path(__file__).with_name("survivors.txt")
EQUIVALENT = "equivalent"  # no test can tell this mutant from the source
NOT_YET = "not yet"  # no test has killed this mutant
KINDS = (EQUIVALENT, NOT_YET)


@dataclasses.dataclass(frozen=True)
class Survivor:
    """A listed mutant."""

    name: str
    kind: str  # EQUIVALENT or NOT_YET
    why: str


def read(text: str) -> dict[str, Survivor]:
    """The list in a text: two lines for each mutant, `name` and `  kind: why`. Raises ValueError for another text."""
    listed: dict[str, Survivor] = {}
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for name, reason in zip(lines[::2], [*lines[1::2], ""]):
        match = re.fullmatch(r"  (equivalent|not yet): (\S.*)", reason)
        if match is None or name.startswith(" ") or name in listed:
            raise ValueError(f"in the list of survivors: {name!r}, then {reason!r}; wanted: a mutant, then its reason")
        listed[name] = Survivor(name, match[1], match[2])
    return listed


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A comparison of a hunt with the list."""

    unlisted: list[str]  # mutants that survive and are not in the list
    killed: list[str]  # mutants in the list that a test kills
    gone: list[str]  # entries of the list whose mutant does not exist


def compare(listed: dict[str, Survivor], survived: Iterable[str], killed: Iterable[str], existing: set[str]) -> Verdict:
    """Compares what has survived and what was killed with the list; existing: the names of all mutants looked at."""
    files = {name.split(" ")[0] for name in existing}
    return Verdict(
        unlisted=[name for name in survived if name not in listed],
        killed=[name for name in killed if name in listed],
        gone=[name for name in listed if name.split(" ")[0] in files and name not in existing],
    )
