"""What the processes of the tests of lockstep.torch run.

usage: python torch_programs.py <program> <rank> <size> <init method> [coordinator]
       python torch_programs.py compared <rank> <size> <init method> [device]

Each program prints what the test compares.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import hashlib
import os
import signal
import sys
import time
from typing import Any, Callable

import lockstep.torch
import torch
import torch.distributed as dist

SECONDS = datetime.timedelta(seconds=30)


def start(backend: str, options: Any = None) -> tuple[int, int]:
    rank, size, method = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    dist.init_process_group(
        backend, init_method=method, rank=rank, world_size=size, timeout=SECONDS, pg_options=options
    )
    return rank, size


def numbers(rank: int, *shape: int) -> torch.Tensor:
    """Small whole numbers on the default device: no order of summation matters."""
    generator = torch.Generator("cpu").manual_seed(rank)
    return torch.randint(-8, 8, shape, generator=generator, device="cpu").float().to(device())


def device() -> torch.device:
    """The default device."""
    return torch.empty(0).device


def collectives(rank: int, size: int) -> dict[str, Any]:
    """Every collective of torch.distributed once, by name."""
    out: dict[str, Any] = {}
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX):
        x = numbers(rank, 5, 3)
        dist.all_reduce(x, op)
        out[f"all_reduce {op}"] = x
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        x = numbers(rank, 9).to(torch.int32)
        dist.all_reduce(x, op)
        out[f"all_reduce {op}"] = x
    x = torch.arange(12.0).reshape(3, 4).t() * (rank + 1)  # not contiguous
    dist.all_reduce(x)
    out["strided"] = x.contiguous()
    x = torch.complex(numbers(rank, 4), numbers(rank + 9, 4))
    dist.all_reduce(x)
    out["complex"] = torch.view_as_real(x)
    x = torch.tensor(float(rank))
    dist.all_reduce(x)
    out["scalar"] = x
    x = numbers(rank, 6).to(torch.bfloat16)  # numpy has no such type
    dist.all_reduce(x)
    out["bfloat16"] = x.float()
    x = numbers(rank, 6)
    work = dist.all_reduce(x, async_op=rank % 2 == 0)  # one call, whether its caller waits or not
    if work is not None:
        work.wait()
    out["with and without waiting"] = x
    for root in range(size):
        x = numbers(rank, 4)
        dist.broadcast(x, root)
        out[f"broadcast {root}"] = x
        x = numbers(rank, 4)
        dist.reduce(x, root)
        if rank == root:
            out[f"reduce {root}"] = x
        parts = [torch.empty(4) for _ in range(size)] if rank == root else None
        dist.gather(numbers(rank, 4), parts, dst=root)
        if parts is not None:
            out[f"gather {root}"] = torch.stack(parts)
        x = torch.empty(4)
        dist.scatter(x, [numbers(i, 4) for i in range(size)] if rank == root else None, src=root)
        out[f"scatter {root}"] = x
    parts = [torch.empty(2, 2) for _ in range(size)]
    dist.all_gather(parts, numbers(rank, 2, 2))
    out["all_gather"] = torch.stack(parts)
    x = torch.empty(size * 3)
    dist.all_gather_into_tensor(x, numbers(rank, 3))
    out["all_gather_into_tensor"] = x
    x = torch.empty(3)
    dist.reduce_scatter(x, [numbers(rank + 10 * i, 3) for i in range(size)])
    out["reduce_scatter"] = x
    x = torch.empty(4)
    dist.reduce_scatter_tensor(x, numbers(rank, 4 * size))
    out["reduce_scatter_tensor"] = x
    x = torch.empty(2 * size)
    dist.all_to_all_single(x, numbers(rank, 2 * size))
    out["all_to_all_single"] = x
    uneven = [(rank + i) % 3 for i in range(size)]
    x = torch.empty(sum(uneven), 2)
    dist.all_to_all_single(x, numbers(rank, sum(uneven), 2), uneven, uneven)
    out["all_to_all_single uneven"] = x
    parts = [torch.empty(2) for _ in range(size)]
    dist.all_to_all(parts, [numbers(10 * rank + i, 2) for i in range(size)])
    out["all_to_all"] = torch.cat(parts)
    if dist.get_backend() == "lockstep":  # Gloo has no sizes that differ here
        parts = [torch.empty(i + rank + 1) for i in range(size)]
        dist.all_to_all(parts, [numbers(10 * rank + i, i + rank + 1) for i in range(size)])
        assert torch.equal(torch.cat(parts), torch.cat([numbers(10 * i + rank, i + rank + 1) for i in range(size)]))
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    out["objects"] = torch.tensor([thing["rank"] for thing in objects])
    right, left = (rank + 1) % size, (rank - 1) % size
    x = torch.empty(3)
    receiving = dist.irecv(x, left, tag=4)
    dist.send(numbers(rank, 3), right, tag=4)
    assert receiving is not None
    receiving.wait()
    out["send and recv"] = x
    work = dist.all_reduce(x, async_op=True)
    assert work is not None
    out["future"] = work.get_future().wait()[0].clone()
    assert work.is_completed() or dist.get_backend() == "gloo"  # Gloo may say so later
    dist.barrier()
    group = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        x = numbers(rank, 3)
        dist.all_reduce(x, group=group)
        out["new_group"] = x
        out["send and recv of two"] = exchanged(rank, [0, size - 1], group)
    most = list(
        range(size - 1, max(-1, size - 4), -1)
    )  # the last three, whose ranks in the group differ from the world's
    group = dist.new_group(most)
    if rank in most:
        out["send and recv of a group"] = exchanged(rank, most, group)
    return out


def exchanged(rank: int, members: list[int], group: Any) -> torch.Tensor:
    """Everybody sends to everybody of a group, twice with one tag, and in a batch."""
    others = [other for other in sorted(members) if other != rank]
    received = [torch.empty(3) for _ in range(3 * len(others))]
    works = []
    for index, other in enumerate(others):
        for turn in range(2):
            works.append(dist.isend(numbers(10 * rank + turn, 3), other, group=group, tag=5))
            works.append(dist.irecv(received[3 * index + turn], other, group=group, tag=5))
    for work in works:
        assert work is not None
        work.wait()
    batch = [dist.P2POp(dist.isend, numbers(20 * rank + other, 3), other, group) for other in others]
    batch += [dist.P2POp(dist.irecv, received[3 * index + 2], other, group) for index, other in enumerate(others)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    if dist.get_backend(group) == "lockstep":  # as a batch of torch 2.14 has it: all transfers have one Work
        received[2::3] = [torch.empty(3) for _ in others]
        with dist._coalescing_manager(group, device(), async_ops=True) as manager:
            for index, other in enumerate(others):
                dist.isend(numbers(20 * rank + other, 3), other, group=group)
                dist.irecv(received[3 * index + 2], other, group=group)
        manager.wait()
    return torch.stack(received)


def functional(rank: int, size: int) -> dict[str, Any]:
    """The functional collectives, which torch calls from C++."""
    import torch.distributed._functional_collectives as funcol

    group = dist.group.WORLD
    out: dict[str, Any] = {}
    out["all_reduce"] = funcol.all_reduce(numbers(rank, 4), "sum", group)
    out["broadcast"] = funcol.broadcast(numbers(rank, 4), 0, group)
    out["all_gather"] = funcol.all_gather_tensor(numbers(rank, 2, 3), 0, group)
    out["reduce_scatter"] = funcol.reduce_scatter_tensor(numbers(rank, 2 * size, 3), "sum", 0, group)
    out["all_to_all"] = funcol.all_to_all_single(numbers(rank, 2 * size), None, None, group)
    coalesced = funcol.all_reduce_coalesced([numbers(rank, 2), numbers(rank, 3)], "sum", group)
    out["all_reduce_coalesced"] = torch.cat([x + 0 for x in coalesced])
    gathered = funcol.all_gather_into_tensor_coalesced([numbers(rank, 2), numbers(rank, 3)], group)
    out["all_gather_coalesced"] = torch.cat([x + 0 for x in gathered])
    scattered = funcol.reduce_scatter_tensor_coalesced(
        [numbers(rank, size), numbers(rank, 2 * size)], "sum", [0, 0], group
    )
    out["reduce_scatter_coalesced"] = torch.cat([x + 0 for x in scattered])
    return {name: value + 0 for name, value in out.items()}  # waits


def model() -> torch.nn.Module:
    torch.manual_seed(7)
    with torch.device("cpu"):  # equal weights on all devices
        net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return net.to(device())


def train(net: Any, rank: int, strategy: Callable[[Any], Any] = contextlib.nullcontext) -> None:
    """Three steps. strategy: makes a training strategy for an optimizer."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with strategy(optimizer) as sync:
        for step in range(3):
            generator = torch.Generator("cpu").manual_seed(100 * step + rank)
            optimizer.zero_grad()
            net(torch.randn(16, 8, generator=generator, device="cpu").to(device())).square().mean().backward()
            optimizer.step()
            if isinstance(sync, lockstep.torch.Strategy):
                sync.step()


