"""Tensors on a CUDA device are staged through pinned memory, in pieces. Where there is none, the CPU plays the device."""

from __future__ import annotations

from typing import Any

import lockstep
import numpy as np
import pytest
from lockstep import _cuda, errors
from lockstep._call_options import AllReduceOptions
from lockstep.types import OPS, number_of
from support import IN_TIME, Meeting, Peers, at_each_rank, says
from test_array import Newest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

Run = lockstep.Communicator


# ---- where an array lies ----


class DlpackAt:
    """An array without memory, on a device of this DLPack type."""

    def __init__(self, device_type: int) -> None:
        self.device_type = device_type

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device_type, 0)


class Torchlike:
    def __init__(self, is_cuda: bool) -> None:
        self.is_cuda = is_cuda


def test_the_first_array_tells_the_way_of_a_call() -> None:
    cpu, device = DlpackAt(1), DlpackAt(_cuda.CUDA_DEVICE)
    for one, expected in [(cpu, False), (device, True), (Torchlike(True), True), (Torchlike(False), False)]:
        assert _cuda.is_on_device(one) is expected
        assert _cuda.is_on_device([one, cpu]) is expected
        assert _cuda.is_on_device((one, device)) is expected
    for neither in [np.ones(3, np.float32), [], (), None, 7, "text", torch.ones(3)]:
        assert _cuda.is_on_device(neither) is False


def test_an_array_that_cannot_tell_where_it_lies_is_an_answer_to_the_others(peers: Peers) -> None:
    class Lost:
        def __dlpack_device__(self) -> tuple[int, int]:
            raise BufferError("this array lies on the moon")

    def main(run: Run, number: int) -> str:
        with pytest.raises((BufferError, lockstep.InvalidArgument)) as caught:
            run.all_reduce(Lost() if number == 0 else np.ones(3, np.float32))
        return str(caught.value)

    for text in peers(2, main):
        assert "lies on the moon" in text


# ---- on a device ----


@needs_cuda
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "int64", "uint8"])
def test_a_tensor_on_a_device_is_reduced_in_place(peers: Peers, name: str) -> None:
    dtype = getattr(torch, name)

    def main(run: Run, number: int) -> list[float]:
        given = torch.full((3, 5), number + 1, dtype=dtype, device="cuda")
        result = run.all_reduce(given)
        assert result.world_size == 2
        assert given.is_cuda
        return list(given.cpu().reshape(-1).tolist())

    assert peers(2, main) == [[3] * 15] * 2


@needs_cuda
def test_tensors_on_a_device_larger_than_a_piece(peers: Peers) -> None:
    count = _cuda.PIECE_BYTES // 4 * 2 + 1001

    def main(run: Run, number: int) -> None:
        given = torch.arange(count, dtype=torch.float32, device="cuda")
        out = torch.zeros_like(given)
        run.all_reduce(given, out, op="avg")
        assert torch.equal(out, given)  # each peer's is the same
        assert torch.equal(given.cpu(), torch.arange(count, dtype=torch.float32))

    peers(2, main)


