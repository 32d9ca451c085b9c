"""Training strategies of lockstep.torch in one process: alone, in threads, and in a simulated swarm."""

from __future__ import annotations

import math
import re
import threading
from typing import Any

import lockstep
import numpy as np
import pytest
from lockstep import sim
from support import IN_TIME, InOrder, Peers, at_each_rank, until

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import (  # noqa: E402
    SGD,
    DataParallel,
    DiLoCo,
    FedAvg,
    JustOneByte,
    LocalSGD,
    Nesterov,
    SketchedSGD,
    SparseLoCo,
    StepInfo,
    StreamingDiLoCo,
    Wire,
    by_block,
    by_bytes,
)

RESUMABLE = [DataParallel, LocalSGD, DiLoCo]  # from a shared state alone
ALL = [*RESUMABLE, SparseLoCo]


def no_fragments(model: Any) -> Any:
    return None


torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # the first optimizer imports for seconds: not in a test


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def model_of(seed: int, dtype: Any = torch.float32) -> Any:
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.Tanh(), torch.nn.Linear(10, 6))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model.to(dtype)


def trains(sync: Any, model: Any, inner: Any, until_step: int, seed: int = 0, weight: Any = None) -> list[StepInfo]:
    """Inner steps on examples of a peer's own, up to an inner step of the run."""
    infos = []
    dtype = next(model.parameters()).dtype
    while sync.inner_step < until_step:
        generator = torch.Generator().manual_seed(1000 * seed + sync.inner_step)
        x = torch.randn(8, 6, generator=generator).to(dtype)

        def loss(x: Any = x) -> Any:
            return (model(x) - x.flip(1)).square().mean()

        if isinstance(sync, JustOneByte):
            infos.append(sync.step(loss))
            continue
        inner.zero_grad()
        loss().backward()
        inner.step()
        infos.append(sync.step(weight))
    return infos


def bits(model: Any) -> bytes:
    tensors = [*model.parameters(), *model.buffers()]
    return b"".join(tensor.detach().reshape(-1).view(torch.uint8).numpy().tobytes() for tensor in tensors)


def adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=0.02)


@pytest.mark.parametrize("strategy", ALL)
def test_alone_is_a_world_of_one(strategy: Any, coordinator: lockstep.Coordinator) -> None:
    options = {} if strategy is DataParallel else {"inner_steps": 3}

    def learn(run: Any) -> bytes:
        model = model_of(1)
        inner = adam(model)
        with strategy(run, model, inner, **options) as sync:
            infos = trains(sync, model, inner, 9)
            assert sync.is_leader
            assert sync.world == 1
            assert sync.outer_step == sum(info.outer for info in infos) == (9 if strategy is DataParallel else 3)
            members = () if run is None else (run.id,)
            assert all(info.contributors == (members if info.outer else ()) for info in infos)
        return bits(model)

    with lockstep.connect(coordinator.address, listen_host="127.0.0.1", timeout=IN_TIME) as run:
        assert learn(run) == learn(None)


def test_alone_with_rate_one_nothing_changes() -> None:
    plain, model = model_of(1), model_of(1)
    inner = torch.optim.SGD(plain.parameters(), lr=0.125)
    for step in range(8):
        x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))
        inner.zero_grad()
        (plain(x) - x.flip(1)).square().mean().backward()
        inner.step()
    inner = torch.optim.SGD(model.parameters(), lr=0.125)
    with LocalSGD(None, model, inner, inner_steps=4) as sync:
        trains(sync, model, inner, 8)
    for one, other in zip(plain.parameters(), model.parameters()):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("strategy", RESUMABLE)
