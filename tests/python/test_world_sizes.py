"""The sizes of the run in results, the newcomers of an admission, and how far a peer is on its way into a run."""

from __future__ import annotations

import pickle
import threading

import lockstep
import numpy as np
import pytest
from support import IN_TIME, Meeting, Peers, at_each_rank, until

Run = lockstep.Communicator


@at_each_rank(3)
def test_a_result_has_the_sizes_of_the_run(peers: Peers) -> None:
    def main(run: Run, number: int) -> tuple[int, int, int, int]:
        result = run.all_reduce(np.ones(3, np.float32))
        assert run.barrier().members == 3
        assert pickle.loads(pickle.dumps(result)).largest_group == result.largest_group
        return result.world_size, result.members, result.groups, result.largest_group

    sizes = peers(3, main, each=lambda number: {"group": 5 if number == 2 else 4})
    assert sizes == [(2, 3, 2, 2), (2, 3, 2, 2), (1, 3, 2, 2)]


@at_each_rank(2)
def test_all_members_agree_whether_somebody_waits(peers: Peers, coordinator: lockstep.Coordinator) -> None:
    """Each member in turn hears last of the newcomer; all of them admit it after the same call."""

    def newcomer() -> None:
        with lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1") as run:
            run.barrier(tag=1)

    def main(run: Run, number: int) -> int:
        assert run.agree_pending() == 0
        comes = threading.Thread(target=newcomer)
        if number == 1:
            comes.start()
        rounds = 0
        while not run.agree_pending():
            rounds += 1
        assert run.admit().members == 3
        run.barrier(tag=1)
        if number == 1:
            comes.join(IN_TIME)
        return rounds

    first, second = peers(2, main)
    assert first == second


@at_each_rank(3)
def test_a_refused_agreement_is_an_answer(peers: Peers) -> None:
    def main(run: Run, number: int) -> int:
        for _ in range(2):
            with pytest.raises(lockstep.InvalidArgument, match="timeout"):
                run.agree_pending(timeout=-1 if number == 1 else IN_TIME)
        return run.agree_pending(timeout=IN_TIME)

    assert peers(3, main) == [0, 0, 0]


@at_each_rank(2)
def test_an_agreement_ends_in_time(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        if number == 1:
            with pytest.raises(lockstep.TimedOut):
                run.agree_pending(timeout=0.05)
        run.barrier(tag=1, timeout=IN_TIME)

    peers(2, main)


def test_tags_of_layers_are_usual_tags(peers: Peers) -> None:
    def main(run: Run, number: int) -> float:
        ones = np.ones(3, np.float32)
        run.all_reduce(ones, tag=lockstep.LAYER_TAGS + 7)
        return float(ones[0])

    assert peers(2, main) == [2, 2]


@at_each_rank(3)
def test_sizes_are_those_of_the_joint_call(peers: Peers) -> None:
    """They do not change when a member leaves between the call and the moment in which its result is read."""
    called, left = Meeting(3), threading.Event()

    def main(run: Run, number: int) -> int:
        work = run.all_reduce_async(np.ones(3, np.float32))
        work.wait()
        called()
        if number == 2:
            run.leave()
            left.set()
            return 3
        left.wait(IN_TIME)
        until(lambda: run.world.members == 2)
        assert run.all_reduce(np.ones(3, np.float32)).members == 2
        return int(work.wait().members)

    assert peers(3, main) == [3, 3, 3]


@at_each_rank(3)
def test_an_admission_names_the_newcomers(peers: Peers, coordinator: lockstep.Coordinator) -> None:
    admitted, ids = Meeting(4), []

    def newcomer() -> None:
        with lockstep.connect(coordinator.address, listen_host="127.0.0.1", timeout=IN_TIME) as run:
            ids.append(run.id)
            admitted()

    def main(run: Run, number: int) -> int:
        assert run.admit().newcomers == ()
        run.barrier()
        if number == 0:
            thread.start()
        until(lambda: run.pending)
        result = run.admit()
        admitted()
        assert result.newcomers == tuple(ids)
        assert pickle.loads(pickle.dumps(result)).newcomers == result.newcomers
        assert run.barrier().newcomers == ()
        return int(result.members)

    thread = threading.Thread(target=newcomer, daemon=True)
    assert peers(3, main) == [4, 4, 4]
    thread.join(IN_TIME)


def test_stages_of_a_peer_that_joins_and_leaves(coordinator: lockstep.Coordinator) -> None:
    run = lockstep.Communicator(founders=2, listen_host="127.0.0.1")
    assert run.stage is lockstep.Stage.NEW
    joining = run.connect_async(coordinator.address, timeout=IN_TIME)
    until(lambda: run.stage == "waiting")
    with lockstep.connect(coordinator.address, founders=2, listen_host="127.0.0.1", timeout=IN_TIME) as other:
        joining.wait()
        assert run.stage is lockstep.Stage.MEMBER
        assert other.stage is lockstep.Stage.MEMBER
        run.leave()
    assert run.stage is lockstep.Stage.OVER
    run.close()
    assert run.stage is lockstep.Stage.OVER


def test_a_coordinator_that_is_not_reached() -> None:
    with lockstep.Coordinator("127.0.0.1:0") as gone:
        address = gone.address
    run = lockstep.Communicator(listen_host="127.0.0.1")
    joining = run.connect_async(address, timeout=IN_TIME)
    for _ in range(5):
        assert run.stage is lockstep.Stage.REACHING
    run.close()
    assert run.stage is lockstep.Stage.OVER
    assert joining.done()
