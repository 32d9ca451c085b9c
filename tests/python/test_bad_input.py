"""Bad input of every kind: an error that names the argument and what is allowed, at once, and the communicator goes on."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from processes import LIMIT
from support import Meeting, Peers
from test_array import DLTensor, Newest

Run = lockstep.Communicator
Values = dict[str, Callable[[], Any]]

NONSENSE = [
    None,
    "x",
    "",
    b"x",
    -1,
    0,
    1.5,
    math.nan,
    math.inf,
    -math.inf,
    1 << 64,
    1 << 200,
    -(1 << 200),
    1e308,
    True,
    1 + 2j,
    [],
    {},
    (),
    [None],
    (1, 2),
    set(),
    range(3),
    object(),
    print,
    int,
    NotImplemented,
    ...,
    "a\0b",
    "\ud800",
    "é" * 3000,
    np.float32(1),
    np.array(3),
    np.array([1.0, 2.0]),
    np.array(["a"]),
    np.ma.masked_array([1.0, 2.0], [True, False]),
]


class Hostile:
    """Whatever Python asks of it fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def fail(self, *_: object) -> Any:
        raise RuntimeError("planted")

    __index__ = __float__ = __bool__ = __len__ = __iter__ = __fspath__ = __getitem__ = __eq__ = fail
    __hash__ = object.__hash__


NONSENSE.append(Hostile())


def array() -> Any:
    return np.ones(4, np.float32)


def state() -> lockstep.State:
    return lockstep.State({"weights": array(), "step": 0})


def of(value: Any) -> Callable[[], Any]:
    return lambda: value


COMMON: Values = {"tag": of(0), "timeout": of(5), "minimum_world": of(0)}
CALLS: dict[str, Values] = {
    "all_reduce": {
        **COMMON,
        "array": array,
        "out": of(None),
        "op": of("avg"),
        "retry": of(True),
        "up": of("native"),
        "down": of("native"),
        "weight": of(None),
        "algorithm": of("auto"),
        "residual": of(None),
    },
    "reduce_scatter": {**COMMON, "array": array, "out": array, "op": of("sum")},
    "all_gather": {**COMMON, "array": array, "out": array},
    "broadcast": {**COMMON, "array": array, "root": of(None)},
    "reduce": {**COMMON, "array": array, "root": of(None), "out": of(None), "op": of("sum")},
    "gather": {**COMMON, "array": array, "root": of(None), "out": of(None)},
    "scatter": {**COMMON, "array": array, "root": of(None), "out": array, "counts": of(None)},
    "all_to_all": {**COMMON, "array": array, "out": of(None), "counts": of(None)},
    "barrier": {**COMMON, "retry": of(True)},
    "admit": {"timeout": of(5)},
    "wait_for_world": {"members": of(1), "timeout": of(5)},
    "sync": {
        **COMMON,
        "state": state,
        "strategy": of("popular"),
        "staged": of(False),
        "blank": of(False),
        "restored": of(False),
        "unchanged": of(()),
    },
    "publish": {"state": state, "stable": of(False), "tag": of(0), "timeout": of(5)},
}
for one in list(CALLS):
    CALLS[one + "_async"] = CALLS[one]
CALLS |= {
    "unpublish": {"tag": of(0)},
    "watch": {"state": state, "unchanged": of(())},
    "abort_all": {"why": of("enough")},
    "members": {"group": of(0)},
    "flight_record": {"path": of("/dev/null/no-such-folder")},
}


def judged(what: str, argument: str, value: object, call: Callable[[], object]) -> str | None:
    """What is wrong with how a call takes a value of an argument; None: nothing."""
    shown = f"{what}({argument}={type(value).__name__})"
    began = time.monotonic()
    try:
        result = call()
        if isinstance(result, lockstep.Work):
            result.abort()
            result.wait(LIMIT)
    except (lockstep.Error, TypeError, ValueError, OSError) as error:
        text = str(error)
        if "incompatible function arguments" in text or "C++" in text or not text:
            return f"{shown}: unclear: {text[:200]}"
        known = isinstance(error, lockstep.Error) and error.status != lockstep.Status.INVALID_ARGUMENT
        known = known or "without a flight recorder" in text
        if not known and argument not in text and "array" not in text and "[Errno" not in text:
            return f"{shown}: does not name it: {text[:200]}"
    except RuntimeError as error:
        if str(error) != "planted":  # Hostile's own
            return f"{shown}: {error!r}"
    except BaseException as error:
        return f"{shown}: {error!r}"
    seconds = time.monotonic() - began
    return f"{shown}: took {seconds:.1f} s" if seconds > 4 else None


