"""The surface that all training strategies share: being part of a run, admission, shared state, counters."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeVar, Union

import numpy as np
import torch

from .._lockstep import Result, Work
from ..communicator import Communicator
from ..errors import (
    BelowMinimum,
    BufferTooSmall,
    Error,
    InvalidArgument,
    Mismatch,
    PeerLost,
    WaitTimedOut,
    WorldChanged,
)
from ..state import State
from ..types import LAYER_TAGS, WIRE_FORMATS, OpName, PeerId, StrategyName, WireFormat, WireFormatName, number_of
from .agreement import TENSORS, Setting, compared, tensors_of
from .arrays import Bytes, Floats
from .checked import check_parts, check_tensors, whole_number
from .desync import desync_of
from .flat import HostTensors
from .sharding import Shard, local_of

STATE_TAG = LAYER_TAGS | int.from_bytes(b"strategy", "big")  # the first of all tags here
_BUFFERS_TAG = STATE_TAG + 1  # buffers of type i: _BUFFERS_TAG + (i << 32)
_DESYNC_TAG = STATE_TAG - 1
MOMENTS_TAG = STATE_TAG - 2
_SETTINGS_TAG = STATE_TAG - 3
GRADIENT_TAG = STATE_TAG + 2  # fragment i: GRADIENT_TAG + i

_STEADY = 0.1  # seconds that a shared state must stay as it is before it is published: short rounds cost nothing
_SPARE = 1 << 16  # bytes: a block that is too long by less is received, and its sender named
ALONE = PeerId(bytes(16))  # the only member, without a run

Run = Union[Communicator, Shard, None]
"""A communicator; a replica, whose shards each reduce their own part; or None to train alone."""

T = TypeVar("T", bound="Strategy")


@dataclass(frozen=True)
class Wire:
    """How float32 elements travel, equal on all peers.

    up, down: formats of contributions and of the result; see lockstep.WireFormat.
    error_feedback: adds what rounding loses to the next contribution; for 4 bits. Needs as much memory as the
        parameters, and links between all pairs of peers.
    Raises InvalidArgument.

    Example:
        >>> wire = Wire("e3m0", "int8", error_feedback=True)
    """

    up: WireFormat | WireFormatName = "native"
    down: WireFormat | WireFormatName = "native"
    error_feedback: bool = False

    def __post_init__(self) -> None:
        number_of(WIRE_FORMATS, self.up, "up")
        number_of(WIRE_FORMATS, self.down, "down")

    @classmethod
    def of(cls, wire: Wire | WireFormat | WireFormatName) -> Wire:
        """The wire itself, or one that uses the named format both ways."""
        return wire if isinstance(wire, Wire) else cls(wire, wire)

    def settings(self, name: str) -> dict[str, float]:
        """What has to be equal on all peers."""
        up, down = (number_of(WIRE_FORMATS, wire, name) for wire in (self.up, self.down))
        formats = {f"{name}.up (a WireFormat)": int(up), f"{name}.down (a WireFormat)": int(down)}
        return {**formats, f"{name}.error_feedback": int(self.error_feedback)}


@dataclass(frozen=True)
class StepInfo:
    """What step() did.

    outer: whether this step ended with an outer step, that is, with a reduction among the peers.
    inner_step, outer_step: the run's counters after this step.
    fragment: the fragment that was reduced; None if all parameters were, or none.
    world: with an outer step, number of contributors to its reduction, which newcomers are not part of; else the
        members that take part in the next one.
    contributors: their ids, in rank order, equal on all peers; empty without an outer step, or alone.
    retries: attempts that were given up because a member was lost.
    bytes_sent, bytes_received: payload of this step's reductions, in bytes.
    seconds: time that this step waited for other peers and computed the outer step.
    """

    outer: bool
    inner_step: int
    outer_step: int
    fragment: int | None
    world: int
    contributors: tuple[PeerId, ...]
    retries: int
    bytes_sent: int
    bytes_received: int
    seconds: float


class Reduction:
    """One average over the peers, begun or over.

    arrays: reduced in place. weight: of this peer; None if no peer has weights.
    observes: whether this peer takes part with nothing, because it has just joined.
    """

    def __init__(
        self,
        arrays: list[Floats],
        weight: float | None,
        tag: int,
        residual: Floats | Sequence[Floats] | None,
        observes: bool = False,
    ) -> None:
        self.pending = np.zeros(2, np.float32)  # above 0 after the reduction: a peer has seen newcomers; that prefetch
        self.arrays = [*arrays, self.pending]
        self.weight = weight
        self.tag = tag
        self.observes = observes
        self.is_void = False  # all that contributed are lost: there is no average
        parts = [residual] if isinstance(residual, np.ndarray) else residual  # like `arrays`
        self.residuals = None if parts is None else [*parts, np.zeros(2, np.float32)]
        self.work: Work | None = None
        self.result: Result | None = None

    @property
    def contributors(self) -> tuple[PeerId, ...]:
        """Those whose progress is in the average, and observers; nobody if it is void."""
        return () if self.result is None else self.result.contributors

    @property
    def has_newcomers(self) -> bool:
        """Whether a contributor has seen newcomers to admit now; the same on all peers."""
        return bool(self.pending[0] > 0) and not self.is_void

    @property
    def has_prefetchers(self) -> bool:
        """Whether a contributor has seen newcomers that fetch the state first; the same on all peers."""
        return bool(self.pending[1] > 0) and not self.is_void


class Sampler(Protocol):
    """What a strategy uses of a sampler, whose position is part of the shared state; see RunSampler."""

    @property
    def settings(self) -> Mapping[str, float]:
        """What must be equal on all peers."""

    def deal(self, members: Sequence[bytes], own: bytes, steps: int, inner_step: int) -> None:
        """Members that have no slice of the current round get one for so many steps, from this inner step on."""

    def end_round(self) -> None:
        """The samples of the round are drawn; its reduction ends during the next round."""

    def settle(self, contributors: Sequence[bytes]) -> None:
        """The samples of the oldest round that is drawn are used up, as far as these peers have contributed."""

    def forget_rounds(self) -> None:
        """Begins anew at the position."""

    def entry(self) -> Any:
        """The position, for the shared state."""

    def take(self, entry: Any) -> None:
        """Takes over the position of the run."""

    def state(self) -> dict[str, Any]:
        """The position after the last outer step, for a checkpoint."""

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a state(). Raises KeyError, ValueError, TypeError."""


