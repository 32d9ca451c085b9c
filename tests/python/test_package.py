"""The package as it is imported, wherever it was built."""

from __future__ import annotations

import pathlib
import re

import lockstep

ROOT = pathlib.Path(__file__).parents[2]


def test_version_is_the_one_of_cmake() -> None:
    match = re.search(r"project\(lockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert match is not None
    assert lockstep.__version__ == match[1]
