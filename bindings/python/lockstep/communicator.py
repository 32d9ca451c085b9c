"""This process's place in a run."""

from __future__ import annotations

import atexit
import difflib
import logging
import operator
import os
import threading
import time
import weakref
from array import array
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    TypedDict,
    TypeVar,
    Union,
)

from . import _cuda, _lockstep
from ._arguments import path_of, shown
from ._call_options import AllReduceOptions
from ._context import context
from ._lines import Sink, log_sink
from ._lockstep import Result, Work
from .certificates import Certificates, native_certificates
from .errors import ArrayError, Desync, Error, Evicted, Forked, InvalidArgument, NotConnected
from .state import State
from .types import (
    ALGORITHMS,
    OPS,
    STRATEGIES,
    WIRE_FORMATS,
    Algorithm,
    AlgorithmName,
    Op,
    OpName,
    PeerId,
    Stage,
    SyncStrategy,
    SyncStrategyName,
    WireFormat,
    WireFormatName,
    World,
    number_of,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["COLLECTIVE_TIMEOUT", "CONNECT_TIMEOUT", "Array", "Arrays", "Communicator", "Options", "connect"]

Array = Any
"""Anything with the buffer protocol or DLPack, C-contiguous: numpy arrays, torch tensors, array.array, bytearray,
memoryview."""
Arrays = Union[Array, Sequence[Array]]
"""One array, or a list or tuple of arrays of one dtype that one call takes together."""
Path = Union[str, "os.PathLike[str]"]

COLLECTIVE_TIMEOUT = 1800.0
"""Default time-out of collectives, admit(), wait_for_world() and leave(), in seconds: as in torch."""
CONNECT_TIMEOUT = 300.0
"""Default time-out of connect(), in seconds."""

_STAGES = tuple(Stage)  # by their numbers in the C library
_LEAVE_WITHIN = 10.0  # seconds that the end of a `with` waits
_LEAVE_AT_ONCE = 1.0  # after Ctrl-C, or sys.exit()


class Options(TypedDict, total=False):
    """How a peer takes part: keyword arguments of `connect` and `Communicator`. Times are in seconds."""

    name: str | None
    """Name for logs and `lockstep status`; at most 64 bytes. Default: host and process, such as "node7[4123]"."""
    group: int
    """Peers of one group reduce with each other. Default: 0."""
    gang: int
    """Peers of one gang are admitted and lost together; a tag has one outcome for all of them. Default: 0, none."""
    gang_size: int
    """Number of peers of the gang, which is admitted when all of them wait. Default: 1."""
    founders: int
    """Number of waiting peers that found an empty run. Default: 1."""
    minimum_world: int
    """Default of the calls' minimum_world: calls with fewer contributors raise BelowMinimum. Default: 1."""
    auto_admit: bool
    """Admit newcomers between calls, without admit(). Default: False."""
    ports: int | tuple[int, int]
    """Port to listen on, or the first and last of a range. Default: any port."""
    listen_host: str
    """Address or name to listen on. Default: all addresses."""
    advertise_host: str
    """Address for other peers. Default: the address that the coordinator sees."""
    advertise_port: int
    """Port for other peers. Default: the port that this peer listens on."""
    stripes: int
    """Parallel streams to each neighbour, 1 to 128. Default: 2, and up to 128 where lines lose packets."""
    segment_bytes: int
    """Pipelined piece of an array, up to 1 MiB, equal on all peers. Default: by size."""
    dial_timeout: float
    """Limit of one attempt to open a stream. Default: 5."""
    link_heartbeat: float
    """Interval of heartbeats on an idle stream. Default: 0.5."""
    link_silence: float
    """Longest silence after which a stream is opened again. Default: 4."""
    link_timeout: float
    """Time without a working stream after which a neighbour is reported. Default: 8."""
    abort_grace: float
    """Time from a call's timeout to OutcomeUnknown, if the coordinator does not answer. Default: 10."""
    congestion_control: str
    """TCP congestion control, such as "cubic". Default: "bbr" for round trips of 1 ms or more, if the system allows it.

    Otherwise the system's; for shorter round trips "cubic" or "reno" where that is BBR. Result.congestion_control tells
    what a call used.
    """
    logger: logging.Logger
    """Receives a record of level INFO for each event of this peer. Default: the logger "lockstep"."""
    journal: str | os.PathLike[str] | Callable[[str], object]
    """File or function that receives a line of JSON for each call, its end and each view, for `lockstep sim audit`.

    A file that takes no more lines ends with one that says so, and a warning tells the logger.
    """
    flight_folder: Path
    """Writable folder for the recording when the run ends unexpectedly. Default: LOCKSTEP_FLIGHT_FOLDER, else none."""
    flight_kib: int
    """Memory of the flight recorder in KiB. Default: 8192 with a folder, else none."""
    spin: float
    """Time to poll before sleeping while a call is in flight, unless other programs want the core; 0: sleep at once.
    Default: 50e-6."""
    bytes_per_second: int
    """Limit in bytes per second for sending tensors and shared states, to all peers together. Default: none."""
    state_bytes_per_second: int
    """Limit in bytes per second for sending shared states. Default: none."""
    shared_thread: bool
    """Runs on one thread of this process together with all others that have this option. Default: False."""
    certificates: Certificates | None
    """Instead of a run token: files of an authority of the user's own. Default: None."""
    insecure: bool
    """Without token and certificates, streams to other machines are not encrypted. Default: False, they are refused."""


T = TypeVar("T")


def connect(
    coordinator: str,
    *,
    timeout: float | None = CONNECT_TIMEOUT,
    wait: bool = True,
    state: State | None = None,
    tag: int = 0,
    **options: Unpack[Options],
) -> Communicator:
    """Joins a run and returns this process's Communicator.

    Blocks until the members admit this peer; founders do not wait. If the coordinator does not answer, retries until
    the timeout.

    coordinator: the run token "lks1_..." that `lockstep coordinator` prints: then all streams have TLS 1.3. Or
        "host:port": with `certificates`; or without TLS, so on this machine only, unless `insecure`. Or "file:PATH" or
        "env:NAME", where one of these is written.
    timeout: seconds; None for no limit. Give more where members admit newcomers rarely.
    wait: False: returns at once; InvalidArgument still comes from here. The strategies of lockstep.torch then wait in
        their `with` block, and hold the state of the run meanwhile, so that it is not lost with the last member.
    state, tag: while this peer waits, it holds what members publish under the tag, as prefetch(hold=True) does: its
        first sync of this state goes on from there if all members were lost. Needs wait.
    options: see lockstep.Options, for example founders=2, minimum_world=2, auto_admit=True.
    Raises InvalidArgument, Unreachable, Refused, ProtocolError, TimedOut; with a state Mismatch.

    Example:
        >>> with lockstep.connect("env:LOCKSTEP_COORDINATOR", founders=2) as run:
        ...     run.all_reduce(gradient, op="avg")
    """
    if state is not None and not wait:
        raise InvalidArgument(
            "a state, and wait=False; allowed: wait=True, or prefetch(state, hold=True) by the caller"
        )
    communicator = Communicator(**options)
    try:
        if wait:
            communicator.connect(coordinator, timeout=timeout, state=state, tag=tag)
        else:
            joins = communicator.connect_async(coordinator, timeout=timeout)
            if joins.done():  # it names no coordinator
                joins.wait()
            communicator._joins = joins
    except BaseException:
        communicator.close()
        raise
    return communicator


class _Refusals:
    """Tells the other members if the arguments of a collective are refused inside of the `with` block.

    native: the native part of the communicator.
    operation, tag: of the call.
    """

    __slots__ = ("_native", "_operation", "_tag")

    def __init__(self, native: _lockstep.Communicator, operation: str, tag: int) -> None:
        self._native = native
        self._operation = operation
        self._tag = tag

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            self._native.refuse(self._operation, self._tag, str(error))


class _Torn:
    """Notes in a state that a call has ended while it wrote to the arrays: they hold no state then."""

    __slots__ = ("_state",)

    def __init__(self, state: State) -> None:
        self._state = state

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Error) and error.result is not None:
            self._state._note(error.result.state_undefined)


