"""A communicator: collectives in both forms against numpy, and who takes part in them: admission, groups, leaving, losses."""

from __future__ import annotations

import array
import math
import socket
import threading
import time
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from support import IN_TIME, InOrder, Meeting, Peers, at_each_rank, says, until

BLOCKING, ASYNC = "blocking", "async"
both_forms = pytest.mark.parametrize("form", [BLOCKING, ASYNC])

Run = lockstep.Communicator


def call(form: str, run: Run, name: str, *arguments: Any, **options: Any) -> Any:
    """run.name(...), or run.name_async(...).wait()."""
    if form == BLOCKING:
        return getattr(run, name)(*arguments, **options)
    return getattr(run, name + "_async")(*arguments, **options).wait(IN_TIME)


def inputs(count: int, peers: int, dtype: str) -> list[np.ndarray[Any, Any]]:
    """Small numbers, so that no order of folding matters; negative ones too where there are some."""
    random = np.random.default_rng(1)
    low = 1 if dtype.startswith("u") else -5
    made = [random.integers(low, 6, count).astype(dtype) for _ in range(peers)]
    for values in made:
        values[values == 0] = 1
    return made


def folded(op: str, parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """What numpy makes of them. Integers divide toward zero."""
    stacked = np.stack(parts)
    dtype = stacked.dtype
    if op == "avg":
        total = stacked.sum(axis=0, dtype=dtype)
        mean = total / dtype.type(len(parts)) if dtype.kind == "f" else np.trunc(total / len(parts))
        return np.asarray(mean.astype(dtype))
    bitwise = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
    if op in bitwise:
        return np.asarray(bitwise[op].reduce(stacked, axis=0))
    kind = {"dtype": dtype} if op in ("sum", "prod") else {}
    return np.asarray(getattr(stacked, op)(axis=0, **kind))


# ---- all-reduce ----


@both_forms
@pytest.mark.parametrize(
    ("dtype", "op"),
    [(dtype, op) for dtype in ("u1", "i4", "i8", "f2", "f4", "f8") for op in ("sum", "avg", "prod", "min", "max")]
    + [(dtype, op) for dtype in ("u1", "i4", "i8", "?") for op in ("band", "bor", "bxor")]
    + [("?", op) for op in ("sum", "prod", "min", "max")],
)
def test_all_reduce_equals_numpy(peers: Peers, form: str, op: str, dtype: str) -> None:
    parts = inputs(1000, 3, dtype)

    def main(run: Run, number: int) -> tuple[bytes, int]:
        given = parts[number].copy()
        result = call(form, run, "all_reduce", given, op=op)
        assert np.array_equal(given, folded(op, parts))
        out = np.empty_like(given)
        assert call(form, run, "all_reduce", parts[number].copy(), out, op=lockstep.Op(op)).world_size == 3
        assert np.array_equal(given, out)
        return given.tobytes(), result.hash

    first, *others = peers(3, main)
    assert others == [first, first]  # to the last bit, and so say the hashes


def test_floats_that_round_are_equal_on_all_peers(peers: Peers) -> None:
    parts = [np.random.default_rng(number).normal(size=100_001).astype(np.float32) for number in range(3)]

    def main(run: Run, number: int) -> tuple[bytes, int]:
        given = parts[number].copy()
        result = run.all_reduce(given)
        assert np.allclose(given, np.sum(parts, axis=0), rtol=1e-5, atol=1e-5)
        return given.tobytes(), result.hash

    first, *others = peers(3, main)
    assert others == [first, first]


@at_each_rank(2)
def test_nan_becomes_the_canonical_nan(peers: Peers) -> None:
    def main(run: Run, number: int) -> list[int]:
        given = np.array([1, np.nan if number == 1 else 2, -np.nan], np.float32)
        run.all_reduce(given, op="max")
        return [int(bits) for bits in given.view(np.uint32)]

    assert peers(2, main) == [[0x3F800000, 0x7FC00000, 0x7FC00000]] * 2


@both_forms
def test_lists_go_as_one_call(peers: Peers, form: str) -> None:
    def main(run: Run, number: int) -> int:
        many = [np.full(shape, number + 1.0) for shape in [(3,), (2, 2), (0,), ()]]
        outs = [np.empty_like(one) for one in many]
        result = call(form, run, "all_reduce", many, outs)
        assert all((one == 3).all() for one in outs)
        assert all((one == number + 1).all() for one in many)
        call(form, run, "all_reduce", tuple(many), op="max")
        assert all((one == 2).all() for one in many)
        return int(result.use)

    assert peers(2, main) == [0, 0]


@at_each_rank(2)
def test_calls_meet_by_tag_in_any_order(peers: Peers) -> None:
    count = 40

    def main(run: Run, number: int) -> None:
        tags = list(range(count))
        arrays = {tag: np.full(100, tag * (number + 1.0)) for tag in tags}
        works = {tag: run.all_reduce_async(arrays[tag], tag=tag) for tag in (tags[::-1] if number else tags)}
        for tag in np.random.default_rng(number).permutation(tags):
            result = works[tag].wait(IN_TIME)
            assert (result.tag, result.use) == (tag, 0)
            assert (arrays[tag] == 3 * tag).all()
        assert run.all_reduce(np.ones(1), tag=7).use == 1

    peers(2, main)


def test_tags_are_64_bits(alone: Run) -> None:
    assert alone.all_reduce(np.ones(1), tag=2**64 - 1).tag == 2**64 - 1
    for tag in (-1, 2**64):
        with pytest.raises(lockstep.InvalidArgument, match=f"tag is {tag}; allowed: 0 to 18446744073709551615"):
            alone.all_reduce(np.ones(1), tag=tag)
    with pytest.raises(TypeError):
        alone.all_reduce(np.ones(1), tag="seven")  # type: ignore[arg-type]


def test_a_result_tells_of_the_call(peers: Peers) -> None:
    def main(run: Run, _: int) -> tuple[Any, ...]:
        world = run.world
        result = run.all_reduce(np.ones(1000, np.float32), tag=5)
        assert result.status is lockstep.Status.OK
        assert result.world_size == 3
        assert result.rank == world.rank
        assert result.contributors == tuple(run.members())
        assert result.contributors[result.rank] == run.id
        assert all(isinstance(peer, lockstep.PeerId) for peer in result.contributors)
        assert (result.tag, result.use, result.retries, result.weight) == (5, 0, 0, 0)
        assert (result.view, result.cohort) == (world.view, world.cohort)
        assert 0 < result.seconds < IN_TIME
        assert result.bytes_sent > 0
        assert result.bytes_received > 0
        assert result.output is None
        assert result.blocks == ()
        assert (result.algorithm, result.rates) == ("ring", ())  # members of one host
        assert result.congestion_control in ("cubic", "reno")  # a short path
        assert result.streams in (1, 2)  # to the next peer of the ring
        assert run.barrier().algorithm == "auto"
        assert (result.chunk, result.revision, result.state_root, result.state_difference) == (slice(0, 0, 1), 0, 0, "")
        assert result.state_undefined is False
        says(repr(result), ["lockstep.Result ok", "world_size=3", "retries=0"])
        return result.contributors, result.hash, result.attempt, result.cohort

    first, *others = peers(3, main)
    assert others == [first, first]


@both_forms
def test_a_weighted_sum_is_premultiplied(peers: Peers, form: str) -> None:
    def main(run: Run, number: int) -> None:
        given = np.full(10, number + 1, np.float32)
        result = call(form, run, "all_reduce", given, op="sum", weight=number + 0.5)
        assert (given == 1 * 0.5 + 2 * 1.5 + 3 * 2.5).all()
        assert result.weight == 0

    peers(3, main)


@at_each_rank(3)
@both_forms
def test_weights(peers: Peers, form: str) -> None:
    def main(run: Run, number: int) -> None:
        given = np.full(10, number + 1, np.float32)
        result = call(form, run, "all_reduce", given, op="avg", weight=number + 1)
        assert np.allclose(given, (1 * 1 + 2 * 2 + 3 * 3) / 6)
        assert result.weight == 6
        given[:] = math.nan if number == 0 else 6  # what weighs nothing is not even looked at
        result = call(form, run, "all_reduce", given, op="avg", weight=0 if number == 0 else 0.5)
        assert (given == 6).all()
        assert (result.world_size, result.weight) == (3, 1)

    peers(3, main)


@at_each_rank(2)
def test_weights_that_mean_nothing_end_the_call_for_all(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        given = np.ones(1, np.float32)
        with pytest.raises(lockstep.InvalidArgument, match="all contributions have weight 0"):
            run.all_reduce(given, op="avg", weight=0)
        with pytest.raises(lockstep.InvalidArgument, match="finite number that is not negative") as caught:
            run.all_reduce(given, op="avg", weight=-1 if number else 1)
        assert caught.value.result is not None
        assert given[0] == 1
        with pytest.raises(lockstep.InvalidArgument):
            run.all_reduce(np.ones(1), op="avg", weight=1)  # only float32 has weights
        with pytest.raises(TypeError):
            run.all_reduce(given, op="avg", weight="much")  # type: ignore[arg-type]

    peers(2, main)


ERRORS = {  # of one rounding, as a part of the largest element
    "native": 0.0,
    "bf16": 1 / 256,
    "f16": 1 / 2048,
    "int8": 1 / 254,
    "int8-min-max": 1 / 254,
    "int8-codebook": 0.03,
    "int4": 1 / 14,
    "e3m0": 1 / 3,
}


@pytest.mark.parametrize("name", list(ERRORS))
def test_wire_formats_are_as_near_as_they_say(peers: Peers, name: Any) -> None:
    parts = [np.random.default_rng(number).uniform(-1, 1, 8192).astype(np.float32) for number in range(3)]

    def main(run: Run, number: int) -> tuple[bytes, int]:
        given = parts[number].copy()
        result = run.all_reduce(given, op="avg", up=name, down=lockstep.WireFormat(name))
        assert np.abs(given - np.mean(parts, axis=0)).max() <= 3 * ERRORS[name] + 1e-6
        return given.tobytes(), result.bytes_sent

    results = peers(3, main)
    assert len({data for data, _ in results}) == 1
    if name != "native":
        assert max(sent for _, sent in results) < 8192 * 4  # of 4/3 of that


@pytest.mark.parametrize("algorithm", ["auto", "ring", "direct", "grid", lockstep.Algorithm.GRID])
def test_algorithms(peers: Peers, algorithm: Any) -> None:
    def main(run: Run, number: int) -> None:
        given = np.full(5000, number, np.float32)
        result = run.all_reduce(given, algorithm=algorithm)
        assert result.algorithm == ("ring" if algorithm == "auto" else lockstep.Algorithm(algorithm).value)
        assert (given == 6).all()

    peers(4, main)


@both_forms
@pytest.mark.parametrize("listed", [False, True])
def test_residuals_carry_what_rounding_loses_to_the_next_call(peers: Peers, form: str, listed: bool) -> None:
    def main(run: Run, number: int) -> None:
        gradient = np.random.default_rng(number).uniform(-1, 1, 10000).astype(np.float32)
        residual = np.zeros_like(gradient)
        exact, plain, fed = np.zeros(10000), np.zeros(10000), np.zeros(10000)
        mean = gradient.copy()
        run.all_reduce(mean, op="avg", tag=1)
        for _ in range(20):
            exact += mean
            for total, residuals in ((plain, None), (fed, residual)):
                out = gradient.copy()
                options = {"op": "avg", "up": "int4", "down": "native"}
                if listed:
                    unfed = np.ones(3, np.float32)
                    pair = None if residuals is None else [residuals, None]
                    call(form, run, "all_reduce", [out, unfed], residual=pair, **options)
                else:
                    call(form, run, "all_reduce", out, residual=residuals, **options)
                total += out
        assert np.abs(residual).max() > 0
        assert np.abs(fed - exact).max() < np.abs(plain - exact).max() / 4

    peers(2, main)


def test_residuals_that_do_not_fit(alone: Run) -> None:
    given = np.ones(4, np.float32)
    options: dict[str, Any] = {"op": "avg", "algorithm": "direct"}
    for residual, parts in (
        (np.zeros(3, np.float32), ["residual", "3 elements", "4"]),
        (np.zeros(4), ["residual", "float64", "float32"]),
        ([np.zeros(4, np.float32)], ["residual", "one array for one"]),
    ):
        with pytest.raises(lockstep.InvalidArgument) as caught:
            alone.all_reduce(given, residual=residual, **options)
        says(caught.value, parts)
    with pytest.raises(lockstep.InvalidArgument, match="residual holds 1 arrays, array holds 2"):
        alone.all_reduce([given, given.copy()], residual=[None], **options)
    with pytest.raises(lockstep.ArrayError, match=r"residual: bytes.*read-only"):
        alone.all_reduce(given, residual=bytes(16), **options)


@at_each_rank(2)
def test_a_peer_that_does_not_encode_infinities_names_the_element(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        given = np.array([1, math.inf if number else 1], np.float32)
        with pytest.raises(lockstep.InvalidArgument, match="tensor 0, element 1") as caught:
            run.all_reduce(given, up="bf16", down="bf16")
        assert caught.value.result is not None
        assert caught.value.result.status is lockstep.Status.INVALID_ARGUMENT
        assert given[0] == 1

    peers(2, main)


# ---- other collectives ----


@both_forms
@pytest.mark.parametrize("count", [0, 1, 7, 3000])
def test_reduce_scatter_gives_each_rank_its_chunk(peers: Peers, form: str, count: int) -> None:
    parts = inputs(count, 3, "f8")
    whole = folded("sum", parts)

    def main(run: Run, number: int) -> Any:
        out = np.empty(-(-count // 3))
        result = call(form, run, "reduce_scatter", parts[number], out)
        assert np.array_equal(result.output, whole[result.chunk])
        assert len(result.output) == 0 or np.shares_memory(result.output, out)
        assert len(result.output) in (count // 3, -(-count // 3))
        return result.chunk

    chunks = sorted(peers(3, main), key=lambda chunk: (chunk.start, chunk.stop))
    assert [chunk.start for chunk in chunks] == [0, *(chunk.stop for chunk in chunks[:2])]
    assert chunks[2].stop == count


def test_reduce_scatter_makes_room(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        given = np.arange(7, dtype=np.int16).reshape(1, 7)
        result = run.reduce_scatter(given, op="max")
        assert result.output.dtype == np.int16
        assert np.array_equal(result.output, given.reshape(-1)[result.chunk])

    peers(2, main)


@both_forms
def test_all_gather_takes_blocks_of_different_sizes(peers: Peers, form: str) -> None:
    def main(run: Run, number: int) -> tuple[list[int], list[int]]:
        out = np.full((2, 10), -1, np.int32)
        result = call(form, run, "all_gather", np.full(number + 1, number, np.int32), out)
        assert np.shares_memory(result.output, out)
        assert result.output.shape == (6,)
        assert (out.reshape(-1)[6:] == -1).all()
        return list(result.blocks), result.output.tolist()

    first, *others = peers(3, main)
    assert others == [first, first]
    blocks, gathered = first
    assert sorted(blocks) == [1, 2, 3]
    assert gathered == [size - 1 for size in blocks for _ in range(size)]


@pytest.mark.parametrize(
    ("make", "look"),
    [
        (lambda number: np.full((2, 1), number, np.uint8), list),
        (lambda number: bytearray([number, number]), list),
        (lambda number: array.array("B", [number, number]), list),
        (lambda number: memoryview(bytearray([number, number])).cast("B", (2, 1)), list),
    ],
    ids=["numpy", "bytearray", "array", "memoryview"],
)
def test_all_gather_makes_room_for_what_is_like_the_array(
    peers: Peers, make: Callable[[int], Any], look: Callable[[Any], list[int]]
) -> None:
    def main(run: Run, _: int) -> list[int]:
        return look(run.all_gather(make(run.rank)).output)

    assert peers(3, main) == [[0, 0, 1, 1, 2, 2]] * 3


def test_output_may_be_empty(alone: Run) -> None:
    for nothing in (bytearray(), array.array("i"), np.ones((0, 3))):
        assert len(alone.all_gather(nothing).output) == 0
        assert len(alone.reduce_scatter(nothing).output) == 0


@both_forms
def test_output_lies_in_the_callers_memory_whatever_it_is(peers: Peers, form: str) -> None:
    def main(run: Run, _: int) -> None:
        out = bytearray(10)
        output = call(form, run, "all_gather", bytearray(b"ab"), out).output
        assert output == b"abab"
        output[0] = 0
        assert out[0] == 0
        output.release()

    peers(2, main)


def test_torch_gathers_into_torch(peers: Peers) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")

    def main(run: Run, _: int) -> list[float]:
        result = run.all_gather(torch.full((2,), float(run.rank), dtype=torch.bfloat16))
        assert result.output.dtype is torch.bfloat16
        scattered = run.reduce_scatter(torch.ones(4, requires_grad=True))
        assert scattered.output.tolist() == [2, 2]
        return list(result.output.tolist())

    assert peers(2, main) == [[0, 0, 1, 1]] * 2


def test_room_must_be_right(peers: Peers) -> None:
    def main(run: Run, _: int) -> None:
        for name in ("all_gather", "reduce_scatter"):
            with pytest.raises(lockstep.InvalidArgument, match="out has dtype float32, array has float64"):
                getattr(run, name)(np.ones(4), np.ones(8, np.float32))
            with pytest.raises(lockstep.ArrayError, match=r"out: bytes.*read-only"):
                getattr(run, name)(bytes(4), bytes(4))
            with pytest.raises(lockstep.ArrayError, match="array: list is no array"):
                getattr(run, name)([np.ones(4)])
        with pytest.raises(lockstep.InvalidArgument, match="room for 1 elements, array alone has 4"):
            run.all_gather(np.ones(4), np.ones(1))
        with pytest.raises(lockstep.BufferTooSmall, match="needs 64 ") as caught:
            run.all_gather(np.ones(4), np.ones(5))
        assert isinstance(caught.value, ValueError)
        with pytest.raises(lockstep.BufferTooSmall, match="needs 16 "):
            run.reduce_scatter(np.ones(4), np.ones(1))

    peers(2, main)


@both_forms
@pytest.mark.parametrize("rank", range(3))
def test_broadcast(peers: Peers, form: str, rank: int) -> None:
    def main(run: Run, number: int) -> None:
        root = run.members()[rank]
        given = np.full(1000, run.rank)
        if run.rank == rank:
            given.flags.writeable = False  # the root is only read
        result = call(form, run, "broadcast", given, root)
        assert (given == rank).all()
        many = [np.full(3, number, np.float32), np.full((2, 2), number, np.float32)]
        call(form, run, "broadcast", many, result.contributors[0])
        assert np.ptp([one.sum() / one.size for one in many]) == 0

    peers(3, main)


@both_forms
@pytest.mark.parametrize("rank", range(3))
def test_reduce(peers: Peers, form: str, rank: int) -> None:
    def main(run: Run, number: int) -> list[float] | None:
        root = run.members()[rank]
        given = np.full((2, 3), run.rank + 1.0)
        result = call(form, run, "reduce", given, root)
        assert (given == run.rank + 1).all()  # inputs are only read
        if run.rank != rank:
            assert result.output is None
            return None
        assert result.output.shape == (2, 3)
        assert (result.output == 6).all()
        return list(result.output.reshape(-1))

    results = peers(3, main)
    assert results.count(None) == 2
    assert [6.0] * 6 in results


@pytest.mark.parametrize("rank", range(2))
def test_reduce_of_a_list_into_arrays_of_the_caller(peers: Peers, rank: int) -> None:
    def main(run: Run, number: int) -> None:
        root = run.members()[rank]
        given = [np.full(3, 2, np.int32), np.full(2, 5, np.int32)]
        out = [np.zeros(3, np.int32), np.zeros(2, np.int32)]
        result = run.reduce(given, root, out, op="prod")
        if run.rank == rank:
            assert result.output is out
            assert out[0].tolist() == [4] * 3
            assert out[1].tolist() == [25] * 2
        else:
            assert not out[0].any()

    peers(2, main)


@pytest.mark.parametrize("rank", range(2))
def test_booleans_in_arrays_that_the_library_makes(peers: Peers, rank: int) -> None:
    def main(run: Run, _: int) -> None:
        given = np.array([run.rank == 0, False])
        result = run.reduce(given, run.members()[rank], op="bor")
        if run.rank == rank:
            assert result.output.tolist() == [True, False]
        assert run.all_gather(given).output.tolist() == [True, False, False, False]
        assert run.reduce_scatter(given, op="bor").output.tolist() == [run.rank == 0]
        with pytest.raises(lockstep.InvalidArgument, match="2 elements of float32, array has 2 of bool"):
            run.all_reduce(given, np.ones(2, np.float32))

    peers(2, main)


@pytest.mark.parametrize("rank", range(2))
def test_the_output_of_a_reduce_fits(peers: Peers, rank: int) -> None:
    def main(run: Run, _: int) -> None:
        if run.rank == rank:
            with pytest.raises(lockstep.InvalidArgument, match="out has 3 elements of float64, array has 4 of float64"):
                run.reduce(np.ones(4), run.id, np.ones(3))
        else:
            with pytest.raises(lockstep.InvalidArgument, match="refused its reduce with tag 0: out has 3 elements"):
                run.reduce(np.ones(4), run.members()[rank])
        with pytest.raises(lockstep.InvalidArgument, match="reduce root 01010101"):
            run.reduce(np.ones(1), lockstep.PeerId(b"\1" * 16))

    peers(2, main)


@both_forms
@pytest.mark.parametrize("rank", range(3))
def test_gather(peers: Peers, form: str, rank: int) -> None:
    def main(run: Run, number: int) -> list[int] | None:
        given = np.full((2, 1), run.rank, np.int16)
        result = call(form, run, "gather", given, run.members()[rank])
        if run.rank != rank:
            assert result.output is None
            return None
        assert result.blocks == (2, 2, 2)
        return list(result.output)

    results = peers(3, main)
    assert results.count(None) == 2
    assert [0, 0, 1, 1, 2, 2] in results


@both_forms
@pytest.mark.parametrize("rank", range(3))
def test_gather_of_arrays_that_differ_in_size(peers: Peers, form: str, rank: int) -> None:
    def main(run: Run, number: int) -> None:
        root = run.members()[rank]
        given = np.full(run.rank * 3, run.rank, np.float64)
        out = np.empty(20) if run.id == root else None
        result = call(form, run, "gather", given, root, out)
        if run.id == root:
            assert result.blocks == (0, 3, 6)
            assert result.output.tolist() == [1.0] * 3 + [2.0] * 6
            assert np.shares_memory(result.output, out)
        with pytest.raises(lockstep.BufferTooSmall, match="the result needs 72"):
            call(form, run, "gather", given, root, np.empty(2) if run.id == root else None, tag=1)

    peers(3, main)


@both_forms
@pytest.mark.parametrize("rank", range(3))
def test_scatter(peers: Peers, form: str, rank: int) -> None:
    def main(run: Run, number: int) -> None:
        root = run.members()[rank]
        if run.id == root:
            result = call(form, run, "scatter", np.arange(12.0).reshape(3, 4), root)
        else:
            result = call(form, run, "scatter", None, root, np.empty(4))
        assert result.output.tolist() == [4.0 * run.rank + i for i in range(4)]

    peers(3, main)


@pytest.mark.parametrize("rank", range(3))
def test_scatter_of_parts_that_differ_in_size(peers: Peers, rank: int) -> None:
    def main(run: Run, number: int) -> None:
        root = run.members()[rank]
        array = np.arange(6, dtype=np.uint8) if run.id == root else None
        result = run.scatter(array, root, np.empty(9, np.uint8), counts=[1, 0, 5])
        assert result.output.tolist() == [[0], [], [1, 2, 3, 4, 5]][run.rank]

    peers(3, main)


@both_forms
def test_all_to_all(peers: Peers, form: str) -> None:
    def main(run: Run, number: int) -> None:
        given = np.array([[10 * run.rank + to] * 2 for to in range(3)], np.int32)
        result = call(form, run, "all_to_all", given)
        assert result.output.tolist() == [number for by in range(3) for number in [10 * by + run.rank] * 2]
        assert result.blocks == (2, 2, 2)

    peers(3, main)


def test_all_to_all_of_parts_that_differ_in_size(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        counts = [[0, 3], [100_000, 1]][run.rank]
        given = np.full(sum(counts), run.rank, np.float32)
        result = run.all_to_all(given, np.empty(100_001, np.float32), counts=counts)
        sizes = [[0, 100_000], [3, 1]][run.rank]
        assert list(result.blocks) == sizes
        assert result.output.tolist() == [0.0] * sizes[0] + [1.0] * sizes[1]

    peers(2, main)


def test_parts_fit_their_array(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        with pytest.raises(lockstep.InvalidArgument, match="no equal parts for 2 members"):
            run.all_to_all(np.ones(3))
        with pytest.raises(lockstep.InvalidArgument, match="3 entries for 2 members"):
            run.all_to_all(np.ones(3), counts=[1, 1, 1])
        with pytest.raises(lockstep.InvalidArgument, match=r"\[1, 1\] add up to 2, array has 3"):
            run.all_to_all(np.ones(3), counts=[1, 1])
        with pytest.raises(lockstep.InvalidArgument, match=r"\[4, -1\]"):
            run.all_to_all(np.ones(3), counts=[4, -1])
        with pytest.raises(lockstep.InvalidArgument, match="array is None"):
            run.scatter(None, run.id)
        with pytest.raises(lockstep.InvalidArgument, match="out is None"):
            run.scatter(None, run.members()[1 - run.rank])

    peers(2, main)


def test_a_root_is_a_member(peers: Peers) -> None:
    def main(run: Run, _: int) -> None:
        with pytest.raises(lockstep.InvalidArgument, match="PeerId"):
            run.broadcast(np.ones(1), 0)  # type: ignore[arg-type]
        with pytest.raises(lockstep.InvalidArgument, match=r"3 bytes; allowed: a lockstep\.PeerId, of 16"):
            run.broadcast(np.ones(1), b"abc")  # type: ignore[arg-type]
        with pytest.raises(lockstep.InvalidArgument, match="01010101"):
            run.broadcast(np.ones(1), lockstep.PeerId(b"\1" * 16))

    peers(2, main)


@both_forms
def test_barrier_waits_for_everybody(peers: Peers, form: str) -> None:
    arrived = []

    def main(run: Run, number: int) -> None:
        arrived.append(number)
        result = call(form, run, "barrier", tag=3)
        assert len(arrived) == 3
        assert result.world_size == 3

    peers(3, main)


# ---- how calls fail ----


@at_each_rank(2)
def test_arguments_that_differ_are_named_on_both_sides(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        given = np.ones(5 + number)
        with pytest.raises(lockstep.Mismatch, match=r"5.*6|6.*5") as caught:
            run.all_reduce(given)
        assert isinstance(caught.value, ValueError)
        assert caught.value.status is lockstep.Status.MISMATCH
        assert caught.value.result is not None
        assert caught.value.result.world_size == 2
        assert (given == 1).all()
        with pytest.raises(lockstep.Mismatch, match=r"sum.*avg|avg.*sum"):
            run.all_reduce(np.ones(5), op="avg" if number else "sum")

    peers(2, main)


@pytest.mark.parametrize("name", ["all_reduce", "barrier", "all_gather", "reduce_scatter", "broadcast"])
def test_below_the_minimum_world_nothing_happens(peers: Peers, name: str) -> None:
    def main(run: Run, _: int) -> None:
        arrays = [] if name == "barrier" else [np.ones(2)]
        given = [*arrays, run.members()[0]] if name == "broadcast" else arrays
        with pytest.raises(lockstep.BelowMinimum) as caught:
            getattr(run, name)(*given, minimum_world=3)
        assert caught.value.result is not None
        assert caught.value.result.world_size == 2
        assert all((one == 1).all() for one in arrays)

    peers(2, main)


def test_the_communicators_minimum_world_is_the_default(peers: Peers) -> None:
    def main(run: Run, _: int) -> None:
        with pytest.raises(lockstep.BelowMinimum):
            run.all_reduce(np.ones(2))
        run.all_reduce(np.ones(2), minimum_world=1)

    peers(2, main, minimum_world=3)


@at_each_rank(2)
def test_a_time_out_ends_the_call_for_everybody(peers: Peers) -> None:
    meet = Meeting(2)

    def main(run: Run, number: int) -> None:
        given = np.ones(10)
        if number == 1:
            meet()
        with pytest.raises(lockstep.TimedOut) as caught:
            run.all_reduce(given, timeout=0.03 if number == 0 else None)
        assert isinstance(caught.value, TimeoutError)
        assert caught.value.result is not None
        assert (given == 1).all()
        if number == 0:
            meet()

    peers(2, main)


@pytest.mark.parametrize("timeout", [0, -1, math.nan, -0.5])
def test_time_outs_are_above_zero(alone: Run, timeout: float) -> None:
    for begin in (
        lambda: alone.all_reduce(np.ones(1), timeout=timeout),
        lambda: alone.barrier(timeout=timeout),
        lambda: alone.admit(timeout=timeout),
        lambda: alone.wait_for_world(1, timeout=timeout),
        lambda: alone.leave(timeout=timeout),
        lambda: alone.sync(lockstep.State({}), timeout=timeout),
    ):
        with pytest.raises(lockstep.InvalidArgument, match=r"timeout is .*; allowed: more than 0, or None for none"):
            begin()
    alone.barrier(timeout=math.inf)
    alone.barrier(timeout=np.float64(30))
    with pytest.raises(TypeError):
        alone.barrier(timeout="long")  # type: ignore[arg-type]


@at_each_rank(2)
def test_abort_all_ends_blocking_calls_of_other_threads(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        given = np.ones(10)
        if number == 1:
            run.barrier(tag=1)
        over = threading.Event()

        def abort() -> None:
            while not over.is_set():
                run.abort_all("the loss is not a number")
                over.wait(0.001)

        aborter = threading.Thread(target=abort)
        if number == 0:
            aborter.start()
        try:
            with pytest.raises(lockstep.Aborted, match="the loss is not a number"):
                run.all_reduce(given)
        finally:
            over.set()
        if number == 0:
            aborter.join()
            run.barrier(tag=1)
        assert (given == 1).all()

    peers(2, main)


@pytest.mark.parametrize(
    ("option", "value", "allowed"),
    [
        ("op", "mean", ["op is 'mean'", "'sum', 'avg', 'prod', 'min', 'max'"]),
        ("op", 0, ["op is 0", "'sum'"]),
        ("op", ["sum"], ["op is ['sum']"]),
        ("up", "fp8", ["up is 'fp8'", "'int8-codebook'"]),
        ("down", None, ["down is None", "'native'"]),
        ("algorithm", "tree", ["algorithm is 'tree'", "'auto', 'ring', 'direct', 'grid'"]),
    ],
)
def test_names_that_are_none_list_those_that_are(alone: Run, option: str, value: Any, allowed: list[str]) -> None:
    with pytest.raises(lockstep.InvalidArgument) as caught:
        alone.all_reduce(np.ones(1, np.float32), **{option: value})
    says(caught.value, allowed)


def test_flags_are_true_or_false(alone: Run) -> None:
    with pytest.raises(TypeError, match="retry is 'no'; allowed: True or False"):
        alone.all_reduce(np.ones(1), retry="no")  # type: ignore[arg-type]
    alone.barrier(retry=np.bool_(False))  # type: ignore[arg-type]


# ---- being part of a run ----


def test_the_world(peers: Peers) -> None:
    def main(run: Run, _: int) -> list[lockstep.PeerId]:
        world = run.world
        assert world.self == run.id
        assert (world.world_size, world.members, world.groups, world.group, world.pending) == (3, 3, 1, 0, 0)
        assert min(world.view, world.cohort, world.term) > 0
        assert (run.rank, run.world_size, run.pending, run.fetching) == (world.rank, 3, 0, 0)
        assert run.groups() == {0: 3}
        assert run.members(7) == []
        members = run.members()
        assert members == run.members(0)
        assert members[run.rank] == run.id
        says(repr(run), ["lockstep.Communicator", repr(run.id), f"rank={run.rank}", "world_size=3"])
        with pytest.raises(lockstep.InvalidArgument, match="group is -1"):
            run.members(-1)
        with pytest.raises(AttributeError):
            world.view = 3  # type: ignore[misc]
        return members

    first, *others = peers(3, main)
    assert others == [first, first]
    assert len(set(first)) == 3


def test_before_a_run_there_is_no_world() -> None:
    run = lockstep.Communicator(listen_host="127.0.0.1")
    try:
        says(repr(run), ["not connected", repr(run.id)])
        assert len(run.id) == 16
        assert run.pending == 0
        for look in (
            lambda: run.world,
            lambda: run.rank,
            run.groups,
            run.members,
            lambda: run.all_reduce(np.ones(1)),
            lambda: run.all_reduce_async(np.ones(1)).wait(),
            run.barrier,
            run.admit,
            run.leave,
        ):
            with pytest.raises(lockstep.NotConnected) as caught:
                look()
            assert isinstance(caught.value, ConnectionError)
    finally:
        run.close()


@at_each_rank(2)
@both_forms
def test_newcomers_wait_until_all_admit(coordinator: lockstep.Coordinator, peers: Peers, form: str) -> None:
    joined: list[int] = []

    def newcomer() -> None:
        with lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1") as run:
            joined.append(run.world_size)
            run.all_reduce(np.ones(1))

    def main(run: Run, number: int) -> None:
        assert call(form, run, "admit").world_size == 2  # nobody waits
        thread = threading.Thread(target=newcomer)
        if number == 0:
            thread.start()
        until(lambda: run.pending == 1)
        assert run.world.pending == 1
        view = run.world.view
        given = np.ones(1)
        run.all_reduce(given)
        assert given[0] == 2  # a call neither admits nor waits
        result = call(form, run, "admit", timeout=IN_TIME)
        assert (result.world_size, run.world_size, run.pending) == (3, 3, 0)
        assert result.view > view
        given[:] = 1
        run.all_reduce(given)
        assert given[0] == 3
        if number == 0:
            thread.join(IN_TIME)

    peers(2, main)
    assert joined == [3]


@both_forms
def test_wait_for_world(coordinator: lockstep.Coordinator, peers: Peers, form: str) -> None:
    def main(run: Run, number: int) -> None:
        if run.world_size == 2:
            call(form, run, "wait_for_world", 4, timeout=IN_TIME)
        assert run.world_size == 4
        run.barrier()

    peers(4, main, founders=2)


def test_wait_for_world_times_out_alone(alone: Run) -> None:
    with pytest.raises(lockstep.TimedOut):
        alone.wait_for_world(2, timeout=0.03)
    for members in (0, 1025, -1):
        with pytest.raises(lockstep.InvalidArgument):
            alone.wait_for_world(members)
    assert alone.wait_for_world(1).world_size == 1


def test_auto_admit_lets_newcomers_in_between_calls(peers: Peers) -> None:
    def main(run: Run, _: int) -> None:
        while run.all_reduce(np.ones(1)).world_size < 3:
            pass

    peers(3, main, founders=2, auto_admit=True)


def test_groups_reduce_apart_and_gangs_come_together(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        world = run.world
        assert (world.members, world.groups, world.world_size, world.group) == (4, 2, 2, 10 + number % 2)
        assert run.groups() == {10: 2, 11: 2}
        assert run.id in run.members()
        assert run.members(10 + number % 2) == run.members()
        assert run.id not in run.members(11 - number % 2)
        given = np.array([1 << number])
        run.all_reduce(given)
        assert given[0] == (10 if number % 2 else 5)

    peers(4, main, each=lambda number: {"group": 10 + number % 2, "gang": 1 + number // 2, "gang_size": 2})


@at_each_rank(3)
@both_forms
def test_who_leaves_is_not_missed(peers: Peers, form: str) -> None:
    def main(run: Run, number: int) -> None:
        run.barrier()
        if number == 0:
            if form == BLOCKING:
                run.leave(timeout=IN_TIME)
            else:
                run.leave_async(timeout=IN_TIME).wait(IN_TIME)
            with pytest.raises(lockstep.NotConnected):
                run.all_reduce(np.ones(1))
            with pytest.raises(lockstep.NotConnected):
                run.leave()
        else:
            given = np.ones(100)
            result = run.all_reduce(given)
            assert (given == 2).all()
            assert result.world_size == 2

    peers(3, main)


@pytest.mark.parametrize("raises", range(3))
def test_with_leaves_politely_on_an_exception(coordinator: lockstep.Coordinator, raises: int) -> None:
    connect = InOrder(coordinator.address, 3)
    failures: list[BaseException] = []
    results: list[int] = []

    def peer(number: int) -> None:
        try:
            with lockstep.Communicator(founders=3, listen_host="127.0.0.1") as run:
                connect(run, number).wait()
                run.barrier()
                if number == raises:
                    raise KeyError("the program's own")
                results.append(run.all_reduce(np.ones(10)).world_size)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=peer, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * IN_TIME)
    assert [type(failure) for failure in failures] == [KeyError]
    assert results == [2, 2]


def test_an_interrupt_in_a_with_block_waits_for_no_call(coordinator: lockstep.Coordinator) -> None:
    """A call in flight that cannot end delays the end of the block by a second, not for ever."""
    options: dict[str, Any] = {"founders": 2, "listen_host": "127.0.0.1"}
    begun: list[tuple[lockstep.Work, float]] = []
    with lockstep.Communicator(**options) as stays:
        joining = stays.connect_async(coordinator.address, timeout=IN_TIME)

        def interrupted() -> None:
            with lockstep.connect(coordinator.address, timeout=IN_TIME, **options) as run:
                joining.wait(IN_TIME)
                begun.append((run.barrier_async(tag=1), time.monotonic()))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        ((work, began),) = begun
        assert time.monotonic() - began < 8  # seconds; a block that ends without an interrupt waits for ten
        with pytest.raises(lockstep.Error):
            work.wait(IN_TIME)
        assert stays.barrier(timeout=IN_TIME).world_size == 1


def test_with_says_nothing_more_when_the_run_is_over_already(coordinator: lockstep.Coordinator) -> None:
    with lockstep.connect(coordinator.address, listen_host="127.0.0.1") as run:
        run.leave()
    with lockstep.connect(coordinator.address, listen_host="127.0.0.1") as run:
        run.close()
        run.close()
    with pytest.raises(lockstep.NotConnected):
        run.barrier()


@at_each_rank(3)
def test_a_lost_peer_does_not_stop_the_others(peers: Peers) -> None:
    meet = Meeting(3)

    def main(run: Run, number: int) -> None:
        given = np.full(1000, number + 1.0)
        if number == 2:
            meet()
            run.close()
            return
        work = run.all_reduce_async(given)
        meet()
        result = work.wait(IN_TIME)
        assert (given == 3).all()
        assert (result.world_size, len(result.contributors)) == (2, 2)
        assert result.retries >= 1
        assert run.world_size == 2

    peers(3, main)


@at_each_rank(3)
@pytest.mark.parametrize("name", ["all_reduce", "barrier", "all_gather", "reduce_scatter"])
def test_calls_that_do_not_retry_name_the_lost_peer(peers: Peers, name: str) -> None:
    meet = Meeting(3)

    def main(run: Run, number: int) -> None:
        given = np.ones(3)
        if number == 2:
            meet()
            run.close()
            return
        arrays = {"all_reduce": (given,), "barrier": ()}.get(name, (given, np.empty(9)))
        options = {"retry": False} if name in ("all_reduce", "barrier") else {}
        work = getattr(run, name + "_async")(*arrays, **options)
        meet()
        with pytest.raises(lockstep.PeerLost) as caught:
            work.wait(IN_TIME)
        assert isinstance(caught.value, ConnectionError)
        assert caught.value.result is not None
        assert caught.value.result.world_size == 2
        assert (given == 1).all()

    peers(3, main)


def test_a_communicator_connects_once(coordinator: lockstep.Coordinator) -> None:
    run = lockstep.Communicator(listen_host="127.0.0.1")
    with run:
        work = run.connect_async(coordinator.address, timeout=IN_TIME)
        work.wait(IN_TIME)
        assert run.world_size == 1
        with pytest.raises(lockstep.InvalidArgument):
            run.connect(coordinator.address, timeout=1)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("nonsense", ["nonsense"]),
        ("host:99999", ["99999"]),
        ("", ["host:port"]),
        ("http://127.0.0.1:4000", ["http"]),
    ],
)
def test_addresses_that_are_none(address: str, parts: list[str]) -> None:
    with pytest.raises(lockstep.InvalidArgument) as caught:
        lockstep.connect(address, timeout=IN_TIME, listen_host="127.0.0.1")
    says(caught.value, parts)


def test_connect_gives_up_in_time(coordinator: lockstep.Coordinator) -> None:
    with pytest.raises((lockstep.TimedOut, lockstep.Unreachable)):
        lockstep.connect("127.0.0.1:1", timeout=0.1, listen_host="127.0.0.1")
    with pytest.raises(lockstep.TimedOut):
        lockstep.connect(coordinator.address, founders=2, timeout=0.1, listen_host="127.0.0.1")


def test_connect_gives_up_in_time_while_it_holds_a_state(coordinator: lockstep.Coordinator) -> None:
    state = lockstep.State({"step": 3}, revision=3)
    with pytest.raises(lockstep.TimedOut):
        lockstep.connect(coordinator.address, founders=2, timeout=0.1, state=state, listen_host="127.0.0.1")
    assert (state["step"], state.revision) == (3, 3)


def test_peers_may_be_there_before_the_coordinator() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with lockstep.Communicator(listen_host="127.0.0.1") as run:
        work = run.connect_async(address, timeout=IN_TIME)
        with pytest.raises(lockstep.WaitTimedOut):
            work.wait(0.05)
        with lockstep.Coordinator(address):
            work.wait(IN_TIME)
            assert run.world_size == 1
            run.leave()


def test_the_gang_that_cannot_be_is_refused(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        pass

    with pytest.raises(lockstep.InvalidArgument, match="gang"):
        peers(1, main, gang_size=2)  # of no gang


def test_flight_record(coordinator: lockstep.Coordinator, tmp_path: Any) -> None:
    with lockstep.connect(coordinator.address, flight_kib=1024, listen_host="127.0.0.1") as run:
        run.flight_record(tmp_path / "now.rec")
        assert (tmp_path / "now.rec").stat().st_size > 0
        with pytest.raises(lockstep.InvalidArgument, match="No such file"):
            run.flight_record(str(tmp_path / "nowhere" / "now.rec"))


def test_without_a_flight_recorder_nothing_is_written(alone: Run, tmp_path: Any) -> None:
    with pytest.raises(lockstep.InvalidArgument, match="without a flight recorder"):
        alone.flight_record(tmp_path / "none.rec")
