"""Chaos: Python processes train together while one of them is killed, or a new one joins, about every second.

    python tests/python/chaos.py --steps 1000

Every peer runs the loop of bindings/examples/python/logistic_regression.py and says what each step gave. Checked from what they say: nobody
hangs, all hashes of a step are equal, all states after a step are equal, and so are the final states. Exit status 0 and one line of figures,
or 1 and what is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import faulthandler
import hashlib
import queue
import random
import signal
import subprocess
import sys
import threading
import time

import lockstep
import numpy as np

FEATURES = 20
HANGS_AFTER = 60.0  # seconds without a step of anybody
NEVER = 1024  # founders of a newcomer: it must not begin a run of its own when the others are done


# ---- a peer ----


def gradient(weights: np.ndarray, step: int, rank: int) -> np.ndarray:
    """Of examples that no other peer has in this step."""
    draw = np.random.default_rng([step, rank])
    x = draw.normal(size=(64, FEATURES))
    y = (draw.random(64) < 1 / (1 + np.exp(-x @ np.linspace(-2, 2, FEATURES)))).astype(np.float64)
    return x.T @ (1 / (1 + np.exp(-x @ weights)) - y) / len(y)


def digest(state: lockstep.State) -> str:
    return hashlib.sha256(state["weights"].tobytes() + str((state["step"], state.revision)).encode()).hexdigest()[:16]


def peer(address: str, founders: int, steps: int, pace: float) -> None:
    faulthandler.register(signal.SIGUSR1)
    tick = threading.Event()
    with lockstep.connect(address, founders=founders, timeout=600, listen_host="127.0.0.1") as run:
        state = lockstep.State({"weights": np.zeros(FEATURES), "ballast": np.zeros(1 << 16, np.float32), "step": 0})
        run.sync(state)
        while state["step"] < steps:
            ends = time.monotonic() + pace  # a step of real training takes its time
            change = gradient(state["weights"], state["step"], run.rank)
            tick.wait(max(0.0, ends - time.monotonic()))
            works = [run.all_reduce_async(state["ballast"].copy() + 1, op="avg", tag=1)]
            result = run.all_reduce(change, op="avg")
            works[0].wait()
            state["weights"] -= 0.3 * change
            state["ballast"] += 1
            state["step"] += 1
            state.revision += 1
            run.admit()
            run.sync(state)
            print(
                "step",
                state["step"] - 1,
                result.cohort,
                f"{result.hash:016x}",
                result.world_size,
                result.retries,
                digest(state),
                flush=True,
            )
        print("final", digest(state), flush=True)


# ---- the chaos ----


@dataclasses.dataclass
class Peer:
    number: int
    process: subprocess.Popen[str]
    is_member: bool = False
    was_killed: bool = False
    final: str | None = None


class Chaos:
    """Starts peers, kills them, and judges what they say."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.random = random.Random(given.seed)
        self.peers: list[Peer] = []
        self.lines: queue.Queue[tuple[Peer, str | None]] = queue.Queue()
        self.hashes: dict[tuple[int, int], str] = {}  # of (step, cohort)
        self.states: dict[int, str] = {}  # after a step
        self.agreed = self.kills = self.joins = self.retries = 0
        self.last = -1  # step
        self.smallest, self.largest = 1 << 30, 0
        self.last_at = self.begun = time.monotonic()
        self.slowest = (0.0, 0)

    def start(self, address: str, founders: int) -> None:
        arguments = [
            "--peer",
            address,
            "--founders",
            str(founders),
            "--steps",
            str(self.given.steps),
            "--pace",
            str(self.given.pace),
        ]
        process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
        new = Peer(len(self.peers), process)
        self.peers.append(new)
        threading.Thread(target=self.read, args=(new,), daemon=True).start()

    def read(self, of: Peer) -> None:
        assert of.process.stdout is not None
        for line in of.process.stdout:
            self.lines.put((of, line))
        of.process.stdout.close()
        self.lines.put((of, None))

    def alive(self) -> list[Peer]:
        return [one for one in self.peers if one.process.poll() is None]

    def members(self) -> list[Peer]:
        return [one for one in self.alive() if one.is_member]

    def disturb(self, address: str) -> None:
        """Kills somebody, or starts somebody; two members survive at least."""
        alive, members = self.alive(), self.members()
        victims = [one for one in alive if not one.is_member or len(members) > 2]
        if victims and (
            len(alive) >= self.given.most or (len(alive) > self.given.peers and self.random.random() < 0.5)
        ):
            victim = self.random.choice(victims)
            victim.was_killed = True
            victim.process.kill()
            self.kills += 1
        elif len(alive) < self.given.most:
            self.start(address, NEVER)
            self.joins += 1

    def take(self, of: Peer, line: str) -> None:
        """One line of a peer. Raises AssertionError."""
        if not line.endswith("\n"):
            assert of.was_killed, f"peer {of.number} said {line!r}"
            return  # it was killed within a line
        kind, *words = line.split()
        if kind == "final":
            of.final = words[0]
            return
        step, cohort, found = int(words[0]), int(words[1]), words[2]
        of.is_member = True
        self.smallest, self.largest = min(self.smallest, int(words[3])), max(self.largest, int(words[3]))
        self.retries += int(words[4])
        first = self.hashes.setdefault((step, cohort), found)
        assert first == found, (
            f"step {step} of cohort {cohort}: hash {found} at peer {of.number}, {first} at another one"
        )
        first = self.states.setdefault(step, words[5])
        assert first == words[5], f"after step {step}: state {words[5]} at peer {of.number}, {first} at another one"
        self.agreed += 1
        if step > self.last:
            now = time.monotonic()
            if self.last >= 0:
                self.slowest = max(self.slowest, (now - self.last_at, step))
            self.last, self.last_at = step, now

    def ended(self, of: Peer) -> None:
        code = of.process.wait(10)
        assert of.was_killed or code == 0, f"peer {of.number} ended with exit status {code}"

    def run(self) -> str:
        with lockstep.Coordinator("127.0.0.1:0") as coordinator:
            for _ in range(self.given.peers):
                self.start(coordinator.address, self.given.peers)
            next_event = None
            while not any(one.final for one in self.peers) or self.members():
                now = time.monotonic()
                assert now - self.last_at < HANGS_AFTER, f"no step for {HANGS_AFTER} s; the last one was {self.last}"
                if next_event is not None and now >= next_event:
                    next_event = now + self.given.every * self.random.uniform(0.5, 1.5)
                    if self.last < self.given.steps - 2:
                        self.disturb(coordinator.address)
                try:
                    of, line = self.lines.get(timeout=0.1)
                except queue.Empty:
                    continue
                if line is None:
                    self.ended(of)
                else:
                    self.take(of, line)
                    if next_event is None:
                        next_event = time.monotonic() + self.given.every
            seconds = time.monotonic() - self.begun
            finals = {one.final for one in self.peers if one.final}
            assert len(finals) == 1, f"final states differ: {finals}"
            assert self.last == self.given.steps - 1, f"the last step was {self.last}"
            count = sum(1 for one in self.peers if one.final)
        return (
            f"{self.given.steps} steps in {seconds:.0f} s: {self.kills} kills, {self.joins} joins, {self.smallest} to {self.largest} members, "
            f"{self.retries} retries, slowest step {self.slowest[0]:.2f} s (step {self.slowest[1]}); "
            f"{self.agreed} hashes and states agree, final state equal on {count} peers"
        )

    def end(self, failed: bool) -> None:
        """No process is left behind. After a failure they say where they are."""
        for one in self.alive():
            if failed:
                one.process.send_signal(signal.SIGUSR1)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    one.process.wait(1)
            one.was_killed = True
            one.process.kill()
        for one in self.peers:
            one.process.wait()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000, help="of the run (default: %(default)s)")
    parser.add_argument("--peers", type=int, default=3, help="to begin with (default: %(default)s)")
    parser.add_argument("--most", type=int, default=5, help="processes at once (default: %(default)s)")
    parser.add_argument(
        "--every", type=float, default=1.0, help="seconds between a kill or join and the next (default: %(default)s)"
    )
    parser.add_argument(
        "--pace", type=float, default=0.05, help="seconds that a step takes at least (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of who is killed and when (default: %(default)s)")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--founders", type=int, default=1, help=argparse.SUPPRESS)
    return parser


def main(given_arguments: list[str] | None = None) -> int:
    given = arguments().parse_args(given_arguments)
    if given.peer:
        peer(given.peer, given.founders, given.steps, given.pace)
        return 0
    chaos = Chaos(given)
    failed = True
    try:
        print(chaos.run(), flush=True)
        failed = False
    except AssertionError as error:
        print(
            f"FAILED after {chaos.kills} kills and {chaos.joins} joins (seed {given.seed}): {error}",
            file=sys.stderr,
            flush=True,
        )
    finally:
        chaos.end(failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
