"""What a call borrows lives until its outcome, whatever becomes of its Work; and no longer, whoever holds it."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from support import IN_TIME, Meeting, Peers, at_each_rank, until

Run = lockstep.Communicator


def begins(run: Run, given: Any) -> dict[str, Callable[[], lockstep.Work]]:
    """Calls that borrow an array, by name. Those with a root have the first member as root."""
    out = np.empty(4 * len(given), given.dtype)
    return {
        "all_reduce": lambda: run.all_reduce_async(given),
        "list": lambda: run.all_reduce_async([given]),
        "out": lambda: run.all_reduce_async(np.ones_like(given), given),
        "reduce_scatter": lambda: run.reduce_scatter_async(given, out),
        "all_gather": lambda: run.all_gather_async(given, out),
        "broadcast": lambda: run.broadcast_async(given, run.members()[0]),
        "reduce": lambda: run.reduce_async(given, run.members()[0]),
        "gather": lambda: run.gather_async(given, run.members()[0]),
        "scatter": lambda: run.scatter_async(np.ones(2 * len(given), given.dtype), run.members()[0], given),
        "all_to_all": lambda: run.all_to_all_async(given, out),
        "sync": lambda: run.sync_async(lockstep.State({"x": given})),
    }


NAMES = ["all_reduce", "list", "out", "reduce_scatter", "all_gather", "broadcast", "reduce", "gather", "scatter"]
NAMES += ["all_to_all", "sync"]


class Watched(np.ndarray[Any, Any]):
    """An array that can be referred to weakly and says when it goes."""


def watched(count: int) -> Any:
    return np.ones(count).view(Watched)


@at_each_rank(2)
@pytest.mark.parametrize("name", NAMES)
def test_arrays_live_until_the_outcome_when_the_work_is_dropped(peers: Peers, name: str) -> None:
    dropped = Meeting(2)

    def main(run: Run, number: int) -> None:
        given = watched(1000)
        gone = weakref.ref(given)
        if number == 0:
            begins(run, given)[name]()
            del given
            gc.collect()
            assert gone() is not None  # lent to a call that waits for the other
            dropped()
            run.barrier(tag=9)
            until(lambda: gone() is None)
        else:
            dropped()
            assert begins(run, given)[name]().wait(IN_TIME).world_size == 2
            run.barrier(tag=9)

    peers(2, main)


class Talkative(np.ndarray[Any, Any]):
    """An array that makes a call at its end."""

    at_end: Callable[[], object]

    def __del__(self) -> None:
        self.at_end()


def test_the_end_of_an_array_may_make_calls(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        ends = []
        with lockstep.Coordinator("127.0.0.1:0") as coordinator, lockstep.connect(coordinator.address) as alone:

            def at_end() -> None:
                alone.barrier()  # also gives back the memory of calls that are over
                ends.append(True)

            for step in range(20):
                given = np.ones(1000).view(Talkative)
                given.at_end = at_end
                work = run.all_reduce_async(given)
                del given
                assert work.wait(IN_TIME).world_size == 2
                until(lambda wanted=step + 1: len(ends) == wanted)

    peers(2, main)


@at_each_rank(2)
def test_the_memory_of_a_dropped_array_is_really_written(peers: Peers) -> None:
    dropped = Meeting(2)
    memory = bytearray(8 * 1000)

    def main(run: Run, number: int) -> None:
        if number == 0:
            given = np.frombuffer(memory).reshape(10, 100)
            run.all_reduce_async(given)
            del given
            gc.collect()
            with pytest.raises(BufferError):
                memory.extend(b"no")  # still lent
            dropped()
        else:
            dropped()
            run.all_reduce(np.full(1000, 7.0))
        run.barrier(tag=9)

    peers(2, main)
    assert (np.frombuffer(memory) == 7).all()


@pytest.mark.parametrize("name", NAMES)
def test_arrays_are_given_back_at_the_outcome_while_the_work_lives(alone: Run, name: str) -> None:
    given = watched(100)
    before = sys.getrefcount(given)
    calls = begins(alone, given)
    held = sys.getrefcount(given)
    work = calls[name]()
    until(work.done)
    state_holds = 0  # the State of the sync is gone with its lambda's frame; its Work holds only its values
    assert sys.getrefcount(given) <= held + state_holds + (1 if name == "sync" else 0)
    del calls
    assert sys.getrefcount(given) <= before + (1 if name == "sync" else 0)
    assert work.done()


def test_a_buffer_may_be_resized_once_the_call_is_over(alone: Run) -> None:
    given = bytearray(100)
    work = alone.all_reduce_async(given)
    work.wait(IN_TIME)
    given.extend(b"more")
    alone.all_reduce(given)
    given.extend(b"more")
    assert work.done()


def test_arrays_come_back_by_themselves(alone: Run) -> None:
    """Nobody asks the Work, nobody calls the package: the interpreter's main thread takes the loan back."""
    given = watched(100)
    before = sys.getrefcount(given)
    alone.all_reduce_async(given)
    until(lambda: sys.getrefcount(given) <= before + 1)  # one for the closure


