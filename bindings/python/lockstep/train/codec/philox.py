"""Random bits that every peer computes for itself: Philox 4x32-10, in integers.

J. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011. A word depends on a key and a counter alone, so
peers that share a key share all bits, on every CPU, in any order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ... import _lockstep as native

Words = NDArray[np.uint32]

WORDS = 4  # of one counter


def philox(first: int, count: int, rest: tuple[int, int, int], key: tuple[int, int]) -> Words:
    """The words of `count` counters (first, ...rest), (first + 1, ...rest) and so on: 4 * count words.

    first, rest, key: 32-bit integers; first + count is at most 2**32.
    """
    words = np.empty(WORDS * count, np.uint32)
    native.philox(first, rest, key, words)
    return words


def halves(number: int) -> tuple[int, int]:
    """The lower and the upper 32 bits of an integer of 64 bits."""
    return number & 0xFFFFFFFF, number >> 32
