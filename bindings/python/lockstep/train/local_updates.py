"""Strategies that train alone, then average what the peers have learnt: their engine, LocalSGD, FedAvg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._lockstep import Result, Work
from ..errors import BelowMinimum, InvalidArgument
from ..state import State
from ..types import WireFormat, WireFormatName
from . import pipeline
from .arrays import Floats
from .checked import check_state, check_tensors, sampler_states_of, weight_of, whole_number
from .flat import Borrowed, Fragment, HostTensors
from .outer import SGD, OuterOptimizer, steps_into
from .pipeline import Flight, Pieces
from .strategy import (
    GRADIENT_TAG,
    Reduction,
    Run,
    StepInfo,
    Strategy,
    Wire,
    copies_of,
    rest_of,
    take_copies,
)

_STATE = {"parameters": Mapping, "momentum": Mapping, "model": Mapping, "inner_step": int, "outer_step": int}


class LocalUpdates(Strategy):
    """The engine of DiLoCo, FedAvg and LocalSGD: inner steps, one all-reduce of the progress, an outer step."""

    # Whether newcomers may fetch the state while members train. Nothing that is shared may change from an outer step to
    # the next reduction then, and a reduction may have observers.
    _fetches_ahead = False
    # Whether an outer step may be made in pieces: the strategy looks at no gradient as a whole.
    _cuts = False

    def __init__(
        self,
        run: Run,
        model: Any,
        inner: Any,
        *,
        inner_steps: int,
        outer: OuterOptimizer,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        super().__init__(run, model, inner, minimum_world=minimum_world, check_every=check_every)
        self._inner_steps = whole_number(inner_steps, "inner_steps", 1)
        if not isinstance(outer, OuterOptimizer):
            raise TypeError(f"outer is {outer!r}; allowed: an OuterOptimizer, such as Nesterov(0.7, 0.9) or SGD(0.7)")
        self._outer = outer
        self._wire = Wire.of(wire)
        self._weight: float | None = None
        self._fragments = self._make_fragments()
        self._pieces = self._make_pieces()
        self._boundary = 0  # inner step of the run to which the shared parameters belong
        self._loaded = False
        self._starts_next = False  # members begin a reduction right after a sync
        self._admits_next = False  # newcomers are admitted at the end of this round, before its reduction

    # ---- what a program uses ----

    def step(self, weight: float | None = None) -> StepInfo:
        """Ends an inner step; each inner_steps-th one is an outer step. See Strategy.step()."""
        self._check_entered()
        if weight is not None:
            self._weight = (self._weight or 0.0) + weight_of(weight)
        self._inner_step += 1
        begin = self._now()
        with torch.no_grad():
            fragment = self._after_inner_step()
            self._offer()
        return self._info(self._now() - begin, fragment is not None, fragment if len(self._fragments) > 1 else None)

    def global_state_dict(self) -> dict[str, Any]:
        """A copy of the shared state; see Strategy.global_state_dict()."""
        state: dict[str, Any] = {
            "parameters": {},
            "momentum": {},
            "model": copies_of(rest_of(self._model, self._named)),
        }
        if not (self._entered or self._loaded):
            self._load_fragments()
        for fragment in self._fragments:
            state["parameters"].update(fragment.tensors(fragment.theta))
            if fragment.momentum is not None:
                state["momentum"].update(fragment.tensors(fragment.momentum))
        positions = [sampler.state() for sampler in self._samplers]
        return {**state, "inner_step": self._boundary, "outer_step": self._outer_step, "samplers": positions}

    def load_global_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a global_state_dict(); see Strategy.load_global_state_dict()."""
        if self._entered:
            raise RuntimeError("load_global_state_dict() comes before the `with` block")
        check_state(state, _STATE)
        for fragment in self._fragments:
            check_tensors(state["parameters"], fragment.names, "parameters")
            if fragment.momentum is not None:
                check_tensors(state["momentum"], fragment.names, "momentum")
        for fragment in self._fragments:
            fragment.take(fragment.theta, state["parameters"])
            if fragment.momentum is not None:
                fragment.take(fragment.momentum, state["momentum"])
        take_copies(rest_of(self._model, self._named), state["model"])
        self._inner_step = self._boundary = int(state["inner_step"])
        self._outer_step = int(state["outer_step"])
        self._sampler_states = sampler_states_of(state)
        self._loaded = True

    # ---- the engine ----

    @property
    def _publishes(self) -> bool:
        return self._fetches_ahead and self._replica is None

    @property
    def _round_steps(self) -> int:
        return self._inner_steps

    def _make_fragments(self) -> list[Fragment]:
        return [Fragment(self._named, self._outer, error_feedback=self._wire.error_feedback)]

    def _make_pieces(self) -> Pieces | None:
        """The pieces of an outer step; None if it is made as a whole, as a small one is.

        The shards of a Replica must begin equal calls, whatever their sizes. Error feedback goes as a whole.
        """
        count = self._fragments[0].theta.size
        cuts = self._cuts and self._replica is None and not self._wire.error_feedback and count > pipeline.SMALL
        return Pieces(count, self._await) if cuts and steps_into(self._outer) is not None else None

    def _settings(self) -> dict[str, float]:
        return {"inner_steps": self._inner_steps, **self._outer.settings(), **self._wire.settings("wire")}

    def _load_fragments(self) -> None:
        with torch.no_grad():
            for fragment in self._fragments:
                fragment.load()

    def _enter(self) -> None:
        if not self._loaded:
            self._load_fragments()
        self._loaded = True  # entered again, a strategy goes on from its state
        self._inner_step = self._boundary
        self._starts_next = False
        with torch.no_grad():
            self._join()
            self._sync()
            if self._starts_next and self._publishes:  # a newcomer enters right before the reduction of a round
                (fragment,) = self._fragments
                self._end_round(fragment, self._observation_of(fragment))
            self._inner_step = self._boundary
            self._store()

    def _whole_state(self) -> tuple[State, Sequence[HostTensors]]:
        rest = rest_of(self._model, self._named)
        rest.fetch()
        entries = {**rest.arrays, **self._shared(), **self._sampler_entries()}
        return State(entries, revision=self._outer_step), [rest]

    def _take_whole_state(self, state: State) -> None:
        self._take_counters(state)
        self._starts_next = False

    def _store(self) -> None:
        """The model begins with the shared parameters."""
        for fragment in self._fragments:
            fragment.store(fragment.theta)

    def _finish(self) -> None:
        self.wait()
        with torch.no_grad():
            self._store()

    def _detach(self) -> None:
        self._admits_next = False

    def _sync(self) -> None:
        rest = rest_of(self._model, self._named)
        rest.fetch()
        entries = {**rest.arrays, **self._shared()}
        state = self._sync_state(entries, self._settings(), revision=self._outer_step)
        rest.give_back()
        self._take_counters(state)
        if not (self._starts_next and self._publishes):  # a newcomer of the last moment draws in the next round
            self._deal(self._boundary)

    def _shared(self) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        for fragment in self._fragments:
            entries.update(fragment.entries())
        return {**entries, **self._counters()}

    def _counters(self) -> dict[str, float]:
        steps = {"inner_step": self._boundary, "outer_step": self._outer_step}
        return {**steps, "starts_next": int(self._starts_next)}

    def _take_counters(self, state: Mapping[str, Any]) -> None:
        self._boundary = int(state["inner_step"])
        self._outer_step = int(state["outer_step"])
        self._starts_next = bool(state["starts_next"])

    def _after_inner_step(self) -> int | None:
        """The number of the fragment that has made an outer step; None if there was none."""
        if self._inner_step % self._inner_steps:
            return None
        (fragment,) = self._fragments
        if self._pieces is None:
            fragment.measure()
        reduction = self._reduction_of(fragment)
        if self._run is not None and self._admits_next:
            self._admits_next = False
            self._average_buffers()  # before they are shared
            self._averaged.keep()
            self._starts_next = True
            self._await(self._run.admit_async())
            self._sync()
            self._withdraw()
            if not self._starts_next:  # the state of a newcomer has won: this round made progress from another one
                self._inner_step = self._boundary
                self._store()
                return None
            reduction.weight = 1.0 if reduction.weight is None else reduction.weight
        before = self._outer_step
        if not self._end_round(fragment, reduction):
            fragment.store(fragment.theta)
        return 0 if self._outer_step != before else None

    def _end_round(self, fragment: Fragment, reduction: Reduction) -> bool:
        """The reduction, the outer step, and the admission of newcomers; members and observers make the same calls.

        Returns whether the model has the shared parameters.
        """
        borrowed = None
        if self._pieces is None:
            self._begin(reduction, self._wire)
        else:
            borrowed = self._average_pieces(self._pieces, fragment, reduction)
            if borrowed is None:
                self._inner_step = self._boundary
                return True
        had_newcomers, self._starts_next = self._starts_next, False
        self._withdraw()
        if not reduction.is_void:
            if borrowed is None:
                self._step_of(fragment, reduction)
            else:
                borrowed.step()
            self._outer_step += 1
            self._boundary += self._inner_steps - self._boundary % self._inner_steps
        self._inner_step = self._boundary
        if not had_newcomers:
            self._average_buffers()
        self._after_reduction(reduction)
        has_admitted = self._admit(reduction.has_newcomers)
        if not has_admitted and reduction.has_prefetchers:
            self._admits_next = True  # they fetch the state during the next round
            self._offer(at_once=True)
        return borrowed is not None and not has_admitted

    def _average_pieces(self, pieces: Pieces, fragment: Fragment, reduction: Reduction) -> Borrowed | None:
        """The average of all peers' progress, piece by piece. Theta and momentum stay as they are, whatever happens.

        When a member is lost, the pieces that follow are averages of the survivors; the contributors are those of all
        pieces. Returns None if too few members were left after some pieces: the others have come, and the round begins
        anew. Raises what a reduction raises; then the model has the shared parameters if it has lost its own.
        """
        while True:
            borrowed = fragment.borrow()
            try:
                self._take_averages(pieces, borrowed, reduction)
            except InvalidArgument:
                if not reduction.observes:
                    self._give_up(pieces, borrowed)
                    raise
                pieces.drain()
                borrowed.restore()
                reduction.is_void = True
            except BelowMinimum:
                if not self._minimum_world:
                    self._give_up(pieces, borrowed)
                    raise
                if not pieces.over:
                    self._wait_for_members()
                    pieces.drain()
                    continue
                borrowed.restore()
                self._starts_next = False
                self._settle_draws(())
                self._wait_for_members()
                pieces.drain()
                return None
            except BaseException:
                self._give_up(pieces, borrowed)
                raise
            self._settle_draws(self._members if self._run is None else reduction.contributors)
            return borrowed

    def _take_averages(self, pieces: Pieces, borrowed: Borrowed, reduction: Reduction) -> None:
        results: list[Result] = []

        def measure(flight: Flight) -> None:
            if reduction.observes:
                flight.given.fill(0)
            else:
                borrowed.measure(flight.given, flight.piece)

        def begin(number: int, flight: Flight) -> Work | None:
            return self._begin_piece(reduction, number, flight, said if number == 0 else None, pieces.is_far)

        said = np.zeros(3, np.float32)  # above 0 after the first piece, if a peer has said: newcomers; prefetchers; far

        for flight, result in pieces.averages(measure, begin):
            if result is not None:
                if results:
                    self._add_traffic(result)
                else:
                    self._take_result(result)
                    reduction.pending[:] = said[:2]
                    if said[2] > 0:
                        pieces.widen()
                results.append(result)
            borrowed.put(flight.taken, flight.piece)
        if results:
            reduction.result = min(results, key=lambda one: len(one.contributors))  # each loss leaves fewer
            self._take_members(reduction.result)

    def _begin_piece(
        self, reduction: Reduction, number: int, flight: Flight, said: Floats | None, is_far: bool
    ) -> Work | None:
        """Begins the call of a piece; with the first one all peers also tell each other what they have seen."""
        if self._run is None:
            return None
        tag = reduction.tag + number % pipeline.FAR
        if said is None:
            return self._begin_average(self._run, reduction, self._wire, flight.given, flight.taken, tag)
        own = np.array([self._sees_newcomers(), self._fetching > 0, is_far], np.float32)
        arrays, out = [flight.given, own], [flight.taken, said]
        with self._watching():
            return self._begin_average(self._run, reduction, self._wire, arrays, out, tag)

    def _give_up(self, pieces: Pieces, borrowed: Borrowed) -> None:
        if pieces.over:
            borrowed.restore()
        self._left_behind += pieces.abandon()

    def _end_gathering(self, has_newcomers: bool) -> None:
        """The end of a round whose outer step is made from gathered blocks: the admission of newcomers."""
        self._settle_draws(self._members)
        self._outer_step += 1
        self._boundary = self._inner_step
        self._average_buffers()
        self._admit(has_newcomers)
        self._store()

    def _after_reduction(self, reduction: Reduction) -> None:
        """Between an outer step and the admission of newcomers."""

    def _reduction_of(self, fragment: Fragment, number: int = 0) -> Reduction:
        """The average of a fragment's gradient; takes the weight since the last one."""
        weight, self._weight = self._weight, None
        gradients = [fragment.gradient] if self._pieces is None else []
        return Reduction(gradients, weight, GRADIENT_TAG + number, fragment.residual)

    def _observation_of(self, fragment: Fragment) -> Reduction:
        """A newcomer's part in a reduction that members begin when it enters: nothing, of weight 0."""
        gradients = [fragment.gradient] if self._pieces is None else []
        for gradient in gradients:
            gradient.fill(0)
        return Reduction(gradients, 0.0, GRADIENT_TAG, fragment.residual, observes=True)

    def _step_of(self, fragment: Fragment, reduction: Reduction) -> None:
        """The outer step along what a reduction has given."""
        fragment.step()


