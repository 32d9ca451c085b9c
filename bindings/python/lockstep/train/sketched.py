"""SketchedSGD: peers reduce a random sketch of their progress, which is smaller than the progress."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _lockstep as native
from ..types import WireFormat, WireFormatName
from .checked import number, whole_number
from .codec.sketch import CHUNK, Sketch
from .flat import Fragment
from .host_parameters import HeldModel
from .local_updates import LocalUpdates
from .outer import SGD
from .strategy import GRADIENT_TAG, Reduction, Run, Wire

_PIECE = 64 * CHUNK  # elements that are measured or applied at once: they stay in the cache


class SketchedSGD(LocalUpdates):
    """Trains alone for inner_steps steps, then takes an outer step along the average sketch of all peers' progress.

        theta = theta - outer_lr * unsketch(average of sketch(theta - theta_m))

    The sketch is `ratio` times smaller than the model. Its hash functions are fresh in every outer step and equal on
    all peers. The outer step adds noise of mean 0 whose squares are some `ratio` times those of the progress; where
    training becomes unstable, take a smaller ratio or outer_lr. Z. Song et al., "Sketching for First Order Method:
    Efficient Algorithm for Low-Bandwidth Channel and Vulnerability", 2022. A sketch hides no data.

    ratio: elements per bucket, at least 1; equal on all peers. An outer step sends the bytes of LocalSGD divided by it.
    outer_lr: rate of the outer step.
    wire: a lockstep.train.Wire without error feedback, or a wire format for both ways.
    seed: of the hash functions, 0 to 2**53; equal on all peers.
    The other arguments are those of LocalSGD. The progress of a world of one is sketched, too.
    Raises ValueError, TypeError.

    Example:
        >>> with SketchedSGD(run, model, optimizer, inner_steps=20, ratio=10, wire="int8") as sync:
        ...     while sync.inner_step < 1000:
        ...         loss(model).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         sync.step()
    """

    def __init__(
        self,
        run: Run,
        model: Any,
        inner: Any,
        *,
        inner_steps: int = 20,
        ratio: float = 10,
        outer_lr: float = 1.0,
        wire: Wire | WireFormat | WireFormatName = "native",
        seed: int = 0,
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        self._ratio = number(ratio, "ratio", f"1 to {CHUNK}")
        if not 1 <= self._ratio <= CHUNK:
            raise ValueError(f"ratio is {ratio}; allowed: 1 to {CHUNK}")
        self._seed = whole_number(seed, "seed", 0)
        self._is_stored = False  # the model has the shared parameters
        outer = SGD(outer_lr)
        self._outer_lr = outer.lr
        if Wire.of(wire).error_feedback:
            raise ValueError("wire has error_feedback, but what one sketch has lost fits no other; allowed: without")
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
        pinned = any(parameter.device.type == "cuda" for _, parameter in self._named)
        self._sketch = Sketch(self._fragments[0].theta.size, self._ratio, self._seed, pinned)

    # ---- the engine ----

    def _settings(self) -> dict[str, float]:
        return {**super()._settings(), "ratio": self._ratio, "seed": self._seed}

    def _after_inner_step(self) -> int | None:
        if self._inner_step % self._inner_steps:
            return None
        (fragment,) = self._fragments
        self._is_stored = False
        self._end_round(fragment, self._reduction_of(fragment))
        if not self._is_stored:
            fragment.store(fragment.theta)
        return 0

    def _sync(self) -> None:
        super()._sync()
        self._is_stored = False

    def _reduction_of(self, fragment: Fragment, number: int = 0) -> Reduction:
        held, theta = HeldModel(fragment), fragment.theta
        progress = np.empty(min(_PIECE, theta.size), np.float32)
        for begin in range(0, theta.size, _PIECE):
            piece = slice(begin, min(begin + _PIECE, theta.size))
            for part, now in held.overlaps(piece):
                native.difference(progress[part.start - begin : part.stop - begin], theta[part], now)
            self._sketch.take(progress[: piece.stop - begin], self._outer_step, begin)
        weight, self._weight = self._weight, None
        return Reduction([self._sketch.buckets], weight, GRADIENT_TAG + number, None)

    def _step_of(self, fragment: Fragment, reduction: Reduction) -> None:
        held, theta = HeldModel(fragment), fragment.theta
        lr = float(np.float32(self._outer_lr))
        average = np.empty(min(_PIECE, theta.size), np.float32)
        for begin in range(0, theta.size, _PIECE):
            piece = slice(begin, min(begin + _PIECE, theta.size))
            self._sketch.give(average[: piece.stop - begin], self._outer_step, begin)
            for part, now in held.overlaps(piece, reads=held.can_be_stored):
                step = average[part.start - begin : part.stop - begin]
                native.sgd_step(theta[part], step, lr, now if held.can_be_stored else None)
        self._is_stored = held.can_be_stored
