"""Shared state: what a State holds, what a sync makes of it, how newcomers take it over, and how differences are told."""

from __future__ import annotations

import logging
import threading
from fractions import Fraction
from typing import Any

import lockstep
import numpy as np
import pytest
from support import IN_TIME, InOrder, Meeting, Peers, at_each_rank, in_threads, says, until

Run = lockstep.Communicator
PIECE = (1 << 20) // 4  # float32 of one piece


# ---- a State by itself ----


def test_a_state_is_a_mapping_of_what_it_was_made_of() -> None:
    weights = np.zeros(3)
    state = lockstep.State({"w": weights, "step": 3, "rate": 0.5, "own": bytearray(2)}, revision=7, may_differ=["own"])
    assert state["w"] is weights
    assert (state["step"], state["rate"], state.revision) == (3, 0.5, 7)
    assert list(state) == ["w", "step", "rate", "own"]
    assert len(state) == 4
    assert "w" in state
    assert "x" not in state
    assert dict(state)["step"] == 3
    assert repr(state) == "<lockstep.State revision=7 entries=w, step, rate, own>"
    with pytest.raises(KeyError):
        state["x"]


@pytest.mark.parametrize(
    ("given", "expected", "kind"),
    [
        (3, 3, int),
        (-(2**63), -(2**63), int),
        (2**64 - 1, 2**64 - 1, int),
        (np.int32(-5), -5, int),
        (np.int64(5), 5, int),
        (np.uint8(200), 200, int),
        (np.uint64(2**64 - 1), 2**64 - 1, int),
        (0.5, 0.5, float),
        (float("inf"), float("inf"), float),
        (np.float32(0.5), 0.5, float),
        (np.float64(1e300), 1e300, float),
        (np.float16(2), 2.0, float),
        (Fraction(1, 4), 0.25, float),
    ],
)
def test_numbers_become_ints_and_floats(given: Any, expected: Any, kind: type) -> None:
    value = lockstep.State({"x": given})["x"]
    assert value == expected
    assert type(value) is kind


def test_values_are_set_by_name_and_keep_their_type() -> None:
    state = lockstep.State({"w": np.zeros(3), "step": 0, "rate": 0.5})
    state["step"] += 1
    state["step"] = np.int16(9)
    state["rate"] = 1
    assert (state["step"], state["rate"]) == (9, 1.0)
    assert type(state["rate"]) is float
    other = np.ones(3)
    state["w"] = other
    assert state["w"] is other
    for name, value, text in (
        ("step", 0.5, "state value 'step' is an int; 0.5 is none"),
        ("step", "1", "is an int"),
        ("step", True, "is an int; True is none"),
        ("rate", "fast", "is a float; 'fast' is none"),
        ("w", 3, "state entry 'w' is an array"),
    ):
        with pytest.raises(lockstep.InvalidArgument, match=text):
            state[name] = value
    with pytest.raises(KeyError, match="has the entries it was made with: w, step, rate"):
        state["more"] = 1


def test_states_that_cannot_be() -> None:
    with pytest.raises(lockstep.InvalidArgument, match="an entry named 3; allowed: str"):
        lockstep.State({3: np.zeros(1)})  # type: ignore[dict-item]
    with pytest.raises(lockstep.InvalidArgument, match="may_differ names other, step; the arrays are: w"):
        lockstep.State({"w": np.zeros(1), "step": 1}, may_differ=["w", "other", "step"])


def test_what_a_sync_cannot_take_is_named(alone: Run) -> None:
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    refusals: list[tuple[dict[str, Any], list[str]]] = [
        ({"w": np.zeros((4, 4)).T}, ["state['w']", "C-contiguous", "(4, 4)"]),
        ({"w": frozen}, ["state['w']", "read-only"]),
        ({"w": "text"}, ["state['w']: str is no array"]),
        ({"w": None}, ["state['w']: NoneType is no array"]),
        ({"w": [1.0, 2.0]}, ["state['w']: list is no array"]),
        ({"done": True}, ["state['done']: bool is no array", "numpy.array"]),
        ({"w": np.zeros(3, complex)}, ["state['w']", "complex128"]),
    ]
    for entries, parts in refusals:
        with pytest.raises(lockstep.ArrayError) as caught:
            alone.sync(lockstep.State(entries))
        says(caught.value, parts)
    refusals = [
        ({"step": 2**64}, ["state value 'step' is 18446744073709551616", "64 bits"]),
        ({"step": -(2**63) - 1}, ["state value 'step'", "64 bits"]),
        ({"": np.zeros(1)}, ["no name"]),
        ({"n" * 257: np.zeros(1)}, ["257 bytes"]),
        ({f"v{i}": i for i in range(257)}, ["values_count is 257", "256"]),
    ]
    for entries, parts in refusals:
        with pytest.raises(lockstep.InvalidArgument) as caught_too:
            alone.sync(lockstep.State(entries))
        says(caught_too.value, parts)
    for revision in (-1, 2**64):
        with pytest.raises(lockstep.InvalidArgument, match=f"revision is {revision}"):
            alone.sync(lockstep.State({"step": 1}, revision=revision))
    with pytest.raises(TypeError, match=r"state is a dict; allowed: a lockstep\.State"):
        alone.sync({"step": 1})  # type: ignore[arg-type]
    with pytest.raises(lockstep.InvalidArgument, match="strategy is 'strong'; allowed: 'popular', 'send-only'"):
        alone.sync(lockstep.State({"step": 1}), strategy="strong")  # type: ignore[arg-type]
    with pytest.raises(lockstep.InvalidArgument, match="unchanged names step, which is no array"):
        alone.sync(lockstep.State({"step": 1}), unchanged=["step"])


# ---- sync ----


def state_of(number: int, revision: int = 0, count: int = 1000) -> lockstep.State:
    return lockstep.State(
        {
            "f32": np.full(count, number, np.float32),
            "i8": np.full((2, 3), number, np.int8),
            "empty": np.zeros((0, 3)),
            "bytes": bytearray([number]),
            "step": number,
            "negative": -number,
            "seed": np.uint64(2**64 - 1 - number),
            "rate": number / 2,
        },
        revision=revision,
    )


def holds(state: lockstep.State, number: int) -> None:
    assert (state["f32"] == number).all()
    assert (state["i8"] == number).all()
    assert bytes(state["bytes"]) == bytes([number])
    values = (number, -number, 2**64 - 1 - number, number / 2)
    assert (state["step"], state["negative"], state["seed"], state["rate"]) == values


@at_each_rank(3)
@pytest.mark.parametrize("form", ["blocking", "async"])
def test_the_highest_revision_wins(peers: Peers, form: str) -> None:
    def main(run: Run, number: int) -> tuple[int, int]:
        state = state_of(number, revision=10 + number)
        arrays = [state["f32"], state["i8"]]
        result: Any = run.sync(state) if form == "blocking" else run.sync_async(state).wait(IN_TIME)
        holds(state, 2)
        assert state.revision == result.revision == 12
        assert state["f32"] is arrays[0]  # in place
        assert not result.state_undefined
        assert result.state_root > 2**64
        assert (result.bytes_received > 0) == (number != 2)
        again = run.sync(state)
        assert (again.bytes_sent, again.bytes_received, again.state_root) == (0, 0, result.state_root)
        return result.state_root, result.revision

    first, *others = peers(3, main)
    assert others == [first, first]


