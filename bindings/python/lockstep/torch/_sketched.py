"""SketchedSGD: peers reduce a random sketch of their progress, which is smaller than the progress."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..types import WireFormat, WireFormatName
from ._checked import number, whole_number
from ._flat import Fragment, zeros
from ._local_updates import LocalUpdates
from ._outer import SGD, Floats, blocks, exact
from ._philox import WORDS, Words, halves, philox
from ._strategy import GRADIENT_TAG, Reduction, Run, Wire

CHUNK = 4096  # elements that share buckets
_PER_COUNTER = 2 * WORDS  # elements that one counter of Philox serves: 16 bits each
_STREAM = 1  # last word of the counters


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
        self._count = count
        self._ratio = ratio
        self._key = halves(seed)
        whole, rest = divmod(count, CHUNK)
        self.buckets = zeros(whole * self._buckets_of(CHUNK) + self._buckets_of(rest), pinned)

    def take(self, values: Floats, turn: int) -> None:
        """Sets the buckets to the sketch of `count` values.

        np.bincount adds the values to their buckets one after the other, in the order of the elements, as float64; a
        sum is rounded to float32 at its end. So the same values give the same bits on every CPU.
        """
        with exact():
            for part, into, size in self._parts():
                places, signs = self._hashes(part, size, turn)
                signed = (values[part].view(np.uint32) ^ signs).view(np.float32)
                self.buckets[into] = np.bincount(places, signed, into.stop - into.start)

    def give(self, values: Floats, turn: int) -> None:
        """Sets `count` values to what the buckets say about them: the signs are exact, and nothing is rounded."""
        with exact():
            for part, into, size in self._parts():
                places, signs = self._hashes(part, size, turn)
                np.bitwise_xor(self.buckets[into][places].view(np.uint32), signs, out=values[part].view(np.uint32))

    def _buckets_of(self, elements: int) -> int:
        return int(-(-elements // self._ratio))

    def _parts(self) -> list[tuple[slice, slice, int]]:
        """Elements, their buckets, and the number of buckets of each of their chunks."""
        whole = self._count // CHUNK * CHUNK
        size, rest = self._buckets_of(CHUNK), self._buckets_of(self._count - whole)
        parts = [(part, slice(part.start // CHUNK * size, part.stop // CHUNK * size), size) for part in blocks(whole)]
        if rest:
            parts.append((slice(whole, self._count), slice(self.buckets.size - rest, self.buckets.size), rest))
        return parts

    def _hashes(self, part: slice, size: int, turn: int) -> tuple[NDArray[np.intp], Words]:
        """For each element of a part its bucket, counted from the first of the part, and the sign bit of a float32."""
        count = part.stop - part.start
        counters = -(-count // _PER_COUNTER)
        words = philox(part.start // _PER_COUNTER, counters, (*halves(turn), _STREAM), self._key)
        bits = words.astype("<u4").view("<u2")[:count].astype(np.uint32)  # the lower half of a word comes first
        places = ((bits >> np.uint32(1)) * np.uint32(size) >> np.uint32(15)).astype(np.intp)
        for chunk, begin in enumerate(range(CHUNK, count, CHUNK), 1):
            places[begin : begin + CHUNK] += chunk * size
        return places, bits << np.uint32(31)


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
        if Wire.of(wire).error_feedback:
            raise ValueError("wire has error_feedback, but what one sketch has lost fits no other; allowed: without")
        super().__init__(
            run,
            model,
            inner,
            inner_steps=inner_steps,
            outer=SGD(outer_lr),
            wire=wire,
            minimum_world=minimum_world,
            check_every=check_every,
        )
        pinned = any(parameter.device.type == "cuda" for _, parameter in self._named)
        self._sketch = Sketch(self._fragments[0].gradient.size, self._ratio, self._seed, pinned)

    # ---- the engine ----

    def _settings(self) -> dict[str, float]:
        return {**super()._settings(), "ratio": self._ratio, "seed": self._seed}

    def _reduction_of(self, fragment: Fragment, number: int = 0) -> Reduction:
        self._sketch.take(fragment.gradient, self._outer_step)
        weight, self._weight = self._weight, None
        return Reduction([self._sketch.buckets], weight, GRADIENT_TAG + number, None)

    def _step_of(self, fragment: Fragment, reduction: Reduction) -> None:
        self._sketch.give(fragment.gradient, self._outer_step)
        super()._step_of(fragment, reduction)
