"""The process group: torch's collectives as calls of a Lockstep run."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import logging
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Callable

import torch
import torch.distributed as dist

from .._lockstep import Result
from ..communicator import Communicator
from ..errors import Error, Evicted, NotConnected, OutcomeUnknown, PeerLost, TimedOut, WorldChanged
from ..train.arrays import host_memory
from ..types import PeerId
from ._call_sequence import CallSequence, Outcome
from ._coo_tensors import CooSum
from ._membership import Attempt, Membership, NextMembership, first_membership, join, store_of_address
from ._tensors import (
    Reduction,
    Staged,
    array_of,
    as_bytes,
    check_reduced,
    moved,
    plain_array,
    reduction_of,
    transfer_array,
)
from ._work import Call, Ended, EndedWork, GroupWork, PlainTransfer, Transfer

_LEAVE_WITHIN = 10.0  # seconds
_FIRST_TAG_OF_CHAINS = 1 << 62

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


class CollectiveError(dist.DistBackendError):  # type: ignore[misc]
    """A collective that failed. The text is that of the Lockstep error, which is also `__cause__`.

    lost: ranks of the group that are gone.
    """

    def __init__(self, text: str, lost: Sequence[int]) -> None:
        super().__init__(text)
        self.lost = list(lost)


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]  # torch is not there for everybody who checks
    """A group of torch.distributed over one Lockstep run.

    store, rank, size, timeout: as torch gives them. The timeout is the default of every collective.
    coordinator: of the run, as lockstep.connect() takes it; None: rank 0 runs one.
    near: see reconfigurable().
    Raises lockstep.Unreachable, Refused, TimedOut, PeerLost; torch.distributed.DistStoreError.
    """

    result: Result | None = None
    """The receipt of the last collective that has ended: contributors, retries, hash. None before the first."""

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
        self._options = options
        self._timeout = timeout
        self._given = (rank, size)
        self._rank_0_coordinates = coordinator is None and near is None
        self._now: Membership | None = None
        self._former: Membership | None = None
        self._next = NextMembership(near or store)
        self._moving: Attempt | None = None
        self._abort_hooks: dict[int, Callable[[], object]] = {}
        if not options.enable_reconfigure:
            self._now = first_membership(store, rank, size, timeout, coordinator)
        self._coalesced: list[GroupWork] | None = None
        self._monitored = itertools.count()
        self._group_name = ""
        self._group_desc = "undefined"
        _groups.add(self)

    # ---- who takes part ----

    @property
    def communicator(self) -> Communicator:
        """The run of this group, for calls that torch does not have. Tags from 2**62 on are the group's own."""
        return self._membership.participation.run

    @property
    def _membership(self) -> Membership:
        if self._now is None:
            raise NotConnected("the process group has no members: it was destroyed, or waits for a reconfigure")
        return self._now

    @property
    def _members(self) -> list[PeerId]:
        return self._membership.members

    def getBackendName(self) -> str:  # noqa: N802  # torch's name
        """The name of this backend."""
        return "lockstep"

    def getRank(self) -> int:  # noqa: N802
        """This process's rank in the group."""
        now = self._now
        return self._given[0] if now is None else now.members.index(now.participation.run.id)

    def getSize(self) -> int:  # noqa: N802
        """The number of processes in the group, lost ones included until the group has shrunk."""
        return self._given[1] if self._now is None else len(self._now.members)

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
        alive = set(self.communicator.members())
        return [rank for rank, member in enumerate(self._members) if member not in alive]

    def shrink(self, timeout: timedelta | None = None) -> list[int]:
        """Goes on without the lost ranks. Every survivor calls it.

        Ranks keep their order and close the gaps. Returns the ranks that are gone, in the numbers of before.
        Raises CollectiveError.
        """
        seconds = self._seconds(timeout)
        try:
            result = self.communicator.barrier(timeout=seconds)
        except Error as error:
            raise self._failure(error) from error
        before = self._members
        self._adopt(result)
        return [rank for rank, member in enumerate(before) if member not in self._members]

    def _adopt(self, result: Result) -> None:
        """The contributors of a committed round are the members, equal on every one of them."""
        alive = set(result.contributors)
        self._membership.members = [member for member in self._members if member in alive]

    # ---- torch's reconfigure ----

    @property
    def supports_reconfigure(self) -> bool:
        """Whether reconfigure() works: the group was made with enable_reconfigure."""
        return self._options.enable_reconfigure

    def get_reconfigure_handle(self) -> str:
        """The handle by which others name this process in reconfigure(). Always the same."""
        return self._next.handle()

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
        seconds = self._seconds(opts.timeout)
        number, handles = opts.uuid, opts.handles
        return self._move(
            lambda: self._next.join(number, handles, seconds, self._timeout), seconds, f"reconfigure {number}"
        )

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
        seconds = self._timeout.total_seconds()

        def meet() -> Membership:
            limit = time.monotonic() + seconds
            store = store_of_address(store_addr, seconds)
            return join(store, rank, world_size, max(0.001, limit - time.monotonic()), self._timeout, "configure")

        self._move(meet, seconds, "configure").wait()

    def _move(self, meet: Callable[[], Membership], seconds: float, what: str) -> GroupWork:
        if self._moving is not None and not self._moving.done():
            raise RuntimeError(f"{what}: another change of membership is in flight")
        self._moving = Attempt(meet, self._take, seconds, what)
        return GroupWork(
            [self._moving], [], lambda _: None, lambda error: _caused(CollectiveError(str(error), []), error)
        )

    def _take(self, new: Membership) -> None:
        """Goes over to a membership that all of its members have agreed on."""
        old, self._now = self._now, new
        if self._former is not None:  # its members have had time to leave
            self._former.participation.close()
        self._former = old
        if old is not None:
            old.retire()

    def errored(self) -> Exception | None:
        """The reason for which this group needs another membership; None as long as calls can succeed."""
        if self._now is None:
            return NotConnected("the process group has no members yet")
        if self._now.end_of_run is not None:
            return self._now.end_of_run
        lost = self.lost()
        if lost and not self._options.elastic:
            return CollectiveError(f"ranks {lost} are gone", lost)
        return None

    def get_error(self) -> Any:
        """SUCCESS as long as calls can succeed, REMOTE_ERROR if ranks are gone, COMM_ERROR if the run is over."""
        kinds = torch._C._distributed_c10d.ErrorType
        error = self.errored() if self._now is not None else None
        if error is None:
            return kinds.SUCCESS
        return kinds.REMOTE_ERROR if isinstance(error, CollectiveError) else kinds.COMM_ERROR

    def register_abort_hook(self, hook_id: int, hook: Callable[[], object]) -> None:
        """Calls the hook before abort(), and when a collective has failed."""
        self._abort_hooks[hook_id] = hook

    def unregister_abort_hook(self, hook_id: int) -> None:
        """Forgets a hook."""
        self._abort_hooks.pop(hook_id, None)

    def _call_abort_hooks(self) -> None:
        for hook in list(self._abort_hooks.values()):
            try:
                hook()
            except Exception:
                _log.exception("an abort hook failed")

    # ---- what torch asks of a backend: this group is its own ----

    def get_backend(self, device: Any = None) -> ProcessGroup:
        """This group."""
        return self

    _get_backend = get_backend

    @property
    def supports_splitting(self) -> bool:
        """False."""
        return False

    @property
    def supports_coalescing(self) -> bool:
        """True."""
        return True

    @property
    def supports_time_estimate(self) -> bool:
        """False."""
        return False

    @property
    def supports_shrinking(self) -> bool:
        """False: lockstep.torch.shrink() needs no ranks from its caller."""
        return False

    # ---- collectives that Lockstep has ----

    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> GroupWork:
        """Reduces each tensor over the group, in place."""
        if opts is None or isinstance(opts, (dist.ReduceOp, dist.ReduceOp.RedOpType)):  # torchft gives the operation
            operation, opts = opts, dist.AllreduceOptions()
            opts.reduceOp = dist.ReduceOp.SUM if operation is None else operation
        if len(tensors) == 1 and not self._is_async(opts):
            array, reduction = plain_array(tensors[0]), None
            if array is not None:
                try:
                    reduction = reduction_of(opts.reduceOp)
                except Exception as error:
                    self._refuse("all_reduce", error, 1)
                    raise
            if reduction is not None and reduction.factor is None:
                return self._all_reduce_at_once(array, reduction, tensors, opts)
        return self._all_reduce(tensors, opts)

    def _all_reduce_at_once(
        self, array: Any, reduction: Reduction, tensors: Sequence[torch.Tensor], opts: Any
    ) -> EndedWork:
        """The all-reduce of a caller that waits for it, of one tensor that needs no copy. Small ones are frequent."""
        call = self._membership.all_reduce(reduction.op, self._seconds(opts.timeout), self._options.elastic)
        try:
            result = call(array)
        except Error as error:
            return EndedWork(tensors, self._failure(error))
        self.result = result
        self._take_world(result)
        return EndedWork(tensors, None)

    def allreduce_coalesced(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> GroupWork:
        """Reduces each tensor over the group, in place; tensors of one dtype travel in one call."""
        opts = opts if opts is not None else dist.AllreduceCoalescedOptions()
        return self._all_reduce(tensors, opts)

    def _all_reduce(self, tensors: Sequence[torch.Tensor], opts: Any) -> GroupWork:
        if any(tensor.layout is torch.sparse_coo for tensor in tensors):
            return self._together([self._all_reduce_coo(tensor, opts) for tensor in tensors])
        with self._answering("all_reduce", len({tensor.dtype for tensor in tensors})):
            reduction = reduction_of(opts.reduceOp)
            staged = [Staged(tensor, reduction) for tensor in tensors]
        calls = []
        for dtype in dict.fromkeys(one.memory.dtype for one in staged):
            arrays = [array_of(one.memory) for one in staged if one.memory.dtype == dtype]
            given = arrays if len(arrays) > 1 else arrays[0]
            calls.append(self._call_with_retry("all_reduce", opts, given, op=reduction.op))
        return self._begun(calls, tensors, _giving_back(staged))

    def _all_reduce_coo(self, tensor: torch.Tensor, opts: Any) -> GroupWork:
        """Every member gets the elements that the others have stored, and adds them up in the order of ranks.

        The members exchange their numbers of elements first. A lost member ends the call, also in an elastic group.
        """
        if tensor.layout is not torch.sparse_coo:
            return self._all_reduce([tensor], opts)
        tag, seconds, run = (
            _FIRST_TAG_OF_CHAINS + next(self._membership.chains),
            self._seconds(opts.timeout),
            self.communicator,
        )
        try:
            total = CooSum(tensor, reduction_of(opts.reduceOp), self.getSize())
        except Exception as error:
            run.refuse("all_reduce", error, tag=tag)
            raise
        size = len(self._members)

        def gather_elements(outcome: Outcome) -> Call | None:
            if isinstance(outcome, Error) or total.elements is not None:
                return None
            elements, room = total.take_sizes()
            call: Call = run.all_gather_async(elements, room, tag=tag, timeout=seconds, minimum_world=size)
            return call

        sizes = run.all_gather_async(total.own_size, total.sizes, tag=tag, timeout=seconds, minimum_world=size)
        return self._begun([CallSequence(sizes, gather_elements)], [tensor], lambda _: total.give_back())

    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any) -> GroupWork:
        """Gives every member the tensors of opts.rootRank. Elastic: also if other ranks are lost."""
        with self._answering("broadcast", len(tensors)):
            self._peer(opts.rootRank)
            staged = [Staged(tensor) for tensor in tensors]
            arrays = [array_of(as_bytes(one.memory)) for one in staged]
        begin = self._broadcast_among_survivors if self._options.elastic else self._broadcast
        calls = [begin(array, opts) for array in arrays]
        return self._begun(calls, tensors, _giving_back(staged))

    def _broadcast(self, array: Any, opts: Any) -> Call:
        return self._call("broadcast", opts, array, self._peer(opts.rootRank))

    def _broadcast_among_survivors(self, array: Any, opts: Any) -> Call:
        """A broadcast that is called again when a rank is lost, until the root is lost.

        Members call again at different places of their programs: each broadcast has a tag of its own for that.
        """
        run, seconds = self.communicator, self._seconds(opts.timeout)
        rank, root = opts.rootRank, self._peer(opts.rootRank)
        tag = _FIRST_TAG_OF_CHAINS + next(self._membership.chains)

        def again(error: Outcome) -> Call | None:
            if not isinstance(error, Error):
                return None
            try:
                is_alive = root in run.members()
            except Error:  # the run is over
                raise error from None
            if not is_alive:
                raise PeerLost(f"rank {rank}, the root of the broadcast, is lost ({error})") from error
            if not isinstance(error, (PeerLost, WorldChanged)):
                raise error
            call: Call = run.broadcast_async(array, root, tag=tag, timeout=seconds)
            return call

        return CallSequence(self._call("broadcast", opts, array, root, least=0), again)

    def barrier(self, opts: Any = None) -> GroupWork:
        """Ends when every member has called it."""
        opts = opts if opts is not None else dist.BarrierOptions()
        call = self._call_with_retry("barrier", opts)
        return self._begun([call], [], lambda _: None)

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """See lockstep.torch.monitored_barrier()."""
        seconds = self._seconds(timeout) if timeout != timedelta(0) else 0.0
        rank, number = self.getRank(), next(self._monitored)
        keys = [f"lockstep/monitored/{number}/{other}" for other in range(self.getSize())]
        store = self._membership.store
        store.set(keys[rank], b"1")
        limit = time.monotonic() + seconds
        call = self.communicator.barrier_async(retry=self._options.elastic, timeout=seconds + 5.0)
        while rank == 0 and not call.done():
            if time.monotonic() >= limit:
                late = [other for other, key in enumerate(keys) if not store.check([key])]
                call.abort(_late_text(late, seconds, wait_all_ranks))
                break
            time.sleep(0.002)  # a store tells nobody that a key has come
        try:
            self._begun([call], [], lambda _: None).wait()
        except CollectiveError as error:
            if rank == 0:
                raise
            reached = f"Rank {rank} successfully reached monitoredBarrier, but received errors while waiting for "
            raise _caused(CollectiveError(f"{reached}send/recv from rank 0: {error}", error.lost), error) from error

    def all_gather_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> GroupWork:
        """Gives every member the tensors of all, in rank order, in one tensor."""
        opts = opts if opts is not None else torch._C._distributed_c10d.AllgatherOptions()
        with self._answering("all_gather_single"):
            into = Staged(output, reads=False)
            source = Staged(given)
            self._must_be(output.numel(), given.numel() * self.getSize(), "output")
            memory, room = as_bytes(source.memory), as_bytes(into.memory)
        call = self._gather_bytes(memory, room, opts)
        return self._begun([call], [output], lambda _: into.give_back())

    _allgather_base = all_gather_single

    def allgather(
        self, outputs: Sequence[Sequence[torch.Tensor]], given: Sequence[torch.Tensor], opts: Any = None
    ) -> GroupWork:
        """Gives every member the tensors of all, a list of tensors for each that was given."""
        opts = opts if opts is not None else torch._C._distributed_c10d.AllgatherOptions()
        sources, copies = [], []
        with self._answering("all_gather", len(given)):
            for targets, tensor in zip(outputs, given):
                self._must_be(len(targets), self.getSize(), "the list of outputs")
                sources.append(as_bytes(Staged(tensor).memory))
                sizes = [_bytes_in(target) for target in targets]
                copies.append((targets, host_memory(sum(sizes), torch.uint8), sizes))
        calls = [self._gather_bytes(source, room, opts) for source, (_, room, _) in zip(sources, copies)]

        def finish(_: Sequence[Result]) -> None:
            for targets, room, sizes in copies:
                for target, part in zip(targets, room.split(sizes)):
                    _copy_bytes(part, target)

        return self._begun(calls, [target for targets in outputs for target in targets], finish)

    def allgather_coalesced(
        self, outputs: Sequence[Sequence[torch.Tensor]], given: Sequence[torch.Tensor], opts: Any = None
    ) -> GroupWork:
        """Gives every member the lists of tensors of all. outputs: a list for each rank, as long as `given`."""
        with self._answering("all_gather_coalesced", len(given)):
            self._must_be(len(outputs), self.getSize(), "the list of outputs")
            for rank, targets in enumerate(outputs):
                if len(targets) != len(given):
                    raise ValueError(
                        f"the outputs for rank {rank} are {len(targets)} tensors; the inputs are {len(given)}"
                    )
        return self.allgather([list(targets) for targets in zip(*outputs)], given, opts)

    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor], opts: Any = None
    ) -> GroupWork:
        """all_gather_single for each pair of tensors."""
        return self._each("all_gather_single", self.all_gather_single, list(zip(outputs, given)), opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter_single(self, output: torch.Tensor, given: torch.Tensor, opts: Any = None) -> GroupWork:
        """Reduces the tensors over the group; each member gets its part, in rank order."""
        opts = opts if opts is not None else dist.ReduceScatterOptions()
        with self._answering("reduce_scatter_single"):
            self._must_be(given.numel(), output.numel() * self.getSize(), "input")
            reduction = reduction_of(opts.reduceOp)
            source = Staged(given, reduction)
            into = Staged(output, reduction, reads=False)
        call = self._call("reduce_scatter", opts, source.memory, into.memory, op=reduction.op)
        return self._begun([call], [output], lambda _: into.give_back())

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter(
        self, outputs: Sequence[torch.Tensor], given: Sequence[Sequence[torch.Tensor]], opts: Any = None
    ) -> GroupWork:
        """Reduces lists of tensors over the group; each member gets the tensor of its rank."""
        works = []
        with self._answering("reduce_scatter", len(outputs)):
            for parts in given:
                self._must_be(len(parts), self.getSize(), "the list of inputs")
                for part in parts:
                    check_reduced(part)
        for output, parts in zip(outputs, given):
            if len({part.numel() for part in parts}) == 1:
                works.append(self.reduce_scatter_single(output, torch.cat([part.reshape(-1) for part in parts]), opts))
            else:
                works.append(self._reduce_scatter_uneven(output, parts, opts))
        return self._together(works)

    def _reduce_scatter_uneven(self, output: torch.Tensor, parts: Sequence[torch.Tensor], opts: Any) -> GroupWork:
        """Parts of different sizes: every member gets all of them, and keeps its own."""
        opts = opts if opts is not None else dist.ReduceScatterOptions()
        sums = [part.clone() for part in parts]
        work = self._all_reduce(sums, opts)
        return self._then(work, [output], lambda: output.copy_(sums[self.getRank()].view_as(output)))

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor], opts: Any = None
    ) -> GroupWork:
        """reduce_scatter_single for each pair of tensors."""
        return self._each("reduce_scatter_single", self.reduce_scatter_single, list(zip(outputs, given)), opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- collectives that are made of those ----

    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any) -> GroupWork:
        """Reduces each tensor over the group, on opts.rootRank only."""
        is_root = opts.rootRank == self.getRank()
        with self._answering("reduce", len({tensor.dtype for tensor in tensors})):
            reduction, root = reduction_of(opts.reduceOp), self._peer(opts.rootRank)
            staged = [Staged(tensor, reduction) for tensor in tensors]
        calls = []
        for dtype in dict.fromkeys(one.memory.dtype for one in staged):
            results = [one.memory for one in staged if one.memory.dtype == dtype]
            given = [memory.clone() for memory in results] if is_root else results
            calls.append(self._call("reduce", opts, given, root, results if is_root else None, op=reduction.op))
        return self._begun(calls, tensors, _giving_back(staged) if is_root else lambda _: None)

    def gather(self, outputs: Sequence[Sequence[torch.Tensor]], given: Sequence[torch.Tensor], opts: Any) -> GroupWork:
        """Gives opts.rootRank the tensors of all."""
        is_root = opts.rootRank == self.getRank()
        sources, copies = [], []
        with self._answering("gather", len(given)):
            root = self._peer(opts.rootRank)
            for index, tensor in enumerate(given):
                targets = outputs[index] if is_root else []
                self._must_be(len(targets), self.getSize() if is_root else 0, "the list of outputs")
                sizes = [_bytes_in(target) for target in targets]
                sources.append(as_bytes(Staged(tensor).memory))
                copies.append((targets, host_memory(sum(sizes), torch.uint8), sizes))
        calls = [
            self._call("gather", opts, source, root, room if is_root else None)
            for source, (_, room, _) in zip(sources, copies)
        ]
        if not is_root:
            return self._begun(calls, [], lambda _: None)

        def finish(results: Sequence[Result]) -> None:
            for result, (targets, room, sizes) in zip(results, copies):
                _sizes_must_be(result.blocks, sizes, "gather")
                for target, part in zip(targets, room.split(sizes)):
                    _copy_bytes(part, target)

        return self._begun(calls, [target for targets in outputs for target in targets], finish)

    def scatter(self, outputs: Sequence[torch.Tensor], given: Sequence[Sequence[torch.Tensor]], opts: Any) -> GroupWork:
        """Gives each member one of the tensors of opts.rootRank."""
        is_root = opts.rootRank == self.getRank()
        sources: list[tuple[torch.Tensor | None, list[int] | None]] = []
        with self._answering("scatter", len(outputs)):
            root = self._peer(opts.rootRank)
            for index in range(len(outputs)):
                if not is_root:
                    sources.append((None, None))
                    continue
                self._must_be(len(given[index]), self.getSize(), "the list of inputs")
                parts = [as_bytes(Staged(part).memory) for part in given[index]]
                sources.append((torch.cat(parts), [part.numel() for part in parts]))
            copies = [(output, host_memory(_bytes_in(output), torch.uint8)) for output in outputs]
        calls = [
            self._call("scatter", opts, source, root, room, counts=counts)
            for (source, counts), (_, room) in zip(sources, copies)
        ]

        def finish(results: Sequence[Result]) -> None:
            for result, (output, room) in zip(results, copies):
                _sizes_must_be([sum(result.blocks)], [room.numel()], "scatter")
                _copy_bytes(room, output)

        return self._begun(calls, outputs, finish)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        given: torch.Tensor,
        output_sizes: Sequence[int],
        input_sizes: Sequence[int],
        opts: Any = None,
    ) -> GroupWork:
        """Sends a part of the tensor to each member, and receives one from each; sizes in rows, none: equal ones."""
        with self._answering("all_to_all_single"):
            parts = _rows_for(self.getSize(), given, input_sizes, "input")
            targets = _rows_for(self.getSize(), output, output_sizes, "output")
        return self.alltoall(targets, parts, opts)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor], opts: Any = None) -> GroupWork:
        """Sends one tensor to each member, and receives one from each; their sizes may differ."""
        opts = opts if opts is not None else dist.AllToAllOptions()
        with self._answering("all_to_all"):
            self._must_be(len(given), self.getSize(), "the list of inputs")
            self._must_be(len(outputs), self.getSize(), "the list of outputs")
            parts = [as_bytes(Staged(tensor).memory) for tensor in given]
            sizes = [_bytes_in(target) for target in outputs]
            source, room = torch.cat(parts), host_memory(sum(sizes), torch.uint8)
        call = self._call("all_to_all", opts, source, room, counts=[part.numel() for part in parts])

        def finish(results: Sequence[Result]) -> None:
            _sizes_must_be(results[-1].blocks, sizes, "all_to_all")
            for target, part in zip(outputs, room.split(sizes)):
                _copy_bytes(part, target)

        return self._begun([call], outputs, finish)

    # ---- one to one ----

    def send(self, tensors: Sequence[torch.Tensor], destination: int, tag: int) -> GroupWork:
        """Sends tensors to a rank. Ends when they are there. A lost partner: CollectiveError."""
        now = self._now
        if now is not None and self._coalesced is None:
            now.has_sent, members = True, now.members
            call = now.send_plain(tensors, members, destination, (tag, self._timeout.total_seconds()))
            if call is not None:
                return PlainTransfer(call, tensors, self._failure, members)
        run, partner, seconds = self.communicator, self._peer(destination), self._timeout.total_seconds()
        self._membership.has_sent = True
        calls = [
            run.send_async(transfer_array(Staged(tensor).memory), partner, tag=tag, timeout=seconds)
            for tensor in tensors
        ]
        return self._transferred(calls, tensors, lambda: None)

    def recv(self, tensors: Sequence[torch.Tensor], source: int, tag: int) -> GroupWork:
        """Receives tensors from a rank. A lost partner: CollectiveError."""
        now = self._now
        if now is not None and self._coalesced is None:
            members = now.members
            call = now.recv_plain(tensors, members, source, (tag, self._timeout.total_seconds()))
            if call is not None:
                return PlainTransfer(call, tensors, self._failure, members)
        return self._recv(tensors, self._peer(source), tag)

    def recv_anysource(self, tensors: Sequence[torch.Tensor], tag: int) -> GroupWork:
        """Receives tensors from whichever rank sends first; the Work tells which."""
        return self._recv(tensors, None, tag)

    def _recv(self, tensors: Sequence[torch.Tensor], source: PeerId | None, tag: int) -> GroupWork:
        run, seconds = self.communicator, self._timeout.total_seconds()
        staged = [Staged(tensor, reads=False) for tensor in tensors]
        calls = [run.recv_async(transfer_array(one.memory), source, tag=tag, timeout=seconds) for one in staged]
        return self._transferred(calls, tensors, lambda: _giving_back(staged)([]))

    def _transferred(
        self, calls: Sequence[Call], tensors: Sequence[torch.Tensor], finish: Callable[[], None]
    ) -> GroupWork:
        """The Work of transfers that were just begun."""
        return self._collected(Transfer(calls, tensors, lambda _: finish(), self._failure, self._members))

    # ---- several calls as one ----

    def _start_coalescing(self, device: Any) -> None:
        """The calls until _end_coalescing give one Work together."""
        self._coalesced = []

    def _end_coalescing(self, device: Any) -> GroupWork:
        works, self._coalesced = self._coalesced or [], None
        return self._together(works)

    # ---- the end ----

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the default timeout of collectives."""
        self._timeout = timeout

    def abort(self) -> None:
        """Ends every collective in flight, on every member. The group remains usable."""
        self._call_abort_hooks()
        if self._now is not None:
            self._now.participation.run.abort_all("the process group was aborted")

    def shutdown(self) -> None:
        """Leaves the run. Collectives in flight end first. A second call does nothing."""
        if self._moving is not None:
            self._moving.give_up("the process group was destroyed")
        now, self._now = self._now, None
        if now is not None:
            now.end(_LEAVE_WITHIN)
        if self._former is not None:
            self._former.participation.close()
        self._next.close()

    def deliver(self) -> None:
        """At the end of the program: what this process has sent to other ranks arrives, within a bound of 10 s."""
        now = self._now
        if now is not None and now.has_sent:
            self.shutdown()

    # ---- how calls are made ----

    @contextlib.contextmanager
    def _answering(self, operation: str, calls: int = 1) -> Iterator[None]:
        """Tells the other ranks if this rank refuses a collective inside of the `with` block: they do not wait for it.

        operation: torch's name of it. calls: the number of calls of which the collective consists.
        """
        try:
            yield
        except Exception as error:
            self._refuse(operation, error, calls)
            raise

    def _refuse(self, operation: str, why: Exception, calls: int) -> None:
        if self._now is None:
            return
        for _ in range(calls):
            self.communicator.refuse(operation, why)
        if self._options.elastic and operation == "broadcast":  # each has a number, as on the other ranks
            for _ in range(calls):
                next(self._membership.chains)

    def _each(
        self, operation: str, begin: Callable[..., GroupWork], pairs: Sequence[tuple[Any, Any]], opts: Any
    ) -> GroupWork:
        """One collective for each pair of tensors, as one Work."""
        works = []
        for at, (one, other) in enumerate(pairs):
            try:
                works.append(begin(one, other, opts))
            except Exception as error:  # this one was told
                self._refuse(operation, error, len(pairs) - at - 1)
                raise
        return self._together(works)

    def _call_with_retry(self, name: str, opts: Any, *arrays: Any, **options: Any) -> Call:
        """Begins a call that an elastic group goes on with among survivors."""
        is_elastic = self._options.elastic
        return self._call(name, opts, *arrays, least=0 if is_elastic else None, retry=is_elastic, **options)

    def _call(self, name: str, opts: Any, *arrays: Any, least: int | None = None, **options: Any) -> Call:
        """Begins a call of the communicator. A caller that would only wait makes the call itself.

        least: minimum number of contributors; None for all members, if the arguments depend on their number.
        """
        options.update(
            timeout=self._seconds(opts.timeout), minimum_world=len(self._members) if least is None else least
        )
        if self._is_async(opts):
            call: Call = getattr(self.communicator, name + "_async")(*arrays, **options)
            return call
        try:
            return Ended(getattr(self.communicator, name)(*arrays, **options))
        except Error as error:
            return Ended(error)

    def _is_async(self, opts: Any) -> bool:
        """Whether the caller does something else before it waits."""
        return self._coalesced is not None or getattr(opts, "asyncOp", True)

    def _seconds(self, timeout: timedelta | None) -> float:
        seconds = timeout.total_seconds() if timeout is not None else -1.0
        return seconds if seconds > 0 else self._timeout.total_seconds()  # torch's "unset" is -1 ms

    def _peer(self, rank: int) -> PeerId:
        if not 0 <= rank < len(self._members):
            raise ValueError(f"rank {rank} is not in this group of {len(self._members)}")
        return self._members[rank]

    def _gather_bytes(self, source: torch.Tensor, room: torch.Tensor, opts: Any) -> Call:
        return self._call("all_gather", opts, source, room)

    def _begun(
        self, calls: Sequence[Call], tensors: Sequence[torch.Tensor], finish: Callable[[Sequence[Result]], Any]
    ) -> GroupWork:
        """The Work of calls that were just made."""

        def end(results: Sequence[Result]) -> None:
            if results:
                self.result = results[-1]
                self._take_world(results[-1])
            finish(results)

        return self._collected(GroupWork(calls, tensors, end, self._failure))

    def _take_world(self, result: Result) -> None:
        """Elastic: a committed call may have fewer contributors than the group had members."""
        if self._options.elastic and len(result.contributors) < len(self._members):
            self._adopt(result)

    def _then(self, work: GroupWork, tensors: Sequence[torch.Tensor], action: Callable[[], Any]) -> GroupWork:
        """The same calls, with one more thing to do at their end."""

        def finish(results: Sequence[Result]) -> None:
            work.finish(results)
            action()

        return self._collected(GroupWork(work.calls, tensors, finish, self._failure), instead_of=work)

    def _together(self, works: Sequence[GroupWork]) -> GroupWork:
        """Several works as one."""

        def finish(results: Sequence[Result]) -> None:
            at = 0
            for work in works:
                work.finish(results[at : at + len(work.calls)])
                at += len(work.calls)

        calls = [call for work in works for call in work.calls]
        tensors = [tensor for work in works for tensor in work.tensors]
        together = GroupWork(calls, tensors, finish, self._failure)
        for work in works:
            together = self._collected(together, instead_of=work)
        return together

    def _collected(self, work: GroupWork, instead_of: GroupWork | None = None) -> GroupWork:
        """Remembers a work between _start_coalescing and _end_coalescing."""
        if self._coalesced is None:
            return work
        if instead_of is not None and instead_of in self._coalesced:
            self._coalesced.remove(instead_of)
        if work not in self._coalesced:
            self._coalesced.append(work)
        return work

    def _failure(self, error: BaseException) -> CollectiveError:
        """The exception of torch for an error of Lockstep."""
        lost: list[int] = []
        with contextlib.suppress(Error):
            lost = self.lost()
        text = str(error)
        if isinstance(error, TimedOut):
            text = f"the timeout of the call has passed: {text}"
        end_of_run = error if isinstance(error, (NotConnected, Evicted, OutcomeUnknown)) else None
        has_no_coordinator = end_of_run is not None and "the coordinator at '" in text
        if has_no_coordinator and self._rank_0_coordinates and self._given[0] != 0:
            lost = sorted({0, *lost})
            text = text.replace(": rejoin as a new peer", "") + (
                "; rank 0 ran the coordinator of this group, so the run is over for all ranks: create a new group. With"
                " init_method='lockstep://TOKEN' a `lockstep coordinator` outlives every rank"
            )
        elif lost and not end_of_run and not self._options.elastic:
            text += f" (ranks that are gone: {lost}; lockstep.torch.shrink(group) goes on without them)"
        if self._now is not None and end_of_run:
            self._now.end_of_run = end_of_run
        self._call_abort_hooks()
        return _caused(CollectiveError(text, lost), error)

    def _must_be(self, given: int, wanted: int, what: str) -> None:
        if given != wanted:
            raise ValueError(f"{what} has {given} elements; a group of {self.getSize()} needs {wanted}")


def _late_text(late: Sequence[int], seconds: float, names_all: bool) -> str:
    """What rank 0 says when these ranks have not reached a monitored barrier; the words are torch's."""
    named = late if names_all else late[:1]
    text = f"Rank 0 timed out in monitoredBarrier: Rank{'s' if len(named) > 1 else ''} {', '.join(map(str, named))} "
    text += f"failed to pass monitoredBarrier in {round(seconds * 1000)} ms"
    return text if len(named) == len(late) else f"{text} (nor did {', '.join(map(str, late[1:]))})"


