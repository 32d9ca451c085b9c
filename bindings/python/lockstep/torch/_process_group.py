"""The process group: torch's collectives as calls of a Lockstep run."""

from __future__ import annotations

import atexit
import dataclasses
import functools
import logging
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import AllgatherOptions

from .._lockstep import Result
from ..communicator import Communicator
from ..errors import Error, NotConnected
from ..types import PeerId
from ._coo_tensors import CooSum
from ._failure_policy import CollectiveError, Elastic, FailurePolicy, Strict, failure_of
from ._group_calls import GroupCalls
from ._group_membership import GroupMembership
from ._membership import first_membership
from ._tensors import (
    Blocks,
    Staged,
    array_of,
    as_bytes,
    by_dtype,
    check_reduced,
    filling,
    giving_back,
    plain_array,
    plain_op,
    reduction_of,
    rows_for,
    transfer_array,
)
from ._work import Call, GroupWork, PlainTransfer, Tensors

_LEAVE_WITHIN = 10.0  # seconds

_log = logging.getLogger("lockstep")
_groups: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()
"""Groups that were not shut down yet, and others."""


@dataclasses.dataclass
class GroupOptions:
    """How a group reacts to the loss of a process.

        init_process_group("lockstep", pg_options=GroupOptions(elastic=True))

    elastic: all-reduce, barrier, and a broadcast whose root lives go on among the survivors, and the group shrinks by
        itself. Default: the collective raises on every survivor, and the group waits for shrink().
    enable_reconfigure: the group begins without members; reconfigure() names them. As the argument of the same name
        of init_process_group has it, for torch before 2.14.
    """

    elastic: bool = False
    enable_reconfigure: bool = False


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]  # torch is not there for everybody who checks
    """A group of torch.distributed over one Lockstep run.

    store, rank, size, timeout: as torch gives them. The timeout is the default of every collective.
    coordinator: of the run, as lockstep.connect() takes it; None: rank 0 runs one.
    near: see reconfigurable().
    Raises lockstep.Unreachable, Refused, TimedOut, PeerLost; torch.distributed.DistStoreError.
    """

    supports_splitting = False
    supports_coalescing = True
    supports_time_estimate = False
    supports_shrinking = False  # lockstep.torch.shrink() needs no ranks from its caller

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        timeout: timedelta,
        options: GroupOptions,
        coordinator: str | None = None,
        near: str | None = None,
    ) -> None:
        super().__init__(rank, size)
        self._given = (rank, size)
        self._can_reconfigure = options.enable_reconfigure
        self._policy: FailurePolicy = Elastic() if options.elastic else Strict()
        now = None if options.enable_reconfigure else first_membership(store, rank, size, timeout, coordinator)
        self._membership = GroupMembership(now, near or store)
        needs_rank_0 = coordinator is None and near is None and rank != 0
        self._calls = GroupCalls(self._membership, self._policy, timeout.total_seconds(), needs_rank_0)
        self._group_name = ""
        self._group_desc = "undefined"
        _groups.add(self)

    # ---- who takes part ----

    @property
    def result(self) -> Result | None:
        """The receipt of the last collective that has ended: contributors, retries, hash. None before the first."""
        return self._calls.result

    @property
    def communicator(self) -> Communicator:
        """The run of this group, for calls that torch does not have. Tags from 2**62 on are the group's own."""
        return self._membership.present.run

    def get_backend(self, device: Any = None) -> ProcessGroup:
        """This group."""
        return self

    _get_backend = get_backend

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        """The name of this backend."""
        return "lockstep"

    def getRank(self) -> int:  # noqa: N802
        """This process's rank in the group."""
        now = self._membership.now
        return self._given[0] if now is None else now.members.index(now.run.id)

    def getSize(self) -> int:  # noqa: N802
        """The number of processes in the group, lost ones included until the group has shrunk."""
        now = self._membership.now
        return self._given[1] if now is None else len(now.members)

    def getGroupName(self) -> str:  # noqa: N802
        """The name by which torch finds the group again."""
        return self._group_name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Called by torch."""
        self._group_name = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """The group_desc of new_group()."""
        return self._group_desc

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        """Called by torch."""
        self._group_desc = desc

    def lost(self) -> list[int]:
        """The ranks of this group that the run has lost."""
        return self._membership.present.lost()

    def shrink(self, timeout: timedelta | None = None) -> list[int]:
        """Goes on without the lost ranks. Every survivor calls it.

        Ranks keep their order and close the gaps. Returns the ranks that are gone, in the numbers of before.
        Raises CollectiveError.
        """
        now = self._membership.present
        try:
            result = now.run.barrier(timeout=self._calls.seconds(timeout))
        except Error as error:
            raise self._calls.failure(error) from error
        before = now.members
        now.adopt(result)
        return [rank for rank, member in enumerate(before) if member not in now.members]

    # ---- torch's reconfigure ----

    @property
    def supports_reconfigure(self) -> bool:
        """Whether reconfigure() works: the group was made with enable_reconfigure."""
        return self._can_reconfigure

    def get_reconfigure_handle(self) -> str:
        """The handle by which others name this process in reconfigure(). Always the same."""
        return self._membership.next.handle()

    def reconfigure(self, opts: Any) -> GroupWork:
        """Goes over to the membership that opts names; each of its members calls this.

        The processes need nothing in common but their handles. Until the change is agreed on by all of them, and if it
        fails, every one keeps its old membership; a failure is the same on all, and another uuid tries again. Calls in
        flight of the old membership are aborted.

        opts: torch's ReconfigureOptions, or ours.
        Returns a Work, which raises CollectiveError.
        """
        if not self.supports_reconfigure:
            raise RuntimeError("reconfigure needs a group that was made with enable_reconfigure=True")
        return self._membership.reconfigure(opts.uuid, opts.handles, self._calls.seconds(opts.timeout))

    def configure(
        self,
        store_addr: str,
        replica_id: str,
        rank: int,
        world_size: int,
        quorum_id: int | None = None,
        group_rank: int | None = None,
        group_world_size: int | None = None,
        global_ranks: list[int] | None = None,
    ) -> None:
        """Goes over to a new membership, as torchft 0.2 asks for it. Waits.

        store_addr: host:port/prefix of torch's store, with a prefix that was never used before.
        rank, world_size: this process's rank among the members, and their number.
        Raises CollectiveError; the group then keeps its old membership.
        """
        self._membership.configure(store_addr, rank, world_size, self._calls.timeout).wait()

    def errored(self) -> Exception | None:
        """The reason for which this group needs another membership; None as long as calls can succeed."""
        now = self._membership.now
        if now is None:
            return NotConnected("the process group has no members yet")
        return now.end_of_run or self._policy.failure(now.lost())

    def get_error(self) -> Any:
        """SUCCESS as long as calls can succeed, REMOTE_ERROR if ranks are gone, COMM_ERROR if the run is over."""
        from torch._C._distributed_c10d import ErrorType

        error = self.errored() if self._membership.now is not None else None
        if error is None:
            return ErrorType.SUCCESS
        return ErrorType.REMOTE_ERROR if isinstance(error, CollectiveError) else ErrorType.COMM_ERROR

    def register_abort_hook(self, hook_id: int, hook: Callable[[], object]) -> None:
        """Calls the hook before abort(), and when a collective has failed."""
        self._calls.abort_hooks[hook_id] = hook

    def unregister_abort_hook(self, hook_id: int) -> None:
        """Forgets a hook."""
        self._calls.abort_hooks.pop(hook_id, None)

    # ---- collectives ----

    def allreduce(self, tensors: Tensors, opts: Any = None) -> GroupWork:
        """Reduces each tensor over the group, in place."""
        if opts is None or isinstance(opts, (dist.ReduceOp, dist.ReduceOp.RedOpType)):  # torchft gives the operation
            operation, opts = opts, dist.AllreduceOptions()
            opts.reduceOp = dist.ReduceOp.SUM if operation is None else operation
        if len(tensors) == 1 and not self._calls.is_async(opts):
            op, array = plain_op(opts.reduceOp), plain_array(tensors[0])
            if op is not None and array is not None:
                return self._calls.all_reduce_at_once(array, op, tensors, opts)
        return self._all_reduce(tensors, opts)

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> GroupWork:
        """Reduces each tensor over the group, in place; tensors of one dtype travel in one call."""
        return self._all_reduce(tensors, opts or dist.AllreduceCoalescedOptions())

    def _all_reduce(self, tensors: Tensors, opts: Any) -> GroupWork:
        if any(tensor.layout is torch.sparse_coo for tensor in tensors):
            return self._calls.together([self._all_reduce_coo(tensor, opts) for tensor in tensors])
        with self._calls.answering("all_reduce", len({tensor.dtype for tensor in tensors})):
            reduction = reduction_of(opts.reduceOp)
            staged = [Staged(tensor, reduction) for tensor in tensors]
        calls = []
        for memories in by_dtype(staged):
            arrays = [array_of(memory) for memory in memories]
            given = arrays if len(arrays) > 1 else arrays[0]
            calls.append(self._calls.call_among_survivors("all_reduce", opts, given, op=reduction.op))
        return self._calls.begun(calls, tensors, giving_back(staged))

    def _all_reduce_coo(self, tensor: Tensor, opts: Any) -> GroupWork:
        if tensor.layout is not torch.sparse_coo:
            return self._all_reduce([tensor], opts)
        now, seconds = self._membership.present, self._calls.seconds(opts.timeout)
        tag = now.new_tag()
        with self._calls.answering("all_reduce", tag=tag):
            total = CooSum(tensor, reduction_of(opts.reduceOp), len(now.members))
        call = total.exchange(now.run, tag=tag, timeout=seconds, minimum_world=len(now.members))
        return self._calls.begun([call], [tensor], lambda _: total.give_back())

    def broadcast(self, tensors: Tensors, opts: Any) -> GroupWork:
        """Gives every member the tensors of opts.rootRank. Elastic: also if other ranks are lost."""
        now, seconds = self._membership.present, self._calls.seconds(opts.timeout)
        tags = [self._policy.broadcast_tag(now) for _ in tensors]
        with self._calls.answering("broadcast", len(tensors)):
            root = now.peer(opts.rootRank)
            staged = [Staged(tensor) for tensor in tensors]
            arrays = [array_of(as_bytes(one.memory)) for one in staged]

        def begin(array: Any, tag: int) -> Call:
            least = self._policy.least(len(now.members))
            call = self._calls.call("broadcast", opts, array, root, minimum_world=least)
            again = functools.partial(now.run.broadcast_async, array, root, tag=tag, timeout=seconds)
            return self._policy.broadcast(call, now.run, (opts.rootRank, root), again)

        return self._calls.begun([begin(*one) for one in zip(arrays, tags)], tensors, giving_back(staged))

    def barrier(self, opts: Any = None) -> GroupWork:
        """Ends when every member has called it."""
        return self._calls.begun([self._calls.call_among_survivors("barrier", opts or dist.BarrierOptions())], [])

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """See lockstep.torch.monitored_barrier()."""
        seconds = self._calls.seconds(timeout) if timeout != timedelta(0) else 0.0
        now, rank = self._membership.present, self.getRank()
        prefix = f"lockstep/monitored/{next(now.monitored)}"
        keys = [f"{prefix}/{other}" for other in range(self.getSize())]
        now.store.set(keys[rank], b"1")
        limit = time.monotonic() + seconds
        call = now.run.barrier_async(retry=self._policy.retries, timeout=seconds + 5.0)
        while rank == 0 and not call.done():
            if time.monotonic() >= limit:
                late = [other for other, key in enumerate(keys) if not now.store.check([key])]
                call.abort(_late_text(late, seconds, wait_all_ranks))
                break
            time.sleep(0.002)  # a store tells nobody that a key has come
        try:
            self._calls.begun([call], []).wait()
        except CollectiveError as error:
            if rank == 0:
                raise
            reached = f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for "
            raise failure_of(error, f"{reached}send/recv from rank 0: {error}", error.lost) from error

    def all_gather_single(self, output: Tensor, given: Tensor, opts: Any = None) -> GroupWork:
        """Gives every member the tensors of all, in rank order, in one tensor."""
        with self._calls.answering("all_gather_single"):
            into = Staged(output, reads=False)
            source = Staged(given)
            self._must_be(output.numel(), given.numel() * self.getSize(), "output")
            memory, room = as_bytes(source.memory), as_bytes(into.memory)
        call = self._calls.call("all_gather", opts or AllgatherOptions(), memory, room)
        return self._calls.begun([call], [output], giving_back([into]))

    _allgather_base = all_gather_single

    def allgather(self, outputs: Sequence[Tensors], given: Tensors, opts: Any = None) -> GroupWork:
        """Gives every member the tensors of all, a list of tensors for each that was given."""
        sources, blocks = [], []
        with self._calls.answering("all_gather", len(given)):
            for targets, tensor in zip(outputs, given):
                self._must_be(len(targets), self.getSize(), "the list of outputs")
                sources.append(as_bytes(Staged(tensor).memory))
                blocks.append(Blocks(targets))
        opts = opts or AllgatherOptions()
        calls = [self._calls.call("all_gather", opts, source, one.memory) for source, one in zip(sources, blocks)]
        return self._calls.begun(calls, [target for targets in outputs for target in targets], giving_back(blocks))

    def allgather_coalesced(self, outputs: Sequence[Tensors], given: Tensors, opts: Any = None) -> GroupWork:
        """Gives every member the lists of tensors of all. outputs: a list for each rank, as long as `given`."""
        with self._calls.answering("all_gather_coalesced", len(given)):
            self._must_be(len(outputs), self.getSize(), "the list of outputs")
            for rank, targets in enumerate(outputs):
                if len(targets) != len(given):
                    raise ValueError(
                        f"the outputs for rank {rank} are {len(targets)} tensors; the inputs are {len(given)}"
                    )
        return self.allgather([list(targets) for targets in zip(*outputs)], given, opts)

    def all_gather_single_coalesced(self, outputs: Tensors, given: Tensors, opts: Any = None) -> GroupWork:
        """all_gather_single for each pair of tensors."""
        return self._calls.each("all_gather_single", self.all_gather_single, list(zip(outputs, given)), opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter_single(self, output: Tensor, given: Tensor, opts: Any = None) -> GroupWork:
        """Reduces the tensors over the group; each member gets its part, in rank order."""
        opts = opts or dist.ReduceScatterOptions()
        with self._calls.answering("reduce_scatter_single"):
            self._must_be(given.numel(), output.numel() * self.getSize(), "input")
            reduction = reduction_of(opts.reduceOp)
            source = Staged(given, reduction)
            into = Staged(output, reduction, reads=False)
        call = self._calls.call("reduce_scatter", opts, source.memory, into.memory, op=reduction.op)
        return self._calls.begun([call], [output], giving_back([into]))

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter(self, outputs: Tensors, given: Sequence[Tensors], opts: Any = None) -> GroupWork:
        """Reduces lists of tensors over the group; each member gets the tensor of its rank."""
        works = []
        with self._calls.answering("reduce_scatter", len(outputs)):
            for parts in given:
                self._must_be(len(parts), self.getSize(), "the list of inputs")
                for part in parts:
                    check_reduced(part)
        for output, parts in zip(outputs, given):
            if len({part.numel() for part in parts}) == 1:
                works.append(self.reduce_scatter_single(output, torch.cat([part.reshape(-1) for part in parts]), opts))
            else:
                works.append(self._reduce_scatter_uneven(output, parts, opts))
        return self._calls.together(works)

    def _reduce_scatter_uneven(self, output: Tensor, parts: Tensors, opts: Any) -> GroupWork:
        """Parts of different sizes: every member gets all of them, and keeps its own."""
        sums = [part.clone() for part in parts]
        work = self._all_reduce(sums, opts or dist.ReduceScatterOptions())
        return self._calls.together([work], [output], lambda: output.copy_(sums[self.getRank()].view_as(output)))

    def reduce_scatter_single_coalesced(self, outputs: Tensors, given: Tensors, opts: Any = None) -> GroupWork:
        """reduce_scatter_single for each pair of tensors."""
        return self._calls.each("reduce_scatter_single", self.reduce_scatter_single, list(zip(outputs, given)), opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def reduce(self, tensors: Tensors, opts: Any) -> GroupWork:
        """Reduces each tensor over the group, on opts.rootRank only."""
        is_root = opts.rootRank == self.getRank()
        with self._calls.answering("reduce", len({tensor.dtype for tensor in tensors})):
            reduction, root = reduction_of(opts.reduceOp), self._membership.present.peer(opts.rootRank)
            staged = [Staged(tensor, reduction) for tensor in tensors]
        calls = []
        for results in by_dtype(staged):
            given = [memory.clone() for memory in results] if is_root else results
            calls.append(self._calls.call("reduce", opts, given, root, results if is_root else None, op=reduction.op))
        return self._calls.begun(calls, tensors, giving_back(staged if is_root else []))

    def gather(self, outputs: Sequence[Tensors], given: Tensors, opts: Any) -> GroupWork:
        """Gives opts.rootRank the tensors of all."""
        is_root = opts.rootRank == self.getRank()
        sources, blocks = [], []
        with self._calls.answering("gather", len(given)):
            root = self._membership.present.peer(opts.rootRank)
            for index, tensor in enumerate(given):
                targets = outputs[index] if is_root else []
                self._must_be(len(targets), self.getSize() if is_root else 0, "the list of outputs")
                sources.append(as_bytes(Staged(tensor).memory))
                blocks.append(Blocks(targets))
        calls = [
            self._calls.call("gather", opts, source, root, one.memory if is_root else None)
            for source, one in zip(sources, blocks)
        ]

        targets = [target for targets in outputs for target in targets] if is_root else []
        return self._calls.begun(calls, targets, filling(blocks if is_root else [], "gather"))

    def scatter(self, outputs: Tensors, given: Sequence[Tensors], opts: Any) -> GroupWork:
        """Gives each member one of the tensors of opts.rootRank."""
        is_root = opts.rootRank == self.getRank()
        sources: list[tuple[Any, Any]] = [(None, None)] * len(outputs)
        with self._calls.answering("scatter", len(outputs)):
            root = self._membership.present.peer(opts.rootRank)
            for index in range(len(outputs) if is_root else 0):
                self._must_be(len(given[index]), self.getSize(), "the list of inputs")
                parts = [as_bytes(Staged(part).memory) for part in given[index]]
                sources[index] = torch.cat(parts), [part.numel() for part in parts]
            blocks = [Blocks([output]) for output in outputs]
        calls = [
            self._calls.call("scatter", opts, source, root, one.memory, counts=counts)
            for (source, counts), one in zip(sources, blocks)
        ]
        return self._calls.begun(calls, outputs, filling(blocks, "scatter", lambda result: [sum(result.blocks)]))

    def all_to_all_single(
        self, output: Tensor, given: Tensor, output_sizes: Sequence[int], input_sizes: Sequence[int], opts: Any = None
    ) -> GroupWork:
        """Sends a part of the tensor to each member, and receives one from each; sizes in rows, none: equal ones."""
        with self._calls.answering("all_to_all_single"):
            parts = rows_for(self.getSize(), given, input_sizes, "input")
            targets = rows_for(self.getSize(), output, output_sizes, "output")
        return self.alltoall(targets, parts, opts)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Tensors, given: Tensors, opts: Any = None) -> GroupWork:
        """Sends one tensor to each member, and receives one from each; their sizes may differ."""
        with self._calls.answering("all_to_all"):
            self._must_be(len(given), self.getSize(), "the list of inputs")
            self._must_be(len(outputs), self.getSize(), "the list of outputs")
            parts = [as_bytes(Staged(tensor).memory) for tensor in given]
            source, blocks = torch.cat(parts), Blocks(outputs)
        counts = [part.numel() for part in parts]
        call = self._calls.call("all_to_all", opts or dist.AllToAllOptions(), source, blocks.memory, counts=counts)
        return self._calls.begun([call], outputs, filling([blocks], "all_to_all"))

    # ---- one to one ----

    def send(self, tensors: Tensors, destination: int, tag: int) -> GroupWork:
        """Sends tensors to a rank. Ends when they are there. A lost partner: CollectiveError."""
        now, calls = self._membership.now, self._calls
        if now is not None and calls.coalesced is None:
            now.has_sent, members = True, now.members
            call = now.send_plain(tensors, members, destination, (tag, calls.timeout))
            if call is not None:
                return PlainTransfer(call, tensors, calls.failure, members)
        now = self._membership.present
        partner, now.has_sent = now.peer(destination), True
        begun = [
            now.run.send_async(transfer_array(Staged(tensor).memory), partner, tag=tag, timeout=calls.timeout)
            for tensor in tensors
        ]
        return calls.transfer(begun, tensors, giving_back([]))

    def recv(self, tensors: Tensors, source: int, tag: int) -> GroupWork:
        """Receives tensors from a rank. A lost partner: CollectiveError."""
        now, calls = self._membership.now, self._calls
        if now is not None and calls.coalesced is None:
            members = now.members
            call = now.recv_plain(tensors, members, source, (tag, calls.timeout))
            if call is not None:
                return PlainTransfer(call, tensors, calls.failure, members)
        return self._recv(tensors, self._membership.present.peer(source), tag)

    def recv_anysource(self, tensors: Tensors, tag: int) -> GroupWork:
        """Receives tensors from whichever rank sends first; the Work tells which."""
        return self._recv(tensors, None, tag)

    def _recv(self, tensors: Tensors, source: PeerId | None, tag: int) -> GroupWork:
        run, seconds = self.communicator, self._calls.timeout
        staged = [Staged(tensor, reads=False) for tensor in tensors]
        begun = [run.recv_async(transfer_array(one.memory), source, tag=tag, timeout=seconds) for one in staged]
        return self._calls.transfer(begun, tensors, giving_back(staged))

    # ---- several calls as one ----

    def _start_coalescing(self, device: Any) -> None:
        """The calls until _end_coalescing give one Work together."""
        self._calls.coalesced = []

    def _end_coalescing(self, device: Any) -> GroupWork:
        works, self._calls.coalesced = self._calls.coalesced or [], None
        return self._calls.together(works)

    # ---- the end ----

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the default timeout of collectives."""
        self._calls.timeout = timeout.total_seconds()

    def abort(self) -> None:
        """Ends every collective in flight, on every member. The group remains usable."""
        self._calls.call_abort_hooks()
        if self._membership.now is not None:
            self._membership.now.run.abort_all("the process group was aborted")

    def shutdown(self) -> None:
        """Leaves the run. Collectives in flight end first. A second call does nothing."""
        self._membership.end(_LEAVE_WITHIN)

    def deliver(self) -> None:
        """At the end of the program: what this process has sent to other ranks arrives, within a bound of 10 s."""
        now = self._membership.now
        if now is not None and now.has_sent:
            self.shutdown()

    def _must_be(self, given: int, wanted: int, what: str) -> None:
        if given != wanted:
            raise ValueError(f"{what} has {given} elements; a group of {self.getSize()} needs {wanted}")


