"""Rounds whose outer step goes along the average of all peers' progress, by one all-reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .._arguments import shown
from .._lockstep import Work
from . import pipeline, tags
from .agreement import Setting
from .average_call import AverageCall
from .flat import Fragment, Scratch
from .fragments import Cut, fragments_of
from .local_rounds import LocalRounds
from .outer import OuterOptimizer, steps_into
from .pieces import PieceByPiece
from .training import Parts
from .wire import Wire


class AverageRounds(LocalRounds):
    """Inner steps, one all-reduce of the progress, an outer step: LocalSGD, FedAvg, DiLoCo and more.

    outer: makes the outer step. wire: how the progress travels.
    fetches_ahead: whether newcomers may fetch the state while members train. Nothing that is shared may change from an
        outer step to the next reduction then, and a reduction may have observers.
    in_pieces: whether an outer step may be made in pieces: nothing looks at the progress as a whole.
    keeps_begin: see Fragment.begin. cut: into fragments; default: one of all parameters.
    """

    def __init__(
        self,
        parts: Parts,
        inner_steps: int,
        outer: OuterOptimizer,
        wire: Wire,
        *,
        fetches_ahead: bool = False,
        in_pieces: bool = False,
        keeps_begin: bool = False,
        cut: Cut | None = None,
    ) -> None:
        super().__init__(parts, inner_steps)
        if not isinstance(outer, OuterOptimizer):
            raise TypeError(
                f"outer is {shown(outer)}; allowed: an OuterOptimizer, such as Nesterov(0.7, 0.9) or SGD(0.7)"
            )
        self.outer = outer
        self.wire = wire
        groups = [self.model.named] if cut is None else fragments_of(cut, self.model.module, self.model.named)
        feedback, scratch = wire.error_feedback, Scratch()  # one fragment at a time is reduced
        self.model.fragments = [
            Fragment(named, outer, error_feedback=feedback, keeps_begin=keeps_begin, scratch=scratch)
            for named in groups
        ]
        count = sum(fragment.theta.size for fragment in self.model.fragments)
        # Small models go as a whole, and so does error feedback. The shards of a Replica must begin equal calls.
        goes_in_pieces = in_pieces and self.loop.replica is None and not feedback and count > pipeline.SMALL
        goes_in_pieces = goes_in_pieces and steps_into(outer) is not None
        self.pieces = PieceByPiece(self.loop, count) if goes_in_pieces else None
        self._fetches_ahead = fetches_ahead
        self._admits_next = False  # newcomers are admitted at the end of this round, before its reduction

    # ---- what the loop and the strategy ask for ----

    @property
    def publishes(self) -> bool:
        """See SharedTraining."""
        return self._fetches_ahead and self.loop.replica is None

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), **self.outer.settings(), **self.wire.settings("wire")}

    def on_admitted(self) -> None:
        """See LocalRounds."""
        if self.publishes:
            self.end_round(self.model.whole, self.observation_of(self.model.whole))

    def detach(self) -> None:
        """See Training."""
        self._admits_next = False

    def left_behind(self) -> Sequence[Work]:
        """See Training."""
        return () if self.pieces is None else self.pieces.left_behind()

    # ---- rounds ----

    def after_inner_step(self) -> int | None:
        """See LocalRounds."""
        loop = self.loop
        if loop.inner_step % self.inner_steps:
            return None
        fragment = self.model.whole
        average = self.average_of(fragment)
        if loop.run is not None and self._admits_next:
            self._admits_next = False
            loop.average_buffers()  # before they are shared
            loop.buffers.keep()
            self.starts_next = True
            loop.publication.wait(loop.run.admit_async())
            loop.sync()
            loop.publication.withdraw()
            if not self.starts_next:  # the state of a newcomer has won: this round made progress from another one
                loop.inner_step = self.boundary
                self.model.store()
                return None
            average.weight = 1.0 if average.weight is None else average.weight
        before = loop.outer_step
        if not self.end_round(fragment, average):
            self.model.store()
        self.model.is_stored = False
        return 0 if loop.outer_step != before else None

    def end_round(self, fragment: Fragment, average: AverageCall) -> bool:
        """The reduction, the outer step, and the admission of newcomers; members and observers make the same calls.

        Returns whether the model has the shared parameters.
        """
        loop, borrowed = self.loop, None
        if self.pieces is None:
            loop.average(average)
        else:
            borrowed = self.pieces.average(fragment, average, self._begin_anew)
            if borrowed is None:
                loop.inner_step = self.boundary
                return True
        had_newcomers, self.starts_next = self.starts_next, False
        loop.publication.withdraw()
        if not average.is_void:
            if borrowed is None:
                self.step_of(fragment, average)
            else:
                borrowed.step()
            loop.outer_step += 1
            self.boundary += self.inner_steps - self.boundary % self.inner_steps
        loop.inner_step = self.boundary
        if not had_newcomers:
            loop.average_buffers()
        self.after_average(average)
        has_admitted = loop.admit(average.has_newcomers)
        if not has_admitted and average.has_prefetchers:
            self._admits_next = True  # they fetch the state during the next round
            loop.publication.offer(at_once=True)
        return borrowed is not None and not has_admitted

    def _begin_anew(self) -> None:
        """Too few members were left in mid-round: those that come begin a round with the others."""
        self.starts_next = False

    # ---- for those derived from it ----

    def average_of(self, fragment: Fragment, number: int = 0) -> AverageCall:
        """Measures a fragment's progress, for the average of all peers' progress; takes the weight."""
        progress = []
        if self.pieces is None:
            fragment.measure()
            progress = [fragment.gradient]
        return AverageCall(progress, self.take_weight(), self.wire, tags.PROGRESS + number, fragment.residual)

    def observation_of(self, fragment: Fragment) -> AverageCall:
        """A newcomer's part in a reduction that members begin when it enters: nothing, of weight 0."""
        progress = [fragment.gradient] if self.pieces is None else []
        for nothing in progress:
            nothing.fill(0)
        return AverageCall(progress, 0.0, self.wire, tags.PROGRESS, fragment.residual, observes=True)

    def step_of(self, fragment: Fragment, average: AverageCall) -> None:
        """The outer step along an average."""
        fragment.step()

    def after_average(self, average: AverageCall) -> None:
        """Between an outer step and the admission of newcomers."""


