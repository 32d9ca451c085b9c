"""DeMo: in each step peers exchange the few largest frequencies of their momentum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from .. import _lockstep as native
from .agreement import Setting
from .checked import at_least_0, number, whole_number
from .codec.dct import LONGEST_SIDE, Strip, TiledDct
from .codec.sparse import SparseCodec
from .codec.sparse_average import SparseAverage
from .flat import Fragment
from .host_parameters import HostParameters, is_lendable, memory_of
from .outer import NoSteps
from .run_loop import Run
from .shared_model import AllParameters
from .sparse_rounds import SparseRounds
from .strategy import Strategy
from .training import Parts


class DeMo(Strategy):
    """Trains with momentum that peers keep for themselves; in each step they exchange its largest frequencies.

        error_m = decay * error_m + lr * gradient_m
        sent_m = two bits for each of the topk largest coefficients of each tile of DCT(error_m)
        error_m = error_m - inverse DCT(sent_m)
        theta = (1 - lr * weight_decay) * theta - lr * sign(inverse DCT(average of sent_m))

    B. Peng, J. Quesnelle, D. P. Kingma, "DeMo: Decoupled Momentum Optimization", 2024. As in the authors' code, a
    coefficient is averaged over the peers that have sent it. Other than there, coefficients travel with 2 bits, as in
    SparseLoCo, instead of as floats (what that loses stays in the error), and a matrix whose sides are no multiples of
    `chunk` has smaller tiles at its edges only.

    The strategy is the optimizer: call step() after backward(), and no other optimizer. Each step is an outer step. A
    peer's block has at most topk * 14 bits for each tile; with the defaults that is 0.113 bits for each parameter of a
    large matrix. In a step each of n peers sends and receives n - 1 blocks.

    run, minimum_world, check_every: a run or None, a least number of members, and steps between two comparisons of
        hashes; LocalSGD tells more.
    model: the module; its parameters that need gradients are trained; a gradient that is None counts as zeros.
    lr: rate, at least 0; set the attribute for a schedule, which follows inner_step. Different rates raise
        lockstep.InvalidArgument on all peers.
    decay: what remains of the error from one step to the next, 0 to 1.
    topk: coefficients of a tile that are sent, 1 to 4096; no more than the tile has.
    chunk: side of a tile, 1 to 64. A parameter of one dimension is a matrix of one row; with more than two dimensions,
        the columns are all but the first.
    weight_decay: at least 0.
    All numbers are equal on all peers. step(weight) works as in SparseLoCo.

    The shared parameters have equal bits on every CPU: no sum of the DCT is rounded. The error belongs to a peer, and
    newcomers begin with 0. The error changes when a step is made, and only then. Memory: 2 times the size of the model
    in float32, and the blocks of all peers. Errors are those of SparseLoCo.
    Raises ValueError, TypeError.

    Example:
        >>> with DeMo(run, model, lr=1e-3) as strategy:
        ...     while strategy.inner_step < 1000:
        ...         loss(model).backward()
        ...         strategy.step()
        ...         model.zero_grad()
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        *,
        lr: float,
        decay: float = 0.999,
        topk: int = 32,
        chunk: int = 64,
        weight_decay: float = 0.0,
        minimum_world: int = 0,
        check_every: int = 100,
    ) -> None:
        if not 0 <= number(decay, "decay", "0 to 1") <= 1:
            raise ValueError(f"decay is {decay}; allowed: 0 to 1")
        if whole_number(topk, "topk", 1) > LONGEST_SIDE**2:
            raise ValueError(f"topk is {topk}; allowed: 1 to {LONGEST_SIDE**2}")
        if whole_number(chunk, "chunk", 1) > LONGEST_SIDE:
            raise ValueError(f"chunk is {chunk}; allowed: 1 to {LONGEST_SIDE}")
        self._signs = _SignSteps(at_least_0(lr, "lr"), at_least_0(weight_decay, "weight_decay"))
        parts = Parts(run, model, AllParameters(model), minimum_world, check_every)
        super().__init__(_FrequencyRounds(parts, self._signs, float(decay), int(topk), int(chunk)))

    @property
    def lr(self) -> float:
        """The rate of the next step. Raises ValueError, TypeError when it is set to something else."""
        return self._signs.lr

    @lr.setter
    def lr(self, lr: float) -> None:
        self._signs.lr = at_least_0(lr, "lr")