def ddp(rank: int, size: int) -> dict[str, Any]:
    """Three steps of DistributedDataParallel."""
    net = torch.nn.parallel.DistributedDataParallel(model())
    train(net, rank)
    return {name: value.detach() for name, value in net.module.state_dict().items()}


def fsdp(rank: int, size: int) -> dict[str, Any]:
    """Three steps of FSDP2."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    net = model()
    mesh = init_device_mesh(device().type, (size,))
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(net, rank)
    return {name: value.full_tensor().detach() for name, value in net.state_dict().items()}


def dtensor(rank: int, size: int) -> dict[str, Any]:
    """Redistributions of DTensor between all placements."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh(device().type, (size,))
    whole = numbers(3, 2 * size + 1, size + 1)
    out: dict[str, Any] = {}
    for source in (Replicate(), Shard(0), Shard(1)):
        given = distribute_tensor(whole, mesh, [source])
        for target in (Replicate(), Shard(0), Shard(1)):
            out[f"{source} to {target}"] = given.redistribute(mesh, [target]).to_local()
    partial = torch.distributed.tensor.DTensor.from_local(whole, mesh, [Partial()])
    out["partial to replicate"] = partial.redistribute(mesh, [Replicate()]).to_local()
    out["partial to shard"] = partial.redistribute(mesh, [Shard(0)]).to_local()
    return out


