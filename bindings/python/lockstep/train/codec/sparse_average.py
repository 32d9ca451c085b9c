"""Averages of sparse contributions: every peer computes them from the same blocks, and gets the same bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ... import _lockstep as native
from ...errors import InvalidArgument
from ..arrays import Floats
from .sparse import Sparse


class SparseAverage:
    """The average of sparse contributions.

    counts_absent: whether a contributor counts for the elements that it has not sent, as if it had sent 0. If not, an
        element is divided by the weights of the contributors that have sent it.
    clips: whether each contributor's part of a tensor is scaled down to the median of their norms for this tensor; of
        an even number of norms the lower one in the middle.

    Elements are summed as float32, one contributor after the other, each operation rounded on its own:

        element = (weight_1 * value_1 + weight_2 * value_2 + ...) / (sum of the weights)        weight 1 without
    """

    def __init__(self, *, counts_absent: bool, clips: bool) -> None:
        self._counts_absent = counts_absent
        self._clips = clips

    def of(self, contributions: Sequence[Sparse]) -> native.SparseAverage:
        """The average, for a step along it; needs no memory for elements.

        contributions: of one codec, at least one, in an order that is equal on all peers.
        Raises InvalidArgument if the weights add up to 0 or to infinity.
        """
        average = native.SparseAverage([one.block for one in contributions], self._counts_absent, self._clips)
        if not average.total:
            raise InvalidArgument("all contributions have weight 0: there is nothing to average")
        if not math.isfinite(average.total):
            raise InvalidArgument("the weights add up to more than a float32 holds: use smaller weights")
        return average

    def compute(self, contributions: Sequence[Sparse], parts: Sequence[slice], out: Floats) -> None:
        """Sets `out` to the average.

        contributions: as in of(). parts: where the tensors lie in `out`.
        Raises InvalidArgument, and leaves `out` as it was, if the weights add up to 0 or to infinity.
        """
        average = self.of(contributions)
        for number, part in enumerate(parts):
            average.average(number, out[part])
