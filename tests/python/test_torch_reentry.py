"""Blocks of strategies that end with an error, and newcomers that do not fit: the others go on, and all stay equal."""

from __future__ import annotations

import threading
from typing import Any, Callable

import lockstep
import pytest
from support import Peers, at_each_rank, until

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import (  # noqa: E402
    DataParallel,
    DiLoCo,
    LocalSGD,
    RunSampler,
    SparseLoCo,
    StreamingDiLoCo,
    by_bytes,
)
from test_torch_strategy_parts import adam, bits, model_of, trains  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

Make = Callable[[Any, Any, Any], Any]


def overlapped(**options: Any) -> Make:
    return lambda *three: DiLoCo(*three, inner_steps=2, overlap="outer", **options)


def streaming(**options: Any) -> Make:
    return lambda *three: StreamingDiLoCo(*three, inner_steps=4, fragments=by_bytes(300), tau=1, **options)


@pytest.mark.parametrize(
    ("make", "leave_at"),
    [
        (overlapped(), [4, 3]),
        (overlapped(check_every=1), [4, 3]),
        (overlapped(), [5, 3]),
        (overlapped(check_every=1), [6, 3]),
        (streaming(), [4, 3]),
        (streaming(check_every=1), [5, 3]),
        (lambda *three: LocalSGD(*three, inner_steps=2), [5, 3]),
        (lambda *three: SparseLoCo(*three, inner_steps=2, density=0.25), [5, 3]),
        (lambda *three: DataParallel(*three), [5, 3]),
    ],
)
def test_peers_that_leave_a_block_at_different_steps_enter_again(make: Make, leave_at: list[int], peers: Peers) -> None:
    """The reductions in flight from before are no part of what comes after."""

    def main(run: lockstep.Communicator, number: int) -> tuple[bytes, int, int]:
        model = model_of(number)
        inner = adam(model)
        sync = make(run, model, inner)
        has_failed = False
        while True:
            try:
                with sync:
                    while sync.inner_step < 24:
                        if not has_failed and sync.inner_step == leave_at[number]:
                            raise KeyError("a bug of the program")
                        trains(sync, model, inner, sync.inner_step + 1, seed=number)
                return bits(model), sync.inner_step, sync.outer_step
            except (KeyError, lockstep.Error):
                has_failed = True
                inner.zero_grad()

    first, second = peers(2, main)
    assert first == second
    assert first[1] == 24


def with_sampler(run: Any, model: Any, inner: Any) -> Any:
    sync = DiLoCo(run, model, inner, inner_steps=2)
    RunSampler(100, sync)
    return sync


@at_each_rank(2)
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda *three: LocalSGD(*three, inner_steps=2), "strategy is LocalSGD on this peer, and DiLoCo in the run"),
        (lambda *three: DiLoCo(*three, inner_steps=2, wire="int8"), "wire.up .a WireFormat. is "),
        (with_sampler, "samplers is 1 on this peer, and 0 in the run"),
        (lambda run, *_: other_model(run), "the tensors of the shared state is 8 of 90 elements"),
    ],
)
def test_a_newcomer_that_does_not_fit_is_refused_alone(
    make: Make, text: str, peers: Peers, coordinator: lockstep.Coordinator
) -> None:
    errors: list[str] = []

    def newcomer() -> None:
        model = model_of(7)
        with lockstep.connect(coordinator.address, listen_host="127.0.0.1", spin=0, timeout=30.0) as run:
            with pytest.raises(ValueError, match=text) as raised, make(run, model, adam(model)):
                pass
            errors.append(str(raised.value))

    def main(run: lockstep.Communicator, number: int) -> tuple[bytes, int]:
        model = model_of(number)
        inner = adam(model)
        with DiLoCo(run, model, inner, inner_steps=2) as sync:
            trains(sync, model, inner, 4, seed=number)
            comes = threading.Thread(target=newcomer, daemon=True)
            if number == 0:
                comes.start()
            until(lambda: run.pending == 1)
            trains(sync, model, inner, 12, seed=number)
            if number == 0:
                comes.join()
            return bits(model), sync.world

    first, second = peers(2, main)
    assert first == second
    assert first[1] == 2
    assert len(errors) == 1


@pytest.mark.parametrize("hears", [0, 1])
@pytest.mark.parametrize("wait", [False, True])
@pytest.mark.parametrize("newest_wins", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda *three: LocalSGD(*three, inner_steps=2),
        lambda *three: DiLoCo(*three, inner_steps=2),
        lambda *three: DataParallel(*three),
    ],
    ids=["LocalSGD", "DiLoCo", "DataParallel"],
)
def test_a_newcomer_that_has_come_further(
    make: Make, newest_wins: bool, wait: bool, hears: int, peers: Peers, coordinator: lockstep.Coordinator
) -> None:
    """The run was founded anew while it was away: its steps are lost with an error, or not at all."""
    ends: list[tuple[bytes, int]] = []
    model = model_of(7)
    inner = adam(model)
    away = make(None, model, inner)
    with away:
        trains(away, model, inner, 20, seed=7)
    progress, learned, steps = away.global_state_dict(), bits(model), away.outer_step

    def newcomer() -> None:
        with lockstep.connect(coordinator.address, wait=wait, listen_host="127.0.0.1", spin=0, timeout=30.0) as run:
            mine = model_of(7)
            sync = make(run, mine, adam(mine))
            sync.newest_wins = newest_wins
            sync.load_global_state_dict(progress)
            if newest_wins:
                with sync:
                    ends.append((bits(mine), sync.outer_step))
                return
            with pytest.raises(lockstep.StateConflict, match=f"revision {steps}"), sync:
                pass
            assert sync.global_state_dict()["parameters"].keys() == progress["parameters"].keys()
            ends.append((learned, steps))

    def main(run: lockstep.Communicator, number: int) -> tuple[bytes, int]:
        mine = model_of(number)
        own = adam(mine)
        sync = make(run, mine, own)
        sync.newest_wins = newest_wins
        with sync:
            trains(sync, mine, own, 4, seed=number)
            comes = threading.Thread(target=newcomer, daemon=True)
            if number == hears:
                comes.start()
            until(lambda: run.pending == 1)
            trains(sync, mine, own, 30, seed=number)
            if number == hears:
                comes.join()
            return bits(mine), sync.outer_step

    first, second = peers(2, main)
    assert first == second
    assert ends == [(learned, steps)]


def other_model(run: Any) -> DiLoCo:
    model = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.Linear(3, 6))
    return DiLoCo(run, model, adam(model), inner_steps=2)
