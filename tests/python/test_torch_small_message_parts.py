"""Parts of the strategies with small messages: random words, sketches, codes of a byte, noise."""

from __future__ import annotations

import math
import os
import re
import sys
import types
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from support import Peers, at_each_rank

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import strategy_reference as reference  # noqa: E402  it needs torch
from lockstep.torch import DPLoRA, JustOneByte, LocalSGD, Replica, SketchedSGD, Wire  # noqa: E402
from lockstep.train import dp_lora  # noqa: E402
from lockstep.train.codec.philox import philox  # noqa: E402
from lockstep.train.codec.sketch import CHUNK, Sketch  # noqa: E402
from lockstep.train.one_byte import NOT_FINITE, Directions, decode, encode  # noqa: E402
from test_torch_strategy_parts import adam, bits, model_of, trains  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

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


# ---- one byte ----


def test_a_code_comes_back() -> None:
    for code in range(256):
        if code not in (NOT_FINITE, 0):
            assert encode(float(decode(code))) == code
    assert decode(0) == encode(0.0) == encode(-0.0) == encode(2.0**-11) == encode(-(2.0**-11)) == 0
    assert math.isnan(decode(NOT_FINITE))
    assert [encode(slope) for slope in (math.nan, math.inf, -math.inf)] == [NOT_FINITE] * 3


def test_a_code_is_near() -> None:
    generator = np.random.default_rng(0)
    for size in 2.0 ** generator.uniform(-9, 6.75, 1000):
        for slope in (float(size), -float(size)):
            decoded = float(decode(encode(slope)))
            assert abs(decoded / slope - 1) < 2 ** (1 / 16) - 1 + 1e-6
            assert decoded == reference.code(slope)


def test_codes_end() -> None:
    largest, least = 2**6.75, 2.0**-9
    assert decode(encode(1e300)) == -decode(encode(-1e300)) == np.float32(largest)
    assert decode(encode(0.6 * least)) == decode(1) == np.float32(least)


def test_a_direction_is_that_of_the_reference() -> None:
    peer = lockstep.PeerId(bytes(range(16)))
    for count in (1, 128, 5000, (1 << 16) + 130):
        made = np.zeros(count, np.float32)
        for part, values in Directions(peer, 5 << 33).times(np.float32(-3), count, sample=2, turn=(3 << 32) + 4):
            made[part] = values
        assert np.array_equal(made, -3 * reference.direction(count, peer, 2, 5 << 33, (3 << 32) + 4))
        assert abs(made.sum()) < 12 * math.sqrt(count)


def test_directions_differ() -> None:
    def bits_of(peer: bytes, seed: int, sample: int, turn: int) -> bytes:
        parts = Directions(lockstep.PeerId(peer), seed).times(np.float32(1), 128, sample, turn)
        return b"".join(values.tobytes() for _, values in parts)

    nobody, last = bytes(16), bytes(15) + b"1"
    cases = [(nobody, 0, 0, 0), (last, 0, 0, 0), (nobody, 1, 0, 0), (nobody, 0, 1, 0), (nobody, 0, 0, 1)]
    assert len({bits_of(*case) for case in [*cases, (nobody, 1 << 32, 0, 0), (nobody, 0, 0, 1 << 32)]}) == 7


def test_one_byte_alone_learns() -> None:
    model = torch.nn.Linear(16, 1, bias=False)
    target = torch.linspace(-1, 1, 16)

    def loss() -> Any:
        return (model.weight[0] - target).square().sum()

    before = loss().item()
    with JustOneByte(None, model, lr=0.02, samples=4) as sync:
        for _ in range(200):
            info = sync.step(loss)
        assert (sync.inner_step, sync.outer_step, sync.world) == (200, 200, 1)
    assert info.outer
    assert info.bytes_sent == 0
    assert loss().item() < 0.01 * before


def test_one_byte_peers_are_equal(peers: Peers) -> None:
    """Each moves along the directions of both."""

    def main(run: Any, number: int) -> tuple[bytes, list[Any], Any]:
        model = model_of(number)
        with JustOneByte(run, model, lr=0.01, samples=3) as sync:
            before = sync.global_state_dict()["parameters"]
            infos = trains(sync, model, None, 5, seed=number)
            return bits(model), infos, before

    (first, infos, before), (second, others, _) = peers(2, main)
    assert first == second
    assert first != b"".join(tensor.numpy().tobytes() for tensor in before.values())
    assert all(info.bytes_sent == info.bytes_received == 4 for info in infos)
    assert [info.contributors for info in infos] == [info.contributors for info in others]


