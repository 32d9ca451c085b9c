"""Enums, their names and numbers against those of the library; peer ids."""

from __future__ import annotations

import copy
import enum
import pickle
from typing import Any, get_args

import lockstep
import numpy as np
import pytest
from lockstep import _lockstep, types
from support import Peers


@pytest.mark.parametrize(
    ("kind", "key", "numbers", "names"),
    [
        (types.Op, "ops", types.OPS, types.OpName),
        (types.WireFormat, "wire_formats", types.WIRE_FORMATS, types.WireFormatName),
        (types.Algorithm, "algorithms", types.ALGORITHMS, types.AlgorithmName),
    ],
)
def test_names_are_those_of_the_library(kind: type[enum.Enum], key: str, numbers: Any, names: Any) -> None:
    known = _lockstep.constants()[key]
    assert [member.value for member in kind] == known
    assert [numbers[name] for name in known] == list(range(len(known)))
    assert list(get_args(names)) == known
    assert [member.name.lower().replace("_", "-") for member in kind] == known


def test_strategies() -> None:
    assert [member.value for member in lockstep.SyncStrategy] == ["popular", "send-only", "receive-only", "newest"]
    assert list(types.STRATEGIES.values()) == [0, 1, 2, 3]
    assert list(get_args(types.SyncStrategyName)) == list(types.STRATEGIES)


@pytest.mark.parametrize("kind", [types.Op, types.WireFormat, types.Algorithm, types.SyncStrategy])
def test_members_and_names_are_the_same_to_a_call(kind: type[enum.Enum]) -> None:
    numbers = {member.value: number for number, member in enumerate(kind)}
    for member in kind:
        assert member == member.value
        assert types.number_of(numbers, member, "x") == types.number_of(numbers, member.value, "x")
        assert kind(member.value) is member
        assert pickle.loads(pickle.dumps(member)) is member


@pytest.mark.parametrize("wrong", ["mean", "SUM", "", None, 1, ["sum"], {}, lockstep.SyncStrategy.POPULAR])
def test_other_values_are_refused_with_those_allowed(wrong: Any) -> None:
    with pytest.raises(lockstep.InvalidArgument) as caught:
        types.number_of(types.OPS, wrong, "op")
    assert str(caught.value) == f"op is {wrong!r}; allowed: 'sum', 'avg', 'prod', 'min', 'max', 'band', 'bor', 'bxor'"


def test_data_types_have_their_sizes() -> None:
    constants = _lockstep.constants()
    assert constants["data_types"][-3:] == ["f32", "f64", "bool"]
    assert constants["data_type_sizes"] == [1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8, 1]


def test_peer_ids_are_bytes_with_a_text() -> None:
    peer = lockstep.PeerId(range(16))
    assert str(peer) == "000102030405060708090a0b0c0d0e0f"
    assert repr(peer) == f"PeerId({str(peer)[:8]})"
    assert f"{peer}" == str(peer)
    assert peer == bytes(range(16))
    assert {peer: 1}[lockstep.PeerId(range(16))] == 1
    assert pickle.loads(pickle.dumps(peer)) == peer


def test_a_run_speaks_of_peers_as_its_log_does(alone: lockstep.Communicator) -> None:
    assert isinstance(alone.id, lockstep.PeerId)
    assert len(str(alone.id)) == 32
    assert int(str(alone.id), 16) != 0


def test_the_world_is_a_value(alone: lockstep.Communicator) -> None:
    world = alone.world
    assert world == alone.world
    assert pickle.loads(pickle.dumps(world)) == world


def test_results_can_be_pickled_and_copied(peers: Peers) -> None:
    def main(run: lockstep.Communicator, number: int) -> list[lockstep.Result]:
        results = [
            run.all_reduce(np.ones(3), op="avg", tag=7),
            run.all_gather(np.full(3, 5.0 + number)),
            run.sync(lockstep.State({"x": np.ones(2)})),
            run.reduce_scatter(np.ones(5)),
        ]
        with pytest.raises(lockstep.InvalidArgument) as refused:
            run.all_reduce(np.array([float("nan")], np.float32), up="int8")
        assert refused.value.result is not None
        return [*results, refused.value.result]

    for results in peers(2, main):
        for result in results:
            for again in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
                names = [name for name in dir(lockstep.Result) if not name.startswith("_")]
                assert {"contributors", "blocks", "hash", "output", "chunk", "state_root", "status"} <= set(names)
                for name in names:
                    kept, was = getattr(again, name), getattr(result, name)
                    assert np.array_equal(kept, was) if isinstance(was, np.ndarray) else kept == was, name
                assert repr(again) == repr(result)


def test_errors_with_a_result_can_be_pickled(alone: lockstep.Communicator) -> None:
    with pytest.raises(lockstep.BelowMinimum) as caught:
        alone.all_reduce(np.ones(3), minimum_world=2)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.result is not None
    assert again.result.status is lockstep.Status.BELOW_MINIMUM


def test_a_result_of_another_version_is_read_as_far_as_it_goes() -> None:
    state = _lockstep.Result.__new__(_lockstep.Result)
    state.__setstate__((b"\x10" + bytes(15), (), (), "", None))  # its first fields
    assert state.contributors == ()


def test_stages_equal_the_texts_that_programs_compare() -> None:
    assert [str(stage.value) for stage in lockstep.Stage] == ["new", "reaching", "waiting", "member", "leaving", "over"]
    with lockstep.Communicator(founders=1, listen_host="127.0.0.1") as run:
        assert run.stage == "new"
        assert run.stage is lockstep.Stage.NEW
