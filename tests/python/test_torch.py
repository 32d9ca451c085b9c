"""A training loop of torch: the state_dict of a model as a State, gradients in bfloat16, all peers equal to the last bit."""

from __future__ import annotations

import threading
from typing import Any

import lockstep
import pytest
from support import IN_TIME, Peers, at_each_rank, until

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

Run = lockstep.Communicator


def model_of(seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def state_of(model: Any) -> lockstep.State:
    return lockstep.State({**model.state_dict(), "step": 0})


def equal(first: Any, second: Any) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values())
    return all(torch.equal(one, other) for one, other in pairs)


def test_a_state_dict_becomes_the_same_on_all_peers(peers: Peers) -> None:
    def main(run: Run, number: int) -> Any:
        model = model_of(number)
        state = state_of(model)
        assert len(state) == len(model.state_dict()) + 1  # weights, biases, running means, an int64 of 0 dimensions
        state.revision = number
        run.sync(state)
        return model  # in place: the model itself has changed

    first, *others = peers(3, main)
    assert all(equal(first, other) for other in others)
    assert equal(first, model_of(2))


def trains(run: Run, steps: int, dtype: Any, say: Any = None) -> Any:
    """Steps of gradient descent on random examples, each peer on its own."""
    model = model_of(run.rank)
    state = state_of(model)
    run.sync(state)
    while state["step"] < steps:
        generator = torch.Generator().manual_seed(1000 * state["step"] + run.rank)
        x = torch.randn(32, 8, generator=generator)
        loss = (model(x)[:, 0] - x.sum(dim=1)).square().mean()
        model.zero_grad()
        loss.backward()
        gradients = [parameter.grad.to(dtype) for parameter in model.parameters()]
        result = run.all_reduce(gradients, op="avg")
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients):
                parameter -= 0.01 * gradient
        for buffer in model.buffers():  # running means, which each peer has seen its own of
            run.broadcast(buffer, result.contributors[0], tag=1)
        state["step"] += 1
        state.revision += 1
        if say is not None:
            say(state["step"])
        run.admit()
        run.sync(state)
    return model


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_model_is_trained_equally_on_all_peers(peers: Peers, name: str) -> None:
    def main(run: Run, number: int) -> Any:
        return trains(run, 10, getattr(torch, name))

    first, second = peers(2, main)
    assert equal(first, second)
    assert not equal(first, model_of(0))


@at_each_rank(2)
def test_a_newcomer_takes_the_model_over(coordinator: lockstep.Coordinator, peers: Peers) -> None:
    models = []

    def newcomer() -> None:
        with lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1") as run:
            models.append(trains(run, 8, torch.float32))

    thread = threading.Thread(target=newcomer)

    def main(run: Run, number: int) -> Any:
        def say(step: int) -> None:
            if step == 3 and number == 0:
                thread.start()
                until(lambda: run.pending == 1)

        return trains(run, 8, torch.float32, say)

    first, second = peers(2, main)
    thread.join(IN_TIME)
    assert equal(first, second)
    assert equal(first, models[0])


@at_each_rank(2)
def test_gradients_in_bfloat16_are_folded_in_float32(peers: Peers) -> None:
    """256 + 1 is 256 in bfloat16: so says the fold, with ties to even, on every peer."""

    def main(run: Run, number: int) -> list[float]:
        parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.bfloat16))
        parameter.grad = torch.tensor([1, 2, 0.5, 256 if number else 1], dtype=torch.bfloat16)
        run.all_reduce(parameter.grad)
        return list(parameter.grad.tolist())

    assert peers(2, main) == [[2, 4, 1, 256]] * 2


def test_an_optimizer_goes_on_where_another_one_was(peers: Peers) -> None:
    def main(run: Run, number: int) -> Any:
        model = model_of(number)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(1 + 2 * number):
            optimizer.zero_grad()
            model(torch.ones(4, 8) * torch.arange(4)[:, None]).sum().backward()
            optimizer.step()
        moments = {
            f"{index}.{name}": tensor
            for index, values in optimizer.state_dict()["state"].items()
            for name, tensor in values.items()
        }
        state = lockstep.State({**model.state_dict(), **moments}, revision=1 + 2 * number)
        run.sync(state)
        return model, moments

    (first, moments), (second, others) = peers(2, main)
    assert equal(first, second)
    assert moments["0.step"] == 3
    assert all(torch.equal(moments[name], others[name]) for name in moments)
