"""Newcomers hold the shared state while they wait: when all members die, the run goes on from it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Callable

import lockstep
import pytest
from support import IN_TIME, InOrder, in_threads, until

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import (  # noqa: E402
    DESLOC,
    DataParallel,
    DeMo,
    DiLoCo,
    FedAvg,
    JustOneByte,
    LocalSGD,
    RunSampler,
    SketchedSGD,
    SparseLoCo,
    StreamingDiLoCo,
    by_bytes,
)

STEPS, OUTER, NEWCOMER = 2, 3, 2

torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # the first optimizer imports for seconds: not in a test


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def parts(number: int, strategy: str) -> tuple[Any, Any]:
    torch.manual_seed(number)
    # With an overlap members wait in the average of the buffers first, in which the state is not whole.
    norm = torch.nn.Identity() if strategy == "diloco-overlap" else torch.nn.BatchNorm1d(100)
    model = torch.nn.Sequential(torch.nn.Linear(8, 100), norm, torch.nn.Linear(100, 8))
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


STRATEGIES: dict[str, Callable[..., Any]] = {
    "local-sgd": lambda run, m, i: LocalSGD(run, m, i, inner_steps=STEPS),
    "fed-avg": lambda run, m, i: FedAvg(run, m, i, inner_steps=STEPS),
    "diloco": lambda run, m, i: DiLoCo(run, m, i, inner_steps=STEPS, wire="int8"),
    "diloco-overlap": lambda run, m, i: DiLoCo(run, m, i, inner_steps=STEPS, overlap="eager"),
    "streaming": lambda run, m, i: StreamingDiLoCo(run, m, i, inner_steps=4, fragments=by_bytes(2000), tau=0),
    "desloc": lambda run, m, i: DESLOC(run, m, i, inner_steps=STEPS, moments={"momentum_buffer": 1}),
    "sketched": lambda run, m, i: SketchedSGD(run, m, i, inner_steps=STEPS, ratio=2, outer_lr=0.1),
    "sparse-loco": lambda run, m, i: SparseLoCo(run, m, i, inner_steps=STEPS),
    "demo": lambda run, m, i: DeMo(run, m, lr=0.01),
    "one-byte": lambda run, m, i: JustOneByte(run, m, lr=0.01),
    "data-parallel": lambda run, m, i: DataParallel(run, m, i),
}


def flat(*tensors: dict[str, Any]) -> list[bytes]:
    return [name.encode() + tensor.numpy().tobytes() for group in tensors for name, tensor in group.items()]


@pytest.mark.parametrize("waits", range(2))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_state_outlives_all_members(strategy: str, waits: int, coordinator: lockstep.Coordinator) -> None:
    """A member stalls, so another one waits in its reduction; once a newcomer has the state, both of them are gone."""
    runs = [lockstep.Communicator(founders=2 if number != NEWCOMER else 1, spin=0) for number in range(3)]
    connect = InOrder(coordinator.address, 3)
    comes = threading.Event()
    left: dict[str, Any] = {}
    found: dict[str, Any] = {}

    def train(run: lockstep.Communicator, sync: Any, model: Any, inner: Any, last: int) -> None:
        def loss() -> Any:
            return (model(x) - x).square().mean()

        while sync.outer_step < last:
            x = torch.randn(16, 8, generator=torch.Generator().manual_seed(sync.inner_step))
            if isinstance(sync, JustOneByte):
                sync.step(loss)
                continue
            model.zero_grad()
            loss().backward()
            if not isinstance(sync, DeMo):
                inner.step()
            sync.step(16.0 if isinstance(sync, FedAvg) else None)

    def work(number: int) -> None:
        run = runs[number]
        model, inner = parts(number, strategy)
        sync = STRATEGIES[strategy](run, model, inner)
        RunSampler(1000, sync, 3)
        if number == NEWCOMER:
            assert comes.wait(IN_TIME)
        joining = connect(run, number)
        if number == NEWCOMER:
            with sync:
                assert joining.done()
                found.update(sync.global_state_dict())
                train(run, sync, model, inner, sync.outer_step + 1)
            return
        with suppress(lockstep.Error), sync:
            train(run, sync, model, inner, OUTER)
            if number == waits:
                train(run, sync, model, inner, 1000)
                pytest.fail("a step without the other member")
            comes.set()
            try:
                until(lambda: run.holding == 1)
            finally:
                for one in (runs[waits], run):  # in this order: alone, the one that waits would make its step
                    one.close()
        if number == waits:
            buffers = {name.partition("/")[2]: buffer for name, buffer in sync._loop.buffers.kept.items()}
            left.update({**sync.global_state_dict(), "model": buffers})

    try:
        in_threads(work, 3)
    finally:
        for run in runs:
            run.close()
    assert found["outer_step"] == left["outer_step"] >= OUTER
    assert found["inner_step"] == left["inner_step"]
    groups = ("parameters", "momentum", "model")
    assert flat(*(found[group] for group in groups)) == flat(*(left[group] for group in groups))
    assert found["samplers"][0]["cursor"] >= left["samplers"][0]["cursor"] > 0, "samples are dealt twice"
