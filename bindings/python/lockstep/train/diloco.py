"""DiLoCo: blocking, or with the reduction of a round in the background of the next one."""

from __future__ import annotations

from typing import Any, Literal

import torch

from ..types import WireFormat, WireFormatName
from .flat import Fragment
from .local_updates import LocalUpdates
from .outer import SGD, Nesterov, OuterOptimizer
from .pipeline import Pieces
from .strategy import Reduction, Run, Wire


class DiLoCo(LocalUpdates):
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
    The other arguments are those of LocalSGD. Momentum needs memory for one more float32 copy of the parameters, and so
    does an overlap.
    Raises ValueError, TypeError.

    Example:
        >>> with DiLoCo(run, model, optimizer, inner_steps=100, wire="int8") as sync:
        ...     while sync.inner_step < 10_000:
        ...         loss(model).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         info = sync.step()
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
        outer: OuterOptimizer | None = None,
        overlap: Literal["outer", "eager"] | None = None,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        if overlap not in (None, "outer", "eager"):
            raise ValueError(f"overlap is {overlap!r}; allowed: None, 'outer', 'eager'")
        outer = (SGD(0.7) if overlap else Nesterov()) if outer is None else outer
        rate = outer.settings().get("outer_lr") if isinstance(outer, OuterOptimizer) else None
        if overlap == "eager" and rate is None:
            raise ValueError("overlap is 'eager', which needs a rate; allowed: an outer optimizer with an 'outer_lr'")
        self._overlap = overlap
        self._rate = rate or 0.0
        self._in_flight: Reduction | None = None
        self._has_newcomers = False
        self._has_applied = False  # an outer step since the last step()
        super().__init__(
            run,
            model,
            inner,
            inner_steps=inner_steps,
            outer=outer,
            wire=wire,
            minimum_world=minimum_world,
            check_every=check_every,
        )

    def wait(self) -> None:
        """Waits for the reduction in flight, and makes its outer step; see Strategy.wait()."""
        super().wait()
        self._settle()

    # ---- the engine ----

    def _make_fragments(self) -> list[Fragment]:
        feedback, keeps_begin = self._wire.error_feedback, self._overlap is not None
        return [Fragment(self._named, self._outer, error_feedback=feedback, keeps_begin=keeps_begin)]

    def _make_pieces(self) -> Pieces | None:
        return None if self._overlap is not None else super()._make_pieces()

    def _settings(self) -> dict[str, float]:
        overlap = {None: 0, "outer": 1, "eager": 2}[self._overlap]
        return {**super()._settings(), "overlap (0: None, 1: outer, 2: eager)": overlap}

    @property
    def _publishes(self) -> bool:
        return self._overlap is None and super()._publishes

    def _enter(self) -> None:
        self._in_flight = None
        self._has_newcomers = self._has_applied = False
        super()._enter()
        if (
            self._starts_next and self._overlap is not None
        ):  # a newcomer takes part in the round that begins, with nothing
            (fragment,) = self._fragments
            self._launch(self._observation_of(fragment))

    def _store(self) -> None:
        for fragment in self._fragments:
            if fragment.begin is None:
                fragment.store(fragment.theta)
            else:
                fragment.begin_at()

    def _after_inner_step(self) -> int | None:
        if self._overlap is None:
            return super()._after_inner_step()
        if self._inner_step % self._inner_steps == 0:
            self._next_round()
        has_applied, self._has_applied = self._has_applied, False
        return 0 if has_applied else None

    def _next_round(self) -> None:
        """Ends the round in flight, and begins to reduce what this peer has learnt since."""
        (fragment,) = self._fragments
        self._settle()
        fragment.measure()
        self._boundary = self._inner_step
        self._starts_next = True
        self._end_draws()
        self._average_buffers()
        has_newcomers, self._has_newcomers = self._has_newcomers, False
        self._admit(has_newcomers)
        fragment.begin_at(self._rate if self._overlap == "eager" else 0.0, self._world)
        reduction = self._reduction_of(fragment)
        reduction.weight = 1.0 if reduction.weight is None else reduction.weight
        self._launch(reduction)

    def _launch(self, reduction: Reduction) -> None:
        self._begin(reduction, self._wire, in_background=True)
        self._in_flight = reduction

    def _settle(self) -> None:
        """Waits for the reduction in flight, and makes its outer step."""
        if self._in_flight is None:
            return
        reduction, self._in_flight = self._in_flight, None
        with torch.no_grad():
            self._end(reduction, self._wire)
        self._has_newcomers = reduction.has_newcomers and not reduction.is_void
        if not reduction.is_void:
            self._fragments[0].step()
            self._outer_step += 1
            self._has_applied = True
