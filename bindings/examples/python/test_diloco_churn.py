"""The loop of diloco.py as a swarm in the simulator, under crashes, joins, stalls and cuts: a test to copy.

pytest --lockstep-seeds 100 test_diloco_churn.py      # seeds 0 to 99; a failure names its seed and the fewest faults

The programs return their parameters as a State: the swarm fails if two of the same revision differ in a bit.

Needs beside it: diloco.py.
"""

from __future__ import annotations

from typing import Callable

import pytest
from diloco import train
from lockstep.sim import Swarm


@pytest.mark.filterwarnings("ignore")  # those of torch
def test_all_peers_end_with_the_same_parameters(lockstep_swarm: Callable[..., Swarm]) -> None:
    report = lockstep_swarm(peers=4, churn=True).run(train, 60)
    assert len(report.values) >= 3, report.happenings
    assert {state.revision for state in report.values} == {3}
