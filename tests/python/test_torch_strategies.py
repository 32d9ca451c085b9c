"""Training strategies with real processes: every bit is that of a reference in one process.

In each run a newcomer enters at a known round, and a peer is killed in the middle of an all-reduce.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import strategy_programs as programs  # noqa: E402
import strategy_reference as reference  # noqa: E402
from lockstep.train.sample_allocation import shuffled  # noqa: E402
from torch_processes import TorchProcess  # noqa: E402

PROGRAM = Path(__file__).parent / "strategy_programs.py"
NEWCOMER = 3


@dataclass
class Told:
    """What one process has printed."""

    begin: list[str]
    outer: dict[int, list[str]] = field(default_factory=dict)
    draws: dict[int, list[int]] = field(default_factory=dict)  # indices of samples by inner step
    position: list[int] = field(default_factory=list)
    end: str = ""


def told(process: TorchProcess) -> Told:
    lines = [line.split() for _, line in process.lines]
    begins = [line[1:] for line in lines if line[0] == "begins"]
    assert begins, process.output()
    ends = [line[1] for line in lines if line[0] == "ended"]
    position = [int(word) for line in lines if line[0] == "position" for word in line[1:]]
    draws = {int(line[1]): [int(word) for word in line[3:]] for line in lines if line[0] == "draws"}
    outer = {int(line[1]): line[2:] for line in lines if line[0] == "outer"}
    return Told(begins[0], outer, draws, position, *ends)


def run_case(case: str, address: str, folder: Path, turn: int | None = None) -> list[Told]:
    """The processes of a case; the peers' numbers are their places in the list.

    turn: the rank of peer 0; None for another one in each case, so that each of them dies and is late at each rank.
    """
    turn = list(programs.CASES).index(case) % programs.FOUNDERS if turn is None else turn

    def start(number: int) -> TorchProcess:
        return TorchProcess(PROGRAM, case, address, number, folder, turn)

    processes = [start(number) for number in range(programs.FOUNDERS)]
    try:
        processes[0].wait_for(f"launched {programs.COMES - 1}")
        processes.append(start(NEWCOMER))
        for number in (0, programs.VICTIM):
            processes[number].wait_for(f"launched {programs.DIES}")
        (folder / "launched").touch()
        assert processes[programs.VICTIM].end() == -9
        (folder / "dead").touch()
        for number, process in enumerate(processes):
            if number != programs.VICTIM:
                assert process.end() == 0, process.output()
        return [told(process) for process in processes]
    finally:
        for process in processes:
            process.close()


class Peer:
    """A peer of the reference: a model and an optimizer of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.model = programs.make_model(number)
        self.optimizer = programs.make_optimizer(self.model)
        self.residual = np.zeros(reference.flat(self.model).size, np.float32)
        self.begin = self.residual

    def train(self, theta: np.ndarray, begin: int, steps: int) -> np.ndarray:
        """Trains alone from theta. Returns old minus new parameters."""
        reference.unflatten(self.model, theta)
        for step in range(begin, begin + steps):
            self.step(step)
        return theta - reference.flat(self.model)

    def step(self, step: int) -> None:
        programs.backward(self.model, self.optimizer, self.number, step)
        self.optimizer.step()

    def gradient(self, step: int) -> np.ndarray:
        programs.backward(self.model, self.optimizer, self.number, step)
        return np.concatenate([p.grad.numpy().reshape(-1) for p in self.model.parameters()])


