"""The example diloco.py: one command, and a run in which a peer is killed and another one joins."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import lockstep
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch_processes import TorchProcess  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "bindings" / "examples" / "python" / "diloco.py"
MOST_LINES = 101
ROW = re.compile(r" +(\d+) +(\d+\.\d{3}) +(\d+) +\d+ +(\d+\.\d{2}) +\d+\.\d{3}")

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not here: an installed package")


def test_the_program_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= MOST_LINES


def test_one_command_runs_all_peers(tmp_path: Path) -> None:
    """Of the file alone, in an empty folder."""
    with TorchProcess(shutil.copy(EXAMPLE, tmp_path), "--peers", 2, "--steps", 40) as program:
        assert program.end() == 0, program.output()
        started, header, *rows = [line for _, line in program.lines]
    assert re.fullmatch(r"coordinator 127\.0\.0\.1:\d+; processes \[\d+, \d+\]", started)
    assert header.split() == ["step", "loss", "world", "view", "MB", "seconds"]
    found = [ROW.fullmatch(row) for row in rows]
    assert [(row[1], row[3]) for row in found if row] == [("20", "2"), ("40", "2")], rows
    assert all(row and float(row[4]) > 0 for row in found)


@pytest.mark.slow
def test_a_peer_may_die_and_another_one_come(coordinator: lockstep.Coordinator) -> None:
    def start() -> TorchProcess:
        return TorchProcess(EXAMPLE, "--join", coordinator.address, "--peers", 3, "--steps", 120)

    peers = [start() for _ in range(3)]
    try:
        while not (leaders := [peer for peer in peers if any(ROW.fullmatch(line) for _, line in peer.lines)]):
            peers[0].process.join(0.05)  # until the first row is there
        victim = next(peer for peer in peers if peer not in leaders)
        victim.kill()
        peers.append(start())
        survivors = [peer for peer in peers if peer is not victim]
        assert [peer.end() for peer in survivors] == [0, 0, 0], "\n".join(peer.output() for peer in survivors)
        rows = [row for peer in peers for _, line in peer.lines if (row := ROW.fullmatch(line))]
        assert sorted(int(row[1]) for row in rows) == list(range(20, 121, 20)), "one leader writes each row"
        worlds = {row[3] for row in rows}
        assert worlds <= {"2", "3"}
    finally:
        for peer in peers:
            peer.close()


@pytest.mark.slow
def test_its_loop_runs_in_a_simulated_swarm() -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "lockstep.sim.pytest_plugin", "--lockstep-seed", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "test_diloco_churn.py"],
        cwd=EXAMPLE.parent,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        text=True,
        timeout=80,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout
