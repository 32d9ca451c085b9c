"""Each training strategy: in a Replica, after an exchange that fails, and when peers wait and save at random steps."""

from __future__ import annotations

import io
import random
import threading
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from lockstep import sim
from support import IN_TIME, InOrder, Peers, in_threads, until

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import (  # noqa: E402
    DESLOC,
    DataParallel,
    DeMo,
    DiLoCo,
    DPLoRA,
    FedAvg,
    JustOneByte,
    LocalSGD,
    Nesterov,
    Replica,
    RunSampler,
    SketchedSGD,
    SparseLoCo,
    StreamingDiLoCo,
    by_block,
)
from lockstep.train import LocalTraining  # noqa: E402
from own_exchanges import ClippedMean, HeavyBall  # noqa: E402

torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # the first optimizer imports for seconds: not in a test

pytestmark = pytest.mark.usefixtures("one_torch_thread")

STRATEGIES: dict[str, Callable[..., Any]] = {
    "data-parallel": lambda run, m, i: DataParallel(run, m, i),
    "demo": lambda run, m, i: DeMo(run, m, lr=0.01),
    "desloc": lambda run, m, i: DESLOC(run, m, i, inner_steps=2, moments={"momentum_buffer": 2}),
    "diloco": lambda run, m, i: DiLoCo(run, m, i, inner_steps=2, wire="int8"),
    "dp-lora": lambda run, m, i: DPLoRA(run, m, i, inner_steps=2, clip=0.5, noise_multiplier=0.25),
    "eager": lambda run, m, i: DiLoCo(run, m, i, inner_steps=2, overlap="eager", outer=Nesterov(0.4, 0.5)),
    "fed-avg": lambda run, m, i: FedAvg(run, m, i, inner_steps=2),
    "local-sgd": lambda run, m, i: LocalSGD(run, m, i, inner_steps=2),
    "own-averaging": lambda run, m, i: LocalTraining(run, m, i, HeavyBall(0.5), inner_steps=2, wire="bf16"),
    "own-gathering": lambda run, m, i: LocalTraining(run, m, i, ClippedMean(0.25), inner_steps=2),
    "one-byte": lambda run, m, i: JustOneByte(run, m, lr=0.01, samples=2),
    "outer": lambda run, m, i: DiLoCo(run, m, i, inner_steps=2, overlap="outer"),
    "sketched": lambda run, m, i: SketchedSGD(run, m, i, inner_steps=2, ratio=2, outer_lr=0.25),
    "sparse-loco": lambda run, m, i: SparseLoCo(run, m, i, inner_steps=2, density=0.1),
    "streaming": lambda run, m, i: StreamingDiLoCo(run, m, i, inner_steps=4, fragments=by_block(1), tau=1),
}
each_strategy = pytest.mark.parametrize("name", STRATEGIES)


def parts(seed: int) -> tuple[Any, Any]:
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 6))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def learn(sync: Any, model: Any, inner: Any, seed: int) -> Any:
    """One inner step on examples of a peer's own."""
    x = torch.randn(8, 6, generator=torch.Generator().manual_seed(1000 * seed + sync.inner_step))

    def loss() -> Any:
        return (model(x) - x.flip(1)).square().mean()

    if isinstance(sync, JustOneByte):
        return sync.step(loss)
    model.zero_grad()
    loss().backward()
    if not isinstance(sync, DeMo):
        inner.step()
    return sync.step(8.0 if isinstance(sync, FedAvg) else None)


def bits(model: Any) -> bytes:
    return b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())


def state_bits(state: dict[str, Any]) -> bytes:
    groups = (state["parameters"], state["momentum"])
    return b"".join(name.encode() + tensor.numpy().tobytes() for group in groups for name, tensor in group.items())


# ---- in a Replica ----

SHARDS, REPLICAS = 2, 2


