"""An embedded coordinator: its address, options, end and flight recorder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import lockstep
import pytest
from lockstep._program import program
from support import IN_TIME, Peers, says


def test_it_listens_where_it_says() -> None:
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        host, _, port = coordinator.address.rpartition(":")
        assert host == "127.0.0.1"
        assert 0 < int(port) < 1 << 16
        assert repr(coordinator) == f"<lockstep.Coordinator at {coordinator.address}>"
        with pytest.raises(lockstep.Unreachable, match=port) as caught:
            lockstep.Coordinator(coordinator.address)
        assert isinstance(caught.value, ConnectionError)
    with lockstep.Coordinator(f"127.0.0.1:{port}") as again:  # the port is free at once
        assert again.address == f"127.0.0.1:{port}"


def test_without_a_host_it_is_reached_by_loopback() -> None:
    with (
        lockstep.Coordinator() as coordinator,
        lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1") as run,
    ):
        assert run.world_size == 1


def test_options() -> None:
    options: dict[str, Any] = {"heartbeat": 0.25, "silence": 1, "greeting": 2.5, "logger": None, "flight_file": None}
    with (
        lockstep.Coordinator("127.0.0.1:0", **options) as coordinator,
        lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1"),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"listen": "nonsense"}, ["nonsense", "host:port"]),
        ({"listen": "127.0.0.1:70000"}, ["70000", "not a port"]),
        ({"heartbeat": 0}, ["heartbeat is 0"]),
        ({"greeting": -1}, ["greeting is -1"]),
        ({"heartbeat": 1, "silence": 1}, ["silence is 1000 ms", "heartbeat is 1000 ms", "twice"]),
        ({"silence": float("nan")}, ["silence is nan"]),
    ],
    ids=str,
)
def test_values_that_cannot_be(options: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(lockstep.InvalidArgument) as caught:
        lockstep.Coordinator(**options)
    says(caught.value, parts)
    assert "options." not in str(caught.value)


def test_arguments_of_other_types() -> None:
    with pytest.raises(TypeError):
        lockstep.Coordinator(4000)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        lockstep.Coordinator("127.0.0.1:0", heart_beat=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        lockstep.Coordinator("127.0.0.1:0", heartbeat="often")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        lockstep.Coordinator("127.0.0.1:0", logger="lockstep")  # type: ignore[arg-type]


def test_stopping_twice_does_nothing() -> None:
    coordinator = lockstep.Coordinator("127.0.0.1:0")
    address = coordinator.address
    coordinator.stop()
    coordinator.stop()
    assert coordinator.address == address
    with pytest.raises(lockstep.NotConnected):
        coordinator.flight_record("never.rec")


def test_dropping_it_stops_it() -> None:
    threads = len(os.listdir("/proc/self/task"))
    for _ in range(10):
        lockstep.Coordinator("127.0.0.1:0")
    assert len(os.listdir("/proc/self/task")) <= threads + 1  # the one that takes lines of log


def test_flight_record(tmp_path: Path) -> None:
    file = tmp_path / "coordinator.rec"
    with lockstep.Coordinator("127.0.0.1:0", flight_file=file) as coordinator:
        with lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1") as run:
            run.barrier()
        coordinator.flight_record(tmp_path / "now.rec")
        assert (tmp_path / "now.rec").stat().st_size > 0
        with pytest.raises(lockstep.InvalidArgument, match="No such file"):
            coordinator.flight_record(str(tmp_path / "nowhere" / "now.rec"))


def test_a_flight_file_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    for file, why in (
        ("/proc/c.rec", "no file can be created in /proc"),
        (tmp_path / "nowhere" / "c.rec", "there is no folder"),
        (tmp_path, "is a folder"),
    ):
        with pytest.raises(lockstep.InvalidArgument, match=why):
            lockstep.Coordinator("127.0.0.1:0", flight_file=file)
        command = [program(), "coordinator", "--listen", "127.0.0.1:0", "--flight-recorder", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert why in done.stderr


def test_a_recording_that_finds_a_full_disk_at_the_end_is_told(tmp_path: Path) -> None:
    file = tmp_path / "c.rec"
    command = [program(), "coordinator", "--listen", "127.0.0.1:0", "--flight-recorder", str(file)]
    coordinator = subprocess.Popen(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert coordinator.stdout is not None
    assert "listening" in coordinator.stdout.readline()
    coordinator.terminate()
    _, errors = coordinator.communicate(timeout=IN_TIME)
    assert coordinator.returncode == 1
    assert f"the flight recording was not written: {file}" in errors
    assert "File too large" in errors
    assert list(tmp_path.iterdir()) == []


def test_runs_of_two_coordinators_have_nothing_to_do_with_each_other(coordinator: lockstep.Coordinator) -> None:
    with lockstep.Coordinator("127.0.0.1:0") as other:

        def main(run: lockstep.Communicator, _: int) -> int:
            return run.world_size

        assert Peers(other)(2, main) == [2, 2]
        assert Peers(coordinator)(1, main) == [1]
