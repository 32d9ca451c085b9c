"""SketchedSGD: peers reduce a random sketch of their progress, which is smaller than the progress."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _lockstep as native
from ..types import WireFormat, WireFormatName
from ._checked import number, whole_number
from ._flat import Fragment, zeros
from ._held import HeldModel
from ._local_updates import LocalUpdates
from ._outer import SGD, Floats
from ._philox import halves
from ._strategy import GRADIENT_TAG, Reduction, Run, Wire

CHUNK = 4096  # elements that share buckets
_PIECE = 64 * CHUNK  # elements that are measured or applied at once: they stay in the cache


class Sketch:
    """A count-sketch: every element is added, with a random sign, to a random bucket of its chunk.

    M. Charikar, K. Chen, M. Farach-Colton, "Finding Frequent Items in Data Streams", 2002. A sketch is linear: the
    sketch of an average is the average of the sketches. Taking back what was sketched gives each element plus noise of
    mean 0, with a variance of the squares of its chunk divided by the chunk's buckets. Chunks of 4096 elements keep the
    noise of large elements in their part of the model.

    count: number of elements. ratio: elements of a chunk per bucket, at least 1.
    buckets: the sketch, float32.
    seed: equal on all peers. turn: number of the sketch: the hash functions of every turn are fresh.
    """

    def __init__(self, count: int, ratio: float, seed: int, pinned: bool = False) -> None:
        whole, rest = divmod(count, CHUNK)
        each, last = (int(-(-elements // ratio)) for elements in (CHUNK, rest))
        self._hash = native.SketchHash(count, each, last, halves(seed))
        self.buckets = zeros(whole * each + last, pinned)

    def take(self, values: Floats, turn: int, first: int = 0) -> None:
        """Sets the buckets to the sketch of values, of all elements or of whole chunks from element `first` on.

        The values are added to their buckets one after the other, in the order of the elements, as float64; a sum is
        rounded to float32 at its end. So the same values give the same bits on every CPU.
        """
        self._hash.sketch(turn, first, values, self.buckets)

    def give(self, values: Floats, turn: int, first: int = 0) -> None:
        """Sets values, as in take(), to what the buckets say about them. The signs are exact: nothing is rounded."""
        self._hash.unsketch(turn, first, values, self.buckets)


class SketchedSGD(LocalUpdates):
    """Trains alone for inner_steps steps, then takes an outer step along the average sketch of all peers' progress.

        theta = theta - outer_lr * unsketch(average of sketch(theta - theta_m))

    The sketch is `ratio` times smaller than the model. Its hash functions are fresh in every outer step and equal on
    all peers. The outer step adds noise of mean 0 whose squares are some `ratio` times those of the progress; where
    training becomes unstable, take a smaller ratio or outer_lr. Z. Song et al., "Sketching for First Order Method:
    Efficient Algorithm for Low-Bandwidth Channel and Vulnerability", 2022. A sketch hides no data.

    ratio: elements per bucket, at least 1; equal on all peers. An outer step sends the bytes of LocalSGD divided by it.
    outer_lr: rate of the outer step.
    wire: a lockstep.torch.Wire without error feedback, or a wire format for both ways.
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
