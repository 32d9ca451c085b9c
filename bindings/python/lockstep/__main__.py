"""The `lockstep` command: `lockstep coordinator`, `python -m lockstep status TOKEN`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from ._program import program


def main() -> NoReturn:
    """Replaces this process with the command line program that the package contains."""
    path = program()
    os.execv(path, ["lockstep", *sys.argv[1:]])


if __name__ == "__main__":
    main()
