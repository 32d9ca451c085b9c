"""The programs of tests/experiments, on a small scale: the table, the claims, and a run under kills and joins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
EXAMPLES = Path(__file__).parents[2] / "bindings" / "examples" / "python"

pytestmark = pytest.mark.skipif(not EXPERIMENTS.exists(), reason="the experiments are not here: an installed package")

SMALL = """
import sys
import torch
from experiment import Task, accurate, main, near, within, worse
from lockstep.torch import Nesterov
from rows import rows_of_diloco, rows_without_outer

class Small(Task):
    name, steps, batch, rate = "small", 40, 4, 0.05
    rows = (*rows_without_outer(), *rows_of_diloco(Nesterov(0.5, 0.5)))
    claims = (within("diloco-int8", CLOSE, 75), near("diloco-int8", "diloco", 0.01), worse("diloco", "alone"))

    def make_model(self):
        return torch.nn.Linear(300, 1)

    def loss(self, model, row, seed, peer, step):
        generator = torch.Generator().manual_seed(1000 * seed + 100 * peer + step)
        x = torch.randn(self.batch, 300, generator=generator)
        return (model(x) - x[:, :1]).square().mean()

    def evaluate(self, model, seed):
        x = torch.randn(64, 300, generator=torch.Generator().manual_seed(0))
        return (model(x) - x[:, :1]).square().mean().item(), None

sys.exit(main(Small()))
"""


def run(program: Path, *options: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(EXPERIMENTS), str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, program, *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        timeout=80,
        check=False,
    )


@pytest.mark.slow
def test_the_command_says_which_claims_hold(tmp_path: Path) -> None:
    program = tmp_path / "small.py"
    program.write_text(SMALL.replace("CLOSE", "1000"))
    options = ("--seeds", "1,2", "--jobs", 1, "--out", tmp_path)
    done = run(program, *options, "--only", "data-parallel,diloco,diloco-int8")
    assert done.returncode == 0, done.stdout
    assert "        holds: diloco-int8: within 1000 % of data-parallel, 75 times less traffic" in done.stdout
    assert "alone" not in done.stdout, "a claim about a row without results"
    results = json.loads((tmp_path / "small.json").read_text())["results"]
    assert [(one["row"], one["seed"]) for one in results] == [
        (row, seed) for row in ("data-parallel", "diloco", "diloco-int8") for seed in (1, 2)
    ]
    sent = {one["row"]: one["sent"] for one in results}
    assert sent["data-parallel"] == pytest.approx(20 * sent["diloco"], rel=0.01)
    program.write_text(SMALL.replace("CLOSE", "-100"))
    again = run(program, *options, "--only", "diloco-int8,alone")
    assert again.returncode == 1, again.stdout
    assert "DOES NOT HOLD: diloco-int8: within -100 % of data-parallel, 75 times less traffic" in again.stdout
    assert "| one worker alone |" in again.stdout
    kept = json.loads((tmp_path / "small.json").read_text())["results"]
    values = {(one["row"], one["seed"]): (one["loss"], one["sent"]) for one in kept}
    assert values.items() >= {(one["row"], one["seed"]): (one["loss"], one["sent"]) for one in results}.items()
    assert (tmp_path / "small.svg").exists()


@pytest.mark.slow
def test_peers_agree_under_kills_and_joins(tmp_path: Path) -> None:
    options = ("--peers", 3, "--outer-steps", 16, "--every", 0.1, "--seeds", 1, "--out", tmp_path)
    done = run(EXPERIMENTS / "churn.py", *options)
    assert "Traceback" not in done.stdout, done.stdout
    result = json.loads((tmp_path / "churn.json").read_text())
    alone, disturbed = result["runs"]
    assert (alone["kills"], alone["joins"]) == (0, 0)
    assert disturbed["kills"] + disturbed["joins"] > 0
    assert all(one["outer_steps"] == 16 and not one["disagreements"] and not one["failed"] for one in result["runs"])
