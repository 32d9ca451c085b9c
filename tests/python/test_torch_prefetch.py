"""A newcomer fetches the shared state while the members train, and enters right before a reduction."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from support import IN_TIME, in_threads, until

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import strategy_reference as reference  # noqa: E402
from lockstep.torch import (  # noqa: E402
    DESLOC,
    DataParallel,
    DiLoCo,
    FedAvg,
    LocalSGD,
    Nesterov,
    RunSampler,
    SketchedSGD,
)
from lockstep.train import pipeline as pieces  # noqa: E402

STEPS, ROUNDS, NEWCOMER = 2, 6, 2

torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # the first optimizer imports for seconds: not in a test


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def parts(number: int) -> tuple[Any, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(8, 100), torch.nn.BatchNorm1d(100), torch.nn.Linear(100, 8))
    generator = torch.Generator().manual_seed(number)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def inner_step(model: Any, inner: Any, number: int, step: int) -> None:
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(1000 * number + step))
    inner.zero_grad()
    (model(x) - x).square().mean().backward()
    inner.step()


class Peer:
    """What one peer has seen."""

    def __init__(self) -> None:
        self.syncs: list[Any] = []
        self.outer: dict[int, tuple[Any, bytes, bytes]] = {}  # contributors, parameters, buffers
        self.draws: dict[int, list[int]] = {}
        self.began = -1
        self.first = np.zeros(0, np.float32)
        self.id = b""


def run_peers(address: str, make: Callable[..., Any], dies: bool = False) -> list[Peer]:
    """Two members; a newcomer waits from round 1 on, and has the state before round 2 ends."""
    peers = [Peer() for _ in range(3)]
    failures: list[BaseException] = []
    trains = threading.Event()
    gone = threading.Event()

    class Run(lockstep.Communicator):
        number = 0

        def sync(self, *arguments: Any, **options: Any) -> Any:
            """Keeps the result."""
            result = super().sync(*arguments, **options)
            peers[self.number].syncs.append(result)
            return result

    def work(number: int) -> None:
        peer = peers[number]
        with Run(founders=2, listen_host="127.0.0.1", spin=0) as run:
            run.number = number
            model, inner = parts(number)
            sync = make(run, model, inner)
            data = RunSampler(1000, sync, 3)
            if number == NEWCOMER:
                assert trains.wait(IN_TIME)
            joining = run.connect_async(address, timeout=IN_TIME)
            if dies and number == NEWCOMER:
                run.prefetch_async(lockstep.State({"x": np.zeros(1)}), tag=1)
                until(gone.is_set)
                run.close()
                return
            with sync:
                assert joining.done()
                peer.began, peer.id = sync.inner_step, run.id
                peer.first = reference.flat(model)
                while sync.inner_step < STEPS * ROUNDS:
                    if sync.inner_step == STEPS and number != NEWCOMER:
                        trains.set()
                        until(lambda: run.fetching == 1)
                    if sync.inner_step == 2 * STEPS and number != NEWCOMER and sync._training.publishes:
                        gone.set()
                        until(lambda: run.fetching == 0)
                    peer.draws[sync.inner_step] = data.next().tolist()
                    inner_step(model, inner, number, sync.inner_step)
                    info = sync.step(16.0 if isinstance(sync, FedAvg) else None)
                    if info.outer:
                        buffers = b"".join(buffer.numpy().tobytes() for buffer in model.buffers())
                        peer.outer[info.outer_step] = info.contributors, reference.flat(model).tobytes(), buffers

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)
            raise

    in_threads(guarded, 3)
    assert not failures
    return peers


STRATEGIES: dict[str, Callable[..., Any]] = {
    "local-sgd": lambda run, m, i: LocalSGD(run, m, i, inner_steps=STEPS, check_every=1),
    "fed-avg": lambda run, m, i: FedAvg(run, m, i, inner_steps=STEPS, check_every=1),
    "diloco": lambda run, m, i: DiLoCo(run, m, i, inner_steps=STEPS, outer=Nesterov(0.5, 0.8), check_every=1),
    "diloco-int8": lambda run, m, i: DiLoCo(
        run, m, i, inner_steps=STEPS, outer=Nesterov(0.5, 0.8), check_every=1, wire="int8"
    ),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_enters_before_a_reduction_and_has_the_state(strategy: str, coordinator: lockstep.Coordinator) -> None:
    peers = run_peers(coordinator.address, STRATEGIES[strategy])
    newcomer = peers[NEWCOMER]
    assert newcomer.began == 3 * STEPS
    assert newcomer.syncs[0].bytes_received < 1 << 18  # positions of samples and buffers; no parameter
    for outer in range(4, ROUNDS + 1):
        assert len({peer.outer[outer] for peer in peers}) == 1, "parameters or buffers differ"
    coded = reference.int8 if strategy.endswith("int8") else reference.exactly
    lr, momentum = (0.5, 0.8) if strategy.startswith("diloco") else (1.0, 0.0)
    theta = peers[0].first
    outer_step = reference.Outer(lr, momentum, theta.size)
    numbers = {peer.id: number for number, peer in enumerate(peers)}
    used = []
    models = [parts(number) for number in range(3)]
    for outer in range(1, ROUNDS + 1):
        members = [numbers[one] for one in peers[0].outer[outer][0]]
        assert len(members) == (2 if outer < 3 else 3)
        inputs, weights = [], []
        for number in members:
            model, inner = models[number]
            reference.unflatten(model, theta)
            observes = number == NEWCOMER and outer == 3
            for step in range((outer - 1) * STEPS, outer * STEPS):
                if not observes:
                    inner_step(model, inner, number, step)
                    used += peers[number].draws[step]
            inputs.append(theta - reference.flat(model))
            weights.append(0.0 if observes else 16.0 if strategy == "fed-avg" else 1.0)
        theta = outer_step.step(theta, reference.average(inputs, weights, coded, coded))
        for number in members:
            if outer in peers[number].outer:
                assert peers[number].outer[outer][1] == theta.tobytes(), f"outer step {outer}"
    assert len(used) == len(set(used)) == 3 * STEPS * (2 * ROUNDS + ROUNDS - 3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_enters_before_a_reduction_in_pieces_too(
    strategy: str, coordinator: lockstep.Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PIECE": 256, "NEAR": 3, "FAR": 5, "SMALL": 0}.items():
        monkeypatch.setattr(pieces, name, value)
    peers = run_peers(coordinator.address, STRATEGIES[strategy])
    assert peers[NEWCOMER].began == 3 * STEPS
    for outer in range(1, ROUNDS + 1):
        seen = {peer.outer[outer] for peer in peers if outer in peer.outer}
        assert len(seen) == 1, f"outer step {outer}: parameters or buffers differ"
        ((contributors, *_),) = seen
        assert len(contributors) == (2 if outer < 3 else 3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_it_may_die_while_it_fetches(strategy: str, coordinator: lockstep.Coordinator) -> None:
    first, second, _ = run_peers(coordinator.address, STRATEGIES[strategy], dies=True)
    assert first.outer == second.outer
    assert all(len(contributors) == 2 for contributors, *_ in first.outer.values())


@pytest.mark.parametrize(
    "make",
    [
        lambda run, m, i: DiLoCo(run, m, i, inner_steps=STEPS, overlap="outer"),
        lambda run, m, i: DESLOC(run, m, i, inner_steps=STEPS, moments={"momentum_buffer": 1}),
        lambda run, m, i: DataParallel(run, m, i),
        lambda run, m, i: SketchedSGD(run, m, i, inner_steps=STEPS, ratio=2, outer_lr=0.1),
    ],
)
def test_other_strategies_wait_for_the_admission(make: Callable[..., Any], coordinator: lockstep.Coordinator) -> None:
    ended: dict[int, bytes] = {}
    trains = threading.Event()

    def work(number: int) -> None:
        with lockstep.Communicator(founders=2, listen_host="127.0.0.1", spin=0) as run:
            model, _ = parts(number)
            inner = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            if number == NEWCOMER:
                assert trains.wait(IN_TIME)
            joining = run.connect_async(coordinator.address, timeout=IN_TIME)
            with make(run, model, inner) as sync:
                assert joining.done()
                while sync.inner_step < 12:
                    if sync.inner_step == 4 and number != NEWCOMER:
                        trains.set()
                        until(lambda: run.pending == 1)
                    inner_step(model, inner, number, sync.inner_step)
                    sync.step()
            ended[number] = reference.flat(model).tobytes()

    in_threads(work, 3)
    assert len(ended) == 3
    assert len(set(ended.values())) == 1