def gang_of(number: int) -> dict[str, int]:
    return {"group": number % SHARDS, "gang": 1 + number // SHARDS, "gang_size": SHARDS}


@each_strategy
def test_shards_of_replicas_are_equal(name: str, peers: Peers) -> None:
    """Each shard has parameters and samples of its own, equal in all replicas."""

    def main(run: Any, number: int) -> tuple[int, bytes, list[int]]:
        shard = number % SHARDS
        model, inner = parts(number)
        if name == "dp-lora":  # a shard does not see the norm of all progress
            with pytest.raises(TypeError, match="run is a Replica"):
                STRATEGIES[name](Replica(run, shard, SHARDS), model, inner)
            return shard, b"", []
        sync = STRATEGIES[name](Replica(run, shard, SHARDS), model, inner)
        data = RunSampler(1000, sync, 3)
        drawn: list[int] = []
        with sync:
            begin = bits(model)
            while sync.inner_step < 8:
                drawn += data.next().tolist()
                info = learn(sync, model, inner, number)
                assert info.world == REPLICAS
                assert not info.outer or run.id in info.contributors
            assert sync.outer_step >= 3
        assert bits(model) != begin
        return shard, bits(model), drawn

    told = peers(SHARDS * REPLICAS, main, each=gang_of)
    for shard in range(SHARDS):
        assert len({model for number, model, _ in told if number == shard}) == 1, f"shard {shard} differs"
    if name != "dp-lora":
        assert len({model for _, model, _ in told}) == SHARDS
        for shard in range(SHARDS):
            drawn = [index for number, _, indices in told if number == shard for index in indices]
            assert len(set(drawn)) == len(drawn), "a sample is drawn twice"


@pytest.mark.parametrize("peers", [0, SHARDS], indirect=True, ids=["second replica", "first replica"])
@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "dp-lora"])
def test_a_lost_shard_takes_its_replica_along_and_the_other_one_goes_on(name: str, peers: Peers) -> None:
    victim = SHARDS + list(STRATEGIES).index(name) % SHARDS

    def main(run: Any, number: int) -> tuple[int, bytes]:
        model, inner = parts(number)
        sync = STRATEGIES[name](Replica(run, number % SHARDS, SHARDS), model, inner)

        def train() -> None:
            with sync:
                while sync.inner_step < 8:
                    if number == victim and sync.inner_step == 4:
                        run.close()
                    learn(sync, model, inner, number)

        if number < SHARDS:
            train()
            assert sync.world == 1
        else:
            with pytest.raises((lockstep.Evicted, lockstep.NotConnected, lockstep.OutcomeUnknown)):
                train()
        return sync.outer_step, bits(model)

    told = peers(SHARDS * REPLICAS, main, each=gang_of)
    assert told[0][0] == told[1][0] > told[victim][0]
    assert np.isfinite(np.frombuffer(told[0][1], np.float32)).all()


# ---- an exchange that fails ----


