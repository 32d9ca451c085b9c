"""Bits of strategies that send few elements or few bits. Other CPUs and later versions have to give these hashes, too.

The hashes are those of the first version, which computed in numpy.
"""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import lockstep  # noqa: E402
from lockstep.torch import DeMo, JustOneByte, SketchedSGD, SparseLoCo  # noqa: E402
from lockstep.train.codec.dct import TiledDct  # noqa: E402
from lockstep.train.codec.sketch import Sketch  # noqa: E402
from lockstep.train.codec.sparse import SparseCodec  # noqa: E402
from lockstep.train.codec.sparse_average import SparseAverage  # noqa: E402
from lockstep.train.one_byte import Directions  # noqa: E402
from strategy_programs import hash_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

F = np.float32
SEEDS = (1, 2)


def numbers(count: int, seed: int, kind: str = "scattered") -> Any:
    """scattered: 40 octaves; few: eight values and both zeros, so that most are equal; small: denormals mostly."""
    words = (np.arange(count, dtype=np.uint64) * np.uint64(2654435761) + np.uint64(seed * 40503)) % np.uint64(2**32)
    if kind == "few":
        values = ((words >> np.uint64(20)) % np.uint64(9)).astype(F) - F(4)
        return np.where(words % np.uint64(5) == 0, -values, values).astype(F)
    root = (words.astype(np.int64) - 2**31).astype(F)
    return root * F(1e-45) if kind == "small" else root * root * root * F(1e-28)


def codec_bits(sizes: dict[str, int], density: float, chunk: int) -> list[Any]:
    codec = SparseCodec.of_runs(sizes, density=density, chunk=chunk)
    count = sum(sizes.values())
    out: list[Any] = []
    for kind in ("scattered", "few", "small"):
        blocks = [codec.encode(numbers(count, seed, kind), 0.5 + seed, seed == 2, 0.25) for seed in SEEDS]
        out += blocks
        decoded = [codec.decode(block) for block in blocks]
        for one in decoded:
            for tensor in one.tensors:
                out += [tensor.places, tensor.values, np.float64(tensor.energy)]
        for counts_absent, clips in ((False, False), (True, False), (False, True), (True, True)):
            average = np.empty(count, F)
            SparseAverage(counts_absent=counts_absent, clips=clips).compute(decoded, codec.parts, average)
            out.append(average)
    return out


def sketch_bits(count: int, ratio: float) -> list[Any]:
    out: list[Any] = []
    for seed, turn in ((0, 0), ((3 << 40) + 5, (7 << 32) + 2)):
        sketch = Sketch(count, ratio, seed)
        for kind in ("scattered", "few", "small"):
            sketch.take(numbers(count, 3, kind), turn)
            back = np.empty(count, F)
            sketch.give(back, turn)
            out += [sketch.buckets.copy(), back]
    return out


def transform_bits(rows: int, columns: int, side: int) -> list[Any]:
    tiled = TiledDct(rows, columns, side)
    out: list[Any] = []
    for kind in ("scattered", "few", "small"):
        values = numbers(rows * columns, 4, kind)
        coefficients, back, few = np.empty_like(values), np.empty_like(values), np.empty_like(values)
        tiled.forward(values, coefficients)
        tiled.backward(coefficients, back)
        tiled.backward(np.where(np.arange(values.size) % 37 == 0, values, F(0)), few)
        out += [coefficients, back, few]
    return out


def direction_bits(count: int) -> list[Any]:
    made = np.empty(count, F)
    for part, values in Directions(lockstep.PeerId(bytes(range(16))), 9 << 33).times(F(0.75), count, 3, (1 << 32) + 4):
        made[part] = values
    return [made]


def model_of(dtype: Any = torch.float32) -> Any:
    """Matrices, one of them transposed in memory, vectors, an empty tensor and a tensor of three dimensions."""
    shapes = [(130, 67), (70, 129), (200,), (0, 3), (5, 7, 11), (1,)]
    model = torch.nn.ParameterList()
    for number, shape in enumerate(shapes):
        values = torch.from_numpy(numbers(int(np.prod(shape)), number + 1)).to(dtype)
        tensor = values.reshape(shape[::-1]).t() if number == 1 else values.reshape(shape)
        model.append(torch.nn.Parameter(tensor))
    return model


def moved(model: Any, step: int) -> None:
    """Progress and gradients of a step."""
    with torch.no_grad():
        for number, parameter in enumerate(model):
            change = torch.from_numpy(numbers(parameter.numel(), 100 * step + number + 50)).reshape(parameter.shape)
            parameter.add_((change * 1e-2).to(parameter.dtype))
            parameter.grad = None if (number + step) % 5 == 2 else (change * 0.5).to(parameter.dtype)