class _Gone:
    """Replaces the native part of a communicator that was garbage-collected."""

    def __getattr__(self, name: str) -> Any:
        raise NotConnected("the communicator was collected as garbage")


_GONE = _Gone()


class Communicator:
    """This process's place in a run, created by lockstep.connect(). A process may have several.

    Every method may be called from any thread. A method that waits releases the GIL, and Ctrl-C ends the wait. As a
    context manager, the communicator leaves the run at the end, also after an exception; the other peers continue
    without an error.

    When the main thread ends, every communicator is closed, so that no wait keeps the process alive: join() the threads
    that use a communicator before that.

    Calls with `_async` return a Work at once. Arrays are lent from the call to its end: do not use them meanwhile. If a
    call raises, nothing was reduced, and its input is unchanged. A collective whose arguments are refused (TypeError,
    ValueError) raises at once, counts as a call with its tag, and raises on every other member with the name of this
    peer and the reason: nobody waits for it.

    Arguments of several calls:
        tag: the call's name, 0 to 2**64-1. The n-th call with a tag meets the n-th call with that tag on every other
            member, so many calls may be in flight at once, in any order.
        timeout: seconds after which the call ends for every peer (TimedOut); None for no limit. Default: 30 minutes.
        minimum_world: with fewer contributors the call raises BelowMinimum; 0 for the communicator's.

    options: see lockstep.Options.
    Raises InvalidArgument, Unreachable (unknown host), OutOfMemory.

    Example:
        >>> run = lockstep.Communicator(founders=2)
        >>> run.connect("env:LOCKSTEP_COORDINATOR", timeout=60)
    """

    _native: _lockstep.Communicator
    _connecting: weakref.ref[Work] | None = None
    """What connect_async() has returned, as long as the program holds it: held here, it would keep callbacks alive."""
    _joins: Work | None = None
    """What connect(wait=False) has begun: no program holds it."""

    def __init__(self, **options: Unpack[Options]) -> None:
        place = context.place
        native, sinks = _native_options(options, in_swarm=place is not None)
        self._native = _lockstep.Communicator(native) if place is None else place.open(native)
        self._sinks = sinks  # until no line follows

    def __del__(self, gone: Any = _GONE) -> None:
        """Pending lines are still delivered, and so are the lines for the end of calls in flight."""
        for sink in getattr(self, "_sinks", ()):
            sink.keep()
        self._native = gone  # a function that takes lines may hold this communicator, but not its native part

    # ---- being part of a run ----

    def connect(
        self,
        coordinator: str,
        *,
        timeout: float | None = CONNECT_TIMEOUT,
        state: State | None = None,
        tag: int = 0,
    ) -> None:
        """Joins a run; see lockstep.connect(). Once per communicator."""
        if state is None:
            self._native.connect(coordinator, timeout)
            return
        joining = self.connect_async(coordinator, timeout=timeout)
        try:
            self.prefetch(state, hold=True, tag=tag)
        except Error:
            if joining.done():
                joining.wait()  # raises what has ended both
            raise
        joining.wait()

    def connect_async(self, coordinator: str, *, timeout: float | None = CONNECT_TIMEOUT) -> Work:
        """Begins to join a run, so that prefetch() can fetch the state meanwhile."""
        work = self._native.connect_async(coordinator, timeout)
        self._connecting = weakref.ref(work)
        return work

    @property
    def joining(self) -> Work | None:
        """The call of connect_async() that the program holds."""
        return None if self._connecting is None else self._connecting()

    def admit(self, *, timeout: float | None = COLLECTIVE_TIMEOUT) -> Result:
        """Admits waiting peers. All members call it at the same place of their program.

        The result names the `newcomers`, and has the sizes of the new view, which are equal on every member. Costs
        two round trips to the coordinator. timeout: seconds; ends the call on this peer only.
        Raises TimedOut, NotConnected, Evicted.
        """
        return self._native.admit(timeout)

    def admit_async(self, *, timeout: float | None = COLLECTIVE_TIMEOUT) -> Work:
        """Begins admit()."""
        return self._native.admit_async(timeout)

    def wait_for_world(self, members: int, *, timeout: float | None = COLLECTIVE_TIMEOUT) -> Result:
        """admit() that waits until the run has at least `members` members, in all groups together (1 to 1024)."""
        return self._native.wait_for_world(members, timeout)

    def wait_for_world_async(self, members: int, *, timeout: float | None = COLLECTIVE_TIMEOUT) -> Work:
        """Begins wait_for_world()."""
        return self._native.wait_for_world_async(members, timeout)

    def leave(self, *, timeout: float | None = COLLECTIVE_TIMEOUT) -> None:
        """Leaves the run: waits for the calls of this peer; the other peers continue without an error."""
        self._native.leave(timeout)

    def leave_async(self, *, timeout: float | None = COLLECTIVE_TIMEOUT) -> Work:
        """Begins leave()."""
        return self._native.leave_async(timeout)

    def abort_all(self, why: str = "no reason given") -> None:
        """Aborts all calls in flight, also blocking ones of other threads. Does not wait. why: reason for all peers."""
        self._native.abort_all(why)

    def close(self) -> None:
        """Ends every call in flight and closes every stream; to other peers this peer is lost. Call leave() first.

        Calls in flight end with OutcomeUnknown or NotConnected, also blocking calls of other threads. A second call
        does nothing.
        """
        for sink in self._sinks:
            sink.keep()
        self._sinks = []
        self._native.close()

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_ending = error is not None and not isinstance(error, Exception)
        try:
            self.leave(timeout=_LEAVE_AT_ONCE if is_ending else _LEAVE_WITHIN)
        except (NotConnected, Evicted):
            pass  # the run is over for this peer already, and a call has said so
        except Error:
            if error is None:
                raise
        finally:
            self.close()

    def spend(self, seconds: float) -> None:
        """Lets virtual time pass in a simulated swarm, as if the program computed; otherwise does nothing."""
        if context.place is not None:
            context.place.spend(seconds)

    @property
    def now(self) -> float:
        """Seconds of a monotonic clock: time.monotonic(), or virtual time in a simulated swarm."""
        return time.monotonic() if context.place is None else context.place.now()

    # ---- the world ----

    @property
    def id(self) -> PeerId:
        """This peer's id."""
        peer: PeerId = self._native.id()
        return peer

    @property
    def world(self) -> World:
        """The newest view. Local; never blocks. Raises NotConnected before this peer has joined."""
        return World(*self._native.world())

    @property
    def world_size(self) -> int:
        """Members of this peer's group in the newest view."""
        return self.world.world_size

    @property
    def rank(self) -> int:
        """This peer's place in its group in the newest view, from 0."""
        return self.world.rank

    @property
    def pending(self) -> int:
        """Number of peers that wait for admission. Local and free."""
        return self._native.pending()

    def agree_pending(self, *, timeout: float | None = COLLECTIVE_TIMEOUT) -> int:
        """The largest number of waiting peers that a member of this group knows of: equal on all members.

        So all of them call admit(), or none does. A collective: all members call it.

        Raises the errors of all_reduce.
        """
        return self._native.agree_pending(array("I", [0]), timeout)

    @property
    def fetching(self) -> int:
        """Number of waiting peers in prefetch() without a state: members that publish admit when it is 0. Free."""
        return self._native.fetching()

    @property
    def holding(self) -> int:
        """Number of waiting peers that hold a published state, see prefetch(hold=True). Local and free."""
        return self._native.holding()

    @property
    def stage(self) -> Stage:
        """How far this peer is on its way into the run and out of it, such as `Stage.WAITING`. Some microseconds.

        While connect() runs, it tells whether the coordinator is not reached yet, or the members have not admitted.
        """
        try:
            return _STAGES[self._native.stage()]
        except NotConnected:  # closed
            return Stage.OVER

    def groups(self) -> dict[int, int]:
        """Members of each group in the newest view, by group, ascending."""
        return self._native.group_sizes()

    def members(self, group: int | None = None) -> list[PeerId]:
        """The members of a group (default: this peer's) in the newest view, in rank order."""
        return self._native.member_ids(self.world.group if group is None else group)

    def flight_record(self, path: Path) -> None:
        """Writes the contents of the flight recorder, for `lockstep sim replay`. Needs flight_kib or flight_folder."""
        self._native.flight_record(path_of(path, "path"))

    # ---- collectives ----

    def refuse(self, operation: str, why: object, *, tag: int = 0) -> None:
        """Takes the place of a collective that this program cannot call, as it has found out itself.

        Counts as a call with the tag, and ends the round for the other members: they raise InvalidArgument with the
        name of this peer. Does not wait. The methods of collectives do this for arguments that they refuse.

        operation: the name of the call for their texts, such as "all_reduce".
        why: the reason, a text or an exception.
        """
        self._native.refuse(operation, tag, str(why))

    def all_reduce(
        self,
        array: Arrays,
        out: Arrays | None = None,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
        retry: bool = True,
        up: WireFormat | WireFormatName = "native",
        down: WireFormat | WireFormatName = "native",
        weight: float | None = None,
        algorithm: Algorithm | AlgorithmName = "auto",
        residual: Arrays | None = None,
    ) -> Result:
        """Folds the elements of all members' arrays; every member gets the whole result, equal down to the last bit.

        array: one array of any shape, or a list of arrays of one dtype for one call. A list of small arrays (16 KiB
            each) costs little more than one array of their size.
        out: arrays for the result; None for in place. In place needs memory for a copy of the input: for arrays of
            gigabytes, `out=` other arrays (which may be the ones of the call before) saves that copy, and its time.
        op: "sum", "avg", "prod", "min", "max", "band", "bor" or "bxor".
        retry: when a member is lost, continue among the survivors; False: raise PeerLost. Equal on all peers.
        up, down: wire formats of float32 contributions and of the result (lockstep.WireFormat), for sum and avg. Equal
            on all peers.
        weight: float32 avg and sum: this contribution counts `weight` times; with 0 the peer takes part without
            counting. avg divides by the sum of the weights; sum does not (a premultiplied sum). All peers give a
            weight, or none does.
        algorithm: "auto", "ring", "direct" or "grid" (lockstep.Algorithm). Equal on all peers.
        residual: error feedback of a direct call: arrays like `array`, zeros at first, kept from call to call.
        Each peer sends 2(n-1)/n of the bytes; a wire format reduces them by its ratio.
        Raises Mismatch, BelowMinimum, PeerLost (retry=False), Aborted, TimedOut, CohortClosed, OutcomeUnknown, Evicted,
        NotConnected.

        Example:
            >>> result = run.all_reduce([layer.grad for layer in layers], op="avg", up="bf16", down="bf16")
        """
        try:
            options = _all_reduce_options(op, tag, timeout, minimum_world, retry, up, down, weight, algorithm)
            on_device = _cuda.is_on_device(array)
        except Exception as error:
            self._native.refuse("all_reduce", tag, str(error))
            raise
        if on_device:
            return _cuda.all_reduce(self._native, array, out, residual, options)
        return self._native.all_reduce(array, out, residual, options)

    def all_reduce_async(
        self,
        array: Arrays,
        out: Arrays | None = None,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
        retry: bool = True,
        up: WireFormat | WireFormatName = "native",
        down: WireFormat | WireFormatName = "native",
        weight: float | None = None,
        algorithm: Algorithm | AlgorithmName = "auto",
        residual: Arrays | None = None,
    ) -> Work:
        """Begins all_reduce()."""
        try:
            options = _all_reduce_options(op, tag, timeout, minimum_world, retry, up, down, weight, algorithm)
        except Exception as error:
            self._native.refuse("all_reduce", tag, str(error))
            raise
        return self._native.all_reduce_async(array, out, residual, options)

    def all_reduce_with(
        self, *, op: Op | OpName, timeout: float | None, minimum_world: int, retry: bool
    ) -> Callable[[Array], Result]:
        """all_reduce() of one array in memory of the CPU, in place, for many equal calls.

        op, timeout, minimum_world, retry: those of all_reduce(), read once.
        """
        options = _all_reduce_options(op, 0, timeout, minimum_world, retry, "native", "native", None, "auto")
        native = self._native
        return lambda array: native.all_reduce(array, None, None, options)

    def reduce(
        self,
        array: Arrays,
        root: PeerId,
        out: Arrays | None = None,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Result:
        """Folds the elements of all members' arrays; the root gets the result, the others get nothing.

        array: one array, or a list of arrays of one dtype, which are only read. Equal counts on all peers.
        root: a peer id, not a rank, because ranks change; for example `run.members()[0]`.
        out: on the root, arrays like `array` that do not overlap it; None to create them (torch for torch, else numpy).
            Ignored on the other members.
        Returns result.output: `out` on the root, None elsewhere.
        Each member but the root sends the bytes of `array` once.
        Raises the errors of all_reduce, PeerLost, WorldChanged.
        """
        with _Refusals(self._native, "reduce", tag):
            out = _result_of_reduce(array, out) if _is_root(root, self.id) else None
            options = (number_of(OPS, op, "op"), tag, timeout, minimum_world)
        result = self._native.reduce(array, out, root, options)
        result.output = out
        return result

    def reduce_async(
        self,
        array: Arrays,
        root: PeerId,
        out: Arrays | None = None,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Work:
        """Begins reduce()."""
        with _Refusals(self._native, "reduce", tag):
            out = _result_of_reduce(array, out) if _is_root(root, self.id) else None
            options = (number_of(OPS, op, "op"), tag, timeout, minimum_world)
        work = self._native.reduce_async(array, out, root, options)
        work._on_end = _setter(out)
        return work

    def reduce_scatter(
        self,
        array: Array,
        out: Array | None = None,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Result:
        """Folds the elements of all members' arrays; rank r of n gets the r-th of n chunks of the flat result.

        out: room for count/n elements, rounded up; None to create an array (torch for torch, else numpy). Must not
            overlap `array`.
        Returns result.output, the chunk inside `out`, and result.chunk, its place in the flat input, as a slice.
        Raises the errors of all_reduce, PeerLost, WorldChanged, BufferTooSmall.
        """
        with _Refusals(self._native, "reduce_scatter", tag):
            if out is None:
                count, dtype = _lockstep.describe(array)
                out = _room(array, -(-count // max(1, self.world_size)), dtype)
            options = (number_of(OPS, op, "op"), tag, timeout, minimum_world)
        result = self._native.reduce_scatter(array, out, options)
        result.output = _first(out, result.chunk.stop - result.chunk.start)
        return result

    def reduce_scatter_async(
        self,
        array: Array,
        out: Array,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Work:
        """Begins reduce_scatter()."""
        with _Refusals(self._native, "reduce_scatter", tag):
            options = (number_of(OPS, op, "op"), tag, timeout, minimum_world)
        work = self._native.reduce_scatter_async(array, out, options)
        work._on_end = _outputter(out)
        return work

    def all_gather(
        self,
        array: Array,
        out: Array | None = None,
        *,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Result:
        """Gives every member the elements of all members' arrays, in rank order, without gaps.

        Arrays may differ in size between peers; result.blocks has the sizes.
        out: room for all elements; None to create an array (torch for torch, else numpy), if the arrays of all peers
            have the same size.
        Returns result.output, the received elements inside `out`.
        Raises the errors of all_reduce, PeerLost, WorldChanged, BufferTooSmall.
        """
        with _Refusals(self._native, "all_gather", tag):
            out = self._room_for_all(array, out)
        result = self._native.all_gather(array, out, (tag, timeout, minimum_world))
        result.output = _first(out, sum(result.blocks))
        return result

    def all_gather_async(
        self,
        array: Array,
        out: Array,
        *,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Work:
        """Begins all_gather()."""
        work = self._native.all_gather_async(array, out, (tag, timeout, minimum_world))
        work._on_end = _outputter(out)
        return work

    def gather(
        self,
        array: Array,
        root: PeerId,
        out: Array | None = None,
        *,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Result:
        """Gives the root the elements of all members' arrays, in rank order, without gaps.

        array: this member's elements, which are only read. Arrays may differ in size between peers; on the root
            result.blocks has the sizes.
        root: a peer id, not a rank, because ranks change; for example `run.members()[0]`.
        out: on the root, room for all elements that does not overlap `array`; None to create an array (torch for torch,
            else numpy), if the arrays of all peers have the same size. Ignored on the other members.
        Returns result.output: the received elements inside `out` on the root, None elsewhere.
        Each member but the root sends its array straight to the root.
        Raises the errors of all_reduce, PeerLost, WorldChanged, BufferTooSmall (on all members).
        """
        with _Refusals(self._native, "gather", tag):
            out = self._room_for_all(array, out) if _is_root(root, self.id) else None
        result = self._native.gather(array, out, root, (tag, timeout, minimum_world))
        result.output = None if out is None else _first(out, sum(result.blocks))
        return result

    def gather_async(
        self,
        array: Array,
        root: PeerId,
        out: Array | None = None,
        *,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Work:
        """Begins gather()."""
        with _Refusals(self._native, "gather", tag):
            out = self._room_for_all(array, out) if _is_root(root, self.id) else None
        work = self._native.gather_async(array, out, root, (tag, timeout, minimum_world))
        work._on_end = _setter(None) if out is None else _outputter(out)
        return work

    def _room_for_all(self, array: Array, out: Array | None) -> Any:
        """`out`, or an array for the elements of all members if each has as many as `array`."""
        if out is not None:
            return out
        count, dtype = _lockstep.describe(array)
        return _room(array, count * max(1, self.world_size), dtype)

    def scatter(
        self,
        array: Array | None,
        root: PeerId,
        out: Array | None = None,
        *,
        counts: Sequence[int] | None = None,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Result:
        """Cuts the root's array into one part for each member, in rank order, and gives each member its part.

        array: on the root, all parts, one after the other; only read. Ignored on the other members: pass None.
        root: a peer id, not a rank, because ranks change; for example `run.members()[0]`.
        out: room for this member's part that does not overlap `array`; on the root None creates an array (torch for
            torch, else numpy). The other members do not know the part's size and dtype, and must give `out`.
        counts: on the root, the elements of each member's part, in the order of `run.members()`; they add up to the
            size of `array`. None: equal parts. Ignored on the other members.
        Returns result.output, the received elements inside `out`.
        The root sends each part straight to its member.
        Raises the errors of all_reduce, PeerLost, WorldChanged, BufferTooSmall (on all members); InvalidArgument if
        `array` has no equal parts or a receiver has left.
        """
        with _Refusals(self._native, "scatter", tag):
            array, out, parts = self._parts_of_scatter(array, root, out, counts)
        result = self._native.scatter(array, out, root, parts, (tag, timeout, minimum_world))
        result.output = _first(out, sum(result.blocks))
        return result

    def scatter_async(
        self,
        array: Array | None,
        root: PeerId,
        out: Array | None = None,
        *,
        counts: Sequence[int] | None = None,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Work:
        """Begins scatter()."""
        with _Refusals(self._native, "scatter", tag):
            array, out, parts = self._parts_of_scatter(array, root, out, counts)
        work = self._native.scatter_async(array, out, root, parts, (tag, timeout, minimum_world))
        work._on_end = _outputter(out)
        return work

    def _parts_of_scatter(
        self, array: Array | None, root: PeerId, out: Array | None, counts: Sequence[int] | None
    ) -> tuple[Array | None, Any, list[tuple[PeerId, int]]]:
        if not _is_root(root, self.id):
            if out is None:
                raise InvalidArgument("out is None, and this member is not the root: give room for its part")
            return None, out, []
        if array is None:
            raise InvalidArgument("array is None, and this member is the root: give the parts of all members")
        size, dtype = _lockstep.describe(array)
        parts = self._parts(size, counts)
        if out is None:
            out = _room(array, dict(parts).get(self.id, 0), dtype)
        return array, out, parts

    def all_to_all(
        self,
        array: Array,
        out: Array | None = None,
        *,
        counts: Sequence[int] | None = None,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Result:
        """Gives every member the parts that all members have for it, in rank order, without gaps.

        array: this member's parts, one for each member, one after the other; only read.
        out: room for all parts that are for this member, which does not overlap `array`; None to create an array of the
            size of `array` (torch for torch, else numpy), which fits if all parts of all members have one size.
        counts: the elements of each part, in the order of `run.members()`; they add up to the size of `array`. None:
            equal parts.
        Returns result.output, the received elements inside `out`; result.blocks has the size of each rank's part.
        Each member sends each part straight to its receiver.
        Raises the errors of all_reduce, PeerLost, WorldChanged, BufferTooSmall (on all members); InvalidArgument if
        `array` has no equal parts or a receiver has left.
        """
        with _Refusals(self._native, "all_to_all", tag):
            out, parts = self._parts_of_all_to_all(array, out, counts)
        result = self._native.all_to_all(array, out, parts, (tag, timeout, minimum_world))
        result.output = _first(out, sum(result.blocks))
        return result

    def all_to_all_async(
        self,
        array: Array,
        out: Array | None = None,
        *,
        counts: Sequence[int] | None = None,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Work:
        """Begins all_to_all()."""
        with _Refusals(self._native, "all_to_all", tag):
            out, parts = self._parts_of_all_to_all(array, out, counts)
        work = self._native.all_to_all_async(array, out, parts, (tag, timeout, minimum_world))
        work._on_end = _outputter(out)
        return work

    def _parts_of_all_to_all(
        self, array: Array, out: Array | None, counts: Sequence[int] | None
    ) -> tuple[Any, list[tuple[PeerId, int]]]:
        size, dtype = _lockstep.describe(array)
        parts = self._parts(size, counts)
        return _room(array, size, dtype) if out is None else out, parts

    def _parts(self, size: int, counts: Sequence[int] | None) -> list[tuple[PeerId, int]]:
        """Each member with the number of elements that are for it."""
        members = self.members()
        if counts is None:
            if not members or size % len(members) != 0:
                raise InvalidArgument(
                    f"array has {size} elements, which are no equal parts for {len(members)} members: give counts"
                )
            return [(member, size // len(members)) for member in members]
        sizes = _sizes_of(counts)
        if len(sizes) != len(members):
            raise InvalidArgument(f"counts has {len(sizes)} entries for {len(members)} members: give one for each")
        if min(sizes) < 0 or sum(sizes) != size:
            raise InvalidArgument(
                f"counts {sizes} add up to {sum(sizes)}, array has {size} elements: they must be equal, and no count "
                "is negative"
            )
        return list(zip(members, sizes))

    def broadcast(
        self,
        array: Arrays,
        root: PeerId,
        *,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Result:
        """Gives every member the root's elements, in place.

        root: a peer id, not a rank, because ranks change; for example `run.members()[0]` or `result.contributors[0]`.
        Raises the errors of all_reduce, PeerLost, WorldChanged; after an error the arrays are unspecified, except on
        the root.
        """
        with _Refusals(self._native, "broadcast", tag):
            is_root = _is_root(root, self.id)
        return self._native.broadcast(array, root, is_root, (tag, timeout, minimum_world))

    def broadcast_async(
        self,
        array: Arrays,
        root: PeerId,
        *,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Work:
        """Begins broadcast()."""
        with _Refusals(self._native, "broadcast", tag):
            is_root = _is_root(root, self.id)
        return self._native.broadcast_async(array, root, is_root, (tag, timeout, minimum_world))

    def send(self, array: Array, to: PeerId, *, tag: int = 0, timeout: float | None = COLLECTIVE_TIMEOUT) -> Result:
        """Sends an array to one member. Ends when that member's process has all bytes.

        A recv() of the member with the same tag takes the array: the first that was sent with that tag, and not taken
        yet. Arrays of at most 16 KiB need not wait for it: the receiver keeps 64 from each member. Neither other
        members nor the coordinator take part, and the loss of a third member ends no transfer.

        array: the elements; only read.
        to: the id of a member of the run, for example `run.members()[0]`; not this peer itself.
        tag: 0 to 2**64-1; tags of transfers and of collectives are independent.
        timeout: seconds after which the call ends (TimedOut); None for no limit.
        Returns a Result with `partner` (the receiver) and `count`.
        Raises InvalidArgument, Mismatch (dtype or number of elements differ from those of recv()), PeerLost (the
        receiver is lost, or has left), TimedOut, Aborted, NotConnected.
        """
        return self._native.send(array, to, (tag, timeout))

    def send_async(self, array: Array, to: PeerId, *, tag: int = 0, timeout: float | None = COLLECTIVE_TIMEOUT) -> Work:
        """Begins send()."""
        return self._native.send_async(array, to, (tag, timeout))

    def recv(
        self, array: Array, source: PeerId | None = None, *, tag: int = 0, timeout: float | None = COLLECTIVE_TIMEOUT
    ) -> Result:
        """Receives an array that one member has sent to this peer with send().

        array: room for the elements, with the dtype and the number of elements that are sent; unspecified after an
            error.
        source: the id of the sender; None for any member: the first whose array with this tag is announced.
        tag, timeout: see send().
        Returns a Result with `partner` (the sender) and `count`; result.output is `array`.
        Raises the errors of send(); PeerLost if the source is lost, or leaves before it has sent anything.
        """
        result = self._native.recv(array, source, (tag, timeout))
        result.output = array
        return result

    def recv_async(
        self, array: Array, source: PeerId | None = None, *, tag: int = 0, timeout: float | None = COLLECTIVE_TIMEOUT
    ) -> Work:
        """Begins recv()."""
        work = self._native.recv_async(array, source, (tag, timeout))
        work._on_end = _setter(array)
        return work

    def plain_transfers(self) -> tuple[Callable[..., Work | None], Callable[..., Work | None]]:
        """Functions that begin a send and a recv of a torch group at the least cost; None: the call is not plain.

        Both take (tensors, members, rank, (tag, timeout)). A plain call has one tensor: contiguous, in memory of the
        CPU, of a dtype of Lockstep. The tensor must keep its memory until the call is over.
        """
        return self._native.send_plain, self._native.recv_plain

    def barrier(
        self, *, tag: int = 0, timeout: float | None = COLLECTIVE_TIMEOUT, minimum_world: int = 0, retry: bool = True
    ) -> Result:
        """Ends when every member has called it."""
        return self._native.barrier((tag, timeout, minimum_world, retry))

    def barrier_async(
        self, *, tag: int = 0, timeout: float | None = COLLECTIVE_TIMEOUT, minimum_world: int = 0, retry: bool = True
    ) -> Work:
        """Begins barrier()."""
        return self._native.barrier_async((tag, timeout, minimum_world, retry))

    # ---- shared state ----

    def sync(
        self,
        state: State,
        *,
        strategy: SyncStrategy | SyncStrategyName = "popular",
        staged: bool = False,
        blank: bool = False,
        restored: bool = False,
        unchanged: Iterable[str] = (),
        strict: bool | None = None,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Result:
        """Makes the states of all members equal, bit for bit, and sets state.revision and state.lineage.

        Members of the last agreed revision vote; newcomers only receive. The highest revision wins, and among its
        states the most popular one. A peer that differs fetches only the pieces of 1 MiB that differ. If all states are
        equal, a sync costs one round trip to the coordinator.

        A member of the last agreed revision that brings another state of the winning revision, or a lower revision, has
        a bug or a broken memory: result.state_difference, and a warning in the log of every member, name it and the
        first array in which it differed. A newcomer that takes the state over is not named.

        A newcomer whose revision is higher than the run's is not overwritten: its sync raises StateConflict, and the
        members go on without it.

        strategy: "popular" votes; "send-only" is never overwritten; "receive-only" never votes; "newest" is "popular",
            and also a newcomer wins if its revision is higher than that of every member.
        staged: pieces land beside the state, so that a sync that raises leaves the state unchanged.
        blank: the arrays hold no state yet, and the whole state is fetched.
        restored: after result.state_undefined: the arrays hold a whole state again. Without it, the state remembers
            that it is none, also in later runs, until a sync succeeds.
        unchanged: names of arrays that have not changed since the last sync of this tag: they are not hashed again.
        strict: True raises Desync, on all members alike, after a sync that has overwritten the state of such a member.
            None: True in a lockstep.sim.Swarm, unless it says otherwise, else False.
        Raises the errors of all_reduce, StateUndefined, StateConflict, Mismatch, Desync; error.result.state_undefined
        says whether the state is lost.
        """
        with _Refusals(self._native, "sync", tag):
            options = _state_options(state, strategy, staged, blank, restored, tag, timeout, minimum_world)
            described = state._describe(unchanged)
        with _Torn(state):
            result = self._native.sync_state(described, options, _taker(state))
        _judge_of(strict)(result)
        return result

    def sync_async(
        self,
        state: State,
        *,
        strategy: SyncStrategy | SyncStrategyName = "popular",
        staged: bool = False,
        blank: bool = False,
        restored: bool = False,
        unchanged: Iterable[str] = (),
        strict: bool | None = None,
        tag: int = 0,
        timeout: float | None = COLLECTIVE_TIMEOUT,
        minimum_world: int = 0,
    ) -> Work:
        """Begins sync(). Sets the state's ints, floats and revision when the Work is done; see work.progress."""
        with _Refusals(self._native, "sync", tag):
            options = _state_options(state, strategy, staged, blank, restored, tag, timeout, minimum_world)
            described = state._describe(unchanged)
        work = self._native.sync_state_async(described, options)
        work._on_end = _taker(state)
        work._judge = _judge_of(strict)
        return work

    def publish(self, state: State, *, stable: bool = False, tag: int = 0, timeout: float | None = None) -> None:
        """Serves this state from now on to peers that wait for admission. Copies the state and returns.

        stable: makes no copy; the arrays must not change until unpublish().
        timeout: seconds after which the publication ends.
        Raises InvalidArgument, NotConnected, TooManyInFlight, OutOfMemory.
        """
        options = _state_options(state, "popular", False, False, False, tag, timeout, 0)
        options["stable"] = stable
        self._native.publish_state(state._describe(), options)

    def publish_async(self, state: State, *, stable: bool = False, tag: int = 0, timeout: float | None = None) -> Work:
        """publish() as a Work; the Work ends when it is aborted or replaced, or when this peer leaves the run."""
        options = _state_options(state, "popular", False, False, False, tag, timeout, 0)
        options["stable"] = stable
        return self._native.publish_state_async(state._describe(), options)

    def unpublish(self, tag: int = 0) -> None:
        """Ends this peer's publication of the tag, and waits until its memory is returned."""
        self._native.unpublish_state(tag)

    def prefetch(
        self, state: State, *, hold: bool = False, blank: bool = False, tag: int = 0, timeout: float | None = None
    ) -> Result:
        """Between connect_async() and the admission: fetches the newest published state, as far as time allows.

        Only a head start: call sync() before using the state. A state of an older revision than state.revision is not
        taken, unless `blank`.

        hold: goes on until the admission, and follows newer revisions, half of the time at most. The state is always
            a whole one: pieces land beside it first, in as much memory again. If all members are lost, the newcomers
            found the run anew, and its state goes on from the highest revision that one of them holds.
        blank: the arrays hold no state yet.
        timeout: seconds; None for no limit.
        Raises InvalidArgument, Mismatch, TimedOut, Aborted, NotConnected, OutOfMemory.
        """
        options = _state_options(state, "popular", hold, blank, False, tag, timeout, 0)
        with _Torn(state):
            return self._native.prefetch_state(state._describe(), options, _taker(state))

    def prefetch_async(
        self, state: State, *, hold: bool = False, blank: bool = False, tag: int = 0, timeout: float | None = None
    ) -> Work:
        """Begins prefetch()."""
        options = _state_options(state, "popular", hold, blank, False, tag, timeout, 0)
        work = self._native.prefetch_state_async(state._describe(), options)
        work._on_end = _taker(state)
        return work

    def watch(self, state: State | None, *, unchanged: Iterable[str] = ()) -> None:
        """From now on every collective except a sync hashes this state.

        result.state_difference names the first difference between the states of members.

        Call it again when ints, floats or the revision change; None ends the watch. Reads every byte once per
        collective.
        """
        if state is None:
            self._native.watch_state(None, {})
            return
        options = _state_options(state, "popular", False, False, False, 0, None, 0)
        self._native.watch_state(state._describe(unchanged), options)

    def __repr__(self) -> str:
        try:
            world = self.world
        except Error as error:
            why = "of another process" if isinstance(error, Forked) else "not connected"
            return f"<lockstep.Communicator {self.id!r} {why}>"
        return f"<lockstep.Communicator {self.id!r} rank={world.rank} world_size={world.world_size} view={world.view}>"


def _native_options(options: Mapping[str, Any], in_swarm: bool = False) -> tuple[dict[str, Any], list[Sink]]:
    """The arguments of the native part, and the receivers of its lines."""
    known = Options.__annotations__
    for name in options:
        if name not in known:
            guess = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {guess[0]!r}?" if guess else f" (one of: {', '.join(known)})"
            raise TypeError(f"unknown option {name!r}{hint}")
    native = dict(options)
    ports = native.pop("ports", None)
    if ports is not None:
        allowed = "1 to 65535, or the first and the last of a range, such as (4000, 4100)"
        pair = ports if isinstance(ports, (tuple, list)) else (ports, ports)
        if not all(isinstance(port, int) for port in pair):
            raise TypeError(f"ports is {shown(ports)}; allowed: {allowed}")
        first, last = pair if len(pair) == 2 else (0, 0)
        if not 0 < first <= last < 1 << 16:
            raise InvalidArgument(f"ports is {shown(ports)}; allowed: {allowed}")
        native["first_port"], native["last_port"] = first, last
    native.update(native_certificates(native.pop("certificates", None)))
    for path in ("flight_folder",):
        if native.get(path) is not None:
            native[path] = path_of(native[path], path)
    sinks: list[Sink] = []
    logger = native.pop("logger", None)
    if logger is not None or not in_swarm:  # a thousand simulated peers say too much
        sinks.append(log_sink(logging.getLogger("lockstep") if logger is None else logger))
        native["log"] = sinks[-1].number
    journal = native.get("journal")
    if callable(journal):
        sinks.append(Sink(journal))
        native["journal"] = sinks[-1].number
    elif journal is not None:
        native["journal"] = path_of(journal, "journal")  # the native part writes the file
    return native, sinks


def _is_root(root: PeerId, own: PeerId) -> bool:
    if not isinstance(root, bytes):
        raise InvalidArgument(f"root is {shown(root)}; allowed: a lockstep.PeerId, for example run.members()[0]")
    if len(root) != len(own):
        raise InvalidArgument(
            f"root is {shown(root)} of {len(root)} bytes; allowed: a lockstep.PeerId, of {len(own)} bytes"
        )
    return root == own


def _all_reduce_options(
    op: Op | OpName,
    tag: int,
    timeout: float | None,
    minimum_world: int,
    retry: bool,
    up: WireFormat | WireFormatName,
    down: WireFormat | WireFormatName,
    weight: float | None,
    algorithm: Algorithm | AlgorithmName,
) -> AllReduceOptions:
    return AllReduceOptions(
        number_of(OPS, op, "op"),
        tag,
        timeout,
        minimum_world,
        retry,
        number_of(WIRE_FORMATS, up, "up"),
        number_of(WIRE_FORMATS, down, "down"),
        weight,
        number_of(ALGORITHMS, algorithm, "algorithm"),
    )


def _state_options(
    state: State,
    strategy: SyncStrategy | SyncStrategyName,
    staged: bool,
    blank: bool,
    restored: bool,
    tag: int,
    timeout: float | None,
    minimum_world: int,
) -> dict[str, Any]:
    if not isinstance(state, State):
        raise TypeError(
            f"state is a {type(state).__name__}; allowed: a lockstep.State, such as "
            "lockstep.State({'weights': array, 'step': 0})"
        )
    if restored is True:
        state._note(False)
    return {
        "revision": _counter(state.revision, "revision"),
        "lineage": _counter(state.lineage, "lineage"),
        "strategy": number_of(STRATEGIES, strategy, "strategy"),
        "staged": staged,
        "blank": True if state._is_undefined else blank,  # the native part checks the types
        "restored": restored,
        "tag": tag,
        "timeout": timeout,
        "minimum_world": minimum_world,
    }


def _counter(value: object, name: str) -> object:
    if value is None:
        raise TypeError(f"state.{name} is None; allowed: an int")
    return value


def _taker(state: State) -> Callable[[Result, list[int | float]], None]:
    def take(result: Result, values: list[int | float]) -> None:
        state._note(result.state_undefined)
        if result.status == 0:
            state._take(values, result.revision, result.lineage)

    return take


def _judge_of(strict: bool | None) -> Callable[[Result], None]:
    """Raises Desync for a sync that has repaired a state. strict: of the call; None: as its place says."""
    place = context.place
    of_swarm = strict is None and place is not None and place.strict

    def judge(result: Result) -> None:
        text = result.state_difference
        if not text or not (strict or of_swarm):
            return
        if of_swarm and place is not None:
            place.note_repair(text)
        error = Desync(text)
        error.result = result
        raise error

    return judge


def _outputter(out: Array) -> Callable[[Result, None], None]:
    def cut(result: Result, _: None) -> None:
        if result.status == 0:
            result.output = _first(out, sum(result.blocks) or result.chunk.stop - result.chunk.start)

    return cut


def _setter(out: Arrays | None) -> Callable[[Result, None], None]:
    def give(result: Result, _: None) -> None:
        if result.status == 0:
            result.output = out

    return give


def _sizes_of(counts: Sequence[int]) -> list[int]:
    try:
        return [operator.index(count) for count in counts]
    except Exception:
        raise InvalidArgument(f"counts is {shown(counts)}; allowed: a list of ints, one for each member") from None


def _result_of_reduce(array: Arrays, out: Arrays | None) -> Any:
    """What the root of a reduce writes to: `out`, or new arrays like `array`."""
    if out is not None:
        return out
    if isinstance(array, (list, tuple)):
        return [_like(one) for one in array]
    return _like(array)


def _like(array: Any) -> Any:
    """A new array of the same shape and dtype."""
    count, dtype = _lockstep.describe(array)
    room = _room(array, count, dtype)
    return room.reshape(array.shape) if hasattr(array, "shape") else room


def _first(out: Array, count: int) -> Any:
    """The first elements of an array, flat, sharing its memory."""
    if hasattr(out, "reshape"):
        return out.reshape(-1)[:count]
    try:
        view = memoryview(out)
    except TypeError:
        return out  # its owner knows how to cut it
    if view.nbytes == 0:
        return view
    return view.cast("B").cast(view.format.lstrip("@=<>"))[:count]  # type: ignore[call-overload]


def _room(array: Array, count: int, dtype: str) -> Any:
    """A flat array like `array` for `count` elements."""
    if hasattr(array, "new_empty"):  # torch
        return array.new_empty(count)
    import numpy

    try:
        return numpy.empty(count, getattr(array, "dtype", dtype))
    except TypeError as error:
        raise ArrayError(
            f"out: numpy makes no array of dtype {dtype}; pass one with room for {count} elements"
        ) from error


# When the main thread ends: calls in flight end, also those that other threads wait for, threads of the library are
# joined, and nothing calls into an interpreter that has gone. Before Python waits for its threads, as in
# concurrent.futures.
getattr(threading, "_register_atexit", atexit.register)(_lockstep.begin_exit)
