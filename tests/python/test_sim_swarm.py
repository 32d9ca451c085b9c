"""lockstep.sim.Swarm: the user's own function as many peers, in virtual time."""

from __future__ import annotations

import time
from typing import Any

import lockstep
import numpy as np
import pytest
from lockstep import sim
from support import Processes, ends_well

OUTER_STEPS = 30


def train(run: lockstep.Communicator, bug: str = "") -> lockstep.State:
    """A loop that survives; or one with a bug."""
    state = lockstep.State({"weights": np.zeros(20), "step": 0})
    if bug != "forgets to sync":
        run.sync(state)
    for mine in range(OUTER_STEPS):
        if state["step"] == OUTER_STEPS:
            break
        gradient = np.full(20, state["step"] + 1.0)
        run.spend(0.5)
        run.all_reduce(gradient, op="avg")
        state["weights"] -= gradient
        state["step"] += 1
        state.revision += 1
        if bug == "skips admit on odd steps" and mine % 2:
            continue
        run.admit()
        if bug != "forgets to sync":
            run.sync(state)
    return state


def test_the_same_seed_gives_the_same_run() -> None:
    first = sim.Swarm(peers=8, churn=True, seed=7).run(train)
    second = sim.Swarm(peers=8, churn=True, seed=7).run(train)
    other = sim.Swarm(peers=8, churn=True, seed=8).run(train)
    assert first.hash == second.hash != other.hash
    assert first.happenings == second.happenings
    assert first.seconds == second.seconds
    assert any("crash" in what for _, what in first.happenings)
    assert any("join" in what for _, what in first.happenings)
    states = [value["weights"].tobytes() for value in first.values]
    assert len(states) >= 8
    assert states == [value["weights"].tobytes() for value in second.values]
    assert len(set(states)) == 1


def test_twenty_seeds_of_churn_leave_a_right_loop_whole() -> None:
    for seed in range(20):
        report = sim.Swarm(peers=8, churn=True, seed=seed).run(train)
        assert report.commits >= OUTER_STEPS


@pytest.mark.parametrize("bug", ["forgets to sync", "skips admit on odd steps"])
def test_a_bug_in_the_loop_is_found_and_its_line_repeats_it(bug: str) -> None:
    def found() -> sim.SwarmFailure:
        for seed in range(100):
            try:
                sim.Swarm(peers=8, churn={"crashes": 2, "joins": 2, "until": 10.0}, seed=seed).run(train, bug)
            except sim.SwarmFailure as failure:
                return failure
        pytest.fail("not found within 100 seeds")

    failure = found()
    assert len(failure.faults) <= 1, "the others were not needed"
    with pytest.raises(sim.SwarmFailure) as again:
        eval(failure.repeat.replace("run(main)", "run(train, bug)"), {"lockstep": lockstep, "train": train, "bug": bug})
    assert again.value.kind == failure.kind
    assert str(again.value).splitlines()[0] == str(failure).splitlines()[0]


def test_time_is_virtual() -> None:
    def main(run: lockstep.Communicator) -> tuple[float, float]:
        before = run.now
        run.spend(3600)
        run.spend(200.0 * run.rank)  # one comes too late
        with pytest.raises(lockstep.TimedOut):
            run.barrier(timeout=100)
        return before, run.now

    begin = time.monotonic()
    report = sim.Swarm(peers=2).run(main)
    assert time.monotonic() - begin < 20
    assert all(3700 <= after - before < 3900 for before, after in report.values)


@pytest.mark.parametrize("rank", range(3))
def test_an_exception_of_the_program_is_the_cause(rank: int) -> None:
    def main(run: lockstep.Communicator) -> None:
        run.barrier()
        if run.rank == rank:
            raise KeyError("mine")
        run.barrier()

    with pytest.raises(sim.SwarmFailure, match="KeyError: 'mine'") as raised:
        sim.Swarm(peers=3, churn={"resets": 2}).run(main)
    assert isinstance(raised.value.__cause__, KeyError)
    assert raised.value.kind == "program"
    assert raised.value.faults == (), "it fails without any"


