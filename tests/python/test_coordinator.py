"""An embedded coordinator: its address, options, end and flight recorder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lockstep
import pytest
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
        ({"heartbeat": 1, "silence": 1}, ["silence_ms is 1000", "heartbeat_ms is 1000", "twice"]),
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


def test_runs_of_two_coordinators_have_nothing_to_do_with_each_other(coordinator: lockstep.Coordinator) -> None:
    with lockstep.Coordinator("127.0.0.1:0") as other:

        def main(run: lockstep.Communicator, _: int) -> int:
            return run.world_size

        assert Peers(other)(2, main) == [2, 2]
        assert Peers(coordinator)(1, main) == [1]
