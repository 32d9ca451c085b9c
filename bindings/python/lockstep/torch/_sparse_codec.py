"""Sparse blocks: the largest elements of each chunk of some tensors, with 12 bits for a place and 2 bits for a value.

A block, little-endian, without gaps:

    u8       format, 1
    u8       flags: 1: newcomers wait; 2: the contribution has a weight
    u16      0
    f32      weight; 1 without
    f64      rate of the outer step, which is equal on all peers
    u16      for each chunk: number of its elements in the block
    f32, f32 for each tensor: the size of its small values, and of its large ones
    12 bits  for each element: its place in its chunk, ascending; two places in three bytes, the first in the low bits
    2 bits   for each element: 1: large; 2: negative; four elements in a byte, the first in the low bits

Unused bits at the end of the last two parts are 0. The decoder knows the names and sizes of the tensors, and trusts
nothing else: for any bytes it returns elements inside of the tensors, or raises ValueError.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable

import numpy as np
from numpy.typing import NDArray

from ._outer import Bytes, Floats, exact

Places = NDArray[np.int64]

LONGEST_CHUNK = 1 << 12  # places have 12 bits

_HEADER = struct.Struct("<BBHfd")
_FORMAT = 1
_NEWCOMERS, _WEIGHTED = 1, 2
_LARGE, _NEGATIVE = 1, 2
_WITHOUT_SIGN = np.uint32(0x7FFFFFFF)
_LARGEST_FINITE = np.uint32(0x7F7FFFFF)  # bits of a float32; those of infinity, NaN and negative numbers are larger
_ROWS = 32  # chunks that are searched at once: their keys stay in the cache


@dataclass(frozen=True)
class Elements:
    """Some elements of a tensor; the others are 0.

    places: indices, ascending. values: float32, as many, finite.
    energy: sum of the squares of the values; equal on all peers.
    """

    places: Places
    values: Floats
    energy: float


@dataclass(frozen=True)
class Sparse:
    """What a block says.

    tensors: the elements of each tensor.
    weight: how much the contribution counts; None if it has no weight.
    has_newcomers: whether the sender has seen newcomers.
    rate: of its outer step.
    """

    tensors: list[Elements]
    weight: float | None
    has_newcomers: bool
    rate: float


class SparseCodec:
    """Encodes and decodes the largest elements of tensors that lie one after the other in a flat array.

    tensors: by name, for errors, the chunks of each tensor: numbers of chunks and their lengths in elements, 1 to 4096.
    most_of: how many elements of a chunk are kept, from its length: at least 1.

    The kept elements of a chunk are those with the largest absolute values; of equal ones the first. Zeros are never
    kept. A value keeps its sign and gets one of two sizes. The kept elements of a tensor are divided at the mean of
    their absolute values; the size of a small or large value is the mean of the absolute values on its side. This is
    symmetric, unlike four bins over the range of the values: the code of -x has the places and sizes of the code of x.
    Sizes are those of a tensor, not of a chunk: two sizes for each chunk would need 7 % more bytes at 64 elements of
    4096, and what rounding loses is not lost, because of the error feedback.
    """

    def __init__(self, tensors: Mapping[str, Sequence[tuple[int, int]]], most_of: Callable[[int], int]) -> None:
        self._names = list(tensors)
        self._chunks = list(tensors.values())
        self._most_of = most_of
        self._parts: list[slice] = []
        lengths: list[int] = []
        begins: list[int] = []
        self._chunks_before = [0]  # of each tensor, and of all together
        for chunks in self._chunks:
            at = 0
            for count, length in chunks:
                lengths += [length] * count
                begins += range(at, at + count * length, length)
                at += count * length
            begin = self._parts[-1].stop if self._parts else 0
            self._parts.append(slice(begin, begin + at))
            self._chunks_before.append(len(begins))
        self._begins = np.array(begins, np.int64)  # of the chunks, in their tensors
        self._lengths = np.array(lengths, np.int64)
        self._most = np.array([most_of(length) for length in lengths], np.int64)

    @classmethod
    def of_runs(cls, sizes: Mapping[str, int], *, density: float, chunk: int) -> SparseCodec:
        """Cuts each tensor into chunks of one length; the last chunk of a tensor may be shorter.

        density: part of a chunk that is kept, above 0, at most 1: of n elements round(density * n), at least 1.
        """

        def runs(size: int) -> list[tuple[int, int]]:
            whole, rest = divmod(size, chunk)
            return [(whole, chunk), *([(1, rest)] if rest else [])]

        tensors = {name: runs(size) for name, size in sizes.items()}
        return cls(tensors, lambda length: max(1, round(density * length)))

    @property
    def parts(self) -> list[slice]:
        """Where the tensors lie in the flat array."""
        return self._parts

    @property
    def most_bytes(self) -> int:
        """Size of the largest block."""
        return self._bytes_of(int(self._most.sum()))

    # ---- encoding ----

    def encode(
        self, values: Floats, weight: float | None = None, has_newcomers: bool = False, rate: float = 1.0
    ) -> Bytes:
        """The block of an array. A NaN or an infinity in it makes a block that every decoder refuses.

        values: float32, one dimension, all tensors.
        """
        counts: list[Places] = []
        places: list[Places] = []
        codes: list[Bytes] = []
        sizes = np.zeros((len(self._parts), 2), "<f4")
        with exact():
            for number in range(len(self._parts)):
                kept: list[Floats] = []
                for rows in self._rows_of(number, values):
                    chosen = _largest(rows, self._most_of(rows.shape[1]))
                    of_chosen = np.take_along_axis(rows, chosen, axis=1)
                    is_kept = of_chosen.view(np.uint32) & _WITHOUT_SIGN != 0
                    counts.append(np.count_nonzero(is_kept, axis=1))
                    places.append(chosen[is_kept])
                    kept.append(of_chosen[is_kept])
                if kept:
                    code, sizes[number] = _quantize(np.concatenate(kept))
                    codes.append(code)
            flags = (_NEWCOMERS if has_newcomers else 0) | (0 if weight is None else _WEIGHTED)
            header = _HEADER.pack(_FORMAT, flags, 0, np.float32(1 if weight is None else weight), rate)
        return np.concatenate(
            [
                np.frombuffer(header, np.uint8),
                _joined(counts).astype("<u2").view(np.uint8),
                sizes.reshape(-1).view(np.uint8),
                _pack_places(_joined(places)),
                _pack_codes(np.concatenate([np.zeros(0, np.uint8), *codes])),
            ]
        )

    def _rows_of(self, number: int, values: Floats) -> Iterator[Floats]:
        """The chunks of a tensor as rows of equal length, some at a time."""
        begin = self._parts[number].start
        for count, length in self._chunks[number]:
            for first in range(0, count, _ROWS):
                end = begin + min(_ROWS, count - first) * length
                yield values[begin:end].reshape(-1, length)
                begin = end

    def _bytes_of(self, elements: int) -> int:
        fixed = _HEADER.size + 2 * self._lengths.size + 8 * len(self._parts)
        return fixed + _bytes_of_places(elements) + _bytes_of_codes(elements)

    # ---- decoding ----

    def decode(self, block: Bytes) -> Sparse:
        """What a block says. Raises ValueError for bytes that are no block of these tensors."""
        weight, has_newcomers, rate = _read_header(block)
        at = _HEADER.size
        least = self._bytes_of(0)
        if block.size < least:
            raise ValueError(f"the block has {block.size} bytes; allowed: at least {least}")
        counts = _numbers(block[at : at + 2 * self._lengths.size], "<u2").astype(np.int64)
        at += 2 * counts.size
        too_many = np.flatnonzero(counts > self._most)
        if too_many.size:
            first = too_many[0]
            raise ValueError(f"chunk {first} has {counts[first]} elements; allowed: at most {self._most[first]}")
        elements = int(counts.sum())
        if block.size != self._bytes_of(elements):
            raise ValueError(
                f"the block has {block.size} bytes with {elements} elements; allowed: {self._bytes_of(elements)}"
            )
        sizes = _numbers(block[at : at + 8 * len(self._parts)], "<f4").astype(np.float32).reshape(-1, 2)
        at += 8 * len(self._parts)
        wrong = np.flatnonzero((sizes.view(np.uint32) > _LARGEST_FINITE).any(axis=1))
        if wrong.size:
            name, (small, large) = self._names[wrong[0]], sizes[wrong[0]]
            raise ValueError(f"the values of {name} have sizes {small} and {large}; allowed: finite, at least 0")
        places = _unpack_places(block[at : at + _bytes_of_places(elements)], elements)
        codes = _unpack_codes(block[at + _bytes_of_places(elements) :], elements)
        self._check(places, counts)
        places += np.repeat(self._begins, counts)
        return Sparse(self._split(places, counts, codes, sizes), weight, has_newcomers, rate)

    def _check(self, places: Places, counts: Places) -> None:
        """Places lie inside of their chunks, and ascend there."""
        chunk_of = np.repeat(np.arange(counts.size), counts)
        outside = np.flatnonzero(places >= self._lengths[chunk_of])
        if outside.size:
            place, chunk = places[outside[0]], chunk_of[outside[0]]
            raise ValueError(f"chunk {chunk} has an element {place}; allowed: 0 to {self._lengths[chunk] - 1}")
        falls = np.flatnonzero((places[1:] <= places[:-1]) & (chunk_of[1:] == chunk_of[:-1]))
        if falls.size:
            first = falls[0]
            raise ValueError(
                f"chunk {chunk_of[first]} has element {places[first + 1]} after {places[first]}; allowed: ascending"
            )

    def _split(self, places: Places, counts: Places, codes: Bytes, sizes: Floats) -> list[Elements]:
        """The elements of each tensor."""
        ends = np.concatenate([[0], np.cumsum(counts)])[self._chunks_before]
        tensors = []
        for number, (begin, end) in enumerate(zip(ends[:-1], ends[1:])):
            small, large = (float(size) for size in sizes[number])
            is_large = codes[begin:end] & _LARGE != 0
            absolute = sizes[number][is_large.astype(np.int64)]
            values = np.where(codes[begin:end] & _NEGATIVE != 0, -absolute, absolute)
            many = int(np.count_nonzero(is_large))
            energy = (int(end - begin) - many) * (small * small) + many * (large * large)
            tensors.append(Elements(places[begin:end], values, energy))
        return tensors


def _largest(rows: Floats, count: int) -> Places:
    """The places of the elements with the largest absolute values in each row, ascending; of equal ones the first."""
    length = rows.shape[1]
    keys = (rows.view(np.uint32) & _WITHOUT_SIGN).astype(np.uint64)
    keys <<= np.uint64(12)
    keys |= np.arange(length - 1, -1, -1, dtype=np.uint64)  # no two are equal, and the first of equal ones is larger
    keys.partition(length - count, axis=1)
    from_the_end = keys[:, length - count :] & np.uint64(LONGEST_CHUNK - 1)
    places: Places = length - 1 - from_the_end.astype(np.int64)
    places.sort(axis=1)
    return places


def _quantize(values: Floats) -> tuple[Bytes, tuple[float, float]]:
    """Codes of values, and what small and large ones stand for: means, whose sums are rounded once."""
    absolute = np.abs(values).astype(np.float64)
    is_large = absolute > _mean(absolute)
    codes = is_large.astype(np.uint8) * np.uint8(_LARGE) | np.signbit(values).astype(np.uint8) * np.uint8(_NEGATIVE)
    return codes, (_mean(absolute[~is_large]), _mean(absolute[is_large]))


def _mean(values: NDArray[np.float64]) -> float:
    return math.fsum(values.tolist()) / values.size if values.size else 0.0


def _joined(arrays: list[Places]) -> Places:
    return np.concatenate([np.zeros(0, np.int64), *arrays])


def _read_header(block: Bytes) -> tuple[float | None, bool, float]:
    """Weight, whether there are newcomers, and rate."""
    if block.size < _HEADER.size:
        raise ValueError(f"the block has {block.size} bytes; allowed: at least {_HEADER.size}")
    form, flags, rest, weight, rate = _HEADER.unpack(block[: _HEADER.size].tobytes())
    if (form, rest) != (_FORMAT, 0) or flags & ~(_NEWCOMERS | _WEIGHTED):
        raise ValueError(f"the block begins with {form}, {flags}, {rest}; allowed: {_FORMAT}, 0 to 3, 0")
    is_weighted = bool(flags & _WEIGHTED)
    if not (math.isfinite(weight) and weight >= 0) or not (is_weighted or weight == 1):
        raise ValueError(f"the block has weight {weight}; allowed: finite and at least 0, or 1 without a weight")
    return weight if is_weighted else None, bool(flags & _NEWCOMERS), rate


def _numbers(part: Bytes, kind: str) -> NDArray[np.generic]:
    return np.frombuffer(part.tobytes(), kind)


def _bytes_of_places(elements: int) -> int:
    return (3 * elements + 1) // 2


def _bytes_of_codes(elements: int) -> int:
    return (elements + 3) // 4


def _pack_places(places: Places) -> Bytes:
    pairs = np.concatenate([places, np.zeros(places.size % 2, np.int64)]).reshape(-1, 2)
    first, second = pairs[:, 0], pairs[:, 1]
    triples = np.stack([first & 0xFF, first >> 8 | (second & 0xF) << 4, second >> 4], axis=1)
    return triples.astype(np.uint8).reshape(-1)[: _bytes_of_places(places.size)]


def _unpack_places(packed: Bytes, elements: int) -> Places:
    padded = np.concatenate([packed, np.zeros(elements % 2, np.uint8)]).astype(np.int64).reshape(-1, 3)
    first = padded[:, 0] | (padded[:, 1] & 0xF) << 8
    second = padded[:, 1] >> 4 | padded[:, 2] << 4
    places = np.stack([first, second], axis=1).reshape(-1)
    if places[elements:].any():
        raise ValueError("unused bits behind the places are set; allowed: 0")
    return places[:elements]


def _pack_codes(codes: Bytes) -> Bytes:
    fours = np.concatenate([codes, np.zeros(-codes.size % 4, np.uint8)]).reshape(-1, 4)
    packed: Bytes = fours[:, 0] | fours[:, 1] << 2 | fours[:, 2] << 4 | fours[:, 3] << 6
    return packed


def _unpack_codes(packed: Bytes, elements: int) -> Bytes:
    codes: Bytes = (packed[:, None] >> np.array([0, 2, 4, 6], np.uint8) & np.uint8(3)).reshape(-1)
    if codes[elements:].any():
        raise ValueError("unused bits behind the values are set; allowed: 0")
    return codes[:elements]