class Rounds:
    """Who took part in which round, from what the processes have printed; checks that all printed the same.

    Round n, counted from 0, is the n-th reduction; its outer step has the number n + 1.
    """

    def __init__(self, case: str, all_told: list[Told], printed: int = programs.ROUNDS) -> None:
        self.case = case
        self.told = all_told
        numbers = {one.begin[0]: number for number, one in enumerate(all_told)}
        by_round: dict[int, list[int]] = {}
        for number, one in enumerate(all_told):
            for outer, (ids, retries, *_) in one.outer.items():
                members = [numbers[each] for each in ids.split(",")]
                assert by_round.setdefault(outer - 1, members) == members
                assert number in members, "a peer applied a round that it took no part in"
                assert retries == "0" or outer == programs.DIES + 1
            if number != programs.VICTIM:
                assert sorted(one.outer)[-1] == printed
        assert sorted(by_round) == list(range(printed))
        self.members = [by_round[number] for number in range(printed)]
        self.members += self.members[-1:] * (programs.ROUNDS - printed)
        comes, dies = programs.COMES + 1, programs.DIES
        assert [len(members) for members in self.members] == [3] * comes + [4] * (dies - comes) + [3] * (
            programs.ROUNDS - dies
        )
        assert programs.VICTIM not in self.members[dies]
        assert NEWCOMER in self.members[comes]
        assert int(all_told[0].outer[dies + 1][1]) == 1, "the kill did not come in mid-collective"

    def newcomers(self, number: int) -> set[int]:
        """Who takes part in a round for the first time, the first round left aside."""
        return set(self.members[number]) - set(self.members[number - 1]) if number else set()

    def first_parameters(self) -> np.ndarray:
        """Those of the founder that the others took over."""
        for number in range(programs.FOUNDERS):
            model = programs.make_model(number)
            if programs.hash_of_model(model) == self.told[0].begin[2]:
                return reference.flat(model)
        raise AssertionError("the run begins with parameters of no founder")

    def check(self, outer: int, theta: np.ndarray, momentum: np.ndarray | None, models: dict[int, str] | None) -> None:
        """After an outer step every peer that has printed it has these bits."""
        for number, one in enumerate(self.told):
            if outer not in one.outer:
                continue
            _, _, parameters, velocity, model = one.outer[outer]
            assert parameters == programs.hash_of(theta), f"peer {number}, outer step {outer}"
            assert momentum is None or velocity == programs.hash_of(momentum), f"peer {number}, outer step {outer}"
            assert model == (programs.hash_of(theta) if models is None else models[number]), f"peer {number}"

    def check_end(self, theta: np.ndarray) -> None:
        """At the end the models have the shared parameters, and each sample is in one contribution of an epoch."""
        for number in self.members[-1]:
            assert self.told[number].end == programs.hash_of(theta)
        cursor, *free = self.told[0].position
        assert all(self.told[number].position == self.told[0].position for number in self.members[-1])
        unused = {position for begin, end in zip(free[::2], free[1::2]) for position in range(begin, end)}
        used = np.array([position for position in range(cursor) if position not in unused])
        epochs, places = np.divmod(used, programs.DATA)
        orders = [shuffled(places[epochs == epoch], programs.DATA, 0, epoch) for epoch in range(max(epochs) + 1)]
        steps = programs.steps_of(self.case)
        drawn = [
            index
            for number, members in enumerate(self.members)
            for member in members
            for step, indices in self.told[member].draws.items()
            if step // steps == number
            for index in indices
        ]
        assert Counter(drawn) == Counter(np.concatenate(orders).tolist())
        assert max(epochs) >= 1


@pytest.mark.parametrize(
    ("case", "lr", "momentum", "wire", "turn"),
    [
        ("local-sgd", 1.0, 0.0, reference.exactly, None),
        ("fed-avg", 0.75, 0.0, reference.exactly, None),
        ("diloco", 0.7, 0.9, reference.exactly, 0),
        ("diloco", 0.7, 0.9, reference.exactly, 1),
        ("diloco", 0.7, 0.9, reference.exactly, 2),
        ("diloco-int8", 0.5, 0.8, reference.int8, None),
        ("diloco-feedback", 0.9, 0.0, reference.int8, None),
    ],
)
def test_local_updates(
    case: str,
    lr: float,
    momentum: float,
    wire: Any,
    turn: int | None,
    tmp_path: Path,
    coordinator: lockstep.Coordinator,
) -> None:
    torch.set_num_threads(1)
    rounds = Rounds(case, run_case(case, coordinator.address, tmp_path, turn))
    theta = rounds.first_parameters()
    outer = reference.Outer(lr, momentum, theta.size)
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    steps = programs.INNER_STEPS
    for number, members in enumerate(rounds.members):
        gradients = [peers[member].train(theta, number * steps, steps) for member in members]
        weights = [(programs.weight_of(case, member) or 0.25) * steps for member in members]
        if case == "diloco-feedback":
            residuals = [peers[member].residual for member in members]
            gradient, residuals = reference.average_direct(gradients, residuals, wire, wire)
            for member, residual in zip(members, residuals):
                peers[member].residual = residual
        else:
            gradient = reference.average(gradients, weights, wire, wire)
        theta = outer.step(theta, gradient)
        rounds.check(number + 1, theta, outer.v if momentum else None, None)
    rounds.check_end(theta)


