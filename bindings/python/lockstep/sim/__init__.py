"""The simulator: the same state machines in virtual time, on a network whose faults follow from a seed.

run, run_seeds, sweep, replay, audit, shrink, explain, predict   the commands of `lockstep sim` as functions
Swarm     runs the user's own function as many peers in one process; equal seeds give equal runs
Failure   a broken promise, with the command that repeats it
Report    the result of a run
"""

from __future__ import annotations

from ._command import Failure, Report, Scenario, audit, explain, predict, replay, run, run_seeds, shrink, sweep
from .swarm import Killed, Program, Swarm, SwarmFailure, SwarmReport

__all__ = [
    "Failure",
    "Killed",
    "Program",
    "Report",
    "Scenario",
    "Swarm",
    "SwarmFailure",
    "SwarmReport",
    "audit",
    "explain",
    "predict",
    "replay",
    "run",
    "run_seeds",
    "shrink",
    "sweep",
]
