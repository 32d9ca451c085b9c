"""Parts of the strategies with small messages: random words, sketches, codes of a byte, noise."""

from __future__ import annotations

import re
from typing import Any

import lockstep
import numpy as np
import pytest
import strategy_reference as reference
from support import Peers

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import LocalSGD, SketchedSGD, Wire  # noqa: E402
from lockstep.torch._philox import philox  # noqa: E402
from lockstep.torch._sketched import CHUNK, Sketch  # noqa: E402
from test_torch_strategy_parts import _one_thread, adam, bits, model_of, trains  # noqa: E402, F401

ONES = 2**32 - 1
PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
KNOWN = [  # of the authors' file kat_vectors: counter, key, words
    ([0] * 4, [0] * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ([ONES] * 4, [ONES] * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (PI[:4], PI[4:], "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_gives_the_known_words(counter: list[int], key: list[int], words: str) -> None:
    expected = [int(word, 16) for word in words.split()]
    first, *rest = counter
    assert philox(first, 1, (rest[0], rest[1], rest[2]), (key[0], key[1])).tolist() == expected
    assert reference.philox(counter, key) == expected


def test_philox_counts() -> None:
    words = philox(5, 3, (1, 2, 3), (4, 5)).tolist()
    assert words == [word for first in (5, 6, 7) for word in reference.philox([first, 1, 2, 3], [4, 5])]


# ---- sketches ----


def values_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


@pytest.mark.parametrize("count", [0, 1, 7, CHUNK, CHUNK + 1, 3 * CHUNK, (1 << 16) + 3 * CHUNK + 5])
@pytest.mark.parametrize("ratio", [1, 2.5, 10, CHUNK])
def test_a_sketch_is_that_of_the_reference(count: int, ratio: float) -> None:
    values, back = values_of(count), np.empty(count, np.float32)
    sketch = Sketch(count, ratio, seed=3 << 40)
    sketch.take(values, turn=(5 << 32) + 2)
    sketch.give(back, turn=(5 << 32) + 2)
    assert np.array_equal(sketch.buckets, reference.sketch(values, ratio, 3 << 40, (5 << 32) + 2))
    assert np.array_equal(back, reference.unsketch(sketch.buckets, count, ratio, 3 << 40, (5 << 32) + 2))


def test_a_sketch_is_linear() -> None:
    """With small integers nothing is rounded: the sketch of a sum is the sum of the sketches, bit for bit."""
    generator = np.random.default_rng(1)
    parts = [generator.integers(-1000, 1000, 9000).astype(np.float32) for _ in range(2)]
    buckets = []
    for values in (parts[0], parts[1], parts[0] + parts[1]):
        sketch = Sketch(9000, 7, seed=0)
        sketch.take(values, turn=4)
        buckets.append(sketch.buckets)
    assert np.array_equal(buckets[0] + buckets[1], buckets[2])


def test_a_sketch_gives_its_values_on_average() -> None:
    """Over many turns; its squares grow by (elements - 1) / buckets of a chunk."""
    count, ratio, turns = CHUNK, 8, 400
    values, back = values_of(count), np.empty(count, np.float32)
    sketch = Sketch(count, ratio, seed=0)
    mean, squares = np.zeros(count), []
    for turn in range(turns):
        sketch.take(values, turn)
        sketch.give(back, turn)
        mean += back / turns
        squares.append(np.square(back, dtype=np.float64).sum())
    energy = np.square(values, dtype=np.float64).sum()
    assert (mean * values).sum() / energy == pytest.approx(1, abs=0.01)
    assert np.square(mean - values).sum() / energy == pytest.approx(ratio / turns, rel=0.15)
    assert np.mean(squares) / energy == pytest.approx(1 + (count - 1) / sketch.buckets.size, rel=0.02)


def test_sketches_of_two_turns_and_of_two_seeds_differ() -> None:
    values = values_of(100)
    told = set()
    for seed, turn in ((0, 0), (0, 1), (1, 0), (1 << 32, 0), (0, 1 << 32)):
        sketch = Sketch(100, 4, seed)
        sketch.take(values, turn)
        told.add(sketch.buckets.tobytes())
    assert len(told) == 5


def test_large_elements_leave_other_chunks_alone() -> None:
    values, back = values_of(2 * CHUNK), np.empty(2 * CHUNK, np.float32)
    values[:CHUNK] *= 1e6
    sketch = Sketch(2 * CHUNK, 10, seed=0)
    sketch.take(values, 0)
    sketch.give(back, 0)
    assert np.abs(back[CHUNK:]).max() < 100


def test_sketched_peers_are_equal_and_send_less(peers: Peers) -> None:
    def main(run: Any, number: int) -> tuple[bytes, int, int]:
        sent = []
        for make in (
            lambda m, i: LocalSGD(run, m, i, inner_steps=2),
            lambda m, i: SketchedSGD(run, m, i, inner_steps=2, ratio=10, outer_lr=0.125),
        ):
            model = torch.nn.Sequential(torch.nn.Linear(6, 4000), torch.nn.Linear(4000, 6))
            inner = adam(model)
            with make(model, inner) as sync:
                infos = trains(sync, model, inner, 4, seed=number)
            sent.append(sum(info.bytes_sent for info in infos))
        return bits(model), sent[0], sent[1]

    (first, whole, small), (second, *_) = peers(2, main)
    assert first == second
    assert 9 < whole / small < 11


def test_alone_the_progress_is_sketched_too() -> None:
    model = model_of(1)
    inner = torch.optim.SGD(model.parameters(), lr=0.0)
    with SketchedSGD(None, model, inner, inner_steps=1, ratio=1000, outer_lr=1) as sync:
        before = sync.global_state_dict()["parameters"]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(1)
        sync.step()
        after = sync.global_state_dict()["parameters"]
    change = np.concatenate([(before[name] - after[name]).numpy().reshape(-1) for name in before])
    signs = reference.hashes(change.size, 1000, 0, 0)[1]  # one bucket
    assert np.allclose(change, sum(signs) * np.array(signs), atol=1e-4)


def test_peers_with_another_sketch_are_refused(peers: Peers) -> None:
    def main(run: Any, number: int) -> str:
        model = model_of(0)
        try:
            with SketchedSGD(run, model, adam(model), seed=number):
                return ""
        except ValueError as error:
            return str(error)

    assert sum("seed is " in text and "in the run" in text for text in peers(2, main)) == 1


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"ratio": 0.5}, ValueError, "ratio is 0.5; allowed: 1 to 4096"),
        ({"ratio": float("nan")}, ValueError, "ratio is nan"),
        ({"ratio": "ten"}, TypeError, "ratio is 'ten'"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"seed": 0.5}, TypeError, "seed is 0.5"),
        ({"outer_lr": 0}, ValueError, "lr is 0"),
        ({"wire": Wire("int8", "int8", error_feedback=True)}, ValueError, "error_feedback"),
        ({"wire": "int3"}, lockstep.InvalidArgument, "up is 'int3'"),
        ({"inner_steps": 0}, ValueError, "inner_steps is 0"),
    ],
)
def test_arguments_of_a_sketch(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    model = model_of(0)
    with pytest.raises(kind, match=re.escape(text)):
        SketchedSGD(None, model, adam(model), **options)