@at_each_rank(2)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_bad_loss_is_named_on_all_peers(bad: float, peers: Peers) -> None:
    def main(run: Any, number: int) -> tuple[str, bytes, str]:
        model = model_of(0)
        with JustOneByte(run, model, lr=0.01, samples=2) as sync:
            calls: list[float] = []

            def loss() -> float:
                calls.append(bad if number == 1 and len(calls) == 3 else 1.0)
                return calls[-1]

            before = bits(model)
            with pytest.raises(lockstep.InvalidArgument) as raised:
                sync.step(loss)
            assert bits(model) == before
            assert (sync.inner_step, sync.outer_step) == (0, 0)
            trains(sync, model, None, 3, seed=number)  # the run goes on
            return str(raised.value), bits(model), str(run.id)

    first, second = peers(2, main)
    assert first[:2] == second[:2]
    assert f"a loss of peer {second[2]} in sample 1 is infinite or NaN" in first[0]


@at_each_rank(2)
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda blob: blob[:-1], "has sent 2 bytes; allowed: 3"),
        (lambda blob: np.append(blob, blob), "has sent 6 bytes; allowed: 3"),
        (lambda blob: blob[:0], "has sent 0 bytes; allowed: 3"),
        (lambda blob: np.zeros(1 << 20, np.uint8), "a peer has sent too much; allowed: at most 3 bytes; "),
    ],
)
def test_messages_of_other_sizes_are_refused_on_all_peers(wrong: Callable[[Any], Any], text: str, peers: Peers) -> None:
    def main(run: Any, number: int) -> tuple[str, str]:
        model = model_of(0)
        with JustOneByte(run, model, lr=0.01, samples=2) as sync:
            before = bits(model)
            if number == 1:
                gather = run.all_gather_async
                run.all_gather_async = lambda blob, out, **options: gather(
                    wrong(blob), np.empty(4 << 20, np.uint8), **options
                )
            with pytest.raises(lockstep.Mismatch) as raised:
                trains(sync, model, None, 1, seed=number)
            assert bits(model) == before
            return str(raised.value), str(run.id)

    first, second = peers(2, main)
    assert text in first[0]
    if text.startswith("has sent"):
        assert first[0] == second[0]
        assert f"peer {second[1]} " in first[0]


def test_a_loss_that_raises_leaves_the_parameters() -> None:
    model = model_of(0)
    calls: list[int] = []

    def loss() -> float:
        calls.append(1)
        if len(calls) == 2:
            raise ArithmeticError("no loss")
        return 1.0

    with JustOneByte(None, model, lr=0.01) as sync:
        before = bits(model)
        with pytest.raises(ArithmeticError, match="no loss"):
            sync.step(loss)
        assert bits(model) == before
        assert sync.inner_step == 0


def test_only_what_needs_gradients_moves() -> None:
    model = model_of(0)
    model[0].weight.requires_grad_(False)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    with JustOneByte(None, model, lr=0.1) as sync:
        trains(sync, model, None, 2)
    moved = {name for name, parameter in model.named_parameters() if not torch.equal(parameter, before[name])}
    assert moved == {"0.bias", "2.weight", "2.bias"}


def test_one_byte_goes_on_from_a_checkpoint() -> None:
    model = model_of(4)
    with JustOneByte(None, model, lr=0.01) as sync:
        trains(sync, model, None, 3)
        state = sync.global_state_dict()
        trains(sync, model, None, 6)
    second = model_of(5)
    again = JustOneByte(None, second, lr=0.01)
    again.load_global_state_dict(state)
    with again as sync:
        assert (sync.inner_step, sync.outer_step) == (3, 3)
        trains(sync, second, None, 6)
    assert bits(model) == bits(second)


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"lr": 0}, ValueError, "lr is 0"),
        ({"lr": "a"}, TypeError, "lr is 'a'"),
        ({"eps": 0}, ValueError, "eps is 0; allowed: a finite number above 0"),
        ({"eps": math.inf}, ValueError, "eps is inf"),
        ({"eps": None}, TypeError, "eps is None"),
        ({"samples": 0}, ValueError, "samples is 0"),
        ({"samples": 1.5}, TypeError, "samples is 1.5"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"model": None}, TypeError, "model is of type NoneType"),
        ({"run": "127.0.0.1:4000"}, TypeError, "run is '127.0.0.1:4000'"),
    ],
)
def test_arguments_of_one_byte(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        JustOneByte(**{"run": None, "model": model_of(0), "lr": 0.01, **options})


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (1.0, "loss is 1.0; allowed: a function"),
        (lambda: torch.zeros(3), "loss() returns a tensor of shape (3,); allowed: one element"),
        (lambda: None, "what loss() returns is None; allowed: a number"),
        (lambda: "1", "what loss() returns is '1'"),
    ],
)
def test_what_is_no_loss_is_named(loss: Any, text: str) -> None:
    with JustOneByte(None, model_of(0), lr=0.01) as sync, pytest.raises(TypeError, match=re.escape(text)):
        sync.step(loss)


