"""Keyword arguments of a communicator: each arrives, what cannot be is refused by its own name, what is unknown is guessed."""

from __future__ import annotations

import json
import logging
import re
import socket
from pathlib import Path
from typing import Any

import lockstep
import pytest
from lockstep import _lockstep
from lockstep._call_options import AllReduceOptions
from support import IN_TIME, Meeting, Peers, at_each_rank, says, until

LOCAL: dict[str, Any] = {"listen_host": "127.0.0.1"}


def test_every_option_is_taken(coordinator: lockstep.Coordinator, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    options: dict[str, Any] = {
        "name": "first",
        "group": 3,
        "gang": 7,
        "gang_size": 1,
        "founders": 1,
        "minimum_world": 1,
        "auto_admit": True,
        "ports": (20000, 60000),
        "listen_host": "127.0.0.1",
        "advertise_host": "127.0.0.1",
        "advertise_port": 4711,
        "stripes": 4,
        "segment_bytes": 65536,
        "dial_timeout": 1,
        "link_heartbeat": 0.25,
        "link_silence": 2,
        "link_timeout": 4.5,
        "abort_grace": 3,
        "congestion_control": "reno",
        "logger": logging.getLogger("test"),
        "journal": journal,
        "flight_folder": tmp_path,
        "flight_kib": 512,
        "spin": 1e-4,
        "bytes_per_second": 1 << 30,
        "state_bytes_per_second": 1 << 20,
        "shared_thread": True,
        "certificates": None,
        "insecure": True,
    }
    assert set(options) == set(lockstep.Options.__annotations__)
    with lockstep.connect(coordinator.address, timeout=IN_TIME, **options) as run:
        assert run.world.group == 3
        assert run.barrier().world_size == 1
        run.flight_record(tmp_path / "now.rec")
    first = json.loads(journal.read_text().splitlines()[0])
    assert isinstance(first, dict)


def test_none_is_the_default(coordinator: lockstep.Coordinator) -> None:
    nothing: dict[str, Any] = dict.fromkeys(lockstep.Options.__annotations__)
    with lockstep.connect(coordinator.address, timeout=IN_TIME, **nothing) as run:
        assert run.world_size == 1


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"stripes": 129}, ["stripes is 129", "1 to 128"]),
        ({"group": -1}, ["group is -1", "0 to 4294967295"]),
        ({"group": 1 << 32}, ["group is 4294967296"]),
        ({"name": "x" * 65}, ["name is 65 bytes long", "at most 64"]),
        ({"gang_size": 2}, ["gang_size is 2", "gang is 0"]),
        ({"founders": 2000}, ["founders is 2000", "1 to 1024"]),
        ({"minimum_world": 2000}, ["minimum_world is 2000", "1 to 1024"]),
        ({"ports": 70000}, ["ports is 70000", "1 to 65535"]),
        ({"ports": 0}, ["ports is 0"]),
        ({"ports": (5, 4)}, ["ports is (5, 4)", "first and the last"]),
        ({"ports": (1, 2, 3)}, ["ports is (1, 2, 3)"]),
        ({"advertise_port": 1 << 16}, ["advertise_port is 65536"]),
        ({"segment_bytes": 1 << 21}, ["segment_bytes is 2097152", "1 to 1048576"]),
        ({"segment_bytes": 7}, ["is 7", "multiple of 8"]),
        ({"dial_timeout": 0}, ["dial_timeout is 0", "more than 0"]),
        ({"link_heartbeat": -1}, ["link_heartbeat is -1", "more than 0"]),
        ({"link_silence": float("nan")}, ["link_silence is nan"]),
        ({"link_silence": 0.001}, ["link_silence must be longer than link_heartbeat"]),
        ({"link_timeout": 1e9}, ["link_timeout is 1000000000"]),
        ({"abort_grace": 0}, ["abort_grace is 0"]),
        ({"flight_folder": "/no/such/folder"}, ["/no/such/folder", "flight_folder"]),
        ({"flight_folder": "/proc"}, ["/proc", "no file can be created", "flight_folder"]),  # also as root
        ({"flight_kib": 1 << 20}, ["flight_kib is 1048576"]),
        ({"spin": 1}, ["spin is", "0.01"]),
        ({"spin": -1}, ["spin is -1"]),
        ({"bytes_per_second": -1}, ["bytes_per_second is -1"]),
        ({"state_bytes_per_second": -1}, ["state_bytes_per_second is -1"]),
    ],
    ids=str,
)
def test_values_that_cannot_be(options: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(lockstep.InvalidArgument) as caught:
        lockstep.Communicator(**{**LOCAL, **options})
    says(caught.value, parts)
    assert not re.search(r"\b(options|args)\.", str(caught.value))  # Python has no structs


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"name": b"first"}, ["name is b'first'"]),
        ({"listen_host": 127}, ["listen_host is 127"]),
        ({"group": "first"}, ["group is 'first'", "an int"]),
        ({"founders": 1.5}, ["founders is 1.5", "an int"]),
        ({"auto_admit": "no"}, ["auto_admit is 'no'", "True or False"]),
        ({"dial_timeout": "long"}, ["dial_timeout is 'long'", "a number"]),
        ({"spin": "long"}, ["spin is 'long'", "a number"]),
        ({"flight_folder": 3}, ["flight_folder is 3", "a path"]),
        ({"journal": 3}, ["journal is 3", "a path"]),
        ({"logger": "lockstep"}, ["logger is 'lockstep'", "logging.Logger"]),
    ],
    ids=str,
)
def test_values_of_other_types(options: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(TypeError) as caught:
        lockstep.Communicator(**{**LOCAL, **options})
    says(caught.value, parts)


def test_a_long_value_is_cut_in_the_text_of_its_error() -> None:
    whole, longer = "9" * 98, "9" * 99  # with the quotes 100 characters, and one more
    with pytest.raises(TypeError, match=f"^ports is '{whole}'; allowed"):
        lockstep.Communicator(ports=whole)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=rf"^ports is '{longer}\.\.\.; allowed"):
        lockstep.Communicator(ports=longer)  # type: ignore[arg-type]


