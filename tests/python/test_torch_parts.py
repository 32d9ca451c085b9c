"""Parts of lockstep.torch: the store in which processes meet, handles, and futures."""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import time
import types
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Callable

import lockstep
import pytest
from support import in_threads, until

torch = pytest.importorskip("torch", reason="torch is not installed")

import lockstep.torch as lt  # noqa: E402
from lockstep.torch._call_sequence import CallSequence, Outcome  # noqa: E402
from lockstep.torch._coo_tensors import CooSum  # noqa: E402
from lockstep.torch._process_group import ProcessGroup  # noqa: E402
from lockstep.torch._rendezvous import Participation  # noqa: E402
from lockstep.torch._store import Store, StoreServer, connect_store, keep  # noqa: E402
from lockstep.torch._tensors import Reduction, plain_array, reduction_of  # noqa: E402
from lockstep.torch._work import Ended, GroupWork  # noqa: E402

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
    assert not far.under("part").check(["a"])
    near.under("part").set("a", "2")
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


@pytest.mark.parametrize("fails", [False, True])
def test_wait_returns_only_once_another_thread_has_completed_the_future(fails: bool) -> None:
    completing, returned = threading.Event(), threading.Event()

    class SlowlyCompleted(GroupWork):
        def _outcome(self, _: Any) -> Any:
            completing.set()
            returned.wait(0.2)  # a correct wait() does not return, so the time runs out
            return super()._outcome(_)

    def finish(_: Sequence[Any]) -> None:
        if fails:
            raise ValueError("planted")

    work = SlowlyCompleted([], [torch.ones(3)], finish, lambda error: error)

    def wait() -> None:
        with contextlib.suppress(ValueError):
            work.wait()

    # The future is made before anybody knows that the calls are over; the watcher or `first` completes it.
    future = work.get_future()
    first = threading.Thread(target=wait)
    first.start()
    assert completing.wait(10)
    wait()
    is_done = future.done()
    returned.set()
    first.join()
    assert is_done
    if fails:
        with pytest.raises(RuntimeError, match="planted"):  # what torch makes of it
            future.wait()
    else:
        assert future.value()[0].tolist() == [1, 1, 1]


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

    call = CallSequence(Ended(lockstep.PeerLost("one")), again)
    assert list(call.wait(20).contributors) == [run.id]
    assert call.done()
    assert seen == ["one", "another"]
    call = CallSequence(Ended(lockstep.PeerLost("one more")), again)
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

    call = CallSequence(run.barrier_async(minimum_world=2), again)
    assert began.wait(20)
    assert list(call.wait(20).contributors) == [run.id]


def test_a_chain_goes_on_after_a_success(run: lockstep.Communicator) -> None:
    results: list[Outcome] = []

    def following(outcome: Outcome) -> Any:
        results.append(outcome)
        return run.barrier_async() if len(results) == 1 else None

    call = CallSequence(run.barrier_async(), following)
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


def test_error_texts_show_no_token() -> None:
    with lockstep.Coordinator(":0", advertise="127.0.0.1") as coordinator:
        token = coordinator.token
        mistyped = token[:30] + ("b" if token[30] == "a" else "a") + token[31:]
        with pytest.raises(ValueError, match="mistyped") as caught:
            torch.distributed.init_process_group("lockstep", init_method=f"lockstep://{mistyped}", rank=0, world_size=1)
        with lockstep.connect(token, listen_host="127.0.0.1", timeout=SOON.total_seconds()) as run:

            def refuse() -> None:
                Participation(torch.distributed.HashStore(), 0, 1, SOON, token)

            def admit() -> None:
                until(lambda: run.pending)
                run.admit()

            refused, _ = failures_of([refuse, admit])
        assert "other processes are in this run already" in refused
        assert f"127.0.0.1:{coordinator.address.rpartition(':')[2]}: " in refused
        assert [text for text in (str(caught.value), refused) if token[40:80] in text] == []


@pytest.fixture
def two_ranks() -> Iterator[list[Any]]:
    """The groups of two ranks, which are threads of this process."""
    store = torch.distributed.HashStore()
    groups: list[Any] = [None, None]

    def come(rank: int) -> None:
        groups[rank] = ProcessGroup(store, rank, 2, SOON, lt.GroupOptions())

    in_threads(come, 2)
    yield groups
    in_threads(lambda rank: groups[rank].shutdown(), 2)


@pytest.mark.parametrize("timeout", [0.25, timedelta(milliseconds=250)], ids=["seconds", "timedelta"])
def test_a_monitored_barrier_ends_at_its_own_limit(two_ranks: list[Any], timeout: Any) -> None:
    came, late = two_ranks
    in_threads(lambda rank: lt.monitored_barrier(two_ranks[rank], 20), 2)
    wanted = r"Rank 0 timed out in monitoredBarrier: Rank 1 failed to pass monitoredBarrier in 250 ms"
    with pytest.raises(lt.CollectiveError, match=wanted):
        lt.monitored_barrier(came, timeout)
    with pytest.raises(lt.CollectiveError, match="Rank 1 successfully reached monitoredBarrier, but received errors"):
        lt.monitored_barrier(late, timeout)


def failures_of(calls: list[Callable[[], Any]]) -> list[str]:
    """What the calls of each rank, made at once, raise."""
    texts = [""] * len(calls)

    def make(rank: int) -> None:
        try:
            work = calls[rank]()
            if work is not None:
                work.wait()
        except Exception as error:
            texts[rank] = str(error)

    in_threads(make, len(calls))
    return texts


