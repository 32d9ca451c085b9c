"""JustOneByte: peers exchange one byte for each random direction, and compute the rest from shared random bits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Callable

import numpy as np
import torch

from .. import _lockstep as native
from .._arguments import shown
from ..errors import InvalidArgument, Mismatch
from ..types import PeerId
from .agreement import Setting
from .arrays import Bytes, Floats, blocks, exact
from .checked import above_0, number, whole_number
from .codec.philox import halves, philox
from .flat import Fragment
from .local_rounds import GatherRounds
from .outer import SGD
from .run_loop import Run
from .shared_model import AllParameters
from .step_info import StepInfo
from .strategy import Strategy
from .training import Parts

PER_OCTAVE = 8  # codes
LARGEST = 127
NOT_FINITE = 0x80
_ONE = 73  # the code of 1: codes 1 to 127 mean 2**-9 to 2**6.75
_FRACTIONS = (  # 2 ** (n / 8)
    1.0,
    1.0905077326652577,
    1.189207115002721,
    1.2968395546510096,
    1.4142135623730951,
    1.5422108254079407,
    1.681792830507429,
    1.8340080864093424,
)


def encode(slope: float) -> int:
    """The code of a slope in one byte: its sign in the highest bit, and 8 codes per octave of its size.

    Codes 1 to 127 mean 2**((code - 73) / 8): 0.00195 to 107.6, at most 4.4 % beside the slope; a larger slope gets the
    largest code. 0 means 0, which a slope below 2**-10 gets. 0x80 means a slope that is infinite or NaN.
    """
    if not math.isfinite(slope):
        return NOT_FINITE
    size = abs(slope)
    if size < 2.0**-10:
        return 0
    code = min(max(round(PER_OCTAVE * math.log2(size)) + _ONE, 1), LARGEST)
    return code | (0x80 if slope < 0 else 0)


def decode(code: int) -> np.float32:
    """What a code means, with the same bits on every CPU; NaN for 0x80."""
    if code == NOT_FINITE:
        return np.float32(math.nan)
    octaves, fraction = divmod((code & 0x7F) - _ONE, PER_OCTAVE)
    size = np.float32(_FRACTIONS[fraction]) * np.float32(2.0**octaves) if code & 0x7F else np.float32(0)
    return np.float32(-size if code & 0x80 else size)


class Directions:
    """The random directions of one peer: +1 or -1 for each element, which all peers can compute.

    The key is made from the seed and the id of the peer; the counters of Philox are the element, the sample and the
    outer step.
    """

    def __init__(self, peer: PeerId, seed: int) -> None:
        first, *rest = np.frombuffer(peer, "<u4").tolist()
        low, high, *_ = philox(first, 1, (rest[0], rest[1], rest[2]), halves(seed)).tolist()
        self._key = (int(low), int(high))

    def times(self, slope: np.float32, count: int, sample: int, turn: int) -> Iterator[tuple[slice, Floats]]:
        """Slices that tile `count` elements, and in each the direction times a slope, which only changes its sign."""
        for part in blocks(count):
            values = np.empty(part.stop - part.start, np.float32)
            native.direction(part.start, (sample, *halves(turn)), self._key, float(slope), values)
            yield part, values


class JustOneByte(Strategy):
    """Trains without gradients: each peer sends one byte for each random direction along which it has tried its loss.

        slope = (loss(theta + eps * z) - loss(theta - eps * z)) / (2 * eps)
        theta = theta - lr * average of slope * z        over all peers and samples

    z is +1 or -1 for each element. All peers compute the directions z of all others, from their ids and the run's outer
    step, so a step sends 1 + samples bytes, whatever the size of the model, and needs no backward pass. E. Zelikman et
    al., "Just One Byte (per gradient)", 2023. It is for fine-tuning and for models with few parameters that count: from
    scratch a large model learns next to nothing. lr must shrink as the number of trained parameters grows.

    A slope travels as its sign and one of 127 sizes, 8 per octave from 0.00195 to 107.6: at most 4.4 % beside the
    slope. A larger slope counts as 107.6, one below 0.00098 as 0.

    run, minimum_world, check_every: a run or None, a least number of members, and steps between two comparisons of
        hashes; LocalSGD tells more.
    model: all its parameters that need gradients are trained: float32, bfloat16 or float16, on any device. The shared
        copy is float32, in the memory of the host: 2 times the size of the model. In bfloat16 a change below 0.4 % of a
        parameter is lost in the model, so eps has to be as large.
    lr: rate, above 0; equal on all peers.
    eps: how far the loss is tried, above 0; equal on all peers.
    samples: directions that a peer tries in a step, at least 1; equal on all peers.
    seed: of the directions, 0 to 2**53; equal on all peers.
    Raises ValueError, TypeError.

    Example:
        >>> with lockstep.connect("env:LOCKSTEP_COORDINATOR", wait=False) as run:
        ...     with JustOneByte(run, model, lr=1e-4) as strategy:
        ...         while strategy.inner_step < 10_000:
        ...             x, y = batch(strategy.inner_step)
        ...             strategy.step(lambda: loss(model(x), y))
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        *,
        lr: float,
        eps: float = 1e-3,
        samples: int = 1,
        seed: int = 0,
        minimum_world: int = 0,
        check_every: int = 100,
    ) -> None:
        eps, samples, seed = above_0(eps, "eps"), whole_number(samples, "samples", 1), whole_number(seed, "seed", 0)
        parts = Parts(run, model, AllParameters(model), minimum_world, check_every)
        self._rounds = _SlopeRounds(parts, SGD(lr), eps, samples, seed)
        super().__init__(self._rounds)

    def step(self, loss: Callable[[], Any]) -> StepInfo:  # type: ignore[override]  # there is no inner optimizer
        """Makes a step of the run: an inner and an outer step at once.

        loss: returns the loss of the model on this peer's own batch, a number or a tensor of one element. It is called
            2 times for each sample, without gradients, and must use the same batch each time, and the same dropout.
        Raises InvalidArgument, on all peers, if the loss of a peer is infinite or NaN, and Mismatch, on all peers, if a
        peer has sent something else; both name the peer, and no parameter has changed. Raises the errors of
        Communicator.all_reduce(); what loss() raises; TypeError; RuntimeError outside of the `with` block.
        """
        self._check_entered()
        if not callable(loss):
            raise TypeError(f"loss is {shown(loss)}; allowed: a function without arguments that returns the loss")
        with torch.no_grad():
            self._rounds.try_directions(loss)
        return super().step()