def test_unknown_options_are_guessed() -> None:
    with pytest.raises(TypeError, match="unknown option 'founder'; did you mean 'founders'"):
        lockstep.Communicator(founder=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unknown option 'zzz' \(one of: name, group, "):
        lockstep.connect("127.0.0.1:1", zzz=2)  # type: ignore[call-arg]


def test_hosts_that_are_not_found() -> None:
    with pytest.raises(lockstep.Unreachable, match=r"nowhere\.invalid"):
        lockstep.Communicator(listen_host="nowhere.invalid")


def test_a_port_of_the_range_is_taken(coordinator: lockstep.Coordinator) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with lockstep.connect(coordinator.address, ports=port, timeout=IN_TIME, **LOCAL):
        socket.create_connection(("127.0.0.1", port), timeout=IN_TIME).close()


def test_the_environment_names_a_folder_for_the_flight_recorder(
    peers: Peers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOCKSTEP_FLIGHT_FOLDER", str(tmp_path))

    def main(run: lockstep.Communicator, _: int) -> None:
        run.flight_record(tmp_path / f"{run.id}.rec")

    peers(2, main)
    assert len(list(tmp_path.iterdir())) == 2


@at_each_rank(2)
def test_the_name_is_for_people(peers: Peers) -> None:
    aborted = Meeting(2)

    def main(run: lockstep.Communicator, number: int) -> None:
        if number == 1:
            aborted()
        work = run.barrier_async()
        if number == 0:
            work.abort("of boredom")
        with pytest.raises(lockstep.Aborted) as caught:
            work.wait(IN_TIME)
        says(caught.value, ["peer 0", "of boredom"])
        if number == 0:
            aborted()

    peers(2, main, each=lambda number: {"name": f"peer {number}"})


def test_waiting_peers_are_counted(coordinator: lockstep.Coordinator, alone: lockstep.Communicator) -> None:
    newcomer = lockstep.Communicator(**LOCAL)
    try:
        newcomer.connect_async(coordinator.address, timeout=IN_TIME)
        until(lambda: alone.pending == 1)
        assert alone.world.pending == 1
    finally:
        newcomer.close()
    until(lambda: alone.pending == 0)


def test_the_native_part_reads_the_options_of_an_all_reduce_in_their_order() -> None:
    assert list(AllReduceOptions._fields) == _lockstep.constants()["all_reduce_options"]