def test_several_inner_optimizers_train_as_one(strategy: Any, kind: Any) -> None:
    options = {} if strategy is DataParallel else {"inner_steps": 2}

    def learn(layers: Any) -> bytes:
        model = model_of(1)
        inner = kind(torch.optim.SGD(part, lr=0.125) for part in layers(model))
        with strategy(None, model, inner if len(inner) > 1 else inner[0], **options) as sync:
            for step in range(6):
                x = torch.randn(8, 6, generator=torch.Generator().manual_seed(step))
                model.zero_grad()
                (model(x) - x.flip(1)).square().mean().backward()
                for one in inner:
                    one.step()
                sync.step()
        return bits(model)

    one_for_each = learn(lambda model: [model[0].parameters(), model[2].parameters()])
    assert one_for_each == learn(lambda model: [model.parameters()])


def test_one_inner_step_of_sgd_is_data_parallel(peers: Peers) -> None:
    def main(run: Any, number: int) -> list[Any]:
        models = []
        for strategy in (
            lambda m, i: DiLoCo(run, m, i, inner_steps=1, outer=SGD(1.0)),
            lambda m, i: DataParallel(run, m, i),
        ):
            model = model_of(5)
            inner = torch.optim.SGD(model.parameters(), lr=0.125)
            with strategy(model, inner) as sync:
                trains(sync, model, inner, 5, seed=number)
            models.append(model)
        return models

    for first, second in peers(2, main):
        for one, other in zip(first.parameters(), second.parameters()):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("strategy", ALL)
def test_peers_are_equal_and_know_it(strategy: Any, peers: Peers) -> None:
    def main(run: Any, number: int) -> tuple[bytes, list[StepInfo], bool]:
        model = model_of(number)
        inner = adam(model)
        options = {} if strategy is DataParallel else {"inner_steps": 2}
        with strategy(run, model, inner, **options) as sync:
            infos = trains(sync, model, inner, 6, seed=number)
            assert sync.world == 3
            return bits(model), infos, sync.is_leader

    first, second, third = peers(3, main)
    assert first[0] == second[0] == third[0]
    assert [one[2] for one in (first, second, third)].count(True) == 1
    for infos in (first[1], second[1], third[1]):
        ends = [info for info in infos if info.outer]
        assert [info.contributors for info in ends] == [info.contributors for info in first[1] if info.outer]
        assert all(len(info.contributors) == 3 and info.bytes_sent > 0 and info.bytes_received > 0 for info in ends)
        assert all(not info.contributors and info.bytes_sent == 0 for info in infos if not info.outer)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_parameters_move_only_by_what_was_learnt(dtype: Any) -> None:
    """The rounding of the shared float32 parameters is not taken for progress."""
    model = model_of(3, dtype)
    inner = torch.optim.SGD(model.parameters(), lr=0.0)
    with DiLoCo(None, model, inner, inner_steps=1, outer=Nesterov(0.7, 0.9)) as sync:
        state = sync.global_state_dict()
        for tensor in state["parameters"].values():
            tensor.add_(1e-4)  # bits that the model cannot hold
    again = DiLoCo(None, model, inner, inner_steps=1)
    again.load_global_state_dict(state)
    with again as sync:
        trains(sync, model, inner, 3)
        after = sync.global_state_dict()["parameters"]
    assert all(torch.equal(after[name], tensor) for name, tensor in state["parameters"].items())


def test_buffers_are_averaged_and_counters_take_the_largest(peers: Peers) -> None:
    def main(run: Any, number: int) -> tuple[Any, Any]:
        model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6))
        for parameter in model.parameters():
            torch.nn.init.ones_(parameter)
        inner = torch.optim.SGD(model.parameters(), lr=0.0)
        with LocalSGD(run, model, inner, inner_steps=1) as sync:
            model[1].running_mean.fill_(number)
            model[1].num_batches_tracked.fill_(number)
            sync.step()
        return model[1].running_mean, model[1].num_batches_tracked

    for mean, tracked in peers(3, main):
        assert mean.tolist() == [1.0] * 6
        assert int(tracked) == 2


