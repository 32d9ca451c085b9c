"""The simulator: the same state machines in virtual time, on a network that fails as a seed says.

run, run_seeds, sweep, replay, audit, shrink, explain, predict   what `lockstep sim` does, as functions
Swarm     the user's own function as many peers, in one process: the same seed, the same run
Failure   a broken promise, with the line that repeats it
Report    what a run came to
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
