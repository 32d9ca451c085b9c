"""Which samples each peer takes: arithmetic on what all peers agree about. Knows no run and no data.

Positions number the samples of an endless stream. The members of a round get a slice of it each. The slice of a member
whose contribution is in a result is used up; the slice of a member that was lost before is given out again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Range = tuple[int, int]
"""Positions from the first up to, but not including, the second."""
Ints = NDArray[np.int64]

_ROWS, _COLUMNS = 2048, 5
_FREE = -1
_NOBODY = bytes(16)
_ROUNDS = 8  # of the network that shuffles
_LEAST_HALF = 4  # bits: small lengths are shuffled as a part of 256 numbers


class SampleAllocation:
    """The stream's slices. Equal events in equal order give equal slices, on every peer.

    Invariant: every position below the cursor is free, in the slice of one member of one open round, or used up.
    """

    def __init__(self) -> None:
        self.cursor = 0
        self._free: list[Range] = []  # below the cursor, sorted, not adjacent
        self._rounds: list[dict[bytes, list[Range]]] = [{}]  # open rounds, the oldest first; the last one is drawn from

    @property
    def used(self) -> int:
        """Number of positions that are used up: those of contributions that are in a result."""
        return self.cursor - sum(end - begin for begin, end in [*self._free, *self._allocated()])

    def allocate(self, members: Sequence[bytes], count: int) -> None:
        """Gives each of the members that has no slice of the current round one of `count` positions, in this order."""
        current = self._rounds[-1]
        for member in members:
            if member not in current:
                current[member] = self._take(count)

    def slice_of(self, member: bytes) -> list[Range]:
        """The slice of a member in the current round; empty if it has none."""
        return self._rounds[-1].get(member, [])

    def end_round(self) -> None:
        """The current round is drawn; its reduction ends later, during the next one."""
        self._rounds.append({})

    def settle(self, contributors: Sequence[bytes]) -> None:
        """The contributions of these members to the oldest open round are in its result.

        The slices of others are free again.
        """
        oldest = self._rounds.pop(0)
        if not self._rounds:
            self._rounds.append({})
        for member, ranges in oldest.items():
            if member not in contributors:
                self._give_back(ranges)

    def forget_rounds(self) -> None:
        """All slices of open rounds are free again: the run goes on from its last outer step."""
        rounds, self._rounds = self._rounds, [{}]
        for slices in rounds:
            for ranges in slices.values():
                self._give_back(ranges)

    def free_of(self) -> list[Range]:
        """Positions below the cursor that are not used up."""
        return _merged([*self._free, *self._allocated()])

    def begin_at(self, cursor: int, free: Sequence[Range]) -> None:
        """Sets what is used up: everything below the cursor that is not free."""
        self.cursor, self._free, self._rounds = cursor, [], [{}]
        self._give_back(free)

    # ---- as an array of the shared state ----

    def save(self) -> Ints:
        """An array of fixed size. What does not fit is left out, free positions first: those are lost."""
        rows: list[tuple[int, bytes, Range]] = [
            (number, member, one)
            for number, slices in reversed(list(enumerate(self._rounds)))
            for member, ranges in slices.items()
            for one in ranges
        ]
        rows += [(_FREE, _NOBODY, one) for one in self._free]
        rows = rows[: _ROWS - 1]
        array = np.zeros((_ROWS, _COLUMNS), np.int64)
        array[0, :3] = self.cursor, len(rows), len(self._rounds)
        for row, (number, member, (begin, end)) in zip(array[1:], rows):
            row[0], row[3], row[4] = number, begin, end
            row[1:3] = np.frombuffer(member, np.int64)
        return array

    def load(self, array: Ints) -> None:
        """Takes over a saved array."""
        self.cursor, count, rounds = (int(number) for number in array[0, :3])
        self._free, self._rounds = [], [{} for _ in range(rounds)]
        for row in array[1 : 1 + count]:
            number, one = int(row[0]), (int(row[3]), int(row[4]))
            if number == _FREE:
                self._free.append(one)
            else:
                self._rounds[number].setdefault(row[1:3].tobytes(), []).append(one)

    # ---- the free positions ----

    def _take(self, count: int) -> list[Range]:
        """The lowest free positions, then new ones."""
        taken: list[Range] = []
        while count and self._free:
            begin, end = self._free.pop(0)
            cut = min(end, begin + count)
            if cut < end:
                self._free.insert(0, (cut, end))
            taken.append((begin, cut))
            count -= cut - begin
        if count:
            taken.append((self.cursor, self.cursor + count))
            self.cursor += count
        return taken

    def _give_back(self, ranges: Sequence[Range]) -> None:
        self._free = _merged([*self._free, *ranges])

    def _allocated(self) -> list[Range]:
        """The slices of all members and open rounds."""
        return [one for slices in self._rounds for ranges in slices.values() for one in ranges]


def _merged(ranges: Sequence[Range]) -> list[Range]:
    """The same positions, sorted; ranges that meet are one."""
    merged: list[Range] = []
    for begin, end in sorted(ranges):
        if merged and merged[-1][1] == begin:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


def positions_in(ranges: Sequence[Range], begin: int, count: int) -> Ints:
    """The positions number begin to begin + count of a slice; fewer where it ends."""
    parts = []
    for first, last in ranges:
        length = last - first
        low, high = max(begin, 0), min(begin + count, length)
        if low < high:
            parts.append(np.arange(first + low, first + high, dtype=np.int64))
        begin -= length
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def shuffled(places: Ints, length: int, seed: int, epoch: int) -> Ints:
    """Where the places of an epoch are in a permutation of 0 to length - 1, which seed and epoch give.

    A Feistel network over numbers of an even number of bits, with 8 rounds of the finalizer of SplitMix64; a result of
    `length` or more goes through it again. Integers only: equal on every machine, and needs no memory for a table.
    """
    half = np.uint64(max(_LEAST_HALF, -(-(length - 1).bit_length() // 2)))
    mask = (np.uint64(1) << half) - np.uint64(1)
    keys = _mixed(np.arange(1, _ROUNDS + 1, dtype=np.uint64) + _mixed(_word(epoch) ^ _mixed(_word(seed))))
    result = places.astype(np.uint64)
    todo = np.arange(result.size)
    while todo.size:
        left, right = result[todo] >> half, result[todo] & mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & mask)
        result[todo] = (left << half) | right
        todo = todo[result[todo] >= length]
    return result.astype(np.int64)


def _word(number: int) -> NDArray[np.uint64]:
    return np.array([number & (1 << 64) - 1], np.uint64)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: S. Vigna, after D. Stafford's mix 13."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