def compared() -> None:
    """Compares results over Lockstep with those over Gloo; or, on a device, with those over Lockstep on the CPU."""
    programs = [collectives, functional, ddp, fsdp, dtensor]
    torch.set_default_device(sys.argv[5] if len(sys.argv) > 5 else "cpu")
    other_backend = "lockstep" if len(sys.argv) > 5 else "gloo"
    rank, size = start("lockstep")
    assert dist.get_backend() == "lockstep"
    ours = [{name: value.cpu() for name, value in run(rank, size).items()} for run in programs]
    dist.destroy_process_group()
    torch.set_default_device("cpu")
    sys.argv[4] += ".other"
    start(other_backend)
    theirs = [run(rank, size) for run in programs]
    dist.barrier()
    dist.destroy_process_group()
    for run, mine, other in zip(programs, ours, theirs):
        assert mine.keys() == other.keys(), run.__name__
        for name, value in mine.items():
            assert torch.allclose(value, other[name], rtol=1e-5, atol=1e-6), (run.__name__, name, value, other[name])
        print("equal", run.__name__, len(mine), flush=True)


def replicas() -> None:
    """Two replicas of two shards: Lockstep between replicas gives what torch's HSDP gives over Gloo.

    So do strategies, whose shards each reduce their own part.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    rank, size = start("gloo")
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replica", "shard"))

    def trained(inner: Any, join: str) -> dict[str, Any]:
        net = model()
        for layer in net:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=inner)
        fully_shard(net, mesh=inner)
        if not join:
            train(net, rank)
        else:
            with lockstep.torch.Replica.from_mesh(mesh, sys.argv[5]) as replica:
                assert (replica.replicas, replica.rank) == (2, replica.run.rank)
                if join == "attach":
                    replica.attach(net)
                    train(net, rank)
                elif join == "data parallel":
                    train(net, rank, lambda inner: lockstep.torch.DataParallel(replica, net, inner))
                elif join == "SparseLoCo":
                    train(net, rank, lambda i: lockstep.torch.SparseLoCo(replica, net, i, inner_steps=1, density=0.25))
                else:
                    plain = lockstep.torch.SGD(1.0)  # the average of one step of SGD is data parallel
                    train(net, rank, lambda i: lockstep.torch.DiLoCo(replica, net, i, inner_steps=1, outer=plain))
            dist.barrier()  # the run has ended for all
        return {name: value.full_tensor().detach() for name, value in net.state_dict().items()}

    other = trained(mesh, "")
    for join in ("attach", "data parallel", "DiLoCo"):
        mine = trained(mesh["shard"], join)
        for name, value in mine.items():
            assert torch.allclose(value, other[name], rtol=1e-5, atol=1e-6), (join, name)
    sparse = torch.cat([value.flatten() for value in trained(mesh["shard"], "SparseLoCo").values()])
    everywhere = [torch.empty_like(sparse) for _ in range(size)]
    dist.all_gather(everywhere, sparse)
    assert all(torch.equal(one, sparse) for one in everywhere)
    assert not torch.equal(sparse, torch.cat([value.flatten() for value in model().state_dict().values()]))
    print("equal", len(mine), flush=True)
    dist.destroy_process_group()


def optimizers() -> None:
    """The tensors that a newcomer's optimizer begins with change nothing."""
    from lockstep.train.optimizer_state import state_of

    def trained(kind: Any, options: dict[str, Any], asks: bool) -> Any:
        net = model()
        optimizer = kind(net.parameters(), lr=0.1, weight_decay=0.1, **options)
        if asks:
            state = state_of(optimizer)
            assert state
            assert not any(value.any() for value in state.values())
            assert optimizer.param_groups[0]["lr"] == 0.1
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.ones(2, 8)).square().mean().backward()
            optimizer.step()
        return torch.cat([parameter.flatten() for parameter in net.parameters()])

    for kind, options in ((torch.optim.SGD, {"momentum": 0.9}), (torch.optim.Adam, {}), (torch.optim.AdamW, {})):
        assert torch.equal(trained(kind, options, True), trained(kind, options, False)), kind
        print("equal", kind.__name__, flush=True)


