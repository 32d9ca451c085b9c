"""This process's place in a run."""

from __future__ import annotations

import atexit
import difflib
import logging
import os
import threading
import time
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
from ._context import context
from ._lines import Sink, log_sink
from ._lockstep import Result, Work
from .errors import ArrayError, DeviceArray, Error, Evicted, Forked, InvalidArgument, NotConnected
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
    Strategy,
    StrategyName,
    WireFormat,
    WireFormatName,
    World,
    number_of,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["Array", "Arrays", "Communicator", "Options", "connect"]

Array = Any
"""Anything with the buffer protocol or DLPack: numpy arrays, torch tensors, array.array, bytearray, memoryview. C-contiguous."""
Arrays = Union[Array, Sequence[Array]]
"""One array, or a list or tuple of arrays of one dtype that go as one call."""
Path = Union[str, "os.PathLike[str]"]

_LEAVE_WITHIN = 10.0  # seconds that the end of a `with` waits
_LEAVE_AT_ONCE = 1.0  # after Ctrl-C, or sys.exit()


class Options(TypedDict, total=False):
    """How a peer takes part: keyword arguments of `connect` and `Communicator`. Times are in seconds."""

    name: str | None
    """For people, in logs and in `lockstep status`; at most 64 bytes."""
    group: int
    """Peers of one group reduce with each other. Default: 0."""
    gang: int
    """Peers of one gang are admitted and lost together; a call's tag has one outcome for all of them. Default: 0, none."""
    gang_size: int
    """Peers of the gang; it is admitted once so many wait. Default: 1."""
    founders: int
    """An empty run begins once so many peers wait. Default: 1."""
    minimum_world: int
    """Of calls that state none: with fewer contributors they raise BelowMinimum. Default: 1."""
    auto_admit: bool
    """Newcomers come in between calls, without admit(). Default: False."""
    ports: int | tuple[int, int]
    """Port to listen on, or the first and last of a range. Default: any port."""
    listen_host: str
    """Address or name to listen on. Default: every address."""
    advertise_host: str
    """Where others reach this peer. Default: where the coordinator sees it."""
    advertise_port: int
    """Port that others reach it at. Default: the one it listens on."""
    stripes: int
    """Parallel streams to each neighbour, 1 to 16. Default: 2."""
    segment_bytes: int
    """Pipelined piece of an array, up to 1 MiB, equal on all peers. Default: by size."""
    dial_timeout: float
    """One attempt to open a stream. Default: 5."""
    link_heartbeat: float
    """A sign of life on an idle stream so often. Default: 0.5."""
    link_silence: float
    """A stream without a byte for so long is opened again. Default: 4."""
    link_timeout: float
    """A neighbour without a working stream for so long is reported. Default: 8."""
    abort_grace: float
    """From a time-out to OutcomeUnknown, if no verdict comes. Default: 10."""
    congestion_control: str
    """Of TCP, such as "cubic". Default: the system's."""
    logger: logging.Logger
    """Gets a record of level INFO for what happens to this peer. Default: the logger "lockstep"."""
    journal: str | os.PathLike[str] | Callable[[str], object]
    """File that gets a line of JSON for each call, its end and each view, or a function that takes the lines. For `lockstep sim audit`."""
    flight_folder: Path
    """Where the flight recorder writes when the run ends unexpectedly. Default: LOCKSTEP_FLIGHT_FOLDER, else nowhere."""
    flight_kib: int
    """Memory of the flight recorder in KiB. Default: 8192 with a folder, else none."""
    spin: float
    """A call in flight looks for news for so long before it sleeps; 0: sleeps at once. Default: 50e-6."""
    state_bytes_per_second: int
    """Limit of what this peer sends of shared states. Default: none."""


T = TypeVar("T")


def connect(coordinator: str, *, timeout: float | None = None, **options: Unpack[Options]) -> Communicator:
    """Joins the run of the coordinator at "host:port" and returns this process's Communicator.

    Blocks until the members let this peer in: at once for the founders. If the coordinator does not answer yet, tries again until
    the time-out.

    timeout: seconds; None for no limit.
    options: see lockstep.Options, for example founders=2, minimum_world=2, auto_admit=True.
    Raises InvalidArgument, Unreachable, Refused, ProtocolError, TimedOut.

    Example:
        >>> with lockstep.connect("coordinator.example:4000", founders=2) as run:
        ...     run.all_reduce(gradient, op="avg")
    """
    communicator = Communicator(**options)
    try:
        communicator.connect(coordinator, timeout=timeout)
    except BaseException:
        communicator.close()
        raise
    return communicator


