"""Sparse blocks: the largest elements of each chunk of some tensors, with 12 bits for a place and 2 bits for a value.

core/kernels/training/sparse_block.h defines the bytes. The decoder knows the names and sizes of the tensors, and trusts
nothing else: for any bytes it returns elements inside of the tensors, or raises ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, Union

import numpy as np
from numpy.typing import NDArray

from ... import _lockstep as native
from ..arrays import Bytes, Floats

Places = NDArray[np.int64]

LONGEST_CHUNK = 1 << 12  # places have 12 bits

Source = Union[Floats, Callable[[native.SparseEncoder], None]]
"""Float32, one dimension, all tensors; or a function that adds the chunks of all tensors to an encoder, in order."""


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
    block: the block itself, for averages and steps.
    """

    tensors: Sequence[Elements]
    weight: float | None
    has_newcomers: bool
    rate: float
    block: native.SparseBlock


class _Tensors(Sequence[Elements]):
    """The elements of each tensor of a block, which are made when they are asked for."""

    def __init__(self, block: native.SparseBlock, count: int) -> None:
        self._block = block
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Elements:  # type: ignore[override]  # no slices
        if not 0 <= number < self._count:
            raise IndexError(number)
        count = self._block.count(number)
        places, values = np.empty(count, np.int64), np.empty(count, np.float32)
        self._block.read(number, places, values)
        return Elements(places, values, self._block.energy(number))


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
        self._runs = [[(count, length, most_of(length)) for count, length in runs] for runs in tensors.values()]
        self.layout = native.SparseLayout(self._runs)
        self._parts: list[slice] = []
        for runs in self._runs:
            begin = self._parts[-1].stop if self._parts else 0
            self._parts.append(slice(begin, begin + sum(count * length for count, length, _ in runs)))

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
        return self.layout.most_bytes

    def encode(
        self, source: Source, weight: float | None = None, has_newcomers: bool = False, rate: float = 1.0
    ) -> Bytes:
        """The block of what a source gives. A NaN or an infinity in it makes a block that every decoder refuses."""
        encoder = native.SparseEncoder(self.layout)
        if isinstance(source, np.ndarray):
            self._add(encoder, source)
        else:
            source(encoder)
        block = np.empty(encoder.size, np.uint8)
        encoder.write(block, weight, has_newcomers, rate)
        return block

    def _add(self, encoder: native.SparseEncoder, values: Floats) -> None:
        for part in self._parts:
            if part.start < part.stop:
                encoder.add(values[part])

    def decode(self, block: Bytes) -> Sparse:
        """What a block says; it keeps the bytes. Raises ValueError for bytes that are no block of these tensors."""
        read = native.SparseBlock.decode(self.layout, np.ascontiguousarray(block))
        if isinstance(read, tuple):
            raise ValueError(self._text_of(*read))
        return Sparse(_Tensors(read, len(self._names)), read.weight, read.has_newcomers, read.rate, read)

    def _text_of(self, kind: int, at: int, found: int, allowed: int, other: int, number: float, second: float) -> str:
        """What is wrong with a block: a SparseFlaw of core/kernels/training/sparse_block.h."""
        sizes = f"{np.float32(number)} and {np.float32(second)}"
        name = self._names[at] if kind == _SIZES else ""
        texts = (
            f"the block has {found} bytes; allowed: at least {allowed}",
            f"the block begins with {found}, {allowed}, {other}; allowed: 1, 0 to 3, 0",
            f"the block has weight {number}; allowed: finite and at least 0, or 1 without a weight",
            f"chunk {at} has {found} elements; allowed: at most {allowed}",
            f"the block has {found} bytes with {other} elements; allowed: {allowed}",
            f"the values of {name} have sizes {sizes}; allowed: finite, at least 0",
            "unused bits behind the places are set; allowed: 0",
            "unused bits behind the values are set; allowed: 0",
            f"chunk {at} has an element {found}; allowed: 0 to {allowed}",
            f"chunk {at} has element {found} after {other}; allowed: ascending",
        )
        return texts[kind]


_SIZES = 5  # the kind of flaw whose place is a tensor