class Strategy(ABC):
    """What all strategies have in common; see LocalSGD, FedAvg, DiLoCo, StreamingDiLoCo and DataParallel.

    Entering the `with` block makes this peer's parameters, momentum and counters equal to the run's, bit for bit. Call
    step() after each step of the inner optimizer. At the end of the block the model has the shared parameters.

    inner_step and outer_step count the steps of the run, not of this process: a newcomer takes them over. Learning-rate
    schedules and data follow them.

    When a peer dies, the reduction in flight goes on among the survivors. Newcomers enter after an outer step: members
    agree in the reduction before it whether newcomers wait. Do not connect with auto_admit.

    A newcomer that has connected with wait=False (or connect_async()) holds the shared state while it waits: members
    publish it whenever it stays the same for a tenth of a second. When all members are lost, the newcomers go on from
    the newest state that one of them holds. The shards of a Replica hold nothing.

    Errors: step() raises what Communicator.all_reduce() raises, above all Evicted, NotConnected and OutcomeUnknown:
    connect again as a new peer. Peers with other settings raise ValueError when they enter, or lockstep.Mismatch. If
    the peers' shared states differ, step() raises Desync on all of them.
    """

    def __init__(self, run: Run, model: Any, inner: Any, *, minimum_world: int = 0, check_every: int = 0) -> None:
        self._run: Communicator | None = run.run if isinstance(run, Shard) else run
        self._replica = run if isinstance(run, Shard) else None
        self._model = model
        self._optimizers: list[Any] = list(inner) if isinstance(inner, (list, tuple)) else [inner]
        check_parts(run, model, self._optimizers)
        self._named = _parameters_of(model, self._optimizers)
        self._minimum_world = whole_number(minimum_world, "minimum_world", 0)
        self._check_every = whole_number(check_every, "check_every", 0)
        self._entered = False
        self._is_interrupted = False  # an error has ended the `with` block
        self._in_the_air: list[Reduction] = []  # begun, and not ended
        self._left_behind: list[Work] = []  # calls of a step that has failed
        self._contributors: tuple[PeerId, ...] = ()
        self._members: tuple[PeerId, ...] = (ALONE,)  # of the next reduction, as far as known; equal on all peers
        self._world = 1
        self._inner_step = 0
        self._outer_step = 0
        self._averaged = _Buffers(model)
        self._samplers: list[Sampler] = []
        self._sampler_states: Sequence[Mapping[str, Any]] | None = None  # of a checkpoint
        self._differs = False  # this peer's state is not that of most peers: it has no vote in the next sync
        self._lineage = 0
        self._is_torn = False  # a sync ended while it wrote to the state: what memory holds is none
        self.newest_wins = False
        """Set it before the `with` block, on all peers or on none: what happens if a peer joins that has made more
        outer steps than the run.

        False: entering raises lockstep.StateConflict on that peer, and the run goes on without it. True: the run takes
        over its state, so that a run that is founded anew goes on from the furthest of its peers.
        """
        self._sent = self._received = self._retries = 0
        self._is_offered = False  # the shared state is published, and does not change
        self._steady_since = 0.0  # the shared state is as it is

    # ---- what a program uses ----

    @abstractmethod
    def step(self, weight: float | None = None) -> StepInfo:
        """Ends an inner step; call it after the step of the inner optimizer.

        weight: how much this inner step counts, such as its number of examples or tokens, at least 0. All peers give
            weights, or none does. A contribution counts with the sum of the weights since the last one.
        Raises the errors of Communicator.all_reduce(); RuntimeError outside of the `with` block.
        """

    @property
    def inner_step(self) -> int:
        """Number of inner steps that the run has made."""
        return self._inner_step

    @property
    def outer_step(self) -> int:
        """Number of outer steps that the run has made; of a streaming strategy, of fragments."""
        return self._outer_step

    @property
    def world(self) -> int:
        """Members that take part in the next reduction, as far as known; equal on all peers between two of them."""
        return self._world

    @property
    def is_leader(self) -> bool:
        """Whether this peer was the first contributor of the last reduction: exactly one peer was."""
        if self._run is None:
            return True
        return self._contributors[0] == self._run.id if self._contributors else self._run.rank == 0

    def wait(self) -> None:
        """Waits for reductions in flight, and takes their results into the shared parameters.

        Call it before an evaluation or a checkpoint. Changes no result, whichever peers call it, and when.
        """
        self._check_entered()

    @abstractmethod
    def global_state_dict(self) -> dict[str, Any]:
        """A copy of the shared state: "parameters", "momentum" and "model" (tensors by name), counters, "samplers".

        The tensors lie in the memory of the host. Call wait() before, so that nothing is in flight.
        """

    @abstractmethod
    def load_global_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a global_state_dict(), before the `with` block.

        One peer with the state is enough when a run begins: the state with the most outer steps wins. A peer that joins
        a run takes over the run's state instead, unless that has made fewer outer steps: see newest_wins.
        Raises RuntimeError inside of the `with` block, KeyError, ValueError.
        """

    def __enter__(self: T) -> T:
        if self._entered:
            raise RuntimeError("this strategy is in a `with` block already; allowed: once at a time")
        if self._is_interrupted:
            self._begin_anew()
        self._begin_samplers()
        self._enter()
        self._averaged.keep()
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_interrupted = kind is not None
        try:
            if kind is None:
                self._finish()
        except BaseException:
            self._is_interrupted = True
            raise
        finally:
            self._entered = False
            self._withdraw()
            self._detach()

    def _begin_anew(self) -> None:
        """Members may have left the block at different places: in a new cohort no call meets an older one."""
        if self._run is not None:
            self._run.admit()
        self._withdraw()
        for work in [*self._left_behind, *(one.work for one in self._in_the_air if one.work is not None)]:
            with suppress(Error):  # over since the new cohort began; nobody takes the result
                work.wait()
        self._in_the_air.clear()
        self._left_behind.clear()
        self._is_interrupted = False

    # ---- what a sampler uses ----

    def _attach(self, sampler: Sampler) -> tuple[int, int]:
        """Adds a sampler. Returns number and count of the shards of a replica, of which this peer is one."""
        if self._entered:
            raise RuntimeError("a sampler comes before the `with` block: its position is part of the shared state")
        self._samplers.append(sampler)
        return (0, 1) if self._replica is None else (self._replica.shard, self._replica.shards)

    # ---- what a strategy defines ----

    @abstractmethod
    def _enter(self) -> None:
        """Makes the state that of the run."""

    @abstractmethod
    def _finish(self) -> None:
        """The model takes over the shared parameters."""

    @abstractmethod
    def _detach(self) -> None:
        """Removes hooks."""

    @abstractmethod
    def _sync(self) -> None:
        """Makes the shared state of all members equal; newcomers do it first of all."""

    @property
    def _publishes(self) -> bool:
        """Whether newcomers may fetch the state while members train."""
        return False

    @abstractmethod
    def _whole_state(self) -> tuple[State, Sequence[HostTensors]]:
        """The state that _sync() shares, and what gives tensors back that it was copied from."""

    @abstractmethod
    def _take_whole_state(self, state: State) -> None:
        """Takes the counters over; the arrays hold the state already."""

    @property
    @abstractmethod
    def _round_steps(self) -> int:
        """Inner steps from the begin of one reduction to that of the next."""

    @abstractmethod
    def _shared(self) -> dict[str, Any]:
        """What is equal on all members while a reduction is in flight, and does not change: arrays, ints by name."""

    # ---- what a strategy uses ----

    def _check_entered(self) -> None:
        if not self._entered:
            raise RuntimeError("a strategy works inside of its `with` block only")

    def _sync_state(self, entries: Mapping[str, Any], settings: Mapping[str, float], revision: int) -> State:
        """Makes a state equal on all members. Raises ValueError on newcomers with other settings."""
        positions = self._sampler_entries()
        entries = {**entries, **positions}
        state = State(entries, revision=revision, lineage=self._lineage)
        if self._run is None:
            return state
        part: StrategyName = "receive-only" if self._differs else "newest" if self.newest_wins else "popular"
        # A newcomer whose state will win has no say in the settings: they are those of the members.
        errors = compared(
            self._run, self._all_settings(settings, entries), 0 if self.newest_wins else revision, _SETTINGS_TAG
        )
        error = next(iter(errors.values()), None)
        if error is not None and TENSORS in errors:  # without a state like theirs this peer cannot sync with them
            raise error
        try:
            result = self._run.sync(state, strategy=part, blank=self._is_torn, strict=False, tag=STATE_TAG)
        except Error as failed:
            self._is_torn = self._is_torn or (failed.result is not None and failed.result.state_undefined)
            raise
        self._is_torn = False
        self._lineage = state.lineage
        self._differs = False
        if error is not None:
            raise error
        self._world = result.world_size
        self._members = result.contributors
        for sampler, position in zip(self._samplers, positions.values()):
            sampler.take(position)
        return state

    def _all_settings(self, settings: Mapping[str, float], entries: Mapping[str, Any]) -> dict[str, Setting]:
        every: dict[str, Setting] = {"strategy": type(self).__name__, **settings, "samplers": len(self._samplers)}
        every["newest_wins"] = int(self.newest_wins)
        for number, sampler in enumerate(self._samplers):
            every.update({f"{name} of sampler {number}": value for name, value in sampler.settings.items()})
        return {**every, TENSORS: tensors_of(entries)}

    def _begin(self, reduction: Reduction, wire: Wire, *, in_background: bool = False) -> None:
        """Begins an average; without in_background it is over at the return."""
        if self._run is None:
            if not in_background:
                self._end(reduction, wire)
            return
        reduction.pending[:] = self._sees_newcomers(), self._fetching > 0
        self._in_the_air = [one for one in self._in_the_air if one.work is not None]
        self._in_the_air.append(reduction)
        with self._watching():
            reduction.work = self._begin_average(self._run, reduction, wire, reduction.arrays, None, reduction.tag)
        if not in_background:
            self._end(reduction, wire)

    def _begin_average(
        self, run: Communicator, reduction: Reduction, wire: Wire, arrays: Any, out: Any, tag: int
    ) -> Work:
        """Begins a call of a reduction."""
        return run.all_reduce_async(
            arrays,
            out,
            op="avg",
            tag=tag,
            minimum_world=self._minimum_world,
            up=wire.up,
            down=wire.down,
            weight=reduction.weight,
            algorithm="direct" if wire.error_feedback else "auto",
            residual=reduction.residuals,
        )

    def _end(self, reduction: Reduction, wire: Wire) -> None:
        """Waits for an average; while too few members are left, waits for more and begins again."""
        while reduction.work is not None:
            try:
                reduction.result = self._await(reduction.work)
                reduction.work = None
            except InvalidArgument:
                if not reduction.observes:
                    raise
                reduction.work = None
                reduction.is_void = True
            except BelowMinimum:
                reduction.work = None
                if not self._minimum_world:
                    raise
                self._wait_for_members()
                self._begin(reduction, wire, in_background=True)
        self._withdraw()
        if reduction.result is not None:
            self._take_result(reduction.result)
        self._settle_draws(self._members if self._run is None else reduction.contributors)

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """What begins in the block compares the shared states of its members in every check_every-th outer step."""
        checks = self._check_every > 0 and (self._outer_step + 1) % self._check_every == 0
        if self._run is None or not checks:
            yield
            return
        self._run.watch(State(self._watched()))
        try:
            yield
        finally:
            self._run.watch(None)  # the calls in flight go on with it

    def _watched(self) -> dict[str, Any]:
        return {**self._shared(), **self._sampler_entries()}

    def _take_result(self, result: Result) -> None:
        """Counts a result. Raises Desync if it says that the shared states differ."""
        self._count(result)
        if result.state_difference and self._run is not None:
            error = desync_of(self._run, self._watched(), result.state_difference, self._outer_step, _DESYNC_TAG)
            self._differs = error.differs
            raise error

    def _settle_draws(self, contributors: Sequence[PeerId]) -> None:
        """The samples of the round that these peers have contributed are used up."""
        for sampler in self._samplers:
            sampler.settle(contributors)

    def _wait_for_members(self) -> None:
        """Waits until there are minimum_world members, and shares the state with those that have come."""
        if self._run is not None:
            self._withdraw()
            self._before_newcomers()
            self._await(self._run.wait_for_world_async(self._minimum_world * max(1, self._run.world.groups)))
            self._sync()
            self._averaged.keep()

    @property
    def _fetching(self) -> int:
        """Newcomers that fetch the state while members train, or hold one."""
        return self._run.fetching + self._run.holding if self._run is not None and self._publishes else 0

    def _sees_newcomers(self) -> bool:
        """Whether newcomers wait that fetch nothing."""
        return self._run is not None and self._run.pending > self._fetching

    @property
    def _own_id(self) -> PeerId:
        return ALONE if self._run is None else self._run.id

    def _gather(self, block: Bytes, most_bytes: int) -> list[tuple[PeerId, Bytes]]:
        """The blocks of all contributors with their ids, in rank order; equal on all peers. Alone: the block itself.

        block: what this peer contributes, at most most_bytes. Others may have sent anything.
        When members are lost, the survivors gather anew; while too few are left, they wait for more.
        Raises Mismatch, on all peers alike, if a block is so large that there is no room to receive it.
        """
        if self._run is None:
            return [(ALONE, block)]
        while True:
            room = np.empty(max(self._world, self._run.world_size) * most_bytes + _SPARE, np.uint8)
            try:
                with self._watching():
                    work = self._run.all_gather_async(block, room, tag=GRADIENT_TAG, minimum_world=self._minimum_world)
                result = self._await(work)
                break
            except BufferTooSmall as error:
                raise Mismatch(f"a peer has sent too much; allowed: at most {most_bytes} bytes; {error}") from error
            except (PeerLost, WorldChanged):
                self._retries += 1
            except BelowMinimum:
                if not self._minimum_world:
                    raise
                self._wait_for_members()
        self._withdraw()
        self._take_result(result)
        return list(zip(result.contributors, np.split(room, np.cumsum(result.blocks))))

    def _count(self, result: Result) -> None:
        self._take_members(result)
        self._add_traffic(result)

    def _take_members(self, result: Result) -> None:
        self._contributors = self._members = result.contributors
        self._world = result.world_size

    def _add_traffic(self, result: Result) -> None:
        self._sent += result.bytes_sent
        self._received += result.bytes_received
        self._retries += result.retries

    def _before_newcomers(self) -> None:  # noqa: B027 - most strategies have nothing to do
        """Before members wait for newcomers in a round that cannot end without."""

    def _admit(self, has_newcomers: bool) -> bool:
        """Lets newcomers in if all members have agreed to, and shares the state with them."""
        admits = self._run is not None and (has_newcomers or self._replica is not None)
        self._averaged.keep()
        if self._run is not None and admits:
            self._await(self._run.admit_async())
            self._sync()
            self._averaged.keep()
        self._deal(self._inner_step)
        return admits

    def _join(self) -> None:
        """Waits for the admission that connect_async() has begun, and holds what members publish meanwhile."""
        joining = None if self._run is None else self._run._joining
        if joining is None or self._run is None:
            return
        if self._replica is None and not joining.done():
            state, copied = self._whole_state()
            with suppress(Mismatch):  # the comparison of settings says in the first sync what differs
                self._run.prefetch(state, hold=True, tag=STATE_TAG)
                for tensors in copied:
                    tensors.give_back()
                self._take_whole_state(state)
                for number, sampler in enumerate(self._samplers):
                    sampler.take(state[f"sampler {number}"])
        joining.wait()

    # ---- newcomers hold the shared state ----

    def _await(self, work: Work) -> Result:
        """Waits for a call of all members. Meanwhile the shared state does not change, and newcomers may fetch it."""
        while True:
            try:
                return work.wait(timeout=_STEADY)
            except WaitTimedOut:
                self._offer()

    def _offer(self, at_once: bool = False) -> None:
        """Publishes the shared state until _withdraw(), if newcomers fetch it and it has been the same for a while."""
        run = self._run
        if run is None or self._is_offered or self._replica is not None or not (run.fetching or run.holding):
            return
        if not at_once and self._now() - self._steady_since < _STEADY:
            return
        self._is_offered = True
        with suppress(Error):  # the run may be over, which the next call says
            state, _ = self._whole_state()
            agreed = {**state, **self._averaged.kept}
            run.publish(State(agreed, revision=state.revision, lineage=self._lineage), stable=True, tag=STATE_TAG)

    def _withdraw(self) -> None:
        """Before the shared state changes."""
        self._steady_since = self._now()
        if self._is_offered and self._run is not None:
            self._is_offered = False
            with suppress(Error):
                self._run.unpublish(STATE_TAG)

    def _begin_samplers(self) -> None:
        states = self._sampler_states
        if states is not None and self._samplers and len(states) != len(self._samplers):
            raise ValueError(
                f"the state has {len(states)} samplers, and this strategy {len(self._samplers)}; allowed: as many"
            )
        for number, sampler in enumerate(self._samplers):
            sampler.forget_rounds()
            if states is not None:
                sampler.load(states[number])
        self._sampler_states = None

    def _sampler_entries(self) -> dict[str, Any]:
        return {f"sampler {number}": sampler.entry() for number, sampler in enumerate(self._samplers)}

    def _deal(self, inner_step: int) -> None:
        """Members that begin to train at this inner step of the run get their samples up to the end of the round."""
        steps = self._round_steps - inner_step % self._round_steps
        for sampler in self._samplers:
            sampler.deal(self._members, self._own_id, steps, inner_step)

    def _end_draws(self) -> None:
        """The round's samples are drawn; its reduction comes through during the next round."""
        for sampler in self._samplers:
            sampler.end_round()

    def _average_buffers(self) -> None:
        """Makes the model's buffers equal: the average of floats, the largest of other numbers."""
        if self._run is not None:
            for number, (op, arrays) in enumerate(self._averaged.fetch()):
                self._add_traffic(self._run.all_reduce(arrays, op=op, tag=_BUFFERS_TAG + (number << 32)))
            self._averaged.give_back()

    def _info(self, seconds: float, outer: bool, fragment: int | None = None) -> StepInfo:
        info = StepInfo(
            outer=outer,
            inner_step=self._inner_step,
            outer_step=self._outer_step,
            fragment=fragment,
            world=len(self._contributors) if outer and self._contributors else self._world,
            contributors=self._contributors if outer else (),
            retries=self._retries,
            bytes_sent=self._sent,
            bytes_received=self._received,
            seconds=seconds,
        )
        self._sent = self._received = self._retries = 0
        return info

    def _now(self) -> float:
        return time.monotonic() if self._run is None else self._run.now


