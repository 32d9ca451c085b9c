"""Averages of sparse contributions: every peer computes them from the same blocks, and gets the same bits."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import _lockstep as native
from ..errors import InvalidArgument
from ..types import PeerId
from ._outer import Bytes, Floats
from ._sparse_codec import Sparse, SparseCodec
from ._strategy import ALONE


def decode_all(codec: SparseCodec, blocks: Sequence[tuple[PeerId, Bytes]]) -> list[Sparse]:
    """What the blocks say.

    Raises InvalidArgument, alike on all peers, for a block that is wrong or does not fit the first one.
    """
    contributions: list[Sparse] = []
    first = blocks[0][0]
    for peer, block in blocks:
        try:
            decoded = codec.decode(block)
        except ValueError as error:
            sender = "this peer" if peer == ALONE else f"peer {peer}"
            raise InvalidArgument(f"the contribution of {sender} cannot be used: {error}") from None
        contributions.append(decoded)
        if (decoded.weight is None) != (contributions[0].weight is None):
            with_weight, without = (first, peer) if decoded.weight is None else (peer, first)
            raise InvalidArgument(
                f"peer {with_weight} gives a weight, and peer {without} gives none; allowed: all give one, or none does"
            )
        if decoded.rate != contributions[0].rate:
            raise InvalidArgument(
                f"the rate of peer {first} is {contributions[0].rate}, that of peer {peer} is {decoded.rate}; "
                "allowed: equal rates"
            )
    return contributions


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
