"""Lines of log become records of logging, lines of a journal go to a file or a function; functions that raise do no harm."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path

import lockstep
import numpy as np
import pytest
from lockstep import sim
from support import IN_TIME, Peers, Processes, ends_well, until


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def texts(self) -> str:
        return "\n".join(record.getMessage() for record in list(self.records))


def logger_of(name: str) -> tuple[logging.Logger, Records]:
    logger, records = logging.getLogger(name), Records()
    logger.handlers = [records]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger, records


def join_and_leave(coordinator: lockstep.Coordinator, **options: object) -> lockstep.PeerId:
    with lockstep.connect(
        coordinator.address,
        timeout=IN_TIME,
        listen_host="127.0.0.1",
        **options,  # type: ignore[arg-type]
    ) as run:
        run.all_reduce(np.ones(3), tag=42)
        return run.id


def test_lines_become_records(coordinator: lockstep.Coordinator) -> None:
    logger, records = logger_of("test.lines.peer")
    join_and_leave(coordinator, logger=logger)
    until(lambda: "left view=" in records.texts())
    assert "joined view=" in records.texts()
    assert {record.levelno for record in records.records} == {logging.INFO}
    assert {record.name for record in records.records} == {"test.lines.peer"}


def test_the_coordinators_lines_have_a_logger_of_their_own() -> None:
    logger, records = logger_of("test.lines.coordinator")
    with lockstep.Coordinator("127.0.0.1:0", logger=logger) as coordinator:
        join_and_leave(coordinator, name="somebody")
        until(lambda: "somebody" in records.texts())


def test_the_default_loggers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="lockstep")
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        join_and_leave(coordinator)
        until(lambda: {record.name for record in caplog.records} >= {"lockstep", "lockstep.coordinator"})


def test_percent_signs_are_nothing_special(coordinator: lockstep.Coordinator) -> None:
    logger, records = logger_of("test.lines.percent")
    with lockstep.Coordinator("127.0.0.1:0", logger=logger) as other:
        join_and_leave(other, name="100%s sure")
        until(lambda: "100%s sure" in records.texts())


def judged(lines: list[str]) -> None:
    parsed = [json.loads(line) for line in lines]
    assert len(parsed) >= 3
    assert any("42" in line for line in lines)


def test_a_journal_in_a_file(coordinator: lockstep.Coordinator, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    join_and_leave(coordinator, journal=path)
    first = path.read_text()
    judged(first.splitlines())
    join_and_leave(coordinator, journal=str(path))  # appends
    assert path.read_text().startswith(first)
    assert len(path.read_text()) > len(first)


def test_a_journal_in_a_file_that_cannot_be(coordinator: lockstep.Coordinator, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        join_and_leave(coordinator, journal=tmp_path / "nowhere" / "journal")
    with pytest.raises(IsADirectoryError):
        join_and_leave(coordinator, journal=tmp_path)


FILLS_ITS_DISK = """
import logging, resource, signal, sys
import lockstep, numpy as np

logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(levelname)s %(name)s %(message)s")
path, limit = sys.argv[1], int(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with lockstep.Coordinator("127.0.0.1:0") as coordinator:
    with lockstep.connect(coordinator.address, journal=path, listen_host="127.0.0.1", timeout=30) as run:
        for step in range(40):
            if step == 4:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            assert run.all_reduce(np.ones(3), tag=step).world_size == 1
print("over")
"""


@pytest.mark.parametrize("limit", [0, 1, 6000, 6100, 6200, 6345, 6400])
def test_a_journal_on_a_full_disk_ends_at_a_whole_line_and_says_so(
    processes: Processes, tmp_path: Path, limit: int
) -> None:
    path = tmp_path / "journal"
    output = ends_well(processes("-c", FILLS_ITS_DISK, str(path), str(limit)))
    warning, over = sorted(output.splitlines())  # the thread that writes the journal warns when it may
    assert over == "over"
    assert warning == (
        f"WARNING lockstep the journal has stopped: {path}: File too large; `lockstep sim audit` calls it incomplete"
    )
    *whole, rest = path.read_text().split("\n")
    lines = [json.loads(line) for line in whole]
    if limit <= 1:  # not even a line that was written can be written again
        assert rest == "{"
        why = "ends in the middle of a line"
    else:
        assert rest == ""
        assert lines[-1] == {"peer": lines[0]["peer"], "what": "stopped", "why": "File too large"}
        assert path.stat().st_size <= limit
        why = "File too large"
    with pytest.raises(sim.Failure, match=why) as caught:
        sim.audit(path)
    assert caught.value.kind == "incomplete"


def test_a_journal_that_takes_no_line_is_told_once(coordinator: lockstep.Coordinator) -> None:
    logger, records = logger_of("test.lines.full")
    join_and_leave(coordinator, logger=logger, journal="/dev/full")
    until(lambda: "left view=" in records.texts())
    warnings = [record.getMessage() for record in records.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "the journal has stopped: /dev/full: No space left on device" in warnings[0]


def test_a_function_that_is_too_slow_for_a_journal_ends_it(coordinator: lockstep.Coordinator) -> None:
    logger, records = logger_of("test.lines.slow")
    lines: list[str] = []
    go = threading.Event()

    def slow(line: str) -> None:
        go.wait(IN_TIME)
        lines.append(line)

    with lockstep.connect(coordinator.address, timeout=IN_TIME, journal=slow, logger=logger, spin=0) as run:
        for tag in range(5100):  # two lines each
            run.barrier(tag=tag)
        go.set()
    until(lambda: "the journal has stopped: its function was slower" in records.texts())
    assert json.loads(lines[-1])["what"] == "stopped"
    assert [json.loads(line)["what"] for line in lines].count("stopped") == 1


def test_a_journal_taken_by_a_function(coordinator: lockstep.Coordinator, tmp_path: Path) -> None:
    lines: list[str] = []
    threads: set[str] = set()

    def take(line: str) -> None:
        threads.add(threading.current_thread().name)
        lines.append(line)

    path = tmp_path / "journal"
    join_and_leave(coordinator, journal=take)
    join_and_leave(coordinator, journal=path)
    until(lambda: len(lines) >= len(path.read_text().splitlines()))
    judged(lines)
    assert threads == {"lockstep-lines"}
    assert not any("\n" in line for line in lines)


def test_functions_that_raise_do_not_end_the_run(
    coordinator: lockstep.Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[str] = []

    def fails(line: str) -> None:
        raise RuntimeError("the disk is full")

    caplog.set_level(logging.ERROR, logger="lockstep")
    join_and_leave(coordinator, journal=fails)
    until(lambda: any("the line was: {" in record.getMessage() for record in caplog.records))
    assert any("the disk is full" in str(record.exc_info) for record in caplog.records)
    join_and_leave(coordinator, journal=lines.append)  # the thread that takes lines goes on
    until(lambda: len(lines) >= 3)


def test_handlers_that_raise_do_not_end_the_run(coordinator: lockstep.Coordinator) -> None:
    class Fails(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.set()
            raise RuntimeError("the disk is full")

    seen = threading.Event()
    logger, _ = logger_of("test.lines.fails")
    logger.handlers = [Fails()]
    join_and_leave(coordinator, logger=logger)
    assert seen.wait(IN_TIME)
    join_and_leave(coordinator, logger=logger)


def test_a_function_may_call_the_library(coordinator: lockstep.Coordinator) -> None:
    """It runs on a thread of the package, outside of the library, so that nothing is locked."""
    sizes: list[int] = []

    def main(run: lockstep.Communicator, number: int) -> None:
        runs.append(run)
        run.barrier()
        until(lambda: len(sizes) >= 2)

    def take(line: str) -> None:
        if runs:
            sizes.append(runs[0].world_size)

    runs: list[lockstep.Communicator] = []
    Peers(coordinator)(2, main, journal=take)
    assert set(sizes) <= {1, 2}


def test_one_thread_takes_all_lines(peers: Peers) -> None:
    def main(run: lockstep.Communicator, _: int) -> int:
        return sum(thread.name == "lockstep-lines" for thread in threading.enumerate())

    assert peers(4, main) == [1] * 4


def test_the_thread_of_lines_has_a_name_and_keeps_no_process_alive(processes: Processes) -> None:
    program = """
import threading, lockstep
with lockstep.Communicator(listen_host="127.0.0.1"):
    print([(thread.name, thread.daemon) for thread in threading.enumerate()[1:]])
"""
    assert ends_well(processes("-c", program)) == "[('lockstep-lines', True)]\n"


def test_lines_come_before_the_interpreter_ends(processes: Processes, tmp_path: Path) -> None:
    program = """
import sys, lockstep
def take(line): print("took", line)
with lockstep.Coordinator("127.0.0.1:0") as coordinator:
    with lockstep.connect(coordinator.address, journal=take, listen_host="127.0.0.1") as run:
        run.barrier(tag=42)
"""
    output = ends_well(processes("-c", program))
    assert "42" in output
    judged([line[5:] for line in output.splitlines()])


def test_after_a_fork_lines_are_taken_in_the_child_too(processes: Processes) -> None:
    program = """
import os, sys, threading, warnings, lockstep
warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads forks: that is what is tested
lines = []
def life(listen):
    with lockstep.Coordinator(listen) as coordinator:
        with lockstep.connect(coordinator.address, journal=lines.append, listen_host="127.0.0.1", timeout=20) as run:
            run.barrier()
    deadline = threading.Event()
    for _ in range(20000):
        if len(lines) >= 3: break
        deadline.wait(0.001)
    return len(lines) >= 3
assert life("127.0.0.1:0")
lines.clear()
child = os.fork()
if child == 0:
    os._exit(0 if life("127.0.0.1:0") else 1)
assert life("127.0.0.1:0")
_, status = os.waitpid(child, 0)
print("child", os.waitstatus_to_exitcode(status))
"""
    assert ends_well(processes("-c", program)) == "child 0\n"