@needs_cuda
def test_lists_of_tensors_on_a_device(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        many = [torch.full(shape, number + 1.0, device="cuda") for shape in [(3,), (2, 2), (0,), ()] * 100]
        run.all_reduce(many)
        assert all((one == 3).all() for one in many)

    peers(2, main)


@needs_cuda
def test_work_that_the_device_has_not_done_yet_is_waited_for(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        given = torch.ones(1 << 22, device="cuda")
        for _ in range(50):
            given = given * 1.0
        run.all_reduce(given)
        assert (given == 2).all()

    peers(2, main)


@needs_cuda
def test_parameters_on_a_device(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        parameter = torch.nn.Parameter(torch.ones(10, device="cuda", dtype=torch.bfloat16))
        run.all_reduce(parameter)
        assert (parameter == 2).all()

    peers(2, main)


@needs_cuda
def test_what_cannot_be_staged_is_refused(alone: Run) -> None:
    device = torch.ones(4, 6, device="cuda")
    refusals: list[tuple[tuple[Any, ...], dict[str, Any], list[str]]] = [
        ((device.t(),), {}, ["(6, 4)", "(1, 6)", "float32", "x.contiguous()"]),
        (([device, torch.ones(3)],), {}, ["array[1]", "memory of the CPU"]),
        ((device, torch.ones(4, 6)), {}, ["out", "memory of the CPU"]),
        ((device, torch.ones(4, 5, device="cuda")), {}, ["20 elements", "24"]),
        (([device, device.to(torch.bfloat16)],), {}, ["array[1]", "bfloat16", "one dtype"]),
        ((device,), {"residual": torch.zeros(24)}, ["residual", "x.cpu()"]),
        ((torch.ones(3, device="cuda", dtype=torch.complex64),), {}, ["complex64", "supported"]),
    ]
    for arrays, options, parts in refusals:
        with pytest.raises(lockstep.ArrayError if "elements" not in parts[0] else lockstep.InvalidArgument) as caught:
            alone.all_reduce(*arrays, **options)
        says(caught.value, parts)


@needs_cuda
@pytest.mark.parametrize("name", ["all_reduce_async", "all_gather", "reduce_scatter", "broadcast"])
def test_other_calls_say_to_copy(alone: Run, name: str) -> None:
    given = torch.ones(3, device="cuda")
    with pytest.raises(errors.DeviceArray, match=r"CUDA device: pass x\.cpu\(\), and copy the result back"):
        getattr(alone, name)(given, *([alone.id] if name == "broadcast" else []))


@needs_cuda
@pytest.mark.parametrize("many", [False, True])
def test_arrays_of_cupy(peers: Peers, many: bool) -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")

    def main(run: Run, number: int) -> list[float]:
        given = [cupy.full(5, number + 1, dtype=cupy.float32) for _ in range(3)]
        run.all_reduce(given if many else given[2])
        return list(given[2].tolist())

    assert peers(2, main) == [[3] * 5] * 2


@needs_cuda
def test_arrays_of_jax_are_immutable(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax_numpy = pytest.importorskip("jax.numpy", reason="JAX is not installed")

    def main(run: Run, number: int) -> list[float]:
        given = jax_numpy.full(5, number + 1, dtype=jax_numpy.float32)
        with pytest.raises(lockstep.ArrayError, match="read-only"):
            run.all_reduce(given)
        out = torch.zeros(5, device="cuda")
        run.all_reduce(given, out)
        return list(out.tolist())

    assert peers(2, main) == [[3] * 5] * 2


# ---- with a device that the CPU plays ----


class Stream:
    """Everything is done at once."""

    def __init__(self, device: Any = None) -> None:
        pass

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait_stream(self, other: Stream) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def record_event(self) -> Stream:
        return self


class OnDevice(torch.Tensor):  # type: ignore[misc]
    """Says that it lies on a device."""

    @property
    def is_cuda(self) -> bool:
        return True


def on_device(*shape: int, fill: float = 1) -> Any:
    return torch.full(shape, float(fill)).as_subclass(OnDevice)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIECES of 64 bytes: 16 floats."""
    empty = torch.empty

    def memory(*shape: int, device: Any = None, pin_memory: bool = False, **options: Any) -> Any:
        assert not pin_memory or device == "cpu", "torch pins memory of the host, which the default device may not be"
        return empty(*shape, device=device, **options)

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch, "empty", memory)
    monkeypatch.setattr(_cuda, "PIECE_BYTES", 64)


def staged(run: Run, array: Any, out: Any = None, residual: Any = None, tag: int = 0, retry: bool = True) -> Any:
    """What run.all_reduce() does with tensors on a device."""
    options = AllReduceOptions(0, tag, None, 0, retry, 0, 0, None, 0)
    return _cuda.all_reduce(run._native, array, out, residual, options)


def test_a_call_is_staged_with_all_of_its_arguments(alone: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """If an array lies on a device."""
    calls: list[tuple[Any, ...]] = []

    def all_reduce(*arguments: Any) -> str:
        calls.append(arguments)
        return "the result"

    class Exported(Newest):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (_cuda.CUDA_DEVICE, 0)

    monkeypatch.setattr(_cuda, "all_reduce", all_reduce)
    array, out, residual = (Exported(np.ones(3, np.float32), device_type=_cuda.CUDA_DEVICE) for _ in range(3))
    result: Any = alone.all_reduce(array, out, op="avg", tag=7, timeout=3.0, retry=False, residual=residual)
    assert result == "the result"
    ((native, *arrays, options),) = calls
    assert native is alone._native
    assert arrays == [array, out, residual]
    assert options[:5] == (number_of(OPS, "avg", "op"), 7, 3.0, 0, False)


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 64, 1000])
def test_pieces_make_up_the_tensor(peers: Peers, count: int) -> None:
    def main(run: Run, number: int) -> int:
        given = torch.arange(count, dtype=torch.float32).as_subclass(OnDevice)
        out = on_device(count, fill=-1)
        result = staged(run, given, out)
        assert torch.equal(out, given * 2)
        staged(run, given)
        assert torch.equal(out, given)
        return int(result.use)

    pieces = max(1, -(-count // 16))
    assert peers(2, main) == [pieces - 1] * 2


@pytest.mark.usefixtures("played")
def test_small_tensors_share_pieces(peers: Peers) -> None:
    shapes = [(3,), (2, 2), (0,), (), (5, 7), (1,)] * 20

    def main(run: Run, number: int) -> int:
        many = [on_device(*shape, fill=index) for index, shape in enumerate(shapes)]
        result = staged(run, many)
        assert all((one == 2 * index).all() for index, one in enumerate(many))
        return int(result.use) + 1

    count = sum(torch.Size(shape).numel() for shape in shapes)
    assert peers(2, main) == [-(-count // 16)] * 2


@pytest.mark.usefixtures("played")
def test_a_thousand_pieces_are_not_in_flight_at_once(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        given = on_device(16 * 1000)
        assert staged(run, given).use == 999
        assert (given == 2).all()

    peers(2, main)


@pytest.mark.usefixtures("played")
@at_each_rank(3)
def test_a_member_that_is_lost_between_pieces_contributes_to_none(peers: Peers) -> None:
    begun = Meeting(3)

    def main(run: Run, number: int) -> None:
        if number == 2:
            for _ in range(2):  # of the four pieces
                run.all_reduce(torch.ones(16))
            begun()
            run.close()
            return
        given = on_device(64, fill=number + 1)
        begun_once = [begun]
        native_begin = run._native.all_reduce_async

        class Native:
            """Goes on with the third piece once the other peer has taken part in two."""

            def __init__(self) -> None:
                self.calls = 0

            def all_reduce_async(self, *arguments: Any) -> Any:
                self.calls += 1
                if self.calls == 3 and begun_once:
                    begun_once.pop()()
                return native_begin(*arguments)

        class Stub:
            _native = Native()

        result = staged(Stub, given)  # type: ignore[arg-type]
        assert result.world_size == 2
        assert (given == 3).all()

    peers(3, main)


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("count", [64, 16 * 100])
@at_each_rank(3)
def test_after_a_failure_calls_still_meet(peers: Peers, count: int) -> None:
    """All peers have used the tag equally often, however far each had come."""

    def main(run: Run, number: int) -> int:
        given = on_device(count)
        if number == 0:
            run.all_reduce_async(torch.ones(3))  # what others call their first piece: a mismatch
            for _ in range(count // 16 - 1):
                run.all_reduce_async(torch.ones(16)).abort("by the test")
        else:
            with pytest.raises(lockstep.Error) as caught:
                staged(run, given)
            assert isinstance(caught.value, (lockstep.Mismatch, lockstep.Aborted))
            assert (given == 1).all()
        result = run.all_reduce(torch.ones(1))
        assert result.world_size == 3
        return int(result.use)

    assert peers(3, main) == [count // 16] * 3


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize(("kind", "pieces"), [("list", 3), ("matrix", 2), ("number", 1)])
@at_each_rank(2)
def test_a_refused_call_ends_each_of_its_pieces_on_the_other_peer(peers: Peers, kind: str, pieces: int) -> None:
    """Under the tag of the call, which both have used equally often afterwards."""

    def main(run: Run, number: int) -> int:
        matrix = on_device(6, 4)  # 96 bytes, in pieces of 64
        given = {"list": [matrix, matrix], "matrix": matrix, "number": on_device()}[kind]
        if number == 1:
            with pytest.raises(lockstep.ArrayError, match=r"^residual: "):
                staged(run, given, residual=given, tag=5)
        else:
            for _ in range(pieces):
                with pytest.raises(lockstep.InvalidArgument, match="refused its all_reduce with tag 5: residual: "):
                    run.all_reduce(torch.ones(16), tag=5, timeout=IN_TIME)
        return int(run.barrier(tag=5, timeout=IN_TIME).use)

    assert peers(2, main) == [pieces] * 2


@pytest.mark.usefixtures("played")
def test_what_cannot_be_staged_is_refused_by_name(alone: Run) -> None:
    device = on_device(4, 6)
    refusals: list[tuple[tuple[Any, ...], list[str]]] = [
        ((device.t(),), ["array of shape (6, 4), strides (1, 6) and dtype torch.float32", "x.contiguous()"]),
        (([device, torch.ones(3)],), ["array[1]", "memory of the CPU"]),
        ((device, torch.ones(4, 6)), ["out", "memory of the CPU"]),
        (([device, device.to(torch.bfloat16)],), ["array[1]", "bfloat16", "one dtype"]),
        ((device, None, torch.zeros(24)), ["residual", "x.cpu()"]),
    ]
    for arguments, parts in refusals:
        with pytest.raises(lockstep.ArrayError) as caught:
            staged(alone, *arguments)
        says(caught.value, parts)
    for out, parts in ((on_device(4, 5), ["20 elements", "24"]), ([device, device], ["out holds 2 arrays"])):
        with pytest.raises(lockstep.InvalidArgument) as caught_too:
            staged(alone, device, out)
        says(caught_too.value, parts)


@pytest.mark.usefixtures("played")
def test_arrays_of_others_are_taken_as_tensors(alone: Run) -> None:
    with pytest.raises(lockstep.ArrayError, match="memory of the CPU"):
        staged(alone, [on_device(3), torch.ones(3).numpy()])


def test_the_limits_fit_the_library() -> None:
    assert _cuda.MOST_IN_FLIGHT < 256
    assert IN_TIME > 0


@pytest.mark.usefixtures("played")
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("argument", ["array", "out"])
def test_arrays_of_jax_are_not_written_to(alone: Run, many: bool, argument: str) -> None:
    class Array(OnDevice):
        """As JAX's."""

    Array.__module__ = "jaxlib._jax"
    immutable = torch.ones(3).as_subclass(Array)
    given = [immutable] * 2 if many else immutable
    with pytest.raises(lockstep.ArrayError, match=f"{argument}: an array of JAX of shape .3,. .*read-only.*pass `out`"):
        staged(alone, given, *([given] if argument == "out" else []))
