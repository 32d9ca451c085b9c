"""The tree of errors: bases, statuses equal to those of the header, texts and results."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path

import lockstep
import numpy as np
import pytest
from lockstep import _lockstep, errors

HEADER = Path(__file__).parents[2] / "bindings" / "c" / "include" / "lockstep.h"

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.Error) and kind is not errors.Error
]


def statuses_of_the_header() -> dict[str, int]:
    found = re.search(r"typedef enum lockstep_status \{(.*?)\} lockstep_status;", HEADER.read_text(), re.DOTALL)
    assert found is not None
    text = re.sub(r"/\*.*?\*/", "", found[1], flags=re.DOTALL)
    return {name: int(number) for name, number in re.findall(r"LOCKSTEP_(?:ERR_)?(\w+) = (\d+)", text)}


@pytest.mark.skipif(not HEADER.exists(), reason="the sources are not here: an installed package")
def test_statuses_are_those_of_the_header() -> None:
    assert {status.name: status.value for status in lockstep.Status} == statuses_of_the_header()


def test_every_status_has_a_text_of_its_own_in_the_library() -> None:
    texts = {_lockstep.status_string(status) for status in lockstep.Status}
    assert len(texts) == len(lockstep.Status)
    assert _lockstep.status_string(77) == "unknown status"
    assert "unknown status" not in texts


def test_every_status_but_two_has_an_error() -> None:
    told = {errors.error_of(status, "", None).status for status in lockstep.Status}
    # A call that is OK raises nothing; an interrupted one what interrupted it.
    assert set(lockstep.Status) - told == {lockstep.Status.OK, lockstep.Status.INTERRUPTED}


@pytest.mark.parametrize(
    ("status", "kind", "base"),
    [
        (1, lockstep.InvalidArgument, ValueError),
        (2, lockstep.Mismatch, ValueError),
        (3, lockstep.PeerLost, ConnectionError),
        (4, lockstep.WorldChanged, lockstep.Error),
        (5, lockstep.BelowMinimum, lockstep.Error),
        (6, lockstep.Aborted, lockstep.Error),
        (7, lockstep.TimedOut, TimeoutError),
        (8, lockstep.CohortClosed, lockstep.Error),
        (9, lockstep.OutcomeUnknown, ConnectionError),
        (10, lockstep.Evicted, ConnectionError),
        (11, lockstep.NotConnected, ConnectionError),
        (12, lockstep.Unreachable, ConnectionError),
        (13, lockstep.Refused, ConnectionRefusedError),
        (14, lockstep.TooManyInFlight, lockstep.Error),
        (15, lockstep.BufferTooSmall, ValueError),
        (16, lockstep.OutOfMemory, MemoryError),
        (17, lockstep.ProtocolError, ConnectionError),
        (18, lockstep.InternalError, RuntimeError),
        (19, lockstep.StateUndefined, lockstep.Error),
        (20, lockstep.StateConflict, lockstep.Error),
        (102, lockstep.Forked, RuntimeError),
        (100, lockstep.WaitTimedOut, TimeoutError),
    ],
)
def test_an_error_is_what_a_python_programmer_would_catch(
    status: int, kind: type[lockstep.Error], base: type[BaseException]
) -> None:
    error = errors.error_of(status, "what happened", None)
    assert type(error) is kind
    assert isinstance(error, lockstep.Error)
    assert isinstance(error, base)
    assert error.status is lockstep.Status(status)
    assert str(error) == "what happened"
    assert error.result is None


def test_an_unknown_status_is_a_mistake_of_lockstep() -> None:
    assert type(errors.error_of(77, "?", None)) is lockstep.InternalError


def test_array_errors_are_type_errors_too() -> None:
    assert issubclass(lockstep.ArrayError, lockstep.InvalidArgument)
    assert issubclass(lockstep.ArrayError, TypeError)
    assert issubclass(errors.DeviceArray, lockstep.ArrayError)
    assert lockstep.ArrayError("text").status is lockstep.Status.INVALID_ARGUMENT


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_errors_are_documented_and_survive_pickle(kind: type[lockstep.Error]) -> None:
    assert inspect.getdoc(kind) not in (None, inspect.getdoc(errors.Error))
    assert kind.__name__ in errors.__all__
    copy = pickle.loads(pickle.dumps(kind("what happened")))
    assert type(copy) is kind
    assert str(copy) == "what happened"
    assert copy.status == kind("").status


def test_errors_are_in_the_package() -> None:
    for name in errors.__all__:
        if name != "DeviceArray":  # the package catches it itself
            assert getattr(lockstep, name) is getattr(errors, name)
            assert name in lockstep.__all__


SOURCES = Path(__file__).parents[2]


@pytest.mark.skipif(not (SOURCES / "bindings" / "c").exists(), reason="the sources are not here: an installed package")
def test_no_text_of_the_library_names_a_function_of_c() -> None:
    told = {}
    for folder in ("core", "transport", "bindings/c"):
        for source in (SOURCES / folder).rglob("*.cc"):
            for text in re.findall(r'"((?:[^"\\\n]|\\.)*lockstep_[a-z_]+\(\)(?:[^"\\\n]|\\.)*)"', source.read_text()):
                told[text] = _lockstep.in_python(text)
    assert told  # or the pattern is wrong
    for text, in_python in told.items():
        assert "lockstep_" not in in_python, (text, in_python)


def test_texts_name_what_python_has(alone: lockstep.Communicator) -> None:
    many = np.ones(64)
    cases = {
        "call connect() first": lambda: lockstep.Communicator().world,
        "tensor 0: array and out overlap; give the same pointer, or no overlap": lambda: alone.all_reduce(
            many[:8], many[4:12]
        ),
        "array is inside out": lambda: alone.all_gather(many[4:12], many),
        "silence is 300 ms and heartbeat is 500 ms (its default)": lambda: lockstep.Coordinator(silence=0.3),
    }
    for words, call in cases.items():
        with pytest.raises(lockstep.Error) as caught:
            call()
        assert words in str(caught.value), str(caught.value)
        assert not re.search(r"lockstep_|_ms\b|\b(send|recv)\b", str(caught.value)), str(caught.value)


def test_an_error_without_a_kind_is_internal() -> None:
    assert lockstep.Error("text").status is lockstep.Status.INTERNAL
    assert lockstep.Error("text").result is None
