"""SparseLoCo: peers exchange the few largest elements of their progress, and keep the rest for later."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from .. import _lockstep as native
from .._arguments import shown
from .agreement import Setting
from .checked import number, whole_number
from .codec.sparse import LONGEST_CHUNK, SparseCodec
from .codec.sparse_average import SparseAverage
from .flat import Fragment
from .host_parameters import HostParameters
from .outer import SGD
from .run_loop import Run
from .sparse_rounds import SparseRounds
from .strategy import Strategy
from .training import Parts


class SparseLoCo(Strategy):
    """Trains alone for inner_steps steps, then takes an outer step along the largest elements of all peers' progress.

        error_m = ef_decay * error_m + (theta - theta_m)
        sent_m = two bits for each of the largest elements of each chunk of error_m
        error_m = error_m - sent_m        what was not sent, or was lost by rounding, waits for a later round
        theta = theta - outer_lr * average of sent_m

    A. Sarfi et al., "Communication Efficient LLM Pre-training with SparseLoCo", 2025. There is no outer momentum: the
    error stands for it. A peer's block has about density * 14 bits for each parameter; with the defaults 0.223 bits,
    144 times less than float32. In an outer step each of n peers sends and receives n - 1 blocks.

    inner_steps: steps from one outer step to the next.
    density: part of each chunk that is sent, above 0, at most 1: of n elements round(density * n), at least 1. It takes
        some 1 / density outer steps until each element has been sent once; short runs need more than the default.
    chunk: length of a chunk in elements, 1 to 4096. Each parameter is cut into chunks in the order of its memory; its
        last chunk may be shorter.
    ef_decay: what remains of the error from one outer step to the next, 0 to 1.
    outer_lr: rate of the outer step.
    aggregate: "mean_present": an element's sum is divided by the peers that have sent this element, as the authors'
        published code does; larger steps where peers send different elements. "mean": by all contributors, as in the
        paper's equation.
    clip_to_median: whether what a peer sends of a parameter is scaled down to the median of all peers' norms for this
        parameter: no peer can take a step much larger than the others'.
    run, model, inner, minimum_world, check_every: a run or None, the module, its optimizer or several, a least number
        of members, and outer steps between two comparisons of hashes; LocalSGD tells more.
    All numbers are equal on all peers. With step(weight), an element counts
    with the weight of its sender; a contribution of weight 0 stays in the error of its sender.

    The error belongs to a peer, and newcomers begin with 0. The error changes when an outer step is made, and only
    then: a round that is retried or given up adds nothing twice and loses nothing. Memory: 2 times the size of the
    model in float32, and the blocks of all peers.

    Errors: a contribution that cannot be decoded, or holds a NaN or an infinity, raises lockstep.InvalidArgument on all
    peers, with the id of its sender, before anything has changed; one that is far too large raises lockstep.Mismatch.
    Raises ValueError, TypeError.

    Example:
        >>> strategy = SparseLoCo(run, model, optimizer, inner_steps=30, density=1 / 32)
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        inner_steps: int = 30,
        density: float = 1 / 64,
        chunk: int = 4096,
        ef_decay: float = 0.95,
        outer_lr: float = 1.0,
        aggregate: Literal["mean_present", "mean"] = "mean_present",
        clip_to_median: bool = False,
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        numbers = _Numbers(density, chunk, ef_decay, aggregate, clip_to_median)
        parts = Parts(run, model, inner, minimum_world, check_every)
        super().__init__(_LargestRounds(parts, inner_steps, SGD(outer_lr), numbers))


@dataclass(frozen=True)
class _Numbers:
    """Arguments of SparseLoCo. Raises TypeError, ValueError."""

    density: float
    chunk: int
    ef_decay: float
    aggregate: Literal["mean_present", "mean"]
    clip_to_median: bool

    def __post_init__(self) -> None:
        if not 0 < number(self.density, "density", "above 0, at most 1") <= 1:
            raise ValueError(f"density is {self.density}; allowed: above 0, at most 1")
        object.__setattr__(self, "chunk", whole_number(self.chunk, "chunk", 1))
        if self.chunk > LONGEST_CHUNK:
            raise ValueError(f"chunk is {self.chunk}; allowed: 1 to {LONGEST_CHUNK}")
        if not 0 <= number(self.ef_decay, "ef_decay", "0 to 1") <= 1:
            raise ValueError(f"ef_decay is {self.ef_decay}; allowed: 0 to 1")
        if self.aggregate not in ("mean_present", "mean"):
            raise ValueError(f"aggregate is {shown(self.aggregate)}; allowed: 'mean_present', 'mean'")
        if not isinstance(self.clip_to_median, bool):
            raise TypeError(f"clip_to_median is {shown(self.clip_to_median)}; allowed: a bool")

    def settings(self) -> dict[str, Setting]:
        """What must be equal on all peers."""
        return {
            "density": float(self.density),
            "chunk": self.chunk,
            "ef_decay": float(self.ef_decay),
            "aggregate (0: mean_present, 1: mean)": int(self.aggregate == "mean"),
            "clip_to_median": int(self.clip_to_median),
        }


class _LargestRounds(SparseRounds):
    """Rounds in which peers send the largest elements of each chunk of their progress."""

    def __init__(self, parts: Parts, inner_steps: int, outer: SGD, numbers: _Numbers) -> None:
        average = SparseAverage(counts_absent=numbers.aggregate == "mean", clips=numbers.clip_to_median)
        super().__init__(parts, inner_steps, outer, average)
        self._numbers = numbers
        self._lr = outer.lr
        sizes = {name: math.prod(shape) for name, shape in self.model.whole.shapes.items()}
        self._codec = SparseCodec.of_runs(sizes, density=float(numbers.density), chunk=numbers.chunk)

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), **self._numbers.settings()}

    @property
    def codec(self) -> SparseCodec:
        """See SparseRounds."""
        return self._codec

    @property
    def rate(self) -> float:
        """See SparseRounds."""
        return self._lr

    def step_with_peers(self, fragment: Fragment) -> bool:
        """See GatherRounds."""
        held, theta, error = HostParameters(fragment), fragment.theta, self.error
        decay, lr = float(np.float32(self._numbers.ef_decay)), float(np.float32(self._lr))

        def add_progress(encoder: native.SparseEncoder) -> None:
            for tensor in range(len(held.parts)):
                for part, now in held.pieces(tensor, self._numbers.chunk):
                    encoder.add_progress(error[part], theta[part], now, decay)

        average, sent, has_newcomers = self.exchange(add_progress)
        for tensor, (_, whole) in enumerate(held.parts):
            for part, now in held.pieces(tensor, self._numbers.chunk):
                model = now if held.can_be_stored else None
                average.sparse_step(
                    sent, tensor, part.start - whole.start, error[part], theta[part], now, model, decay, lr
                )
        self.model.is_stored = held.can_be_stored
        return has_newcomers