class Run(lockstep.Communicator):
    """A communicator that aborts an exchange; the other peer takes part in it when that has been decided."""

    aborts = False
    armed = False
    aborted: threading.Event

    def all_reduce_async(self, *arguments: Any, **options: Any) -> Any:
        return self.launch(super().all_reduce_async, *arguments, **options)

    def all_gather_async(self, *arguments: Any, **options: Any) -> Any:
        return self.launch(super().all_gather_async, *arguments, **options)

    def launch(self, begin: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        fails, self.armed = self.armed, False
        if fails and not self.aborts:
            assert self.aborted.wait(IN_TIME)
        work = begin(*arguments, **options)
        if fails and self.aborts:
            work.abort("by the test")
            until(work.done)
            self.aborted.set()
        return work


@pytest.mark.parametrize("aborts", range(2))
@each_strategy
def test_an_exchange_that_fails_changes_nothing_and_all_go_on(
    name: str, aborts: int, coordinator: lockstep.Coordinator
) -> None:
    connect = InOrder(coordinator.address, 2)
    told: dict[int, tuple[int, int, bytes]] = {}
    errors: list[BaseException] = []
    aborted = threading.Event()

    def guarded(number: int) -> None:
        try:
            peer(number)
        except BaseException as error:
            errors.append(error)

    def peer(number: int) -> None:
        with Run(founders=2, listen_host="127.0.0.1", spin=0) as run:
            run.aborts, run.aborted = number == aborts, aborted
            connect(run, number).wait()
            model, inner = parts(number)
            sync = STRATEGIES[name](run, model, inner)
            failures: list[lockstep.Error] = []
            before, armed = b"", False
            while sync.inner_step < 12:
                try:
                    with sync:
                        assert not before or state_bits(sync.global_state_dict()) == before
                        while sync.inner_step < 12:
                            if sync.outer_step == 2 and not failures and not armed:
                                armed = run.armed = True
                            learn(sync, model, inner, number)
                except lockstep.Error as error:
                    failures.append(error)
                    before = state_bits(sync.global_state_dict())
            (failure,) = failures
            assert isinstance(failure, lockstep.Aborted), failure
            assert "by the test" in str(failure)
            told[number] = sync.inner_step, sync.outer_step, bits(model)

    in_threads(guarded, 2)
    assert not errors, errors
    assert told[0] == told[1]


# ---- waits and checkpoints of one peer ----

TOTAL = 16


def saves(name: str, sync: Any) -> None:
    """A checkpoint goes through a file, into a strategy of one process, and gives the same state again."""
    sync.wait()
    state = sync.global_state_dict()
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    again = STRATEGIES[name](None, *parts(99))
    again.load_global_state_dict(torch.load(file))
    assert state_bits(again.global_state_dict()) == state_bits(state)
    assert (again.inner_step, again.outer_step) == (state["inner_step"], state["outer_step"])


class WithBuffer(torch.nn.Module):  # type: ignore[misc,name-defined]
    """Has a buffer that counts the calls, or stays, and a parameter that nobody trains."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.counts = counts
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 6))
        self.scale = torch.nn.Parameter(torch.ones(6), requires_grad=False)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls += self.counts
        return self.layers(x) * self.scale


TRAINED, OTHERS = {"layers.0.weight", "layers.0.bias"}, {"scale", "calls"}


def alone(name: str) -> tuple[Any, Any, Any]:
    model = WithBuffer(counts=name != "dp-lora")  # which refuses a buffer that changes
    inner = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.05, momentum=0.9)
    return STRATEGIES[name](None, model, inner), model, inner


@each_strategy
def test_a_saved_state_has_every_tensor_once(name: str) -> None:
    sync, model, inner = alone(name)
    with sync:
        infos = [learn(sync, model, inner, 1) for _ in range(4)]
        sync.wait()
        state = sync.global_state_dict()
    assert all(info.contributors == () for info in infos), "nobody else takes part"
    assert {name.removeprefix("model/") for name in state["parameters"]} == TRAINED
    assert {name.removeprefix("model/") for name in state["model"]} == OTHERS
    calls = next(tensor for name, tensor in state["model"].items() if name.endswith("calls"))
    saved = calls.item()
    assert saved == model.calls.item() >= 4 * model.counts
    model.calls += 1
    assert calls.item() == saved, "a copy"
    again, other, _ = alone(name)
    again.load_global_state_dict(state)
    with again:
        assert other.calls.item() == saved
        assert torch.equal(other.layers[0].weight, model.layers[0].weight)


def swarm_loop(run: lockstep.Communicator, name: str, acts: bool) -> lockstep.State:
    """Trains; where `acts` is set, each peer waits, looks at the state or saves it at steps of its own."""
    model, inner = parts(0)
    with STRATEGIES[name](run, model, inner) as sync:
        while sync.inner_step < TOTAL:
            act = random.Random(run.id + bytes([sync.inner_step])).randrange(8) if acts else 8
            if act == 0:
                sync.wait()
            elif act == 1:
                sync.global_state_dict()
            elif act == 2:
                saves(name, sync)
            run.spend(0.5)
            learn(sync, model, inner, run.id[0])
        sync.wait()
        tensors = {one: tensor.numpy() for one, tensor in sync.global_state_dict()["parameters"].items()}
        return lockstep.State({**tensors, "inner_step": sync.inner_step}, revision=sync.outer_step)


@each_strategy
def test_peers_that_wait_and_save_at_random_steps_stay_equal(name: str) -> None:
    for seed in range(2):
        report = sim.Swarm(peers=4, churn=True, seed=seed).run(swarm_loop, name, True)
        assert len({(value.revision, value["0.weight"].tobytes()) for value in report.values}) == 1
        assert np.isfinite(report.values[0]["0.weight"]).all()


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "dp-lora"])  # its noise is drawn anew
def test_waits_and_checkpoints_change_no_result(name: str) -> None:
    with_them, without = (
        sim.Swarm(peers=3, seed=1).run(swarm_loop, name, acts).values[0]["0.weight"].tobytes() for acts in (True, False)
    )
    assert with_them == without
