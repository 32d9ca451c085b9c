"""The options that every call has, tag, time-out and smallest world, reach the run in both forms of the call."""

from __future__ import annotations

from typing import Any

import lockstep
import numpy as np
import pytest
from support import IN_TIME, Peers, at_each_rank

Run = lockstep.Communicator

COLLECTIVES = (
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "all_gather",
    "gather",
    "scatter",
    "broadcast",
    "all_to_all",
    "barrier",
    "sync",
)
both_forms = pytest.mark.parametrize("form", ["blocking", "async"])
every_collective = pytest.mark.parametrize("name", COLLECTIVES)


def call(run: Run, name: str, form: str, **options: Any) -> lockstep.Result:
    """A collective of four elements for each member of the run, or the state of four elements. Rank 0 is the root."""
    given = np.full(4 * run.world_size, run.rank + 1, np.float32)
    own = given[:4]
    root = run.members()[0]
    arguments: dict[str, tuple[Any, ...]] = {
        "all_reduce": (given,),
        "reduce": (given, root),
        "reduce_scatter": (given, np.zeros(4, np.float32)),
        "all_gather": (own, np.zeros(4 * run.world_size, np.float32)),
        "gather": (own, root),
        "scatter": (given, root, np.zeros(4, np.float32)),
        "broadcast": (given, root),
        "all_to_all": (given,),
        "barrier": (),
        "sync": (lockstep.State({"w": own.copy()}),),
    }
    if form == "blocking":
        return getattr(run, name)(*arguments[name], **options)  # type: ignore[no-any-return]
    return getattr(run, f"{name}_async")(*arguments[name], **options).wait(IN_TIME)  # type: ignore[no-any-return]


@at_each_rank(2)
@every_collective
def test_both_forms_of_a_call_meet_under_their_tag(peers: Peers, name: str) -> None:
    """While another tag has a call in flight that only one of them has made."""

    def main(run: Run, number: int) -> None:
        for blocks in range(2):
            other = run.barrier_async() if number == 1 else None
            form = "blocking" if number == blocks else "async"
            result = call(run, name, form, tag=3, timeout=IN_TIME)
            assert result.world_size == 2
            if other is None:
                run.barrier(timeout=IN_TIME)
            else:
                other.wait(IN_TIME)

    peers(2, main)


@both_forms
@every_collective
def test_a_call_has_its_own_time_out(alone: Run, name: str, form: str) -> None:
    with pytest.raises(lockstep.InvalidArgument, match="timeout is -1"):
        call(alone, name, form, timeout=-1)
    assert call(alone, name, form, timeout=IN_TIME).world_size == 1


@both_forms
@every_collective
def test_a_call_has_its_own_smallest_world(alone: Run, name: str, form: str) -> None:
    with pytest.raises(lockstep.BelowMinimum) as caught:
        call(alone, name, form, minimum_world=2)
    assert caught.value.result is not None
    assert call(alone, name, form, minimum_world=1).world_size == 1


@at_each_rank(2)
@both_forms
@pytest.mark.parametrize("name", ["all_reduce", "reduce", "reduce_scatter"])
def test_an_operation_that_is_none_ends_the_call_of_all_members(peers: Peers, name: str, form: str) -> None:
    def main(run: Run, number: int) -> None:
        wrong = number == 1
        told = "^op is 'median'" if wrong else f"^peer 1.* refused its {name} with tag 3: op is 'median'"
        with pytest.raises(lockstep.InvalidArgument, match=told):
            call(run, name, form, op="median" if wrong else "max", tag=3, timeout=IN_TIME)
        assert call(run, name, form, op="max", tag=3, timeout=IN_TIME).world_size == 2

    peers(2, main, each=lambda number: {"name": f"peer {number}"})