def _late_text(late: Sequence[int], seconds: float, names_all: bool) -> str:
    """What rank 0 says when these ranks have not reached a monitored barrier; the words are torch's."""
    named = late if names_all else late[:1]
    text = f"Rank 0 timed out in monitoredBarrier: Rank{'s' if len(named) > 1 else ''} {', '.join(map(str, named))} "
    text += f"failed to pass monitoredBarrier in {round(seconds * 1000)} ms"
    return text if len(named) == len(late) else f"{text} (nor did {', '.join(map(str, late[1:]))})"


def reconfigurable(
    timeout: timedelta = dist.default_pg_timeout, *, elastic: bool = False, near: str | None = None
) -> ProcessGroup:
    """A group without members yet, which torchft's Manager or its reconfigure() gives some.

    timeout: default of changes of membership and collectives.
    elastic: see GroupOptions; torchft counts the replicas itself and wants False.
    near: a host by whose network the others reach this one. None for the host of TORCHFT_LIGHTHOUSE or of MASTER_ADDR,
        and without these for processes of one host. LOCKSTEP_HOST names this host itself.

    Example:
        >>> manager = torchft.Manager(pg=lockstep.torch.reconfigurable(), ...)
    """
    return ProcessGroup(None, 0, 1, timeout, GroupOptions(elastic=elastic, enable_reconfigure=True), near=near)