class AllParameters:
    """What stands for the inner optimizer of a strategy that has none: it has all parameters that need gradients."""

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "parameters"):
            raise TypeError(f"model is of type {type(model).__name__}; allowed: a torch.nn.Module")
        self.param_groups = [{"params": [p for p in model.parameters() if p.requires_grad]}]


class _Buffers:
    """The buffers of a model that its state_dict() has, in groups of one type.

    kept: copies of them as they were when all members had the same, by their names in the shared state.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._names = kept_buffers(model)
        self._groups: list[tuple[OpName, HostTensors]] = []
        self.kept: dict[str, Any] = {}

    def keep(self) -> None:
        """While all members have the same buffers."""
        buffers = HostTensors((f"model/{name}", self._model.get_buffer(name)) for name in self._names)
        buffers.fetch()
        self.kept = {name: array.clone() for name, array in buffers.arrays.items()}

    def fetch(self) -> Sequence[tuple[OpName, list[Any]]]:
        """For each group the operation that makes it equal, and its arrays."""
        by_type: dict[Any, dict[str, Any]] = {}
        for name in self._names:  # looked up anew, as modules may replace their buffers
            buffer = self._model.get_buffer(name)
            by_type.setdefault(buffer.dtype, {})[name] = buffer
        self._groups = [
            ("avg" if dtype.is_floating_point or dtype.is_complex else "max", HostTensors(group.items()))
            for dtype, group in by_type.items()
        ]
        for _, group in self._groups:
            group.fetch()
        return [(op, list(group.arrays.values())) for op, group in self._groups if group.arrays]

    def give_back(self) -> None:
        """After the calls: the model has the results."""
        for _, group in self._groups:
            group.give_back()


def kept_buffers(model: Any) -> list[str]:
    """The names of the buffers that a model's state_dict() has."""
    kept = set(model.state_dict())
    return [name for name, _ in model.named_buffers() if name in kept]


