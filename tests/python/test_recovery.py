"""The coordinator is killed and started again, and its peers come back in any order, some of them fresh: no revision of
a state goes back without an error."""

from __future__ import annotations

import contextlib
import random

import pytest
from processes import Child, coordinator_process

pytestmark = pytest.mark.timing

# Keeps its state from run to run, until it is told to forget it, as a process that was started anew has none.
PEER = """
number = int(sys.argv[2])


def fresh():
    return lockstep.State({"weights": np.zeros(1000, np.float32), "step": 0})


def synced(strategy):
    before = state.revision
    try:
        result = run.sync(state, strategy=strategy)
    except lockstep.StateConflict as error:
        assert (state["weights"] == before).all() and state["step"] == before, "overwritten"
        say("conflict", before, state.revision, state.lineage, error)
        return
    assert result.lineage == state.lineage and result.revision == state.revision
    assert (state["weights"] == state.revision).all() and state["step"] == state.revision
    say("ok", before, state.revision, state.lineage)


state, run = fresh(), None
while True:
    what, *words = asked()
    if what == "forget":
        state = fresh()
    elif what == "join":
        founders = int(words[1])
        name = "peer-%d" % number
        run = lockstep.connect(words[0], founders=founders, listen_host="127.0.0.1", name=name, timeout=20)
        synced(words[2])
    elif what == "admit":
        run.wait_for_world(int(words[0]), timeout=20)
        synced(words[1])
    elif what == "train":
        for _ in range(int(words[0])):
            gradient = np.ones(1000, np.float32)
            run.all_reduce(gradient, op="avg")
            state["weights"] += gradient
            state["step"] += 1
            state.revision += 1
        say("trained", state.revision)
    elif what == "lose":
        try:
            while True:  # a member that is alone needs no coordinator until it notices that there is none
                run.barrier(tag=1, timeout=20)
        except lockstep.Error as error:
            say("lost", type(error).__name__)
        run.close()
"""


class Swarm:
    """Four processes, and what they hold."""

    def __init__(self, peers: list[Child], dice: random.Random) -> None:
        self.peers, self.dice = peers, dice
        self.revisions = [0] * len(peers)
        self.conflicts = 0

    def hear(self, numbers: list[int], strategy: str) -> list[int]:
        """What these say after a sync in which the last of them is new. Those that are in the run."""
        inside, lineages, ends = [], set(), set()
        for number in numbers:
            word, before, after, lineage, *_ = self.peers[number].line().split()
            assert int(before) == self.revisions[number]
            if word == "conflict":
                assert number == numbers[-1], "a member is out"
                assert strategy == "popular"
                self.conflicts += 1
                continue
            assert word == "ok"
            assert int(after) >= int(before), f"peer {number} went back from {before} to {after}"
            self.revisions[number] = int(after)
            inside.append(number)
            lineages.add(lineage)
            ends.add(after)
        assert len(ends) == 1
        assert len(lineages) == 1
        assert lineages != {"0"}
        return inside

    def train(self, inside: list[int]) -> None:
        steps = self.dice.randrange(4)
        for number in inside:
            self.peers[number].ask("train", steps)
        for number in inside:
            self.revisions[number] += steps
            assert self.peers[number].expect("trained")[1] == str(self.revisions[number])

    def run(self, strategy: str) -> None:
        """A run from the start of a coordinator to its death."""
        for number in range(len(self.peers)):
            if self.dice.random() < 0.4:
                self.peers[number].ask("forget")
                self.revisions[number] = 0
        order = self.dice.sample(range(len(self.peers)), len(self.peers))
        founders = self.dice.randrange(1, len(self.peers) + 1)
        with coordinator_process() as (coordinator, address):
            for number in order[:founders]:
                self.peers[number].ask("join", address, founders, strategy)
            inside = self.hear(order[:founders], strategy)
            self.train(inside)
            for newcomer in order[founders:]:
                for member in inside:
                    self.peers[member].ask("admit", len(inside) + 1, strategy)
                self.peers[newcomer].ask("join", address, 1, strategy)
                inside = self.hear([*inside, newcomer], strategy)
                self.train(inside)
            coordinator.process.kill()
            coordinator.end()
        for number in range(len(self.peers)):
            self.peers[number].ask("lose")
            said = self.peers[number].expect("lost")
            assert said[1] in ("OutcomeUnknown", "NotConnected", "Evicted"), said


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["popular", "newest"])
def test_no_revision_goes_back_when_the_coordinator_comes_back(strategy: str) -> None:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Child(PEER, "", str(number))) for number in range(4)]
        swarm = Swarm(peers, random.Random(strategy))
        for _ in range(50):
            swarm.run(strategy)
        assert (swarm.conflicts > 0) == (strategy == "popular")