def shrink(group: Any = None, timeout: timedelta | None = None) -> list[int]:
    """Goes on without the ranks that were lost; every survivor calls it. Returns these ranks, as they were numbered.

    group: a group of this backend; None for the default group.
    Raises CollectiveError.

    Example:
        >>> try:
        ...     dist.all_reduce(gradient)
        ... except lockstep.torch.CollectiveError as error:
        ...     lockstep.torch.shrink()
    """
    return _group_of(group).shrink(timeout)


def monitored_barrier(
    group: Any = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier that says which ranks did not reach it, in the words of torch.distributed.monitored_barrier.

    torch.distributed.monitored_barrier itself refuses every backend but Gloo.

    group: a group of this backend; None for the default group. Does nothing on a rank that is not in the group.
    timeout: limit after which the barrier ends on every member, a number in seconds; None for the group's.
    wait_all_ranks: whether the error names all ranks alike; otherwise the first one before the others.
    Raises CollectiveError, on every rank that has called it.
    """
    if group is not dist.GroupMember.NON_GROUP_MEMBER:
        limit = timedelta(seconds=timeout) if isinstance(timeout, (int, float)) else timeout
        _group_of(group).monitored_barrier(limit, wait_all_ranks)


def _group_of(group: Any) -> ProcessGroup:
    given = dist.group.WORLD if group is None else group
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"group is a {type(given).__name__}; allowed: a group of the backend lockstep")
    return given


def _deliver_all() -> None:
    """A program may end right after isend(): groups leave in order then, as destroy_process_group() does."""
    for group in list(_groups):
        try:
            group.deliver()
        except Exception:
            _log.exception("a process group could not leave at the end of the program")


# Before the communicators are closed, which is registered earlier and therefore called later.
getattr(threading, "_register_atexit", atexit.register)(_deliver_all)