def failure_of(call: Callable[[], Any], kind: type[Exception] = lockstep.torch.CollectiveError) -> Any:
    """The error of this kind that a call raises."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("the call has not failed")


def loses_one(elastic: bool) -> None:
    """A rank kills itself; the others go on."""
    rank, size = start("lockstep", lockstep.torch.GroupOptions(elastic=elastic))
    victim = int(sys.argv[5])
    x = torch.ones(1000)
    dist.all_reduce(x)
    assert x[0] == size
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    x = torch.ones(1000)
    if elastic:
        dist.all_reduce(x)
        assert (x == size - 1).all(), x[0]
    else:
        error = failure_of(lambda: dist.all_reduce(x))
        assert error.lost == [victim], error.lost
        assert (x == 1).all()  # it holds its input
        assert "shrink" in str(error)
        assert dist.get_world_size() == size
        assert lockstep.torch.shrink() == [victim]
    assert dist.group.WORLD is not None
    assert dist.group.WORLD.size() == size - 1
    x = torch.ones(3)
    dist.all_reduce(x)
    assert (x == size - 1).all()
    parts = [torch.empty(1) for _ in range(size - 1)]
    dist.all_gather(parts, torch.tensor([float(rank)]), group=dist.group.WORLD)
    assert [part.item() for part in parts] == [one for one in range(size) if one != victim]
    print("survived", flush=True)
    dist.destroy_process_group()


def loses_partner() -> None:
    """A receive from a rank that dies raises, also in a group of two; the process lives."""
    rank, size = start("lockstep")
    victim = int(sys.argv[5])
    waits = (victim + 1) % size
    pair = sorted((waits, victim))
    two = dist.new_group(pair)
    if rank == victim:
        dist.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    if rank == waits:
        error = failure_of(lambda: dist.recv(torch.empty(3), victim))
        assert error.lost == [victim], error
        error = failure_of(lambda: dist.recv(torch.empty(3), victim, group=two))
        assert error.lost == [pair.index(victim)], error
    assert lockstep.torch.shrink() == [victim]
    print("survived", flush=True)
    dist.destroy_process_group()


def times_out() -> None:
    """A collective that the others do not call in time ends on every rank; the next one works.

    Each rank in turn is the one that calls in time.
    """
    rank, size = start("lockstep")
    group = dist.group.WORLD
    store = dist.distributed_c10d._get_default_store()

    def fails(call: Callable[[], Any], words: str, first: int) -> None:
        if rank != first:
            store.wait([f"{words} {first}"])
        error = failure_of(call)
        assert words in str(error), error
        assert error.lost == []
        if rank == first:
            store.set(f"{words} {first}", b"1")
        dist.barrier()

    for first in range(size):
        fails(lambda: group.barrier(timeout_of(0.05)).wait(), "timed out", first)
    seconds = datetime.timedelta(seconds=0.2)
    fails(lambda: lockstep.torch.monitored_barrier(timeout=seconds), "Rank 1 failed to pass monitoredBarrier", 0)
    print("over", flush=True)
    dist.destroy_process_group()


def any_order() -> None:
    """Tags match in any order, also among many transfers; the source may be left open."""
    rank, size = start("lockstep")
    other = (rank + 1) % size
    tags = list(range(64))
    received = {tag: torch.zeros(3) for tag in tags}
    works = [dist.irecv(received[tag], (rank - 1) % size, tag=tag) for tag in (tags if rank else reversed(tags))]
    works += [dist.isend(numbers(100 * rank + tag, 3), other, tag=tag) for tag in (reversed(tags) if rank else tags)]
    for work in works:
        assert work is not None
        work.wait()
    for tag in tags:
        assert torch.equal(received[tag], numbers(100 * ((rank - 1) % size) + tag, 3))
    dist.barrier()
    if rank == 0:
        sources = set()
        for _ in range(size - 1):
            x = torch.zeros(1)
            source = dist.recv(x, tag=99)
            assert x.item() == source
            sources.add(source)
        assert sources == set(range(1, size))
    else:
        dist.send(torch.tensor([float(rank)]), 0, tag=99)
    if rank < 2:
        error = failure_of(
            lambda: dist.send(torch.zeros(70_000), 1) if rank == 0 else dist.recv(torch.zeros(70_001), 0)
        )
        assert "70000" in str(error), error
        assert "70001" in str(error), error
    dist.barrier()
    print("over", flush=True)
    dist.destroy_process_group()


def plain() -> None:
    """A tensor that needs no preparation is sent from its memory, and no other one is: each arrives."""
    from lockstep.torch._work import PlainTransfer

    rank, _ = start("lockstep")
    imaginary = torch.complex(numbers(1, 6), numbers(2, 6)).conj().imag  # negated when it is read
    weight = torch.nn.Parameter(numbers(3, 4))
    cases = [
        (numbers(1, 5, 3), True),
        (weight, True),
        (torch.tensor(7.0), True),
        (torch.zeros(0), True),
        (numbers(1, 4, 6)[1:3], True),
        (numbers(1, 9) > 0, True),
        (numbers(1, 9).to(torch.bfloat16), True),
        (numbers(1, 9).to(torch.int64), True),
        (torch.arange(12.0).reshape(3, 4).t(), False),
        (torch.complex(numbers(1, 4), numbers(2, 4)), True),  # torch gives the backend real numbers
        (imaginary, False),
        (torch._neg_view(numbers(1, 4)), False),
    ]
    has_short_way = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")
    for tag, (tensor, is_plain) in enumerate(cases):
        received = torch.empty(tensor.shape, dtype=tensor.dtype)
        begun = dist.irecv(received, 1 - rank, tag=tag)
        sent = dist.isend(tensor, 1 - rank, tag=tag)
        assert sent is not None
        assert begun is not None
        assert isinstance(sent, PlainTransfer) == (is_plain and has_short_way), (tag, sent)
        sent.wait()
        begun.wait()
        assert torch.equal(received, tensor.detach()), (tag, received)
    refused = failure_of(lambda: dist.isend(numbers(1, 3).to_sparse_coo(), 1 - rank), TypeError)
    assert "layout" in str(refused)
    failure_of(lambda: dist.group.WORLD.send([numbers(1, 3)], -1, 0), ValueError)
    failure_of(lambda: dist.group.WORLD.recv([numbers(1, 3)], 2, 0), ValueError)
    works_of_plain_transfers(rank)
    print("over", flush=True)
    dist.destroy_process_group()


def works_of_plain_transfers(rank: int) -> None:
    """All that a Work does, of a transfer that is in flight, over, dropped, late or one of several."""
    other, group = 1 - rank, dist.group.WORLD
    x = torch.zeros(3)
    begun = dist.irecv(x, other, tag=100)
    assert begun is not None
    futures = [begun.get_future()]
    assert not begun.is_completed()
    failure_of(functools.partial(begun.wait, datetime.timedelta(milliseconds=1)), lockstep.WaitTimedOut)
    dist.barrier()
    for _ in range(2):
        dist.isend(numbers(rank, 3), other, tag=100)  # nobody keeps the Work
    assert begun.wait()
    futures.append(begun.get_future())
    assert all(torch.equal(future.wait()[0], numbers(other, 3)) for future in futures)
    assert begun.is_completed()
    assert begun.is_success()
    assert begun.exception() is None
    assert begun._source_rank() == other
    assert torch.equal(begun.result()[0], x)
    dist.recv(x, other, tag=100)

    memory = numbers(rank, 3)
    users = memory._use_count()
    dist.isend(memory, other, tag=103)
    dist.recv(x, other, tag=103)
    limit = time.monotonic() + 20
    while memory._use_count() > users:  # until the transfer is over
        assert time.monotonic() < limit
    for call in (dist.send, dist.recv) if rank else (dist.recv, dist.send):
        call(memory, other, tag=104)
        assert memory._use_count() == users

    group._start_coalescing(x.device)
    group.recv([x.zero_()], other, 101)
    group.send([numbers(rank + 10, 3)], other, 101)
    group._end_coalescing(x.device).wait()
    assert torch.equal(x, numbers(other + 10, 3))

    group.set_timeout(datetime.timedelta(milliseconds=50))
    late = failure_of(lambda: dist.recv(x, other, tag=102))
    assert "timeout of the call has passed" in str(late), late
    group.set_timeout(SECONDS)
    dist.barrier()


def sends_and_ends() -> None:
    """What a rank has sent arrives, although its program ends right after isend: 12 bytes, 1 MiB and 64 MiB."""
    rank, world = start("lockstep")
    sender = int(sys.argv[5])
    store = dist.distributed_c10d._get_default_store()
    sizes = (3, 1 << 18, 1 << 24)
    if rank == sender:
        for size in sizes:
            for other in range(world):
                if other != rank:
                    dist.isend(torch.full((size,), float(size + other)), other, tag=size)
        store.set("sent", b"1")
    else:
        store.wait(["sent"])
        for size in sizes:
            x = torch.zeros(size)
            dist.recv(x, sender, tag=size)
            assert (x == size + rank).all()
    print("over", flush=True)


def groups() -> None:
    """Many groups need no further thread, and few descriptors each."""
    _, size = start("lockstep")

    def resources() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    dist.barrier()
    descriptors, threads = resources()
    made = [dist.new_group(list(range(size))) for _ in range(20)]
    for group in made:
        x = torch.ones(3)
        dist.all_reduce(x, group=group)
        assert x.tolist() == [size] * 3
    more, now = resources()
    assert now == threads, (now, threads)
    assert more - descriptors <= 4 * len(made), (more - descriptors, len(made))
    dist.barrier()
    print("over", flush=True)
    dist.destroy_process_group()


def refused() -> None:
    """A collective that one rank refuses raises on every rank at once, with that rank's reason; the next one works.

    The ranks refuse in turns.
    """
    rank, size = start("lockstep")
    store = dist.distributed_c10d._get_default_store()
    elastic = dist.new_group(list(range(size)), pg_options=lockstep.torch.GroupOptions(elastic=True))
    for number, group in enumerate((dist.group.WORLD, elastic)):
        for turn, name in enumerate(refused_calls(rank, 0, size, group), number):
            refuser = turn % size
            call = refused_calls(rank, refuser, size, group)[name]
            if rank == refuser:
                try:
                    call(True)
                except (ValueError, TypeError, NotImplementedError, lockstep.torch.CollectiveError) as error:
                    store.set(f"{number} {name}", str(error))
                else:
                    raise AssertionError(f"{name} is not refused")
            else:
                text = str(failure_of(functools.partial(call, False)))
                assert f"rank {refuser} refused" in text, text
                assert f"refused its {name.strip()} with tag " in text, text
                reason = store.get(f"{number} {name}").decode()
                assert reason, name
                assert reason in text, (reason, text)
            y = torch.ones(3)
            dist.all_reduce(y, group=group)
            assert (y == size).all(), (name, y)
    print("over", flush=True)
    dist.destroy_process_group()


def refused_calls(rank: int, root: int, size: int, group: Any) -> dict[str, Callable[[bool], Any]]:
    """Calls that are wrong on the root, or right, by the name that the others are told."""

    def parts(count: int) -> list[torch.Tensor]:
        return [torch.ones(2) for _ in range(count)]

    def given(wrong: bool) -> torch.Tensor:
        return torch.eye(2).to_sparse_csr() if wrong else torch.eye(2)

    def all_reduce(wrong: bool) -> None:
        dist.all_reduce(torch.ones(4), dist.ReduceOp.BAND if wrong else dist.ReduceOp.SUM, group)

    def all_gather_single(wrong: bool) -> None:
        dist.all_gather_into_tensor(torch.empty(2 * size + wrong), torch.ones(2), group)

    def reduce_scatter_single(wrong: bool) -> None:
        dist.reduce_scatter_tensor(torch.empty(2 + wrong), torch.ones(2 * size), group=group)

    def gather(wrong: bool) -> None:
        group.gather(
            [parts(size + wrong)] if rank == root else [], parts(1), root_of(dist.GatherOptions(), root)
        ).wait()

    def scatter(wrong: bool) -> None:
        group.scatter(
            parts(1), [parts(size + wrong)] if rank == root else [], root_of(dist.ScatterOptions(), root)
        ).wait()

    def all_to_all_single(wrong: bool) -> None:
        dist.all_to_all_single(torch.empty(size, 2), torch.ones(size, 2), [1 + wrong] * size, group=group)

    return {
        "all_reduce": all_reduce,
        "all_reduce ": lambda wrong: group.allreduce([given(wrong)]).wait(),
        "broadcast": lambda wrong: group.broadcast([given(wrong)], root_of(dist.BroadcastOptions(), root)).wait(),
        "all_gather": lambda wrong: group.allgather([parts(size - wrong)] * 2, parts(2)).wait(),
        "all_gather_single": all_gather_single,
        "reduce_scatter_single": reduce_scatter_single,
        "gather": gather,
        "scatter": scatter,
        "all_to_all_single": all_to_all_single,
        "all_to_all": lambda wrong: group.alltoall(parts(size), parts(size + wrong)).wait(),
    }


def root_of(opts: Any, root: int) -> Any:
    opts.rootRank = root
    return opts


def timeout_of(seconds: float) -> Any:
    opts = dist.BarrierOptions()
    opts.timeout = datetime.timedelta(seconds=seconds)
    return opts


def buffers() -> None:
    """DistributedDataParallel with buffers, which rank 0 broadcasts before every pass, until the process is killed.

    The last rank kills itself while the others broadcast.
    """
    rank, size = start("lockstep", lockstep.torch.GroupOptions(elastic=True))
    torch.manual_seed(7)
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(32, 32), torch.nn.BatchNorm1d(32))]
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    torch.manual_seed(rank)
    group: Any = dist.group.WORLD
    step = 0
    while True:
        if (rank, step) == (size - 1, 5):
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        try:
            out = net(torch.randn(16, 32))
        except lockstep.torch.CollectiveError as error:
            print("failed:", error, flush=True)
            dist.barrier()  # the group goes on without the root
            continue
        out.square().mean().backward()
        optimizer.step()
        step += 1
        print(f"step {step}: {group.size()} ranks, hash {hash_of(net.parameters())}", flush=True)


def many() -> None:
    """A call for each of many tensors, all in flight at once, twice; the number is the last argument."""
    rank, size = start("lockstep")
    count = int(sys.argv[5])
    for _ in range(2):
        tensors = [torch.full((3,), float(rank + i)) for i in range(count)]
        dist.barrier()
        began = time.monotonic()
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()
        each = (time.monotonic() - began) / count
        wanted = torch.tensor([float(size * i + size * (size - 1) // 2) for i in range(count)])
        assert torch.equal(torch.stack(tensors), wanted.unsqueeze(1).expand(count, 3))
        print(f"many {count}: {each * 1e6:.1f} us each", flush=True)
    dist.destroy_process_group()


def streams() -> None:
    """A receive, a broadcast and an all-gather write to tensors that a stream of a CUDA device still reads.

    A thread of the package completes their futures. The last argument is the rank that receives. The first turn takes
    memory from the device and the system, which waits for all that the device does.
    """
    rank, _ = start("lockstep")
    receiver = int(sys.argv[5])
    count = 1 << 20
    for stream in (torch.cuda.Stream(), torch.cuda.default_stream()):
        with torch.cuda.stream(stream):
            for name in ("recv", "broadcast", "all_gather", "all_reduce") * 2:
                x = torch.ones(count, device="cuda")
                parts = [torch.ones(count // 2, device="cuda") for _ in range(2)]
                torch.cuda.synchronize()
                if rank == receiver:
                    torch.cuda._sleep(1_000_000_000)  # cycles, half a second
                read = [one * 2 for one in ([x] if name != "all_gather" else parts)]
                begun: Any
                if name == "recv":
                    begun = dist.irecv(x, 1 - receiver) if rank == receiver else dist.isend(x * 3, receiver)
                elif name == "broadcast":
                    x = x if rank == receiver else x * 3
                    begun = dist.broadcast(x, 1 - receiver, async_op=True)
                elif name == "all_reduce":
                    begun = dist.all_reduce(x, async_op=True)
                else:
                    begun = dist.all_gather(parts, torch.full((count // 2,), 3.0, device="cuda"), async_op=True)
                begun.get_future().wait()
                assert all((one == 2).all() for one in read), name
                if rank == receiver:
                    wanted = 2 if name == "all_reduce" else 3
                    assert all((one == wanted).all() for one in ([x] if name != "all_gather" else parts)), name
    print("over", flush=True)
    dist.destroy_process_group()


def elsewhere() -> None:
    """Collectives of tensors of the CPU while the default device is another one."""
    rank, size = start("lockstep")
    torch.set_default_device("meta")

    def ones(*shape: int) -> torch.Tensor:
        return torch.ones(*shape, device="cpu")

    x = ones(3, 2).t()
    dist.all_reduce(x)
    assert (x == size).all()
    sparse = ones(4).to_sparse_coo()
    dist.all_reduce(sparse)
    assert (sparse.to_dense() == size).all()
    parts = [ones(2) for _ in range(size)]
    dist.all_gather(parts, 2 * ones(2))
    assert all((part == 2).all() for part in parts)
    dist.gather(3 * ones(2), parts if rank == 0 else None, dst=0)
    assert rank or all((part == 3).all() for part in parts)
    dist.scatter(x := ones(2), [4 * part for part in parts] if rank == 0 else None, src=0)
    assert (x == 12).all()
    dist.all_to_all(parts, [ones(2) * rank for _ in range(size)])
    assert [part[0].item() for part in parts] == list(range(size))
    received = ones(3)
    begun = dist.irecv(received, (rank - 1) % size)
    dist.send(ones(3) * 5, (rank + 1) % size)
    assert begun is not None
    begun.wait()
    assert (received == 5).all()
    net = torch.nn.Linear(3, 2, device="cpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with lockstep.torch.DiLoCo(dist.group.WORLD.communicator, net, optimizer, inner_steps=1) as sync:
        net(ones(4, 3)).sum().backward()
        optimizer.step()
        sync.step()
    dist.barrier()
    print("over", flush=True)
    dist.destroy_process_group()


def hash_of(tensors: Any) -> str:
    digest = hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors))
    return digest.hexdigest()[:16]


PROGRAMS: dict[str, Callable[[], None]] = {
    "compared": compared,
    "replicas": replicas,
    "optimizers": optimizers,
    "strict": lambda: loses_one(False),
    "elastic": lambda: loses_one(True),
    "partner": loses_partner,
    "groups": groups,
    "any_order": any_order,
    "plain": plain,
    "sends_and_ends": sends_and_ends,
    "times_out": times_out,
    "refused": refused,
    "buffers": buffers,
    "many": many,
    "streams": streams,
    "elsewhere": elsewhere,
}

if __name__ == "__main__":
    lockstep.torch.register()
    PROGRAMS[sys.argv[1]]()
