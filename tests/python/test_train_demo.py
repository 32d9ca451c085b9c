"""DeMo and its DCT: every bit is that of a reference in one process, which multiplies integers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest
from lockstep import sim
from support import Peers, at_each_rank

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import strategy_programs as programs  # noqa: E402
import strategy_reference as reference  # noqa: E402
from lockstep.torch import DeMo  # noqa: E402
from lockstep.train.codec.dct import TiledDct, _cosines  # noqa: E402
from test_torch_strategies import NEWCOMER, Peer, Rounds, run_case  # noqa: E402
from test_train_sparse_loco import make_small  # noqa: E402

F = np.float32


pytestmark = pytest.mark.usefixtures("one_torch_thread")


# ---- the transform ----


def tiles_of(matrix: np.ndarray, side: int) -> list[np.ndarray]:
    rows, columns = matrix.shape
    return [
        matrix[top : top + side, left : left + side] for top in range(0, rows, side) for left in range(0, columns, side)
    ]


def transformed(rows: int, columns: int, side: int, values: np.ndarray) -> tuple[TiledDct, np.ndarray]:
    tiled = TiledDct(rows, columns, side)
    coefficients = np.empty_like(values)
    tiled.forward(values, coefficients)
    return tiled, coefficients


def as_tiles(tiled: TiledDct, coefficients: np.ndarray) -> list[bytes]:
    """The coefficients of each tile."""
    found, at = [], 0
    for count, size in tiled.chunks:
        for _ in range(count):
            found.append(coefficients[at : at + size].tobytes())
            at += size
    assert at == coefficients.size
    return found


SHAPES = [(1, 1), (1, 150), (64, 64), (65, 3), (130, 200), (300, 16), (2000, 70)]


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
@pytest.mark.parametrize("side", [64, 7])
@pytest.mark.parametrize("scale", [1.0, 1e-42, 1e38])
def test_the_transform_has_the_bits_of_integers(rows: int, columns: int, side: int, scale: float) -> None:
    generator = np.random.default_rng(rows)
    values = (np.clip(generator.standard_normal(rows * columns), -3, 3) * scale / side).astype(F)
    tiled, coefficients = transformed(rows, columns, side, values)
    wanted = [reference.dct(tile).tobytes() for tile in tiles_of(values.reshape(rows, columns), side)]
    assert sorted(as_tiles(tiled, coefficients)) == sorted(wanted)
    back = np.empty_like(values)
    tiled.backward(coefficients, back)
    for tile, given in zip(tiles_of(back.reshape(rows, columns), side), tiles_of(values.reshape(rows, columns), side)):
        assert tile.tobytes() == reference.inverse_dct(reference.dct(given)).tobytes()
    np.testing.assert_allclose(back, values, rtol=0, atol=1e-3 * np.abs(values).max() + 2e-44)


def test_the_transform_has_golden_bits() -> None:
    """Other CPUs have to give these hashes, too."""
    values = reference.scattered(130 * 150, 7)
    tiled, coefficients = transformed(130, 150, 64, values)
    assert programs.hash_of(coefficients) == "8d3411ad01033ab0"
    tiled.backward(coefficients, values)
    assert programs.hash_of(values) == "387c4238e4ddf53d"


def test_partial_sums_are_integers_that_float64_holds() -> None:
    """Also those of the largest elements that a tile can have, in any order."""
    for count in range(1, 65):
        matrix = _cosines(count)
        assert (matrix == reference.cosines(count)).all()
        largest = max(np.abs(matrix).sum(axis=0).max(), np.abs(matrix).sum(axis=1).max())
        assert largest**2 * 2**16 < 2**53
        np.testing.assert_allclose(matrix @ matrix.T / 2**30, np.eye(count), rtol=0, atol=4e-4)


def test_zeros_stay_zeros() -> None:
    tiled, coefficients = transformed(3, 5, 2, np.zeros(15, F))
    assert not coefficients.any()
    tiled.backward(coefficients, coefficients)
    assert not coefficients.any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_tile_with_a_nan_has_no_number(bad: float) -> None:
    values = np.ones(8, F)
    values[6] = bad
    _, coefficients = transformed(1, 8, 4, values)
    assert np.isfinite(coefficients[:4]).all()
    assert not np.isfinite(coefficients[4:]).any()


# ---- the strategy ----


class Reference:
    """The equations of DeMo. Each peer has an error, which begins with 0."""

    def __init__(self, model: Any, decay: float, topk: int, chunk: int, weight_decay: float) -> None:
        self.shapes = [tuple(p.shape) if p.dim() > 1 else (1, p.numel()) for p in model.parameters()]
        self.decay, self.topk, self.chunk, self.weight_decay = F(decay), topk, chunk, weight_decay
        self.errors: dict[Any, list[np.ndarray]] = {}

    def matrices(self, values: np.ndarray) -> list[np.ndarray]:
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        return [part.reshape(shape) for part, shape in zip(np.split(values, ends), self.shapes)]

    def without_dct(self, coefficients: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        """The matrix whose tiles have these coefficients."""
        matrix, at = np.empty(shape, F), 0
        for tile in tiles_of(matrix, self.chunk):
            tile[:] = reference.inverse_dct(coefficients[at : at + tile.size].reshape(tile.shape))
            at += tile.size
        return matrix

    def sent(self, error: np.ndarray) -> reference.Sent:
        coefficients = [reference.dct(tile).reshape(-1) for tile in tiles_of(error, self.chunk)]
        return reference.sparse(coefficients, lambda length: min(self.topk, length))

    def step(self, theta: np.ndarray, gradients: dict[Any, np.ndarray], lr: float) -> np.ndarray:
        """The parameters after a step. gradients: of the contributors, in the order of their ids."""
        sent: dict[Any, list[reference.Sent]] = {}
        for peer, gradient in gradients.items():
            scaled = self.matrices(F(lr) * gradient)
            before = self.errors.get(peer, [np.zeros(shape, F) for shape in self.shapes])
            errors = [self.decay * old + new for old, new in zip(before, scaled)]
            sent[peer] = [self.sent(error) for error in errors]
            self.errors[peer] = [
                error - self.without_dct(one.values, error.shape) for error, one in zip(errors, sent[peer])
            ]
        averages = [reference.average_sparse(list(tensor), [1.0] * len(sent)) for tensor in zip(*sent.values())]
        signs = [np.sign(self.without_dct(one, shape)).reshape(-1) for one, shape in zip(averages, self.shapes)]
        return theta * F(1 - lr * self.weight_decay) - F(lr) * np.concatenate(signs)


def test_every_bit_is_that_of_the_reference(tmp_path: Path, coordinator: lockstep.Coordinator) -> None:
    """A newcomer enters in round 3, and a peer dies in the middle of the all-gather of round 4."""
    rounds = Rounds("demo", run_case("demo", coordinator.address, tmp_path))
    theta = rounds.first_parameters()
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    equations = Reference(peers[0].model, **programs.DEMO)
    for number, members in enumerate(rounds.members):
        gradients = {}
        for member in sorted(members, key=lambda member: rounds.told[member].begin[0]):
            reference.unflatten(peers[member].model, theta)
            gradients[member] = peers[member].gradient(number)
        theta = equations.step(theta, gradients, 0.02 / (1 + number))
        rounds.check(number + 1, theta, None, None)
    rounds.check_end(theta)


def learn(sync: Any, model: Any, seed: int) -> float:
    generator = torch.Generator().manual_seed(1000 * seed + sync.inner_step)
    x = torch.randn(8, 6, generator=generator)
    model.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    sync.step()
    return float(loss.detach())


def swarm_loop(run: lockstep.Communicator) -> lockstep.State:
    """Training under churn; states that it returns must be equal on all peers of one revision."""
    model = make_small()
    with DeMo(run, model, lr=0.01, topk=4, chunk=4) as sync:
        while sync.inner_step < 25:
            run.spend(0.5)
            learn(sync, model, run.id[0])
        return lockstep.State({"parameters": reference.flat(model)}, revision=sync.outer_step)


def test_a_swarm_under_churn_stays_equal() -> None:
    happened = 0
    for seed in range(3):
        report = sim.Swarm(peers=4, churn=True, seed=seed).run(swarm_loop)
        assert len({(value.revision, value["parameters"].tobytes()) for value in report.values}) == 1
        happened += len(report.happenings)
    assert happened > 0


def test_peers_learn_and_are_equal(peers: Peers) -> None:
    def main(run: Any, number: int) -> tuple[bytes, bool]:
        model = make_small(number)
        with DeMo(run, model, lr=0.05, topk=8, chunk=8) as sync:
            losses = []
            for step in range(120):
                sync.lr = 0.05 * (1 - step / 120)
                losses.append(learn(sync, model, number))
            assert (sync.inner_step, sync.outer_step, sync.world) == (120, 120, 2)
        return reference.flat(model).tobytes(), sum(losses[-5:]) < 0.2 * sum(losses[:5])

    first, second = peers(2, main)
    assert first == second
    assert first[1]


def test_alone_is_a_world_of_one(coordinator: lockstep.Coordinator) -> None:
    def train(run: Any) -> bytes:
        model = make_small()
        with DeMo(run, model, lr=0.05, weight_decay=0.1) as sync:
            for _ in range(5):
                learn(sync, model, 0)
        return reference.flat(model).tobytes()

    with lockstep.connect(coordinator.address, listen_host="127.0.0.1") as run:
        assert train(run) == train(None)


@at_each_rank(2)
def test_other_rates_are_refused_by_all(peers: Peers) -> None:
    def main(run: Any, number: int) -> tuple[lockstep.PeerId, str]:
        model = make_small()
        with DeMo(run, model, lr=0.5 if number else 0.25) as sync:
            before = reference.flat(model)
            with pytest.raises(lockstep.InvalidArgument) as raised:
                learn(sync, model, 0)
            assert sync.global_state_dict()["outer_step"] == 0
            assert reference.flat(model).tobytes() == before.tobytes()
            return run.id, str(raised.value)

    told = peers(2, main)
    rates = {str(told[0][0]): "0.25", str(told[1][0]): "0.5"}
    one, other = sorted(rates)
    wanted = f"the rate of peer {one} is {rates[one]}, that of peer {other} is {rates[other]}; allowed: equal rates"
    assert [text for _, text in told] == [wanted] * 2


@pytest.mark.parametrize(
    "laid_out",
    [lambda given: given.t().contiguous().t(), lambda given: torch.stack([given, given], -1)[..., 0]],
    ids=["transposed", "every other element"],
)
def test_the_layout_of_a_gradient_changes_no_bit(laid_out: Any) -> None:
    """Of a matrix with tiles of all four sizes, whose gradient native code cannot read where it lies."""

    def trained(layout: Any) -> bytes:
        model = torch.nn.Linear(10, 14, bias=False)
        with torch.no_grad():
            model.weight.copy_(torch.from_numpy(reference.scattered(140, 3)).view(14, 10))
        with DeMo(None, model, lr=0.125, topk=3, chunk=4) as sync:
            for step in range(3):
                model.weight.grad = layout(torch.from_numpy(reference.scattered(140, 4 + step)).view(14, 10))
                sync.step()
        return reference.flat(model).tobytes()

    assert not laid_out(torch.ones(14, 10)).is_contiguous()
    assert trained(laid_out) == trained(lambda given: given)


def test_a_missing_gradient_counts_as_zeros() -> None:
    model = make_small()
    before = reference.flat(model)
    with DeMo(None, model, lr=0.5) as sync:
        assert sync.step().outer
    assert reference.flat(model).tobytes() == before.tobytes()


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"lr": -1}, ValueError, "lr is -1; allowed: a finite number of at least 0"),
        ({"lr": math.inf}, ValueError, "lr is inf"),
        ({"lr": "high"}, TypeError, "lr is 'high'"),
        ({"decay": 2}, ValueError, "decay is 2; allowed: 0 to 1"),
        ({"topk": 0}, ValueError, "topk is 0"),
        ({"topk": 5000}, ValueError, "topk is 5000; allowed: 1 to 4096"),
        ({"chunk": 65}, ValueError, "chunk is 65; allowed: 1 to 64"),
        ({"weight_decay": -1}, ValueError, "weight_decay is -1; allowed: a finite number of at least 0"),
        ({"model": None}, TypeError, "model is of type NoneType"),
    ],
)
def test_arguments_are_checked(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        DeMo(None, **{"model": make_small(), "lr": 0.1, **options})
    sync = DeMo(None, make_small(), lr=0.1)
    with pytest.raises(ValueError, match="lr is -2"):
        sync.lr = -2
