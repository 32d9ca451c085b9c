"""Fixtures: a coordinator in this process, peers in threads, other processes; and a limit for every test."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Iterator

import lockstep
import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from support import Peers, Processes

# A shell that starts the tests in the background makes them ignore SIGINT, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)

LIMIT = 90.0  # seconds of one test; then the process ends, and every thread says where it was


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """LOCKSTEP_SLOW_PART=i/n: of the tests that are marked `slow`, only the i-th of n parts."""
    part, _, parts = os.environ.get("LOCKSTEP_SLOW_PART", "1/1").partition("/")
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out = [item for number, item in enumerate(slow) if number % int(parts) != int(part) - 1]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True)
def _limit(request: pytest.FixtureRequest) -> Iterator[None]:
    stderr = request.config.stash[fault_handler_stderr_fd_key]  # descriptor 2 is captured, and lost at such an end
    faulthandler.dump_traceback_later(LIMIT, exit=True, file=stderr)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def coordinator() -> Iterator[lockstep.Coordinator]:
    with lockstep.Coordinator("127.0.0.1:0") as running:
        yield running


@pytest.fixture
def peers(coordinator: lockstep.Coordinator, request: pytest.FixtureRequest) -> Peers:
    """peers(n, main, **options) runs main(run, number) as n peers of one run; at_each_rank() turns their ranks."""
    return Peers(coordinator, getattr(request, "param", 0))


@pytest.fixture
def alone(coordinator: lockstep.Coordinator) -> Iterator[lockstep.Communicator]:
    """The only member of a run."""
    with lockstep.connect(coordinator.address, listen_host="127.0.0.1", timeout=30) as run:
        yield run


@pytest.fixture
def processes() -> Iterator[Processes]:
    started = Processes()
    yield started
    started.end()


@pytest.fixture
def one_torch_thread() -> Iterator[None]:
    """Operations of torch use one thread, so that peers in threads share the cores."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
