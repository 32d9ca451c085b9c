"""A shared state that differs between peers is found, named, and repaired."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lockstep
import pytest
from support import Peers, at_each_rank

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import strategy_programs as programs  # noqa: E402
from lockstep.torch import DataParallel, Desync, DiLoCo, LocalSGD  # noqa: E402
from torch_processes import run_ranks  # noqa: E402

PROGRAM = Path(__file__).parent / "strategy_desync_program.py"


@pytest.mark.parametrize(
    ("case", "group", "name", "victim"),
    [
        ("diloco-int8", "parameters", "parameters/2.weight", 0),
        ("diloco-int8", "parameters", "parameters/2.weight", 1),
        ("diloco-int8", "parameters", "parameters/2.weight", 2),
        ("diloco", "momentum", "momentum/0.bias", 0),
        ("eager-int8", "parameters", "parameters/2.weight", 1),
        ("streaming", "momentum", "momentum/0.bias", 2),
        ("sparse-loco", "parameters", "parameters/2.weight", 0),
    ],
)
def test_a_flipped_bit_is_named_on_all_peers(
    case: str, group: str, name: str, victim: int, coordinator: lockstep.Coordinator
) -> None:
    outcomes = run_ranks(PROGRAM, [(case, group, coordinator.address, victim)] * programs.FOUNDERS)
    ids, told, ends = [], {}, set()
    for code, output in outcomes:
        assert code == 0, output
        lines = [line.split(maxsplit=1) for line in output.splitlines()]
        (rank,) = [int(rest) for word, rest in lines if word == "rank"]
        ids.append(next(rest.split()[0] for word, rest in lines if word == "begins"))
        (desync,) = [rest.split(maxsplit=3) for word, rest in lines if word == "desync"]
        (text,) = [rest for word, rest in lines if word == "text"]
        (end,) = [rest for word, rest in lines if word == "ended"]
        ends.add(end)
        told[rank] = desync
        at = ("2", "3") if case.startswith("eager") else ("2",)  # a reduction in flight may have read the bit before
        assert desync[0] in at
        assert desync[1] == name
        assert f"first in {name}: " in text
        assert "enter the `with` block again" in text
    assert {rank: one[2] for rank, one in told.items()} == {
        rank: str(rank == victim) for rank in range(programs.FOUNDERS)
    }
    hashes = told[0][3]
    assert all((one[0], one[3]) == (told[0][0], hashes) for one in told.values())
    assert all(f"PeerId({peer[:8]})" in hashes for peer in ids)
    assert len(ends) == 1, "the states differ at the end"


@at_each_rank(3)
def test_the_text_has_each_hash_with_its_peers(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> tuple[str, Desync]:
        model = torch.nn.Linear(3, 3)
        sync = LocalSGD(run, model, torch.optim.SGD(model.parameters(), lr=0.0), inner_steps=1, check_every=1)

        def train() -> None:
            with sync:
                if number == 2:
                    sync._training.model.fragments[0].theta[4] += 1
                sync.step()

        with pytest.raises(Desync) as caught:
            train()
        return str(run.id)[:8], caught.value

    (first, error), (second, _), (third, _) = peers(3, main)
    common, other = [error.hashes[peer] for peer in sorted(error.hashes, key=lambda p: str(p)[:8] == third)][1:]
    both = [peer for peer in (str(one)[:8] for one in error.hashes) if peer != third]
    assert sorted(both) == sorted([first, second])
    assert str(error) == (
        f"after outer step 0 the shared states differ, first in parameters/weight: {common} on {', '.join(both)}; "
        f"{other} on {third}; enter the `with` block again on all peers, or let the peers that differ connect anew, "
        "as newcomers"
    )


@pytest.mark.parametrize("check_every", [0, 2])
def test_a_state_is_compared_every_so_many_outer_steps(check_every: int, peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> int:
        model = torch.nn.Linear(3, 3)
        inner = torch.optim.SGD(model.parameters(), lr=0.0)
        sync = DiLoCo(run, model, inner, inner_steps=1, check_every=check_every)
        try:
            with sync:
                sync._training.model.fragments[0].theta[0] = number
                for _ in range(3):
                    sync.step()
        except Desync as error:
            return error.outer_step
        return -1

    assert peers(2, main) == [1 if check_every else -1] * 2


def test_data_parallel_compares_parameters_and_the_optimizer(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> str:
        model = torch.nn.Linear(3, 3)
        inner = torch.optim.AdamW(model.parameters(), lr=0.1)
        try:
            with DataParallel(run, model, inner, check_every=2) as sync:
                for _ in range(2):
                    model(torch.ones(3)).sum().backward()
                    inner.step()
                    sync.step()
                    inner.state[model.bias]["exp_avg"][1] += number
        except Desync as error:
            return error.name
        return ""

    assert peers(2, main) == ["optimizer/0/optimizer/1/exp_avg"] * 2
