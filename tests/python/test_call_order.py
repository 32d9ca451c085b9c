"""Peers launch the same calls in different orders, more of them than can be in flight, and wait for one first."""

from __future__ import annotations

import contextlib

import lockstep
import pytest
from processes import Child

PEER = """
rank, world, calls, elements = int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
run = lockstep.connect(COORDINATOR, founders=world, listen_host="127.0.0.1", timeout=20)
first = run.members().index(run.id) == rank
arrays = [np.full(elements, tag, np.float32) for tag in range(calls)]
say("in", run.rank)
asked()
if first:
    run.all_reduce(arrays[-1], tag=calls - 1, timeout=15)
    say("first")
    works = [run.all_reduce_async(arrays[tag], tag=tag, timeout=15) for tag in range(calls - 1)]
else:
    works = [run.all_reduce_async(arrays[tag], tag=tag, timeout=15) for tag in range(calls)]
for work in works:
    work.wait()
assert all((arrays[tag] == world * tag).all() for tag in range(calls))
say("done")
run.leave()
"""


@pytest.mark.parametrize(("world", "rank"), [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)])
@pytest.mark.parametrize("elements", [10, 30_000])
def test_the_last_of_many_calls_is_waited_for_first(
    coordinator: lockstep.Coordinator, world: int, rank: int, elements: int
) -> None:
    with contextlib.ExitStack() as stack:
        words = (str(rank), str(world), "300", str(elements))
        peers = [stack.enter_context(Child(PEER, coordinator.address, *words)) for _ in range(world)]
        ranks = [int(peer.expect("in")[1]) for peer in peers]
        for peer in peers:
            peer.ask("go")
        peers[ranks.index(rank)].expect("first", within=10)
        for peer in peers:
            peer.expect("done")
