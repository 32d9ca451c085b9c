"""The simulator's commands as functions. They run the `lockstep` program: a failed assertion ends only that process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from .._program import program
from ..errors import Error, InvalidArgument
from ._toml import to_toml

__all__ = [
    "Failure",
    "Report",
    "Scenario",
    "audit",
    "explain",
    "predict",
    "replay",
    "run",
    "run_seeds",
    "shrink",
    "sweep",
]

Scenario = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""A scenario or a plan: a path, TOML text (with a line end), or a dict of its keys."""

_KINDS = {10: "safety", 11: "liveness", 12: "crash", 13: "nondeterminism", 14: "limit", 15: "goal", 16: "incomplete"}
_WRONG_USAGE = 2


class Failure(AssertionError, Error):
    """A simulated run broke a promise. The text ends with the command that repeats the run.

    kind: "safety", "liveness", "crash", "nondeterminism", "limit", "goal" or "incomplete".
    promise: the id of the broken promise, such as "S2"; "" if there is none.
    repeat: the command that repeats the failure.
    report: the results up to the failure; None if there are none.
    """

    def __init__(self, text: str, kind: str, promise: str, repeat: str, report: Report | None) -> None:
        super().__init__(f"{text}\nrepeat it: {repeat}" if repeat else text)
        self.kind = kind
        self.promise = promise
        self.repeat = repeat
        self.report = report


@dataclass(frozen=True)
class Report:
    """The results of one or many simulated runs. `report.facts["kills"]` has all figures of the program."""

    facts: Mapping[str, Any]

    @property
    def hash(self) -> str:
        """Hash of all events: equal for equal seeds, on every machine."""
        return str(self.facts.get("hash", ""))

    @property
    def commits(self) -> int:
        """Committed collectives."""
        return int(self.facts.get("commits", 0))

    @property
    def aborts(self) -> int:
        """Collectives that were aborted."""
        return int(self.facts.get("aborts", 0))

    @property
    def seconds(self) -> float:
        """Virtual seconds."""
        return (
            float(self.facts["time_ns"]) / 1e9 if "time_ns" in self.facts else float(self.facts.get("simulated_s", 0))
        )


def run(
    scenario: Scenario | None = None,
    *,
    seed: int = 0,
    peers: int = 0,
    mode: str = "drawn",
    calm: bool = False,
) -> Report:
    """Runs one seed of a scenario or plan; without one, of a plan drawn from the seed.

    peers: number of hosts with peers; 0 draws it. mode: "drawn", "token" or "bytes". calm: no faults.
    Raises Failure if a promise is broken or an expectation of the scenario is not met; InvalidArgument.

    Example:
        >>> lockstep.sim.run(seed=7).hash
        'd397bbd00944e9ab'
    """
    options = ["--seed", str(seed), *_drawn(peers, mode, calm)]
    return _report(["run", *_paths(scenario), *options])


def run_seeds(
    seeds: range,
    scenario: Scenario | None = None,
    *,
    jobs: int = 1,
    keep_going: bool = False,
    seconds: float | None = None,
    peers: int = 0,
    mode: str = "drawn",
    calm: bool = False,
) -> Report:
    """Runs many seeds; stops at the first failure, unless keep_going.

    seeds: a range with step 1. jobs: number of processes. seconds: no seed starts after this time.
    Raises Failure, InvalidArgument.

    Example:
        >>> lockstep.sim.run_seeds(range(1000), "one-way-cut.toml", jobs=2).commits
    """
    if seeds.step != 1:
        raise InvalidArgument(f"seeds is {seeds!r}; allowed: ranges with step 1")
    options = ["--seeds", f"{seeds.start}..{seeds.stop}", "--jobs", str(jobs), *_drawn(peers, mode, calm)]
    options += ["--keep-going"] if keep_going else []
    options += ["--time", str(seconds)] if seconds is not None else []
    return _report(["run", *_paths(scenario), *options])


