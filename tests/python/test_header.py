"""The whole C API can be reached from Python: each function of the header is called somewhere in the extension module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "bindings" / "c" / "include" / "lockstep.h"
NATIVE = ROOT / "bindings" / "python" / "native"


def declared() -> set[str]:
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    return set(re.findall(r"LOCKSTEP_API[^;(]*?\b(lockstep_\w+)\s*\(", text))


def used() -> set[str]:
    return set(re.findall(r"\blockstep_\w+", "".join(path.read_text() for path in sorted(NATIVE.glob("*.cc")))))


@pytest.mark.skipif(not HEADER.exists(), reason="the sources are not here: an installed package")
def test_every_function_of_the_header_is_used() -> None:
    functions = declared()
    assert {"lockstep_all_reduce", "lockstep_all_reduce_async", "lockstep_status_string"} <= functions
    missing = functions - used()
    assert not missing, f"bindings/python/native uses no {', '.join(sorted(missing))}"
