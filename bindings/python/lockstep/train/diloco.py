"""DiLoCo: blocking, or with the reduction of a round in the background of the next one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch

from .._arguments import shown
from ..types import WireFormat, WireFormatName
from .agreement import Setting
from .average_rounds import AverageRounds, BackgroundRounds
from .outer import SGD, Nesterov, OuterOptimizer
from .run_loop import Run
from .strategy import Strategy
from .training import Parts
from .wire import Wire

_OVERLAP = "overlap (0: None, 1: outer, 2: eager)"  # the name of the setting


class DiLoCo(Strategy):
    """Trains alone for inner_steps steps, then takes an outer step along the average progress of all peers.

        gradient = average of (theta - theta_m)
        v = momentum * v + gradient;  theta = theta - lr * (gradient + momentum * v)        with Nesterov(lr, momentum)

    A. Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", 2023.

    outer: an OuterOptimizer; its momentum is part of the shared state. Default: Nesterov(0.7, 0.9); with an overlap
        SGD(0.7), because momentum on late gradients diverges.
    overlap: None: an outer step waits for its reduction.
        "outer": the reduction of a round goes on during the next round, and its outer step comes at the end of that: no
        peer waits unless a reduction takes longer than a round. In the first round nothing is applied.
        "eager": the same, and each peer begins the next round with its own share of its own progress at once: at
        theta - lr * progress / (number of members). Then the models of peers differ on purpose; theta does not. S. Kale
        et al., "Eager Updates For Overlapped Communication and Computation in DiLoCo", 2025.
        With an overlap all contributions have weights (default 1): a newcomer takes part in the round that begins when
        it enters, with weight 0.
    inner_steps: steps from one outer step to the next; equal on all peers.
    wire: a lockstep.train.Wire, or a wire format for both ways.
    run, model, inner, minimum_world, check_every: a run or None, the module, its optimizer or several, a least number
        of members, and outer steps between two comparisons of hashes; LocalSGD tells more.
    Memory: that of LocalSGD; momentum needs one more float32 copy of the parameters, and so does an overlap.
    Raises ValueError, TypeError.

    Example:
        >>> with DiLoCo(run, model, optimizer, inner_steps=100, wire="int8") as strategy:
        ...     while strategy.inner_step < 10_000:
        ...         loss(model).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         info = strategy.step()
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        inner_steps: int = 100,
        outer: OuterOptimizer | None = None,
        overlap: Literal["outer", "eager"] | None = None,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        if overlap not in (None, "outer", "eager"):
            raise ValueError(f"overlap is {shown(overlap)}; allowed: None, 'outer', 'eager'")
        outer = (SGD(0.7) if overlap else Nesterov()) if outer is None else outer
        rate = outer.settings().get("outer_lr") if isinstance(outer, OuterOptimizer) else None
        if overlap == "eager" and rate is None:
            raise ValueError("overlap is 'eager', which needs a rate; allowed: an outer optimizer with an 'outer_lr'")
        parts = Parts(run, model, inner, minimum_world, check_every)
        if overlap is None:
            super().__init__(
                _BlockingRounds(parts, inner_steps, outer, Wire.of(wire), fetches_ahead=True, in_pieces=True)
            )
        else:
            share = float(rate or 0.0) if overlap == "eager" else None
            super().__init__(_OverlappedRounds(parts, inner_steps, outer, Wire.of(wire), share))


class _BlockingRounds(AverageRounds):
    """Rounds without an overlap, which a peer with one must not join."""

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), _OVERLAP: 0}


class _OverlappedRounds(BackgroundRounds):
    """Each reduction goes on during the next round.

    eager_rate: rate of the step that a peer makes at once along its own share of its own progress; None without.
    """

    def __init__(
        self, parts: Parts, inner_steps: int, outer: OuterOptimizer, wire: Wire, eager_rate: float | None
    ) -> None:
        super().__init__(parts, inner_steps, outer, wire, keeps_begin=True)
        self._eager_rate = eager_rate

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), _OVERLAP: 1 if self._eager_rate is None else 2}

    def enter(self) -> None:
        """See Training."""
        super().enter()
        if self.starts_next:  # a newcomer takes part in the round that begins, with nothing
            self.launch(self.observation_of(self.model.whole))

    def after_inner_step(self) -> int | None:
        """See LocalRounds."""
        if self.loop.inner_step % self.inner_steps == 0:
            self._next_round()
        has_applied, self.has_applied = self.has_applied, False
        return 0 if has_applied else None

    def _next_round(self) -> None:
        """Ends the round in flight, and begins to reduce what this peer has learnt since."""
        self.wait()
        average = self.average_of(self.model.whole)
        average.weight = 1.0 if average.weight is None else average.weight
        self.boundary = self.loop.inner_step
        self.starts_next = True
        self.loop.samplers.end_round()
        self.loop.average_buffers()
        self.admit()
        self.model.whole.begin_at(self._eager_rate or 0.0, self.loop.world)
        self.launch(average)