def training_bits(make: Callable[[Any, Any], Any], dtype: Any = torch.float32, *, weighted: bool = False) -> list[Any]:
    """The parameters after each of some outer steps, alone."""
    model = model_of(dtype)
    inner = torch.optim.SGD(model.parameters(), lr=0.0)
    out: list[Any] = []
    with make(model, inner) as sync:
        for step in range(4):
            moved(model, step)
            if isinstance(sync, JustOneByte):
                sync.step(lambda: math.fsum(value * value for value in model[2].tolist()))
            else:
                sync.step(0.5 + step if weighted else None)
            out += [tensor.numpy() for tensor in sync.global_state_dict()["parameters"].values()]
            out += [parameter.detach().float().numpy() for parameter in model]
    return out


def sparse_loco(**options: Any) -> Callable[[Any, Any], Any]:
    return lambda model, inner: SparseLoCo(None, model, inner, **{"inner_steps": 1, "density": 1 / 16, **options})


def sketched(**options: Any) -> Callable[[Any, Any], Any]:
    return lambda model, inner: SketchedSGD(None, model, inner, **{"inner_steps": 1, "seed": 5, **options})


def demo(**options: Any) -> Callable[[Any, Any], Any]:
    return lambda model, inner: DeMo(None, model, **{"lr": 0.01, **options})


def one_byte(model: Any, inner: Any) -> Any:
    return JustOneByte(None, model, lr=0.01, samples=2, seed=3)


CASES: dict[str, tuple[str, Callable[[], list[Any]]]] = {
    "codec, whole chunks": ("89a8c64810a66d5e", lambda: codec_bits({"a": 8192, "b": 4096}, 1 / 64, 4096)),
    "codec, rests": ("283f024bb69ad38f", lambda: codec_bits({"a": 9001, "none": 0, "b": 5, "c": 4097}, 1 / 64, 4096)),
    "codec, dense": ("6bf94cf88cb13c47", lambda: codec_bits({"a": 3001, "b": 64}, 0.6, 1000)),
    "codec, all": ("eeb2338f43e1c6dd", lambda: codec_bits({"a": 301, "b": 7}, 1.0, 100)),
    "codec, one of each": ("4226bee87148f0be", lambda: codec_bits({"a": 301, "b": 7}, 0.001, 13)),
    "codec, chunks of one": ("fb50eb5ea8e0fe10", lambda: codec_bits({"a": 31, "b": 7}, 1.0, 1)),
    "sketch, empty": ("e3b0c44298fc1c14", lambda: sketch_bits(0, 10)),
    "sketch, short": ("4dc3bc387247b78c", lambda: sketch_bits(29, 3.5)),
    "sketch, long": ("2f53403f1a714c92", lambda: sketch_bits((1 << 16) + 3 * 4096 + 13, 10)),
    "sketch, whole": ("6d05443cbe262cfe", lambda: sketch_bits(2 * 4096, 1)),
    "sketch, one bucket": ("e0ffd70101b879ab", lambda: sketch_bits(4096 + 77, 4096)),
    "transform, 64": ("6e65e99e4176122c", lambda: transform_bits(150, 200, 64)),
    "transform, row": ("7fb0166d6f085bfe", lambda: transform_bits(1, 700, 64)),
    "transform, column": ("899e02c719f8e5a7", lambda: transform_bits(300, 1, 32)),
    "transform, odd": ("6ffeb1d0451df286", lambda: transform_bits(61, 83, 27)),
    "transform, 1": ("b9cb9aaeac3fdb2b", lambda: transform_bits(5, 9, 1)),
    "direction": ("3b24e01cdaab190a", lambda: direction_bits((1 << 16) + 131)),
    "SparseLoCo": ("8e048c3aaf9afcdb", lambda: training_bits(sparse_loco(chunk=512))),
    "SparseLoCo, weighted": ("152faa88be4c6344", lambda: training_bits(sparse_loco(aggregate="mean"), weighted=True)),
    "SparseLoCo, bfloat16": ("14599a50dcafa870", lambda: training_bits(sparse_loco(outer_lr=0.7), torch.bfloat16)),
    "SparseLoCo, float16": ("e893b179537468e1", lambda: training_bits(sparse_loco(clip_to_median=True), torch.float16)),
    "SketchedSGD": ("ab5af5fd88b44258", lambda: training_bits(sketched())),
    "SketchedSGD, bfloat16": (
        "e9d66d0a5494e5a5",
        lambda: training_bits(sketched(ratio=2.5, outer_lr=0.3), torch.bfloat16),
    ),
    "DeMo": ("5d088a633e54e3db", lambda: training_bits(demo())),
    "DeMo, float16": (
        "446a7753003221ad",
        lambda: training_bits(demo(chunk=24, topk=7, weight_decay=0.1), torch.float16),
    ),
    "DeMo, weighted": ("42597c5e9f2546ce", lambda: training_bits(demo(decay=0.9, topk=100), weighted=True)),
    "JustOneByte": ("3ae8fb0a8b78132b", lambda: training_bits(one_byte)),
}


@pytest.mark.parametrize("case", CASES)
def test_bits_are_golden(case: str) -> None:
    wanted, compute = CASES[case]
    with np.errstate(all="ignore"):
        assert hash_of(*(np.ascontiguousarray(array) for array in compute())) == wanted
