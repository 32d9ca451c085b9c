"""The average of a large model in pieces, in the memory of the model itself, among peers that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

import numpy as np

from .._lockstep import Result, Work
from ..errors import BelowMinimum, InvalidArgument
from . import pipeline
from .arrays import Floats
from .average_call import AverageCall
from .flat import Borrowed, Fragment
from .pipeline import Flight, Pieces
from .run_loop import RunLoop


class PieceByPiece:
    """Averages of a fragment of `count` elements, piece by piece."""

    def __init__(self, loop: RunLoop, count: int) -> None:
        self._loop = loop
        self._pieces = Pieces(count, loop.publication.wait)
        self._left_behind: list[Work] = []

    def left_behind(self) -> Sequence[Work]:
        """The calls that were on their way when an average failed; they are given out once."""
        works, self._left_behind = self._left_behind, []
        return works

    def average(self, fragment: Fragment, average: AverageCall, on_too_few: Callable[[], None]) -> Borrowed | None:
        """The average of all peers' progress. Theta and momentum stay as they are, whatever happens.

        When a member is lost, the pieces that follow are averages of the survivors; the contributors are those of all
        pieces. Returns None if too few members were left after some pieces: the others have come, and the round begins
        anew; on_too_few() is called before they come. Raises what a reduction raises; then the model has the shared
        parameters if it has lost its own.
        """
        loop, pieces = self._loop, self._pieces
        while True:
            borrowed = fragment.borrow()
            try:
                self._take_averages(borrowed, average)
            except InvalidArgument:
                if not average.observes:
                    self._give_up(borrowed)
                    raise
                pieces.drain()
                borrowed.restore()
                average.is_void = True
            except BelowMinimum:
                if not loop.minimum_world:
                    self._give_up(borrowed)
                    raise
                if not pieces.over:
                    loop.wait_for_members()
                    pieces.drain()
                    continue
                borrowed.restore()
                on_too_few()
                loop.samplers.settle(())
                loop.wait_for_members()
                pieces.drain()
                return None
            except BaseException:
                self._give_up(borrowed)
                raise
            loop.settle(average)
            return borrowed

    def _take_averages(self, borrowed: Borrowed, average: AverageCall) -> None:
        loop, pieces = self._loop, self._pieces
        results: list[Result] = []
        said = np.zeros(3, np.float32)  # above 0 after the first piece, if a peer has said: newcomers; prefetchers; far

        def measure(flight: Flight) -> None:
            if average.observes:
                flight.given.fill(0)
            else:
                borrowed.measure(flight.given, flight.piece)

        def begin(number: int, flight: Flight) -> Work | None:
            return self.begin_piece(average, number, flight, said if number == 0 else None)

        for flight, result in pieces.averages(measure, begin):
            if result is not None:
                if results:
                    loop.traffic.add(result)
                else:
                    loop.take_result(result)
                    average.pending[:] = said[:2]
                    if said[2] > 0:
                        pieces.widen()
                results.append(result)
            borrowed.put(flight.taken, flight.piece)
        if results:
            average.result = min(results, key=lambda one: len(one.contributors))  # each loss leaves fewer
            loop.take_members(average.result)

    def begin_piece(self, average: AverageCall, number: int, flight: Flight, said: Floats | None) -> Work | None:
        """Begins the call of a piece; with the first one all peers also tell each other what they have seen."""
        loop = self._loop
        if loop.run is None:
            return None
        tag = average.tag + number % pipeline.FAR
        if said is None:
            return loop.begin_call(loop.run, average, flight.given, flight.taken, tag)
        own = np.array([loop.sees_newcomers(), loop.fetching > 0, self._pieces.is_far], np.float32)
        with loop.watching():
            return loop.begin_call(loop.run, average, [flight.given, own], [flight.taken, said], tag)

    def _give_up(self, borrowed: Borrowed) -> None:
        if self._pieces.over:
            borrowed.restore()
        self._left_behind += self._pieces.abandon()
