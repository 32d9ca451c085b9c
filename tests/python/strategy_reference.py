"""What training strategies must compute, in one process: their equations, written down a second time.

Nothing here uses lockstep. Sums follow the documented order of the ring: ranks r + 1, r + 2, ..., r fold their inputs
into the chunk that rank r owns; a tensor of at most 16 KiB is one chunk, of rank 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Callable

import numpy as np
import torch

F = np.float32
WHOLE = 4096  # float32 elements
BLOCK, SMALL_BLOCK = 256, 64  # of int8, of e3m0


def int8(values: np.ndarray) -> np.ndarray:
    """What is left of values after a trip as int8: multiples of a scale for each block."""
    out = np.zeros_like(values)
    for begin in range(0, values.size, BLOCK):
        block = values[begin : begin + BLOCK]
        largest = np.abs(block).max()
        if largest >= F(2.0**-119):
            codes = np.rint(block * (F(127) / largest))
            out[begin : begin + BLOCK] = codes * (largest / F(127))
    return out


def e3m0(values: np.ndarray) -> np.ndarray:
    """What is left of values after a trip in 4 bits: seven powers of two with a sign, or 0, for each block."""
    out = np.zeros_like(values)
    for begin in range(0, values.size, SMALL_BLOCK):
        block = values[begin : begin + SMALL_BLOCK]
        exponents = ((block.view(np.uint32) & 0x7FFFFFFF).astype(np.int64) + (1 << 22)) >> 23  # rounded
        largest = min(int(exponents.max()), 254)
        if np.abs(block).max() >= F(2.0**-119):
            sizes = np.clip(exponents - largest + 7, 0, 7)
            powers = np.ldexp(F(1), (largest - 127 + sizes - 7).astype(np.int32)).astype(F)
            out[begin : begin + SMALL_BLOCK] = np.where(sizes > 0, np.copysign(powers, block), F(0))
    return out


def bf16(values: np.ndarray) -> np.ndarray:
    """What is left of values after a trip as bfloat16, rounded to nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(F)


def exactly(values: np.ndarray) -> np.ndarray:
    return values.copy()


def average(inputs: Sequence[np.ndarray], weights: Sequence[float], up: Any = exactly, down: Any = exactly) -> Any:
    """The weighted average around the ring, of inputs in rank order; partial sums travel as `up`."""
    world, count = len(inputs), inputs[0].size
    if world == 1:
        return inputs[0].copy()
    total = F(0)
    for weight in weights:
        total = total + F(weight)
    weighed = [F(weight) * each for weight, each in zip(weights, inputs)]
    result = np.empty_like(inputs[0])
    for owner, part in chunks(world, count):
        order = [(owner + hop) % world for hop in range(1, world + 1)]
        sums = weighed[order[0]][part]
        for rank in order[1:]:
            sums = up(sums) + weighed[rank][part]
        result[part] = down(sums / total)
    return result


