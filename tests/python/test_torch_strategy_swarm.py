"""DiLoCo under churn in a simulated swarm: after every outer step every peer has the bits of the reference.

LOCKSTEP_SEEDS=1000 pytest tests/python/test_torch_strategy_swarm.py            # more than the default of 5
"""

from __future__ import annotations

import faulthandler
import os
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from conftest import LIMIT
from lockstep import sim

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import strategy_reference as reference  # noqa: E402
from lockstep.torch import DiLoCo, Nesterov  # noqa: E402
from lockstep.train.average_rounds import AverageRounds  # noqa: E402
from lockstep.train.flat import Fragment  # noqa: E402
from lockstep.train.run_loop import RunLoop  # noqa: E402

SEEDS = int(os.environ.get("LOCKSTEP_SEEDS", "5"))
STEPS, ROUNDS = 2, 25
LR, MOMENTUM = 0.5, 0.8

Told = list[tuple[int, tuple[bytes, ...], bytes, bytes]]
"""Outer step, contributors, parameters and momentum after it."""


torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # the first optimizer imports for seconds: not in a test


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def make_model() -> Any:
    model = torch.nn.Linear(30, 10)
    with torch.no_grad():
        model.weight.copy_(torch.arange(300.0).view(10, 30) / 300)
        model.bias.zero_()
    return model


def make_inner(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.25)


def inner_step(model: Any, inner: Any, peer: bytes, step: int) -> None:
    generator = torch.Generator().manual_seed(int.from_bytes(peer[:4], "big") + step)
    x = torch.randn(4, 30, generator=generator)
    inner.zero_grad()
    (model(x) - x[:, :10]).square().mean().backward()
    inner.step()


def train(run: lockstep.Communicator, told: Told, wire: Any) -> lockstep.State:
    model = make_model()
    inner = make_inner(model)
    outer = Nesterov(LR, MOMENTUM)
    with DiLoCo(run, model, inner, inner_steps=STEPS, outer=outer, wire=wire, check_every=1) as sync:
        while sync.inner_step < STEPS * ROUNDS:
            run.spend(0.3)
            inner_step(model, inner, run.id, sync.inner_step)
            info = sync.step()
            if info.outer:
                assert run.id in info.contributors, "a peer applied a round that it took no part in"
                state = sync.global_state_dict()
                arrays = [
                    np.concatenate([tensor.numpy().reshape(-1) for tensor in state[group].values()])
                    for group in ("parameters", "momentum")
                ]
                told.append((info.outer_step, info.contributors, arrays[0].tobytes(), arrays[1].tobytes()))
        return lockstep.State({"parameters": arrays[0], "momentum": arrays[1]}, revision=sync.outer_step)


def check(swarm: sim.Swarm, wire: str) -> set[int]:
    """Runs the swarm, and compares what all programs have told with the equations. Returns the sizes of the rounds."""
    told: Told = []
    swarm.run(train, told, wire, shrink=False)
    rounds: dict[int, tuple[Any, ...]] = {}
    for outer, *bits in told:
        assert rounds.setdefault(outer, tuple(bits)) == tuple(bits), f"outer step {outer} differs between peers"
    assert sorted(rounds) == list(range(1, ROUNDS + 1))
    coded = reference.int8 if wire == "int8" else reference.exactly
    model = make_model()
    theta = reference.flat(model)
    outer_step = reference.Outer(LR, MOMENTUM, theta.size)
    for outer, (members, parameters, momentum) in sorted(rounds.items()):
        gradients = []
        for peer in members:
            reference.unflatten(model, theta)
            inner = make_inner(model)
            for step in range((outer - 1) * STEPS, outer * STEPS):
                inner_step(model, inner, peer, step)
            gradients.append(theta - reference.flat(model))
        theta = outer_step.step(theta, reference.average(gradients, [1.0] * len(members), coded, coded))
        assert parameters == theta.tobytes(), f"outer step {outer} is not that of the reference"
        assert momentum == outer_step.v.tobytes(), f"outer step {outer} is not that of the reference"
    return {len(members) for members, *_ in rounds.values()}


def check_seeds(count: int, wire: str) -> set[int]:
    sizes: set[int] = set()
    for seed in range(count):
        faulthandler.dump_traceback_later(LIMIT, exit=True)  # again, as there may be many seeds
        sizes |= check(sim.Swarm(peers=4, churn=True, seed=seed), wire)
    return sizes


@pytest.mark.parametrize("wire", ["native", "int8"])
def test_every_bit_is_that_of_the_reference(wire: str) -> None:
    assert len(check_seeds(SEEDS, wire)) > 1, "nobody came or went"


# ---- bugs that it has to find ----


def has_the_wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    measure = Fragment.measure

    def measures(self: Fragment) -> None:
        measure(self)
        np.negative(self.gradient, out=self.gradient)

    monkeypatch.setattr(Fragment, "measure", measures)


def divides_by_the_old_world_after_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    end = RunLoop.end

    def ends(self: RunLoop, average: Any) -> None:
        end(self, average)
        if average.result.retries:
            world = np.float32(average.result.world_size)
            average.arrays[0] *= world / (world + np.float32(average.result.retries))

    monkeypatch.setattr(RunLoop, "end", ends)


def applies_a_round_that_it_was_no_part_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer makes the outer step before its admission once more, with nothing."""
    enter = AverageRounds.enter

    def enters(self: AverageRounds) -> None:
        enter(self)
        if self.loop.outer_step:
            self.model.whole.step()
            self.model.store()

    monkeypatch.setattr(AverageRounds, "enter", enters)


@pytest.mark.parametrize(
    "plant", [has_the_wrong_sign, divides_by_the_old_world_after_a_loss, applies_a_round_that_it_was_no_part_of]
)
def test_planted_bugs_are_found(plant: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, sim.SwarmFailure), match=r"outer step \d+ |differ in "):
        check_seeds(20, "native")
