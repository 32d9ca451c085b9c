"""Calls that their own side refuses: nobody waits for them, everybody learns why, and the next call works."""

from __future__ import annotations

from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from support import IN_TIME, Peers, at_each_rank

Run = lockstep.Communicator
Wrong = Callable[[Run, Any], Any]
Right = Callable[[Run], Any]

FLOATS = np.ones(6, np.float32)


def out(count: int = 6, dtype: Any = np.float32) -> Any:
    return np.zeros(count, dtype)


def root(run: Run) -> Any:
    return run.members()[0]


# What peer 1 calls, what the others call, and what all of them are told.
CASES: dict[str, tuple[Wrong, Right, str]] = {
    "dtype of out": (
        lambda run, tag: run.all_reduce(FLOATS.copy(), out(6, np.float64), tag=tag),
        lambda run: run.all_reduce(FLOATS.copy(), out(), tag=3),
        "refused its all_reduce with tag 3: out has 6 elements of float64",
    ),
    "shape of out": (
        lambda run, tag: run.all_reduce(FLOATS.copy(), out(7), tag=tag),
        lambda run: run.all_reduce(FLOATS.copy(), out(), tag=3),
        "refused its all_reduce with tag 3: out has 7 elements",
    ),
    "overlap": (
        lambda run, tag: run.all_reduce((big := np.zeros(9, np.float32))[:6], big[3:], tag=tag),
        lambda run: run.all_reduce(FLOATS.copy(), out(), tag=3),
        "refused its all_reduce with tag 3: tensor 0: array and out overlap",
    ),
    "strides": (
        lambda run, tag: run.all_reduce(np.zeros(12, np.float32)[::2], tag=tag),
        lambda run: run.all_reduce(FLOATS.copy(), tag=3),
        "refused its all_reduce with tag 3: array: numpy.ndarray of shape (6,)",
    ),
    "dtype": (
        lambda run, tag: run.all_reduce(np.array(["x"]), tag=tag),
        lambda run: run.all_reduce(FLOATS.copy(), tag=3),
        "refused its all_reduce with tag 3: array: ",
    ),
    "op": (
        lambda run, tag: run.all_reduce(FLOATS.copy(), op="median", tag=tag),  # type: ignore[arg-type]
        lambda run: run.all_reduce(FLOATS.copy(), tag=3),
        "refused its all_reduce with tag 3: op is 'median'",
    ),
    "op of a dtype": (
        lambda run, tag: run.all_reduce(FLOATS.copy(), op="band", tag=tag),
        lambda run: run.all_reduce(FLOATS.copy(), tag=3),
        "refused its all_reduce with tag 3: ",
    ),
    "wire": (
        lambda run, tag: run.all_reduce(FLOATS.copy(), op="max", up="bf16", tag=tag),
        lambda run: run.all_reduce(FLOATS.copy(), op="max", tag=3),
        "refused its all_reduce with tag 3: ",
    ),
    "timeout": (
        lambda run, tag: run.barrier(timeout=-1.0, tag=tag),
        lambda run: run.barrier(tag=3),
        "refused its barrier with tag 3: timeout is -1",
    ),
    "async": (
        lambda run, tag: run.all_reduce_async(FLOATS.copy(), out(7), tag=tag),
        lambda run: run.all_reduce_async(FLOATS.copy(), out(), tag=3).wait(IN_TIME),
        "refused its all_reduce with tag 3: out has 7 elements",
    ),
    "reduce_scatter": (
        lambda run, tag: run.reduce_scatter(FLOATS, out(2, np.int32), tag=tag),
        lambda run: run.reduce_scatter(FLOATS, out(2), tag=3),
        "refused its reduce_scatter with tag 3: out has dtype int32",
    ),
    "all_gather": (
        lambda run, tag: run.all_gather(FLOATS, out(2), tag=tag),
        lambda run: run.all_gather(FLOATS, out(18), tag=3),
        "refused its all_gather with tag 3: out has room for 2 elements",
    ),
    "broadcast": (
        lambda run, tag: run.broadcast(FLOATS.copy(), 0, tag=tag),  # type: ignore[arg-type]
        lambda run: run.broadcast(FLOATS.copy(), root(run), tag=3),
        "refused its broadcast with tag 3: root is 0",
    ),
    "reduce": (
        lambda run, tag: run.reduce(FLOATS, b"x", tag=tag),  # type: ignore[arg-type]
        lambda run: run.reduce(FLOATS, root(run), tag=3),
        "refused its reduce with tag 3: root is b'x'",
    ),
    "gather": (
        lambda run, tag: run.gather("text", root(run), tag=tag),
        lambda run: run.gather(FLOATS, root(run), tag=3),
        "refused its gather with tag 3: ",
    ),
    "scatter": (
        lambda run, tag: run.scatter(None, root(run), tag=tag),
        lambda run: run.scatter(np.ones(9, np.float32), root(run), out(3), tag=3),
        "refused its scatter with tag 3: ",
    ),
    "all_to_all": (
        lambda run, tag: run.all_to_all(np.ones(7, np.float32), tag=tag),
        lambda run: run.all_to_all(FLOATS, tag=3),
        "refused its all_to_all with tag 3: array has 7 elements, which are no equal parts for 3 members",
    ),
    "sync": (
        lambda run, tag: run.sync({"w": FLOATS}, tag=tag),  # type: ignore[arg-type]
        lambda run: run.sync(lockstep.State({"w": FLOATS.copy()}), tag=3),
        "refused its sync with tag 3: state is a dict",
    ),
    "the program's own": (
        lambda run, tag: refuse_and_raise(run, tag),
        lambda run: run.barrier(tag=3),
        "refused its evaluation with tag 3: no data",
    ),
}