class _FrequencyRounds(SparseRounds):
    """Rounds of one step, in which peers send the largest frequencies of each tile of their momentum, the error."""

    def __init__(self, parts: Parts, signs: _SignSteps, decay: float, topk: int, chunk: int) -> None:
        super().__init__(parts, 1, signs, SparseAverage(counts_absent=False, clips=False))
        self._signs = signs
        self._decay = decay
        self._numbers = {"decay": decay, "topk": topk, "chunk": chunk}
        self._tiles = {name: TiledDct(*_as_matrix(shape), chunk) for name, shape in self.model.whole.shapes.items()}
        chunks = {name: tiles.chunks for name, tiles in self._tiles.items()}
        self._codec = SparseCodec(chunks, lambda length: min(topk, length))

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), **self._numbers}

    @property
    def codec(self) -> SparseCodec:
        """See SparseRounds."""
        return self._codec

    @property
    def rate(self) -> float:
        """See SparseRounds."""
        return self._signs.lr

    def step_with_peers(self, fragment: Fragment) -> bool:
        """See GatherRounds."""
        held, theta, error = HostParameters(fragment), fragment.theta, self.error
        gradients = _StripGradients(fragment)
        decay, lr = float(np.float32(self._decay)), float(np.float32(self._signs.lr))
        tiled = list(self._tiles.values())

        def add_momentum(encoder: native.SparseEncoder) -> None:
            for tensor, (tiles, (_, part)) in enumerate(zip(tiled, held.parts)):
                for strip in tiles.strips:
                    part_of_error = error[part.start + tiles.first(strip) : part.stop]
                    gradient, stride = gradients.of(tensor, tiles, strip)
                    encoder.add_momentum(strip.dct, tiles.grid(strip), part_of_error, gradient, stride, decay, lr)

        average, sent, has_newcomers = self.exchange(add_momentum)
        remains = float(np.float32(self._signs.remains))
        for tensor, (tiles, (own, part)) in enumerate(zip(tiled, held.parts)):
            model = memory_of(own.view(-1)) if held.can_be_stored and own.numel() else None
            for strip in tiles.strips:
                first = tiles.first(strip)
                place = slice(part.start + first, part.stop)
                gradient, stride = gradients.of(tensor, tiles, strip)
                average.sign_step(
                    sent,
                    tensor,
                    strip.begin,
                    strip.dct,
                    tiles.grid(strip),
                    error[place],
                    theta[place],
                    gradient,
                    stride,
                    None if model is None else model[first:],
                    decay,
                    lr,
                    remains,
                )
        self.model.is_stored = held.can_be_stored
        return has_newcomers


class _StripGradients:
    """The gradients of a fragment as native code reads them."""

    def __init__(self, fragment: Fragment) -> None:
        self._gradients = fragment.gradients

    def of(self, tensor: int, tiles: TiledDct, strip: Strip) -> tuple[Any, int]:
        """The gradient of a parameter from the first element of a strip on, and the elements from row to row of it.

        None for zeros. The gradient's own memory where it can be, else a copy of the strip.
        """
        gradient = self._gradients[tensor]
        if gradient is None:
            return None, 0
        if is_lendable(gradient):
            return memory_of(gradient.view(-1)[tiles.first(strip) :]), tiles.shape[1]
        copy = gradient.reshape(tiles.shape)[strip.rows, strip.columns].cpu().contiguous()
        return memory_of(copy.view(-1)), strip.across * strip.width


class _SignSteps(NoSteps):
    """theta = (1 - lr * weight_decay) * theta - lr * sign(gradient), made tile by tile in native code."""

    def __init__(self, lr: float, weight_decay: float) -> None:
        self.lr = lr
        self._weight_decay = weight_decay

    @property
    def remains(self) -> float:
        """What weight decay leaves of a parameter."""
        return 1 - self.lr * self._weight_decay

    def settings(self) -> Mapping[str, float]:
        """The weight decay; a rate may change, and peers compare it in each step."""
        return {"weight_decay": self._weight_decay}


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns."""
    return (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))