class BackgroundRounds(AverageRounds):
    """Rounds whose reduction goes on while the next inner steps are made. flying: number of the fragment in flight.

    in_flight: the reduction; None if there is none. has_newcomers: whether the last one has told of newcomers.
    has_applied: whether it has led to an outer step, of which no step() has told yet.
    """

    def __init__(self, parts: Parts, inner_steps: int, outer: OuterOptimizer, wire: Wire, **options: Any) -> None:
        super().__init__(parts, inner_steps, outer, wire, **options)
        self.in_flight: AverageCall | None = None
        self.flying = 0
        self.has_newcomers = False
        self.has_applied = False

    def enter(self) -> None:
        """See Training."""
        self.in_flight = None
        self.has_newcomers = self.has_applied = False
        super().enter()

    def launch(self, average: AverageCall, number: int = 0) -> None:
        """Begins the reduction of a fragment."""
        self.flying = number
        self.loop.begin(average)
        self.in_flight = average

    def wait(self) -> None:
        """Waits for the reduction in flight, and makes its outer step; see Strategy.wait()."""
        if self.in_flight is None:
            return
        average, self.in_flight = self.in_flight, None
        with torch.no_grad():
            self.loop.end(average)
            self.has_newcomers = average.has_newcomers
            if not average.is_void:
                self.model.fragments[self.flying].step()
                self.loop.outer_step += 1
                self.has_applied = True

    def admit(self) -> None:
        """Newcomers enter, if the last reduction has told of some."""
        has_newcomers, self.has_newcomers = self.has_newcomers, False
        self.loop.admit(has_newcomers)