def _caused(failure: CollectiveError, error: BaseException) -> CollectiveError:
    failure.__cause__ = error
    return failure


def _giving_back(staged: Sequence[Staged]) -> Callable[[Sequence[Result]], None]:
    def finish(_: Sequence[Result]) -> None:
        for one in staged:
            one.give_back()

    return finish


def _copy_bytes(source: torch.Tensor, target: torch.Tensor) -> None:
    into = moved(target.detach())
    into.copy_(source.view(into.dtype).view(into.shape) if source.numel() else into)


def _bytes_in(target: torch.Tensor) -> int:
    into = moved(target.detach())
    size: int = into.numel() * into.element_size()
    return size


def _rows_for(size: int, tensor: torch.Tensor, sizes: Sequence[int], what: str) -> list[torch.Tensor]:
    """The rows of a tensor for each of `size` ranks. sizes: how many rows for each; none: equally many."""
    if tensor.numel() == 0:
        return [tensor.new_empty(0)] * size
    rows = tensor.shape[0]
    if sizes and (len(sizes) != size or sum(sizes) != rows):
        raise ValueError(
            f"the split sizes of the {what} are {list(sizes)}; allowed: {size} sizes that add up to its {rows} rows"
        )
    if not sizes and rows % size != 0:
        raise ValueError(f"the {what} has {rows} rows, which are no equal parts for {size} ranks: give split sizes")
    return list(tensor.split(list(sizes) if sizes else rows // size))


def _sizes_must_be(sent: Sequence[int], wanted: Sequence[int], what: str) -> None:
    """Both in bytes, by rank."""
    if list(sent) != list(wanted):
        raise ValueError(f"{what}: the ranks sent {list(sent)} bytes, and the outputs have {list(wanted)}")


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
