"""The examples, as processes: one is killed in the middle, one comes later, and all others hold the same bits.

The test takes part as a peer of its own, so that it decides when the run goes on, and sees every step.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from support import IN_TIME, Processes, ends_well, lines_of, until

EXAMPLES = Path(__file__).parents[2] / "bindings" / "examples" / "python"

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not here: an installed package")

STEPS, COMES, DIES = 40, 5, 12  # in which step the newcomer comes in, and one is killed


class Started:
    """Processes of an example: two founders beside the test, one of which is killed, and a newcomer."""

    def __init__(self, start: Callable[[], subprocess.Popen[str]], late: Callable[[], subprocess.Popen[str]]) -> None:
        self._late = late
        self.stays, self.dies = start(), start()
        self.comes: subprocess.Popen[str] | None = None

    def before_step(self, run: lockstep.Communicator, step: int) -> None:
        """What happens before all peers begin this step."""
        if step == COMES:
            self.comes = self._late()
            until(lambda: run.pending == 1)
        if step == DIES:
            self.dies.kill()
            self.dies.wait(IN_TIME)


def lines_after_the_run(process: subprocess.Popen[str] | None) -> list[str]:
    assert process is not None
    return ends_well(process).splitlines()


def test_all_reduce_survives_a_kill_and_takes_a_newcomer_in(
    coordinator: lockstep.Coordinator, processes: Processes
) -> None:
    program = str(EXAMPLES / "all_reduce.py")
    started = Started(
        lambda: processes(program, coordinator.address, "3", str(STEPS)),
        lambda: processes(program, coordinator.address, "3", str(STEPS - COMES - 1)),
    )
    seen = []
    with lockstep.connect(coordinator.address, founders=3, timeout=IN_TIME, listen_host="127.0.0.1") as run:
        for step in range(STEPS):
            started.before_step(run, step)
            gradient = np.ones(1 << 18, np.float32)
            result = run.all_reduce(gradient)
            seen.append((result.world_size, f"{gradient[0]:g}", f"{result.hash:016x}"))
            run.admit()

    def told(lines: list[str]) -> Iterator[tuple[int, str, str]]:
        for line in lines:
            found = re.fullmatch(r"view \d+: (\d) peers, sum (\d), hash ([0-9a-f]{16})", line)
            assert found is not None, line
            yield int(found[1]), found[2], found[3]

    assert list(told(lines_after_the_run(started.stays))) == seen
    assert list(told(lines_after_the_run(started.comes))) == seen[COMES + 1 :]
    assert [size for size, _, _ in seen] == [3] * (COMES + 1) + [4] * (DIES - COMES - 1) + [3] * (STEPS - DIES)


def test_logistic_regression_survives_a_kill_and_takes_a_newcomer_in(
    coordinator: lockstep.Coordinator, processes: Processes
) -> None:
    path = EXAMPLES / "logistic_regression.py"
    example = module_of(path)

    def start() -> subprocess.Popen[str]:
        return processes(str(path), coordinator.address, "--founders", "3", "--steps", str(STEPS))

    started = Started(start, start)
    lines: list[str] = []
    with lockstep.connect(coordinator.address, founders=3, timeout=IN_TIME, listen_host="127.0.0.1") as run:

        def say(line: str) -> None:
            lines.append(line)
            started.before_step(run, len(lines))

        started.before_step(run, 0)
        state = example.train(run, STEPS, say=say)
    assert state["step"] == STEPS
    lines.append(f"accuracy {example.accuracy(state['weights']):.3f}")
    assert lines_after_the_run(started.stays) == lines
    assert lines_after_the_run(started.comes) == lines[COMES:]
    assert len({line.partition("hash ")[2] for line in lines[:-1]}) == STEPS  # it learns
    assert example.accuracy(state["weights"]) > 0.85


def test_overlap(coordinator: lockstep.Coordinator, processes: Processes) -> None:
    both = [processes(str(EXAMPLES / "overlap.py"), coordinator.address, "2") for _ in range(2)]
    for process in both:
        lines = lines_after_the_run(process)
        assert len(lines) == 10
        for number, line in enumerate(lines):
            assert re.fullmatch(rf"step {number}: 2 peers, 8 calls, [0-9.]+ ms in all", line), line


def test_an_example_alone_needs_nobody(coordinator: lockstep.Coordinator, processes: Processes) -> None:
    process = processes(str(EXAMPLES / "logistic_regression.py"), coordinator.address, "--steps", "3")
    assert [line.split()[0] for line in lines_of(process)] == ["step"] * 3 + ["accuracy"]
    ends_well(process)


def module_of(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_examples_can_be_imported() -> None:
    """They begin when they are started, and not before: the ones that have a main()."""
    assert threading.active_count() >= 1
    for path in (EXAMPLES / "logistic_regression.py", EXAMPLES / "overlap.py"):
        assert callable(module_of(path).main)
