"""SketchedSGD: peers reduce a random sketch of their progress, which is smaller than the progress."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from .. import _lockstep as native
from ..types import WireFormat, WireFormatName
from . import tags
from .agreement import Setting
from .average_call import AverageCall
from .average_rounds import AverageRounds
from .checked import number, whole_number
from .codec.sketch import CHUNK, Sketch
from .flat import Fragment
from .host_parameters import HostParameters
from .outer import SGD
from .run_loop import Run
from .strategy import Strategy
from .training import Parts
from .wire import Wire

_PIECE = 64 * CHUNK  # elements that are measured or applied at once: they stay in the cache


class SketchedSGD(Strategy):
    """Trains alone for inner_steps steps, then takes an outer step along the average sketch of all peers' progress.

        theta = theta - outer_lr * unsketch(average of sketch(theta - theta_m))

    The sketch is `ratio` times smaller than the model. Its hash functions are fresh in every outer step and equal on
    all peers. The outer step adds noise of mean 0 whose squares are some `ratio` times those of the progress; where
    training becomes unstable, take a smaller ratio or outer_lr. Z. Song et al., "Sketching for First Order Method:
    Efficient Algorithm for Low-Bandwidth Channel and Vulnerability", 2022. A sketch hides no data.

    ratio: elements per bucket, at least 1; equal on all peers. An outer step sends the bytes of LocalSGD divided by it.
    outer_lr: rate of the outer step.
    wire: a lockstep.train.Wire without error feedback, or a wire format for both ways.
    seed: of the hash functions, 0 to 2**53; equal on all peers.
    inner_steps: steps from one outer step to the next; equal on all peers.
    run, model, inner, minimum_world, check_every: a run or None, the module, its optimizer or several, a least number
        of members, and outer steps between two comparisons of hashes; LocalSGD tells more.
    The progress of a world of one is sketched, too.
    Raises ValueError, TypeError.

    Example:
        >>> strategy = SketchedSGD(run, model, optimizer, inner_steps=20, ratio=10, wire="int8")
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        inner_steps: int = 20,
        ratio: float = 10,
        outer_lr: float = 1.0,
        wire: Wire | WireFormat | WireFormatName = "native",
        seed: int = 0,
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        if not 1 <= number(ratio, "ratio", f"1 to {CHUNK}") <= CHUNK:
            raise ValueError(f"ratio is {ratio}; allowed: 1 to {CHUNK}")
        if Wire.of(wire).error_feedback:
            raise ValueError("wire has error_feedback, but what one sketch has lost fits no other; allowed: without")
        parts = Parts(run, model, inner, minimum_world, check_every)
        seed = whole_number(seed, "seed", 0)
        super().__init__(_SketchedRounds(parts, inner_steps, SGD(outer_lr), Wire.of(wire), float(ratio), seed))


class _SketchedRounds(AverageRounds):
    """Rounds whose outer step goes along an average of sketches. ratio: elements per bucket."""

    def __init__(self, parts: Parts, inner_steps: int, outer: SGD, wire: Wire, ratio: float, seed: int) -> None:
        super().__init__(parts, inner_steps, outer, wire)
        self._ratio = ratio
        self._seed = seed
        self._lr = float(np.float32(outer.lr))
        self._sketch = Sketch(self.model.whole.theta.size, ratio, seed, self.model.pinned)

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), "ratio": self._ratio, "seed": self._seed}

    def average_of(self, fragment: Fragment, number: int = 0) -> AverageCall:
        """See AverageRounds."""
        held, theta = HostParameters(fragment), fragment.theta
        progress = np.empty(min(_PIECE, theta.size), np.float32)
        for begin in range(0, theta.size, _PIECE):
            piece = slice(begin, min(begin + _PIECE, theta.size))
            for part, now in held.overlaps(piece):
                native.difference(progress[part.start - begin : part.stop - begin], theta[part], now)
            self._sketch.take(progress[: piece.stop - begin], self.loop.outer_step, begin)
        return AverageCall([self._sketch.buckets], self.take_weight(), self.wire, tags.PROGRESS + number)

    def step_of(self, fragment: Fragment, average: AverageCall) -> None:
        """See AverageRounds."""
        held, theta = HostParameters(fragment), fragment.theta
        step = np.empty(min(_PIECE, theta.size), np.float32)
        for begin in range(0, theta.size, _PIECE):
            piece = slice(begin, min(begin + _PIECE, theta.size))
            self._sketch.give(step[: piece.stop - begin], self.loop.outer_step, begin)
            for part, now in held.overlaps(piece, reads=held.can_be_stored):
                along = step[part.start - begin : part.stop - begin]
                native.sgd_step(theta[part], along, self._lr, now if held.can_be_stored else None)
        self.model.is_stored = held.can_be_stored
