"""Torch's own tests of a distributed backend pass over Lockstep: a part of them each day, all of them in some days."""

from __future__ import annotations

import time

import pytest
from torch_suite import run_apart

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("expecttest", reason="torch's tests need expecttest")

PARTS = 5


@pytest.mark.slow
@pytest.mark.parametrize("world", [3, 4])
def test_a_part_of_the_tests_that_torch_ships(world: int) -> None:
    part = int(time.time() / 86400 + world) % PARTS + 1
    results = run_apart("lockstep", world, [], f"{part}/{PARTS}")
    failed = [f"{one.name}:\n{one.text}" for one in results if one.outcome == "failed"]
    assert not failed, "\n".join(failed)
    assert sum(one.outcome == "passed" for one in results) >= 5, results
