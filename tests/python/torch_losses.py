"""What processes of torch do while some of them die: the rows of the table in docs/torch.md.

usage: python torch_losses.py <strict|elastic|coordinator> <rank> <size> <init method>

Prints "row <id> <mode>" for each row that is true. The survivors end with "survived".
"""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, Callable

import lockstep.torch
import torch
import torch.distributed as dist

MODE, RANK, SIZE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ELASTIC = MODE == "elastic"

lockstep.torch.register()


def row(name: str) -> None:
    print("row", name, MODE, flush=True)


def failure_of(call: Callable[[], object]) -> lockstep.torch.CollectiveError:
    try:
        call()
    except lockstep.torch.CollectiveError as error:
        return error
    raise AssertionError("the call has not failed")


def ranks() -> tuple[int, int]:
    group: Any = dist.group.WORLD
    return group.rank(), group.size()


def adds_up(size: int, group: Any = None) -> None:
    x = torch.ones(100)
    dist.all_reduce(x, group=group)
    assert (x == size).all(), x[0]


def dies(rank: int, how: int = signal.SIGKILL) -> None:
    """This rank dies once all others have called the barrier."""
    dist.barrier()
    if rank == RANK:
        os.kill(os.getpid(), how)


def other_collectives(lost: int) -> None:
    """A rank is lost while others gather."""
    parts = [torch.zeros(3) for _ in range(SIZE)]
    assert failure_of(lambda: dist.all_gather(parts, torch.ones(3))).lost == [lost]
    row("other collectives")


def transfers(lost: int, sub: Any) -> None:
    assert failure_of(lambda: dist.recv(torch.empty(3), lost)).lost == [lost]
    row("send and recv with it")
    if RANK < 2:
        x = torch.full((3,), float(RANK))
        if RANK == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)
        assert (x == 0).all()
        adds_up(2, sub)
    row("send and recv of others")
    row("groups without it")


def begun_broadcasts(group: Any) -> list[Any]:
    """Rank 1 gives ones to a group of all but rank 0; the last rank will die before it takes part."""
    if RANK in (0, SIZE - 1):
        return []
    given = [torch.full((1000,), float(RANK)), torch.full((5,), float(RANK))]
    return [(dist.broadcast(x, 1, group=group, async_op=True), x) for x in given]


def broadcasts(begun: Sequence[Any], group: Any, lost: int) -> None:
    """A rank is lost while others broadcast; then the root of a broadcast is lost."""
    for work, x in begun[::-1] if RANK == 1 else begun:  # they wait in different orders
        if ELASTIC:
            work.wait()
            assert (x == 1).all()
            assert group.size() == SIZE - 2
        else:
            assert failure_of(work.wait).lost == [lost - 1]
            assert group.size() == SIZE - 1
    error = failure_of(lambda: dist.broadcast(torch.ones(3), lost))
    assert error.lost == [lost]
    if ELASTIC:
        assert f"rank {lost}, the root" in str(error)
    row("broadcast")


def reductions(lost: int) -> None:
    """A rank is lost while others reduce."""
    assert ranks() == (RANK, SIZE)
    x = torch.ones(1000)
    if ELASTIC:
        dist.all_reduce(x)
        assert (x == SIZE - 1).all()
        group: Any = dist.group.WORLD
        assert len(group.result.contributors) == SIZE - 1
    else:
        error = failure_of(lambda: dist.all_reduce(x))
        assert error.lost == [lost]
        assert (x == 1).all()  # it holds its input
        assert failure_of(dist.barrier).lost == [lost]
    row("all_reduce and barrier")


def next_collectives(lost: int) -> None:
    if not ELASTIC:
        assert ranks() == (RANK, SIZE)
        assert failure_of(lambda: dist.all_reduce(torch.ones(3))).lost == [lost]
        assert lockstep.torch.shrink() == [lost]
    adds_up(SIZE - 1)
    x = torch.full((3,), float(RANK))
    dist.broadcast(x, 0)
    assert (x == 0).all()
    row("the next collectives")
    assert ranks() == (RANK - (lost < RANK), SIZE - 1)
    row("rank and size")


def timeouts() -> None:
    """A rank that comes too late ends one collective of all."""
    group: Any = dist.group.WORLD
    options = dist.BarrierOptions()
    options.timeout = datetime.timedelta(seconds=0.05)
    store = dist.distributed_c10d._get_default_store()
    if RANK > 0:
        store.wait(["late"])
    error = failure_of(lambda: group.barrier(options).wait())
    assert "timed out" in str(error)
    assert error.lost == []
    if RANK == 0:
        store.set("late", b"1")
    dist.barrier()
    row("a rank that is late")


def dead_coordinator() -> None:
    """Rank 0 dies, which runs the coordinator: the outcome of the barrier before may be lost with it."""
    with contextlib.suppress(lockstep.torch.CollectiveError):
        dies(0)
    for call in (dist.barrier, lambda: dist.all_reduce(torch.ones(3))):
        error = failure_of(call)
        assert error.lost[0] == 0
        assert "rank 0 ran the coordinator of this group" in str(error)
        assert "shrink" not in str(error)
    group: Any = dist.group.WORLD
    assert group.get_error() == torch._C._distributed_c10d.ErrorType.COMM_ERROR
    closed = group._calls.failure(lockstep.NotConnected("the communicator is closed"))
    assert "rank 0" not in str(closed), "only the loss of the coordinator is rank 0's"
    row("rank 0")


def of_a_group() -> None:
    """Rank 0 runs the coordinator."""
    sub = dist.new_group([0, 1])
    most = dist.new_group(list(range(1, SIZE)), pg_options=lockstep.torch.GroupOptions(elastic=ELASTIC))
    timeouts()
    begun = begun_broadcasts(most)
    dies(SIZE - 1)
    broadcasts(begun, most, SIZE - 1)
    other_collectives(SIZE - 1)
    transfers(SIZE - 1, sub)
    reductions(SIZE - 1)
    next_collectives(SIZE - 1)
    dead_coordinator()


def with_a_coordinator() -> None:
    """A coordinator of its own; rank 0 is like any other."""
    dies(0)
    assert failure_of(dist.barrier).lost == [0]
    assert lockstep.torch.shrink() == [0]
    adds_up(SIZE - 1)
    row("rank 0, with a coordinator of its own")
    began = time.monotonic()
    dies(SIZE - 1, signal.SIGSTOP)
    assert failure_of(dist.barrier).lost == [SIZE - 2]
    assert time.monotonic() - began < 10
    row("a process that hangs")


if __name__ == "__main__":
    dist.init_process_group(
        "lockstep",
        init_method=sys.argv[4],
        rank=RANK,
        world_size=SIZE,
        timeout=datetime.timedelta(seconds=30),
        pg_options=lockstep.torch.GroupOptions(elastic=ELASTIC),
    )
    (with_a_coordinator if MODE == "coordinator" else of_a_group)()
    print("survived", flush=True)
    os._exit(0)  # the group cannot be destroyed in order