def sweep(*scenarios: Scenario, stride: int = 1, jobs: int = 1, keep_going: bool = False) -> list[Report]:
    """Runs small plans, with every fault at every `stride`-th event. Returns a Report for each plan.

    Raises Failure, InvalidArgument.
    """
    if not scenarios:
        raise InvalidArgument("sweep needs at least one scenario, plan, or folder of them")
    paths = [path for scenario in scenarios for path in _paths(scenario)]
    options = ["--stride", str(stride), "--jobs", str(jobs), *(["--keep-going"] if keep_going else [])]
    output = _output(["sweep", *paths, *options, "--json"])
    return [Report(facts) for facts in json.loads(output)]


def replay(plan: Scenario, *, until: int | None = None) -> Report:
    """Runs a plan, a scenario or a flight recording again.

    until: number of events, or of inputs of a recording, after which the run stops.
    Raises Failure; its kind is "nondeterminism" if the machine of a recording behaves differently now.
    """
    options = ["--until", str(until)] if until is not None else []
    return _report(["replay", *_paths(plan), *options])


def audit(*journals: str | os.PathLike[str]) -> str:
    """Checks the journals of all peers of one real run (`journal` of lockstep.connect). Returns a summary.

    Raises Failure, whose kind is "incomplete" if nothing is broken and a journal lacks its end; InvalidArgument.
    """
    return _output(["audit", *(os.fspath(journal) for journal in journals)])


def shrink(scenario: Scenario | None = None, *, seed: int = 0) -> str:
    """The smallest plan that breaks the same promise as this seed, as TOML text. Raises InvalidArgument without one."""
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        path = os.path.join(folder, "plan.toml")
        _output(["shrink", *_paths(scenario), "--seed", str(seed), "--out", path], failure_is_success=True)
        with open(path, encoding="utf-8") as file:
            return file.read()


def explain(plan: Scenario) -> str:
    """The causes of a plan's failure: its causal slice, in words."""
    return _output(["explain", *_paths(plan)], failure_is_success=True)


def predict(scenario: Scenario) -> str:
    """The algorithm and the duration of a scenario's work, lower bounds, and the bottleneck, in words."""
    return _output(["predict", *_paths(scenario)])


def _drawn(peers: int, mode: str, calm: bool) -> list[str]:
    options = ["--peers", str(peers)] if peers else []
    options += ["--mode", mode] if mode != "drawn" else []
    return options + (["--calm"] if calm else [])


def _paths(scenario: Scenario | None) -> list[str]:
    """Writes text to a file that is kept, so that the command that repeats a failure works."""
    if scenario is None:
        return []
    text = to_toml(scenario) if isinstance(scenario, Mapping) else scenario
    if not isinstance(text, str) or "\n" not in text:
        return [os.fspath(text)]
    with tempfile.NamedTemporaryFile("w", prefix="lockstep-", suffix=".toml", delete=False, encoding="utf-8") as file:
        file.write(text)
    return [file.name]


def _report(command: Sequence[str]) -> Report:
    return Report(json.loads(_output([*command, "--json"])))


def _output(command: Sequence[str], failure_is_success: bool = False) -> str:
    """The standard output of `lockstep sim`. Raises the exception for its exit code."""
    done = subprocess.run([program(), "sim", *command], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.strip()
    if done.returncode == _WRONG_USAGE:
        raise InvalidArgument("\n".join(line for line in said.splitlines() if not line.startswith("`lockstep")))
    kind = _KINDS.get(done.returncode, "crash")
    if failure_is_success and done.returncode in _KINDS:
        return done.stdout
    report = _parsed(done.stdout)
    lines = said.splitlines() or done.stdout.strip().splitlines()
    repeat = lines[-1] if lines and lines[-1].startswith("lockstep sim") else ""
    broken = report.facts.get("failure") if report is not None else None
    promise = str(broken["promise"]) if isinstance(broken, Mapping) else ""
    text = "\n".join(line for line in lines[: -1 if repeat else None] if not line.startswith("note:"))
    raise Failure(text or f"lockstep sim ended with {done.returncode}", kind, promise, repeat, report)


def _parsed(text: str) -> Report | None:
    try:
        facts = json.loads(text)
    except ValueError:
        return None
    return Report(facts) if isinstance(facts, dict) else None
