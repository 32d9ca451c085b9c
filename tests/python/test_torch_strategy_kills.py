"""Training strategies with real processes that are killed at random moments, also while they join.

LOCKSTEP_KILLS=50 pytest tests/python/test_torch_strategy_kills.py              # more of them
"""

from __future__ import annotations

import faulthandler
import os
import random
import re
import threading
from pathlib import Path

import lockstep
import pytest
from conftest import LIMIT

torch = pytest.importorskip("torch", reason="torch is not installed")

from strategy_programs import FOUNDERS  # noqa: E402
from torch_processes import TorchProcess  # noqa: E402

PROGRAM = Path(__file__).parent / "strategy_programs.py"
KILLS = int(os.environ.get("LOCKSTEP_KILLS", "2"))
LINE = re.compile(r"outer (\d+) of (\d+) at (\d+): ([0-9a-f]{16}) (True|False)")


def wait_for_steps(processes: list[TorchProcess], after: float) -> None:
    """Waits until each of them has made an outer step after this time, among all of them."""
    for process in processes:
        process.wait_for(f" of {len(processes)} at ", after)


CASES = ["diloco-int8", "outer", "streaming-int8", "sketched-int8", "sparse-loco", "demo", "one-byte"]


@pytest.mark.parametrize("case", CASES)
def test_kills_at_any_moment_leave_all_peers_equal(case: str, coordinator: lockstep.Coordinator) -> None:
    chance = random.Random(case)
    processes: list[TorchProcess] = []
    alive: list[TorchProcess] = []

    def start() -> None:
        alive.append(TorchProcess(PROGRAM, case, coordinator.address, len(processes)))
        processes.append(alive[-1])

    try:
        for _ in range(FOUNDERS):
            start()
        wait_for_steps(alive, 0)
        for kill in range(KILLS):
            faulthandler.dump_traceback_later(LIMIT, exit=True)  # again, as there may be many kills
            threading.Event().wait(chance.uniform(0, 0.1))  # anywhere in a round
            at = alive.pop(chance.randrange(len(alive))).kill()
            start()
            if kill % 2:
                threading.Event().wait(chance.uniform(0, 0.5))  # while the newcomer starts, joins, or takes the state
                at = alive.pop().kill()
                start()
            wait_for_steps(alive, at)
    finally:
        for process in processes:
            process.close()
    told: dict[int, set[tuple[str, ...]]] = {}
    for process in processes:
        for outer, world, step, hashed, has_contributed in LINE.findall(process.output()):
            assert has_contributed == "True", "a peer applied a round that it took no part in"
            told.setdefault(int(outer), set()).add((world, step, hashed))
    assert all(len(equal) == 1 for equal in told.values()), [one for one in sorted(told) if len(told[one]) > 1]
    assert sorted(told) == list(range(1, len(told) + 1))