class _Gone:
    """In place of the native part of a communicator that was collected."""

    def __getattr__(self, name: str) -> Any:
        raise NotConnected("the communicator was collected as garbage")


_GONE = _Gone()


class Communicator:
    """This process's place in a run: made by lockstep.connect(). A process may have several.

    Every method may be called from any thread; each that waits releases the GIL, and Ctrl-C ends it. As a context manager it leaves
    politely at the end, also on an exception: the others go on and see no error.

    When the main thread ends, every communicator is closed, so that no wait keeps the process alive: join() the threads that use one.

    Calls with `_async` return a Work at once. Arrays are lent from the call to its end: do not touch them meanwhile. A call that
    raises has reduced nothing, and its input holds the bits that it held before.

    Arguments that calls have in common:
        tag: the call's name, 0 to 2**64-1. The n-th call with a tag meets the n-th call with that tag on every other member, so any
            number may be in flight at once, in any order.
        timeout: seconds after which the call ends for every peer (TimedOut); None for no limit.
        minimum_world: with fewer contributors the call raises BelowMinimum; 0 for the communicator's.

    options: see lockstep.Options.
    Raises InvalidArgument, Unreachable (unknown host), OutOfMemory.

    Example:
        >>> run = lockstep.Communicator(founders=2)
        >>> run.connect("coordinator.example:4000", timeout=60)
    """

    _native: _lockstep.Communicator

    def __init__(self, **options: Unpack[Options]) -> None:
        place = context.place
        native, sinks = _native_options(options, in_swarm=place is not None)
        self._native = _lockstep.Communicator(native) if place is None else place.open(native)
        self._sinks = sinks  # until no line follows

    def __del__(self, gone: Any = _GONE) -> None:
        """Lines that are on their way are still taken; so are those of the end of calls in flight."""
        for sink in getattr(self, "_sinks", ()):
            sink.keep()
        self._native = gone  # a function that takes lines may hold this communicator, but not its native part

    # ---- being part of a run ----

    def connect(self, coordinator: str, *, timeout: float | None = None) -> None:
        """Joins a run; see lockstep.connect(). Once per communicator."""
        self._native.connect(coordinator, timeout)

    def connect_async(self, coordinator: str, *, timeout: float | None = None) -> Work:
        """Begins to join a run, so that prefetch() can fetch the state meanwhile."""
        return self._native.connect_async(coordinator, timeout)

    def admit(self, *, timeout: float | None = None) -> Result:
        """Lets waiting peers in. Called by all members, in the same place of their program.

        Costs about one round trip to the coordinator. timeout: seconds; it ends the call on this peer alone.
        Raises TimedOut, NotConnected, Evicted.
        """
        return self._native.admit(timeout)

    def admit_async(self, *, timeout: float | None = None) -> Work:
        """Begins admit()."""
        return self._native.admit_async(timeout)

    def wait_for_world(self, members: int, *, timeout: float | None = None) -> Result:
        """admit() that waits until the run has at least so many members, in all groups together (1 to 1024)."""
        return self._native.wait_for_world(members, timeout)

    def wait_for_world_async(self, members: int, *, timeout: float | None = None) -> Work:
        """Begins wait_for_world()."""
        return self._native.wait_for_world_async(members, timeout)

    def leave(self, *, timeout: float | None = None) -> None:
        """Leaves politely: waits for the calls of this peer; the others go on without it and see no error."""
        self._native.leave(timeout)

    def leave_async(self, *, timeout: float | None = None) -> Work:
        """Begins leave()."""
        return self._native.leave_async(timeout)

    def abort_all(self, why: str = "no reason given") -> None:
        """Aborts every call in flight, also blocking ones of other threads. Does not wait. why: for the texts of all peers."""
        self._native.abort_all(why)

    def close(self) -> None:
        """Ends every call in flight and closes every stream; the others see a lost peer. leave() first to go politely.

        Calls in flight end with OutcomeUnknown or NotConnected, also blocking ones of other threads. Again: does nothing.
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
        """Says that what the program has computed takes so long: in a simulated swarm virtual time passes; else does nothing."""
        if context.place is not None:
            context.place.spend(seconds)

    @property
    def now(self) -> float:
        """Seconds by a clock that only goes forward: time.monotonic(), or virtual time in a simulated swarm."""
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
        """How many peers wait for admission. Local and free."""
        return self._native.pending()

    @property
    def fetching(self) -> int:
        """How many of those are in prefetch(): once members publish, admit when it is 0. Local and free."""
        return self._native.fetching()

    def groups(self) -> dict[int, int]:
        """Members of each group in the newest view, by group, ascending."""
        return self._native.group_sizes()

    def members(self, group: int | None = None) -> list[PeerId]:
        """The members of a group (default: this peer's) in the newest view, in rank order."""
        return self._native.member_ids(self.world.group if group is None else group)

    def flight_record(self, path: Path) -> None:
        """Writes what the flight recorder remembers to a file, for `lockstep sim replay`. Needs flight_kib or flight_folder."""
        self._native.flight_record(path_of(path, "path"))

    # ---- collectives ----

    def all_reduce(
        self,
        array: Arrays,
        out: Arrays | None = None,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
        retry: bool = True,
        up: WireFormat | WireFormatName = "native",
        down: WireFormat | WireFormatName = "native",
        weight: float | None = None,
        algorithm: Algorithm | AlgorithmName = "auto",
        residual: Arrays | None = None,
    ) -> Result:
        """Folds the elements of all members' arrays; every member gets all of the result, equal to the last bit.

        array: one array of any shape, or a list of arrays of one dtype that go as one call.
        out: where the result goes; None for in place. In place needs memory for a copy of the input.
        op: "sum", "avg", "prod", "min" or "max".
        retry: when a member is lost, go on among the others; False: raise PeerLost. Equal on all peers.
        up, down: how float32 contributions and the result travel (lockstep.WireFormat), for sum and avg. Equal on all peers.
        weight: float32 avg: this contribution counts so many times; 0 takes part and does not count. All peers give one, or none.
        algorithm: "auto", "ring" or "direct". Equal on all peers.
        residual: error feedback of a direct call: an array like `array`, zeros at first, kept from call to call.
        Each peer sends 2(n-1)/n of the bytes, in a wire format as much less as that is smaller.
        Raises Mismatch, BelowMinimum, PeerLost (retry=False), Aborted, TimedOut, CohortClosed, OutcomeUnknown, Evicted, NotConnected.

        Example:
            >>> result = run.all_reduce([layer.grad for layer in layers], op="avg", up="bf16", down="bf16")
        """
        options = _all_reduce_options(op, tag, timeout, minimum_world, retry, up, down, weight, algorithm)
        try:
            return self._native.all_reduce(array, out, residual, options)
        except DeviceArray:
            return _cuda.all_reduce(self, array, out, residual, options)

    def all_reduce_async(
        self,
        array: Arrays,
        out: Arrays | None = None,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
        retry: bool = True,
        up: WireFormat | WireFormatName = "native",
        down: WireFormat | WireFormatName = "native",
        weight: float | None = None,
        algorithm: Algorithm | AlgorithmName = "auto",
        residual: Arrays | None = None,
    ) -> Work:
        """Begins all_reduce()."""
        options = _all_reduce_options(op, tag, timeout, minimum_world, retry, up, down, weight, algorithm)
        return self._native.all_reduce_async(array, out, residual, options)

    def reduce_scatter(
        self,
        array: Array,
        out: Array | None = None,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
    ) -> Result:
        """Folds the elements of all members' arrays; rank r of n gets the r-th of n chunks of the flat result.

        out: room for count/n elements, rounded up; None to make an array (torch for torch, else numpy). No overlap with `array`.
        Gives result.output, the chunk, which lies in `out`; result.chunk, its place in the flat input, as a slice.
        Raises those of all_reduce, PeerLost, WorldChanged, BufferTooSmall.
        """
        if out is None:
            count, dtype = _lockstep.describe(array)
            out = _room(array, -(-count // max(1, self.world_size)), dtype)
        result = self._native.reduce_scatter(array, out, (number_of(OPS, op, "op"), tag, timeout, minimum_world))
        result.output = _first(out, result.chunk.stop - result.chunk.start)
        return result

    def reduce_scatter_async(
        self,
        array: Array,
        out: Array,
        *,
        op: Op | OpName = "sum",
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
    ) -> Work:
        """Begins reduce_scatter()."""
        work = self._native.reduce_scatter_async(array, out, (number_of(OPS, op, "op"), tag, timeout, minimum_world))
        work._on_end = _outputter(out)
        return work

    def all_gather(
        self,
        array: Array,
        out: Array | None = None,
        *,
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
    ) -> Result:
        """Gives every member the elements of all members' arrays, in rank order, without gaps.

        Arrays may differ in size between peers; sizes come as result.blocks.
        out: room for all elements; None to make an array (torch for torch, else numpy), for peers whose arrays are equally large.
        Gives result.output, what was received, which lies in `out`.
        Raises those of all_reduce, PeerLost, WorldChanged, BufferTooSmall.
        """
        if out is None:
            count, dtype = _lockstep.describe(array)
            out = _room(array, count * max(1, self.world_size), dtype)
        result = self._native.all_gather(array, out, (tag, timeout, minimum_world))
        result.output = _first(out, sum(result.blocks))
        return result

    def all_gather_async(
        self,
        array: Array,
        out: Array,
        *,
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
    ) -> Work:
        """Begins all_gather()."""
        work = self._native.all_gather_async(array, out, (tag, timeout, minimum_world))
        work._on_end = _outputter(out)
        return work

    def broadcast(
        self,
        array: Arrays,
        root: PeerId,
        *,
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
    ) -> Result:
        """Gives every member the root's elements, in place.

        root: a peer id and not a rank, since ranks change; for example `run.members()[0]` or `result.contributors[0]`.
        Raises those of all_reduce, PeerLost, WorldChanged; after an error the arrays are unspecified, except on the root.
        """
        return self._native.broadcast(array, root, _is_root(root, self.id), (tag, timeout, minimum_world))

    def broadcast_async(
        self,
        array: Arrays,
        root: PeerId,
        *,
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
    ) -> Work:
        """Begins broadcast()."""
        return self._native.broadcast_async(array, root, _is_root(root, self.id), (tag, timeout, minimum_world))

    def barrier(
        self, *, tag: int = 0, timeout: float | None = None, minimum_world: int = 0, retry: bool = True
    ) -> Result:
        """Ends once every member has called it."""
        return self._native.barrier((tag, timeout, minimum_world, retry))

    def barrier_async(
        self, *, tag: int = 0, timeout: float | None = None, minimum_world: int = 0, retry: bool = True
    ) -> Work:
        """Begins barrier()."""
        return self._native.barrier_async((tag, timeout, minimum_world, retry))

    # ---- shared state ----

    def sync(
        self,
        state: State,
        *,
        strategy: Strategy | StrategyName = "popular",
        staged: bool = False,
        blank: bool = False,
        restored: bool = False,
        unchanged: Iterable[str] = (),
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
    ) -> Result:
        """Makes the states of all members equal, bit for bit, and sets state.revision.

        The members that agreed last vote, newcomers only receive; the highest revision wins, and of its states the one that most
        hold. Only pieces of 1 MiB that differ are sent. All equal: one round trip to the coordinator.

        strategy: "popular" votes; "send-only" is never written to; "receive-only" never votes.
        staged: pieces land beside the state, so that a sync that raises leaves it as it was.
        blank: the arrays hold no state yet, and all of it is fetched.
        restored: after a result.state_undefined: the arrays hold a whole state again.
        unchanged: names of arrays that hold what they held after the last sync of this tag: they are not hashed again.
        Raises those of all_reduce, StateUndefined, Mismatch; error.result.state_undefined says whether a state is left.
        """
        options = _state_options(state, strategy, staged, blank, restored, tag, timeout, minimum_world)
        return self._native.sync_state(state._describe(unchanged), options, _taker(state))

    def sync_async(
        self,
        state: State,
        *,
        strategy: Strategy | StrategyName = "popular",
        staged: bool = False,
        blank: bool = False,
        restored: bool = False,
        unchanged: Iterable[str] = (),
        tag: int = 0,
        timeout: float | None = None,
        minimum_world: int = 0,
    ) -> Work:
        """Begins sync(). The state's ints, floats and revision change when the Work is seen to be done; work.progress tells how far."""
        options = _state_options(state, strategy, staged, blank, restored, tag, timeout, minimum_world)
        work = self._native.sync_state_async(state._describe(unchanged), options)
        work._on_end = _taker(state)
        return work

    def publish(self, state: State, *, stable: bool = False, tag: int = 0, timeout: float | None = None) -> None:
        """Serves this state to peers that wait for admission, from now on. Takes a copy, and returns.

        stable: no copy: the arrays do not change until unpublish().
        timeout: seconds after which it ends by itself.
        Raises InvalidArgument, NotConnected, TooManyInFlight, OutOfMemory.
        """
        options = _state_options(state, "popular", False, False, False, tag, timeout, 0)
        options["stable"] = stable
        self._native.publish_state(state._describe(), options)

    def publish_async(self, state: State, *, stable: bool = False, tag: int = 0, timeout: float | None = None) -> Work:
        """publish() as a Work, which is over when it is aborted, replaced, or this peer leaves the run."""
        options = _state_options(state, "popular", False, False, False, tag, timeout, 0)
        options["stable"] = stable
        return self._native.publish_state_async(state._describe(), options)

    def unpublish(self, tag: int = 0) -> None:
        """Ends what this peer has published under the tag, and waits until its memory is back."""
        self._native.unpublish_state(tag)

    def prefetch(self, state: State, *, blank: bool = False, tag: int = 0, timeout: float | None = None) -> Result:
        """Between connect_async() and the admission: fetches the newest state that members publish, as far as it gets.

        A head start only: sync() before the state is used.
        Raises InvalidArgument, Mismatch, TimedOut, Aborted, NotConnected.
        """
        options = _state_options(state, "popular", False, blank, False, tag, timeout, 0)
        return self._native.prefetch_state(state._describe(), options, _taker(state))

    def prefetch_async(self, state: State, *, blank: bool = False, tag: int = 0, timeout: float | None = None) -> Work:
        """Begins prefetch()."""
        options = _state_options(state, "popular", False, blank, False, tag, timeout, 0)
        work = self._native.prefetch_state_async(state._describe(), options)
        work._on_end = _taker(state)
        return work

    def watch(self, state: State | None, *, unchanged: Iterable[str] = ()) -> None:
        """From now on every collective but a sync hashes this state, and result.parity tells whose differs, and where first.

        Call it again when ints, floats or the revision change; None ends it. Costs one look at every byte per collective.
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
            return f"<lockstep.Communicator {self.id!r} {'of another process' if isinstance(error, Forked) else 'not connected'}>"
        return f"<lockstep.Communicator {self.id!r} rank={world.rank} world_size={world.world_size} view={world.view}>"


def _native_options(options: Mapping[str, Any], in_swarm: bool = False) -> tuple[dict[str, Any], list[Sink]]:
    """Arguments of the native part, and who takes the lines that it gives."""
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
) -> tuple[Any, ...]:
    return (
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
    strategy: Strategy | StrategyName,
    staged: bool,
    blank: bool,
    restored: bool,
    tag: int,
    timeout: float | None,
    minimum_world: int,
) -> dict[str, Any]:
    if not isinstance(state, State):
        raise TypeError(
            f"state is a {type(state).__name__}; make it a lockstep.State: lockstep.State({{'weights': array, 'step': 0}})"
        )
    return {
        "revision": state.revision,
        "strategy": number_of(STRATEGIES, strategy, "strategy"),
        "staged": staged,
        "blank": blank,
        "restored": restored,
        "tag": tag,
        "timeout": timeout,
        "minimum_world": minimum_world,
    }


def _taker(state: State) -> Callable[[Result, list[int | float]], None]:
    def take(result: Result, values: list[int | float]) -> None:
        if result.status == 0:
            state._take(values, result.revision)

    return take


def _outputter(out: Array) -> Callable[[Result, None], None]:
    def cut(result: Result, _: None) -> None:
        if result.status == 0:
            result.output = _first(out, sum(result.blocks) or result.chunk.stop - result.chunk.start)

    return cut


def _first(out: Array, count: int) -> Any:
    """The first elements of an array, flat, in the same memory."""
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