@at_each_rank(3)
def test_of_one_revision_the_state_that_most_hold_wins(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = state_of(7 if number else 1, revision=5)
        run.sync(state)
        holds(state, 7)

    peers(3, main)


@at_each_rank(2)
@pytest.mark.parametrize("staged", [False, True])
def test_a_newcomer_takes_over(coordinator: lockstep.Coordinator, peers: Peers, staged: bool) -> None:
    def newcomer() -> None:
        with lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1") as run:
            state = state_of(99, revision=1 if staged else 1000)  # a newcomer has no vote
            result = run.sync(state, staged=staged, blank=not staged)
            holds(state, 3)
            assert state.revision == 1
            assert result.bytes_received > 4000
            run.barrier()

    def main(run: Run, number: int) -> None:
        state = state_of(3, revision=1)
        run.sync(state)
        thread = None
        if number == 0:
            thread = threading.Thread(target=newcomer)
            thread.start()
        run.wait_for_world(3, timeout=IN_TIME)
        run.sync(state)
        holds(state, 3)
        run.barrier()
        if thread is not None:
            thread.join(IN_TIME)

    peers(2, main)


@pytest.mark.parametrize("hears", [0, 1])
@pytest.mark.parametrize("strategy", ["popular", "newest", "receive-only", "send-only"])
def test_a_newcomer_that_is_ahead(
    coordinator: lockstep.Coordinator, peers: Peers, strategy: lockstep.types.SyncStrategyName, hears: int
) -> None:
    """Its state is not overwritten in silence: it gets an error, unless its strategy says what shall be."""
    wins, stays_out = strategy in ("newest", "send-only"), strategy == "popular"

    def newcomer() -> None:
        with lockstep.connect(coordinator.address, timeout=IN_TIME, listen_host="127.0.0.1", name="ahead") as run:
            state = state_of(9, revision=9)
            if not stays_out:
                run.sync(state, strategy=strategy)
                holds(state, 9 if wins else 3)
                return
            both = r"the state of ahead .* revision 9.* revision 3"
            with pytest.raises(lockstep.StateConflict, match=both) as caught:
                run.sync(state)
            holds(state, 9)
            assert (state.revision, state.lineage) == (9, 0)
            assert not caught.value.result.state_undefined
            with pytest.raises(lockstep.NotConnected, match="revision 9"):
                run.barrier()

    def main(run: Run, number: int) -> None:
        state = state_of(3, revision=3)
        lineage = run.sync(state).lineage
        assert lineage == state.lineage != 0
        thread = threading.Thread(target=newcomer)
        if number == hears:
            thread.start()
        run.wait_for_world(3, timeout=IN_TIME)
        result = run.sync(state)
        assert (result.lineage == lineage) == (not wins)
        assert result.world_size == (2 if stays_out else 3)
        holds(state, 9 if wins else 3)
        if number == hears:
            thread.join(IN_TIME)

    peers(2, main)


@at_each_rank(2)
def test_a_lineage_goes_from_run_to_run(peers: Peers) -> None:
    """A state that grew out of another one has its lineage, wherever it goes on."""
    state = state_of(3, revision=3)

    def first(run: Run, number: int) -> int:
        mine = state if number == 0 else state_of(3, revision=3)
        return run.sync(mine).lineage

    def second(run: Run, number: int) -> tuple[int, int]:
        mine = lockstep.State(dict(state), revision=4, lineage=state.lineage) if number == 0 else state_of(5)
        run.sync(mine)
        return mine.revision, mine.lineage

    lineages = peers(2, first)
    assert lineages == [state.lineage] * 2
    assert peers(2, second) == [(4, state.lineage)] * 2
    other = peers(2, lambda run, number: run.sync(state_of(8, revision=3)).lineage)
    assert set(other) != set(lineages)


@pytest.mark.parametrize("rank", [0, 1])  # of the peer that takes over
@pytest.mark.parametrize("torn", [0, 1])
def test_a_state_that_a_lost_run_left_in_parts_does_not_vote_in_the_next(torn: int, rank: int) -> None:
    """Under the revision that it had before it would win, or tie, with bytes of two states."""
    own = [state_of(5, revision=5, count=PIECE * 8) for _ in range(2)]
    ahead = state_of(9, revision=9, count=PIECE * 8)
    options: dict[str, Any] = {"listen_host": "127.0.0.1", "spin": 0, "state_bytes_per_second": 16_000_000}
    coordinator = lockstep.Coordinator("127.0.0.1:0")
    connect = InOrder(coordinator.address, 2)
    ends: dict[int, lockstep.Error] = {}

    def takes_over(number: int) -> None:
        state = own[torn] if number == 0 else ahead
        with lockstep.Communicator(founders=2, **options) as run:
            connect(run, number ^ rank).wait()
            work = run.sync_async(state)
            if number == 0:
                until(lambda: work.progress[0] > PIECE or work.done())
                coordinator.stop()
            try:
                work.wait(IN_TIME)
            except lockstep.Error as error:
                ends[number] = error

    in_threads(takes_over, 2)
    assert ends[0].result is not None
    assert ends[0].result.state_undefined
    assert own[torn].revision == 5

    def again(number: int) -> None:
        with lockstep.Communicator(founders=2, **options) as run:
            connect_again(run, number).wait()
            run.sync(own[number])
            holds(own[number], 5)
            run.barrier()

    with lockstep.Coordinator("127.0.0.1:0") as second:
        connect_again = InOrder(second.address, 2)
        in_threads(again, 2)


@at_each_rank(2)
@pytest.mark.parametrize("form", ["blocking", "async"])
def test_pieces_land_in_the_arrays_while_a_sync_runs(peers: Peers, form: str) -> None:
    """An abort in the middle leaves a part of another state there, of which the result tells."""
    count = PIECE * 8

    def main(run: Run, number: int) -> None:
        state = state_of(9 if number else 5, revision=9 if number else 5, count=count)
        seen: list[bool] = []

        def abort() -> None:
            until(lambda: (state["f32"][:: PIECE // 4] == 9).any())
            seen.append(True)
            run.abort_all("a part is enough")

        aborts = threading.Thread(target=abort, daemon=True)
        if number == 0:
            aborts.start()
        with pytest.raises(lockstep.Aborted) as caught:
            run.sync(state) if form == "blocking" else run.sync_async(state).wait(IN_TIME)
        assert caught.value.result is not None
        assert caught.value.result.state_undefined == (number == 0)
        if number == 0:
            aborts.join(IN_TIME)
            assert seen
            assert not (state["f32"] == 9).all()

    peers(2, main, state_bytes_per_second=16_000_000)


def cut_short(work: lockstep.Work, number: int) -> lockstep.Result:
    """The result of a sync that peer 0 aborts once a part of the state has come."""
    if number == 0:
        until(lambda: work.progress[0] > PIECE or work.done())
        work.abort("a part is enough")
    with pytest.raises(lockstep.Aborted) as caught:
        work.wait(IN_TIME)
    assert caught.value.result is not None
    return caught.value.result


@at_each_rank(2)
def test_staged_pieces_land_beside_the_arrays_until_all_are_there(peers: Peers) -> None:
    count = PIECE * 8

    def main(run: Run, number: int) -> None:
        state = state_of(9 if number else 5, revision=9 if number else 5, count=count)
        result = cut_short(run.sync_async(state, staged=True), number)
        assert not result.state_undefined
        holds(state, 9 if number else 5)
        run.sync(state, staged=True)
        holds(state, 9)

    peers(2, main, state_bytes_per_second=16_000_000)


@at_each_rank(2)
@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("form", ["blocking", "async"])
def test_a_state_that_was_restored_votes_again(peers: Peers, form: str, is_new: bool) -> None:
    """After a sync that ended while it wrote, a checkpoint of peer 0 wins: in the same State or in a new one."""
    count = PIECE * 8

    def main(run: Run, number: int) -> None:
        state = state_of(9 if number else 5, revision=9 if number else 5, count=count)
        result = cut_short(run.sync_async(state), number)
        assert result.state_undefined == (number == 0)
        if number == 0:
            checkpoint = state_of(7, revision=10, count=count)
            if is_new:
                state = checkpoint
            else:
                state.revision = 10
                for name in state:
                    state[name] = checkpoint[name]
        restored = number == 0
        if form == "blocking":
            run.sync(state, restored=restored)
        else:
            run.sync_async(state, restored=restored).wait(IN_TIME)
        holds(state, 7)

    peers(2, main, state_bytes_per_second=16_000_000)


@at_each_rank(3)
def test_strategies(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = state_of(number, revision=number)
        if number == 0:
            for name in ("f32", "i8"):
                state[name].flags.writeable = False  # who only sends is never written to
        run.sync(state, strategy="send-only" if number == 0 else lockstep.SyncStrategy.RECEIVE_ONLY)
        holds(state, 0)
        assert state.revision == 0

    peers(3, main)


def test_a_repair_is_told_to_all_members(peers: Peers, caplog: pytest.LogCaptureFixture) -> None:
    """One of three that agreed before comes with another byte, then without the last step."""

    def main(run: Run, number: int) -> None:
        state = lockstep.State({"frozen": np.ones(4), "w": np.full(3 * PIECE, number, np.float32), "step": 1})
        first = run.sync(state, strategy="send-only" if number == 0 else "popular")
        assert first.state_difference == "", "the first sync founds the state"
        state.revision = 7
        if number == 2:
            state["w"][PIECE + 3] += 0.001
        result = run.sync(state)
        assert result.state_difference == (
            "state of revision 7 differed on peer 2 in 'w' (1 of 4 pieces) and was overwritten with that of "
            "peer 0, peer 1"
        )
        holds_zeros(state)
        state.revision = 8 if number != 1 else 6
        state["step"] = 3 if number != 1 else 2
        for awaits in (False, True):
            with pytest.raises(lockstep.Desync, match="state of revision 6 on peer 1 was behind") as caught:
                strictly(run, state, awaits)
            assert caught.value.result is not None
            assert caught.value.result.state_difference == str(caught.value)
            assert (state.revision, state["step"]) == (8, 3), "the state is that of the run"
            state.revision = 8 if number != 1 else 6
        state.revision = 8
        assert run.sync(state, strict=True).state_difference == ""

    def strictly(run: Run, state: lockstep.State, awaits: bool) -> None:
        if awaits:
            run.sync_async(state, strict=True).wait(IN_TIME)
        else:
            run.sync(state, strict=True)

    def holds_zeros(state: lockstep.State) -> None:
        assert not state["w"].any()

    peers(3, main, each=lambda number: {"name": f"peer {number}"})
    repaired = "revision=7: state of revision 7 differed on peer 2 in 'w'"

    def warnings() -> list[str]:
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        return [line for line in lines if line.startswith("state-repaired") and repaired in line]

    until(lambda: len(warnings()) == 3)


def test_the_first_sync_repairs_nothing(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = state_of(number, revision=number)
        for _ in range(2):  # all agree in the first
            assert run.sync(state, strict=True).state_difference == ""
            holds(state, 1)

    peers(2, main)


def test_two_that_only_send_must_agree(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        with pytest.raises(lockstep.Mismatch) as caught:
            run.sync(state_of(number), strategy="send-only")
        assert caught.value.result is not None
        assert not caught.value.result.state_undefined

    peers(2, main)


def test_nobody_has_a_state(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = state_of(number)
        with pytest.raises(lockstep.StateUndefined):
            run.sync(state, strategy="receive-only")
        with pytest.raises(lockstep.StateUndefined):
            run.sync(state, blank=True)
        holds(state, number)
        run.sync(state, restored=True)

    peers(2, main)


def test_arrays_that_may_differ_stay(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        own = np.full(3, float(number))
        own.flags.writeable = False  # is never written to
        state = lockstep.State({"w": np.full(3, number), "own": own}, revision=number, may_differ=["own"])
        run.sync(state)
        assert (state["w"] == 1).all()
        assert (state["own"] == number).all()

    peers(2, main)


def test_unchanged_arrays_are_not_hashed_again(peers: Peers) -> None:
    """What changes all the same is not seen: that is how a test can tell."""

    def main(run: Run, number: int) -> None:
        state = lockstep.State({"frozen": np.ones(10), "w": np.ones(10)})
        root = run.sync(state).state_root
        state["frozen"][0] = 5 + number
        assert run.sync(state, unchanged=["frozen"]).state_root == root
        assert state["frozen"][0] == 5 + number
        state.revision = 1
        assert run.sync(state).state_root != root

    peers(2, main)


@at_each_rank(2)
def test_layouts_that_differ_are_named(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        layouts: list[tuple[dict[str, Any], dict[str, Any]]] = [
            ({"w": np.ones(3)}, {"w": np.ones(4)}),
            ({"w": np.ones(3)}, {"w": np.ones(3, np.float32)}),
            ({"w": np.ones(3)}, {"v": np.ones(3)}),
            ({"x": 1}, {"x": 1.0}),
            ({"x": 1}, {"x": 2**63}),
        ]
        for layout in layouts:
            with pytest.raises(lockstep.Mismatch, match="in tag 0") as caught:
                run.sync(lockstep.State(layout[number]))
            assert caught.value.result is not None
            assert not caught.value.result.state_undefined
        run.sync(lockstep.State({"seed": np.uint64(1) if number else 2**63}))  # unsigned, both of them

    peers(2, main)


@at_each_rank(2)
def test_a_state_that_is_large_comes_in_pieces(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = lockstep.State({"w": np.zeros(8 * PIECE, np.float32)}, revision=1)
        if number == 0:
            state["w"][5 * PIECE] = 1
            state.revision = 2
        work = run.sync_async(state)
        result = work.wait(IN_TIME)
        assert state["w"][5 * PIECE] == 1
        assert result.bytes_received == (0 if number == 0 else 4 * PIECE)
        done, of = work.progress
        assert done == of == result.bytes_received

    peers(2, main)


def test_a_state_changes_when_its_sync_is_seen_to_be_over(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = lockstep.State({"step": number}, revision=number)
        work = run.sync_async(state)
        run.barrier(tag=1)
        until(work.done)
        assert (state["step"], state.revision) == (1, 1)
        state["step"] = 7
        work.wait(IN_TIME)
        assert state["step"] == 7  # not again

    peers(2, main)


def test_a_sync_that_fails_leaves_the_values(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = state_of(number, revision=number)
        with pytest.raises(lockstep.BelowMinimum):
            run.sync(state, minimum_world=3)
        work = run.sync_async(state, minimum_world=3, staged=True)
        with pytest.raises(lockstep.BelowMinimum):
            work.wait(IN_TIME)
        holds(state, number)
        assert state.revision == number

    peers(2, main)


def test_states_of_several_tags(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        states = [state_of(number, revision=3 * tag + number) for tag in range(4)]
        works = [run.sync_async(state, tag=tag) for tag, state in enumerate(states)]
        for work, state in zip(works, states):
            work.wait(IN_TIME)
            holds(state, 1)

    peers(2, main)


# ---- publish and prefetch ----


@at_each_rank(2)
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("form", ["blocking", "async"])
def test_a_newcomer_fetches_while_it_waits(
    coordinator: lockstep.Coordinator, peers: Peers, stable: bool, form: str
) -> None:
    fetched = Meeting(3)
    failures: list[BaseException] = []

    def newcomer() -> None:
        run = lockstep.Communicator(listen_host="127.0.0.1")
        with run:
            connecting = run.connect_async(coordinator.address, timeout=IN_TIME)
            state = lockstep.State({"w": np.zeros(4 * PIECE, np.float32), "step": 0})
            if form == "blocking":
                result = run.prefetch(state, blank=True, tag=9, timeout=IN_TIME)
            else:
                result = run.prefetch_async(state, tag=9, timeout=IN_TIME).wait(IN_TIME)
            assert (result.revision, state.revision, state["step"]) == (4, 4, 4)
            assert not result.state_undefined
            assert result.bytes_received == 16 * PIECE
            assert (state["w"] == 4).all()
            assert not connecting.done()
            fetched()
            connecting.wait(IN_TIME)
            result = run.sync(state, tag=9)
            assert (state.revision, state["w"][-1]) == (5, -1)
            assert result.bytes_received == 4 * PIECE  # the piece that has changed since

    def guarded() -> None:
        try:
            newcomer()
        except BaseException as error:
            failures.append(error)
            raise

    def main(run: Run, number: int) -> None:
        state = lockstep.State({"w": np.full(4 * PIECE, 4, np.float32), "step": 4}, revision=4)
        thread = threading.Thread(target=guarded)
        if number == 0:
            thread.start()
        until(lambda: run.fetching == 1)
        run.barrier(tag=8, timeout=IN_TIME)  # all have seen it: with the first publication the fetch may be over
        publication = None
        if form == "blocking":
            run.publish(state, stable=stable, tag=9)
        else:
            publication = run.publish_async(state, stable=stable, tag=9)
        if not stable:
            state["w"][-1] = -1  # a copy was made
        fetched()
        if publication is not None:
            assert not publication.done()
            publication.abort("it was fetched")
            publication.wait(IN_TIME)
        run.unpublish(tag=9)
        state["w"][-1] = -1
        state["step"] = state.revision = 5
        run.wait_for_world(3, timeout=IN_TIME)
        assert run.fetching == 0
        assert run.sync(state, tag=9).revision == 5
        if number == 0:
            thread.join(IN_TIME)

    peers(2, main)
    assert not failures


@pytest.mark.parametrize("form", ["blocking", "async"])
def test_a_blank_state_takes_an_older_revision(alone: Run, coordinator: lockstep.Coordinator, form: str) -> None:
    alone.publish(lockstep.State({"w": np.full(4, 4.0), "step": 4}, revision=4), tag=9)
    with lockstep.Communicator(listen_host="127.0.0.1") as run:
        joining = run.connect_async(coordinator.address, timeout=IN_TIME)
        state = lockstep.State({"w": np.zeros(4), "step": 9}, revision=9)
        if form == "blocking":
            run.prefetch(state, blank=True, tag=9, timeout=IN_TIME)
        else:
            run.prefetch_async(state, blank=True, tag=9, timeout=IN_TIME).wait(IN_TIME)
        assert (state.revision, state["step"], state["w"].tolist()) == (4, 4, [4.0] * 4)
        alone.wait_for_world(2, timeout=IN_TIME)
        joining.wait(IN_TIME)


def test_a_peer_that_connects_with_a_state_holds_what_is_published(
    alone: Run, coordinator: lockstep.Coordinator
) -> None:
    state = lockstep.State({"w": np.zeros(4), "step": 0})
    options: dict[str, Any] = {"listen_host": "127.0.0.1", "timeout": IN_TIME}

    def newcomer() -> None:
        with lockstep.connect(coordinator.address, state=state, tag=9, **options):
            assert (state.revision, state["step"], state["w"].tolist()) == (4, 4, [4.0] * 4)
            joined.append(True)

    joined: list[bool] = []
    thread = threading.Thread(target=newcomer, daemon=True)
    thread.start()
    alone.publish(lockstep.State({"w": np.full(4, 4.0), "step": 4}, revision=4), tag=9)
    until(lambda: alone.holding == 1)
    alone.wait_for_world(2, timeout=IN_TIME)
    thread.join(IN_TIME)
    assert joined


def test_publishing_is_for_members(coordinator: lockstep.Coordinator) -> None:
    with lockstep.Communicator(listen_host="127.0.0.1") as run:
        for begin in (run.publish, run.prefetch):
            with pytest.raises(lockstep.NotConnected):
                begin(lockstep.State({"step": 1}))
        run.unpublish()  # nothing was


def test_a_peer_publishes_sixteen_states(alone: Run) -> None:
    for tag in range(15):
        alone.publish(lockstep.State({"step": tag}), tag=tag, timeout=IN_TIME)
    alone.publish(lockstep.State({"step": 99}), tag=3)  # in the place of the former
    alone.publish(lockstep.State({"step": 15}), tag=15)
    with pytest.raises(lockstep.TooManyInFlight, match="16 states"):
        alone.publish(lockstep.State({"step": 16}), tag=16)
    alone.unpublish(3)
    alone.publish(lockstep.State({"step": 16}), tag=16)
    frozen = np.ones(3)
    frozen.flags.writeable = False
    alone.unpublish(5)
    alone.publish(lockstep.State({"w": frozen}), tag=5)  # is only read


# ---- watch ----


@at_each_rank(3)
def test_a_watched_state_tells_who_differs_and_where(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        own = np.full(4, float(number))
        state = lockstep.State({"own": own, "w": np.zeros(2 * PIECE, np.float32), "step": 4}, may_differ=["own"])

        def step() -> str:
            return str(run.all_reduce(np.ones(10), tag=1).state_difference)

        assert step() == ""
        run.watch(state)
        assert step() == ""
        if number == 2:
            state["w"][PIECE + 3] = 1
        says(
            step(),
            ["the state of peer 2 differs from that of peer", "2 of 3", "in tag 1", f"tensor 1 (w f32 [{2 * PIECE}])"],
        )
        state.revision = 0
        run.sync(state)
        assert step() == ""
        if number == 1:
            state["step"] = 5
        assert step() == ""  # values are read by watch()
        run.watch(state)
        says(step(), ["peer 1 differs", "value 0 (step int)"])
        run.watch(None)
        assert step() == ""

    peers(3, main, each=lambda number: {"name": f"peer {number}"})


def test_a_watched_state_is_not_reduced_into(alone: Run) -> None:
    weights = np.ones(10)
    alone.watch(lockstep.State({"w": weights}))
    with pytest.raises(lockstep.InvalidArgument, match="would write to the watched state"):
        alone.all_reduce(weights[3:5])
    alone.watch(None)
    alone.all_reduce(weights)


def test_unchanged_arrays_of_a_watched_state_are_hashed_once(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = lockstep.State({"w": np.ones(10)})
        run.watch(state, unchanged=["w"])
        assert run.barrier().state_difference == ""
        state["w"][0] = number  # against what was said
        assert run.barrier().state_difference == ""
        run.watch(state)
        assert "differs" in run.barrier().state_difference

    peers(2, main)