def test_all_waiting_in_vain_is_a_failure() -> None:
    def main(run: lockstep.Communicator) -> None:
        run.barrier(tag=run.rank)  # a tag of its own

    with pytest.raises(sim.SwarmFailure) as raised:
        sim.Swarm(peers=2).run(main)
    assert raised.value.kind in ("deadlock", "program")


def test_a_crash_kills_the_program_at_its_next_call() -> None:
    seen: list[str] = []

    def main(run: lockstep.Communicator) -> str:
        try:
            for _ in range(20):
                run.spend(0.1)
                run.barrier()
        except sim.Killed:
            seen.append("killed")
            raise
        return "done"

    report = sim.Swarm(peers=3, faults=[{"at": "1 s", "crash": "b"}]).run(main)
    assert seen == ["killed"]
    assert {(program.host, program.end) for program in report.programs} == {
        ("a", "returned"),
        ("b", "killed"),
        ("c", "returned"),
    }


def test_a_program_that_lost_the_run_starts_again() -> None:
    starts: list[int] = []

    def main(run: lockstep.Communicator) -> int:
        starts.append(1)
        for _ in range(60):
            run.spend(0.1)
            run.barrier()
            run.admit()
        return run.world_size

    stall = [{"at": "1 s", "stall": "c", "for": "3 s"}]
    sim.Swarm(peers=3, faults=stall).run(main)
    assert len(starts) == 4
    with pytest.raises(sim.SwarmFailure, match=r"Evicted|OutcomeUnknown|NotConnected"):
        sim.Swarm(peers=3, faults=stall, restart=False).run(main)


def test_everything_of_a_communicator_works() -> None:
    def main(run: lockstep.Communicator) -> list[Any]:
        rank = run.rank
        array = np.full(1000, rank + 1, np.float32)
        works = [run.all_reduce_async(array.copy(), tag=tag) for tag in range(3)]
        assert lockstep.wait_any(works) in works
        results = [work.wait(timeout=10) for work in works]
        assert all(work.done() for work in works)
        gathered = run.all_gather(np.array([rank]))
        scattered = run.reduce_scatter(np.arange(6.0))
        run.broadcast(array, run.members()[0])
        run.reduce(array, run.members()[0])
        everybody = run.gather(np.array([rank]), run.members()[1]).output
        assert everybody is None or everybody.tolist() == [0, 1, 2]
        part = run.scatter(np.arange(6.0) if rank == 2 else None, run.members()[2], np.empty(2)).output
        assert part.tolist() == [2.0 * rank, 2.0 * rank + 1]
        exchanged = run.all_to_all(np.full(6, rank), np.empty(9, int), counts=[1, 2, 3])
        assert exchanged.output.tolist() == [0] * (rank + 1) + [1] * (rank + 1) + [2] * (rank + 1)
        encoded = np.ones(1000, np.float32)
        run.all_reduce(encoded, op="avg", up="int8", down="int8")
        assert results[0].seconds > 0
        return [
            results[0].hash,
            gathered.output.tolist(),
            scattered.output.tolist(),
            float(array[0]),
            float(encoded[0]),
        ]

    values = sim.Swarm(peers=3).run(main).values
    assert [value[0] for value in values] == [values[0][0]] * 3
    assert values[0][1] == [0, 1, 2]
    assert sorted(number for value in values for number in value[2]) == [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]
    assert {value[3] for value in values} == {1.0}


def test_a_program_may_connect_by_itself() -> None:
    def main(run: lockstep.Communicator) -> int:
        run.leave()
        with lockstep.connect("coordinator.example:4000", founders=2) as again:
            again.barrier()
            return again.world_size

    assert sim.Swarm(peers=2).run(main).values == [2, 2]