class _SlopeRounds(GatherRounds):
    """Rounds of one step, in which peers send the slopes of their loss along random directions."""

    def __init__(self, parts: Parts, outer: SGD, eps: float, samples: int, seed: int) -> None:
        super().__init__(parts, 1)
        self.model.fragments = [Fragment(self.model.named, outer, error_feedback=False)]
        self._outer = outer
        self._eps = eps
        self._samples = samples
        self._seed = seed
        self._codes = np.zeros(samples, np.uint8)  # of the slopes of this peer's loss, for the next outer step

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        numbers = {"eps": self._eps, "samples": self._samples, "seed": self._seed}
        return {**super().settings(), **self._outer.settings(), **numbers}

    def try_directions(self, loss: Callable[[], Any]) -> None:
        """Measures the slopes of this peer's loss; leaves the shared parameters in the model."""
        directions = Directions(self.loop.own_id, self._seed)
        try:
            slopes = [self._slope(loss, directions, sample) for sample in range(self._samples)]
        finally:
            self.model.store()
        self._codes = np.array(slopes, np.uint8)

    def _slope(self, loss: Callable[[], Any], directions: Directions, sample: int) -> int:
        fragment = self.model.whole
        theta, moved = fragment.theta, fragment.gradient
        losses = []
        for eps in (np.float32(self._eps), np.float32(-self._eps)):
            with exact():
                for part, change in directions.times(eps, theta.size, sample, self.loop.outer_step):
                    np.add(theta[part], change, out=moved[part])
            fragment.store(moved)
            losses.append(_number_of(loss()))
        return encode((losses[0] - losses[1]) / (2 * self._eps))

    def step_with_peers(self, fragment: Fragment) -> bool:
        """See GatherRounds."""
        block = np.concatenate([np.array([self.loop.sees_newcomers()], np.uint8), self._codes])
        gathered = self.loop.gather(block, block.size)
        self._learn(fragment, [(peer, _codes_of(peer, one, self._samples)) for peer, one in gathered])
        return any(bool(one[0]) for _, one in gathered)

    def _learn(self, fragment: Fragment, contributions: Sequence[tuple[PeerId, Bytes]]) -> None:
        """The outer step along the directions of all peers, times their slopes, in the order of peers and samples."""
        gradient = fragment.gradient
        gradient.fill(0)
        with exact():
            for peer, codes in contributions:
                directions = Directions(peer, self._seed)
                for sample, slope in enumerate(map(decode, codes.tolist())):
                    if slope:
                        for part, product in directions.times(slope, gradient.size, sample, self.loop.outer_step):
                            np.add(gradient[part], product, out=gradient[part])
            np.divide(gradient, np.float32(len(contributions) * self._samples), out=gradient)
        fragment.step()


def _number_of(loss: Any) -> float:
    """The value of a loss. Raises TypeError."""
    if isinstance(loss, torch.Tensor):
        if loss.numel() != 1:
            raise TypeError(f"loss() returns a tensor of shape {tuple(loss.shape)}; allowed: one element")
        return float(loss.item())
    return number(loss, "what loss() returns", "a number, or a tensor of one element")


def _codes_of(peer: PeerId, block: Bytes, samples: int) -> Bytes:
    """The codes in the block of a peer. Raises Mismatch for another size, InvalidArgument for NaN."""
    if block.size != 1 + samples:
        raise Mismatch(f"peer {peer} has sent {block.size} bytes; allowed: {1 + samples}")
    codes = block[1:]
    bad = np.flatnonzero(codes == NOT_FINITE)
    if bad.size:
        raise InvalidArgument(
            f"a loss of peer {peer} in sample {bad[0]} is infinite or NaN, or so is what its two losses differ by; "
            "allowed: finite losses. No parameter has changed"
        )
    return codes
