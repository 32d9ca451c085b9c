"""What all training strategies do with a run: join it, share the state, average, gather, and admit newcomers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol, Union

import numpy as np

from .._lockstep import Result, Work
from ..communicator import Communicator
from ..errors import BelowMinimum, BufferTooSmall, Error, InvalidArgument, Mismatch, PeerLost, WorldChanged
from ..state import State
from ..types import PeerId, SyncStrategyName
from . import tags
from .agreement import TENSORS, Setting, compared, tensors_of
from .arrays import Bytes
from .average_call import AverageCall
from .checked import whole_number
from .desync import desync_of
from .flat import HostTensors
from .publication import Publication
from .samplers import Samplers
from .sharding import Shard
from .shared_model import Buffers
from .step_info import StepInfo, Traffic

_SPARE = 1 << 16  # bytes: a block that is too long by less is received, and its sender named
ALONE = PeerId(bytes(16))  # the only member, without a run

Run = Union[Communicator, Shard, None]
"""A communicator; a replica, whose shards each reduce their own part; or None to train alone."""


class SharedTraining(Protocol):
    """What a RunLoop asks of the training whose state the members share."""

    @property
    def publishes(self) -> bool:
        """Whether newcomers may fetch the state while members train."""

    def settings(self) -> Mapping[str, Setting]:
        """What must be equal on all peers, by name."""

    def entries(self) -> dict[str, Any]:
        """What is equal on all members while a reduction is in flight, and does not change: arrays, ints by name."""

    def whole_state(self) -> tuple[dict[str, Any], Sequence[HostTensors]]:
        """All that newcomers take over, by name; and what gives tensors back that it was copied from."""

    def on_synced(self, state: Mapping[str, Any]) -> None:
        """All members have this state; the arrays hold it already. Takes the counters over."""

    def on_fetched(self, state: Mapping[str, Any]) -> None:
        """This newcomer holds this state. Takes the counters over."""

    def before_newcomers(self) -> None:
        """Before members wait for newcomers in a round that cannot end without."""


class RunLoop:
    """The part of a strategy that knows the run, and no parameter.

    run: None to train alone. replica: the shard of a replica that this process is; None without.
    strategy: name of the strategy, which all peers must have. newest_wins: see Strategy.
    inner_step, outer_step: the run's counters.
    members: of the next reduction, as far as known. contributors: of the last one. world: number of members. All three
        are equal on all peers between two reductions.
    samplers: whose positions are shared. buffers: of the model. traffic: since the last info().
    publication: the state as newcomers may fetch it.
    """

    def __init__(
        self, run: Run, training: SharedTraining, buffers: Buffers, minimum_world: int, check_every: int
    ) -> None:
        self.run: Communicator | None = run.run if isinstance(run, Shard) else run
        self.replica = run if isinstance(run, Shard) else None
        self.strategy = ""
        self.newest_wins = False
        self.inner_step = 0
        self.outer_step = 0
        self.members: tuple[PeerId, ...] = (ALONE,)
        self.contributors: tuple[PeerId, ...] = ()
        self.world = 1
        self.samplers = Samplers()
        self.buffers = buffers
        self.traffic = Traffic()
        self.publication = Publication(None if self.replica else self.run, self._published, tags.STATE)
        self.minimum_world = whole_number(minimum_world, "minimum_world", 0)
        self._check_every = whole_number(check_every, "check_every", 0)
        self._training = training
        self._in_the_air: list[AverageCall] = []  # begun, and perhaps not ended
        self._lineage = 0
        self._differs = False  # this peer's state is not that of most peers: it has no vote in the next sync
        self._is_torn = False  # a sync ended while it wrote to the state: what memory holds is none

    # ---- what it knows ----

    @property
    def own_id(self) -> PeerId:
        """Of this peer; ALONE without a run."""
        return ALONE if self.run is None else self.run.id

    @property
    def now(self) -> float:
        """Seconds, of the run's clock."""
        return time.monotonic() if self.run is None else self.run.now

    @property
    def fetching(self) -> int:
        """Newcomers that fetch the state while members train, or hold one."""
        return self.run.fetching + self.run.holding if self.run is not None and self._training.publishes else 0

    def sees_newcomers(self) -> bool:
        """Whether newcomers wait that fetch nothing."""
        return self.run is not None and self.run.pending > self.fetching

    def info(self, seconds: float, outer: bool, fragment: int | None = None) -> StepInfo:
        """What the step that ends now did; the traffic of the next one begins at 0."""
        traffic, self.traffic = self.traffic, Traffic()
        return StepInfo(
            outer=outer,
            inner_step=self.inner_step,
            outer_step=self.outer_step,
            fragment=fragment,
            world=len(self.contributors) if outer and self.contributors else self.world,
            contributors=self.contributors if outer else (),
            retries=traffic.retries,
            bytes_sent=traffic.sent,
            bytes_received=traffic.received,
            seconds=seconds,
        )

    # ---- newcomers and the shared state ----

    def join(self) -> None:
        """Waits for the admission that connect_async() has begun, and holds what members publish meanwhile."""
        joining = None if self.run is None else self.run.joining
        if joining is None or self.run is None:
            return
        if self.replica is None and not joining.done():
            entries, copied = self._training.whole_state()
            state = State({**entries, **self.samplers.entries()}, revision=self.outer_step)
            with suppress(Mismatch):  # the comparison of settings says in the first sync what differs
                self.run.prefetch(state, hold=True, tag=tags.STATE)
                for tensors in copied:
                    tensors.give_back()
                self._training.on_fetched(state)
                self.samplers.take(state)
        joining.wait()

    def begin_anew(self, left_behind: Sequence[Work]) -> None:
        """After an error: members may have left their loops at different places. No call meets an older one.

        left_behind: calls of a step that has failed, besides averages.
        """
        if self.run is not None:
            self.run.admit()
        self.publication.withdraw()
        for work in [*left_behind, *(one.work for one in self._in_the_air if one.work is not None)]:
            with suppress(Error):  # over since the new cohort began; nobody takes the result
                work.wait()
        self._in_the_air.clear()

    def sync(self) -> None:
        """Makes the shared state of all members equal; newcomers do it first of all.

        Raises ValueError on newcomers with other settings.
        """
        entries, copied = self._training.whole_state()
        positions = self.samplers.entries()
        whole = {**entries, **positions}
        state = State(whole, revision=self.outer_step, lineage=self._lineage)
        if self.run is not None:
            self._sync_with(self.run, state, tensors_of(whole))
            self.samplers.take(positions)
        for tensors in copied:
            tensors.give_back()
        self._training.on_synced(state)

    def _sync_with(self, run: Communicator, state: State, tensors: str) -> None:
        part: SyncStrategyName = "receive-only" if self._differs else "newest" if self.newest_wins else "popular"
        settings = {
            "strategy": self.strategy,
            **self._training.settings(),
            **self.samplers.settings(),
            "newest_wins": int(self.newest_wins),
            TENSORS: tensors,
        }
        # A newcomer whose state will win has no say in the settings: they are those of the members.
        errors = compared(run, settings, 0 if self.newest_wins else state.revision, tags.SETTINGS)
        error = next(iter(errors.values()), None)
        if error is not None and TENSORS in errors:  # without a state like theirs this peer cannot sync with them
            raise error
        try:
            result = run.sync(state, strategy=part, blank=self._is_torn, strict=False, tag=tags.STATE)
        except Error as failed:
            self._is_torn = self._is_torn or (failed.result is not None and failed.result.state_undefined)
            raise
        self._is_torn = False
        self._lineage = state.lineage
        self._differs = False
        if error is not None:
            raise error
        self.world = result.world_size
        self.members = result.contributors

    def admit(self, has_newcomers: bool) -> bool:
        """Lets newcomers in if all members have agreed to, and shares the state with them. Returns whether it has."""
        admits = self.run is not None and (has_newcomers or self.replica is not None)
        self.buffers.keep()
        if self.run is not None and admits:
            self.publication.wait(self.run.admit_async())
            self.sync()
            self.buffers.keep()
        self.allocate_samples(self.inner_step)
        return admits

    def wait_for_members(self) -> None:
        """Waits until there are minimum_world members, and shares the state with those that have come."""
        if self.run is not None:
            self.publication.withdraw()
            self._training.before_newcomers()
            count = self.minimum_world * max(1, self.run.world.groups)
            self.publication.wait(self.run.wait_for_world_async(count))
            self.sync()
            self.buffers.keep()

    def allocate_samples(self, inner_step: int) -> None:
        """Members that begin to train at this inner step of the run get their samples up to the end of the round."""
        self.samplers.allocate(self.members, self.own_id, inner_step)

    def _published(self) -> State:
        entries, _ = self._training.whole_state()
        agreed = {**entries, **self.samplers.entries(), **self.buffers.kept}
        return State(agreed, revision=self.outer_step, lineage=self._lineage)

    # ---- reductions ----

    def begin(self, average: AverageCall) -> None:
        """Begins an average in the background; end() waits for it."""
        if self.run is None:
            return
        average.pending[:] = self.sees_newcomers(), self.fetching > 0
        self._in_the_air = [one for one in self._in_the_air if one.work is not None]
        self._in_the_air.append(average)
        with self.watching():
            average.work = self.begin_call(self.run, average, average.arrays, None, average.tag)

    def begin_call(self, run: Communicator, average: AverageCall, arrays: Any, out: Any, tag: int) -> Work:
        """Begins one call of an average, for these arrays."""
        return run.all_reduce_async(
            arrays,
            out,
            op="avg",
            tag=tag,
            minimum_world=self.minimum_world,
            up=average.wire.up,
            down=average.wire.down,
            weight=average.weight,
            algorithm="direct" if average.wire.error_feedback else "auto",
            residual=average.residuals,
        )

    def end(self, average: AverageCall) -> None:
        """Waits for an average; while too few members are left, waits for more and begins again."""
        while average.work is not None:
            try:
                average.result = self.publication.wait(average.work)
                average.work = None
            except InvalidArgument:
                if not average.observes:
                    raise
                average.work = None
                average.is_void = True
            except BelowMinimum:
                average.work = None
                if not self.minimum_world:
                    raise
                self.wait_for_members()
                self.begin(average)
        self.publication.withdraw()
        if average.result is not None:
            self.take_result(average.result)
        self.settle(average)

    def average(self, average: AverageCall) -> None:
        """Makes an average."""
        self.begin(average)
        self.end(average)

    def settle(self, average: AverageCall) -> None:
        """The samples of the round that its contributors have given are used up."""
        self.samplers.settle(self.members if self.run is None else average.contributors)

    def gather(self, block: Bytes, most_bytes: int) -> list[tuple[PeerId, Bytes]]:
        """The blocks of all contributors with their ids, in rank order; equal on all peers. Alone: the block itself.

        block: what this peer contributes, at most most_bytes. Others may have sent anything.
        When members are lost, the survivors gather anew; while too few are left, they wait for more.
        Raises Mismatch, on all peers alike, if a block is so large that there is no room to receive it.
        """
        if self.run is None:
            return [(ALONE, block)]
        while True:
            room = np.empty(max(self.world, self.run.world_size) * most_bytes + _SPARE, np.uint8)
            try:
                with self.watching():
                    work = self.run.all_gather_async(block, room, tag=tags.PROGRESS, minimum_world=self.minimum_world)
                result = self.publication.wait(work)
                break
            except BufferTooSmall as error:
                raise Mismatch(f"a peer has sent too much; allowed: at most {most_bytes} bytes; {error}") from error
            except (PeerLost, WorldChanged):
                self.traffic.retries += 1
            except BelowMinimum:
                if not self.minimum_world:
                    raise
                self.wait_for_members()
        self.publication.withdraw()
        self.take_result(result)
        return list(zip(result.contributors, np.split(room, np.cumsum(result.blocks))))

    def average_buffers(self) -> None:
        """Makes the model's buffers equal: the average of floats, the largest of other numbers."""
        if self.run is not None and self.buffers.are_averaged:
            for number, (op, arrays) in enumerate(self.buffers.fetch()):
                self.traffic.add(self.run.all_reduce(arrays, op=op, tag=tags.BUFFERS + (number << 32)))
            self.buffers.give_back()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """What begins in the block compares the shared states of its members in every check_every-th outer step."""
        checks = self._check_every > 0 and (self.outer_step + 1) % self._check_every == 0
        if self.run is None or not checks:
            yield
            return
        self.run.watch(State(self._watched()))
        try:
            yield
        finally:
            self.run.watch(None)  # the calls in flight go on with it

    def _watched(self) -> dict[str, Any]:
        return {**self._training.entries(), **self.samplers.entries()}

    def take_result(self, result: Result) -> None:
        """Counts a result. Raises Desync if it says that the shared states differ."""
        self.take_members(result)
        self.traffic.add(result)
        if result.state_difference and self.run is not None:
            error = desync_of(self.run, self._watched(), result.state_difference, self.outer_step, tags.DESYNC)
            self._differs = error.differs
            raise error

    def take_members(self, result: Result) -> None:
        """The contributors of a reduction are the members of the next one."""
        self.contributors = self.members = result.contributors
        self.world = result.world_size
