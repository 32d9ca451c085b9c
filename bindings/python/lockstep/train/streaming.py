"""Streaming DiLoCo: fragments of the model are reduced one after the other, while training goes on."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..types import WireFormat, WireFormatName
from .agreement import Setting
from .average_rounds import BackgroundRounds
from .checked import number, whole_number
from .fragments import Cut, by_block
from .outer import Nesterov, OuterOptimizer
from .run_loop import Run
from .strategy import Strategy
from .training import Parts
from .wire import Wire

_WIRE = Wire("e3m0", "int8")


class StreamingDiLoCo(Strategy):
    """DiLoCo by fragments: every inner_steps / (number of fragments) steps the next fragment is reduced, in turn.

        tau steps later:  the outer step of the fragment;  theta_m = alpha * theta_m + (1 - alpha) * theta

    Peak traffic is that of one fragment, and tau steps hide its time. A. Douillard et al., "Streaming DiLoCo with
    overlapping communication: Towards a Distributed Free Lunch", 2025.

    inner_steps: steps from one reduction of a fragment to its next; a multiple of the number of fragments.
    fragments: how the model is cut: by_block(), by_bytes(), or a function from the model to lists of names. Default:
        by_block().
    tau: steps from the begin of a reduction to its end, at least 0, less than inner_steps / (number of fragments).
    alpha: what remains of the model's own parameters, 0 to 1.
    outer: an OuterOptimizer; default: Nesterov(0.4, 0.9).
    wire: default: e3m0 (4 bits) up, int8 down.
    run, model, inner, check_every: a run or None, the module, its optimizer or several, and outer steps between two
        comparisons of hashes; LocalSGD tells more.
    Newcomers enter when a reduction has ended; none is in flight then.
    outer_step counts the reductions of fragments. The models of peers differ between outer steps; theta does not.
    Raises ValueError, TypeError.

    Example:
        >>> strategy = StreamingDiLoCo(run, model, optimizer, inner_steps=100, fragments=by_block(3), tau=5)
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        inner_steps: int = 100,
        fragments: Cut | None = None,
        tau: int = 1,
        alpha: float = 0.5,
        outer: OuterOptimizer | None = None,
        wire: Wire | WireFormat | WireFormatName = _WIRE,
        check_every: int = 10,
    ) -> None:
        if not 0 <= number(alpha, "alpha", "0 to 1") <= 1:
            raise ValueError(f"alpha is {alpha}; allowed: 0 to 1")
        tau = whole_number(tau, "tau", 0)
        parts = Parts(run, model, inner, 0, check_every)
        cut = by_block() if fragments is None else fragments
        outer = Nesterov(0.4, 0.9) if outer is None else outer
        super().__init__(_StreamedRounds(parts, inner_steps, outer, Wire.of(wire), cut, tau, alpha))


class _StreamedRounds(BackgroundRounds):
    """Rounds in each of which every fragment has its turn."""

    def __init__(
        self,
        parts: Parts,
        inner_steps: int,
        outer: OuterOptimizer,
        wire: Wire,
        cut: Cut,
        tau: int,
        alpha: float,
    ) -> None:
        super().__init__(parts, inner_steps, outer, wire, cut=cut)
        self._tau = tau
        self._alpha = alpha
        self._mixes = False  # the fragment waits for its place in the model
        count = len(self.model.fragments)
        if inner_steps % count:
            raise ValueError(f"inner_steps is {inner_steps}, with {count} fragments; allowed: a multiple")
        self._period = self.loop.samplers.round_steps = inner_steps // count
        if not 0 <= tau < self._period:
            raise ValueError(
                f"tau is {tau}, with {count} fragments in {inner_steps} steps; allowed: 0 to {self._period - 1}"
            )

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), "tau": self._tau}

    def enter(self) -> None:
        """See Training."""
        self._mixes = False
        super().enter()

    def after_inner_step(self) -> int | None:
        """See LocalRounds."""
        loop, applied = self.loop, None
        if self._tau and loop.inner_step % self._period == self._tau and self._mixes:
            applied = self._apply()
        if loop.inner_step % self._period == 0:
            number = (loop.inner_step // self._period - 1) % len(self.model.fragments)
            self.launch(self.average_of(self.model.fragments[number], number), number)
            self._mixes = True
            loop.samplers.end_round()
            if self._tau:
                loop.allocate_samples(loop.inner_step)
            else:
                applied = self._apply()
        return applied

    def _apply(self) -> int:
        """The outer step of the fragment in flight; the model takes its part, and newcomers enter."""
        self.wait()
        self._mixes = False
        self.boundary = self.loop.inner_step
        self.loop.average_buffers()
        self.admit()
        self.model.fragments[self.flying].mix(self._alpha)
        return self.flying
