"""lockstep.torch: torch.distributed over Lockstep gives the results of Gloo, and the loss of a process stops nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import lockstep
import pytest
from torch_processes import run_ranks

torch = pytest.importorskip("torch", reason="torch is not installed")

PROGRAMS = Path(__file__).parent / "torch_programs.py"
MEMBERSHIP = Path(__file__).parent / "torch_membership.py"


def run(program: str, size: int, method: str, *more: str, **variables: str) -> list[tuple[int, str]]:
    """Runs a program as so many ranks. Returns the exit code and the output of each."""
    return run_ranks(PROGRAMS, [[program, rank, size, method, *more] for rank in range(size)], variables)


def check(ended: list[tuple[int, str]], word: str) -> None:
    for code, output in ended:
        assert code == 0, output
        assert word in output, output


@pytest.fixture
def meeting(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_results_are_those_of_gloo(size: int, meeting: str) -> None:
    ended = run("compared", size, meeting)
    for program in ("collectives", "functional", "ddp", "fsdp", "dtensor"):
        check(ended, f"equal {program} ")


def test_replicas_give_the_results_of_hsdp(meeting: str, coordinator: lockstep.Coordinator) -> None:
    check(run("replicas", 4, meeting, coordinator.address), "equal 4")


def test_optimizers_begin_with_the_same_state_on_all_replicas() -> None:
    check(run("optimizers", 1, ""), "equal AdamW")


@pytest.mark.parametrize("victim", range(3))
@pytest.mark.parametrize("program", ["strict", "elastic", "partner"])
def test_a_dead_process_stops_nobody(
    program: str, victim: int, meeting: str, coordinator: lockstep.Coordinator
) -> None:
    method = meeting if victim else f"lockstep://{coordinator.address}"  # rank 0 would take its coordinator along
    ended = run(program, 3, method, str(victim))
    code, output = ended.pop(victim)
    assert code == -9, output
    check(ended, "survived")


@pytest.mark.parametrize("size", [2, 3])
def test_tags_match_in_any_order(size: int, meeting: str) -> None:
    check(run("any_order", size, meeting), "over")


def test_tensors_of_every_kind_are_sent_and_received(meeting: str) -> None:
    check(run("plain", 2, meeting), "over")


@pytest.mark.parametrize(("sender", "size"), [(0, 2), (1, 2), (0, 3), (2, 3)])
def test_a_program_that_ends_delivers_what_it_has_sent(sender: int, size: int, meeting: str) -> None:
    check(run("sends_and_ends", size, meeting, str(sender)), "over")


def test_groups_share_a_thread(meeting: str) -> None:
    check(run("groups", 2, meeting), "over")


@pytest.mark.slow
def test_a_call_for_each_of_many_tensors(meeting: str) -> None:
    check(run("many", 3, meeting, "10000"), "many 10000")


def test_a_timeout_ends_one_collective(meeting: str) -> None:
    check(run("times_out", 3, meeting), "over")


def test_a_collective_that_one_rank_refuses_ends_on_all(meeting: str) -> None:
    check(run("refused", 3, meeting), "over")


def test_the_init_method_names_a_coordinator(coordinator: lockstep.Coordinator) -> None:
    *survivors, (code, output) = run("strict", 3, f"lockstep://{coordinator.address}", "2")
    assert code == -9, output
    check(survivors, "survived")


@pytest.fixture
def secured() -> Iterator[lockstep.Coordinator]:
    with lockstep.Coordinator(":0", advertise="127.0.0.1") as running:
        yield running


@pytest.mark.parametrize("form", ["token", "file", "env"])
def test_the_init_method_has_every_form_of_connect(form: str, secured: lockstep.Coordinator, tmp_path: Path) -> None:
    file = tmp_path / "run.token"
    file.write_text(secured.token)
    file.chmod(0o600)
    method = {"token": secured.token, "file": f"file:{file}", "env": "env:RUN_TOKEN"}[form]
    check(run("plain", 2, f"lockstep://{method}", RUN_TOKEN=secured.token), "over")


@pytest.mark.parametrize("form", ["token", "file"])
def test_the_variable_names_a_coordinator(
    form: str, meeting: str, secured: lockstep.Coordinator, tmp_path: Path
) -> None:
    file = tmp_path / "run.token"
    file.write_text(secured.token)
    file.chmod(0o600)
    coordinator = {"token": secured.token, "file": f"file:{file}"}[form]
    check(run("plain", 2, meeting, LOCKSTEP_COORDINATOR=coordinator), "over")


def test_a_group_with_a_token_in_the_store(meeting: str) -> None:
    """Rank 0 listens on all addresses, and the others get its token from torch's store."""
    check(run("plain", 2, meeting, LOCKSTEP_HOST="localhost"), "over")


def test_memberships_change(tmp_path: Path) -> None:
    """Torch's reconfigure: every scenario of torch_membership.py."""
    first, *others = run_ranks(MEMBERSHIP, [[rank, 3, tmp_path / "store"] for rank in range(3)])
    assert first[0] == -9, first[1]
    source = MEMBERSHIP.read_text()
    scenes = re.findall(r'^    "(.*)": ', source[source.index("SCENES") :], re.MULTILINE)
    assert len(scenes) > 20
    for code, output in others:
        assert code == 0, output
        assert re.findall("^passed (.*)", output, re.MULTILINE) == scenes, output