def test_a_buffer_that_a_module_has_replaced_is_averaged(peers: Peers) -> None:
    def main(run: Any, number: int) -> float:
        model = torch.nn.BatchNorm1d(1)
        inner = torch.optim.SGD(model.parameters(), lr=0.0)
        with DataParallel(run, model, inner) as sync:
            model.running_mean = torch.full((1,), 2.0 * number)
            inner.step()
            sync.step()
        return float(model.running_mean)

    assert peers(2, main) == [1.0, 1.0]


def test_a_lost_peer_goes_on_with_what_it_had(coordinator: lockstep.Coordinator) -> None:
    """It connects again, and gives its state to a new strategy: nobody else has it."""
    model = model_of(3)
    inner = adam(model)
    first = lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1")
    old = DiLoCo(first, model, inner, inner_steps=2)

    def learn() -> None:
        with old:
            trains(old, model, inner, 4)
            first.close()
            trains(old, model, inner, 6)

    with pytest.raises(lockstep.NotConnected):
        learn()
    with lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1") as again:
        new = DiLoCo(again, model, inner, inner_steps=2)
        new.load_global_state_dict(old.global_state_dict())
        with new as sync:
            assert (sync.inner_step, sync.outer_step) == (4, 2)
            trains(sync, model, inner, 6)
            assert sync.outer_step == 3


@pytest.mark.parametrize("strategy", RESUMABLE)
def test_newcomers_take_over_frozen_parameters_too(strategy: Any, peers: Peers) -> None:
    options = {} if strategy is DataParallel else {"inner_steps": 2}

    def main(run: Any, number: int) -> bytes:
        model = model_of(number)
        for parameter in model[0].parameters():
            parameter.requires_grad_(False)
        inner = adam(model)
        with strategy(run, model, inner, **options) as sync:
            assert set(sync.global_state_dict()["parameters"]) == {"2.weight", "2.bias"}
            assert set(sync.global_state_dict()["model"]) == {"0.weight", "0.bias"}
            trains(sync, model, inner, 2, seed=number)
        return bits(model)

    first, second = peers(2, main)
    assert first == second


@at_each_rank(2)
def test_the_average_is_weighted(peers: Peers) -> None:
    def main(run: Any, number: int) -> float:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        inner = torch.optim.SGD(model.parameters(), lr=1.0)
        with FedAvg(run, model, inner, inner_steps=2) as sync:
            for _ in range(2):
                with torch.no_grad():
                    model.weight.add_(2.0 if number else 1.0)  # in all 4, or 2
                sync.step(weight=3 if number else 1)
        return float(model.weight.detach())

    assert peers(2, main) == [3.5, 3.5]  # (3 * 4 + 1 * 2) / 4


@pytest.mark.parametrize("strategy", RESUMABLE)
def test_a_checkpoint_goes_on_to_the_same_bits(strategy: Any) -> None:
    options = {} if strategy is DataParallel else {"inner_steps": 2}

    def make() -> tuple[Any, Any, Any]:
        model = model_of(4)
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        return strategy(None, model, inner, **options), model, inner

    whole, model, inner = make()
    with whole as sync:
        trains(sync, model, inner, 4)
        state = sync.global_state_dict()
        trains(sync, model, inner, 8)
    again, second, inner = make()
    again.load_global_state_dict(state)
    with again as sync:
        assert (sync.inner_step, sync.outer_step) == (4, 4 if strategy is DataParallel else 2)
        with pytest.raises(RuntimeError, match="before the `with`"):
            sync.load_global_state_dict(state)
        trains(sync, second, inner, 8)
    assert bits(model) == bits(second)


@at_each_rank(3)
def test_one_peer_with_a_checkpoint_is_enough(peers: Peers) -> None:
    model = model_of(4)
    with DiLoCo(None, model, adam(model), inner_steps=2) as sync:
        trains(sync, model, adam(model), 6)
        state = sync.global_state_dict()

    def main(run: Any, number: int) -> tuple[int, bytes]:
        model = model_of(number)
        sync = DiLoCo(run, model, adam(model), inner_steps=2)
        if number == 1:
            sync.load_global_state_dict(state)
        with sync:
            return sync.inner_step, bits(model)

    assert peers(3, main) == [(6, bits(model))] * 3