def test_arrays_come_back_while_the_main_thread_waits(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:  # not on the main thread, which joins this one
        given = watched(100)
        gone = weakref.ref(given)
        run.all_reduce_async(given)
        del given
        until(lambda: gone() is None)

    peers(2, main)


@at_each_rank(2)
@pytest.mark.parametrize("how", ["abort", "timeout", "close", "mismatch"])
def test_arrays_are_given_back_whatever_the_outcome(peers: Peers, how: str) -> None:
    begun = Meeting(2)

    def main(run: Run, number: int) -> None:
        given = watched(100 + (number if how == "mismatch" else 0))
        if number == 1 and how != "mismatch":
            begun()
            return
        gone = weakref.ref(given)
        work = run.all_reduce_async(given, timeout=0.02 if how == "timeout" else None)
        del given
        if how == "abort":
            work.abort("by the test")
        if how == "close":
            run.close()
        expected = {
            "abort": lockstep.Aborted,
            "timeout": lockstep.TimedOut,
            "close": lockstep.OutcomeUnknown,
            "mismatch": lockstep.Mismatch,
        }
        with pytest.raises(expected[how]):
            work.wait(IN_TIME)
        until(lambda: gone() is None)
        if how != "mismatch":
            begun()

    peers(2, main)


def test_many_calls_in_flight_whose_works_are_dropped(peers: Peers) -> None:
    count = 100
    arrays: list[list[Any]] = [[np.full(50, tag + 1.0) for tag in range(count)] for _ in range(2)]

    def main(run: Run, number: int) -> None:
        for tag, given in enumerate(arrays[number]):
            run.all_reduce_async(given, tag=tag)
        run.barrier(tag=count)  # is no fence for the others
        last = [run.all_reduce_async(np.ones(1), tag=tag) for tag in range(count)]  # the second use of each tag
        for work in last:
            assert work.wait(IN_TIME).use == 1

    peers(2, main)
    for own in arrays:
        assert all((array == 2 * (tag + 1)).all() for tag, array in enumerate(own))
        until(lambda own=own: all(sys.getrefcount(array) <= 3 for array in own))  # type: ignore[misc]


@at_each_rank(2)
def test_any_number_of_calls_in_flight_in_any_order(peers: Peers) -> None:
    count = 2000

    def main(run: Run, number: int) -> None:
        arrays = [np.full(3, tag + 1.0) for tag in range(count)]
        order = range(count) if number == 0 else reversed(range(count))
        works = [run.all_reduce_async(arrays[tag], tag=tag) for tag in order]
        for work in works:
            work.wait(IN_TIME)
        assert all((array == 2 * (tag + 1)).all() for tag, array in enumerate(arrays))
        run.barrier()

    peers(2, main)


@at_each_rank(2)
def test_the_group_is_of_use_after_an_error_among_many_calls(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        run.barrier()
        if number == 0:
            works = [run.all_reduce_async(np.ones(1), tag=tag) for tag in range(1, 700)]
            run.abort_all("enough")
            for work in works:
                with pytest.raises(lockstep.Aborted):
                    work.wait(IN_TIME)
        run.barrier()

    peers(2, main)


@at_each_rank(2)
def test_a_launch_without_room_fails_on_request(peers: Peers) -> None:
    launched = 0

    def launch_without_end(run: Run) -> None:
        nonlocal launched
        while True:
            run.barrier_async(tag=launched % 7 + 1)
            launched += 1

    def main(run: Run, number: int) -> None:
        if number == 1:
            run.barrier()
            return
        with lockstep.no_wait(), pytest.raises(lockstep.TooManyInFlight, match="65536 calls"):
            launch_without_end(run)
        run.close()

    with contextlib.suppress(lockstep.Error):  # the other peer loses its last neighbour, or not
        peers(2, main)
    assert launched == 65_536


@at_each_rank(2)
def test_the_watched_state_is_lent_to_calls_in_flight(peers: Peers) -> None:
    dropped = Meeting(2)

    def main(run: Run, number: int) -> None:
        weights = watched(100)
        gone = weakref.ref(weights)
        run.watch(lockstep.State({"w": weights}))
        del weights
        if number == 1:
            dropped()
        work = run.all_reduce_async(np.ones(3))
        run.watch(None)
        gc.collect()
        if number == 0:
            assert gone() is not None
            dropped()
        assert work.wait(IN_TIME).state_difference == ""
        until(lambda: gone() is None)

    peers(2, main)


def test_a_published_state_that_is_lent_lives_until_it_is_not(alone: Run) -> None:
    weights = watched(100)
    gone = weakref.ref(weights)
    alone.publish(lockstep.State({"w": weights}), stable=True)
    del weights
    gc.collect()
    assert gone() is not None
    alone.unpublish()
    assert gone() is None


def test_a_published_state_that_is_copied_is_not_held(alone: Run) -> None:
    weights = watched(100)
    gone = weakref.ref(weights)
    alone.publish(lockstep.State({"w": weights}))
    del weights
    until(lambda: gone() is None)
    alone.unpublish()


@pytest.mark.parametrize("rank", range(3))
def test_lists_of_small_arrays_travel_as_one(peers: Peers, rank: int) -> None:
    """Small and large arrays, in place and out of place; results are where they belong."""
    sizes = [3, 0, 1, 70_000, 5, 4096, 4097, 2, 2]

    def given(number: int, dtype: Any) -> list[Any]:
        return [np.arange(size, dtype=dtype) * (number + 1) + at for at, size in enumerate(sizes)]

    def main(run: Run, number: int) -> None:
        for dtype in (np.float32, np.int64):
            wanted = [sum(arrays) for arrays in zip(*(given(other, dtype) for other in range(3)))]
            in_place, source, out = given(number, dtype), given(number, dtype), given(9, dtype)
            run.all_reduce(in_place)
            run.all_reduce(source, out)
            rooted = [np.full_like(array, 9) for array in source] if run.rank == rank else None
            run.reduce(source, run.members()[rank], rooted)
            spread = [array.copy() for array in source]
            if run.rank == rank:
                for array in spread:
                    array.flags.writeable = False  # the root's are read only
            run.broadcast(spread, run.members()[rank])
            sender = run.all_gather(np.array([number])).output.tolist()[rank]
            for at, array in enumerate(wanted):
                assert (in_place[at] == array).all()
                assert (out[at] == array).all()
                assert rooted is None or (rooted[at] == array).all()
                assert (source[at] == given(number, dtype)[at]).all()
                assert (spread[at] == given(sender, dtype)[at]).all()

    peers(3, main)


def test_lists_that_join_to_the_same_size_do_not_match(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        arrays = [np.full(3 + number, 7.0), np.full(4 - number, 7.0)]
        with pytest.raises(lockstep.Mismatch):
            run.all_reduce(arrays)
        assert all((array == 7).all() for array in arrays)

    peers(2, main)
