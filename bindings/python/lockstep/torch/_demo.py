"""DeMo: in each step peers exchange the few largest frequencies of their momentum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._checked import at_least_0, number, whole_number
from ._dct import LONGEST_SIDE, TiledDct
from ._flat import Fragment, zeros
from ._outer import Floats, OuterOptimizer, blocks, exact
from ._sparse_average import SparseAverage
from ._sparse_codec import SparseCodec
from ._sparse_updates import SparseUpdates
from ._strategy import AllParameters, Run, StepInfo


class DeMo(SparseUpdates):
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

    run, model, minimum_world, check_every: those of LocalSGD. The parameters of the model that need gradients are
        trained; a gradient that is None counts as zeros.
    lr: rate, at least 0; set the attribute for a schedule, which follows inner_step. Different rates raise
        lockstep.InvalidArgument on all peers.
    decay: what remains of the error from one step to the next, 0 to 1.
    topk: coefficients of a tile that are sent, 1 to 4096; no more than the tile has.
    chunk: side of a tile, 1 to 64. A parameter of one dimension is a matrix of one row; with more than two dimensions,
        the columns are all but the first.
    weight_decay: at least 0.
    All numbers are equal on all peers. step(weight) works as in SparseLoCo.

    The shared parameters have equal bits on every CPU: no sum of the DCT is rounded. The error belongs to a peer, and
    newcomers begin with 0. The error changes when a step is made, and only then. Memory: 4 times the size of the model
    in float32. Errors are those of SparseLoCo.
    Raises ValueError, TypeError.

    Example:
        >>> with DeMo(run, model, lr=1e-3) as sync:
        ...     while sync.inner_step < 1000:
        ...         loss(model).backward()
        ...         sync.step()
        ...         model.zero_grad()
    """

    def __init__(
        self,
        run: Run,
        model: Any,
        *,
        lr: float,
        decay: float = 0.999,
        topk: int = 32,
        chunk: int = 64,
        weight_decay: float = 0.0,
        minimum_world: int = 0,
        check_every: int = 100,
    ) -> None:
        self._decay = number(decay, "decay", "0 to 1")
        if not 0 <= self._decay <= 1:
            raise ValueError(f"decay is {decay}; allowed: 0 to 1")
        self._topk = whole_number(topk, "topk", 1)
        if self._topk > LONGEST_SIDE**2:
            raise ValueError(f"topk is {topk}; allowed: 1 to {LONGEST_SIDE**2}")
        self._chunk = whole_number(chunk, "chunk", 1)
        if self._chunk > LONGEST_SIDE:
            raise ValueError(f"chunk is {chunk}; allowed: 1 to {LONGEST_SIDE}")
        self._signs = _SignSteps(at_least_0(lr, "lr"), at_least_0(weight_decay, "weight_decay"))
        super().__init__(
            run,
            model,
            AllParameters(model),
            inner_steps=1,
            outer=self._signs,
            minimum_world=minimum_world,
            check_every=check_every,
        )
        (fragment,) = self._fragments
        self._tiles = {name: TiledDct(*_as_matrix(shape), self._chunk) for name, shape in fragment.shapes.items()}
        chunks = {name: tiles.chunks for name, tiles in self._tiles.items()}
        self._codec = SparseCodec(chunks, lambda length: min(self._topk, length))
        self._average = SparseAverage(counts_absent=False, clips=False)
        self._coefficients = zeros(fragment.theta.size, pinned=False)

    @property
    def lr(self) -> float:
        """The rate of the next step. Raises ValueError, TypeError when it is set to something else."""
        return self._signs.lr

    @lr.setter
    def lr(self, lr: float) -> None:
        self._signs.lr = at_least_0(lr, "lr")

    def step(self, weight: float | None = None) -> StepInfo:
        """Makes a step with the gradients of the model; see Strategy.step()."""
        return super().step(weight)

    # ---- the engine ----

    def _settings(self) -> dict[str, float]:
        return {**super()._settings(), "decay": self._decay, "topk": self._topk, "chunk": self._chunk}

    def _rate(self) -> float:
        return self.lr

    def _step_with_peers(self, fragment: Fragment) -> bool:
        fragment.take_gradients()
        error, wanted = self._error_of(fragment), fragment.gradient
        decay, rate = np.float32(self._decay), np.float32(self.lr)
        with exact():
            for piece in blocks(wanted.size):
                np.multiply(wanted[piece], rate, out=wanted[piece])
                np.add(error[piece] * decay, wanted[piece], out=wanted[piece])
        coefficients = self._coefficients
        for part, tiles in zip(self._codec.parts, self._tiles.values()):
            tiles.forward(wanted[part], coefficients[part])
        sent, has_newcomers = self._exchange(coefficients, out=coefficients)
        if sent.weight != 0:
            for part, tiles, tensor in zip(self._codec.parts, self._tiles.values(), sent.tensors):
                own = np.zeros(part.stop - part.start, np.float32)
                own[tensor.places] = tensor.values
                tiles.backward(own, error[part])
                with exact():
                    np.subtract(wanted[part], error[part], out=wanted[part])
        for part, tiles in zip(self._codec.parts, self._tiles.values()):
            tiles.backward(coefficients[part], error[part])
        fragment.residual, fragment.gradient = wanted, error
        fragment.step()
        return has_newcomers


class _SignSteps(OuterOptimizer):
    """theta = (1 - lr * weight_decay) * theta - lr * sign(gradient)."""

    def __init__(self, lr: float, weight_decay: float) -> None:
        self.lr = lr
        self._weight_decay = weight_decay

    @property
    def has_momentum(self) -> bool:
        """False: there is no momentum that peers share."""
        return False

    def step(self, theta: Floats, momentum: Floats | None, gradient: Floats) -> None:
        """Changes the parameters in place; see OuterOptimizer.step()."""
        lr, remains = np.float32(self.lr), np.float32(1 - self.lr * self._weight_decay)
        with exact():
            for part in blocks(theta.size):
                np.multiply(np.sign(gradient[part]), lr, out=gradient[part])
                np.multiply(theta[part], remains, out=theta[part])
                np.subtract(theta[part], gradient[part], out=theta[part])

    def settings(self) -> Mapping[str, float]:
        """The weight decay; a rate may change, and peers compare it in each step."""
        return {"weight_decay": self._weight_decay}


def _as_matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns."""
    return (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, math.prod(shape))