@at_each_rank(3)
def test_other_settings_are_refused(peers: Peers) -> None:
    def main(run: Any, number: int) -> str:
        model = model_of(0)
        try:
            with DiLoCo(run, model, adam(model), inner_steps=2, outer=Nesterov(0.7 if number else 0.6)):
                return ""
        except ValueError as error:
            return str(error)

    refused = [text for text in peers(3, main) if text]
    assert refused == ["outer_lr is 0.6 on this peer, and 0.7 in the run; allowed: equal settings"]


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (lambda *three: DiLoCo(*three, inner_steps=2, minimum_world=2), 2),
        (lambda *three: DiLoCo(*three, inner_steps=2, minimum_world=2, overlap="outer"), 2),
        (lambda *three: SketchedSGD(*three, inner_steps=2, minimum_world=2, ratio=2), 2),
        (lambda *three: SparseLoCo(*three, inner_steps=2, minimum_world=2, density=0.25), 2),
        (lambda run, model, _: JustOneByte(run, model, lr=0.01, minimum_world=2), 1),
    ],
)
@pytest.mark.parametrize("turn", range(2))
def test_too_few_members_wait_for_more(make: Any, steps: int, turn: int, coordinator: lockstep.Coordinator) -> None:
    connect = InOrder(coordinator.address, 2)
    seen: dict[int, list[StepInfo]] = {}
    ended: dict[int, bytes] = {}
    alone = threading.Event()

    def peer(number: int) -> None:
        with lockstep.Communicator(founders=2, listen_host="127.0.0.1", spin=0) as run:
            if number < 2:
                connect(run, number ^ turn).wait()
            else:
                run.connect(coordinator.address, timeout=IN_TIME)
            model = model_of(number)
            inner = adam(model)
            with make(run, model, inner) as sync:
                if number == 1:
                    trains(sync, model, inner, steps, seed=number)
                    return  # leaves
                if number == 0:
                    trains(sync, model, inner, steps, seed=number)
                    until(lambda: run.world_size == 1)
                    alone.set()
                seen[number] = trains(sync, model, inner, 4 * steps, seed=number)
                ended[number] = bits(model)

    threads = [threading.Thread(target=peer, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    assert alone.wait(IN_TIME)
    threads.append(threading.Thread(target=peer, args=(2,), daemon=True))
    threads[-1].start()
    for thread in threads:
        thread.join(IN_TIME)
        assert not thread.is_alive()
    assert ended[0] == ended[2]
    outer = {number: [info for info in infos if info.outer] for number, infos in seen.items()}
    assert [info.world for info in outer[0]] == [2, 2, 2]
    assert [info.contributors for info in outer[2]] == [info.contributors for info in outer[0]][-len(outer[2]) :]
    assert [info.outer_step for info in outer[2]] == [info.outer_step for info in outer[0]][-len(outer[2]) :]


def test_misuse_is_named() -> None:
    model = model_of(0)
    inner = adam(model)
    with pytest.raises(ValueError, match="inner_steps is 0"):
        DiLoCo(None, model, inner, inner_steps=0)
    with pytest.raises(ValueError, match="not in the model"):
        DiLoCo(None, model_of(1), inner)
    double = model_of(0, torch.float64)
    with pytest.raises(TypeError, match=r"float64; allowed: torch.float32"):
        DiLoCo(None, double, adam(double))
    with pytest.raises(lockstep.InvalidArgument, match="up is 'int3'"):
        DiLoCo(None, model, inner, wire="int3")  # type: ignore[arg-type]
    sync = FedAvg(None, model, inner)
    with pytest.raises(RuntimeError, match="inside of its `with` block"):
        sync.step(1.0)
    with sync:
        with pytest.raises(ValueError, match="number of examples"):
            sync.step()
        with pytest.raises(RuntimeError, match="once at a time"):
            sync.__enter__()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter that needs gradients"):
        LocalSGD(None, model, inner)


def test_data_parallel_names_a_wrong_order() -> None:
    model = model_of(0)
    inner = adam(model)
    with DataParallel(None, model, inner) as sync:
        with pytest.raises(RuntimeError, match="which has made none"):
            sync.step()
        with pytest.raises(ValueError, match="set `weight`"):
            sync.step(3.0)
        inner.step()
        assert all(parameter.grad is not None for parameter in model.parameters())  # zeros
        with pytest.raises(RuntimeError, match="second step"):
            inner.step()
    inner.step()  # the hook has gone


def test_a_wire_has_two_ways() -> None:
    assert Wire.of("int8") == Wire("int8", "int8")
    assert Wire.of(Wire("e3m0", "int8", True)).error_feedback


@at_each_rank(2)
def test_what_is_in_flight_reaches_the_model_at_the_end(peers: Peers) -> None:
    """The plain average of two rounds of one step each, whether it comes at once or a round later."""

    def main(run: Any, number: int) -> list[float]:
        ends = []
        for overlap in (None, "outer"):
            model = torch.nn.Linear(1, 1, bias=False)
            torch.nn.init.zeros_(model.weight)
            inner = torch.optim.SGD(model.parameters(), lr=1.0)
            with DiLoCo(run, model, inner, inner_steps=1, outer=SGD(1.0), overlap=overlap) as sync:
                for step in range(2):
                    with torch.no_grad():
                        model.weight.add_(1.0 + 2 * number)  # on average 2
                    info = sync.step()
                    assert info.outer == (overlap is None or step > 0)
                    if number == step:
                        sync.wait()  # whoever calls it, and when: the results are the same
            ends.append(float(model.weight.detach()))
        return ends

    assert peers(2, main) == [[4.0, 4.0]] * 2


class DiesAfterAdmission(lockstep.Communicator):
    """A peer that is lost between the admission of a newcomer and the next reduction."""

    has_admitted = False

    def admit_async(self, **options: Any) -> Any:
        self.has_admitted = True  # strategies reduce next once they have waited for it
        return super().admit_async(**options)

    def all_reduce_async(self, *arguments: Any, **options: Any) -> Any:
        if self.has_admitted:
            self.close()
        return super().all_reduce_async(*arguments, **options)


def test_newcomers_go_on_alone_from_what_they_were_given(coordinator: lockstep.Coordinator) -> None:
    """The round that they take part in with weight 0 has no contribution left: it counts for nothing."""
    given: list[int] = []
    has_begun = threading.Event()

    def learn(run: Any, seed: int, steps: int) -> Any:
        model = model_of(seed)
        inner = adam(model)
        with run, DiLoCo(run, model, inner, inner_steps=1, overlap="outer") as sync:
            given.append(sync.outer_step)
            if not seed:
                trains(sync, model, inner, 2)
                has_begun.set()
                until(lambda: run.pending == 1)
            trains(sync, model, inner, steps, seed=seed)
            sync.wait()
            return sync.outer_step, sync.global_state_dict()["parameters"]["0.weight"]

    def founder() -> None:
        run = DiesAfterAdmission(listen_host="127.0.0.1", spin=0)
        run.connect(coordinator.address, timeout=IN_TIME)
        with pytest.raises((lockstep.NotConnected, lockstep.OutcomeUnknown)):
            learn(run, 0, 100)

    thread = threading.Thread(target=founder)
    thread.start()
    assert has_begun.wait(IN_TIME)
    newcomer = lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1", spin=0)
    outer_step, weight = learn(newcomer, 1, 6)
    thread.join(IN_TIME)
    assert not thread.is_alive()
    assert given == [0, 3]  # it enters after inner step 4; the reduction of step 3 saw it, and is the last one applied
    assert outer_step == 5  # the reductions of its own steps 5 and 6
    assert torch.isfinite(weight).all()


def test_eager_begins_with_its_own_share(peers: Peers) -> None:
    def main(run: Any, number: int) -> float:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        inner = torch.optim.SGD(model.parameters(), lr=1.0)
        with DiLoCo(run, model, inner, inner_steps=1, outer=SGD(0.5), overlap="eager") as sync:
            with torch.no_grad():
                model.weight.add_(8.0 * (1 + number))
            sync.step()
            return float(model.weight.detach())

    assert peers(2, main) == [2.0, 4.0]  # 0 + 0.5 * (progress / 2)


def test_streaming_alone_with_alpha_one_is_plain_training() -> None:
    models = []
    for strategy in (
        lambda m, i: LocalSGD(None, m, i, inner_steps=100),
        lambda m, i: StreamingDiLoCo(None, m, i, inner_steps=4, fragments=by_bytes(1), alpha=1.0, tau=0),
    ):
        model = model_of(2)
        inner = torch.optim.SGD(model.parameters(), lr=0.125)
        with strategy(model, inner) as sync:
            infos = trains(sync, model, inner, 8)
            models.append(bits(model))
    assert models[0] == models[1]
    assert [info.fragment for info in infos] == [0, 1, 2, 3] * 2
    assert [info.outer_step for info in infos] == list(range(1, 9))


class Transformer(torch.nn.Module):
    """The names of a transformer's parameters."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(4, 2)
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(2, 2, bias=False) for _ in range(layers))
        self.head = torch.nn.Linear(2, 4, bias=False)


def test_fragments_are_whole_blocks() -> None:
    model = Transformer(5)
    rest = ["embedding.weight", "head.weight"]

    def blocks(*numbers: int) -> list[str]:
        return [f"blocks.{number}.weight" for number in numbers]

    assert by_block(2)(model) == [rest, blocks(0, 3), blocks(1, 4), blocks(2)]
    assert by_block(2, "sequential")(model) == [rest, blocks(0, 1), blocks(2, 3), blocks(4)]
    assert by_block(9, blocks="blocks")(model) == [rest, blocks(0, 1, 2, 3, 4)]
    assert by_block(1)(torch.nn.Sequential(torch.nn.Linear(1, 1))) == [["0.weight", "0.bias"]]
    with pytest.raises(ValueError, match="named 'layers'"):
        by_block(1, blocks="layers")(model)
    with pytest.raises(ValueError, match="layers is 0"):
        by_block(0)
    with pytest.raises(ValueError, match="pattern is 'zigzag'"):
        by_block(1, "zigzag")  # type: ignore[arg-type]


def test_fragments_have_a_size() -> None:
    names = [name for name, _ in Transformer(2).named_parameters()]  # 32, 16, 16 and 32 bytes
    assert by_bytes(32)(Transformer(2)) == [names[:1], names[1:3], names[3:]]
    assert by_bytes(1)(Transformer(2)) == [[name] for name in names]
    assert by_bytes(1000)(Transformer(2)) == [names]
    with pytest.raises(ValueError, match="limit is 0"):
        by_bytes(0)


def test_streaming_names_what_does_not_fit() -> None:
    model = model_of(0)
    inner = adam(model)
    with pytest.raises(ValueError, match="inner_steps is 3, with 2 fragments; allowed: a multiple"):
        StreamingDiLoCo(None, model, inner, inner_steps=3, fragments=by_block(1))
    with pytest.raises(ValueError, match="tau is 2, with 2 fragments in 4 steps; allowed: 0 to 1"):
        StreamingDiLoCo(None, model, inner, inner_steps=4, fragments=by_block(1), tau=2)
    with pytest.raises(ValueError, match=r"alpha is 1\.5"):
        StreamingDiLoCo(None, model, inner, alpha=1.5)
    with pytest.raises(ValueError, match=r"no fragment has the parameters 0.bias, 2.weight, 2.bias"):
        StreamingDiLoCo(None, model, inner, fragments=lambda _: [["0.weight"]])
    with pytest.raises(ValueError, match="overlap is 'late'"):
        DiLoCo(None, model, inner, overlap="late")  # type: ignore[arg-type]


def test_every_public_name_has_a_docstring() -> None:
    import lockstep.torch

    for name in lockstep.torch.__all__:
        thing = getattr(lockstep.torch, name)
        if isinstance(thing, type) and thing.__module__.startswith("lockstep.train."):
            members = [value for key, value in vars(thing).items() if not key.startswith("_")]
            for one in [thing, *(m for m in members if callable(m) or isinstance(m, property))]:
                assert one.__doc__, f"{name}: {one}"
                assert "Raises" in (thing.__doc__ or "") or name in RAISE_NOTHING, name


RAISE_NOTHING = (
    "Averaging",
    "Contribution",
    "Desync",
    "Exchange",
    "Gathering",
    "OuterOptimizer",
    "Round",
    "StepInfo",
    "Strategy",
)
SWARM_STEPS = 30
SWARM: dict[str, Any] = {
    "data parallel": lambda *three: DataParallel(*three),
    "outer": lambda *three: DiLoCo(*three, inner_steps=3, overlap="outer"),
    "eager": lambda *three: DiLoCo(*three, inner_steps=3, overlap="eager", outer=Nesterov(0.4, 0.5)),
    "sparse": lambda *three: SparseLoCo(*three, inner_steps=3, density=0.1),
    "streaming": lambda *three: StreamingDiLoCo(*three, inner_steps=6, fragments=by_block(1), wire="native"),
    "sketched": lambda *three: SketchedSGD(*three, inner_steps=3, ratio=2, outer_lr=0.25),
    "one byte": lambda run, model, _: JustOneByte(run, model, lr=0.01, samples=2),
}


def swarm_loop(run: lockstep.Communicator, strategy: str) -> lockstep.State:
    """Training under churn; states that it returns must be equal on all peers of one revision."""
    model = model_of(0)
    inner = torch.optim.SGD(model.parameters(), lr=0.05)
    total = SWARM_STEPS if strategy in ("data parallel", "one byte") else 3 * SWARM_STEPS
    with SWARM[strategy](run, model, inner) as sync:
        while sync.inner_step < total:
            run.spend(0.5)
            trains(sync, model, inner, sync.inner_step + 1, seed=run.id[0])
        sync.wait()
        tensors = {name: tensor.numpy() for name, tensor in sync.global_state_dict()["parameters"].items()}
        return lockstep.State({**tensors, "inner_step": sync.inner_step}, revision=sync.outer_step)


@pytest.mark.parametrize("strategy", SWARM)
def test_a_swarm_under_churn_stays_equal(strategy: str) -> None:
    joins = 0
    for seed in range(3):
        report = sim.Swarm(peers=5, churn=True, seed=seed).run(swarm_loop, strategy)
        assert len({(value.revision, value["0.weight"].tobytes()) for value in report.values}) == 1
        assert np.isfinite(report.values[0]["0.weight"]).all()
        joins += sum("join" in what or "back" in what for _, what in report.happenings)
    assert joins > 0


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda m, o: DiLoCo("127.0.0.1:4000", m, o), TypeError, "run is '127.0.0.1:4000'"),  # type: ignore[arg-type]
        (lambda m, o: DiLoCo(None, None, o), TypeError, "model is of type NoneType"),
        (lambda m, o: DiLoCo(None, m, "adam"), TypeError, "inner is of type str"),
        (lambda m, o: DiLoCo(None, m, o, outer=Nesterov), TypeError, "outer is <class"),  # type: ignore[arg-type]
        (lambda m, o: DiLoCo(None, m, o, outer=0.0), TypeError, "outer is 0.0"),  # type: ignore[arg-type]
        (lambda m, o: DiLoCo(None, m, o, inner_steps=1.5), TypeError, "inner_steps is 1.5"),  # type: ignore[arg-type]
        (lambda m, o: DiLoCo(None, m, o, inner_steps=10**400), ValueError, "inner_steps is 1000"),
        (lambda m, o: DiLoCo(None, m, o, minimum_world=-1), ValueError, "minimum_world is -1"),
        (lambda m, o: StreamingDiLoCo(None, m, o, tau=1.5), TypeError, "tau is 1.5"),  # type: ignore[arg-type]
        (lambda m, o: StreamingDiLoCo(None, m, o, alpha="x"), TypeError, "alpha is 'x'"),  # type: ignore[arg-type]
        (lambda m, o: StreamingDiLoCo(None, m, o, fragments=3), TypeError, "fragments is 3"),  # type: ignore[arg-type]
        (lambda m, o: StreamingDiLoCo(None, m, o, fragments=by_block), TypeError, "fragments returns"),
        (lambda m, o: StreamingDiLoCo(None, m, o, fragments=no_fragments), TypeError, "NoneType"),
        (lambda m, o: by_block(1.5), TypeError, "layers is 1.5"),  # type: ignore[arg-type]
        (lambda m, o: SGD("a"), TypeError, "lr is 'a'"),  # type: ignore[arg-type]
    ],
)
def test_arguments_are_checked_where_they_come_in(make: Any, kind: type[Exception], text: str) -> None:
    model = torch.nn.Linear(2, 2)
    with pytest.raises(kind, match=re.escape(text)):
        make(model, torch.optim.SGD(model.parameters(), lr=0.1))


def test_a_parameter_is_in_one_fragment() -> None:
    model = torch.nn.Linear(2, 2)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="two fragments have the parameters bias"):
        StreamingDiLoCo(None, model, inner, fragments=lambda _: [["weight", "bias"], ["bias"]])


@pytest.mark.parametrize("weight", [math.nan, math.inf, -1])
def test_a_weight_is_a_finite_number(weight: float) -> None:
    model = torch.nn.Linear(2, 2)
    with DiLoCo(None, model, torch.optim.SGD(model.parameters(), lr=0.1), inner_steps=2) as sync:
        with pytest.raises(ValueError, match="allowed: a finite number of at least 0"):
            sync.step(weight)
        with pytest.raises(TypeError, match="weight is 'x'"):
            sync.step("x")  # type: ignore[arg-type]
        assert sync.inner_step == 0


def test_a_state_is_that_of_the_strategy() -> None:
    model = torch.nn.Linear(2, 2)
    sync = DiLoCo(None, model, torch.optim.SGD(model.parameters(), lr=0.1))
    good = sync.global_state_dict()
    with pytest.raises(TypeError, match="allowed: what global_state_dict"):
        sync.load_global_state_dict(None)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="the state has no parameters, momentum"):
        sync.load_global_state_dict(model.state_dict())
    with pytest.raises(KeyError, match="momentum of the state has no bias, weight"):
        sync.load_global_state_dict({**good, "momentum": {}})
    with pytest.raises(ValueError, match="inner_step is -5"):
        sync.load_global_state_dict({**good, "inner_step": -5})
    sync.load_global_state_dict(good)


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_an_argument_that_cannot_be_shown_is_named_all_the_same() -> None:
    model = torch.nn.Linear(2, 2)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    wrong: Any = Unshowable()
    refused = (TypeError, ValueError)
    for make, text in (
        (lambda: LocalSGD(None, model, inner, inner_steps=wrong), "inner_steps is a Unshowable"),
        (lambda: LocalSGD(wrong, model, inner), "run is a Unshowable"),
        (lambda: DiLoCo(None, model, inner, outer=wrong), "outer is a Unshowable"),
        (lambda: DiLoCo(None, model, inner, overlap=wrong), "overlap is a Unshowable"),
        (lambda: FedAvg(None, model, inner, lr=wrong), "lr is a Unshowable"),
        (lambda: StreamingDiLoCo(None, model, inner, fragments=wrong), "fragments is a Unshowable"),
        (lambda: by_block(pattern=wrong), "pattern is a Unshowable"),
    ):
        with pytest.raises(refused, match=text):
            make()