class LocalSGD(LocalUpdates):
    """Averages the parameters of all peers after every inner_steps steps.

        theta = average of theta_m        computed as theta - average of (theta - theta_m)

    run: a lockstep.Communicator, a Replica, or None to train alone.
    model: a module; its parameters that the inner optimizer changes are averaged: float32, bfloat16 or float16, on any
        device. The shared copy is float32, in the memory of the host; an outer step needs up to 64 MiB besides, and one
        more copy for parameters in other types, on a device or not contiguous (docs/strategies.md has a table). Buffers
        are averaged in the outer steps. Newcomers also take over frozen parameters.
    inner: an optimizer of torch, or a list of optimizers; its state is not shared, and a newcomer's begins empty.
    inner_steps: steps from one average to the next; equal on all peers. An outer step sends what one all-reduce of the
        parameters does.
    wire: a lockstep.train.Wire, or a wire format for both ways.
    minimum_world: with fewer members the strategy waits for more; 0: never.
    check_every: every so many outer steps the reduction also compares a hash of the shared state, at one read of the
        state and 8 bytes: if the peers differ, all of them raise Desync. 0: never.
    Raises ValueError, TypeError.

    Example:
        >>> with lockstep.connect("env:LOCKSTEP_COORDINATOR", wait=False) as run:
        ...     with LocalSGD(run, model, optimizer, inner_steps=20) as sync:
        ...         while sync.inner_step < 1000:
        ...             loss(model).backward()
        ...             optimizer.step()
        ...             optimizer.zero_grad()
        ...             sync.step()
    """

    _fetches_ahead = True
    _cuts = True

    def __init__(
        self,
        run: Run,
        model: Any,
        inner: Any,
        *,
        inner_steps: int = 20,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        super().__init__(
            run,
            model,
            inner,
            inner_steps=inner_steps,
            outer=SGD(1.0),
            wire=wire,
            minimum_world=minimum_world,
            check_every=check_every,
        )


class FedAvg(LocalUpdates):
    """Averages the parameters of all peers, weighted by the number of examples that each has seen.

        theta = theta - lr * (sum of n_m * (theta - theta_m)) / (sum of n_m)

    step(weight) needs the number of examples of each inner step. lr: rate of the server; 1 is the plain average. The
    other arguments are those of LocalSGD.
    Raises ValueError, TypeError.
    """

    _fetches_ahead = True
    _cuts = True

    def __init__(
        self,
        run: Run,
        model: Any,
        inner: Any,
        *,
        inner_steps: int = 100,
        lr: float = 1.0,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        super().__init__(
            run,
            model,
            inner,
            inner_steps=inner_steps,
            outer=SGD(lr),
            wire=wire,
            minimum_world=minimum_world,
            check_every=check_every,
        )

    def step(self, weight: float | None = None) -> StepInfo:
        """Ends an inner step. weight: its number of examples, at least 0. Raises ValueError without; see Strategy."""
        if weight is None:
            raise ValueError("FedAvg weighs each peer by its examples: step(weight=number of examples)")
        return super().step(weight)
