"""The package as it is imported and started, wherever it was built."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import lockstep

ROOT = pathlib.Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_version_is_the_one_of_cmake() -> None:
    match = re.search(r"project\(lockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert match is not None
    assert lockstep.__version__ == match[1]


def test_command_runs_the_program_of_the_package() -> None:
    done = run("-m", "lockstep", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"lockstep {lockstep.__version__}"), done.stderr


def test_command_keeps_the_exit_code_of_the_program() -> None:
    done = run("-m", "lockstep", "no-such-command")
    assert done.returncode == 2
    assert "no-such-command" in done.stderr
