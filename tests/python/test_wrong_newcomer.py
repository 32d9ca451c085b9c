"""A newcomer whose arguments differ ends alone; members that call different things end at once, in any order."""

from __future__ import annotations

import threading
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from support import IN_TIME, Meeting, Peers, says, until

Run = lockstep.Communicator
Call = Callable[[Run], Any]


def sync_of(count: int) -> Call:
    return lambda run: run.sync(lockstep.State({"weights": np.zeros(count, np.float32)}))


def all_reduce_of(count: int) -> Call:
    return lambda run: run.all_reduce(np.ones(count, np.float32))


WRONG: dict[str, tuple[Call, Call, list[str]]] = {
    "a state of another size": (sync_of(1000), sync_of(1001), ["weights", "1000", "1001"]),
    "another count": (all_reduce_of(1000), all_reduce_of(1001), ["1000", "1001"]),
    "a large one of another count": (all_reduce_of(1 << 20), all_reduce_of(1 << 19), [str(1 << 20), str(1 << 19)]),
    "another operation": (
        all_reduce_of(3),
        lambda run: run.all_reduce(np.ones(3, np.float32), op="max"),
        ["sum", "max"],
    ),
    "a sync instead of an all-reduce": (all_reduce_of(3), sync_of(3), ["all_reduce", "sync"]),
    "an all-reduce instead of a sync": (sync_of(3), all_reduce_of(3), ["all_reduce", "sync"]),
    "a barrier instead of a sync": (sync_of(3), lambda run: run.barrier(), ["barrier", "sync"]),
}


@pytest.mark.parametrize("first", ["members", "newcomer"])
@pytest.mark.parametrize("name", WRONG)
def test_the_newcomer_ends_alone(name: str, first: str, peers: Peers, coordinator: lockstep.Coordinator) -> None:
    expect_the_newcomer_alone(name, first, peers, coordinator)


@pytest.mark.parametrize(("members", "synced"), [(1, False), (1, True), (3, True)])
@pytest.mark.parametrize("name", WRONG)
def test_also_beside_a_lone_member_and_after_a_sync(
    name: str, members: int, synced: bool, peers: Peers, coordinator: lockstep.Coordinator
) -> None:
    """A lone member commits its calls without the coordinator. Most programs sync before their first reduction."""
    expect_the_newcomer_alone(name, "members", peers, coordinator, members, synced)


def expect_the_newcomer_alone(
    name: str, first: str, peers: Peers, coordinator: lockstep.Coordinator, members: int = 3, synced: bool = False
) -> None:
    right, wrong, parts = WRONG[name]
    admitted, begun = Meeting(members + 1), threading.Event()

    def sync_first(run: Run) -> None:
        if synced:
            run.sync(lockstep.State({"shared": np.zeros(3, np.float32)}), tag=9)

    errors: list[BaseException] = []

    def newcomer() -> None:
        with lockstep.connect(coordinator.address, listen_host="127.0.0.1", timeout=IN_TIME) as run:
            admitted()
            sync_first(run)
            if first == "members":
                begun.wait(IN_TIME)
            try:
                wrong(run)
            except BaseException as error:
                errors.append(error)

    def main(run: Run, number: int) -> int:
        run.barrier()
        if number == 0:
            thread.start()
        until(lambda: run.pending)
        run.admit()
        admitted()
        sync_first(run)
        if first == "newcomer":
            until(lambda: run.world_size == members or thread.is_alive())
            threading.Event().wait(0.05)  # a head start; the result does not depend on it
        begun.set()
        right(run)
        result = run.all_reduce(np.ones(3, np.float32))
        return int(result.world_size)

    thread = threading.Thread(target=newcomer, daemon=True)
    assert peers(members, main) == [members] * members
    thread.join(IN_TIME)
    assert len(errors) == 1
    assert isinstance(errors[0], lockstep.Mismatch), errors
    says(errors[0], parts)


@pytest.mark.parametrize("odd", [0, 1, 2])
@pytest.mark.parametrize("late", [0, 1, 2])
@pytest.mark.parametrize("others", ["all_reduce", "large all_reduce", "barrier", "all_gather"])
def test_a_sync_beside_other_calls_of_its_tag(odd: int, late: int, others: str, peers: Peers) -> None:
    """Each rank is the one that syncs, and each is the last to call. Nobody waits."""
    calls: dict[str, Call] = {
        "all_reduce": all_reduce_of(3),
        "large all_reduce": all_reduce_of(1 << 18),
        "barrier": lambda run: run.barrier(),
        "all_gather": lambda run: run.all_gather(np.ones(3, np.float32)),
    }
    called = threading.Barrier(3)

    def main(run: Run, number: int) -> int:
        run.barrier()
        call = sync_of(3) if number == odd else calls[others]
        if number == late:
            called.wait(IN_TIME)
        else:
            threading.Timer(0.02, called.wait).start()
        with pytest.raises(lockstep.Mismatch) as caught:
            call(run)
        says(caught.value, ["sync", others.split()[-1]])
        return int(run.all_reduce(np.ones(3, np.float32)).world_size)

    assert peers(3, main) == [3] * 3
