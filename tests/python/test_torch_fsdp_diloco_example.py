"""The example fsdp_diloco.py: replicas of two shards each, one of which loses a process."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import lockstep
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch_processes import TorchProcess  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "bindings" / "examples" / "python" / "fsdp_diloco.py"
ROW = re.compile(r" +(\d+) +\d+\.\d{3} +(\d+) +\d+ +\d+\.\d{2} +\d+\.\d{3}")

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not here: an installed package")


def rows_of(*programs: TorchProcess) -> list[tuple[int, int]]:
    """Step and number of replicas of each row."""
    lines = [line for program in programs for _, line in program.lines]
    return sorted((int(row[1]), int(row[2])) for line in lines if (row := ROW.fullmatch(line)))


def shards_of(*programs: TorchProcess) -> list[tuple[str, str]]:
    """Number and hash of each shard that came to its end."""
    return [found for program in programs for found in re.findall(r"shard (\d): ([0-9a-f]{16})", program.output())]


@pytest.mark.slow
def test_one_command_runs_all_replicas() -> None:
    with TorchProcess(EXAMPLE, "--steps", 40) as program:
        assert program.end() == 0, program.output()
    assert rows_of(program) == [(20, 2), (40, 2)], program.output()
    shards = shards_of(program)
    assert len(shards) == 4
    assert len(set(shards)) == 2, "a shard has the same bits in both replicas"


@pytest.mark.slow
def test_a_killed_shard_takes_only_its_replica_along(coordinator: lockstep.Coordinator) -> None:
    programs = [TorchProcess(EXAMPLE, "--join", coordinator.address, "--replicas", 2, "--steps", 100) for _ in range(2)]
    try:
        while not (leaders := [program for program in programs if rows_of(program)]):
            programs[0].process.join(0.05)  # until the first row is there
        victim = next(program for program in programs if program not in leaders)
        pid = victim.process.pid
        shards = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(shards[-1]), signal.SIGKILL)
        for program in programs:
            assert program.end() == 0, program.output()
        rows = rows_of(*programs)
        assert [step for step, _ in rows] == [20, 40, 60, 80, 100], "one leader writes each row"
        assert rows[0][1] == 2
        assert rows[-1][1] == 1
        assert sorted(shard for shard, _ in shards_of(*leaders)) == ["0", "1"]
        assert not shards_of(victim)
    finally:
        for program in programs:
            program.close()
