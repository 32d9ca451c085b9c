"""Parts of lockstep.torch: the store in which processes meet, handles, and futures."""

from __future__ import annotations

import socket
import threading
import time
import types
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import lockstep
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import lockstep.torch as lt  # noqa: E402
from lockstep.torch._chain import Chain, Outcome  # noqa: E402
from lockstep.torch._coo_tensors import CooSum  # noqa: E402
from lockstep.torch._place import Place  # noqa: E402
from lockstep.torch._store import Store, StoreServer, connect_store, keep, under  # noqa: E402
from lockstep.torch._tensors import Reduction, plain_array, reduction_of  # noqa: E402
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


def test_a_chain_begins_anew_until_it_may_not(run: lockstep.Communicator) -> None:
    seen: list[str] = []

    def again(error: Outcome) -> Any:
        if not isinstance(error, lockstep.Error):
            return None
        seen.append(str(error))
        if len(seen) == 3:
            raise lockstep.PeerLost("the last one")
        return Ended(lockstep.PeerLost("another")) if len(seen) == 1 else run.barrier_async()

    call = Chain(Ended(lockstep.PeerLost("one")), again)
    assert list(call.wait(20).contributors) == [run.id]
    assert call.done()
    assert seen == ["one", "another"]
    call = Chain(Ended(lockstep.PeerLost("one more")), again)
    assert call.done()
    for _ in range(2):
        with pytest.raises(lockstep.PeerLost, match="the last one"):
            call.wait(0)
    assert len(seen) == 3


def test_a_chain_begins_anew_though_nobody_waits(run: lockstep.Communicator) -> None:
    began = threading.Event()

    def again(error: Outcome) -> Any:
        if not isinstance(error, lockstep.Error):
            return None
        assert isinstance(error, lockstep.BelowMinimum)
        began.set()
        return run.barrier_async()

    call = Chain(run.barrier_async(minimum_world=2), again)
    assert began.wait(20)
    assert list(call.wait(20).contributors) == [run.id]


def test_a_chain_goes_on_after_a_success(run: lockstep.Communicator) -> None:
    results: list[Outcome] = []

    def following(outcome: Outcome) -> Any:
        results.append(outcome)
        return run.barrier_async() if len(results) == 1 else None

    call = Chain(run.barrier_async(), following)
    assert call.wait(20) is results[1]
    assert call.done()
    assert len(results) == 2


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


def coo(places: list[int], values: list[float]) -> torch.Tensor:
    return torch.sparse_coo_tensor(
        torch.tensor([places], dtype=torch.int64), torch.tensor(values), (5,), check_invariants=True
    )


def sum_of_coo(tensors: list[torch.Tensor], op: str) -> list[torch.Tensor]:
    """What an exchange between ranks with these tensors leaves in them."""
    sums = [CooSum(tensor, Reduction(op), len(tensors)) for tensor in tensors]  # type: ignore[arg-type]
    sizes = torch.cat([one.own_size for one in sums])
    for one in sums:
        one.sizes.copy_(sizes)
    exchanged = [one.take_sizes() for one in sums]
    for one, (_, room) in zip(sums, exchanged):
        room.copy_(torch.cat([elements for elements, _ in exchanged]))
        one.give_back()
    return [tensor.to_dense() for tensor in tensors]


def test_sparse_tensors_are_added_up() -> None:
    tensors = [coo([1, 1, 4], [1.0, 2.0, 3.0]), coo([], []), coo([4, 0], [5.0, 7.0])]
    for total in sum_of_coo(tensors, "sum"):
        assert total.tolist() == [7.0, 3.0, 0.0, 0.0, 8.0]
    for total in sum_of_coo([coo([2], [1.0]), coo([3], [1.0])], "avg"):
        assert total.tolist() == [0.0, 0.0, 0.5, 0.5, 0.0]


def test_sparse_tensors_that_differ_are_refused() -> None:
    with pytest.raises(lockstep.Mismatch, match="rank 1 has another kind of tensor"):
        sum_of_coo([coo([1], [1.0]), coo([1], [1.0]).double()], "sum")
    with pytest.raises(TypeError, match="sparse tensors have no max; allowed: SUM and AVG"):
        CooSum(coo([1], [1.0]), Reduction("max"), 2)


def test_leaving_takes_no_longer_than_it_may() -> None:
    """A rank leaves in time although the other rank stays, and although a call waits for the other rank for ever."""
    store = torch.distributed.HashStore()
    places: list[Any] = [None, None]

    def come(rank: int) -> None:
        places[rank] = Place(store, rank, 2, timedelta(seconds=60), None)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work = places[0].run.barrier_async()
    began = time.monotonic()
    places[0].leave(4.0)
    assert 3.0 <= time.monotonic() - began < 7.0  # one wait after the other would take 8 s
    with pytest.raises(lockstep.Error):
        work.wait()
    places[1].close()