def test_one_byte_works_inside_of_its_block_only() -> None:
    with pytest.raises(RuntimeError, match="inside of its `with` block"):
        JustOneByte(None, model_of(0), lr=0.01).step(lambda: 1.0)


# ---- clipped and noisy ----


def private(run: Any, model: Any, inner: Any = None, **options: Any) -> DPLoRA:
    inner = torch.optim.SGD(model.parameters(), lr=0.0) if inner is None else inner
    return DPLoRA(run, model, inner, **{"inner_steps": 1, "noise_multiplier": 0.0, **options})


def move(model: Any, by: float) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by)


def flat(sync: Any) -> np.ndarray:
    return np.concatenate([one.numpy().reshape(-1) for one in sync.global_state_dict()["parameters"].values()])


@pytest.fixture
def accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The formula of the library, written down a second time: the library is optional."""
    module: Any = types.ModuleType("dp_accounting.gaussian_mechanism")
    module.get_epsilon_gaussian = lambda sigma, delta: reference.epsilon(sigma, delta) if sigma else math.inf
    monkeypatch.setitem(sys.modules, "dp_accounting", types.ModuleType("dp_accounting"))
    monkeypatch.setitem(sys.modules, "dp_accounting.gaussian_mechanism", module)


def test_progress_is_clipped() -> None:
    model = model_of(1)
    with private(None, model, clip=0.5) as sync:
        before = flat(sync).astype(np.float64)
        move(model, 1.0)
        sync.step()
        change = flat(sync).astype(np.float64) - before
    assert np.linalg.norm(change) == pytest.approx(0.5, rel=1e-5)
    assert np.allclose(change, change[0], atol=1e-6)


def test_no_norm_is_above_the_bound() -> None:
    model = model_of(1)
    for seed in range(20):
        with private(None, model, clip=0.1) as sync:
            before = sync._training.model.fragments[0].theta.copy()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
            sync._training.model.fragments[0].measure()
            sync._rounds.hide(sync._training.model.fragments[0])
            gradient = sync._training.model.fragments[0].gradient.astype(np.float64)
            assert 0.0999 < np.linalg.norm(gradient) <= 0.1
            assert np.array_equal(before, sync._training.model.fragments[0].theta)


def test_small_progress_stays() -> None:
    models = [model_of(1), model_of(1)]
    inners = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
    with LocalSGD(None, models[0], inners[0], inner_steps=2) as sync:
        trains(sync, models[0], inners[0], 4)
    with private(None, models[1], inners[1], inner_steps=2, clip=1000) as sync:
        trains(sync, models[1], inners[1], 4)
    assert bits(models[0]) == bits(models[1])


def test_normal_numbers_are_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_lora, "entropy", np.random.default_rng(1).bytes)
    numbers = dp_lora.gaussian(200_001)
    assert numbers.size == 200_001
    assert abs(numbers.mean()) < 0.01
    assert numbers.var() == pytest.approx(1, abs=0.01)
    for bound, share in ((1, 0.6827), (2, 0.9545), (3, 0.9973)):
        assert (np.abs(numbers) < bound).mean() == pytest.approx(share, abs=0.003)
    half = numbers.size // 2
    assert abs(np.corrcoef(numbers[:half], numbers[half : 2 * half])[0, 1]) < 0.01


@pytest.mark.parametrize("word", [0, 2**64 - 1])
def test_the_ends_of_entropy_give_finite_numbers(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_lora, "entropy", lambda count: word.to_bytes(8, "little") * (count // 8))
    assert np.isfinite(dp_lora.gaussian(5)).all()


def test_noise_comes_from_the_operating_system() -> None:
    assert dp_lora.entropy is os.urandom
    assert not np.array_equal(dp_lora.gaussian(8), dp_lora.gaussian(8))


def test_the_sum_of_all_peers_has_the_wanted_noise(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dp_lora, "entropy", np.random.default_rng(2).bytes)

    def main(run: Any, number: int) -> np.ndarray:
        model = torch.nn.Linear(200, 200)
        with private(run, model, clip=2.0, noise_multiplier=3.0) as sync:
            before = flat(sync)
            sync.step()
            return flat(sync) - before

    first, second, third = peers(3, main)
    assert np.array_equal(first, second)
    assert np.array_equal(first, third)
    assert (3 * first).std() == pytest.approx(3.0 * 2.0, rel=0.02)


def test_each_round_draws_its_noise_once(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def entropy(count: int) -> bytes:
        drawn.append(count)
        return os.urandom(count)

    monkeypatch.setattr(dp_lora, "entropy", entropy)

    def main(run: Any, number: int) -> None:
        model = torch.nn.Linear(3, 2)
        with private(run, model, noise_multiplier=1.0) as sync:
            for _ in range(4):
                sync.step()

    peers(2, main)
    assert drawn == [64] * 8  # 8 numbers


@at_each_rank(2)
@pytest.mark.usefixtures("accounting")
def test_epsilon_counts_rounds_and_contributors(peers: Peers) -> None:
    def main(run: Any, number: int) -> list[float]:
        model = model_of(0)
        epsilons = []
        with private(run, model, noise_multiplier=2.0, delta=1e-6) as sync:
            epsilons.append(sync.epsilon())
            for _ in range(2):
                sync.step()
                epsilons.append(sync.epsilon())
            if number == 1:
                run.leave()
                raise lockstep.NotConnected("left")
            sync.step()  # two members were expected, and one has contributed
            epsilons.append(sync.epsilon())
            sync.step()
            epsilons.append(sync.epsilon())
        return epsilons

    def catching(run: Any, number: int) -> list[float]:
        try:
            return main(run, number)
        except lockstep.NotConnected:
            return []

    told = peers(2, catching)
    spent = [1 / 4, 2 / 4, 2 / 4 + 2 / 4, 2 / 4 + 2 / 4 + 1 / 4]
    expected = [0.0, *[reference.epsilon(1 / math.sqrt(each), 1e-6) for each in spent]]
    assert max(told) == pytest.approx(expected, rel=1e-9)


@pytest.mark.usefixtures("accounting")
def test_without_noise_epsilon_is_infinite() -> None:
    with private(None, model_of(0)) as sync:
        assert sync.epsilon() == 0
        sync.step()
        assert sync.epsilon() == math.inf


@pytest.mark.parametrize(("deviation", "delta"), [(1.0, 1e-5), (0.3, 1e-5), (10.0, 1e-6), (0.5, 1e-2)])
def test_the_library_has_the_formula(deviation: float, delta: float) -> None:
    accounting = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    assert accounting.get_epsilon_gaussian(deviation, delta) == pytest.approx(reference.epsilon(deviation, delta))


def test_the_known_epsilon_of_one_round() -> None:
    """Figures of the library, whose tests compare it with privacy loss distributions."""
    assert reference.epsilon(1.0, 1e-5) == pytest.approx(4.377178095681137)
    assert reference.epsilon(0.3, 1e-5) == pytest.approx(19.130767834361926)
    assert reference.epsilon(10.0, 1e-5) == pytest.approx(0.34066936468432835)


def test_epsilon_names_the_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    monkeypatch.setitem(sys.modules, "dp_accounting.gaussian_mechanism", None)
    with private(None, model_of(0)) as sync, pytest.raises(ImportError, match="pip install dp-accounting"):
        sync.epsilon()


@at_each_rank(2)
@pytest.mark.usefixtures("accounting")
def test_what_was_spent_goes_into_checkpoints_and_to_others(peers: Peers) -> None:
    model = model_of(4)
    with private(None, model, noise_multiplier=2.0) as sync:
        sync.step()
        state = sync.global_state_dict()
        spent = sync.epsilon()

    def main(run: Any, number: int) -> tuple[float, float]:
        sync = private(run, model_of(number), noise_multiplier=2.0)
        if number == 1:
            sync.load_global_state_dict(state)
        with sync:
            before = sync.epsilon()
            sync.step()
            return before, sync.epsilon()

    both = reference.epsilon(1 / math.sqrt(2 / 4), 1e-5)
    assert peers(2, main) == [(spent, pytest.approx(both))] * 2
    for bad, kind in (({}, KeyError), ({"spent": math.nan}, ValueError), ({"spent": "1"}, TypeError)):
        with pytest.raises(kind, match="spent"):
            private(None, model).load_global_state_dict({**{k: v for k, v in state.items() if k != "spent"}, **bad})


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_progress_that_is_not_finite_stays(bad: float) -> None:
    model = model_of(1)
    with private(None, model) as sync:
        before = flat(sync)
        with torch.no_grad():
            model[0].weight[0, 0] = bad
        with pytest.raises(FloatingPointError, match="nothing has left the peer"):
            sync.step()
        assert np.array_equal(flat(sync), before)
        assert sync.outer_step == 0


def test_a_buffer_that_changes_is_refused_before_anything_leaves() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6))
    with private(None, model.eval()) as sync:
        model(torch.ones(4, 6))
        sync.step()
        model.train()(torch.randn(4, 6))
        with pytest.raises(RuntimeError, match=r"buffer 1.running_mean has changed"):
            sync.step()


def test_buffers_are_not_averaged(peers: Peers) -> None:
    def main(run: Any, number: int) -> None:
        def never(*_: Any, **__: Any) -> None:
            pytest.fail("a buffer has left the peer")

        model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6)).eval()
        with private(run, model, noise_multiplier=1.0) as sync:
            run.all_reduce = never
            assert sync.step().outer

    peers(2, main)


def test_only_adapters_are_exchanged(peers: Peers) -> None:
    def main(run: Any, number: int) -> tuple[bytes, bool, int]:
        model = model_of(number)
        base = model[0].requires_grad_(False).weight
        with private(run, model, torch.optim.SGD(model[2].parameters(), lr=0.1), noise_multiplier=0.5) as sync:
            assert set(sync.global_state_dict()["parameters"]) == {"2.weight", "2.bias"}
            before = base.clone()
            sync.step()
            return bits(model), torch.equal(before, base), sync.outer_step

    first, second = peers(2, main)
    assert first == second
    assert first[1:] == (True, 1)


def test_private_steps_take_no_weight() -> None:
    with private(None, model_of(0)) as sync:
        with pytest.raises(ValueError, match="counts all peers alike"):
            sync.step(1.0)
        assert sync.inner_step == 0


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"clip": 0}, ValueError, "clip is 0; allowed: a finite number above 0"),
        ({"clip": math.inf}, ValueError, "clip is inf"),
        ({"clip": None}, TypeError, "clip is None"),
        ({"noise_multiplier": -1}, ValueError, "noise_multiplier is -1; allowed: a finite number of at least 0"),
        ({"noise_multiplier": math.nan}, ValueError, "noise_multiplier is nan"),
        ({"noise_multiplier": "1"}, TypeError, "noise_multiplier is '1'"),
        ({"delta": 0}, ValueError, "delta is 0; allowed: above 0, below 1"),
        ({"delta": 1}, ValueError, "delta is 1"),
        ({"delta": "x"}, TypeError, "delta is 'x'"),
        ({"outer_lr": 0}, ValueError, "lr is 0"),
        ({"inner_steps": 0}, ValueError, "inner_steps is 0"),
    ],
)
def test_arguments_of_noise(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=re.escape(text)):
        private(None, model_of(0), **options)


def test_a_replica_has_no_norm(peers: Peers) -> None:
    def main(run: Any, number: int) -> None:
        with pytest.raises(TypeError, match="run is a Replica"):
            private(Replica(run, 0, 1), model_of(0))

    peers(1, main)


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda run, model, number: SketchedSGD(run, model, adam(model), seed=number), "seed"),
        (lambda run, model, number: SketchedSGD(run, model, adam(model), ratio=2 + number), "ratio"),
        (lambda run, model, number: JustOneByte(run, model, lr=0.01, eps=0.5 + number), "eps"),
        (lambda run, model, number: JustOneByte(run, model, lr=0.01, samples=1 + number), "samples"),
        (lambda run, model, number: private(run, model, clip=1.0 + number), "clip"),
        (lambda run, model, number: private(run, model, noise_multiplier=number), "noise_multiplier"),
    ],
)
def test_peers_with_other_settings_are_refused(make: Any, setting: str, peers: Peers) -> None:
    def main(run: Any, number: int) -> str:
        try:
            with make(run, model_of(0), number):
                return ""
        except ValueError as error:
            return str(error)

    assert sum(f"{setting} is " in text and "in the run" in text for text in peers(2, main)) == 1