def test_a_tensor_with_other_sizes_is_named_as_input_or_output(two_ranks: list[Any]) -> None:
    """On the rank that has it and on the other one."""
    two, three, four = torch.ones(2), torch.ones(3), torch.ones(4)
    for call, right, wrong, text in (
        ("reduce_scatter_single", (two, four), (two, three), "input has 3 elements; a group of 2 needs 4"),
        ("all_gather_single", (four, two), (three, two), "output has 3 elements; a group of 2 needs 4"),
    ):
        for refuses in range(2):
            given = [wrong if rank == refuses else right for rank in range(2)]
            texts = failures_of(
                [functools.partial(getattr(group, call), *arrays) for group, arrays in zip(two_ranks, given)]
            )
            assert texts[refuses] == text
            assert texts[1 - refuses].endswith(text)


@pytest.mark.parametrize("root", range(2))
def test_a_root_gets_sums_of_what_each_rank_has_multiplied(two_ranks: list[Any], root: int) -> None:
    given = [[torch.full((3,), 2.0 + rank), torch.full((2,), 4.0 + rank).double()] for rank in range(2)]

    def reduce(rank: int) -> None:
        opts = torch.distributed.ReduceOptions()
        opts.reduceOp, opts.rootRank = torch.distributed._make_nccl_premul_sum(0.5), root
        two_ranks[rank].reduce(given[rank], opts).wait()

    in_threads(reduce, 2)
    assert [tensor.tolist() for tensor in given[root]] == [[2.5] * 3, [4.5] * 2]
    other = 1 - root
    assert [tensor.tolist() for tensor in given[other]] == [[2.0 + other] * 3, [4.0 + other] * 2]


@pytest.mark.parametrize("sizes", [(2, 2), (1, 3), (3, 0)])
def test_each_rank_gets_its_part_of_a_sum_of_lists(two_ranks: list[Any], sizes: tuple[int, int]) -> None:
    """Parts of one size, and of sizes that differ; each of the two lists of a rank has an output of its own."""
    outputs = [[torch.full((size,), -1.0) for _ in range(2)] for size in sizes]

    def reduce_scatter(rank: int) -> None:
        given = [[torch.full((size,), 10.0 * place + rank + at) for place, size in enumerate(sizes)] for at in range(2)]
        two_ranks[rank].reduce_scatter(outputs[rank], given).wait()
        assert [part[0].item() for part in given[0] if part.numel()] == [  # only read
            10.0 * place + rank for place, size in enumerate(sizes) if size
        ]

    in_threads(reduce_scatter, 2)
    for rank, size in enumerate(sizes):
        assert [part.tolist() for part in outputs[rank]] == [[20.0 * rank + 1 + 2 * at] * size for at in range(2)]


@pytest.mark.parametrize("asks_first", [False, True])
def test_the_future_of_a_transfer_is_over_when_wait_returns(two_ranks: list[Any], asks_first: bool) -> None:
    received = torch.zeros(3)
    works = [two_ranks[0].send([torch.full((3,), 7.0)], 1, 5), two_ranks[1].recv([received], 0, 5)]
    for work in works:
        future = work.get_future() if asks_first else None
        assert work.wait()
        future = future if future is not None else work.get_future()
        assert future.done()
        assert future.value()[0].tolist() == [7.0] * 3
        assert (work.is_completed(), work.is_success(), work.exception()) == (True, True, None)


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


@pytest.mark.parametrize("op", [torch.distributed.ReduceOp.SUM, torch.distributed.ReduceOp.AVG])
def test_ranks_exchange_sparse_tensors_and_others_in_one_call(two_ranks: list[Any], op: Any) -> None:
    given = [
        [coo([1, 4], [1.0, 3.0]), torch.full((2,), 2.0), coo([], [])],
        [coo([0, 4], [5.0, 1.0]), torch.full((2,), 6.0), coo([2], [8.0])],
    ]

    def reduce(rank: int) -> None:
        opts = torch.distributed.AllreduceOptions()
        opts.reduceOp = op
        two_ranks[rank].allreduce(given[rank], opts).wait()

    in_threads(reduce, 2)
    part = 0.5 if op == torch.distributed.ReduceOp.AVG else 1.0
    for first, dense, second in given:
        assert first.to_dense().tolist() == [5.0 * part, 1.0 * part, 0.0, 0.0, 4.0 * part]
        assert dense.tolist() == [8.0 * part] * 2
        assert second.to_dense().tolist() == [0.0, 0.0, 8.0 * part, 0.0, 0.0]


def test_a_rank_refuses_a_sparse_tensor_for_both(two_ranks: list[Any]) -> None:
    def begin(rank: int) -> Any:
        opts = torch.distributed.AllreduceOptions()
        opts.reduceOp = torch.distributed.ReduceOp.MAX if rank else torch.distributed.ReduceOp.SUM
        return two_ranks[rank].allreduce([coo([1], [1.0])], opts)

    told, refused = failures_of([functools.partial(begin, rank) for rank in range(2)])
    assert refused == "sparse tensors have no max; allowed: SUM and AVG"
    assert told.endswith(refused)
    assert "refused its all_reduce" in told


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
        places[rank] = Participation(store, rank, 2, timedelta(seconds=60), None)

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
