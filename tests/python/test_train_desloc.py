"""DES-LOC in one process: alone, in threads, from a checkpoint, and in a simulated swarm."""

from __future__ import annotations

from typing import Any

import lockstep
import pytest
from lockstep import sim
from support import Peers

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import DESLOC, DiLoCo, LocalSGD, Wire  # noqa: E402
from lockstep.train.desloc import _DesyncedRounds  # noqa: E402

MOMENTS = ("exp_avg", "exp_avg_sq")

pytestmark = pytest.mark.usefixtures("one_torch_thread")

torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])  # the first optimizer imports for seconds: not in a test


def parts(seed: int = 0) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Linear(4, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def trains(sync: Any, model: Any, inner: Any, until_step: int, seed: int = 0) -> None:
    while sync.inner_step < until_step:
        generator = torch.Generator().manual_seed(1000 * seed + sync.inner_step)
        inner.zero_grad()
        model(torch.randn(8, 4, generator=generator)).square().mean().backward()
        inner.step()
        sync.step()


def moments_of(model: Any, inner: Any) -> dict[str, list[float]]:
    return {
        name: torch.cat([inner.state[p][name].reshape(-1) for p in model.parameters()]).tolist() for name in MOMENTS
    }


def test_alone_the_moments_are_those_of_the_optimizer() -> None:
    results = []
    for strategy in (LocalSGD, DESLOC):
        model, inner = parts()
        with strategy(None, model, inner, inner_steps=2) as sync:
            trains(sync, model, inner, 8)
        results.append((model.weight.detach().tolist(), moments_of(model, inner)))
    assert results[0] == results[1]


def test_each_moment_has_its_period(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> list[dict[str, list[float]]]:
        model, inner = parts(number)
        seen = []
        periods = {"exp_avg": 1, "exp_avg_sq": 2}
        with DESLOC(run, model, inner, inner_steps=2, moments=periods) as sync:
            for step in (2, 4, 6):
                trains(sync, model, inner, step, seed=number)
                seen.append(moments_of(model, inner))
        return seen

    first, second = peers(2, main)
    assert [one["exp_avg"] == other["exp_avg"] for one, other in zip(first, second)] == [True] * 3
    assert [one["exp_avg_sq"] == other["exp_avg_sq"] for one, other in zip(first, second)] == [False, True, False]


def test_what_is_sent_follows_the_periods(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> list[int]:
        model, inner = parts()
        with DESLOC(run, model, inner, inner_steps=1, moments={"exp_avg": 2, "exp_avg_sq": 3}) as sync:
            sent = []
            for _ in range(6):
                inner.step()
                sent.append(sync.step().bytes_sent)
        return sent

    sent, _ = peers(2, main)
    plain = sent[0]
    extra = [one - plain for one in sent]
    assert extra[0] == extra[4] == 0
    assert extra[1] == extra[2] == extra[3] == extra[5] // 2 > 0


def test_a_checkpoint_has_the_moments() -> None:
    model, inner = parts()
    with DESLOC(None, model, inner, inner_steps=2, moments={"exp_avg": 1, "exp_avg_sq": 1}) as sync:
        trains(sync, model, inner, 4)
        state = sync.global_state_dict()
        trains(sync, model, inner, 8)
    again, second = parts(7)
    other = DESLOC(None, again, second, inner_steps=2, moments={"exp_avg": 1, "exp_avg_sq": 1})
    other.load_global_state_dict(state)
    with other:
        assert second.state[again.weight]["step"] == 4
        trains(other, again, second, 8)
    assert torch.equal(model.weight, again.weight)
    with pytest.raises(KeyError, match="the state has no moments"):
        other.load_global_state_dict(DiLoCo(None, again, second).global_state_dict())


def test_misuse_is_named() -> None:
    model, inner = parts()
    with pytest.raises(TypeError, match="moments is 3; allowed: periods by name"):
        DESLOC(None, model, inner, moments=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="period of exp_avg is 0"):
        DESLOC(None, model, inner, moments={"exp_avg": 0})
    with pytest.raises(ValueError, match="moments_wire has error feedback"):
        DESLOC(None, model, inner, moments_wire=Wire("e3m0", "int8", error_feedback=True))
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with pytest.raises(ValueError, match="no moment exp_avg; allowed: of momentum_buffer"), DESLOC(None, model, sgd):
        pass
    with DESLOC(None, model, sgd, inner_steps=1, moments={"momentum_buffer": 1}) as sync:
        trains(sync, model, sgd, 2)
        assert set(sync.global_state_dict()["moments"]) == {"momentum_buffer"}


def swarm_loop(run: lockstep.Communicator, seen: dict[int, set[bytes]]) -> lockstep.State:
    model, inner = parts()
    with DESLOC(run, model, inner, inner_steps=2, minimum_world=4, check_every=1) as sync:
        ages = {int(state["step"]) - sync.inner_step for state in inner.state.values()}
        assert ages <= {0} or ages == {2}, "moments are those of the last outer step, or of the end of a round"
        while sync.inner_step < 40:
            run.spend(0.4)
            trains(sync, model, inner, sync.inner_step + 1, seed=run.id[0])
            moments = sync.global_state_dict()["moments"]
            tensors = [tensor.numpy().tobytes() for group in moments.values() for tensor in group.values()]
            if sync.inner_step % 2 == 0:
                seen.setdefault(sync.inner_step, set()).add(b"".join(tensors))
        return lockstep.State({"step": sync.outer_step}, revision=sync.outer_step)


def test_under_churn_all_have_the_same_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    before = _DesyncedRounds.before_newcomers
    monkeypatch.setattr(_DesyncedRounds, "before_newcomers", lambda self: (waits.append(1), before(self)))
    for seed in range(10):
        seen: dict[int, set[bytes]] = {}
        sim.Swarm(peers=4, churn=True, seed=seed).run(swarm_loop, seen, shrink=False)
        assert sorted(seen) == list(range(2, 41, 2))
        assert all(len(bits) == 1 for bits in seen.values())
    assert waits, "there were never too few members"
