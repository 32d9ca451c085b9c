"""A Work: done, wait, result, abort, progress; waiting for one of several; works that are dropped."""

from __future__ import annotations

import math
import threading
from typing import Any

import lockstep
import numpy as np
import pytest
from support import IN_TIME, Meeting, Peers, at_each_rank

Run = lockstep.Communicator


@at_each_rank(2)
def test_a_work_is_done_when_the_call_is_over(peers: Peers) -> None:
    begun, asked = Meeting(2), Meeting(2)

    def main(run: Run, number: int) -> None:
        given = np.ones(3)
        if number == 1:
            begun()
            asked()
        work = run.all_reduce_async(given)
        if number == 0:
            begun()
            assert not work.done()
            for timeout in (0, 0.02):
                with pytest.raises(lockstep.WaitTimedOut, match=f"not over after {timeout} s and continues") as caught:
                    work.wait(timeout)
                assert isinstance(caught.value, TimeoutError)
                assert caught.value.status is lockstep.Status.PENDING
            asked()
        result = work.wait(timeout=IN_TIME)
        assert work.done()
        assert work.result() is result
        assert work.wait(0) is result
        assert (given == 2).all()

    peers(2, main)


def test_a_failure_is_raised_again_whenever_it_is_asked_for(alone: Run) -> None:
    work = alone.wait_for_world_async(2)
    work.abort("by the test")
    texts = set()
    for ask in (work.wait, work.result, work.wait):
        with pytest.raises(lockstep.Aborted) as caught:
            ask(IN_TIME)
        assert caught.value.result is not None
        assert caught.value.result.status is lockstep.Status.ABORTED
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert work.done()
    work.abort("too late to mean anything")


@pytest.mark.parametrize("timeout", [-1, math.nan, -math.inf])
def test_time_outs_of_waits_are_not_negative(alone: Run, timeout: float) -> None:
    work = alone.wait_for_world_async(2)
    with pytest.raises(lockstep.InvalidArgument, match="allowed: 0 or more, or None for none"):
        work.wait(timeout)
    with pytest.raises(lockstep.InvalidArgument, match="allowed: 0 or more"):
        lockstep.wait_any([work], timeout)
    work.abort()


@at_each_rank(2)
def test_an_abort_ends_the_call_for_everybody(peers: Peers) -> None:
    aborted = Meeting(2)

    def main(run: Run, number: int) -> None:
        given = np.ones(10)
        if number == 1:
            aborted()
        work = run.all_reduce_async(given)
        if number == 0:
            work.abort("the loss is not a number")
        with pytest.raises(lockstep.Aborted, match="the loss is not a number"):
            work.wait(IN_TIME)
        if number == 0:
            aborted()
        assert (given == 1).all()

    peers(2, main)


@at_each_rank(2)
def test_many_threads_wait_for_one_work(peers: Peers) -> None:
    waiting = Meeting(2)

    def main(run: Run, number: int) -> None:
        if number == 1:
            waiting()
            run.all_reduce(np.ones(3))
            return
        work = run.all_reduce_async(np.ones(3))
        results: list[Any] = []
        threads = [threading.Thread(target=lambda: results.append(work.wait(IN_TIME))) for _ in range(8)]
        for thread in threads:
            thread.start()
        waiting()
        for thread in threads:
            thread.join(IN_TIME)
        assert len(results) == 8
        assert {id(result) for result in results} == {id(work.result())}

    peers(2, main)


@at_each_rank(2)
def test_wait_any_gives_the_first_that_is_over(peers: Peers) -> None:
    looked = Meeting(2)

    def main(run: Run, number: int) -> None:
        works = [run.all_reduce_async(np.ones(3), tag=tag) for tag in ([5] if number else range(10))]
        if number == 0:
            assert lockstep.wait_any(works, timeout=IN_TIME) is works[5]
            assert works[5].done()
            assert lockstep.wait_any([works[5], *works]) is works[5]
            rest = [work for work in works if work is not works[5]]
            for timeout in (0, 0.02):
                with pytest.raises(lockstep.WaitTimedOut):
                    lockstep.wait_any(rest, timeout)
            assert not any(work.done() for work in rest)
            looked()
        else:
            looked()
            works += [run.all_reduce_async(np.ones(3), tag=tag) for tag in range(10) if tag != 5]
        for work in works:
            work.wait(IN_TIME)

    peers(2, main)


def test_wait_any_counts_failures_as_over_and_takes_works_of_several_communicators(
    coordinator: lockstep.Coordinator, alone: Run
) -> None:
    with lockstep.Communicator(listen_host="127.0.0.1") as other:
        works = [alone.wait_for_world_async(9), other.connect_async(coordinator.address)]
        works[0].abort("by the test")
        assert lockstep.wait_any(iter(works), IN_TIME) is works[0]  # type: ignore[arg-type]
        with pytest.raises(lockstep.Aborted):
            works[0].wait()


def test_wait_any_needs_works(alone: Run) -> None:
    with pytest.raises(lockstep.InvalidArgument, match="works is empty"):
        lockstep.wait_any([])
    with pytest.raises(TypeError):
        lockstep.wait_any([None])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        lockstep.wait_any(alone.barrier_async())  # type: ignore[arg-type]


def test_dropped_works_go_on(peers: Peers) -> None:
    given = [np.ones(100) for _ in range(2)]

    def main(run: Run, number: int) -> None:
        for _ in range(20):
            run.all_reduce_async(given[number])
            run.all_reduce(np.ones(1))  # the same tag: the next use

    peers(2, main)
    assert all((array == 2.0**20).all() for array in given)


def test_works_outlive_their_communicator(coordinator: lockstep.Coordinator) -> None:
    run = lockstep.connect(coordinator.address, listen_host="127.0.0.1", timeout=IN_TIME)
    over, waits = run.barrier_async(), run.wait_for_world_async(5)
    over.wait(IN_TIME)
    run.close()
    del run
    assert over.result().world_size == 1
    with pytest.raises(lockstep.NotConnected):
        waits.wait(IN_TIME)
    waits.abort("nothing is left to be aborted")


def test_progress_of_a_call_that_has_none(alone: Run) -> None:
    work = alone.all_reduce_async(np.ones(3))
    work.wait(IN_TIME)
    assert work.progress == (0, 0)


def test_works_are_made_by_communicators_only() -> None:
    with pytest.raises(TypeError):
        lockstep.Work()


def test_results_are_made_by_calls_only() -> None:
    with pytest.raises(TypeError):
        lockstep.Result()
