"""Random sketches of arrays: linear, smaller than the array, and equal bit for bit on every CPU."""

from __future__ import annotations

from ... import _lockstep as native
from ..arrays import Floats, zeros
from .philox import halves

CHUNK = 4096  # elements that share buckets


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