@pytest.mark.parametrize("name", CALLS)
def test_nonsense_in_every_argument(alone: Run, name: str) -> None:
    wrong = []
    for argument in CALLS[name]:
        for value in NONSENSE:
            values = {other: make() for other, make in CALLS[name].items()}
            if "root" in values:
                values["root"] = alone.id
            if name.startswith("wait_for_world") and argument == "timeout":
                values["members"] = 1
            values[argument] = value
            if name == "wait_for_world" and argument == "members":
                values["timeout"] = 0.01
            wrong.append(judged(name, argument, value, lambda values=values: getattr(alone, name)(**values)))
    alone.watch(None)
    alone.unpublish()
    assert [one for one in wrong if one] == []
    assert alone.all_reduce(array(), timeout=LIMIT).world_size == 1


HOSTS = {"listen_host", "advertise_host"}  # may be looked up


@pytest.mark.parametrize("name", sorted(set(lockstep.Options.__annotations__) - HOSTS))
def test_nonsense_in_every_option(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some are names of files

    def make(value: object) -> None:
        lockstep.Communicator(**{name: value}).close()  # type: ignore[misc]

    # Of segment_bytes the library says what a segment is.
    named = "segment" if name == "segment_bytes" else "folder" if name == "flight_folder" else name
    wrong = [judged("Communicator", named, value, lambda value=value: make(value)) for value in NONSENSE]
    assert [one for one in wrong if one] == []


@pytest.mark.parametrize("name", ["heartbeat", "silence", "greeting", "logger", "flight_file"])
def test_nonsense_in_a_coordinator(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def make(value: object) -> None:
        arguments: dict[str, Any] = {"listen": "127.0.0.1:0", name: value}
        lockstep.Coordinator(**arguments).stop()

    wrong = [judged("Coordinator", name, value, lambda value=value: make(value)) for value in NONSENSE]
    assert [one for one in wrong if one] == []


def test_addresses_that_cannot_be_listened_on() -> None:
    for value in (1, b"x", object()):
        with pytest.raises(TypeError, match=r"listen is .*allowed: a str"):
            lockstep.Coordinator(value)  # type: ignore[arg-type]
    with pytest.raises(lockstep.InvalidArgument, match=r"listen is .*NUL"):
        lockstep.Coordinator("a\0b:0")
    for text in ("x", "1.2.3.4", "127.0.0.1:70000", "[::1:0"):
        with pytest.raises(lockstep.InvalidArgument, match="address"):
            lockstep.Coordinator(text)


@pytest.mark.parametrize("value", [value for value in NONSENSE if not isinstance(value, str)])
def test_addresses_that_are_no_text(value: Any) -> None:
    with pytest.raises(TypeError, match=r"(?s)coordinator is .*allowed: a str"):
        lockstep.connect(value, timeout=1)


@pytest.mark.parametrize(
    "value", ["", "x", "x:", ":", "x:y", "127.0.0.1:70000", "127.0.0.1:-1", "a\0b:1", "\ud800:1", "x" * 300 + ":1"]
)
def test_addresses_that_cannot_be(value: str) -> None:
    with pytest.raises((lockstep.InvalidArgument, lockstep.Unreachable)) as raised:
        lockstep.connect(value, timeout=1)
    assert str(raised.value)


def test_nonsense_in_works(alone: Run) -> None:
    work = alone.barrier_async()
    wrong = []
    for value in NONSENSE:
        wrong.append(judged("wait_any", "works", value, lambda value=value: lockstep.wait_any(value)))
        wrong.append(judged("wait_any", "works[1]", value, lambda value=value: lockstep.wait_any([work, value])))
        wrong.append(judged("abort", "why", value, lambda value=value: work.abort(value)))
        if not isinstance(value, float):  # inf: for ever
            wrong.append(judged("wait", "timeout", value, lambda value=value: work.wait(value)))
    assert [one for one in wrong if one] == []
    assert work.wait(LIMIT).world_size == 1
    assert lockstep.wait_any([work] * 300, LIMIT) is work


def test_nonsense_in_a_state(alone: Run) -> None:
    wrong = []

    def sets(value: Any) -> None:
        mine = state()
        mine["step"] = value
        alone.sync(mine, timeout=LIMIT)

    def revised(value: Any) -> None:
        mine = state()
        mine.revision = value
        alone.sync(mine, timeout=LIMIT)

    for value in NONSENSE:
        for argument, call in {
            "entries": lambda value=value: alone.sync(lockstep.State(value), timeout=LIMIT),
            "entry": lambda value=value: alone.sync(
                lockstep.State({"entry": value, "weights": array()}), timeout=LIMIT
            ),
            "step": lambda value=value: sets(value),
            "revision": lambda value=value: revised(value),
            "may_differ": lambda value=value: lockstep.State({"weights": array()}, may_differ=value),
        }.items():
            wrong.append(judged("State", argument, value, call))
    assert [one for one in wrong if one] == []
    for name in ("a\0b", "\ud800"):
        with pytest.raises(lockstep.InvalidArgument, match="name in the state"):
            alone.sync(lockstep.State({name: array()}), timeout=LIMIT)
    with pytest.raises(TypeError, match=r"may_differ is 'weights'; allowed: names of arrays"):
        lockstep.State({"weights": array()}, may_differ="weights")


def test_ctrl_c_is_not_taken_for_a_bad_argument(alone: Run) -> None:
    class Interrupts:
        def __dlpack__(self, **_: object) -> None:
            raise KeyboardInterrupt

        def __index__(self) -> int:
            raise KeyboardInterrupt

        __float__ = __index__

    given: Any = Interrupts()
    for call in (
        lambda: alone.all_reduce(given),
        lambda: alone.barrier(tag=given),
        lambda: alone.barrier(timeout=given),
        lambda: alone.all_reduce(array(), op="avg", weight=given),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()


# ---- arrays ----


def in_flight(peers: Peers, check: Callable[[Run], None]) -> None:
    """Runs a check on one of two peers while the other one does not call yet."""

    def main(run: Run, number: int) -> None:
        if number == 0:
            check(run)
        run.barrier(tag=1 << 40, timeout=LIMIT)

    peers(2, main)


def test_a_buffer_cannot_be_resized_during_a_call(peers: Peers) -> None:
    def check(run: Run) -> None:
        given = bytearray(100)
        view = memoryview(bytearray(100))
        works = [run.all_reduce_async(given, tag=1), run.all_reduce_async(view, tag=2)]
        with pytest.raises(BufferError):
            given.extend(b"more")
        with pytest.raises(BufferError):
            view.release()
        for work in works:
            work.abort("seen enough")
            with pytest.raises(lockstep.Aborted):
                work.wait(LIMIT)
        del work
        works.clear()
        given.extend(b"more")
        view.release()

    in_flight(peers, check)


def test_memory_that_is_given_twice_is_refused(alone: Run) -> None:
    base = np.arange(10, dtype=np.float32)
    for given, out in (
        (base[:5], base[2:7]),
        ([base, base], None),
        ([base[:6], base[4:]], None),
        ([base[:5]], [base[4:9]]),
        ([base[:2].copy(), base[:2].copy()], [base[:2], base[1:3]]),
    ):
        with pytest.raises(lockstep.InvalidArgument):
            alone.all_reduce(given, out, timeout=LIMIT)
    with pytest.raises(lockstep.InvalidArgument):
        alone.all_reduce(base, op="avg", up="int4", algorithm="direct", residual=base, timeout=LIMIT)
    with pytest.raises(lockstep.InvalidArgument):
        alone.sync(lockstep.State({"a": base, "b": base[3:]}), timeout=LIMIT)
    assert base.tolist() == list(range(10))


def test_masked_arrays_are_refused(alone: Run) -> None:
    given = np.ma.masked_array([1.0, 2.0], [True, False])
    with pytest.raises(lockstep.ArrayError, match=r"has a mask.*filled\(0\)"):
        alone.all_reduce(given)
    assert alone.all_reduce(given.data, timeout=LIMIT).world_size == 1


def test_subclasses_and_mapped_files(alone: Run, tmp_path: Path) -> None:
    class Mine(np.ndarray):
        pass

    given = np.arange(6.0).view(Mine)
    assert alone.all_reduce(given, timeout=LIMIT).world_size == 1
    path = tmp_path / "array"
    np.arange(6.0).tofile(path)
    mapped = np.memmap(path, np.float64, "r+")
    assert alone.all_reduce(mapped, timeout=LIMIT).world_size == 1
    with pytest.raises(lockstep.ArrayError, match="read-only"):
        alone.all_reduce(np.memmap(path, np.float64, "r"))
    with pytest.raises(lockstep.ArrayError, match="not C-contiguous"):
        alone.all_reduce(given[::-1])
    with pytest.raises(lockstep.ArrayError, match="not C-contiguous"):
        alone.all_reduce(np.broadcast_to(np.ones(1), (1 << 40,)), np.empty(0))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("ndim", -1, "ndim"),
        ("ndim", 1 << 30, "ndim"),
        ("shape", None, "shape is NULL"),
        ("data", None, "data is NULL"),
    ],
)
def test_dlpack_that_describes_nothing(alone: Run, field: str, value: Any, words: str) -> None:
    class Liar(Newest):
        def _tensor(self) -> DLTensor:
            tensor = super()._tensor()
            setattr(tensor, field, value)
            return tensor

    with pytest.raises(lockstep.ArrayError, match=f"Liar.*describes no tensor: .*{words}"):
        alone.all_reduce(Liar(np.ones(3, np.float32)))


@pytest.mark.parametrize(
    ("size", "words"), [(-5, "negative"), (1 << 62, "larger than memory"), (1 << 61, "larger than memory")]
)
def test_dlpack_of_impossible_sizes(alone: Run, size: int, words: str) -> None:
    given = Newest(np.ones(3, np.float32))
    given._shape[0] = size
    with pytest.raises(lockstep.ArrayError, match=words):
        alone.all_reduce(given)


@pytest.mark.parametrize("returned", [None, 5, "x", object(), print])
def test_dlpack_that_is_none(alone: Run, returned: object) -> None:
    class Odd:
        def __dlpack__(self, **_: object) -> object:
            return returned

    with pytest.raises(lockstep.ArrayError, match=r"array: .*Odd.*returned no DLPack tensor"):
        alone.all_reduce(Odd())


@pytest.mark.parametrize(
    "error", [ValueError("planted"), TypeError("planted"), RuntimeError("planted"), MemoryError("planted")]
)
def test_dlpack_that_raises(alone: Run, error: Exception) -> None:
    class Odd:
        def __dlpack__(self, **_: object) -> object:
            raise error

    with pytest.raises(lockstep.ArrayError, match=r"array: .*Odd.*planted"):
        alone.all_reduce(Odd())


class Cleared(list[Any]):
    """A list that changes while it is read."""

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            self.clear()
            yield one


def test_lists(alone: Run) -> None:
    many = [np.full(3, i, np.float32) for i in range(1 << 16)]
    began = time.monotonic()
    alone.all_reduce(many, op="avg", timeout=LIMIT)
    assert time.monotonic() - began < 10
    assert many[-1].tolist() == [65535] * 3
    with pytest.raises(lockstep.InvalidArgument, match="number of arrays is 100000; allowed: at most 65536"):
        alone.all_reduce([array()] * 100_000, timeout=LIMIT)
    alone.all_reduce([], timeout=LIMIT)
    alone.all_reduce([np.empty(0), np.empty(0)], timeout=LIMIT)
    alone.all_reduce((array(), array()), timeout=LIMIT)
    for given in ([array(), None], [array(), [array()]], [array(), "x"]):
        with pytest.raises(lockstep.ArrayError, match=r"array\[1\]"):
            alone.all_reduce(given, timeout=LIMIT)
    alone.all_reduce(Cleared([array(), array()]), timeout=LIMIT)
    with pytest.raises(lockstep.InvalidArgument, match="out"):
        alone.all_reduce([array()], array(), timeout=LIMIT)
    nested: list[Any] = []
    nested.append(nested)
    with pytest.raises(lockstep.ArrayError):
        alone.all_reduce(nested, timeout=LIMIT)


@pytest.mark.parametrize("weight", [math.nan, math.inf, -1.0, -math.inf, 1e308])
def test_weights_that_cannot_be(alone: Run, weight: float) -> None:
    given = array()
    with pytest.raises(lockstep.InvalidArgument, match="weight"):
        alone.all_reduce(given, op="avg", weight=weight, timeout=LIMIT)
    assert given.tolist() == [1] * 4


# ---- texts ----


def aborted(peers: Peers, why: str, **options: Any) -> list[str]:
    """What each of two peers is told of a call that the first one aborts."""
    meeting = Meeting(2)

    def main(run: Run, number: int) -> str:
        if number == 1:
            meeting()
        work = run.barrier_async()
        if number == 0:
            work.abort(why)
        with pytest.raises(lockstep.Aborted) as raised:
            work.wait(LIMIT)
        if number == 0:
            meeting()
        return str(raised.value)

    return peers(2, main, **options)


def test_reasons_that_are_cut_within_a_character_are_still_text(peers: Peers) -> None:
    for text in aborted(peers, "a" + "é" * 3000):
        assert "aéé" in text


def test_names_in_any_script(peers: Peers) -> None:
    for text in aborted(peers, "名前 \N{ROCKET}", name="é 名"):
        assert "名前 \N{ROCKET}" in text


# ---- communicators that are over ----


def over(run: Run) -> None:
    """Every method of a communicator that is no longer part of a run."""
    mine = state()
    for name, call in {
        "all_reduce": lambda: run.all_reduce(array()),
        "all_reduce_async": lambda: run.all_reduce_async(array()).wait(LIMIT),
        "reduce_scatter": lambda: run.reduce_scatter(array(), array()),
        "all_gather": lambda: run.all_gather(array(), array()),
        "broadcast": lambda: run.broadcast(array(), run.id),
        "reduce": lambda: run.reduce(array(), run.id),
        "gather": lambda: run.gather(array(), run.id),
        "scatter": lambda: run.scatter(array(), run.id),
        "all_to_all": lambda: run.all_to_all(array()),
        "barrier": lambda: run.barrier(),
        "admit": lambda: run.admit(),
        "wait_for_world": lambda: run.wait_for_world(1),
        "sync": lambda: run.sync(mine),
        "publish": lambda: run.publish(mine),
        "leave": lambda: run.leave(),
    }.items():
        try:
            call()
        except lockstep.NotConnected as error:
            assert str(error), name  # noqa: PT017 - named
        else:
            raise AssertionError(f"{name} works")
    assert repr(run)
    assert len(run.id) == 16


def test_closed(coordinator: lockstep.Coordinator) -> None:
    run = lockstep.connect(coordinator.address, timeout=LIMIT)
    work = run.barrier_async()
    work.wait(LIMIT)
    run.close()
    over(run)
    run.close()
    assert work.done()
    assert work.wait().world_size == 1
    with pytest.raises((lockstep.NotConnected, lockstep.InvalidArgument)):
        run.connect(coordinator.address, timeout=LIMIT)
    with run:
        pass
    del run
    gc.collect()
    assert work.wait().world_size == 1


def test_left(coordinator: lockstep.Coordinator) -> None:
    run = lockstep.connect(coordinator.address, timeout=LIMIT)
    run.leave(timeout=LIMIT)
    over(run)
    run.close()


def test_never_connected() -> None:
    run = lockstep.Communicator()
    over(run)
    with pytest.raises(lockstep.NotConnected):
        run.world  # noqa: B018 - raises
    run.close()
    over(run)


def test_connected_twice(coordinator: lockstep.Coordinator) -> None:
    with lockstep.connect(coordinator.address, timeout=LIMIT) as run:
        with pytest.raises(lockstep.InvalidArgument):
            run.connect(coordinator.address, timeout=LIMIT)
        assert run.barrier(timeout=LIMIT).world_size == 1


def test_works_of_other_communicators(coordinator: lockstep.Coordinator) -> None:
    with lockstep.Coordinator("127.0.0.1:0") as other:
        with (
            lockstep.connect(coordinator.address, timeout=LIMIT) as first,
            lockstep.connect(other.address, timeout=LIMIT) as second,
        ):
            never = first.wait_for_world_async(2)
            done = second.barrier_async()
            assert lockstep.wait_any([never, done], LIMIT) is done
            second.close()
            assert lockstep.wait_any([never, done], LIMIT) is done
            never.abort()
            with pytest.raises(lockstep.Aborted):
                never.wait(LIMIT)
