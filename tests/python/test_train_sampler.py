"""RunSampler: alone, in threads, from a checkpoint, and in simulated swarms under churn.

LOCKSTEP_SEEDS=1000 pytest tests/python/test_train_sampler.py            # more than the default of 5
"""

from __future__ import annotations

import faulthandler
import os
from typing import Any, Callable, NamedTuple

import lockstep
import numpy as np
import pytest
from conftest import LIMIT
from lockstep import sim
from support import Peers

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import (  # noqa: E402
    DataParallel,
    Desync,
    DiLoCo,
    JustOneByte,
    LocalSGD,
    Replica,
    RunSampler,
    StreamingDiLoCo,
    by_bytes,
)
from lockstep.train.run_loop import RunLoop  # noqa: E402
from lockstep.train.sample_allocation import SampleAllocation, shuffled  # noqa: E402

SEEDS = int(os.environ.get("LOCKSTEP_SEEDS", "5"))

pytestmark = pytest.mark.usefixtures("one_torch_thread")

torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # the first optimizer imports for seconds: not in a test


def parts() -> tuple[Any, Any]:
    model = torch.nn.Linear(2, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def local(run: Any, **options: Any) -> Any:
    return LocalSGD(run, *parts(), inner_steps=2, **options)


def draw(sync: Any, data: RunSampler, steps: int) -> list[list[int]]:
    drawn = []
    for _ in range(steps):
        drawn.append(data.next().tolist())
        sync.step()
    return drawn


def flat(lists: list[list[int]]) -> list[int]:
    return [index for one in lists for index in one]


def test_alone_it_is_a_shuffled_stream() -> None:
    sync = local(None)
    data = RunSampler(10, sync, batch=4)
    with sync:
        drawn = draw(sync, data, 7)
        assert data.epoch == 2
    stream = np.concatenate([shuffled(np.arange(10), 10, 0, epoch) for epoch in range(3)])
    assert flat(drawn) == stream[:28].tolist()
    assert data.seen == 24  # the last round has not ended


def test_without_shuffle_the_order_is_that_of_the_data() -> None:
    sync = local(None)
    data = RunSampler(5, sync, batch=2, shuffle=False)
    with sync:
        assert draw(sync, data, 4) == [[0, 1], [2, 3], [4, 0], [1, 2]]


def test_a_replica_gives_each_shard_samples_of_its_own(peers: Peers) -> None:
    def main(run: Any, shard: int) -> list[int]:
        model, inner = parts()
        sync = LocalSGD(Replica(run, shard, 2), model, inner, inner_steps=2)
        with pytest.raises(ValueError, match="data has 1 samples for 2 shards; allowed: at least as many"):
            RunSampler(1, LocalSGD(Replica(run, shard, 2), model, inner, inner_steps=2))
        data = RunSampler(11, sync, batch=1, shuffle=False)
        with sync:
            return flat(draw(sync, data, 6))

    drawn = peers(2, main, each=lambda shard: {"group": shard, "gang": 7, "gang_size": 2})
    assert drawn == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 1]]


class Example(NamedTuple):
    x: Any
    label: str


@pytest.mark.parametrize(
    ("example", "of"),
    [
        (lambda x: x, lambda batch: batch),
        (lambda x: (x, "label"), lambda batch: batch[0]),
        (lambda x: [[x], "label"], lambda batch: batch[0][0]),
        (lambda x: {"x": x, "label": "label"}, lambda batch: batch["x"]),
        (lambda x: Example(x, "label"), lambda batch: batch.x),
    ],
    ids=["tensor", "tuple", "list in a list", "mapping", "NamedTuple"],
)
def test_the_tensors_of_a_batch_go_to_the_device(example: Callable[[Any], Any], of: Callable[[Any], Any]) -> None:
    sync = local(None)
    data = RunSampler([example(torch.full((3,), float(number))) for number in range(4)], sync, batch=2)
    with sync:
        here = data.next()
        sync.step()
        there = data.next(device="meta")  # a device that every torch has
    assert type(there) is type(here)
    assert (of(here).device.type, of(there).device.type) == ("cpu", "meta")
    assert of(there).shape == of(here).shape == (2, 3)


