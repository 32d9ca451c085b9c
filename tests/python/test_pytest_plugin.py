"""The pytest plugin of lockstep.sim: tests that run once per seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import lockstep

def test_right(lockstep_swarm):
    assert lockstep_swarm(peers=2).run(lambda run: run.barrier().world_size).values == [2, 2]

def test_wrong(lockstep_swarm):
    def main(run):
        for step in range(20):
            run.spend(0.5)
            if run.barrier().world_size == 1:
                raise ValueError("alone")
            run.admit()
    lockstep_swarm(peers=2, churn={"crashes": 1, "resets": 2, "until": 5.0}).run(main)
"""


def run_pytest(folder: Path, *options: str) -> str:
    (folder / "test_user.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "lockstep.sim.pytest_plugin",
        *options,
    ]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, env=environment, text=True, timeout=120, check=False
    )
    return done.stdout


def test_runs_each_seed_and_says_how_to_repeat_a_failure(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, "--lockstep-seeds", "3")
    assert "test_right" not in output
    assert "3 failed, 3 passed" in output
    assert "pytest 'test_user.py::test_wrong' --lockstep-seed 2" in output
    assert "the fewest faults under which it fails:" in output
    assert "crash" in output


def test_one_seed(tmp_path: Path) -> None:
    assert "1 passed" in run_pytest(tmp_path, "--lockstep-seed", "1", "-k", "right")
