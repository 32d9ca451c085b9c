"""Bugs that users make, each in a loop that syncs at the end of every step, and what a Swarm says of them.

After every sync all members agree, so nothing else would show most of these bugs.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

import lockstep
import numpy as np
import pytest
from lockstep import sim

STEPS = 12
OTHERS = {"crashes": 2, "joins": 2, "until": 5.0}


class Trainer:
    """The loop of the guide, with momentum and a position in the data. A bug is a method that overrides a part."""

    def __init__(self, run: lockstep.Communicator) -> None:
        self.run = run
        self.state = lockstep.State({"weights": np.zeros(20), "momentum": np.zeros(20), "cursor": 0, "step": 0})

    def train(self) -> lockstep.State:
        self.run.sync(self.state)
        while self.state["step"] < STEPS:
            self.run.spend(0.3)
            self.step()
            self.count()
            self.admit()
            self.sync()
        return self.state

    def gradient(self) -> np.ndarray[Any, Any]:
        return np.full(20, self.state["step"] + 1.0) + self.run.rank

    def step(self) -> None:
        gradient = self.gradient()
        result = self.run.all_reduce(gradient, op="avg")
        self.update(gradient)
        self.state["cursor"] += result.world_size

    def update(self, gradient: np.ndarray[Any, Any]) -> None:
        self.state["momentum"] *= 0.9
        self.state["momentum"] += gradient
        self.state["weights"] -= 0.1 * self.state["momentum"]

    def count(self) -> None:
        self.state["step"] += 1
        self.state.revision += 1

    def admit(self) -> None:
        self.run.admit()

    def sync(self) -> None:
        self.run.sync(self.state)


class AddsALittle(Trainer):
    def update(self, gradient: np.ndarray[Any, Any]) -> None:
        super().update(gradient)
        if self.run.rank == 2:
            self.state["weights"] += 0.001


class ForgetsAdmit(Trainer):
    def admit(self) -> None:
        if self.state["step"] % 2 or self.run.rank != 1:  # an early `continue` in one program
            super().admit()


class LocalWorld(Trainer):
    def step(self) -> None:
        gradient = self.gradient()
        self.run.all_reduce(gradient, op="sum")
        self.run.spend(0.1 * self.run.rank)  # hosts are not equally fast: the members may be others now
        self.update(gradient / len(self.run.members()))


class Clock(Trainer):
    def update(self, gradient: np.ndarray[Any, Any]) -> None:
        rate = 1.0 if self.run.now < 2.0 else 0.1  # decays after a while
        super().update(rate * gradient)


class OrderOfData(Trainer):
    def __init__(self, run: lockstep.Communicator) -> None:
        super().__init__(run)
        self.known: list[lockstep.PeerId] = []  # the readers of the data, in the order in which they came

    def step(self) -> None:
        self.known += [peer for peer in self.run.members() if peer not in self.known]
        gradient = self.gradient()
        self.run.all_reduce(gradient, op="avg")
        self.update(gradient)
        self.state["cursor"] += len(self.known)  # a newcomer knows others than the members


class RevisionNotBumped(Trainer):
    def count(self) -> None:
        self.state["step"] += 1
        if self.run.rank == 0:  # beside the line that logs
            self.state.revision += 1


class ExceptionSwallowed(Trainer):
    def update(self, gradient: np.ndarray[Any, Any]) -> None:
        try:
            if self.run.rank == 1 and self.state["step"] == 4:
                raise OSError("no space left on device")  # of a checkpoint
            super().update(gradient)
        except OSError:
            pass


class DesyncSwallowed(AddsALittle):
    def sync(self) -> None:
        with contextlib.suppress(lockstep.Error):  # "the network again"
            super().sync()


class StateChangedDuringTheSync(Trainer):
    def sync(self) -> None:
        syncing = self.run.sync_async(self.state)
        if self.run.rank == 1:
            self.state["weights"] *= 0.99  # weight decay, of the next step
        syncing.wait()


class RankDependentBranch(Trainer):
    def update(self, gradient: np.ndarray[Any, Any]) -> None:
        super().update(gradient)
        if self.run.rank == 0:
            self.state["weights"] /= max(1.0, float(np.linalg.norm(self.state["weights"])))


class SeedPerProcess(Trainer):
    def __init__(self, run: lockstep.Communicator) -> None:
        super().__init__(run)
        self.noise = np.random.default_rng(list(bytes.fromhex(str(run.id))))

    def update(self, gradient: np.ndarray[Any, Any]) -> None:
        super().update(gradient)
        self.state["weights"] += self.noise.normal(0, 1e-6, 20)


class SavedTooEarly(Trainer):
    def step(self) -> None:
        gradient = self.gradient()
        reducing = self.run.all_reduce_async(gradient, op="avg")
        self.state["momentum"] *= 0.9
        self.state["momentum"] += gradient  # its own yet, or that of all
        self.state["cursor"] += reducing.wait().world_size
        self.state["weights"] -= 0.1 * gradient


def main(run: lockstep.Communicator, kind: type[Trainer]) -> lockstep.State:
    return kind(run).train()


def found(kind: type[Trainer], seeds: int, conditions: dict[str, Any]) -> sim.SwarmFailure:
    for seed in range(seeds):
        try:
            sim.Swarm(peers=4, seed=seed, **conditions).run(main, kind)
        except sim.SwarmFailure as failure:
            return failure
    pytest.fail(f"not found within {seeds} seeds")


def differed(revision: str, host: str, where: str) -> str:
    return (
        rf"^states at .* s: .*state of revision {revision} differed on {host} in {where}.* overwritten with that of \w"
    )


WEIGHTS = r"'weights' \(1 of 2 pieces\)"
MOMENTUM = r"'momentum' \(1 of 2 pieces\)"
BOTH = r"'weights' and 1 more \(2 of 2 pieces\)"
BEHIND = r"^states at .*state of revision 0 on d was behind revision 1 and was overwritten with that of a"
UNADMITTED = r"^program at .*CohortClosed: . did not launch tag 0 before the admission"
CALM: dict[str, Any] = {}
CHURN: dict[str, Any] = {"churn": OTHERS}
WORLD: dict[str, Any] = {"net": {"profile": "world"}}


@pytest.mark.parametrize(
    ("kind", "seeds", "conditions", "text"),
    [  # seeds: the Swarm finds the bug within so many; in brackets: how many it needs
        pytest.param(AddsALittle, 1, CALM, differed("1", "d", WEIGHTS), id="adds a little [1]"),
        pytest.param(ForgetsAdmit, 1, CALM, UNADMITTED, id="forgets admit [1]"),
        pytest.param(LocalWorld, 10, CHURN, differed(r"\d+", r"\w", BOTH), id="local world [1]"),
        pytest.param(Clock, 60, WORLD, differed(r"\d+", r"\w", BOTH), id="clock [16]"),
        pytest.param(OrderOfData, 20, CHURN, differed(r"\d+", r"\w", "its values"), id="order of data [4]"),
        pytest.param(RevisionNotBumped, 1, CALM, BEHIND, id="revision not bumped [1]"),
        pytest.param(ExceptionSwallowed, 1, CALM, differed("5", "b", BOTH), id="exception swallowed [1]"),
        pytest.param(DesyncSwallowed, 1, CALM, differed("1", "d", WEIGHTS), id="error of the sync swallowed [1]"),
        pytest.param(StateChangedDuringTheSync, 1, CALM, differed("1", "b", WEIGHTS), id="changed while synced [1]"),
        pytest.param(RankDependentBranch, 1, CALM, differed("1", "a", WEIGHTS), id="rank-dependent branch [1]"),
        pytest.param(SeedPerProcess, 1, CALM, differed("1", r"\w", WEIGHTS), id="random seed per process [1]"),
        pytest.param(SavedTooEarly, 1, CALM, differed("1", r"\w", MOMENTUM), id="saved before the reduction ended [1]"),
    ],
)
def test_the_swarm_finds_the_bug(kind: type[Trainer], seeds: int, conditions: dict[str, Any], text: str) -> None:
    failure = found(kind, seeds, conditions)
    assert re.search(text, str(failure)), str(failure)


def test_the_failure_repeats_and_names_its_cause() -> None:
    failure = found(AddsALittle, 1, CHURN)
    assert failure.kind == "states"
    assert failure.faults == (), "no fault is needed"
    assert isinstance(failure.__cause__, lockstep.Desync)
    with pytest.raises(sim.SwarmFailure, match="state of revision 1 differed on d"):
        sim.Swarm(peers=4, churn=OTHERS, seed=failure.seed, only=failure.only).run(main, AddsALittle)


def test_a_swarm_may_let_repairs_pass() -> None:
    told: list[str] = []

    class Told(AddsALittle):
        def sync(self) -> None:
            told.append(self.run.sync(self.state).state_difference)

    report = sim.Swarm(peers=4, strict=False).run(main, Told)
    assert len(report.values) == 4
    assert len(told) == 4 * STEPS
    assert all("differed on d in 'weights'" in text for text in told), "all members hear of it, each time"


def test_a_sync_of_the_program_speaks_for_itself() -> None:
    raised: list[lockstep.Desync] = []

    class Handles(AddsALittle):
        def sync(self) -> None:
            try:
                self.run.sync(self.state, strict=True)
            except lockstep.Desync as error:
                raised.append(error)

    class Waives(AddsALittle):
        def sync(self) -> None:
            self.run.sync(self.state, strict=False)

    sim.Swarm(peers=4).run(main, Handles)
    assert len(raised) == 4 * STEPS
    sim.Swarm(peers=4).run(main, Waives)


def test_a_right_loop_passes() -> None:
    for seed in range(30):
        report = sim.Swarm(peers=4, churn=OTHERS, seed=seed).run(main, Trainer)
        assert len(report.values) >= 2