# Every call that returns a work, with arguments that are wrong for it.
ASYNC: dict[str, Wrong] = {
    "all_reduce": lambda run, tag: run.all_reduce_async(FLOATS.copy(), out(7), tag=tag),
    "reduce_scatter": lambda run, tag: run.reduce_scatter_async(FLOATS, out(2, np.int32), tag=tag),
    "all_gather": lambda run, tag: run.all_gather_async(FLOATS, out(2), tag=tag),
    "broadcast": lambda run, tag: run.broadcast_async(FLOATS.copy(), 0, tag=tag),  # type: ignore[arg-type]
    "reduce": lambda run, tag: run.reduce_async(FLOATS, b"x", tag=tag),  # type: ignore[arg-type]
    "gather": lambda run, tag: run.gather_async("text", root(run), tag=tag),
    "scatter": lambda run, tag: run.scatter_async(None, root(run), tag=tag),
    "all_to_all": lambda run, tag: run.all_to_all_async(np.ones(7, np.float32), tag=tag),
    "barrier": lambda run, tag: run.barrier_async(timeout=-1.0, tag=tag),
    "sync": lambda run, tag: run.sync_async({"w": FLOATS}, tag=tag),  # type: ignore[arg-type]
}


def refuse_and_raise(run: Run, tag: int) -> None:
    run.refuse("evaluation", "no data", tag=tag)
    raise ValueError("no data")


@at_each_rank(3)
@pytest.mark.parametrize("case", CASES)
def test_a_refused_call_ends_on_all_members(peers: Peers, case: str) -> None:
    wrong, right, told = CASES[case]

    def program(run: Run, number: int) -> None:
        for _ in range(2):  # the tag stays of use
            if number == 1:
                with pytest.raises((TypeError, ValueError, lockstep.Error)):
                    wrong(run, 3)
            else:
                with pytest.raises(lockstep.InvalidArgument) as caught:
                    right(run)
                assert told in str(caught.value)
                assert str(caught.value).startswith("peer 1")
            values = FLOATS.copy()
            run.all_reduce(values, tag=3, timeout=IN_TIME)
            assert values[0] == 3

    peers(3, program, each=lambda number: {"name": f"peer {number}"})


def test_every_call_that_returns_a_work_is_among_them() -> None:
    calls = {name.removesuffix("_async") for name in dir(Run) if name.endswith("_async")}
    ways = {"connect", "admit", "wait_for_world", "leave", "publish", "prefetch", "send", "recv"}
    assert set(ASYNC) == calls - ways  # which no call of another member waits for


@at_each_rank(2)
@pytest.mark.parametrize("operation", ASYNC)
def test_a_refused_work_ends_the_call_of_all_members(peers: Peers, operation: str) -> None:
    def program(run: Run, number: int) -> None:
        if number == 1:
            with pytest.raises((TypeError, ValueError, lockstep.Error)) as refused:
                ASYNC[operation](run, 3)
            run.barrier(timeout=IN_TIME)
            assert str(refused.value)
        else:
            with pytest.raises(lockstep.InvalidArgument, match=f"^peer 1.* refused its {operation} with tag 3: ."):
                run.all_reduce(FLOATS.copy(), tag=3, timeout=IN_TIME)
            run.barrier(timeout=IN_TIME)

    peers(2, program, each=lambda number: {"name": f"peer {number}"})


@at_each_rank(2)
def test_a_call_whose_tag_cannot_be_read_is_no_call(peers: Peers) -> None:
    def program(run: Run, number: int) -> None:
        if number == 1:
            with pytest.raises((TypeError, ValueError)):
                run.barrier(tag=-1)
        run.barrier(timeout=IN_TIME)

    peers(2, program)


def test_refusals_of_a_peer_that_is_no_member_are_for_nobody() -> None:
    run = lockstep.Communicator()
    with pytest.raises(lockstep.InvalidArgument):
        run.all_reduce(FLOATS.copy(), out(7))
    run.refuse("call", "no reason")
    run.close()
    with pytest.raises(lockstep.NotConnected):
        run.all_reduce(FLOATS.copy(), out())
