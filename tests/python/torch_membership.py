"""What three processes do to test changes of membership: torch's reconfigure, one scenario after the other.

usage: python torch_membership.py <rank> <size> <file of the store>

Prints "passed <scenario>" for each. In the last one rank 0 dies. With torch 2.14 and later the scenarios go through
torch.distributed's own functions, before that through the group's methods.
"""

from __future__ import annotations

import datetime
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Callable

import lockstep.torch
import torch
import torch.distributed as dist

RANK, SIZE = int(sys.argv[1]), int(sys.argv[2])
LAST, MIDDLE = SIZE - 1, SIZE // 2
TIMEOUT = datetime.timedelta(seconds=30)
NATIVE = hasattr(dist, "_reconfigure")

lockstep.torch.register()


def failure_of(call: Callable[[], object]) -> str:
    """The text of the error that a call raises."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("the call has not failed")


class Scene:
    """A group without members yet, and what the scenarios do with it."""

    def __init__(self, name: str, number: int) -> None:
        self.store: Any = dist.PrefixStore(name, dist.FileStore(sys.argv[3], SIZE))
        self._number = 100 * (number + 1)
        options: dict[str, Any] = {"pg_options": lockstep.torch.GroupOptions(enable_reconfigure=True)}
        if NATIVE:
            options = {"enable_reconfigure": True}
        dist.init_process_group("lockstep", store=self.store, rank=RANK, world_size=SIZE, timeout=TIMEOUT, **options)
        self.group: Any = dist.group.WORLD
        assert dist._supports_reconfigure() if NATIVE else self.group.supports_reconfigure

    def uuid(self, step: int) -> int:
        return self._number + step

    def handle(self) -> str:
        return str(dist._get_reconfigure_handle() if NATIVE else self.group.get_reconfigure_handle())

    def handles(self, key: str, rank: int = RANK) -> list[str]:
        """The handles of all processes."""
        self.store.set(f"{key}/{rank}", self.handle())
        return [self.store.get(f"{key}/{other}").decode() for other in range(SIZE)]

    def begin(self, step: int, handles: Sequence[str] | set[str], seconds: float = 30) -> Any:
        timeout = datetime.timedelta(seconds=seconds)
        if NATIVE:
            return dist._reconfigure(self.uuid(step), handles, timeout=timeout)
        return self.group.reconfigure(
            lockstep.torch.ReconfigureOptions(self.uuid(step), handles, timeout)  # type: ignore[arg-type]
        )

    def move(self, step: int, handles: Sequence[str] | set[str], seconds: float = 30) -> None:
        self.begin(step, handles, seconds).wait()

    def failure(self, step: int, handles: Sequence[str], seconds: float) -> str:
        began = time.monotonic()
        text = failure_of(lambda: self.move(step, handles, seconds))
        assert time.monotonic() - began < seconds + 5
        return text

    def everybody(self, step: int = 0) -> list[str]:
        """All processes become members. Returns their handles."""
        handles = self.handles(f"everybody {step}")
        self.move(step, handles)
        self.is_at(RANK, SIZE)
        return handles

    def is_at(self, rank: int, size: int) -> None:
        assert (dist.get_rank(), dist.get_world_size()) == (rank, size), (dist.get_rank(), dist.get_world_size())

    def adds_up(self) -> None:
        """An all-reduce of rank + 1."""
        x = torch.full((4,), dist.get_rank() + 1.0)
        dist.all_reduce(x)
        size = dist.get_world_size()
        assert (x == size * (size + 1) / 2).all(), x

    def meet(self, key: str) -> None:
        """A barrier over the store."""
        self.store.set(f"{key}/{RANK}", b"1")
        self.store.wait([f"{key}/{other}" for other in range(SIZE)])


def basic(scene: Scene) -> None:
    handles = scene.everybody()
    assert len(set(handles)) == SIZE
    assert scene.handle() == handles[RANK]
    if NATIVE:
        assert dist.get_backend_impl(scene.group, torch.device("cpu")) is scene.group


def all_reduce(scene: Scene) -> None:
    scene.everybody()
    scene.adds_up()


def send_and_receive(scene: Scene) -> None:
    scene.everybody()
    x = torch.empty(4)
    receiving = scene.group.recv([x], (RANK - 1) % SIZE, 0)
    scene.group.send([torch.full((4,), RANK + 1.0)], (RANK + 1) % SIZE, 0).wait()
    receiving.wait()
    assert (x == (RANK - 1) % SIZE + 1).all()
    scene.meet("received")


def without(handles: Sequence[str], rank: int) -> list[str]:
    return [handle for other, handle in enumerate(handles) if other != rank]


def shrinks(excluded: int) -> Callable[[Scene], None]:
    def shrink(scene: Scene) -> None:
        handles = scene.everybody()
        if excluded != RANK:
            scene.move(1, without(handles, excluded))
            scene.is_at(RANK - (excluded < RANK), SIZE - 1)
            scene.adds_up()
            x = torch.full((4,), 42.0 if dist.get_rank() == 0 else 0.0)
            dist.broadcast(x, 0)
            assert (x == 42).all()
        scene.meet("shrunk")

    return shrink


def scale_down_and_up(scene: Scene) -> None:
    scene.move(RANK, [scene.handle()])
    scene.is_at(0, 1)
    scene.adds_up()
    scene.move(SIZE, scene.handles("all"))
    scene.is_at(RANK, SIZE)
    scene.adds_up()
    scene.meet("added up")
    scene.move(SIZE + 1 + RANK, [scene.handle()])
    scene.is_at(0, 1)


def single_to_all(scene: Scene) -> None:
    scene.move(RANK, [scene.handle()])
    scene.move(SIZE, scene.handles("all"))
    scene.adds_up()


def identity(scene: Scene) -> None:
    scene.everybody()
    scene.everybody(1)
    scene.adds_up()


def unordered(scene: Scene) -> None:
    scene.move(0, set(scene.handles("all")))
    ranks: list[Any] = [None] * SIZE
    dist.all_gather_object(ranks, dist.get_rank())
    assert ranks == list(range(SIZE))


def reversed_order(scene: Scene) -> None:
    scene.move(0, scene.handles("all")[::-1])
    scene.is_at(SIZE - 1 - RANK, SIZE)
    scene.adds_up()


def late_join(scene: Scene) -> None:
    handles = scene.handles("first")
    if RANK < LAST:
        scene.move(0, handles[:LAST])
        scene.adds_up()
    scene.everybody(1)
    scene.adds_up()


def rejoins(excluded: int) -> Callable[[Scene], None]:
    def rejoin(scene: Scene) -> None:
        handles = scene.everybody()
        if excluded != RANK:
            scene.move(1, without(handles, excluded))
            scene.adds_up()
        scene.everybody(2)
        scene.adds_up()

    return rejoin


def repeated_shrink_and_grow(scene: Scene) -> None:
    scene.everybody()
    for turn in range(4):
        handles = scene.handles(f"before {turn}", dist.get_rank())
        leaves = turn % SIZE
        stays = dist.get_rank() != leaves
        if stays:
            scene.move(1 + 2 * turn, without(handles, leaves))
            scene.adds_up()
        handles = scene.handles(f"after {turn}", dist.get_rank() if stays else LAST)
        scene.move(2 + 2 * turn, handles)
        scene.adds_up()


def merge_and_split(scene: Scene) -> None:
    handles = scene.handles("first")
    parts = [handles[:MIDDLE], handles[MIDDLE:]]
    own = int(RANK >= MIDDLE)
    scene.move(own, parts[own])
    scene.adds_up()
    scene.everybody(2)
    scene.adds_up()
    scene.move(3 + own, parts[own])
    scene.is_at(RANK - own * MIDDLE, len(parts[own]))
    scene.adds_up()


def after_abort(scene: Scene) -> None:
    scene.everybody()
    calls: list[str] = []
    scene.group.register_abort_hook(1, lambda: calls.append("one"))
    scene.group.register_abort_hook(2, lambda: calls.append("two"))
    scene.group.unregister_abort_hook(2)
    scene.group.abort()
    assert calls == ["one"]
    assert scene.group.get_error() == torch._C._distributed_c10d.ErrorType.SUCCESS
    scene.everybody(1)
    scene.adds_up()


def after_timeout(scene: Scene) -> None:
    scene.everybody()
    scene.adds_up()
    if RANK == 1:
        calls: list[str] = []
        scene.group.register_abort_hook(1, lambda: calls.append("called"))
        scene.group.set_timeout(datetime.timedelta(milliseconds=50))
        work = dist.all_reduce(torch.ones(4), async_op=True)
        assert work is not None
        assert "timed out" in failure_of(work.wait)
        assert calls == ["called"]
        scene.group.set_timeout(TIMEOUT)
    scene.meet("timed out")
    scene.everybody(1)
    scene.adds_up()


def reused_uuid(scene: Scene) -> None:
    handles = scene.everybody()
    alone = [scene.handle()]
    assert "already used" in scene.failure(0, alone, 5)
    scene.adds_up()  # the old membership is kept
    if RANK == 0:
        scene.move(1, alone)
    scene.meet("used")
    assert "already used" in scene.failure(1, handles, 5)  # on all of them, though only rank 0 has used it
    scene.everybody(2)
    scene.adds_up()


def failed_join(scene: Scene) -> None:
    handles = scene.everybody()
    if RANK != MIDDLE:
        text = scene.failure(1, handles, 0.5)
        assert "timed out" in text, text
        assert f"[{MIDDLE}] did not come" in text, text
        scene.store.set(f"text/{RANK}", text)
    texts = {scene.store.get(f"text/{other}").decode() for other in range(SIZE) if other != MIDDLE}
    assert len(texts) == 1, texts
    if RANK == MIDDLE:  # a call that comes too late fails at once
        assert {scene.failure(1, handles, 30)} == texts
    scene.meet("told")
    scene.adds_up()  # the old membership is kept
    scene.everybody(2)
    scene.adds_up()


def failed_join_of_rank_0(scene: Scene) -> None:
    handles = scene.everybody()
    if RANK != 0:
        assert "timed out" in scene.failure(1, handles, 0.5)
    scene.meet("told")
    scene.adds_up()
    scene.everybody(2)
    scene.adds_up()


def configured(scene: Scene) -> None:
    """What torchft 0.2 calls."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) if RANK == 0 else None
    if store is not None:
        scene.store.set("port", str(store.port))
    address = f"127.0.0.1:{scene.store.get('port').decode()}"
    group = lockstep.torch.reconfigurable(TIMEOUT)
    try:
        group.configure(f"{address}/torchft/1/0", "replica", RANK, SIZE, quorum_id=1)
        assert (group.rank(), group.size(), group.errored()) == (RANK, SIZE, None)
        x = torch.ones(3)
        group.allreduce([x], dist.ReduceOp.SUM).get_future().wait()
        assert (x == SIZE).all()
        scene.meet("reduced")
        if RANK < LAST:
            group.configure(f"{address}/torchft/2/0", "replica", RANK, SIZE - 1, quorum_id=2)
            x = torch.ones(3)
            group.allreduce([x], dist.AllreduceOptions()).wait()
            assert (x == SIZE - 1).all()
        scene.meet("configured")
    finally:
        group.shutdown()


