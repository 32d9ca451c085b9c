"""Streaming DiLoCo: fragments of the model are reduced one after the other, while training goes on."""

from __future__ import annotations

from typing import Any

import torch

from ..types import WireFormat, WireFormatName
from .checked import number, whole_number
from .flat import Fragment, Scratch
from .fragments import Cut, by_block, fragments_of
from .local_updates import LocalUpdates
from .outer import Nesterov, OuterOptimizer
from .strategy import Reduction, Run, Wire

_WIRE = Wire("e3m0", "int8")


class StreamingDiLoCo(LocalUpdates):
    """DiLoCo by fragments: every inner_steps / (number of fragments) steps the next fragment is reduced, in turn.

        tau steps later:  the outer step of the fragment;  theta_m = alpha * theta_m + (1 - alpha) * theta

    Peak traffic is that of one fragment, and tau steps hide its time. A. Douillard et al., "Streaming DiLoCo with
    overlapping communication: Towards a Distributed Free Lunch", 2025.

    inner_steps: steps from one reduction of a fragment to its next; a multiple of the number of fragments.
    fragments: how the model is cut: by_block(), by_bytes(), or a function from the model to lists of names.
    tau: steps from the begin of a reduction to its end, at least 0, less than inner_steps / (number of fragments).
    alpha: what remains of the model's own parameters, 0 to 1.
    outer: an OuterOptimizer; default: Nesterov(0.4, 0.9).
    wire: default: e3m0 (4 bits) up, int8 down.
    The other arguments are those of LocalSGD. Newcomers enter when a reduction has ended; none is in flight then.
    outer_step counts the reductions of fragments. The models of peers differ between outer steps; theta does not.
    Raises ValueError, TypeError.

    Example:
        >>> sync = StreamingDiLoCo(run, model, optimizer, inner_steps=100, fragments=by_block(3), tau=5)
    """

    def __init__(
        self,
        run: Run,
        model: Any,
        inner: Any,
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
        self._cut = by_block() if fragments is None else fragments
        self._tau = whole_number(tau, "tau", 0)
        self._alpha = alpha
        self._in_flight: Reduction | None = None
        self._flying = 0  # number of the fragment in flight, or just settled
        self._mixes = False  # the fragment waits for its place in the model
        self._has_newcomers = False
        super().__init__(
            run,
            model,
            inner,
            inner_steps=inner_steps,
            outer=Nesterov(0.4, 0.9) if outer is None else outer,
            wire=wire,
            check_every=check_every,
        )
        count = len(self._fragments)
        if inner_steps % count:
            raise ValueError(f"inner_steps is {inner_steps}, with {count} fragments; allowed: a multiple")
        self._period = inner_steps // count
        if not 0 <= tau < self._period:
            raise ValueError(
                f"tau is {tau}, with {count} fragments in {inner_steps} steps; allowed: 0 to {self._period - 1}"
            )

    def wait(self) -> None:
        """Waits for the fragment in flight, and makes its outer step; see Strategy.wait()."""
        super().wait()
        self._settle()

    # ---- the engine ----

    @property
    def _round_steps(self) -> int:
        return self._period

    def _make_fragments(self) -> list[Fragment]:
        feedback = self._wire.error_feedback
        cut = fragments_of(self._cut, self._model, self._named)
        scratch = Scratch()  # one fragment at a time is reduced
        return [Fragment(named, self._outer, error_feedback=feedback, scratch=scratch) for named in cut]

    def _settings(self) -> dict[str, float]:
        return {**super()._settings(), "tau": self._tau}

    def _enter(self) -> None:
        self._in_flight = None
        self._mixes = self._has_newcomers = False
        super()._enter()

    def _after_inner_step(self) -> int | None:
        applied = None
        if self._tau and self._inner_step % self._period == self._tau and self._mixes:
            applied = self._apply()
        if self._inner_step % self._period == 0:
            self._flying = (self._inner_step // self._period - 1) % len(self._fragments)
            fragment = self._fragments[self._flying]
            fragment.measure()
            self._in_flight = self._reduction_of(fragment, self._flying)
            self._begin(self._in_flight, self._wire, in_background=True)
            self._mixes = True
            self._end_draws()
            if self._tau:
                self._deal(self._inner_step)
            else:
                applied = self._apply()
        return applied

    def _apply(self) -> int:
        """The outer step of the fragment in flight; the model takes its part, and newcomers enter."""
        self._settle()
        self._mixes = False
        self._boundary = self._inner_step
        self._average_buffers()
        has_newcomers, self._has_newcomers = self._has_newcomers, False
        self._admit(has_newcomers)
        self._fragments[self._flying].mix(self._alpha)
        return self._flying

    def _settle(self) -> None:
        """Waits for the fragment in flight, and makes its outer step."""
        if self._in_flight is None:
            return
        reduction, self._in_flight = self._in_flight, None
        with torch.no_grad():
            self._end(reduction, self._wire)
            self._has_newcomers = reduction.has_newcomers
            self._fragments[self._flying].step()
        self._outer_step += 1
