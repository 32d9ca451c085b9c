"""send() and recv(): bytes go from one member to another, tags match in any order, and nobody else is touched."""

from __future__ import annotations

from typing import Any

import lockstep
import numpy as np
import pytest
from support import IN_TIME, Meeting, Peers, at_each_rank, says

Run = lockstep.Communicator


def other_than(run: Run) -> lockstep.PeerId:
    """The other member of a run of two."""
    (other,) = [member for member in run.members() if member != run.id]
    return other


@at_each_rank(2)
@pytest.mark.parametrize("dtype", ["u1", "i4", "i8", "f2", "f4", "f8", "?"])
@pytest.mark.parametrize("count", [0, 1, 1000, 300_000])
def test_an_array_arrives(peers: Peers, dtype: str, count: int) -> None:
    sent = (np.arange(count) % 97).astype(dtype)

    def peer(run: Run, number: int) -> None:
        if number == 0:
            result = run.send(sent, other_than(run), tag=3, timeout=IN_TIME)
        else:
            room = np.zeros_like(sent)
            result = run.recv(room, other_than(run), tag=3, timeout=IN_TIME)
            assert result.output is room
            assert room.tobytes() == sent.tobytes()
        assert result.partner == other_than(run)
        assert result.count == count
        assert result.tag == 3

    peers(2, peer)


def test_tags_match_in_any_order(peers: Peers) -> None:
    tags = 64

    def peer(run: Run, number: int) -> None:
        random = np.random.default_rng(number)
        rooms = {int(tag): np.zeros(7) for tag in random.permutation(tags)}
        works = [run.recv_async(room, other_than(run), tag=tag, timeout=IN_TIME) for tag, room in rooms.items()]
        works += [
            run.send_async(np.full(7, 100.0 * number + tag), other_than(run), tag=int(tag), timeout=IN_TIME)
            for tag in random.permutation(tags)
        ]
        for work in works:
            work.wait()
        assert all((room == 100.0 * (1 - number) + tag).all() for tag, room in rooms.items())

    peers(2, peer)


@at_each_rank(2)
def test_sends_with_one_tag_keep_their_order(peers: Peers) -> None:
    def peer(run: Run, number: int) -> None:
        if number == 0:
            works = [run.send_async(np.array([i]), other_than(run), timeout=IN_TIME) for i in range(200)]
            for work in works:
                work.wait()
        else:
            room = np.zeros(1, np.int64)
            for i in range(200):
                run.recv(room, other_than(run), timeout=IN_TIME)
                assert room[0] == i

    peers(2, peer)


@pytest.mark.parametrize("rank", range(4))
def test_from_any_member(peers: Peers, rank: int) -> None:
    def peer(run: Run, number: int) -> None:
        first = run.members()[rank]
        if run.id != first:
            run.send(np.frombuffer(run.id, np.uint8), first, tag=9, timeout=IN_TIME)
            return
        seen = set()
        for _ in range(3):
            room = np.zeros(16, np.uint8)
            partner = run.recv(room, tag=9, timeout=IN_TIME).partner
            assert partner == room.tobytes()
            seen.add(partner)
        assert seen == set(run.members()) - {first}

    peers(4, peer)


@at_each_rank(2)
def test_what_differs_is_named(peers: Peers) -> None:
    meeting = Meeting(2)
    texts: list[Any] = [None, None]

    def peer(run: Run, number: int) -> None:
        array = np.zeros(100_000 - number, np.float32)
        transfer = run.send if number == 0 else run.recv
        with pytest.raises(lockstep.Mismatch) as caught:
            transfer(array, other_than(run), tag=1, timeout=IN_TIME)
        texts[number] = caught.value
        meeting()

    peers(2, peer)
    for text in texts:
        says(text, ["100000", "99999"])


def test_what_cannot_be_sent_is_refused(peers: Peers) -> None:
    def peer(run: Run, number: int) -> None:
        with pytest.raises(lockstep.InvalidArgument, match="peer id"):
            run.send(np.zeros(1), "rank 1")  # type: ignore[arg-type]
        with pytest.raises(lockstep.InvalidArgument):
            run.send(np.zeros(1), run.id, timeout=IN_TIME)
        with pytest.raises(lockstep.InvalidArgument):
            run.recv(np.zeros(1), lockstep.PeerId(bytes(range(16))), timeout=IN_TIME)
        with pytest.raises((TypeError, lockstep.InvalidArgument)):
            run.recv([1, 2], timeout=IN_TIME)  # type: ignore[arg-type]

    peers(2, peer)


@pytest.mark.parametrize("rank", range(3))
def test_a_lost_partner_ends_its_transfers_and_no_other(peers: Peers, rank: int) -> None:
    meeting = Meeting(3)

    def peer(run: Run, number: int) -> None:
        run.barrier(timeout=IN_TIME)
        members = run.members()
        members.append(members.pop(rank))
        place = members.index(run.id)
        if place == 2:
            meeting()
            run.close()
            return
        partner = members[1 - place]
        lost = run.recv_async(np.zeros(5), members[2], tag=1, timeout=IN_TIME)
        goes_on = run.recv_async(np.zeros(5), partner, tag=2, timeout=IN_TIME)
        meeting()
        with pytest.raises(lockstep.PeerLost):
            lost.wait()
        run.send(np.ones(5), partner, tag=2, timeout=IN_TIME)
        goes_on.wait()

    peers(3, peer)


@at_each_rank(2)
def test_a_call_that_times_out_takes_nothing(peers: Peers) -> None:
    meeting = Meeting(2)

    def peer(run: Run, number: int) -> None:
        room = np.zeros(3)
        if number == 0:
            with pytest.raises(lockstep.TimedOut):
                run.recv(room, other_than(run), tag=1, timeout=0.05)
            meeting()
            run.recv(room, other_than(run), tag=1, timeout=IN_TIME)
            assert room.tolist() == [1, 1, 1]
        else:
            meeting()
            run.send(np.ones(3), other_than(run), tag=1, timeout=IN_TIME)

    peers(2, peer)


@at_each_rank(2)
def test_who_leaves_delivers_first(peers: Peers) -> None:
    meeting = Meeting(2)
    sizes = (10, 10_000, 1_000_000)

    def peer(run: Run, number: int) -> None:
        partner = other_than(run)
        if number == 0:
            works = [run.send_async(np.full(size, 7.0), partner, tag=size, timeout=IN_TIME) for size in sizes]
            meeting()
            run.leave(timeout=IN_TIME)
            assert all(work.done() for work in works)
        else:
            meeting()
            for size in sizes:
                room = np.zeros(size)
                run.recv(room, partner, tag=size, timeout=IN_TIME)
                assert (room == 7).all()

    peers(2, peer)