def moment_of(peer: Peer, name: str) -> np.ndarray:
    return np.concatenate([peer.optimizer.state[p][name].numpy().reshape(-1) for p in peer.model.parameters()])


def set_moments(peer: Peer, moments: dict[str, np.ndarray], steps: int) -> None:
    """The peer's AdamW has these moments, after so many steps."""
    at = 0
    for p in peer.model.parameters():
        part = {name: torch.from_numpy(values[at : at + p.numel()].copy()) for name, values in moments.items()}
        state = {name: values.view(p.shape) for name, values in part.items()}
        peer.optimizer.state[p] = {"step": torch.tensor(float(steps)), **state}
        at += p.numel()


@pytest.mark.parametrize(
    ("case", "lr", "momentum", "wire", "moments_wire"),
    [
        ("desloc", 1.0, 0.0, reference.exactly, reference.exactly),
        ("desloc-int8", 0.5, 0.8, reference.int8, reference.bf16),
    ],
)
def test_desloc(
    case: str,
    lr: float,
    momentum: float,
    wire: Any,
    moments_wire: Any,
    tmp_path: Path,
    coordinator: lockstep.Coordinator,
) -> None:
    """Each moment has its turn, and all of them have one before the newcomer takes them over."""
    torch.set_num_threads(1)
    rounds = Rounds(case, run_case(case, coordinator.address, tmp_path))
    theta = rounds.first_parameters()
    outer = reference.Outer(lr, momentum, theta.size)
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    steps = programs.INNER_STEPS
    shared = {name: np.zeros_like(theta) for name in programs.PERIODS}
    for number, members in enumerate(rounds.members):
        weights = [0.25] * len(members)
        gradients = [peers[member].train(theta, number * steps, steps) for member in members]
        theta = outer.step(theta, reference.average(gradients, weights, wire, wire))
        for name, period in programs.PERIODS.items():
            if (number + 1) % period == 0 or number == programs.COMES:
                own = [moment_of(peers[member], name) for member in members]
                shared[name] = reference.average(own, weights, moments_wire, moments_wire)
                for member in members:
                    values = {other: moment_of(peers[member], other) for other in programs.PERIODS}
                    set_moments(peers[member], {**values, name: shared[name]}, (number + 1) * steps)
        if number == programs.COMES:
            set_moments(peers[NEWCOMER], shared, (number + 1) * steps)
        moments = [outer.v] if momentum else []
        rounds.check(number + 1, theta, np.concatenate([*moments, *shared.values()]), None)
    rounds.check_end(theta)


@pytest.mark.parametrize(
    ("case", "wire"), [("data-parallel", reference.exactly), ("data-parallel-int8", reference.int8)]
)
def test_data_parallel(case: str, wire: Any, tmp_path: Path, coordinator: lockstep.Coordinator) -> None:
    torch.set_num_threads(1)
    rounds = Rounds(case, run_case(case, coordinator.address, tmp_path))
    one = Peer(0)  # all models and optimizers are equal
    reference.unflatten(one.model, rounds.first_parameters())
    for number, members in enumerate(rounds.members):
        gradients = []
        for one.number in members:
            gradients.append(one.gradient(number))
        gradient = reference.average(gradients, [1.0] * len(gradients), wire, wire)
        at = 0
        for parameter in one.model.parameters():
            parameter.grad.copy_(torch.from_numpy(gradient[at : at + parameter.numel()]).view(parameter.shape))
            at += parameter.numel()
        one.optimizer.step()
        rounds.check(number + 1, reference.flat(one.model), None, None)
    rounds.check_end(reference.flat(one.model))


