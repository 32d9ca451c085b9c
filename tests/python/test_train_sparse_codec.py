"""Sparse blocks and their averages: what is kept, what is lost, and bytes that no honest peer sends."""

from __future__ import annotations

import re
import struct
from typing import Any

import lockstep
import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from lockstep.train.codec.sparse import Sparse, SparseCodec
from lockstep.train.codec.sparse_average import SparseAverage
from lockstep.train.sparse_rounds import decode_all
from strategy_programs import hash_of
from strategy_reference import average_sparse, part_of, runs, scattered, sparse

TENSORS = {"first": 23, "empty": 0, "second": 9}
COUNT = sum(TENSORS.values())
FIXED = 16 + 2 * (3 + 2) + 8 * 3  # bytes of a block without elements, in chunks of 8
FINITE = arrays.arrays(np.float32, COUNT, elements=st.floats(width=32, allow_nan=False, allow_infinity=False))
CODECS = st.builds(
    lambda density, chunk: SparseCodec.of_runs(TENSORS, density=density, chunk=chunk),
    st.floats(0.01, 1),
    st.integers(1, 30),
)

OF_THREE = SparseCodec.of_runs({"all": 3}, density=1.0, chunk=3)

quickly = settings(max_examples=100, deadline=None, database=None, derandomize=True)


def a_codec(density: float = 0.25, chunk: int = 8) -> SparseCodec:
    return SparseCodec.of_runs(TENSORS, density=density, chunk=chunk)


def some_values(seed: int = 1, count: int = COUNT) -> Any:
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def dense(codec: SparseCodec, block: Sparse) -> Any:
    """The array that a block stands for."""
    values = np.zeros(codec.parts[-1].stop, np.float32)
    for part, tensor in zip(codec.parts, block.tensors):
        values[part][tensor.places] = tensor.values
    return values


@quickly
@given(values=FINITE, density=st.floats(0.01, 1), chunk=st.integers(1, 30))
def test_a_block_is_that_of_the_reference(values: Any, density: float, chunk: int) -> None:
    codec = a_codec(density, chunk)
    block = codec.decode(codec.encode(values))
    for part, tensor in zip(codec.parts, block.tensors):
        wanted = sparse(runs(values[part], chunk), part_of(density))
        assert tensor.places.tolist() == np.flatnonzero(wanted.is_sent).tolist()
        assert tensor.values.tobytes() == wanted.values[wanted.is_sent].tobytes()
        assert tensor.energy**0.5 == pytest.approx(wanted.norm)


@quickly
@given(
    values=FINITE,
    codec=CODECS,
    weight=st.none() | st.floats(0, 1e9, width=32),
    has_newcomers=st.booleans(),
    rate=st.floats(0, 1e9),
)
def test_a_block_says_what_was_put_in(
    values: Any, codec: SparseCodec, weight: Any, has_newcomers: bool, rate: float
) -> None:
    block = codec.encode(values, weight, has_newcomers, rate)
    assert block.size <= codec.most_bytes
    again = codec.decode(block)
    assert (again.weight, again.has_newcomers, again.rate) == (weight, has_newcomers, rate)


@quickly
@given(values=FINITE, codec=CODECS)
def test_the_code_is_symmetric(values: Any, codec: SparseCodec) -> None:
    one, other = codec.decode(codec.encode(values)), codec.decode(codec.encode(-values))
    for left, right in zip(one.tensors, other.tensors):
        assert left.places.tolist() == right.places.tolist()
        assert left.values.tobytes() == (-right.values).tobytes()


@quickly
@given(seed=st.integers(0, 1000), size=st.integers(1, 500), chunk=st.integers(1, 100), density=st.floats(0.01, 1))
def test_what_is_lost_has_a_bound(seed: int, size: int, chunk: int, density: float) -> None:
    """Before rounding at most 1 - density of the squares; and rounding to means never adds to them."""
    values = some_values(seed, size).astype(np.float64) ** 3
    codec = SparseCodec.of_runs({"all": size}, density=density, chunk=chunk)
    left = dense(codec, codec.decode(codec.encode(values.astype(np.float32)))).astype(np.float64)
    is_sent = left != 0
    rounding = np.square(values - left)[is_sent].sum()
    lost = np.square(values - left).sum()
    kept = sum(max(1, round(density * min(chunk, size - at))) for at in range(0, size, chunk))
    assert is_sent.sum() == kept
    for at in range(0, size, chunk):
        part = np.square(values[at : at + chunk])
        few = max(1, round(density * part.size))
        assert part[is_sent[at : at + chunk]].sum() >= few / part.size * part.sum() * (1 - 1e-6)
    assert rounding <= np.square(values[is_sent]).sum() * (1 + 1e-6)
    assert lost <= np.square(values).sum() * (1 + 1e-6)