def wrong_handles(scene: Scene) -> None:
    handles = scene.everybody()
    assert "without this process" in scene.failure(1, without(handles, RANK), 5)
    assert "twice" in scene.failure(2, [handles[RANK]] * 2, 5)
    scene.adds_up()


def hung_rank_0(scene: Scene) -> None:
    """The process in whose store they meet answers nothing for a while."""
    handles = scene.everybody()
    if RANK == 0:
        scene.store.set("pid", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        pid = int(scene.store.get("pid"))
        tick = threading.Event()
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            tick.wait(0.002)
        assert "timed out" in scene.failure(1, handles, 0.2)
        scene.store.set(f"told/{RANK}", b"1")
        scene.store.wait([f"told/{other}" for other in range(1, SIZE)])
        os.kill(pid, signal.SIGCONT)
    scene.everybody(2)
    scene.adds_up()


def dead_rank_0(scene: Scene) -> None:
    handles = scene.everybody()
    scene.meet("all have moved")
    if RANK == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    failure_of(dist.barrier)
    assert scene.group.get_error() != torch._C._distributed_c10d.ErrorType.SUCCESS
    text = scene.failure(1, handles, 30)
    assert "rank 0 cannot be reached" in text, text
    scene.move(2, handles[1:])
    scene.is_at(RANK - 1, SIZE - 1)
    scene.adds_up()


SCENES: dict[str, Callable[[Scene], None]] = {
    "basic": basic,
    "all_reduce": all_reduce,
    "send and receive": send_and_receive,
    "shrink last": shrinks(LAST),
    "shrink middle": shrinks(MIDDLE),
    "scale down and up": scale_down_and_up,
    "single to all": single_to_all,
    "identity": identity,
    "unordered": unordered,
    "reversed": reversed_order,
    "late join": late_join,
    "shrink then rejoin last": rejoins(LAST),
    "shrink then rejoin middle": rejoins(MIDDLE),
    "repeated shrink and grow": repeated_shrink_and_grow,
    "merge and split": merge_and_split,
    "after abort": after_abort,
    "after timeout": after_timeout,
    "reused uuid": reused_uuid,
    "failed join": failed_join,
    "failed join of rank 0": failed_join_of_rank_0,
    "configured": configured,
    "wrong handles": wrong_handles,
    "hung rank 0": hung_rank_0,
    "dead rank 0": dead_rank_0,
}

if __name__ == "__main__":
    for number, (name, act) in enumerate(SCENES.items()):
        scene = Scene(name, number)
        act(scene)
        print("passed", name, flush=True)
        dist.destroy_process_group()
