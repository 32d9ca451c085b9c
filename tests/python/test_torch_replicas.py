"""Replicas of two processes each under kills: the example fsdp_replicas.py.

python -m pytest tests/python/test_torch_replicas.py                        # a few kills
./run torch-next --kills 50                                                 # more of them, and figures
"""

from __future__ import annotations

import faulthandler
import os
import random
import re
import statistics
import threading
from pathlib import Path

import lockstep
import pytest
from conftest import LIMIT

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch_processes import TorchProcess  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "bindings" / "examples" / "python" / "fsdp_replicas.py"
KILLS = int(os.environ.get("LOCKSTEP_KILLS", "3"))
SEED = int(os.environ.get("LOCKSTEP_KILLS_SEED", "7"))
SHARDS, REPLICAS = 2, 3
STATED = 5.0  # seconds from a kill to the next step of the survivors, and to the end of its replica

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not here: an installed package")


class Run:
    """Replicas that train until the test ends."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        self._started = 0
        self.alive: list[list[TorchProcess]] = []
        self.all: list[list[TorchProcess]] = []

    def start_replica(self) -> None:
        self._started += 1
        store = f"file://{self._folder}/store-{self._started}"
        variables = [{"RANK": str(shard), "WORLD_SIZE": str(SHARDS)} for shard in range(SHARDS)]
        arguments = (self._address, "--replicas", REPLICAS, "--steps", 1_000_000, "--init-method", store)
        replica = [TorchProcess(EXAMPLE, *arguments, variables=one) for one in variables]
        self.alive.append(replica)
        self.all.append(replica)

    def wait_for(self, replicas: int, after: float = 0.0) -> float:
        """Waits until each process has made a step among so many replicas. Returns when the last one had."""
        words = f": {replicas} replicas, "
        return max(process.wait_for(words, after) for replica in self.alive for process in replica)

    def kill(self, victim: TorchProcess) -> tuple[float, float]:
        """Kills a process. Returns the times until its replica was gone, and until all others had made a step."""
        replica = next(replica for replica in self.alive if victim in replica)
        self.alive.remove(replica)
        at = victim.kill()
        step = self.wait_for(REPLICAS - 1, at) - at
        codes = [process.end() for process in replica]
        assert codes[replica.index(victim)] == -9
        assert codes.count(-9) == 1, codes  # the others of the replica end by themselves
        return max(process.ended - at for process in replica), step

    def kill_newcomer(self, victim: TorchProcess) -> float:
        """Kills a process whose replica may not have joined yet. Returns the time until all others had made a step."""
        replica = self.alive.pop()
        at = victim.kill()
        step = max(process.wait_for("step ", at) for others in self.alive for process in others) - at
        for process in replica:  # one that waits for the dead one inside of the replica has no news of it yet
            process.close()
        self.wait_for(REPLICAS - 1, at)
        return step

    def steps(self) -> tuple[dict[tuple[int, int], set[str]], dict[int, set[str]]]:
        """The hashes of each shard after each step, and the numbers of replicas in each step."""
        hashes: dict[tuple[int, int], set[str]] = {}
        replicas: dict[int, set[str]] = {}
        for replica in self.all:
            for shard, process in enumerate(replica):
                lines = re.findall(r"step (\d+): (\d) replicas, hash ([0-9a-f]{16})", process.output())
                for step, size, hashed in lines:
                    hashes.setdefault((shard, int(step)), set()).add(hashed)
                    replicas.setdefault(int(step), set()).add(size)
        return hashes, replicas

    def close(self) -> None:
        for replica in self.all:
            for process in replica:
                process.close()


def test_a_killed_process_takes_its_replica_with_it_and_stops_nobody_else(
    tmp_path: Path, coordinator: lockstep.Coordinator
) -> None:
    chance = random.Random(SEED)
    run = Run(tmp_path, coordinator.address)
    gone, steps = [], []
    try:
        for _ in range(REPLICAS):
            run.start_replica()
        run.wait_for(REPLICAS)
        for kill in range(KILLS):
            faulthandler.dump_traceback_later(LIMIT, exit=True)  # again, as there may be many kills
            threading.Event().wait(chance.uniform(0, 0.3))  # anywhere in a step
            times = run.kill(chance.choice(chance.choice(run.alive)))
            gone.append(times[0])
            steps.append(times[1])
            run.start_replica()
            if (kill % 3) == 2:
                threading.Event().wait(chance.uniform(0, 2))  # while it starts, joins, or takes the state over
                steps.append(run.kill_newcomer(chance.choice(run.alive[-1])))
                run.start_replica()
            run.wait_for(REPLICAS)
    finally:
        run.close()
    hashes, replicas = run.steps()
    assert all(len(equal) == 1 for equal in hashes.values()), [at for at, one in hashes.items() if len(one) > 1]
    assert all(len(equal) == 1 for equal in replicas.values()), replicas  # one outcome on all shards
    print(
        f"\n{KILLS} kills of members, {KILLS // 3} of newcomers, {len(replicas)} steps; the others' next step: "
        f"median {statistics.median(steps):.2f} s, slowest {max(steps):.2f} s; "
        f"the replica's end: median {statistics.median(gone):.2f} s, slowest {max(gone):.2f} s"
    )
    assert max(steps) < STATED
    assert max(gone) < STATED