LOGS = """
import logging, sys, lockstep
from lockstep import sim

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s: %(message)s")

def main(run):
    run.leave()
    with lockstep.connect("coordinator.example:4000", founders=2, logger=logging.getLogger("own")) as again:
        again.barrier()

sim.Swarm(peers=2).run(main)
"""


def test_only_a_logger_of_the_program_hears_of_its_peers(processes: Processes) -> None:
    """A thousand simulated peers would say too much."""
    lines = ends_well(processes("-c", LOGS)).splitlines()
    assert sum("left view=" in line for line in lines) == 2
    assert {line.partition(":")[0] for line in lines} == {"own"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"peers": 0}, "peers is 0: peers must be 1"),
        ({"peers": "four"}, "peers is 'four': peers must be a number, or a range"),
        ({"heartbeet": "1 s"}, "unknown key 'heartbeet' with the value '1 s'; did you mean 'heartbeat'"),
        ({"heartbeat": 3}, 'heartbeat is 3: heartbeat must be like "200ms"'),
        ({"stripes": 1.5}, "stripes is 1.5: stripes must be an integer"),
        ({"faults": [{"at": "1 s", "crush": "b"}]}, r"faults\[0\]: unknown key 'crush' with the value 'b'.*crash"),
        ({"faults": [{"at": "1 s", "crash": "b"}, {"at": 7, "crash": "c"}]}, r"faults\[1\]: at is 7: at must be like"),
        ({"faults": ["crash b"]}, r"faults\[0\] is 'crash b'; allowed: a dict of .*crash"),
        ({"churn": {"crashs": 1}}, "churn: unknown key 'crashs' with the value 1; did you mean 'crashes'.*allowed: "),
        ({"churn": {"crashes": "many"}}, "churn: crashes is 'many'; allowed: a number of faults"),
        ({"churn": {"until": "soon"}}, "churn: until is 'soon'; allowed: seconds"),
        ({"churn": 3}, "churn is 3; allowed: True, or a dict of crashes"),
        ({"net": {"profile": "moon"}}, "net is .*moon.*rack, region, world"),
        ({"net": {"latncy": "1 ms"}}, "net: unknown key 'latncy' with the value '1 ms'; did you mean 'latency'"),
        ({"net": "world"}, "net is 'world'; allowed: a dict"),
        ({"seed": "one"}, "seed is 'one'; allowed: a number from 0"),
        ({"work": ["barrier"]}, "work applies to the simulator's own program only"),
    ],
)
def test_wrong_arguments_are_named_with_value_and_what_is_allowed(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(lockstep.InvalidArgument, match=text):
        sim.Swarm(**{"peers": 3, **arguments})


def test_a_value_that_no_scenario_holds_is_named() -> None:
    with pytest.raises(TypeError, match=r"heartbeat: .*object.* is a object; a scenario holds"):
        sim.Swarm(heartbeat=object())


def test_hypothesis_may_draw_the_seed() -> None:
    hypothesis = pytest.importorskip("hypothesis")
    seen: set[int] = set()

    @hypothesis.settings(max_examples=5, deadline=None, database=None, derandomize=True)
    @hypothesis.given(seed=hypothesis.strategies.integers(0, 10_000), peers=hypothesis.strategies.integers(2, 5))
    def survives(seed: int, peers: int) -> None:
        sim.Swarm(peers=peers, churn={"crashes": 1, "joins": 1, "until": 5.0}, seed=seed).run(train)
        seen.add(seed)

    survives()
    assert seen


def test_a_sync_that_is_refused_at_its_launch_is_an_error_and_the_swarm_goes_on() -> None:
    def main(run: lockstep.Communicator) -> int:
        array = np.zeros(9, np.float32)
        with pytest.raises(lockstep.InvalidArgument, match="overlaps"):
            run.sync(lockstep.State({"m": array, "n": array}))
        return run.sync(lockstep.State({"m": array})).world_size

    assert sim.Swarm(peers=2).run(main).values == [2, 2]
