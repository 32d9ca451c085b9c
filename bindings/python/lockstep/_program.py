"""The location of the command line program."""

from __future__ import annotations

import os
from pathlib import Path


def program() -> str:
    """Path of the `lockstep` program: LOCKSTEP_PROGRAM in the environment, else the program in the package."""
    path = os.environ.get("LOCKSTEP_PROGRAM") or str(Path(__file__).parent / "bin" / "lockstep")
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(
            f"there is no program {path}: install the package with pip, or set LOCKSTEP_PROGRAM to a built one"
        )
    return path
