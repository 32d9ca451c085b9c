"""SparseLoCo with real processes and in a simulated swarm: every bit is that of a reference in one process.

LOCKSTEP_SEEDS=1000 pytest tests/python/test_train_sparse_loco.py               # more than the default of 5
"""

from __future__ import annotations

import faulthandler
import re
from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest
from conftest import LIMIT
from lockstep import sim
from support import Peers, at_each_rank

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import strategy_programs as programs  # noqa: E402
import strategy_reference as reference  # noqa: E402
from lockstep.torch import SparseLoCo  # noqa: E402
from lockstep.train.run_loop import RunLoop  # noqa: E402
from test_torch_strategies import NEWCOMER, Peer, Rounds, run_case  # noqa: E402
from test_torch_strategy_swarm import ROUNDS, SEEDS, STEPS, inner_step, make_inner, make_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def split(values: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return np.split(values, np.cumsum(sizes)[:-1])


class Reference:
    """The equations of SparseLoCo. Each peer has an error, which begins with 0."""

    def __init__(
        self, sizes: list[int], density: float, chunk: int, ef_decay: float, outer_lr: float, **how: bool
    ) -> None:
        self.sizes, self.density, self.chunk, self.how = sizes, density, chunk, how
        self.ef_decay, self.outer = np.float32(ef_decay), reference.Outer(outer_lr, 0.0, sum(sizes))
        self.errors: dict[Any, np.ndarray] = {}

    def step(self, theta: np.ndarray, progress: dict[Any, np.ndarray], weights: dict[Any, float]) -> np.ndarray:
        """The parameters after an outer step. progress: of the contributors, in the order of their ids."""
        sent: dict[Any, list[reference.Sent]] = {}
        for peer, gradient in progress.items():
            error = self.ef_decay * self.errors.get(peer, np.zeros_like(theta)) + gradient
            sent[peer] = [
                reference.sparse(reference.runs(part, self.chunk), reference.part_of(self.density))
                for part in split(error, self.sizes)
            ]
            self.errors[peer] = error - np.concatenate([one.values for one in sent[peer]])
        averages = [
            reference.average_sparse(list(tensor), [weights[peer] for peer in sent], **self.how)
            for tensor in zip(*sent.values())
        ]
        return self.outer.step(theta, np.concatenate(averages))


@pytest.mark.parametrize(
    ("case", "how"),
    [
        ("sparse-loco", {}),
        ("sparse-loco-clipped", {"counts_absent": True, "clips": True}),
        ("sparse-loco-weighted", {}),
    ],
)
def test_every_bit_is_that_of_the_reference(
    case: str, how: dict[str, bool], tmp_path: Path, coordinator: lockstep.Coordinator
) -> None:
    """A newcomer enters in round 3, and a peer dies in the middle of the all-gather of round 4."""
    rounds = Rounds(case, run_case(case, coordinator.address, tmp_path))
    theta = rounds.first_parameters()
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    equations = Reference([p.numel() for p in peers[0].model.parameters()], **programs.SPARSE, **how)
    steps = programs.INNER_STEPS
    for number, members in enumerate(rounds.members):
        by_id = sorted(members, key=lambda member: rounds.told[member].begin[0])
        progress = {member: peers[member].train(theta, number * steps, steps) for member in by_id}
        weights = {member: (programs.weight_of(case, member) or 0.25) * steps for member in by_id}
        theta = equations.step(theta, progress, weights)
        rounds.check(number + 1, theta, None, None)
    rounds.check_end(theta)


# ---- in a simulated swarm ----

SETTINGS: dict[str, Any] = {"density": 0.1, "chunk": 64, "ef_decay": 0.75, "outer_lr": 0.5}
Told = list[tuple[int, tuple[Any, ...], bytes]]
"""Outer step, contributors, parameters after it."""


def train(run: lockstep.Communicator, told: Told) -> lockstep.State:
    model = make_model()
    inner = make_inner(model)
    with SparseLoCo(run, model, inner, inner_steps=STEPS, **SETTINGS) as sync:
        while sync.inner_step < STEPS * ROUNDS:
            run.spend(0.3)
            inner_step(model, inner, run.id, sync.inner_step)
            info = sync.step()
            if info.outer:
                assert run.id in info.contributors, "a peer applied a round that it took no part in"
                theta = reference.flat(model)
                told.append((info.outer_step, info.contributors, theta.tobytes()))
        return lockstep.State({"parameters": theta}, revision=sync.outer_step)


def check(swarm: sim.Swarm) -> set[int]:
    """Compares what the peers of a swarm have told with the equations. Returns the sizes of the rounds."""
    told: Told = []
    swarm.run(train, told, shrink=False)
    rounds: dict[int, tuple[Any, ...]] = {}
    for outer, *bits in told:
        assert rounds.setdefault(outer, tuple(bits)) == tuple(bits), f"outer step {outer} differs between peers"
    assert sorted(rounds) == list(range(1, ROUNDS + 1))
    model = make_model()
    theta = reference.flat(model)
    equations = Reference([p.numel() for p in model.parameters()], **SETTINGS)
    for outer, (members, parameters) in sorted(rounds.items()):
        progress = {}
        for peer in sorted(members):
            reference.unflatten(model, theta)
            inner = make_inner(model)
            for step in range((outer - 1) * STEPS, outer * STEPS):
                inner_step(model, inner, peer, step)
            progress[peer] = theta - reference.flat(model)
        theta = equations.step(theta, progress, dict.fromkeys(progress, 1.0))
        assert parameters == theta.tobytes(), f"outer step {outer} is not that of the reference"
    return {len(members) for members, _ in rounds.values()}


def check_seeds(count: int) -> set[int]:
    sizes: set[int] = set()
    for seed in range(count):
        faulthandler.dump_traceback_later(LIMIT, exit=True)  # again, as there may be many seeds
        sizes |= check(sim.Swarm(peers=4, churn=True, seed=seed))
    return sizes


def test_every_bit_under_churn_is_that_of_the_reference() -> None:
    assert len(check_seeds(SEEDS)) > 1, "nobody came or went"


def test_a_round_that_is_retried_must_not_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check finds a peer that adds its error once more for each attempt."""
    gather = RunLoop.gather

    def gathers(self: Any, *arguments: Any) -> Any:
        gathered = gather(self, *arguments)
        if self.traffic.retries:
            fragment = self._training.model.whole
            fragment.residual += fragment.residual
        return gathered

    monkeypatch.setattr(RunLoop, "gather", gathers)
    with pytest.raises(AssertionError, match=r"outer step \d+ is not that of the reference"):
        check_seeds(20)


# ---- contributions that cannot be used ----


def make_small(seed: int = 0) -> Any:
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Linear(6, 10)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def learn(sync: Any, model: Any, inner: Any, seed: int, weight: float | None = None) -> Any:
    """An inner step."""
    generator = torch.Generator().manual_seed(1000 * seed + sync.inner_step)
    x = torch.randn(8, 6, generator=generator)
    inner.zero_grad()
    (model(x) - x.sum()).square().mean().backward()
    inner.step()
    return sync.step(weight)


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def cut(block: Any) -> Any:
    return block[:-1]


def has_more(block: Any) -> Any:
    return np.concatenate([block, block])


def has_a_nan(block: Any) -> Any:
    block[20:24].view("<f4")[0] = np.nan  # after 16 bytes of header and the counts of 2 chunks
    return block


def is_out_of_bounds(block: Any) -> Any:
    block[36:39] = 0xFF
    return block


@at_each_rank(3)
@pytest.mark.parametrize(
    ("lie", "text"),
    [
        (cut, "cannot be used: the block has "),
        (has_a_nan, "cannot be used: the values of weight have sizes nan and "),
        (is_out_of_bounds, "cannot be used: chunk 0 has an element 4095; allowed: 0 to 59"),
        (has_more, "cannot be used: the block has "),
    ],
)
def test_all_peers_refuse_a_bad_contribution_and_nothing_has_changed(lie: Any, text: str, peers: Peers) -> None:
    """Then they go on: what they have learnt counts in the next outer step."""

    def main(run: lockstep.Communicator, number: int) -> tuple[lockstep.PeerId, Exception, list[bytes]]:
        model = make_small(number)
        inner = sgd(model)
        with SparseLoCo(run, model, inner, inner_steps=2, density=0.25) as sync:
            for _ in range(2):
                learn(sync, model, inner, number)
            (fragment,) = sync._training.model.fragments
            assert fragment.residual is not None
            theta, error = fragment.theta.tobytes(), fragment.residual.tobytes()
            assert any(error)
            encode = sync._training.codec.encode
            if number == 1:
                sync._training.codec.encode = lambda *arguments: lie(encode(*arguments))  # type: ignore[method-assign]
            learn(sync, model, inner, number)
            with pytest.raises(lockstep.InvalidArgument) as raised:
                learn(sync, model, inner, number)
            assert (fragment.theta.tobytes(), fragment.residual.tobytes()) == (theta, error)
            assert (sync.inner_step, sync.outer_step) == (3, 1)
            sync._training.codec.encode = encode  # type: ignore[method-assign]
            after = []
            for _ in range(4):
                if learn(sync, model, inner, number).outer:
                    after.append(reference.flat(model).tobytes())
            assert len(set(after)) == 2
            return run.id, raised.value, after

    told = peers(3, main)
    for _, error, after in told:
        assert after == told[0][2]
        assert f"the contribution of peer {told[1][0]} {text}" in str(error)


@at_each_rank(2)
def test_a_model_that_has_diverged_is_named(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> tuple[lockstep.PeerId, str]:
        model = make_small(0)
        inner = sgd(model)
        with SparseLoCo(run, model, inner, inner_steps=1) as sync:
            if number == 0:
                with torch.no_grad():
                    model.bias[3] = torch.inf
            with pytest.raises(lockstep.InvalidArgument) as raised:
                sync.step()
            return run.id, str(raised.value)

    (guilty, first), (_, second) = peers(2, main)
    assert first == second
    assert first.startswith(f"the contribution of peer {guilty} cannot be used: the values of bias have sizes inf")


@at_each_rank(2)
def test_all_peers_give_weights_or_none_does(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> tuple[lockstep.PeerId, str]:
        model = make_small(0)
        inner = sgd(model)
        with SparseLoCo(run, model, inner, inner_steps=1) as sync:
            with pytest.raises(lockstep.InvalidArgument) as raised:
                learn(sync, model, inner, 0, 2.0 if number == 1 else None)
            return run.id, str(raised.value)

    (without, first), (weighted, second) = peers(2, main)
    assert first == second
    assert first.startswith(f"peer {weighted} gives a weight, and peer {without} gives none")


# ---- error feedback ----


@at_each_rank(2)
def test_a_contribution_of_weight_0_stays_in_the_error(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> list[float]:
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        moved = []
        with SparseLoCo(run, model, sgd(model), inner_steps=1, ef_decay=1.0, aggregate="mean") as sync:
            for weight in (float(number), 1.0):
                with torch.no_grad():
                    model.weight.add_(4.0 if number else 8.0)
                sync.step(weight)
                moved.append(float(model.weight.detach()))
        return moved

    assert peers(2, main) == [[4.0, 14.0]] * 2  # 4 alone; then the average of 8 + 8 and 4


def test_what_is_not_sent_is_sent_later() -> None:
    """With two elements of which one is sent, each moves every other round, by all that has gathered."""
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    moved = []
    with SparseLoCo(None, model, sgd(model), inner_steps=1, density=0.5, chunk=2, ef_decay=0.5) as sync:
        for _ in range(4):
            with torch.no_grad():
                model.weight.add_(torch.tensor([[4.0, 3.0]]))
            info = sync.step()
            moved.append(model.weight.detach().tolist()[0])
    assert moved == [[4, 0], [4, 4.5], [10, 4.5], [10, 9]]
    assert (info.world, info.bytes_sent, info.contributors) == (1, 0, ())


def test_the_error_belongs_to_a_state() -> None:
    """It is kept when a strategy is entered again, and forgotten with another state."""
    model = make_small(0)
    inner = sgd(model)
    sync = SparseLoCo(None, model, inner, inner_steps=1)
    (fragment,) = sync._training.model.fragments
    with sync:
        learn(sync, model, inner, 0)
    error = fragment.residual
    assert error is not None
    assert error.any()
    with sync:
        assert error.any()
    sync.load_global_state_dict(sync.global_state_dict())
    assert not error.any()


# ---- arguments ----


@at_each_rank(3)
def test_other_settings_are_refused(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> str:
        model = make_small(0)
        try:
            with SparseLoCo(run, model, sgd(model), aggregate="mean" if number == 1 else "mean_present"):
                return ""
        except ValueError as error:
            return str(error)

    refused = [text for text in peers(3, main) if text]
    assert refused
    assert all(text.startswith("aggregate (0: mean_present, 1: mean) is ") for text in refused)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"density": 0}, ValueError, "density is 0; allowed: above 0, at most 1"),
        ({"density": 1.5}, ValueError, "density is 1.5"),
        ({"density": float("nan")}, ValueError, "density is nan"),
        ({"density": "all"}, TypeError, "density is 'all'"),
        ({"chunk": 0}, ValueError, "chunk is 0; allowed: 1 to "),
        ({"chunk": 4097}, ValueError, "chunk is 4097; allowed: 1 to 4096"),
        ({"chunk": 1.5}, TypeError, "chunk is 1.5"),
        ({"ef_decay": -0.1}, ValueError, "ef_decay is -0.1; allowed: 0 to 1"),
        ({"ef_decay": None}, TypeError, "ef_decay is None"),
        ({"outer_lr": 0}, ValueError, "lr is 0.0; allowed: a finite number above 0"),
        ({"aggregate": "median"}, ValueError, "aggregate is 'median'; allowed: 'mean_present', 'mean'"),
        ({"aggregate": ["mean"]}, ValueError, "aggregate is ['mean']"),
        ({"clip_to_median": 1}, TypeError, "clip_to_median is 1; allowed: a bool"),
        ({"inner_steps": 0}, ValueError, "inner_steps is 0"),
        ({"minimum_world": -1}, ValueError, "minimum_world is -1"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    model = make_small(0)
    with pytest.raises(kind, match=re.escape(text)):
        SparseLoCo(None, model, sgd(model), **options)