def test_error_feedback_sends_everything_in_time() -> None:
    """What was sent and what remains add up to what there was; after enough rounds all elements have been sent."""
    codec, wanted = a_codec(), some_values()
    error, sent = wanted.copy(), np.zeros_like(wanted)
    was_sent = np.zeros(COUNT, bool)
    for _ in range(12):
        now = dense(codec, codec.decode(codec.encode(error)))
        error -= now
        sent += now
        was_sent |= now != 0
        np.testing.assert_allclose(sent + error, wanted, rtol=0, atol=1e-6)
    assert was_sent.all()
    assert np.abs(error).max() < np.abs(wanted).max() / 2


def test_equal_elements_the_first_is_kept() -> None:
    codec = SparseCodec.of_runs({"all": 12}, density=0.5, chunk=6)
    values = np.array([1, -2, 2, -2, 2, 1, 0, -3, 0, 0, 0, 0], np.float32)
    (tensor,) = codec.decode(codec.encode(values)).tensors
    assert tensor.places.tolist() == [1, 2, 3, 7]
    assert tensor.values.tolist() == [-2, 2, -2, -3]
    assert tensor.energy == 3 * 4 + 9


def test_zeros_are_not_sent() -> None:
    codec = a_codec()
    block = codec.encode(np.array([0.0, -0.0] * (COUNT // 2), np.float32))
    assert block.size == FIXED
    assert [tensor.places.size for tensor in codec.decode(block).tensors] == [0, 0, 0]


def test_denormals_are_sent_also_when_arithmetic_flushes_them() -> None:
    torch: Any = pytest.importorskip("torch")
    codec = SparseCodec.of_runs({"all": 4}, density=1.0, chunk=4)
    values = np.array([1e-45, -3e-45, 0, 1e-40], np.float32)
    torch.set_flush_denormal(True)
    try:
        block = codec.encode(values)
    finally:
        torch.set_flush_denormal(False)
    assert block.tobytes() == codec.encode(values).tobytes()
    assert codec.decode(block).tensors[0].places.tolist() == [0, 1, 3]


def test_a_block_has_the_documented_bytes() -> None:
    codec = SparseCodec.of_runs({"all": 5}, density=0.6, chunk=5)
    block = codec.encode(np.array([0, -1, 4, 0, 1], np.float32), 2.0, True, 0.5)
    assert block.tobytes() == struct.pack("<BBHfdHff", 1, 3, 0, 2.0, 0.5, 3, 1.0, 4.0) + bytes(
        [0x01, 0x20, 0x00, 0x04, 0x00, 0b00_00_01_10]  # places 1, 2 and 4; values -small, large, small
    )


def test_a_large_model_needs_0_223_bits_for_a_parameter() -> None:
    codec = SparseCodec.of_runs({"all": 1 << 20}, density=1 / 64, chunk=4096)
    block = codec.encode(some_values(count=1 << 20))
    assert block.size == codec.most_bytes == 16 + 256 * 2 + 8 + 256 * 64 * 14 // 8
    assert 8 * block.size / (1 << 20) == pytest.approx(0.2228, abs=1e-4)


def test_blocks_and_averages_have_golden_bits() -> None:
    """Other CPUs have to give these hashes, too."""
    codec = SparseCodec.of_runs({"first": 20_000, "second": 77}, density=1 / 16, chunk=512)
    blocks = [codec.encode(scattered(20_077, turn), turn + 1.0) for turn in range(3)]
    assert hash_of(*blocks) == "6e624ce49db0d651"
    out = np.empty(20_077, np.float32)
    SparseAverage(counts_absent=False, clips=True).compute([codec.decode(one) for one in blocks], codec.parts, out)
    assert hash_of(out) == "297b586f230adab3"


# ---- hostile bytes ----


def check_elements(block: Sparse) -> None:
    """What may be applied: places inside of the tensors, ascending, with finite values."""
    assert len(block.tensors) == len(TENSORS)
    for size, tensor in zip(TENSORS.values(), block.tensors):
        assert tensor.places.size == tensor.values.size
        assert np.isfinite(tensor.values).all()
        assert np.isfinite(tensor.energy)
        if tensor.places.size:
            assert 0 <= tensor.places[0] <= tensor.places[-1] < size
            assert (np.diff(tensor.places) > 0).all()
    assert block.weight is None or 0 <= block.weight < np.inf


def decodes_or_refuses(codec: SparseCodec, block: bytes) -> None:
    try:
        decoded = codec.decode(np.frombuffer(block, np.uint8))
    except ValueError:
        return
    check_elements(decoded)


@settings(quickly, max_examples=500)
@given(codec=CODECS, block=st.binary(max_size=200))
def test_random_bytes_are_refused(codec: SparseCodec, block: bytes) -> None:
    decodes_or_refuses(codec, block)
    decodes_or_refuses(codec, b"\1\0\0\0\0\0\x80\x3f" + bytes(8) + block)  # behind a good header


@settings(quickly, max_examples=1000)
@given(
    values=FINITE,
    codec=CODECS,
    changes=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4),
    cut=st.integers(-3, 3),
)
def test_changed_blocks_are_refused_or_harmless(
    values: Any, codec: SparseCodec, changes: list[tuple[int, int]], cut: int
) -> None:
    block = bytearray(codec.encode(values).tobytes())
    for at, byte in changes:
        block[at % len(block)] = byte
    decodes_or_refuses(codec, bytes(block[:cut] if cut < 0 else block + bytes(cut)))


def written(at: int, form: str, *numbers: Any) -> bytes:
    """A good block of `some_values`, with numbers written over it."""
    block = bytearray(a_codec().encode(some_values()).tobytes())
    struct.pack_into(form, block, at if at >= 0 else len(block) + at, *numbers)
    return bytes(block)


WHOLE = FIXED + 14 + 3  # bytes with 9 elements: two of each chunk, one of the last


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (b"", "the block has 0 bytes; allowed: at least 16"),
        (written(0, "<B", 1)[:20], f"the block has 20 bytes; allowed: at least {FIXED}"),
        (written(0, "<B", 1)[:-1], f"the block has {WHOLE - 1} bytes with 9 elements; allowed: {WHOLE}"),
        (written(0, "<B", 1) + b"\0", f"the block has {WHOLE + 1} bytes with 9 elements; allowed: {WHOLE}"),
        (written(0, "<B", 2), "the block begins with 2, 0, 0; allowed: 1, 0 to 3, 0"),
        (written(1, "<B", 4), "the block begins with 1, 4, 0"),
        (written(2, "<H", 1), "the block begins with 1, 0, 1"),
        (written(4, "<f", 2.0), "the block has weight 2.0; allowed: finite and at least 0, or 1 without a weight"),
        (written(1, "<BHf", 2, 0, float("nan")), "the block has weight nan"),
        (written(1, "<BHf", 2, 0, float("inf")), "the block has weight inf"),
        (written(1, "<BHf", 2, 0, -1.0), "the block has weight -1.0"),
        (written(16, "<H", 3), "chunk 0 has 3 elements; allowed: at most 2"),
        (written(24, "<H", 0xFFFF), "chunk 4 has 65535 elements; allowed: at most 1"),
        (written(16, "<H", 1), f"the block has {WHOLE} bytes with 8 elements; allowed: {WHOLE - 3}"),
        (written(26, "<f", float("nan")), "the values of first have sizes nan and "),
        (written(30, "<f", float("inf")), " and inf; allowed: finite, at least 0"),
        (written(42, "<f", -1.0), "the values of second have sizes -1.0 and"),
        (written(42, "<f", -0.0), "the values of second have sizes -0.0 and"),
        (written(FIXED, "<BBB", 8, 0x90, 0), "chunk 0 has an element 8; allowed: 0 to 7"),
        (written(FIXED, "<BBB", 2, 0x20, 0), "chunk 0 has element 2 after 2; allowed: ascending"),
        (written(FIXED, "<BBB", 2, 0x10, 0), "chunk 0 has element 1 after 2; allowed: ascending"),
        (written(-4, "<B", 0xF0), "unused bits behind the places are set; allowed: 0"),
        (written(-1, "<B", 0xFC), "unused bits behind the values are set; allowed: 0"),
    ],
)
def test_a_wrong_block_says_what_is_wrong(block: bytes, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        a_codec().decode(np.frombuffer(block, np.uint8))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_by_all(bad: float) -> None:
    values = some_values()
    values[30] = bad
    block = a_codec().encode(values)
    with pytest.raises(ValueError, match=r"the values of second have sizes (nan|inf) and 0\.0; allowed: finite"):
        a_codec().decode(block)


def test_the_sender_of_a_wrong_block_is_named() -> None:
    codec = a_codec()
    good = codec.encode(some_values())
    one, other = lockstep.PeerId(bytes(16)), lockstep.PeerId(b"\1" * 16)
    with pytest.raises(lockstep.InvalidArgument, match=f"of peer {other} cannot be used: the block has 3 bytes"):
        decode_all(codec, [(one, good), (other, good[:3])])
    with pytest.raises(lockstep.InvalidArgument, match="of this peer cannot be used"):
        decode_all(codec, [(one, good[:3])])  # the id of a peer that trains alone
    with pytest.raises(lockstep.InvalidArgument, match=f"the rate of peer {one} is 1.0, that of peer {other} is 0.5;"):
        decode_all(codec, [(one, good), (other, codec.encode(some_values(), rate=0.5))])
    weighted = codec.encode(some_values(), 1.0)
    for blocks in ([(one, good), (other, weighted)], [(other, weighted), (one, good)]):
        with pytest.raises(lockstep.InvalidArgument, match=f"peer {other} gives a weight, and peer {one} gives none"):
            decode_all(codec, blocks)


# ---- averages ----


@quickly
@given(
    values=st.lists(FINITE, min_size=1, max_size=5),
    weights=st.lists(st.floats(0, 1000, width=32), min_size=5, max_size=5),
    counts_absent=st.booleans(),
    clips=st.booleans(),
)
def test_an_average_is_that_of_the_reference(
    values: list[Any], weights: list[float], counts_absent: bool, clips: bool
) -> None:
    codec = a_codec()
    contributions = [codec.decode(codec.encode(one, weight)) for one, weight in zip(values, weights)]
    out = np.full(COUNT, 7, np.float32)
    average = SparseAverage(counts_absent=counts_absent, clips=clips)
    if not sum(weights[: len(values)]):
        with pytest.raises(lockstep.InvalidArgument, match="all contributions have weight 0"):
            average.compute(contributions, codec.parts, out)
        assert (out == 7).all()
        return
    average.compute(contributions, codec.parts, out)
    for part in codec.parts:
        sent = [sparse(runs(one[part], 8), part_of(0.25)) for one in values]
        with np.errstate(all="ignore"):
            wanted = average_sparse(sent, weights[: len(values)], counts_absent=counts_absent, clips=clips)
        np.testing.assert_array_equal(out[part], wanted)


def of(places: list[int], values: list[float], weight: float | None = None) -> Sparse:
    """A contribution to three elements; its values have at most two sizes, so that a block holds them exactly."""
    dense = np.zeros(3, np.float32)
    dense[places] = values
    return OF_THREE.decode(OF_THREE.encode(dense, weight))


def averaged(contributions: list[Sparse], **how: bool) -> list[float]:
    out = np.full(3, 5, np.float32)
    SparseAverage(**{"counts_absent": False, "clips": False, **how}).compute(contributions, [slice(0, 3)], out)
    numbers: list[float] = out.tolist()
    return numbers


def test_absent_elements_count_or_not() -> None:
    two = [of([0, 1], [4, 2]), of([1], [4])]
    assert averaged(two) == [4, 3, 0]
    assert averaged(two, counts_absent=True) == [2, 3, 0]


def test_weights_count_where_an_element_is_present() -> None:
    two = [of([0, 1], [4, 2], 1.0), of([1], [6], 3.0)]
    assert averaged(two) == [4, 5, 0]
    assert averaged(two, counts_absent=True) == [1, 5, 0]
    assert averaged([of([0], [4], 0.0), of([1], [6], 2.0)]) == [0, 6, 0]


def test_clipping_takes_norms_down_to_the_median() -> None:
    three = [of([0], [1]), of([1], [2]), of([2], [64])]
    assert averaged(three, clips=True) == [1, 2, 2]
    assert averaged(three[1:], clips=True) == [0, 2, 2]  # the lower one of two in the middle
    assert averaged([of([], []), of([0], [3])], clips=True) == [0, 0, 0]


def test_weights_have_a_finite_sum() -> None:
    with pytest.raises(lockstep.InvalidArgument, match="add up to more than a float32 holds"):
        averaged([of([0], [1], 3e38), of([0], [1], 3e38)])
