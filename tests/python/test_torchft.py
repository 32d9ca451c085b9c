"""torchft's Manager over our process group: the example torchft_manager.py. ./run torch-next has two versions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torchft", reason="torchft is not installed", exc_type=ImportError)

from torch_processes import TorchProcess

EXAMPLE = Path(__file__).parents[2] / "bindings" / "examples" / "python" / "torchft_manager.py"

WITHIN = 25.0  # seconds of a wait, so that a failure is told before the limit of a test

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not here: an installed package")


@pytest.fixture
def lighthouse() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchft.coordination import LighthouseServer
    server: Any = LighthouseServer(
        bind="[::]:0", min_replicas=1, join_timeout_ms=5000, quorum_tick_ms=20, heartbeat_timeout_ms=1000
    )
    yield f"http://localhost:{server.address().rpartition(':')[2]}"
    server.shutdown()


def test_a_manager_goes_on_without_a_dead_replica_and_heals_a_new_one(lighthouse: str) -> None:
    variables = {"TORCHFT_LIGHTHOUSE": lighthouse, "PYTHONWARNINGS": "ignore"}
    replicas: list[TorchProcess] = []

    def start() -> TorchProcess:
        replicas.append(TorchProcess(EXAMPLE, "--steps", 1_000_000, variables=variables))
        return replicas[-1]

    try:
        started = [start() for _ in range(3)]
        for replica in started:
            replica.wait_for(": 3 replicas, ", within=WITHIN)
        killed = started.pop()
        at = killed.kill()
        for replica in started:
            replica.wait_for(": 2 replicas, ", at, WITHIN)
        started.append(start())
        for replica in started:
            replica.wait_for(": 3 replicas, ", at, WITHIN)
    finally:
        for replica in replicas:
            replica.close()
    hashes: dict[int, set[str]] = {}
    for replica in replicas:
        for step, hashed in re.findall(r"step (\d+): \d replicas, hash ([0-9a-f]{16})", replica.output()):
            hashes.setdefault(int(step), set()).add(hashed)
    assert len(hashes) > 3
    assert all(len(equal) == 1 for equal in hashes.values()), hashes