def _parameters_of(model: Any, optimizers: Sequence[Any]) -> list[tuple[str, Any]]:
    """The parameters of the optimizers that need gradients, with their names, in the order of the model."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    wanted = set()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in names:
                    raise ValueError(
                        f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not in the model; "
                        "allowed: parameters of the model"
                    )
                wanted.add(id(parameter))
    on_meta = [name for name, p in model.named_parameters() if p.is_meta]
    if on_meta:
        raise ValueError(f"{', '.join(on_meta)} lie on the meta device, without memory; allowed: cpu, cuda")
    named = [(name, p) for name, p in model.named_parameters() if id(p) in wanted and p.requires_grad]
    if not named:
        raise ValueError("the optimizer has no parameter that needs gradients; allowed: at least one")
    return named


def rest_of(model: Any, named: Sequence[tuple[str, Any]]) -> HostTensors:
    """What newcomers take over besides: frozen parameters, and buffers that the state_dict() has."""
    trained = {name for name, _ in named}
    tensors = [(name, p) for name, p in model.named_parameters() if name not in trained]
    tensors += [(name, model.get_buffer(name)) for name in kept_buffers(model)]
    return HostTensors((f"model/{name}", tensor) for name, tensor in tensors)


def copies_of(rest: HostTensors) -> dict[str, Any]:
    """Copies of these tensors, by their names in the model."""
    rest.fetch()
    return {name.partition("/")[2]: array.clone() for name, array in rest.arrays.items()}


def take_copies(rest: HostTensors, tensors: Mapping[str, Any]) -> None:
    """Sets these tensors to copies. Raises KeyError, TypeError, ValueError for other shapes; then none has changed."""
    given = {}
    check_tensors(tensors, {name.partition("/")[2] for name in rest.arrays}, "tensors")
    for name, array in rest.arrays.items():
        short = name.partition("/")[2]
        if not isinstance(tensors[short], torch.Tensor):
            raise TypeError(f"{short} of the state is of type {type(tensors[short]).__name__}; allowed: a torch.Tensor")
        given[name] = local_of(tensors[short])
        if given[name].shape != array.shape:
            raise ValueError(
                f"{short} of the state has the shape {tuple(given[name].shape)}; allowed: {tuple(array.shape)}"
            )
    for name, array in rest.arrays.items():
        array.copy_(given[name])
    rest.give_back()