def average_direct(
    inputs: Sequence[np.ndarray], residuals: Sequence[np.ndarray], up: Any, down: Any
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The average where every rank sends its rounded input to the owner; and what is left over on each rank."""
    world, count = len(inputs), inputs[0].size
    if world == 1:
        return inputs[0].copy(), list(residuals)
    result = np.empty_like(inputs[0])
    left = [np.zeros_like(each) for each in residuals]
    for owner, part in chunks(world, count):
        order = [(owner + hop) % world for hop in range(1, world)]
        sums = np.zeros_like(inputs[0][part])
        for place, rank in enumerate(order):
            wanted = inputs[rank][part] + residuals[rank][part]
            sent = up(wanted)
            left[rank][part] = wanted - sent
            sums = sent if place == 0 else sums + sent
        sums = sums + (inputs[owner][part] + residuals[owner][part])
        result[part] = down(sums / F(world))
    return result, left


def philox(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox 4x32-10, written down from the paper: four words."""
    (a, b, c, d), (k, m) = counter, key
    for _ in range(10):
        left, right = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (right >> 32) ^ b ^ k, right % 2**32, (left >> 32) ^ d ^ m, left % 2**32
        k, m = (k + 0x9E3779B9) % 2**32, (m + 0xBB67AE85) % 2**32
    return [a, b, c, d]


def hashes(count: int, ratio: float, seed: int, turn: int) -> tuple[list[int], list[int]]:
    """The bucket and the sign of each element of a sketch: 4096 elements share buckets."""
    buckets: list[int] = []
    signs: list[int] = []
    for element in range(count):
        if element % 8 == 0:
            words = philox([element // 8, turn % 2**32, turn >> 32, 1], [seed % 2**32, seed >> 32])
            halves = [half for word in words for half in (word % 2**16, word >> 16)]
        chunk = element // 4096
        size = math.ceil(min(4096, count - 4096 * chunk) / ratio)
        half = halves[element % 8]
        buckets.append(chunk * math.ceil(4096 / ratio) + (half >> 1) * size // 2**15)
        signs.append(-1 if half % 2 else 1)
    return buckets, signs


def sketch(values: np.ndarray, ratio: float, seed: int, turn: int) -> np.ndarray:
    """The sums of buckets in float64, in the order of the elements."""
    whole, rest = divmod(values.size, 4096)
    sums = [0.0] * (whole * math.ceil(4096 / ratio) + math.ceil(rest / ratio))
    for value, bucket, sign in zip(values.tolist(), *hashes(values.size, ratio, seed, turn)):
        sums[bucket] += sign * value
    return np.array(sums).astype(F)


def unsketch(sums: np.ndarray, count: int, ratio: float, seed: int, turn: int) -> np.ndarray:
    buckets, signs = hashes(count, ratio, seed, turn)
    return np.array([F(sign) * sums[bucket] for bucket, sign in zip(buckets, signs)], F)


def direction(count: int, peer: bytes, sample: int, seed: int, turn: int) -> np.ndarray:
    """+1 or -1 for each element: bits of Philox, whose key comes from the peer's id."""
    words = [int.from_bytes(peer[at : at + 4], "little") for at in range(0, 16, 4)]
    key = philox(words, [seed % 2**32, seed >> 32])[:2]
    out: list[float] = []
    for counter in range(math.ceil(count / 128)):
        for word in philox([counter, sample, turn % 2**32, turn >> 32], key):
            out += [1 if word >> bit & 1 else -1 for bit in range(32)]
    return np.array(out[:count], F)


def gaussian(entropy: Callable[[int], bytes], count: int) -> np.ndarray:
    """Normal numbers by Box and Muller's method, of at most 65536 elements."""
    half = (count + 1) // 2
    uniform = np.frombuffer(entropy(16 * half), "<u8") // 2**11 / 2.0**53
    radius, angle = np.sqrt(-2 * np.log(1 - uniform[:half])), 2 * np.pi * uniform[half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


def epsilon(deviation: float, delta: float) -> float:
    """That of the normal mechanism with sensitivity 1: Balle and Wang, 2018, theorem 8, by bisection."""

    def below(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    def delta_of(e: float) -> float:
        return below(0.5 / deviation - e * deviation) - math.exp(e) * below(-0.5 / deviation - e * deviation)

    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) > delta else (low, middle)
    return high


def code(slope: float) -> F:
    """What is left of a slope after a trip in one byte."""
    if abs(slope) < 2**-10:
        return F(0)
    sizes = [2.0 ** ((number - 73) / 8) for number in range(1, 128)]
    nearest = min(sizes, key=lambda size: abs(math.log2(size) - math.log2(abs(slope))))
    return F(math.copysign(nearest, slope))


def chunks(world: int, count: int) -> list[tuple[int, slice]]:
    """Each owner with its part."""
    if count <= WHOLE:
        return [(0, slice(0, count))]
    parts, begin = [], 0
    for rank in range(world):
        end = begin + count // world + (1 if rank < count % world else 0)
        parts.append((rank, slice(begin, end)))
        begin = end
    return parts


class Outer:
    """SGD with Nesterov momentum, each operation rounded on its own."""

    def __init__(self, lr: float, momentum: float, count: int) -> None:
        self.lr, self.mu = F(lr), F(momentum)
        self.v = np.zeros(count, F)

    def step(self, theta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        if not self.mu:
            return theta - self.lr * gradient
        self.v = self.mu * self.v + gradient
        return theta - self.lr * (gradient + self.mu * self.v)


@dataclass
class Sent:
    """What a peer sends of a tensor: a value for each element, 0 for those that it does not send."""

    values: np.ndarray
    is_sent: np.ndarray

    @property
    def norm(self) -> float:
        sizes, counts = np.unique(np.abs(self.values[self.is_sent]), return_counts=True)
        squares = [float(count * Fraction(float(size)) ** 2) for size, count in zip(sizes, counts)]
        return math.sqrt(sum(squares))


def runs(values: np.ndarray, length: int) -> list[np.ndarray]:
    """A tensor in chunks of one length; the last one may be shorter."""
    return [values[begin : begin + length] for begin in range(0, values.size, length)]


def part_of(density: float) -> Callable[[int], int]:
    return lambda length: max(1, round(density * length))


def sparse(chunks: Sequence[np.ndarray], most: Callable[[int], int]) -> Sent:
    """The largest elements of each chunk of a tensor, as plus or minus one of two means."""
    values = np.concatenate([np.zeros(0, F), *chunks])
    is_sent = np.zeros(values.size, bool)
    begin = 0
    for chunk in chunks:
        part = [abs(float(value)) for value in chunk]
        order = sorted(range(len(part)), key=lambda place: (-part[place], place))
        for place in order[: most(len(part))]:
            is_sent[begin + place] = part[place] > 0
        begin += len(part)
    sizes = {int(place): Fraction(abs(float(values[place]))) for place in np.flatnonzero(is_sent)}
    left = np.zeros_like(values)
    if sizes:
        middle = float(sum(sizes.values())) / len(sizes)
        for side in (True, False):
            ours = [place for place, size in sizes.items() if (size > Fraction(middle)) == side]
            if ours:
                mean = F(float(sum(sizes[place] for place in ours)) / len(ours))
                for place in ours:
                    left[place] = mean if values[place] > 0 else -mean
    return Sent(left, is_sent)


def average_sparse(
    sent: Sequence[Sent], weights: Sequence[float], *, counts_absent: bool = False, clips: bool = False
) -> np.ndarray:
    """The average of a tensor, of contributions in the order of the peers' ids."""
    norms = [one.norm for one in sent]
    median = sorted(norms)[(len(norms) - 1) // 2]
    sums, counted = np.zeros_like(sent[0].values), np.zeros_like(sent[0].values)
    for one, norm, weight in zip(sent, norms, weights):
        values = one.values * F(median / norm) if clips and norm > median else one.values
        sums = sums + F(weight) * values
        counted = counted + F(weight) * (np.ones_like(sums) if counts_absent else one.is_sent.astype(F))
    return np.where(counted > 0, sums / np.where(counted > 0, counted, F(1)), F(0))


def scattered(count: int, turn: int) -> np.ndarray:
    """Numbers of many sizes that are equal on every machine."""
    words = [(place * 2654435761 + turn * 40503) % 2**32 - 2**31 for place in range(count)]
    roots = np.array(words, np.int64).astype(F)
    return roots * roots * roots


def cosines(count: int) -> np.ndarray:
    """The DCT-II with 15 binary places, as integers."""
    u, x = np.mgrid[0:count, 0:count]
    scale = np.where(u == 0, math.sqrt(1 / count), math.sqrt(2 / count))
    return np.rint(2**15 * scale * np.cos(math.pi * (2 * x + 1) * u / (2 * count))).astype(np.int64)


def times_cosines(left: np.ndarray, tile: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left @ tile @ right, of integers: 16 bits for the elements of the tile."""
    _, exponent = math.frexp(float(np.abs(tile).max()))
    integers = np.rint(tile.astype(np.float64) * 2.0 ** (16 - exponent)).astype(np.int64)
    return ((left @ integers @ right).astype(np.float64) * 2.0 ** (exponent - 16 - 30)).astype(F)


def dct(tile: np.ndarray) -> np.ndarray:
    return times_cosines(cosines(tile.shape[0]), tile, cosines(tile.shape[1]).T)


def inverse_dct(tile: np.ndarray) -> np.ndarray:
    return times_cosines(cosines(tile.shape[0]).T, tile, cosines(tile.shape[1]))


def flat(model: Any) -> np.ndarray:
    return np.concatenate([parameter.detach().numpy().reshape(-1) for parameter in model.parameters()])


def unflatten(model: Any, values: np.ndarray) -> None:
    at = 0
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(values[at : at + parameter.numel()].copy()).view(parameter.shape))
            at += parameter.numel()
