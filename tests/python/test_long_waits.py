"""A call that waits long is explained: by `lockstep status`, and in the log of every member, whoever is missing."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import lockstep
import pytest
from processes import Child, until

pytestmark = pytest.mark.timing

PEER = """
import logging

waits = []


class Said(logging.Handler):
    def emit(self, record):
        if record.getMessage().startswith("call-waits"):
            waits.append(record)


logging.getLogger("lockstep").addHandler(Said())
name = sys.argv[2]
run = lockstep.connect(COORDINATOR, founders=3, listen_host="127.0.0.1", name=name, timeout=20)
say("in", run.id.hex())
while True:
    what, *words = asked()
    if what == "heard":
        until(lambda: waits)
        say("heard", waits[0].levelname, waits[0].getMessage())
        waits.clear()
        continue
    if what == "reduce":
        work = run.all_reduce_async(np.ones(10, np.float32), tag=int(words[0]))
    elif what == "admit":
        work = run.admit_async()
    elif what == "receive":
        work = run.recv_async(np.zeros(10, np.float32), lockstep.PeerId.fromhex(words[0]), tag=7)
    elif what == "send":
        work = run.send_async(np.ones(10, np.float32), lockstep.PeerId.fromhex(words[0]), tag=7)
    threading.Thread(target=lambda work=work: say("over", work.wait().status.name), daemon=True).start()
"""


def waits_of(address: str) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "lockstep", "status", address, "--json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["waits"]
    assert isinstance(found, list)
    return found


def explained(address: str) -> dict[str, object]:
    """The call that waits, once it does."""
    found: list[dict[str, object]] = []

    def waits() -> bool:
        found[:] = waits_of(address)
        return bool(found)

    assert until(waits)
    assert len(found) == 1
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("late", range(3))
def test_a_call_that_waits_is_explained(coordinator: lockstep.Coordinator, late: int) -> None:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Child(PEER, coordinator.address, name)) for name in "abc"]
        ids = [peer.expect("in")[1] for peer in peers]
        missing = peers[late]
        others = [peer for peer in peers if peer is not missing]
        names = [name for name in "abc" if name != "abc"[late]]

        for peer in others:
            peer.ask("reduce", 5)
        wait = explained(coordinator.address)
        assert wait["call"] == "all_reduce"
        assert wait["tag"] == 5
        assert wait["missing"] == [ids[late]]
        assert sorted(wait["come"]) == sorted(ids[:late] + ids[late + 1 :])  # type: ignore[arg-type, call-overload]
        for peer in peers:
            peer.ask("heard")
            said = peer.line()
            assert said.startswith("heard WARNING call-waits"), said
            assert f"for {'abc'[late]} (in no call); " in said, said
            assert all(name in said.partition("; ")[2] for name in names), said
        missing.ask("reduce", 5)
        for peer in peers:
            assert peer.expect("over") == ["over", "OK"]
        assert waits_of(coordinator.address) == []

        for peer in others:
            peer.ask("admit")
        wait = explained(coordinator.address)
        assert wait["call"] == "admit"
        assert wait["missing"] == [ids[late]]
        missing.ask("admit")
        for peer in peers:
            assert peer.expect("over") == ["over", "OK"]

        waiter, sender = others[0], missing
        waiter.ask("receive", ids[late])
        wait = explained(coordinator.address)
        assert wait["call"] == "recv"
        assert wait["tag"] == 7
        assert wait["missing"] == [ids[late]]
        sender.ask("send", wait["come"][0])  # type: ignore[index]
        for peer in (waiter, sender):
            assert peer.expect("over") == ["over", "OK"]
        assert until(lambda: waits_of(coordinator.address) == [])
