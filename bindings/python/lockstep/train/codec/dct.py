"""The discrete cosine transform of matrices in tiles, equal bit for bit on every CPU.

The transform works on integers, so that nothing is rounded before its end: core/kernels/training/dct.h.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ... import _lockstep as native
from ..arrays import Floats

LONGEST_SIDE = 64  # of a tile: a place in a tile has 12 bits; and partial sums stay below 2^53

_AT_ONCE = 1 << 18  # elements of a strip, about


@dataclass(frozen=True)
class Strip:
    """Tiles of one size that lie side by side, and one below the other, in a matrix.

    top, left: of the first tile, in elements. down, across: numbers of tiles. begin: of the strip's coefficients.
    """

    dct: native.TileDct
    height: int
    width: int
    top: int
    left: int
    down: int
    across: int
    begin: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.down * self.height * self.across * self.width

    @property
    def rows(self) -> slice:
        """The rows of the matrix in which the strip lies."""
        return slice(self.top, self.top + self.down * self.height)

    @property
    def columns(self) -> slice:
        """The columns of the matrix in which the strip lies."""
        return slice(self.left, self.left + self.across * self.width)


class TiledDct:
    """The orthonormal two-dimensional DCT-II of each tile of a matrix, and its inverse, the DCT-III.

    rows, columns: of the matrix. side: of a tile, 1 to 64; tiles at the right and lower edge may be smaller.

    Coefficients lie tile after tile, those of a tile row by row: first the tiles of full size, then those at the right
    edge, at the lower edge, and in the corner.
    """

    def __init__(self, rows: int, columns: int, side: int) -> None:
        self.shape = (rows, columns)
        self.strips: list[Strip] = []
        """All tiles, in the order of the coefficients."""
        self.chunks: list[tuple[int, int]] = []
        """Numbers of tiles and their sizes in elements, in the order of the coefficients."""
        begin = 0
        for top, down, height in _cuts(rows, side):
            for left, across, width in _cuts(columns, side):
                self.chunks.append((down * across, height * width))
                many = max(1, _AT_ONCE // (height * width * across))
                for first in range(0, down, many):
                    count = min(many, down - first)
                    strip = Strip(
                        _transform(height, width), height, width, top + first * height, left, count, across, begin
                    )
                    self.strips.append(strip)
                    begin += strip.size

    def grid(self, strip: Strip) -> tuple[int, int, int]:
        """Tiles below each other, and side by side, and the elements from one row of the matrix to the next."""
        return strip.down, strip.across, self.shape[1]

    def first(self, strip: Strip) -> int:
        """The first element of a strip, in the matrix."""
        return strip.top * self.shape[1] + strip.left

    def forward(self, values: Floats, coefficients: Floats) -> None:
        """Sets the coefficients from values; both float32, one dimension. A NaN or an infinity makes its tile NaN."""
        for strip in self.strips:
            into = coefficients[strip.begin : strip.begin + strip.size]
            strip.dct.forward(values[self.first(strip) :], into, self.grid(strip))

    def backward(self, coefficients: Floats, values: Floats) -> None:
        """Sets values from coefficients; both float32, one dimension."""
        coefficients = coefficients.copy() if coefficients is values else coefficients
        for strip in self.strips:
            part = coefficients[strip.begin : strip.begin + strip.size]
            strip.dct.backward(part, values[self.first(strip) :], self.grid(strip))


def _cuts(length: int, side: int) -> list[tuple[int, int, int]]:
    """The parts of a length whose pieces have one size: where each begins, its pieces, their size."""
    whole, rest = divmod(length, side)
    parts = [(0, whole, side), (whole * side, 1, rest)]
    return [(begin, count, size) for begin, count, size in parts if count and size]


@functools.lru_cache(4)  # most models need one for matrices and one for vectors
def _transform(height: int, width: int) -> native.TileDct:
    return native.TileDct(height, width)


def _cosines(count: int) -> NDArray[np.float64]:
    """The matrix of the DCT-II of `count` elements, times 2^15, rounded to integers: row u, column x."""
    return np.array(native.cosines(count), np.float64).reshape(count, count)
