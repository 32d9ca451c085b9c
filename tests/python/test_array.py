"""Arrays of every kind go into a call without a copy; what cannot is refused with its shape, strides, dtype and the remedy."""

from __future__ import annotations

import array
import ctypes
import mmap
import re
import sys
from pathlib import Path
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from support import Peers, at_each_rank, says

DTYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]


def doubled(peers: Peers, make: Callable[[], Any], look: Callable[[Any], Any]) -> Any:
    """What `look` sees in an array that two peers have added up in place: twice what `make` has made."""

    def main(run: lockstep.Communicator, _: int) -> Any:
        given = make()
        run.all_reduce(given)
        return look(given)

    first, second = peers(2, main)
    assert np.array_equal(first, second)
    return first


# ---- kinds of arrays ----


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_arrays_of_every_dtype_are_reduced_in_place(peers: Peers, dtype: str) -> None:
    given = np.arange(24, dtype=dtype).reshape(2, 3, 4)
    got = doubled(peers, given.copy, lambda x: x)
    assert got.dtype == dtype
    assert np.array_equal(got, given * 2)


@at_each_rank(2)
def test_booleans_are_reduced_as_truths(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> list[list[bool]]:
        seen = []
        for op in ("sum", "band", "bxor"):
            given = np.array([False, number == 0, True])
            run.all_reduce(given, op=op)
            assert given.dtype == bool
            seen.append(given.tolist())
        with pytest.raises(lockstep.InvalidArgument, match="bool has no avg"):
            run.all_reduce(np.ones(3, bool), op="avg")
        return seen

    for got in peers(2, main):
        assert got == [[False, True, True], [False, False, True], [False, True, False]]


def test_bitwise_operations_need_integers(alone: lockstep.Communicator) -> None:
    with pytest.raises(lockstep.InvalidArgument, match="f32 has no bor: bitwise operations need integers or bool"):
        alone.all_reduce(np.ones(3, np.float32), op="bor")


def test_shapes_are_of_no_importance(peers: Peers) -> None:
    shapes: list[tuple[int, ...]] = [(), (1,), (0,), (3, 0), (0, 3), (2, 1, 3), (1, 1)]

    def main(run: lockstep.Communicator, _: int) -> None:
        for shape in shapes:
            given = np.ones(shape, np.float32)
            run.all_reduce(given)
            assert np.array_equal(given, np.full(shape, 2, np.float32))
        many = [np.ones(shape) for shape in shapes]
        run.all_reduce(many)
        assert all(np.array_equal(one, np.full(one.shape, 2.0)) for one in many)

    peers(2, main)


def test_views_of_a_larger_array_leave_the_rest_alone(peers: Peers) -> None:
    def main(run: lockstep.Communicator, _: int) -> np.ndarray[Any, Any]:
        whole = np.ones((4, 3))
        run.all_reduce(whole[1:3])
        return whole

    for got in peers(2, main):
        assert got.tolist() == [[1] * 3, [2] * 3, [2] * 3, [1] * 3]


def test_native_byte_order_may_be_spelled_out(alone: lockstep.Communicator) -> None:
    alone.all_reduce(np.ones(3, np.dtype("f4").newbyteorder("=")))
    alone.all_reduce(np.ones(3, "<f4" if np.little_endian else ">f4"))
    alone.all_reduce(np.ones(3, ">u1"))  # a byte has no order


@pytest.mark.parametrize("code", ["b", "B", "h", "H", "i", "I", "l", "L", "q", "Q", "f", "d"])
def test_array_array(peers: Peers, code: str) -> None:
    assert doubled(peers, lambda: array.array(code, [1, 2, 3]), list) == [2, 4, 6]


def test_bytearray_is_uint8(peers: Peers) -> None:
    assert doubled(peers, lambda: bytearray(b"\x01\x02\xff"), bytes) == b"\x02\x04\xfe"


def test_memoryview(peers: Peers) -> None:
    assert doubled(peers, lambda: memoryview(bytearray(b"\x01\x02")), bytes) == b"\x02\x04"
    made = doubled(peers, lambda: memoryview(bytearray(8)).cast("i", (1, 2)), lambda x: x.tolist())
    assert made == [[0, 0]]


def test_ctypes_arrays(peers: Peers) -> None:
    assert doubled(peers, lambda: (ctypes.c_int32 * 3)(1, 2, 3), list) == [2, 4, 6]


def test_mapped_files(alone: lockstep.Communicator, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(bytes(64))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 64) as mapped:
        alone.all_reduce(mapped)
    alone.all_reduce(np.memmap(path, np.float32, "r+"))


def test_bfloat16_of_ml_dtypes(peers: Peers) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    got = doubled(peers, lambda: np.array([[1, 2.5], [-3, 4]], ml_dtypes.bfloat16), lambda x: x.astype(np.float32))
    assert got.tolist() == [[2, 5], [-6, 8]]


# ---- torch ----


def torch_or_skip() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.mark.parametrize(
    "name", ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"]
)
def test_torch_tensors(peers: Peers, name: str) -> None:
    torch = torch_or_skip()
    dtype = getattr(torch, name)
    got = doubled(peers, lambda: torch.arange(6).reshape(2, 3).to(dtype), lambda x: x.to(torch.float64).numpy())
    assert got.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_torch_tensors_of_every_shape(alone: lockstep.Communicator) -> None:
    torch = torch_or_skip()
    for shape in [(), (1,), (0,), (3, 0), (0, 3), (2, 1, 3)]:
        alone.all_reduce(torch.ones(shape))


def test_torch_parameters_that_require_a_gradient(peers: Peers) -> None:
    torch = torch_or_skip()

    def main(run: lockstep.Communicator, _: int) -> list[float]:
        parameter = torch.nn.Parameter(torch.ones(3))
        run.all_reduce(parameter)
        assert parameter.requires_grad
        return list(parameter.tolist())

    assert peers(2, main) == [[2, 2, 2]] * 2


def test_torch_lists(peers: Peers) -> None:
    torch = torch_or_skip()

    def main(run: lockstep.Communicator, _: int) -> list[Any]:
        tensors = [torch.ones(3), torch.full((2, 2), 5.0), torch.ones(())]
        run.all_reduce(tensors, op="avg")
        run.all_reduce((tensors[0], np.ones(1, np.float32)))  # memory is memory
        return [tensor.tolist() for tensor in tensors]

    assert peers(2, main) == [[[2, 2, 2], [[5, 5], [5, 5]], 1]] * 2


@at_each_rank(2)
def test_torch_and_numpy_reduce_with_each_other(peers: Peers) -> None:
    torch = torch_or_skip()

    def main(run: lockstep.Communicator, number: int) -> list[float]:
        given = torch.ones(4) if number else np.ones((2, 2), np.float32)
        run.all_reduce(given)
        return list(given.reshape(-1).tolist())

    assert peers(2, main) == [[2] * 4] * 2


@at_each_rank(2)
def test_torch_booleans(peers: Peers) -> None:
    torch = torch_or_skip()

    def main(run: lockstep.Communicator, number: int) -> list[bool]:
        given = torch.tensor([False, number == 0, True])
        run.all_reduce(given, op="bor")
        return list(given.tolist())

    assert peers(2, main) == [[False, True, True]] * 2


def test_torch_refusals(alone: lockstep.Communicator) -> None:
    torch = torch_or_skip()
    refused(alone, torch.ones(4, 6).t(), ["torch.Tensor", "(6, 4)", "(4, 24)", "torch.float32", "x.permute(1, 0)"])
    refused(alone, torch.ones(4, 6)[:, ::2], ["torch.Tensor", "(4, 3)", "(24, 8)", "torch.float32", "x.contiguous()"])
    refused(alone, torch.ones(3, dtype=torch.complex64), ["(3,)", "torch.complex64", "supported"])
    refused(alone, torch.ones(3, device="meta"), ["torch.Tensor", "(3,)", "float32", "CPU"])
    refused(alone, torch.ones(3, 3).to_sparse(), ["torch.Tensor", "CPU"])


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_channels_last_is_refused_with_the_view_of_the_same_memory(peers: Peers, name: str) -> None:
    torch = torch_or_skip()

    def main(run: lockstep.Communicator, _: int) -> Any:
        given = torch.arange(120.0).reshape(2, 3, 4, 5).to(getattr(torch, name), memory_format=torch.channels_last)
        with pytest.raises(lockstep.ArrayError, match=re.escape("pass x.permute(0, 2, 3, 1), which")):
            run.all_reduce(given)
        run.all_reduce(given.permute(0, 2, 3, 1), tag=1)
        return given

    for got in peers(1, main):
        assert torch.equal(got.float(), torch.arange(120.0).reshape(2, 3, 4, 5))


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_torch_exports_many_tensors_without_python(
    alone: lockstep.Communicator, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each call of `__dlpack__` takes 15 us: 2,000 tensors took longer than the all-reduce of their bytes."""
    torch = torch_or_skip()
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no functions for it")

    def exports(*_: object, **__: object) -> None:
        raise AssertionError("Python was called")

    for method in ("__dlpack__", "numpy", "detach"):
        monkeypatch.setattr(torch.Tensor, method, exports)
    dtype = getattr(torch, name)
    alone.all_reduce([torch.ones(3, dtype=dtype), torch.nn.Parameter(torch.ones(2, dtype=dtype))])


def test_torch_memory_outlives_its_tensor(peers: Peers) -> None:
    torch = torch_or_skip()

    def main(run: lockstep.Communicator, _: int) -> list[float]:
        kept = torch.ones(1 << 20)
        given = kept.view(-1)
        work = run.all_reduce_async([given])
        del given
        work.wait()
        return list(kept[:2].tolist())

    assert peers(2, main) == [[2, 2]] * 2


# ---- DLPack ----


class DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)

READ_ONLY, IS_COPIED = 1, 2


class Exporter:
    """Floats that nothing but DLPack gives access to. The memory outlives the capsule."""

    def __init__(self, values: np.ndarray[Any, Any], **overrides: Any) -> None:
        self.values = values
        self.asked: list[dict[str, Any]] = []
        self._shape = (ctypes.c_int64 * values.ndim)(*values.shape)
        strides = [stride // values.itemsize for stride in values.strides]
        self._strides = (ctypes.c_int64 * values.ndim)(*strides)
        self._overrides = overrides

    def _tensor(self) -> DLTensor:
        given = self._overrides
        return DLTensor(
            data=self.values.ctypes.data - given.get("byte_offset", 0),
            device_type=given.get("device_type", 1),
            ndim=self.values.ndim,
            dtype=DLDataType(given.get("code", 2), given.get("bits", 8 * self.values.itemsize), given.get("lanes", 1)),
            shape=self._shape,
            strides=None if given.get("no_strides") else self._strides,
            byte_offset=given.get("byte_offset", 0),
        )

    def _old(self) -> Any:
        self._managed: Any = DLManagedTensor(self._tensor(), None, None)
        return new_capsule(ctypes.addressof(self._managed), b"dltensor", None)

    def _versioned(self) -> Any:
        major, flags = self._overrides.get("major", 1), self._overrides.get("flags", 0)
        self._managed = DLManagedTensorVersioned(major, 0, None, None, flags, self._tensor())
        return new_capsule(ctypes.addressof(self._managed), b"dltensor_versioned", None)


class Oldest(Exporter):
    """As before 2021: no arguments at all."""

    def __dlpack__(self) -> Any:
        self.asked.append({})
        return self._old()


class Streamed(Exporter):
    """As before DLPack 1.0: a stream."""

    def __dlpack__(self, stream: object = None) -> Any:
        self.asked.append({"stream": stream})
        return self._old()


class Versioned(Exporter):
    """Knows versions, and no `copy`."""

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None) -> Any:
        self.asked.append({"max_version": max_version})
        return self._versioned()


class Newest(Exporter):
    def __dlpack__(
        self, *, stream: object = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        self.asked.append({"max_version": max_version, "copy": copy})
        return self._versioned()


@pytest.mark.parametrize("kind", [Oldest, Streamed, Versioned, Newest])
@pytest.mark.parametrize("overrides", [{}, {"no_strides": True}, {"byte_offset": 16}])
def test_exporters_of_dlpack_of_every_age(peers: Peers, kind: type[Exporter], overrides: dict[str, Any]) -> None:
    def main(run: lockstep.Communicator, _: int) -> list[Any]:
        given = kind(np.arange(6, dtype=np.float32).reshape(2, 3), **overrides)
        run.all_reduce(given)
        assert len(given.asked) == 1
        return list(given.values.tolist())

    assert peers(2, main) == [[[0, 2, 4], [6, 8, 10]]] * 2


def test_the_newest_exporters_are_asked_for_no_copy(alone: lockstep.Communicator) -> None:
    given = Newest(np.ones(3, np.float32))
    alone.all_reduce(given)
    assert given.asked == [{"max_version": (1, 0), "copy": False}]


def test_read_only_dlpack_can_be_sent_and_is_never_written_to(alone: lockstep.Communicator) -> None:
    given = Newest(np.ones(3, np.float32), flags=READ_ONLY)
    out = np.zeros(3, np.float32)
    alone.all_reduce(given, out)
    assert out.tolist() == [1, 1, 1]
    refused(alone, given, ["Newest", "(3,)", "(4,)", "read-only", "copy()"])


def test_a_copy_can_be_sent_and_never_receives(alone: lockstep.Communicator) -> None:
    given = Newest(np.ones(3, np.float32), flags=IS_COPIED)
    out = np.zeros(3, np.float32)
    alone.all_reduce(given, out)
    assert out.tolist() == [1, 1, 1]
    refused(alone, given, ["Newest", "(3,)", "copy of its memory", "would be lost"])


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ({"device_type": 7}, ["device of DLPack type 7", "(3,)", "(4,)", "CPU"]),
        ({"code": 5, "bits": 64}, ["cannot be reduced", "(3,)", "(8,)"]),
        ({"code": 6, "bits": 16}, ["cannot be reduced"]),
        ({"bits": 4}, ["cannot be reduced"]),
        ({"lanes": 4}, ["cannot be reduced"]),
        ({"major": 2}, ["DLPack version 2", "supported: 1"]),
    ],
)
def test_dlpack_that_cannot_be_read_is_refused(
    alone: lockstep.Communicator, overrides: dict[str, Any], parts: list[str]
) -> None:
    refused(alone, Newest(np.ones(3, np.float32), **overrides), parts)


def test_dlpack_on_a_cuda_device_is_another_kind_of_error(alone: lockstep.Communicator) -> None:
    given = Newest(np.ones(3, np.float32), device_type=2)
    with pytest.raises(lockstep.errors.DeviceArray) as caught:
        alone.all_reduce_async(given)
    says(caught.value, ["CUDA device", "(3,)", "x.cpu()"])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="classes export no buffers")
def test_an_array_on_a_device_may_have_the_buffer_protocol(alone: lockstep.Communicator) -> None:
    """As arrays of CuPy and JAX have it, for those of the CPU."""

    class Array(Newest):
        def __buffer__(self, flags: int) -> memoryview:
            raise BufferError("on a device")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

    with pytest.raises(lockstep.errors.DeviceArray) as caught:
        alone.all_reduce_async(Array(np.ones(3, np.float32), device_type=2))
    says(caught.value, ["CUDA device", "(3,)", "x.cpu()"])


def test_dlpack_with_strides_is_refused(alone: lockstep.Communicator) -> None:
    refused(alone, Newest(np.ones((4, 6), np.float32)[:, ::2]), ["(4, 3)", "(24, 8)", "C-contiguous", "x.contiguous()"])
    alone.all_reduce(Newest(np.ones((4, 6), np.float32)[::4]))  # of one row the stride says nothing


def test_exporters_that_fail_are_quoted(alone: lockstep.Communicator) -> None:
    class Fails:
        def __dlpack__(self, **_: object) -> Any:
            raise BufferError("this tensor lies on the moon")

    class Lies:
        def __dlpack__(self, **_: object) -> Any:
            return 7

    refused(alone, Fails(), ["Fails", "this tensor lies on the moon"])
    refused(alone, Lies(), ["Lies", "no DLPack tensor"])


def test_a_capsule_is_given_back(alone: lockstep.Communicator) -> None:
    deleted = []
    destructor_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    destructor = destructor_type(lambda capsule: deleted.append(capsule))

    class Counted(Exporter):
        def __dlpack__(self) -> Any:
            self._managed = DLManagedTensor(self._tensor(), None, None)
            return new_capsule(ctypes.addressof(self._managed), b"dltensor", ctypes.cast(destructor, ctypes.c_void_p))

    given = Counted(np.ones(3, np.float32))
    for calls in range(1, 4):
        alone.all_reduce(given)
        assert len(deleted) == calls


# ---- no copy ----


def test_out_of_place_sends_and_receives_where_the_arrays_lie(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> None:
        send, out = np.full(1000, number + 1.0), np.zeros(1000)
        send.flags.writeable = False  # is only read
        run.all_reduce(send, out)
        assert (send == number + 1).all()
        assert (out == 3).all()

    peers(2, main)


@at_each_rank(2)
def test_a_large_array_is_not_copied(peers: Peers) -> None:
    torch = torch_or_skip()
    shared = np.ones(1 << 16, np.float32)
    tensor = torch.from_numpy(shared)
    assert tensor.data_ptr() == shared.ctypes.data

    def main(run: lockstep.Communicator, number: int) -> None:
        run.all_reduce(tensor if number else np.ones(1 << 16, np.float32))

    peers(2, main)
    assert (shared == 2).all()
    assert tensor.data_ptr() == shared.ctypes.data


# ---- refusals ----


def refused(run: lockstep.Communicator, given: Any, parts: list[str], kind: type = lockstep.ArrayError) -> None:
    with pytest.raises(kind) as caught:
        run.all_reduce(given)
    assert isinstance(caught.value, lockstep.Error)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)
    assert caught.value.status is lockstep.Status.INVALID_ARGUMENT
    says(caught.value, ["array: ", *parts])


def test_arrays_with_gaps(alone: lockstep.Communicator) -> None:
    remedy = "numpy.ascontiguousarray(x)"
    refused(alone, np.ones((4, 6))[:, ::2], ["numpy.ndarray", "(4, 3)", "(48, 16)", "float64", remedy])
    refused(alone, np.ones((4, 6)).T, ["(6, 4)", "(8, 48)", "in the order (1, 0)", "x.transpose(1, 0)"])
    refused(alone, np.ones(4)[::-1], ["(4,)", "(-8,)", remedy])
    refused(alone, np.asfortranarray(np.ones((2, 3), np.int16)), ["(2, 3)", "(2, 4)", "int16", "x.transpose(1, 0)"])
    refused(alone, np.broadcast_to(np.float32(1), (2, 2)), ["(2, 2)", "(0, 0)", remedy])
    refused(alone, memoryview(bytearray(8))[::2], ["memoryview", "(4,)", "(2,)", "format B", remedy])


def test_read_only_arrays(alone: lockstep.Communicator) -> None:
    frozen = np.ones(3)
    frozen.flags.writeable = False
    refused(alone, frozen, ["(3,)", "(8,)", "float64", "read-only", "x.copy()"])
    refused(alone, b"abc", ["bytes", "(3,)", "(1,)", "uint8", "read-only"])
    refused(alone, memoryview(b"abc"), ["memoryview", "read-only"])


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (np.ones(3, complex), ["complex128", "x.astype(numpy.float32)"]),
        (np.ones(3, ">f4"), [">f4", "this machine's byte order"]),
        (np.ones(3, ">i8"), [">i8", "this machine's byte order"]),
        (np.array(["a", "b"]), ["<U1"]),
        (np.array([b"ab"]), ["|S2"]),
        (np.array([None, 1]), ["object"]),
        (np.zeros(3, "M8[s]"), ["datetime64"]),
        (np.zeros(3, [("a", "f4"), ("b", "i4")]), ["'a'", "'b'"]),
        (np.zeros(3, "V8"), ["V8"]),
        (np.ones(3, np.longdouble), [str(np.dtype(np.longdouble))]),
        ((ctypes.c_char * 3)(), ["c_char_Array_3", "(3,)"]),
        (memoryview(b"abc").cast("c"), ["memoryview", "format c"]),
    ],
    ids=lambda value: "",
)
def test_elements_that_cannot_be_reduced(alone: lockstep.Communicator, given: Any, parts: list[str]) -> None:
    refused(alone, given, parts)


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (3, ["int is no array", "numpy.array([x]"]),
        (2.5, ["float is no array", "numpy.array([x]"]),
        (None, ["NoneType is no array", "buffer protocol or DLPack"]),
        ("text", ["str is no array"]),
        ({"a": 1}, ["dict is no array"]),
        (range(3), ["range is no array"]),
        ({1.0}, ["set is no array"]),
        (object(), ["object is no array"]),
    ],
    ids=lambda value: "",
)
def test_things_that_are_no_arrays(alone: lockstep.Communicator, given: Any, parts: list[str]) -> None:
    refused(alone, given, parts)


def test_memory_between_the_places_of_elements(alone: lockstep.Communicator) -> None:
    crooked = np.frombuffer(bytearray(33), np.uint8)[1:].view(np.float64)
    refused(alone, crooked, ["(4,)", "(8,)", "float64", "multiple of its elements' size", "x.copy()"])
    refused(alone, Newest(np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float32)), ["(4,)", "multiple"])


def test_bfloat16_that_cannot_be_taken_is_told_as_bfloat16(alone: lockstep.Communicator) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    frozen = np.ones(3, ml_dtypes.bfloat16)
    frozen.flags.writeable = False
    refused(alone, frozen, ["(3,)", "(2,)", "bfloat16", "read-only"])
    refused(alone, np.ones((4, 4), ml_dtypes.bfloat16)[:, ::2], ["(4, 2)", "(8, 4)", "bfloat16", "C-contiguous"])
    refused(alone, np.ones(3, ml_dtypes.float8_e4m3fn), ["(3,)", "float8_e4m3fn", "supported", "x.astype"])


def test_lists_name_the_place(alone: lockstep.Communicator) -> None:
    for wrong, parts in (
        ([np.ones(3), 1.0], ["array[1]: float is no array"]),
        ([np.ones(3), np.ones((2, 4))[:, ::2]], ["array[1]: numpy.ndarray", "(2, 2)", "C-contiguous"]),
        (
            [np.ones(3), np.ones(3, np.float32)],
            ["array[1] has dtype float32", "array[0] has dtype float64", "one dtype"],
        ),
        ([[np.ones(3)]], ["array[0]: list is no array"]),
    ):
        with pytest.raises(lockstep.ArrayError) as caught:
            alone.all_reduce(wrong)
        says(caught.value, parts)


def test_lists_may_be_empty(peers: Peers) -> None:
    def main(run: lockstep.Communicator, _: int) -> int:
        return int(run.all_reduce([]).world_size)

    assert peers(2, main) == [2, 2]


def test_out_must_match(alone: lockstep.Communicator) -> None:
    for array_, out, parts in (
        (np.ones(3), np.ones(4), ["4 elements", "3"]),
        (np.ones(3), np.ones(3, np.float32), ["float32", "float64"]),
        ([np.ones(3)], [np.ones(3), np.ones(3)], ["out holds 2 arrays", "array holds 1"]),
        ([np.ones(3)], np.ones(3), ["a list for a list"]),
        (np.ones(3), [np.ones(3)], ["a list for a list"]),
    ):
        with pytest.raises(lockstep.InvalidArgument) as caught:
            alone.all_reduce(array_, out)
        says(caught.value, parts)
    with pytest.raises(lockstep.ArrayError) as caught:
        alone.all_reduce(np.ones(3), b"12345678" * 3)
    says(caught.value, ["out: bytes", "read-only"])


def test_memory_that_overlaps_is_refused(alone: lockstep.Communicator) -> None:
    memory = np.ones(10)
    with pytest.raises(lockstep.InvalidArgument, match="overlap"):
        alone.all_reduce(memory[:8], memory[2:])


@at_each_rank(2)
def test_nothing_is_started_when_an_array_is_refused(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> tuple[int, int]:
        given = np.ones(3)
        if number == 0:
            with pytest.raises(lockstep.ArrayError):
                run.all_reduce(np.ones((4, 4)).T)
        else:
            with pytest.raises(lockstep.Error, match="refused its all_reduce"):  # the refusal is an answer
                run.all_reduce(given)
        result = run.all_reduce(given)
        assert given.tolist() == [2, 2, 2]
        return result.use, result.world_size

    assert peers(2, main) == [(1, 2), (1, 2)]  # the refused call has taken the first use
