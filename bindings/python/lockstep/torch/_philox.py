"""Random bits that every peer computes for itself: Philox 4x32-10, in integers.

J. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011. A word depends on a key and a counter alone, so
peers that share a key share all bits, on every CPU, in any order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

WORDS = 4  # of one counter
_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def philox(first: int, count: int, rest: tuple[int, int, int], key: tuple[int, int]) -> Words:
    """The words of `count` counters (first, ...rest), (first + 1, ...rest) and so on: 4 * count words.

    first, rest, key: 32-bit integers; first + count is at most 2**32.
    """
    c0 = np.arange(first, first + count, dtype=np.uint64)
    c1, c2, c3 = (np.full(count, word, np.uint64) for word in rest)
    for number in range(_ROUNDS):
        k0, k1 = (np.uint64((word + number * weyl) & 0xFFFFFFFF) for word, weyl in zip(key, _WEYL))
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0 = (product1 >> _HALF) ^ c1 ^ k0
        c1 = product1 & _LOW
        c2 = (product0 >> _HALF) ^ c3 ^ k1
        c3 = product0 & _LOW
    return np.stack([c0, c1, c2, c3], axis=1).reshape(-1).astype(np.uint32)


def halves(number: int) -> tuple[int, int]:
    """The lower and the upper 32 bits of an integer of 64 bits."""
    return number & 0xFFFFFFFF, number >> 32
