"""The `lockstep` command: runs the program that the package carries."""

from __future__ import annotations

import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).parent / "bin" / "lockstep"


def main() -> None:
    """Replaces this process with the program, with the arguments of this process. Does not return."""
    try:
        os.execv(PROGRAM, ["lockstep", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"lockstep: cannot run {PROGRAM}: {error.strerror}. Install the package again: pip install --force-reinstall lockstep")


if __name__ == "__main__":
    main()
