"""Large arrays in pieces: a piece travels while this peer computes the next ones, in memory that is used again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import methodcaller
from typing import Callable

import numpy as np

from .._lockstep import Result, Work
from ..errors import Error
from .arrays import Floats

PIECE = 1 << 18  # elements of a piece: 1 MiB, which stays in the cache from the kernel to the socket
NEAR = 3  # pieces on their way at once between peers near each other: what they have computed stays in the cache
FAR = 24  # and between others: 24 MiB, and as much for their averages, so that a long line is full
LONG = 0.02  # seconds of the fastest of some pieces, of which NEAR are on their way, from which on a line is long
SMALL = 8 * PIECE  # elements that go as a whole


@dataclass
class Flight:
    """A piece on its way.

    piece: its place in the whole. given: what this peer contributes. taken: the average, after the call.
    work: the call; None if there are no other peers.
    """

    piece: slice
    given: Floats
    taken: Floats
    work: Work | None = None


class Pieces:
    """The pieces of an array of `count` elements, in order, of which some are on their way at once.

    Every peer begins and ends its calls in the same order, so when a call fails, the same pieces are over on all peers.
    The memory, 6 MiB, or 48 MiB where a line is long, is kept from one time to the next.

    wait: waits for a call.
    over: pieces whose average has been given out, since the last begin.
    is_far: whether a line was long the last time, as far as this peer knows; False before the first time.
    """

    def __init__(self, count: int, wait: Callable[[Work], Result] = methodcaller("wait")) -> None:
        self._wait = wait
        self._places = [slice(begin, min(begin + PIECE, count)) for begin in range(0, count, PIECE)]
        self._free: list[tuple[Floats, Floats]] = []
        self._flying: deque[Flight] = deque()
        self._fastest = 0.0  # seconds, of the pieces that were not on their way with the first ones
        self._widens = False
        self.over = 0

    def averages(
        self, measure: Callable[[Flight], None], begin: Callable[[int, Flight], Work | None]
    ) -> Iterator[tuple[Flight, Result | None]]:
        """Gives each piece with its result, in order; the flight's arrays are used again after that.

        NEAR pieces are on their way at once; after widen() FAR ones, once the first 2 * NEAR have begun.

        measure: fills flight.given.
        begin: begins the call of a piece by its number; returns None if there is none: then given is the average.
        Raises what calls raise; the pieces that follow are on their way then: see drain() and abandon().
        """
        self.over = 0
        self._widens = False
        for number, piece in enumerate(self._places):
            if len(self._flying) >= (FAR if self._widens and number >= 2 * NEAR else NEAR):
                yield from self._end()
            given, taken = (
                self._free.pop() if self._free else (np.empty(PIECE, np.float32), np.empty(PIECE, np.float32))
            )
            size = piece.stop - piece.start
            flight = Flight(piece, given[:size], taken[:size])
            measure(flight)
            flight.work = begin(number, flight)
            self._flying.append(flight)
        while self._flying:
            yield from self._end()

    @property
    def is_far(self) -> bool:
        """See the class."""
        return self._fastest > LONG

    def widen(self) -> None:
        """All peers have agreed, by the first piece, that a line is long."""
        self._widens = True

    def _end(self) -> Iterator[tuple[Flight, Result | None]]:
        flight = self._flying[0]
        result = None if flight.work is None else self._wait(flight.work)
        self._flying.popleft()
        if result is None:
            flight.taken[:] = flight.given
        elif NEAR <= self.over < 2 * NEAR:  # it began when the first one was over: no peer was late
            self._fastest = result.seconds if self.over == NEAR else min(self._fastest, result.seconds)
        self.over += 1
        yield flight, result
        self._release(flight)

    def _release(self, flight: Flight) -> None:
        self._free.append((_whole(flight.given), _whole(flight.taken)))

    def drain(self) -> None:
        """Waits for the calls that are on their way, whatever they end with."""
        while self._flying:
            flight = self._flying.popleft()
            if flight.work is not None:
                with suppress(Error):
                    flight.work.wait()
            self._release(flight)

    def abandon(self) -> list[Work]:
        """Leaves the calls that are on their way, and their memory, to themselves. Returns them."""
        works = [flight.work for flight in self._flying if flight.work is not None]
        self._flying.clear()
        self._free.clear()
        return works


def _whole(array: Floats) -> Floats:
    whole: Floats = array if array.base is None else array.base
    return whole