def test_the_counters_decide() -> None:
    sync = local(None)
    data = RunSampler(100, sync, batch=4)
    with sync:
        first = data.next().tolist()
        assert data.next().tolist() == first
        rest = data.round()
        assert rest[0] == first
        assert draw(sync, data, 2) == rest
        sync.step()
        assert data.round() == [data.next().tolist()]


def test_a_dataset_gives_batches() -> None:
    class Lists(torch.utils.data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            return {"x": torch.tensor([float(index)]), "name": str(index)}

    x = torch.arange(20.0).view(10, 2)
    tensors = torch.utils.data.TensorDataset(x, x[:, 0] > 5)
    sync = local(None)
    pairs = RunSampler(tensors, sync, batch=4, seed=3)
    dicts = RunSampler(Lists(), sync, batch=2)
    words = RunSampler(["a", "b"], sync, batch=2, collate="".join)
    with sync:
        a, b = pairs.next("cpu")
        assert torch.equal(a, x[pairs.indices()])
        assert torch.equal(b, x[pairs.indices(), 0] > 5)
        batch = dicts.next("cpu")
        assert batch["name"] == [str(int(value)) for value in batch["x"]]
        assert sorted(words.next()) == ["a", "b"]
        loader = torch.utils.data.DataLoader(tensors, batch_sampler=pairs.round())
        assert torch.equal(next(iter(loader))[0], a)
        assert len(next(iter(pairs))) == 2


@pytest.mark.parametrize("strategy", [LocalSGD, DataParallel])
def test_a_checkpoint_keeps_the_position(strategy: Any) -> None:
    """It is that of the last outer step: what came after is in no parameters, and is drawn again."""

    def make() -> tuple[Any, RunSampler, Any]:
        model, inner = parts()
        sync = strategy(None, model, inner) if strategy is DataParallel else strategy(None, model, inner, inner_steps=3)
        return sync, RunSampler(50, sync, batch=4), inner

    def draws(sync: Any, data: RunSampler, inner: Any, steps: int) -> list[list[int]]:
        drawn = []
        for _ in range(steps):
            drawn.append(data.next().tolist())
            inner.step()
            sync.step()
        return drawn

    sync, data, inner = make()
    with sync:
        draws(sync, data, inner, 7)
        state = sync.global_state_dict()
        later = draws(sync, data, inner, 6)
    again, data, inner = make()
    again.load_global_state_dict(state)
    with again:
        assert again.inner_step == (7 if strategy is DataParallel else 6)
        skipped = 7 - again.inner_step
        drawn = draws(again, data, inner, 6)
        assert drawn[skipped:] == later[: 6 - skipped]
        assert data.seen == 4 * again.inner_step


def test_members_share_the_samples_and_newcomers_go_on(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> tuple[list[list[int]], int]:
        sync = local(run)
        data = RunSampler(1000, sync, batch=5)
        with sync:
            return draw(sync, data, 6), data.seen

    all_drawn = peers(3, main)
    indices = flat([flat(drawn) for drawn, _ in all_drawn])
    assert sorted(indices) == sorted(shuffled(np.arange(90), 1000, 0, 0).tolist())
    assert {seen for _, seen in all_drawn} == {90}


def test_a_strategy_without_gradients_has_samples_too(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> list[int]:
        model, _ = parts()
        sync = JustOneByte(run, model, lr=1e-3)
        data = RunSampler(1000, sync, batch=5)
        drawn = []
        with sync:
            for _ in range(4):
                drawn += data.next().tolist()
                sync.step(lambda: model(torch.ones(2)).sum())
            assert data.seen == 40
        return drawn

    assert sorted(flat(peers(2, main))) == sorted(shuffled(np.arange(40), 1000, 0, 0).tolist())


@pytest.mark.parametrize(("option", "values"), [("batch", (4, 5)), ("seed", (1, 2)), ("shuffle", (True, False))])
def test_other_settings_are_refused(option: str, values: Any, peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> str:
        sync = local(run)
        RunSampler(100, sync, **{option: values[number]})
        try:
            with sync:
                return ""
        except ValueError as error:
            return str(error)

    refused = [text for text in peers(2, main) if text]
    assert len(refused) == 1
    assert refused[0].startswith(f"{option} of sampler 0 is ")


def test_misuse_is_named() -> None:
    sync = local(None)
    data = RunSampler(100, sync)
    with pytest.raises(RuntimeError, match="inside of the `with` block"):
        data.next()
    with sync, pytest.raises(RuntimeError, match="before the `with` block"):
        RunSampler(100, sync)
    for wrong, error, text in [
        (0, ValueError, "data is 0; allowed: 1 to"),
        ([], ValueError, "data has no samples"),
        (iter([1]), TypeError, "data is of type list_iterator"),
    ]:
        with pytest.raises(error, match=text):
            RunSampler(wrong, local(None))
    with pytest.raises(TypeError, match="strategy is of type int"):
        RunSampler(100, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch is 0"):
        RunSampler(100, local(None), batch=0)
    state = sync.global_state_dict()
    other = local(None)
    RunSampler(100, other)
    RunSampler(100, other)
    other.load_global_state_dict(state)
    with pytest.raises(ValueError, match="the state has 1 samplers, and this strategy 2"), other:
        pass
    state["samplers"][0].update(cursor=4, free=[(2, 9)])
    other = local(None)
    RunSampler(100, other)
    other.load_global_state_dict(state)
    with pytest.raises(ValueError, match="allowed: sorted pairs of positions up to 4"), other:
        pass


def test_shards_have_samples_of_their_own() -> None:
    """Three shards of a replica, each with a stream of its own."""
    seen = []
    for shard in range(3):
        sync = local(None)
        data = RunSampler(10, sync, batch=2)
        data._stream.divide(shard, 3)
        with sync:
            seen.append(flat(draw(sync, data, 8)))
    for epoch in range(2):
        drawn = [*seen[0][4 * epoch : 4 * epoch + 4], *(i for s in seen[1:] for i in s[3 * epoch : 3 * epoch + 3])]
        assert sorted(drawn) == list(range(10))


def test_help_lists_what_a_program_uses() -> None:
    public = {name for name in dir(RunSampler) if not name.startswith("_")}
    assert public == {"epoch", "indices", "next", "round", "seen"}


# ---- swarms ----

STEPS, ROUNDS, SAMPLES, BATCH = 2, 12, 61, 3

SWARM: dict[str, Any] = {
    "diloco": lambda run, m, i: DiLoCo(run, m, i, inner_steps=STEPS, check_every=1),
    "minimum": lambda run, m, i: DiLoCo(run, m, i, inner_steps=STEPS, check_every=1, minimum_world=4),
    "outer": lambda run, m, i: DiLoCo(run, m, i, inner_steps=STEPS, check_every=1, overlap="outer"),
    "outer-minimum": lambda run, m, i: DiLoCo(
        run, m, i, inner_steps=STEPS, check_every=1, overlap="outer", minimum_world=4
    ),
    "streaming": lambda run, m, i: StreamingDiLoCo(
        run, m, i, inner_steps=2 * STEPS, fragments=by_bytes(16), tau=1, check_every=1
    ),
    "data-parallel": lambda run, m, i: DataParallel(run, m, i, check_every=1),
}


class Told:
    """What the programs of a swarm have seen."""

    def __init__(self) -> None:
        self.draws: dict[tuple[bytes, int], list[int]] = {}  # samples by peer and inner step
        self.rounds: dict[int, tuple[bytes, ...]] = {}  # contributors by outer step
        self.positions: dict[int, Any] = {}  # after an outer step


def train(run: lockstep.Communicator, told: Told, strategy: str) -> lockstep.State:
    model, inner = parts()
    with torch.no_grad():
        model.weight.zero_()
        model.bias.zero_()
    sync = SWARM[strategy](run, model, inner)
    data = RunSampler(SAMPLES, sync, BATCH)
    with sync:
        while sync.outer_step < ROUNDS:
            run.spend(0.3)
            told.draws[run.id, sync.inner_step] = data.next().tolist()
            inner.zero_grad()
            model(torch.ones(2)).sum().backward()
            inner.step()
            info = sync.step()
            if info.outer:
                assert told.rounds.setdefault(info.outer_step, info.contributors) == info.contributors
                position = sync.global_state_dict()["samplers"][0]
                assert told.positions.setdefault(info.outer_step, position) == position
    return lockstep.State({"step": sync.outer_step}, revision=sync.outer_step)


def check(told: Told, steps: int) -> None:
    """After every outer step the samples of all contributions so far are those of the stream, once in an epoch."""
    assert sorted(told.rounds) == list(range(1, ROUNDS + 1))
    drawn: list[int] = []
    for outer, members in sorted(told.rounds.items()):
        for member in members:
            for step in range((outer - 1) * steps, outer * steps):
                drawn += told.draws.get((member, step), [])
        position = told.positions[outer]
        free = {each for begin, end in position["free"] for each in range(begin, end)}
        used = np.array([each for each in range(position["cursor"]) if each not in free])
        epochs, places = np.divmod(used, SAMPLES)
        stream = [shuffled(places[epochs == epoch], SAMPLES, 0, epoch) for epoch in sorted(set(epochs.tolist()))]
        assert sorted(drawn) == sorted(np.concatenate(stream).tolist()), f"outer step {outer}"


@pytest.mark.parametrize("strategy", SWARM)
def check_seeds(strategy: str, count: int) -> set[int]:
    sizes: set[int] = set()
    for seed in range(count):
        faulthandler.dump_traceback_later(LIMIT, exit=True)  # again, as there may be many seeds
        told = Told()
        sim.Swarm(peers=4, churn=True, seed=seed).run(train, told, strategy, shrink=False)
        check(told, 1 if strategy == "data-parallel" else STEPS)
        sizes |= {len(members) for members in told.rounds.values()}
    return sizes


@pytest.mark.parametrize("strategy", SWARM)
def test_each_sample_is_in_one_contribution_under_churn(strategy: str) -> None:
    assert len(check_seeds(strategy, SEEDS)) > 1, "nobody came or went"


# ---- bugs that it has to find ----


def loses_the_slices_of_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SampleAllocation, "_give_back", lambda self, ranges: None)


def gives_newcomers_what_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer takes over the cursor, and none of the open rounds."""
    load = SampleAllocation.load

    def loads(self: SampleAllocation, array: Any) -> None:
        load(self, array)
        self._rounds = [{} for _ in self._rounds]

    monkeypatch.setattr(SampleAllocation, "load", loads)


def follows_its_own_view(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slices follow the world that this peer sees, which may have changed for it only."""
    allocate = RunLoop.allocate_samples

    def allocates(self: RunLoop, inner_step: int) -> None:
        assert self.run is not None
        self.members = tuple(self.run.members())
        allocate(self, inner_step)

    monkeypatch.setattr(RunLoop, "allocate_samples", allocates)


@pytest.mark.parametrize(
    "plant", [loses_the_slices_of_the_dead, gives_newcomers_what_others_have, follows_its_own_view]
)
def test_planted_bugs_are_found(plant: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, Desync, sim.SwarmFailure), match=r"outer step|sampler 0|cursor"):
        check_seeds("outer", 20)
