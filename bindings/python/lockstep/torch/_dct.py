"""The discrete cosine transform of matrices in tiles, equal bit for bit on every CPU.

The transform works on integers: cosines with 15 binary places, and the elements of a tile with 16 bits, as multiples of
a power of two that fits the largest of them. Every product and every partial sum of the matrix products is an integer
below 2^53, which float64 holds exactly. So no operation rounds, and neither the order of the sums nor fused operations
matter: any matrix product of float64 gives these bits.
"""

from __future__ import annotations

import decimal
import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._outer import Floats, exact

LONGEST_SIDE = 64  # of a tile: a place in a tile has 12 bits; and partial sums stay below 2^53

Doubles = NDArray[np.float64]

_COSINE_BITS = 15
_ELEMENT_BITS = 16
_PI = decimal.Decimal("3.14159265358979323846264338327950288419716939937510")
_PRECISION = 45  # decimal digits
_AT_ONCE = 1 << 16  # elements that one product takes, about: they stay in the cache
_WITHOUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)
_LEAST_EXPONENT = -149  # no float32 but 0 has a smaller one


@dataclass(frozen=True)
class _Strip:
    """Some rows of tiles of one size."""

    rows: slice
    columns: slice
    height: int
    width: int
    coefficients: slice


class TiledDct:
    """The orthonormal two-dimensional DCT-II of each tile of a matrix, and its inverse, the DCT-III.

    rows, columns: of the matrix. side: of a tile, 1 to 64; tiles at the right and lower edge may be smaller.

    Coefficients lie tile after tile, those of a tile row by row: first the tiles of full size, then those at the right
    edge, at the lower edge, and in the corner.
    """

    def __init__(self, rows: int, columns: int, side: int) -> None:
        self._shape = (rows, columns)
        self._strips: list[_Strip] = []
        self.chunks: list[tuple[int, int]] = []
        """Numbers of tiles and their sizes in elements, in the order of the coefficients."""
        begin = 0
        for down, height in _cuts(rows, side):
            for across, width in _cuts(columns, side):
                breadth = across.stop - across.start
                self.chunks.append(((down.stop - down.start) // height * (breadth // width), height * width))
                many = height * max(1, _AT_ONCE // (height * breadth))
                for top in range(down.start, down.stop, many):
                    part = slice(top, min(top + many, down.stop))
                    end = begin + (part.stop - part.start) * breadth
                    self._strips.append(_Strip(part, across, height, width, slice(begin, end)))
                    begin = end

    def forward(self, values: Floats, coefficients: Floats) -> None:
        """Sets the coefficients from values; both float32, one dimension. A NaN or an infinity makes its tile NaN."""
        matrix = values.reshape(self._shape)
        with exact():
            for strip in self._strips:
                tiles = _in_tiles(matrix[strip.rows, strip.columns], strip.height, strip.width)
                left, right = _cosines(strip.height), _cosines(strip.width)
                coefficients[strip.coefficients] = _product(left, tiles, right.T).reshape(-1)

    def backward(self, coefficients: Floats, values: Floats) -> None:
        """Sets values from coefficients; both float32, one dimension."""
        matrix = values.reshape(self._shape)
        with exact():
            for strip in self._strips:
                tiles = coefficients[strip.coefficients].reshape(-1, strip.height, strip.width)
                left, right = _cosines(strip.height), _cosines(strip.width)
                part = matrix[strip.rows, strip.columns]
                part[:] = _in_rows(_product(left.T, tiles, right), part.shape)


def _cuts(length: int, side: int) -> list[tuple[slice, int]]:
    """The parts of a length whose pieces have one size, with this size: whole pieces, and the rest."""
    whole = length - length % side
    parts = [(slice(0, whole), side), (slice(whole, length), length - whole)]
    return [(part, size) for part, size in parts if part.start < part.stop]


def _in_tiles(part: Floats, height: int, width: int) -> Floats:
    """The tiles of a part of a matrix: three dimensions."""
    rows, columns = part.shape
    split = part.reshape(rows // height, height, columns // width, width)
    return split.transpose(0, 2, 1, 3).reshape(-1, height, width)


def _in_rows(tiles: Floats, shape: tuple[int, ...]) -> Floats:
    """What _in_tiles() was given."""
    rows, columns = shape
    _, height, width = tiles.shape
    split = tiles.reshape(rows // height, columns // width, height, width)
    return split.transpose(0, 2, 1, 3).reshape(shape)


def _product(left: Doubles, tiles: Floats, right: Doubles) -> Floats:
    """The product left @ tile @ right of each tile, with cosines left and right; rounded once, to float32, at the end.

    Invariant: rows and columns of cosines have a sum of absolute values of at most 8 * 2^15 + 32 and elements of tiles
    are at most 2^16, so all partial sums stay below 2^53.
    """
    elements = tiles.astype(np.float64)
    largest = (elements.view(np.int64) & _WITHOUT_SIGN).max(axis=(1, 2), keepdims=True)
    exponents = np.maximum((largest >> 52) - 1022, _LEAST_EXPONENT)  # elements are below 2^exponent
    scales = _ELEMENT_BITS - exponents
    integers = np.rint(elements * np.ldexp(1.0, scales))
    products = np.matmul(left, np.matmul(integers, right))
    rounded: Floats = (products * np.ldexp(1.0, -scales - 2 * _COSINE_BITS)).astype(np.float32)
    return rounded


@functools.lru_cache(LONGEST_SIDE)
def _cosines(count: int) -> Doubles:
    """The matrix of the DCT-II of `count` elements, times 2^15, rounded to integers: row u, column x."""
    with decimal.localcontext() as context:
        context.prec = _PRECISION
        roots = [(decimal.Decimal(1 if row == 0 else 2) / count).sqrt() for row in range(count)]
        cosines = [_cosine(_PI * quarter / (2 * count)) for quarter in range(4 * count)]
        entries = [
            [
                int((root * cosines[(2 * column + 1) * row % (4 * count)] * 2**_COSINE_BITS).to_integral_value())
                for column in range(count)
            ]
            for row, root in enumerate(roots)
        ]
    return np.array(entries, np.float64)


def _cosine(angle: decimal.Decimal) -> decimal.Decimal:
    """The cosine of an angle from 0 to two pi, by its Taylor series."""
    term = total = decimal.Decimal(1)
    for number in range(1, 40):
        term = -term * angle * angle / (2 * number * (2 * number - 1))
        total += term
    return total
