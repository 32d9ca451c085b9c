"""Strategies that users write: the one of docs/strategies.md as it stands there, and what goes wrong.

The names of all are TrimmedMean, HeavyBall (Averaging, with state) and ClippedMean (Gathering, with an error of each
peer); test_torch_every_strategy.py has the latter two among all strategies.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest
from conftest import LIMIT
from lockstep import sim
from lockstep.types import PeerId
from support import Peers

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import LocalSGD  # noqa: E402
from lockstep.train import Averaging, Contribution, Gathering, LocalTraining, Round, Wire  # noqa: E402
from own_exchanges import ClippedMean, HeavyBall  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

DOCS = Path(__file__).parents[2] / "docs" / "strategies.md"
needs_docs = pytest.mark.skipif(not DOCS.exists(), reason="the documents are not here: an installed package")

F = np.float32
STEPS, ROUNDS = 2, 12


def documented() -> dict[str, Any]:
    """The names that the example of the documents defines."""
    text = DOCS.read_text()
    strategy, its_test = re.findall(
        r"```python\n(.*?)```", text[text.index("## Write your own") : text.index("## Data")], re.DOTALL
    )
    names: dict[str, Any] = {"lockstep": lockstep, "make_model": parts, "loss": loss_of}
    exec(compile(strategy, str(DOCS), "exec"), names)
    names["its_test"] = compile(its_test, str(DOCS), "exec")
    return names


def loss_of(model: Any) -> Any:
    x = torch.arange(28.0).view(4, 7) / 28
    return (model(x) - x[:, :5]).square().mean()


def parts() -> tuple[Any, Any]:
    model = torch.nn.Linear(7, 5)
    with torch.no_grad():
        model.weight.copy_(torch.arange(35.0).view(5, 7) / 35)
        model.bias.zero_()
    return model, torch.optim.SGD(model.parameters(), lr=0.25)


def learn(model: Any, inner: Any, seed: int) -> None:
    x = torch.randn(4, 7, generator=torch.Generator().manual_seed(seed))
    inner.zero_grad()
    (model(x) - x[:, :5]).square().mean().backward()
    inner.step()


def flat(model: Any) -> Any:
    return np.concatenate([parameter.detach().numpy().reshape(-1) for parameter in model.parameters()])


# ---- the example of the documents ----


def about(outer_step: int = 0) -> Round:
    return Round(outer_step, PeerId(bytes(16)), None)


@needs_docs
def test_the_documented_test_runs() -> None:
    names = documented()
    exec(names["its_test"], names)


@needs_docs
def test_the_documented_exchange_needs_no_run() -> None:
    exchange = documented()["TrimmedMean"](1)
    theta = np.array([1, 2], F)
    given = [[1, 0], [2, -50], [3, 1], [900, 2]]
    contributions = [Contribution(PeerId(bytes([n] * 16)), np.array(one, F), None) for n, one in enumerate(given)]
    exchange.apply(theta, contributions, about())
    assert theta.tolist() == [1 - 2.5, 2 - 0.5]
    assert exchange.most_bytes(2) == exchange.contribution(np.zeros(2, F), about()).nbytes


def swarm_loop(run: lockstep.Communicator, names: dict[str, Any], told: list[Any]) -> lockstep.State:
    model, inner = parts()
    exchange = names["TrimmedMean"](1)
    with LocalTraining(run, model, inner, exchange, inner_steps=STEPS, check_every=1) as strategy:
        while strategy.outer_step < ROUNDS:
            run.spend(0.3)
            learn(model, inner, int.from_bytes(run.id[:4], "big") + strategy.inner_step)
            info = strategy.step()
            if info.outer:
                told.append((info.outer_step, info.contributors, flat(model).tobytes()))
    return lockstep.State({"theta": flat(model)}, revision=strategy.outer_step)


@needs_docs
@pytest.mark.parametrize("seed", range(4))
def test_the_documented_strategy_computes_its_equation_under_churn(seed: int) -> None:
    told: list[Any] = []
    sim.Swarm(peers=4, churn=True, seed=seed).run(swarm_loop, documented(), told, shrink=False)
    rounds: dict[int, tuple[Any, ...]] = {}
    for outer, *bits in told:
        assert rounds.setdefault(outer, tuple(bits)) == tuple(bits), f"outer step {outer} differs between peers"
    assert sorted(rounds) == list(range(1, ROUNDS + 1))
    model, _ = parts()
    theta = flat(model)
    for outer, (members, bits) in sorted(rounds.items()):
        progress = []
        for peer in members:
            model, inner = parts()
            torch.nn.utils.vector_to_parameters(torch.from_numpy(theta.copy()), model.parameters())
            for step in range((outer - 1) * STEPS, outer * STEPS):
                learn(model, inner, int.from_bytes(peer[:4], "big") + step)
            progress.append(theta - flat(model))
        cut = min(1, (len(members) - 1) // 2)
        kept = np.sort(progress, axis=0)[cut : len(members) - cut]
        theta = theta - sum(kept[1:], kept[0]) / F(len(kept))
        assert bits == theta.tobytes(), f"outer step {outer} is not that of the equation"


PROGRAM = """
import hashlib, os, sys
import lockstep, torch
exec(compile(open(sys.argv[1]).read(), "own.py", "exec"))
victim, torch_threads = int(sys.argv[4]), torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Linear(7, 5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with lockstep.connect(sys.argv[2], founders=3, wait=False) as run:
    strategy = strategy_of(run, model, optimizer)
    with strategy:
        rank, first = run.rank, strategy.inner_step
        while strategy.outer_step < 5:
            if rank == victim and strategy.outer_step == 2:
                os.kill(os.getpid(), 9)
            x = torch.randn(4, 7, generator=torch.Generator().manual_seed(100 * rank + strategy.inner_step))
            (model(x) - x[:, :5]).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            info = strategy.step()
    bits = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    print(info.world, hashlib.sha256(bits).hexdigest())
"""


@needs_docs
@pytest.mark.parametrize("victim", range(3))
def test_the_documented_strategy_goes_on_when_a_process_is_killed(
    victim: int, tmp_path: Path, coordinator: lockstep.Coordinator
) -> None:
    text = DOCS.read_text()
    own = tmp_path / "own.py"
    own.write_text(text[text.index("```python", text.index("## Write your own")) + 10 :].partition("```")[0])
    command = [sys.executable, "-c", PROGRAM, str(own), coordinator.address, "", str(victim)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        ends = [(process.communicate(timeout=4 * LIMIT)[0], process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    killed = [code for _, code in ends if code == -signal.SIGKILL]
    others = {said for said, code in ends if code == 0}
    assert len(killed) == 1
    assert len(others) == 1, "the survivors have other parameters"
    assert others.pop().startswith("2 ")


# ---- beside the strategies that are there ----


def test_a_plain_average_has_the_bits_of_local_sgd(peers: Peers) -> None:
    class Plain(Averaging):
        def contribution(self, progress: Any, about: Round) -> Any:
            return progress

        def apply(self, theta: Any, average: Any, about: Round) -> None:
            theta -= average

    def main(run: Any, number: int) -> list[bytes]:
        out = []
        for kind in ("own", "theirs"):
            model, inner = parts()
            strategy = (
                LocalTraining(run, model, inner, Plain(), inner_steps=STEPS, wire="int8")
                if kind == "own"
                else LocalSGD(run, model, inner, inner_steps=STEPS, wire="int8")
            )
            with strategy:
                for step in range(3 * STEPS):
                    learn(model, inner, 100 * run.rank + step)
                    strategy.step(1.0 + run.rank)
            out.append(flat(model).tobytes())
        return out

    results = peers(3, main)
    assert len({bits for one in results for bits in one}) == 1


def test_state_is_shared_with_newcomers_and_saved() -> None:
    model, inner = parts()
    with LocalTraining(None, model, inner, HeavyBall(0.5), inner_steps=STEPS) as strategy:
        for step in range(3 * STEPS):
            learn(model, inner, step)
            strategy.step()
        saved = strategy.global_state_dict()
    assert set(saved["exchange"]) == {"v"}
    other_model, other_inner = parts()
    exchange = HeavyBall(0.5)
    other = LocalTraining(None, other_model, other_inner, exchange, inner_steps=STEPS)
    other.load_global_state_dict(saved)
    assert exchange.v.tobytes() == saved["exchange"]["v"].numpy().tobytes()
    with other, strategy:
        for step in range(3 * STEPS, 5 * STEPS):
            learn(model, inner, step)
            strategy.step()
            learn(other_model, other_inner, step)
            other.step()
    assert flat(model).tobytes() == flat(other_model).tobytes()
    for wrong in ({}, {"v": saved["exchange"]["v"].double()}, {**saved["exchange"], "w": saved["exchange"]["v"]}):
        with pytest.raises((KeyError, ValueError), match="exchange"):
            other.load_global_state_dict({**saved, "exchange": wrong})


def test_what_a_peer_keeps_for_itself_is_forgotten_with_other_parameters() -> None:
    model, inner = parts()
    exchange = ClippedMean(1e-4)
    strategy = LocalTraining(None, model, inner, exchange, inner_steps=1)
    before = strategy.global_state_dict()
    with strategy:
        learn(model, inner, 1)
        strategy.step()
    assert np.any(exchange.error)
    strategy.load_global_state_dict(before)
    assert not np.any(exchange.error)


# ---- what goes wrong ----


class Bad(Gathering):
    """Returns what it was given."""

    def __init__(self, gives: Any, most: int = 1 << 20) -> None:
        self.gives = gives
        self.most = most

    def most_bytes(self, size: int) -> int:
        return self.most

    def contribution(self, progress: Any, about: Round) -> Any:
        return self.gives

    def apply(self, theta: Any, contributions: Any, about: Round) -> None:
        theta -= 1


class BadAverage(Averaging):
    def __init__(self, gives: Any) -> None:
        self.gives = gives

    def contribution(self, progress: Any, about: Round) -> Any:
        return self.gives

    def apply(self, theta: Any, average: Any, about: Round) -> None:
        theta -= 1


@pytest.mark.parametrize(
    ("exchange", "error", "match"),
    [
        (Bad([1, 2]), TypeError, "an object of type list; allowed: an np.ndarray"),
        (Bad(np.array([None])), TypeError, "an array of object with the shape"),
        (Bad(np.zeros(100), 799), ValueError, "800 bytes; allowed: most_bytes.., which are 799"),
        (BadAverage(np.zeros(3)), TypeError, "an array of float64 with the shape .3,.; allowed: a float32 array"),
        (BadAverage(np.zeros((3, 3), F)), TypeError, "float32 with the shape .3, 3."),
    ],
)
def test_a_bad_contribution_is_told_before_anything_is_sent(exchange: Any, error: type[Exception], match: str) -> None:
    model, inner = parts()
    before = flat(model).tobytes()
    with pytest.raises(error, match=match), LocalTraining(None, model, inner, exchange, inner_steps=1) as strategy:
        strategy.step()
    assert flat(model).tobytes() == before


def test_a_peer_that_sends_another_type_is_named_on_all_peers(peers: Peers) -> None:
    def main(run: Any, number: int) -> str:
        model, inner = parts()
        exchange = Bad(np.zeros(3, np.uint8) if run.rank == 1 else np.zeros(2, np.float64))
        before = flat(model).tobytes()
        with pytest.raises(lockstep.Mismatch) as info, LocalTraining(run, model, inner, exchange, inner_steps=1) as one:
            one.step()
        assert flat(model).tobytes() == before
        return str(info.value)

    (said,) = set(peers(2, main))
    assert "|u1" in said
    assert "<f8" in said


def test_arguments() -> None:
    model, inner = parts()
    with pytest.raises(TypeError, match="derived from Averaging or Gathering"):
        LocalTraining(None, model, inner, object())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="error_feedback"):
        LocalTraining(None, model, inner, HeavyBall(0.5), wire=Wire("int8", "int8", error_feedback=True))
    with pytest.raises(ValueError, match="wire is for averages"):
        LocalTraining(None, model, inner, ClippedMean(1), wire="int8")

    exchange = HeavyBall(0.5)
    LocalTraining(None, model, inner, exchange)
    with pytest.raises(ValueError, match="belongs to another strategy"):
        LocalTraining(None, model, inner, exchange)
    with pytest.raises(TypeError, match=r"most_bytes\(\) is 1.5"):
        LocalTraining(None, model, inner, Bad(np.zeros(1), 1.5))  # type: ignore[arg-type]


def read_only() -> Any:
    array = np.zeros(3, F)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("state", "match"),
    [
        (None, r"state\(\) returns an object of type NoneType"),
        ({"v": [0.0]}, r"state\(\)\['v'\] is an object of type list"),
        ({"v": np.zeros(3, complex)}, "complex128"),
        ({1: np.zeros(3)}, "the name 1; allowed: a str"),
        ({"v": np.zeros((4, 4))[:, 1]}, "not contiguous"),
        ({"v": read_only()}, "read-only"),
    ],
)
def test_a_bad_state_is_refused(state: Any, match: str) -> None:
    class With(HeavyBall):
        def state(self, size: int) -> Any:
            return state

    model, inner = parts()
    with pytest.raises((TypeError, ValueError), match=match):
        LocalTraining(None, model, inner, With(0.5))


def test_an_apply_that_changes_nothing_in_place_is_told() -> None:
    class Rebinds(HeavyBall):
        def apply(self, theta: Any, average: Any, about: Round) -> None:
            self.v = F(self.mu) * self.v + average

    class Returns(HeavyBall):
        def apply(self, theta: Any, average: Any, about: Round) -> Any:
            return theta - average

    for exchange, match in ((Rebinds(0.5), "apply.. has replaced v"), (Returns(0.5), "apply.. returns an array")):
        model, inner = parts()
        strategy = LocalTraining(None, model, inner, exchange, inner_steps=1)
        with pytest.raises(TypeError, match=match), strategy:
            strategy.step()


def test_weights_come_from_all_peers_or_from_none(peers: Peers) -> None:
    def main(run: Any, number: int) -> None:
        model, inner = parts()
        exchange = ClippedMean(0.5)
        strategy = LocalTraining(run, model, inner, exchange, inner_steps=1)
        with pytest.raises(lockstep.InvalidArgument, match=r"with a weight, and peer .* without"), strategy:
            strategy.step(1.0 if run.rank == 0 else None)

    peers(2, main)


@pytest.mark.parametrize("value", [float("nan"), "1", [1], None])
def test_a_setting_is_a_number(value: Any, peers: Peers) -> None:
    def main(run: Any, number: int) -> None:
        model, inner = parts()
        with (
            pytest.raises((TypeError, ValueError), match=r"settings\(\)\['mu'\] is"),
            LocalTraining(run, model, inner, HeavyBall(value)),
        ):
            pass

    peers(1, main)


def test_settings_of_the_exchange_hide_none_of_the_strategy(peers: Peers) -> None:
    class Hides(HeavyBall):
        def settings(self) -> Any:
            return {"inner_steps": np.float32(1)}

    def main(run: Any, number: int) -> str:
        model, inner = parts()
        try:
            with LocalTraining(run, model, inner, Hides(0.5), inner_steps=2 + number):
                return ""
        except (ValueError, lockstep.Error) as error:
            run.close()
            return str(error)

    assert any("inner_steps" in said for said in peers(2, main))


@pytest.mark.parametrize("other", [HeavyBall(0.25), ClippedMean(0.5)], ids=["settings", "exchange"])
def test_a_peer_with_another_exchange_or_other_settings_is_refused(other: Any, peers: Peers) -> None:
    def main(run: Any, number: int) -> str:
        model, inner = parts()
        exchange = HeavyBall(0.5) if run.rank == 0 else other
        try:
            with LocalTraining(run, model, inner, exchange):
                return ""
        except (ValueError, lockstep.Error) as error:
            run.close()  # the other one waits for it
            return str(error)

    assert any("allowed: equal settings" in said or "tensors of the shared state" in said for said in peers(2, main))
