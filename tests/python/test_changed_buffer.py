"""A program that writes to an array of a call in flight: every peer learns whose array it was, and nobody is lost."""

from __future__ import annotations

import contextlib

import lockstep
import pytest
from processes import LIMIT, Child

PEER = """
number, writer, call, elements = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
run = lockstep.connect(COORDINATOR, founders=3, listen_host="127.0.0.1", name="peer-%d" % number, timeout=20)
array, other = np.zeros(elements, np.float32), np.zeros(elements, np.float32)


def begin(call):
    array[:] = number
    if call == "in place":
        return run.all_reduce_async(array)
    if call == "out":
        return run.all_reduce_async(array, out=other)
    if call == "bf16":
        return run.all_reduce_async(array, up="bf16")
    if call == "broadcast":
        return run.broadcast_async(array, root=min(run.members()))
    if call == "all_gather":
        return run.all_gather_async(array, np.zeros(3 * elements, np.float32))
    if call == "all_to_all":
        return run.all_to_all_async(array)
    if call == "sync":
        return run.sync_async(lockstep.State({"array": array}))
    if call == "send":
        mine = run.members().index(run.id)
        if mine == 2:
            return run.barrier_async(tag=9)
        begun = run.send_async(array, run.members()[1]) if mine == 0 else run.recv_async(array, run.members()[0])
        run.barrier_async(tag=9)
        return begun


for step in range(6):
    work = begin(call)
    while number == writer and not work.done():
        array += 1
        if call == "out":
            other += 1
    try:
        work.wait()
        say("ok")
    except lockstep.Error as error:
        say(type(error).__name__, str(error))
    run.barrier(tag=1)
    correct = run.all_reduce(np.full(9, number + 1, np.float32), tag=2)
    assert correct.world_size == 3
say("over", run.world_size)
run.barrier(tag=3)
run.leave()
"""

# A call that nobody has written to, or one that depends on no byte that was written in time, succeeds.
CALLS = {
    "in place": 12 << 18,
    "out": 12 << 18,
    "bf16": 12 << 18,
    "broadcast": 12 << 18,
    "all_gather": 12 << 16,
    "all_to_all": 12 << 18,
    "sync": 12 << 18,
    "send": 12 << 18,
    "small": 1000,
}


@pytest.mark.parametrize("writer", [0, 1, 2])
@pytest.mark.parametrize("call", CALLS)
def test_the_peer_whose_array_changed_is_named(call: str, writer: int, coordinator: lockstep.Coordinator) -> None:
    kind = "in place" if call == "small" else call
    with contextlib.ExitStack() as stack:
        peers = [
            stack.enter_context(Child(PEER, coordinator.address, str(n), str(writer), kind, str(CALLS[call])))
            for n in range(3)
        ]
        for _ in range(6):
            for peer in peers:
                said = peer.line(2 * LIMIT)
                if said == "ok":
                    continue
                kind_of_error = said.split()[0]
                assert kind_of_error in ("InvalidArgument", "InternalError", "Aborted"), said
                named = {number for number in range(3) if f"peer-{number}" in said}
                if kind_of_error == "InvalidArgument":
                    assert "changed during the" in said
                    assert f"InvalidArgument peer-{writer}: " in said or f"send of peer-{writer}: " in said, said
                else:
                    assert "wrote to" in said, said
                    assert writer in named or peer is peers[writer], said
        for peer in peers:
            assert peer.line() == "over 3"