@pytest.mark.timing
@pytest.mark.parametrize(
    ("case", "lr", "momentum", "wire"),
    [
        ("outer", 0.7, 0.0, reference.exactly),
        ("outer-int8", 0.4, 0.5, reference.int8),
        ("eager", 0.4, 0.5, reference.exactly),
        ("eager-int8", 0.7, 0.0, reference.int8),
    ],
)
def test_overlap(
    case: str, lr: float, momentum: float, wire: Any, tmp_path: Path, coordinator: lockstep.Coordinator
) -> None:
    """The average of a round is applied at the end of the next one."""
    torch.set_num_threads(1)
    rounds = Rounds(case, run_case(case, coordinator.address, tmp_path), programs.ROUNDS - 1)
    theta = rounds.first_parameters()
    outer = reference.Outer(lr, momentum, theta.size)
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    steps, average = programs.INNER_STEPS, None
    for peer in peers:
        peer.begin = theta
    for number, members in enumerate(rounds.members):
        newcomers = rounds.newcomers(number)
        trained = set(rounds.members[number - 1] if number else members) - newcomers
        progress = {one: peers[one].train(peers[one].begin, number * steps, steps) for one in trained}
        world = len(members) if newcomers or not number else len(rounds.members[number - 1])
        if average is not None:
            theta = outer.step(theta, average)
        for one in {*members, *trained}:
            peers[one].begin = theta
            if case.startswith("eager") and one not in newcomers:
                peers[one].begin = theta - np.float32(lr) * (progress[one] / np.float32(world))
        if average is not None:
            models = {one: programs.hash_of(peers[one].begin) for one in members}
            rounds.check(number, theta, outer.v if momentum else None, models)
        inputs = [progress.get(one, np.zeros_like(theta)) for one in members]
        average = reference.average(inputs, [float(one not in newcomers) for one in members], wire, wire)
    rounds.check_end(outer.step(theta, average))


@pytest.mark.parametrize(
    ("case", "wire"),
    [("streaming", reference.exactly), ("streaming-int8", reference.int8), ("streaming-4-bits", reference.e3m0)],
)
def test_streaming(case: str, wire: Any, tmp_path: Path, coordinator: lockstep.Coordinator) -> None:
    """Two fragments in turn, each a step after its reduction has begun; half of the model's own progress stays."""
    torch.set_num_threads(1)
    rounds = Rounds(case, run_case(case, coordinator.address, tmp_path))
    theta = rounds.first_parameters()
    first = sum(parameter.numel() for parameter in programs.make_model(0)[0].parameters())
    parts = [slice(0, first), slice(first, theta.size)]
    outers = [reference.Outer(0.4, 0.9, theta[part].size) for part in parts]
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    for peer in peers:
        reference.unflatten(peer.model, theta)
    alive, average, period = set(range(programs.FOUNDERS)), theta, programs.steps_of(case)
    for step in range(1, programs.total_of(case) + 1):
        for one in alive:
            peers[one].step(step - 1)
        number, since = step // period - 1, step % period
        part, outer = parts[number % 2], outers[number % 2]
        if since == 0:
            members = rounds.members[number]
            alive &= set(members)
            inputs = [(theta - reference.flat(peers[one].model))[part] for one in members]
            if case == "streaming-4-bits":
                nothing = [np.zeros_like(theta[part])] * len(members)
                average, _ = reference.average_direct(inputs, nothing, wire, reference.int8)
            else:
                average = reference.average(inputs, [1.0] * len(members), wire, wire)
        if since == programs.TAU and number >= 0:
            theta = theta.copy()
            theta[part] = outer.step(theta[part], average)
            for one in alive:
                mixed = reference.flat(peers[one].model)
                mixed[part] = np.float32(0.5) * mixed[part] + np.float32(0.5) * theta[part]
                reference.unflatten(peers[one].model, mixed)
            models = {one: programs.hash_of_model(peers[one].model) for one in alive}
            rounds.check(number + 1, theta, np.concatenate([each.v for each in outers]), models)
            if number == programs.COMES:
                reference.unflatten(peers[NEWCOMER].model, theta)
                alive.add(NEWCOMER)
    rounds.check_end(theta)
