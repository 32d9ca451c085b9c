"""Parts of lockstep.torch: the store in which processes meet, handles, and futures."""

from __future__ import annotations

import socket
import threading
import types
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import lockstep
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import lockstep.torch as lt  # noqa: E402
from lockstep.torch._repeated import Repeated  # noqa: E402
from lockstep.torch._store import Store, StoreServer, connect_store, keep, under  # noqa: E402
from lockstep.torch._tensors import plain_array, reduction_of  # noqa: E402
from lockstep.torch._work import Ended  # noqa: E402

SOON = timedelta(seconds=20)


@pytest.fixture
def server() -> Iterator[StoreServer]:
    running = StoreServer()
    yield running
    running.close()


def test_a_store_gives_what_was_set(server: StoreServer) -> None:
    near, far = Store(server, "127.0.0.1"), connect_store("127.0.0.1", server.port, 10)
    near.set("a", b"1")
    assert far.get("a") == b"1"
    assert far.check(["a"])
    assert not far.check(["a", "b"])
    assert keep(far, "b", "first") == "first"
    assert keep(near, "b", "second") == "first"
    assert not under(far, "part").check(["a"])
    under(near, "part").set("a", "2")
    assert far.get("part/a") == b"2"


def test_a_store_drops_strangers_and_serves_others(server: StoreServer) -> None:
    for line in (b"GET / HTTP/1.1\r\n", b"[1]\n", b'["set"]\n', b'["boom", "a"]\n', b"x" * (1 << 18)):
        with socket.create_connection(("127.0.0.1", server.port), 10) as stranger:
            stranger.sendall(line)
            if line.endswith(b"\n"):
                assert stranger.recv(1) == b""
    far = connect_store("127.0.0.1", server.port, 10)
    far.set("a", "1")
    assert far.get("a") == b"1"


def test_a_store_that_has_gone_is_an_error(server: StoreServer) -> None:
    far = connect_store("127.0.0.1", server.port, 10)
    far.set("a", "1")
    server.close()
    with pytest.raises(ConnectionError):
        far.get("a")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        connect_store("127.0.0.1", port, 10)


def test_a_group_of_one_and_its_errors() -> None:
    group = lt.reconfigurable(SOON)
    try:
        assert group.supports_reconfigure
        assert group.errored() is not None
        with pytest.raises(lt.CollectiveError, match="no handle of the backend"):
            group.reconfigure(lt.ReconfigureOptions(1, ["elsewhere", group.get_reconfigure_handle()])).wait()
        group.reconfigure(lt.ReconfigureOptions(2, {group.get_reconfigure_handle()})).wait()
        assert (group.rank(), group.size(), group.errored()) == (0, 1, None)
        x = torch.ones(3)
        group.allreduce([x]).wait()
        assert x.tolist() == [1, 1, 1]
    finally:
        group.shutdown()


def test_a_future_is_over_when_wait_returns() -> None:
    group = lt.reconfigurable(SOON)
    try:
        group.reconfigure(lt.ReconfigureOptions(1, [group.get_reconfigure_handle()])).wait()
        for asks_first in (True, False):
            work = group.allreduce([torch.ones(3)])
            future = work.get_future() if asks_first else None
            work.wait()
            future = future if future is not None else work.get_future()
            assert future.done()
            assert future.value()[0].tolist() == [1, 1, 1]
    finally:
        group.shutdown()


def test_a_caller_that_waits_gets_a_work_that_is_over() -> None:
    group = lt.reconfigurable(SOON)
    try:
        group.reconfigure(lt.ReconfigureOptions(1, [group.get_reconfigure_handle()])).wait()
        opts = torch.distributed.AllreduceOptions()
        opts.asyncOp = False
        x = torch.ones(3)
        work = group.allreduce([x], opts)
        assert (work.wait(), work.is_completed(), work.is_success(), work.exception()) == (True, True, True, None)
        assert work.result()[0] is x
        assert work.get_future().value()[0] is x
        assert group.result is not None
        group.communicator.close()
        work = group.allreduce([x], opts)
        assert (work.is_completed(), work.is_success()) == (True, False)
        assert isinstance(work.exception(), lt.CollectiveError)
        with pytest.raises(lt.CollectiveError):
            work.wait()
        with pytest.raises(RuntimeError):
            work.get_future().wait()
        assert x.tolist() == [1, 1, 1]
    finally:
        group.shutdown()


@pytest.fixture
def run(coordinator: lockstep.Coordinator) -> Iterator[lockstep.Communicator]:
    with lockstep.connect(coordinator.address, timeout=20) as alone:
        yield alone


def test_a_repeated_call_begins_anew_until_it_may_not(run: lockstep.Communicator) -> None:
    seen: list[str] = []

    def again(error: lockstep.Error) -> Any:
        seen.append(str(error))
        if len(seen) == 3:
            raise lockstep.PeerLost("the last one")
        return Ended(lockstep.PeerLost("another")) if len(seen) == 1 else run.barrier_async()

    call = Repeated(Ended(lockstep.PeerLost("one")), again)
    assert list(call.wait(20).contributors) == [run.id]
    assert call.done()
    assert seen == ["one", "another"]
    call = Repeated(Ended(lockstep.PeerLost("one more")), again)
    assert call.done()
    for _ in range(2):
        with pytest.raises(lockstep.PeerLost, match="the last one"):
            call.wait(0)
    assert len(seen) == 3


def test_a_repeated_call_begins_anew_though_nobody_waits(run: lockstep.Communicator) -> None:
    began = threading.Event()

    def again(error: lockstep.Error) -> Any:
        assert isinstance(error, lockstep.BelowMinimum)
        began.set()
        return run.barrier_async()

    call = Repeated(run.barrier_async(minimum_world=2), again)
    assert began.wait(20)
    assert list(call.wait(20).contributors) == [run.id]


def test_tensors_that_a_reduction_can_use_as_they_are() -> None:
    x = torch.ones(2, 3)
    array = plain_array(x)
    array[0, 0] = 7
    assert x[0, 0] == 7  # the same memory
    for other in (
        x.t(),
        x.bool().to_sparse(),
        torch.complex(x, x),
        torch.complex(x, x).conj().imag,
        torch.ones(2, requires_grad=True),
        torch.ones(2, dtype=torch.bfloat16),
        torch.ones(2, device="meta"),
    ):
        assert plain_array(other) is None
    assert reduction_of(torch.distributed.ReduceOp.MAX).op == "max"
    assert reduction_of(torch.distributed._make_nccl_premul_sum(0.5)).factor == 0.5


def test_a_replica_names_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKSTEP_COORDINATOR", raising=False)
    with pytest.raises(ValueError, match="LOCKSTEP_COORDINATOR"):
        lt.Replica.from_mesh(types.SimpleNamespace(ndim=1))
    with pytest.raises(ValueError, match="3 dimensions"):
        lt.Replica.from_mesh(types.SimpleNamespace(ndim=3), "localhost:1")
    run: Any = None
    with pytest.raises(ValueError, match="fully_shard"):
        lt.Replica(run, 0, 1).attach(torch.nn.Linear(1, 1))
