"""lockstep.sim: the simulator's commands as functions."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockstep
from lockstep import sim

NEVER = {"peers": 3, "work": ["2x all_reduce 4KiB f32 sum", "loop 2"], "expect": {"commits": ">= 1000000"}}


def test_a_seed_gives_the_same_run_each_time() -> None:
    first, second = sim.run(seed=7), sim.run(seed=7)
    assert first == second
    assert first.commits > 0
    assert first.seconds > 1
    assert first.hash != sim.run(seed=8).hash


def test_many_seeds() -> None:
    report = sim.run_seeds(range(5, 15), peers=3)
    assert report.facts["seeds"] == 10
    assert report.facts["failures"] == []
    with pytest.raises(lockstep.InvalidArgument, match="step 1"):
        sim.run_seeds(range(0, 10, 2))


def test_a_failure_carries_the_line_that_repeats_it() -> None:
    with pytest.raises(sim.Failure, match="repeat it: lockstep sim run") as raised:
        sim.run(NEVER, seed=3)
    failure = raised.value
    assert failure.kind == "goal"
    assert failure.promise == "goal"
    assert failure.repeat.endswith("--seed 3 --trace")
    assert failure.report is not None
    assert failure.report.commits > 0
    assert isinstance(failure, AssertionError)
    Path(failure.repeat.split()[3]).unlink()  # the scenario that it repeats


def test_a_scenario_is_a_path_a_text_or_a_dict(tmp_path: Path) -> None:
    text = 'peers = 3\nnet = { profile = "region" }\nwork = ["all_reduce 4KiB f32 sum"]\n'
    path = tmp_path / "two.toml"
    path.write_text(text)
    reports = [
        sim.run(path, seed=1),
        sim.run(text, seed=1),
        sim.run({"peers": 3, "net": {"profile": "region"}, "work": ["all_reduce 4KiB f32 sum"]}, seed=1),
    ]
    assert reports[0].hash == reports[1].hash == reports[2].hash


def test_what_is_wrong_with_a_scenario_is_said_with_its_place() -> None:
    with pytest.raises(lockstep.InvalidArgument, match=r"1:1: unknown key \"peerz\"; did you mean 'peers'"):
        sim.run("peerz = 3\n")


def test_sweep_and_predict() -> None:
    scenario = {"peers": 3, "work": ["all_reduce 4KiB f32 sum"], "net": {"model": "flow", "rate": "100Mbit/s"}}
    reports = sim.sweep(scenario, stride=20000)
    assert len(reports) == 1
    assert "bottleneck" in sim.predict(scenario)
    with pytest.raises(lockstep.InvalidArgument, match="at least one"):
        sim.sweep()


def test_a_flight_recording_is_replayed_and_a_journal_judged(tmp_path: Path) -> None:
    journal, recording = tmp_path / "peer.jsonl", tmp_path / "peer.rec"
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        with lockstep.connect(coordinator.address, journal=journal, flight_kib=1024, timeout=30) as run:
            run.all_reduce(bytearray(8))
            run.flight_record(recording)
    assert sim.replay(recording).facts
    assert sim.audit(journal)
    journal.write_text("nonsense\n")
    with pytest.raises(lockstep.InvalidArgument, match="nonsense|peer.jsonl"):
        sim.audit(journal)
