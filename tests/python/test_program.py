"""The `lockstep` program of the package: `python -m lockstep`, and LOCKSTEP_PROGRAM that names another one."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import lockstep
import pytest
from lockstep._program import program
from support import IN_TIME, Processes, ends_well, lines_of


def test_version(processes: Processes) -> None:
    assert ends_well(processes("-m", "lockstep", "--version")) == f"lockstep {lockstep.__version__}\n"


def test_the_exit_code_is_the_programs(processes: Processes) -> None:
    process = processes("-m", "lockstep", "no-such-command")
    _, errors = process.communicate(timeout=IN_TIME)
    assert process.returncode == 2
    assert "no-such-command" in errors


def test_a_coordinator_for_peers_of_python(processes: Processes) -> None:
    process = processes("-m", "lockstep", "coordinator", "--listen", "127.0.0.1:0")
    first = next(lines_of(process))
    address = next(word for word in first.replace('"', " ").split() if word.startswith("127.0.0.1:"))
    with lockstep.connect(address, timeout=IN_TIME, listen_host="127.0.0.1") as run:
        assert run.world_size == 1
    process.terminate()
    process.communicate(timeout=IN_TIME)
    assert process.returncode == 0


def test_status_names_peers_by_host_and_process(processes: Processes, coordinator: lockstep.Coordinator) -> None:
    with lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1"):
        told = json.loads(ends_well(processes("-m", "lockstep", "status", coordinator.address, "--json")))
    assert [member["name"] for member in told["members"]] == [f"{socket.gethostname().split('.')[0]}[{os.getpid()}]"]


def test_the_environment_may_name_another_program(processes: Processes, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text('#!/bin/sh\necho "the other one: $*"\n')
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    assert (
        ends_well(processes("-m", "lockstep", "status", "x", LOCKSTEP_PROGRAM=str(other)))
        == "the other one: status x\n"
    )


def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCKSTEP_PROGRAM", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match=r"there is no program .*none: .*pip.*LOCKSTEP_PROGRAM"):
        program()
    (tmp_path / "none").write_text("no program")
    with pytest.raises(FileNotFoundError):
        program()
