"""pytest: a test with the argument `lockstep_swarm` runs once for each seed of --lockstep-seeds.

def test_survives(lockstep_swarm):
    report = lockstep_swarm(peers=8, churn=True).run(main)
    assert len(report.values) >= 8

pytest --lockstep-seeds 1000          # seeds 0 to 999
pytest --lockstep-seed 17             # only this seed, as a failure reports it
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest

from .swarm import Swarm, SwarmFailure


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --lockstep-seeds and --lockstep-seed."""
    group = parser.getgroup("lockstep", "simulated swarms")
    group.addoption(
        "--lockstep-seeds", type=int, default=10, metavar="N", help="seeds 0 to N-1 of each swarm test (default: 10)"
    )
    group.addoption("--lockstep-seed", type=int, default=None, metavar="S", help="only this seed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Creates a test for each seed."""
    if "lockstep_swarm" not in metafunc.fixturenames:
        return
    one = metafunc.config.getoption("lockstep_seed")
    seeds = [one] if one is not None else range(metafunc.config.getoption("lockstep_seeds"))
    metafunc.parametrize("lockstep_swarm", seeds, indirect=True, ids=lambda seed: f"seed{seed}")


@pytest.fixture
def lockstep_swarm(request: pytest.FixtureRequest) -> Callable[..., Swarm]:
    """A function like lockstep.sim.Swarm whose default for `seed` is the seed of this test."""
    seed: int = request.param

    def make(*arguments: Any, **options: Any) -> Swarm:
        return Swarm(*arguments, **{"seed": seed, **options})

    return make


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """After a failure: the seed, the fewest faults, and the command that repeats it."""
    outcome = yield
    if call.when != "call" or call.excinfo is None or not isinstance(call.excinfo.value, SwarmFailure):
        return
    failure = call.excinfo.value
    name = item.nodeid.rsplit("[", 1)[0]
    faults = "\n".join(f"  {fault}" for fault in failure.faults) or "  none"
    text = (
        f"seed {failure.seed}, the fewest faults under which it fails:\n{faults}\n"
        f"pytest '{name}' --lockstep-seed {failure.seed}"
    )
    outcome.get_result().sections.append(("lockstep swarm", text))  # type: ignore[attr-defined]
