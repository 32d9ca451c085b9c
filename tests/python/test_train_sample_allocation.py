"""Who takes which samples: laws, with many simulated memberships, without a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
hypothesis: Any = pytest.importorskip("hypothesis", reason="hypothesis is not installed")

from hypothesis import strategies as st  # noqa: E402
from lockstep.train.sample_allocation import SampleAllocation, positions_in, shuffled  # noqa: E402

SETTINGS = hypothesis.settings(deadline=None, max_examples=300, database=None, derandomize=True)


def peer(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Swarm:
    """Members with a copy each of the allocation, which only agreed events change; and what became of each position."""

    def __init__(self, count: int) -> None:
        self.copies = {peer(number): SampleAllocation() for number in range(count)}
        self.born = count
        self.used: list[int] = []
        self.in_flight: list[dict[bytes, list[int]]] = []  # rounds that are drawn

    @property
    def members(self) -> list[bytes]:
        return list(self.copies)

    def join(self, count: int) -> None:
        """Newcomers take over the array of a member."""
        saved = self.copies[self.members[0]].save()
        for _ in range(count):
            newcomer = SampleAllocation()
            newcomer.load(saved)
            self.copies[peer(self.born)] = newcomer
            self.born += 1

    def lose(self, places: Sequence[int]) -> None:
        for member in {self.members[place % len(self.copies)] for place in places}:
            if len(self.copies) > 1:
                del self.copies[member]

    def each(self) -> list[SampleAllocation]:
        return list(self.copies.values())

    def draw(self, members: Sequence[bytes], count: int) -> dict[bytes, list[int]]:
        for copy in self.each():
            copy.allocate(members, count)
        first = self.each()[0]
        return {one: positions_in(first.slice_of(one), 0, 1 << 40).tolist() for one in members}

    def commit(self, drawn: dict[bytes, list[int]], contributors: Sequence[bytes]) -> None:
        for copy in self.each():
            copy.settle(contributors)
        for one in contributors:
            self.used += drawn.get(one, [])

    def check(self) -> None:
        """Nothing twice, nothing lost, and all members agree."""
        first = self.each()[0]
        saved = first.save()
        assert all((copy.save() == saved).all() for copy in self.each())
        free = [position for begin, end in first.free_of() for position in range(begin, end)]
        assert sorted(self.used + free) == list(range(first.cursor))
        assert first.used == len(self.used)


EVENTS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 9), max_size=3),  # lost before their contribution
        st.lists(st.integers(0, 9), max_size=2),  # lost after it
        st.integers(0, 3),  # newcomers after the round
        st.integers(0, 1),  # newcomers in mid-round
    ),
    max_size=12,
)


@SETTINGS
@hypothesis.given(founders=st.integers(1, 5), count=st.integers(1, 7), events=EVENTS)
def test_nothing_twice_and_nothing_lost(founders: int, count: int, events: list[Any]) -> None:
    swarm = Swarm(founders)
    for lost_before, lost_after, newcomers, late in events:
        drawn = swarm.draw(swarm.members, count)
        swarm.join(late)  # too few members were left, and the round goes on with them
        drawn = swarm.draw([*swarm.members[::-1]], count)
        swarm.lose(lost_before)
        contributors = swarm.members
        dead_contributor = [peer(1 << 20)] if lost_after else []  # is no member, and has no slice
        swarm.commit(drawn, [*contributors, *dead_contributor])
        swarm.lose(lost_after)
        swarm.join(newcomers)
        swarm.check()


@SETTINGS
@hypothesis.given(founders=st.integers(1, 5), count=st.integers(1, 7), events=EVENTS)
def test_a_round_may_be_in_flight(founders: int, count: int, events: list[Any]) -> None:
    """Its contributions come through during the next round, in which a member of it may be lost."""
    swarm = Swarm(founders)
    flying: dict[bytes, list[int]] | None = None
    for lost_before, lost_after, newcomers, _ in events:
        drawn = swarm.draw(swarm.members, count)
        swarm.lose(lost_before)
        if flying is not None:
            swarm.commit(flying, swarm.members)
        for copy in swarm.each():
            copy.end_round()
        flying = drawn
        swarm.join(newcomers)
        swarm.lose(lost_after)
        swarm.check()


@SETTINGS
@hypothesis.given(founders=st.integers(2, 4), count=st.integers(1, 7), flies=st.booleans(), lost=st.integers(0, 3))
def test_a_checkpoint_has_every_position_that_is_not_used(founders: int, count: int, flies: bool, lost: int) -> None:
    swarm = Swarm(founders)
    for _ in range(2):
        swarm.commit(swarm.draw(swarm.members, count), swarm.members[: founders - lost % founders])
    drawn = swarm.draw(swarm.members, count)
    if flies:
        for copy in swarm.each():
            copy.end_round()
        swarm.draw(swarm.members, count)
    first = swarm.each()[0]
    again = SampleAllocation()
    again.begin_at(first.cursor, first.free_of())
    again.allocate([peer(7)], 1000)
    rest = positions_in(again.slice_of(peer(7)), 0, 1000).tolist()
    assert set(drawn[peer(0)]) <= set(rest)
    assert sorted(swarm.used + rest) == list(range(len(swarm.used) + 1000))


def test_what_does_not_fit_is_left_out() -> None:
    stream = SampleAllocation()
    stream.begin_at(10_000, [(at, at + 1) for at in range(0, 10_000, 2)])
    stream.allocate([peer(1)], 3)
    again = SampleAllocation()
    again.load(stream.save())
    assert again.slice_of(peer(1)) == stream.slice_of(peer(1)) == [(0, 1), (2, 3), (4, 5)]
    assert len(again.free_of()) == 2047
    assert (again.save() == stream.save()).all()


@pytest.mark.parametrize("length", [1, 2, 3, 7, 255, 256, 257, 1000, 4097])
def test_each_epoch_is_a_permutation_of_its_own(length: int) -> None:
    places = np.arange(length)
    epochs = [shuffled(places, length, 5, epoch) for epoch in range(3)]
    for order in epochs:
        assert sorted(order.tolist()) == places.tolist()
    if length > 6:
        assert len({order.tobytes() for order in [*epochs, shuffled(places, length, 6, 0), places]}) == 5


def test_the_permutations_are_the_same_everywhere() -> None:
    assert shuffled(np.arange(10), 10, 0, 0).tolist() == [5, 8, 6, 2, 4, 7, 3, 0, 1, 9]
    assert shuffled(np.arange(1 << 40, (1 << 40) + 2), (1 << 40) + 5, 3, 9).tolist() == [1037076641343, 10136595373]


def test_a_shuffle_spreads_evenly() -> None:
    """The first tenth of an epoch comes from all parts of the data alike (four standard deviations)."""
    first = shuffled(np.arange(10_000), 100_000, 1, 2)
    counts = np.bincount(first // 10_000, minlength=10)
    assert (abs(counts - 1000) < 4 * (1000 * 0.9 * 0.9) ** 0.5).all()
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.04
