"""Processes of torch groups that end in every way: none crashes or hangs, and the exit code is that of the program."""

from __future__ import annotations

import faulthandler
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

PROGRAM = Path(__file__).parent / "torch_exits.py"

# Threads that are inside of torch when the interpreter finalizes: without care each of these aborts nearly always.
INSIDE_TORCH = {
    "callback inside torch": 1,
    "daemon thread inside torch": 1,
    "daemon thread that goes on": 1,
    "daemon threads and futures": 1,
    "daemon thread, torch alone": 0,
}
OTHERS = {
    "pending": 1,
    "pending, normal end": 0,
    "pending, sys.exit": 3,
    "pending, os._exit": 4,
    "pending, SIGTERM": 5,
    "pending, Ctrl-C": -2,
    "pending in a cycle": 1,
    "second group": 1,
    "callbacks": 1,
    "thread that waits for a future": 1,
    "sys.exit in a thread": 1,
    "forked before": 1,
    "forked while pending": 1,
    "used at exit": 1,
}

# What the interpreter and the C++ runtime print when they fail.
FATAL = [
    "Fatal",
    "FATAL",
    "terminate",
    "Segmentation",
    "Aborted",
    "xception ignored",
    "Timeout",
    "most recent call first",
]


@pytest.mark.slow
def test_ends() -> None:
    """A quarter of the harmless ends each day; all of them, often: python tests/python/torch_exits.py 50 8."""
    faulthandler.dump_traceback_later(130, exit=True)  # half a minute of CPU time, which a loaded machine gives slowly
    today = int(time.time() // 86400)
    wanted = {**INSIDE_TORCH, **dict(list(OTHERS.items())[today % 4 :: 4])}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(PROGRAM), "1", "6", *wanted], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [
        f"{name}: exit code {code}\n{output}"
        for name, code, output in ends
        if code != wanted[name] or any(word in output for word in FATAL)
    ]
    assert not wrong, "\n".join(wrong)
    assert {name for name, _, _ in ends} == set(wanted)
