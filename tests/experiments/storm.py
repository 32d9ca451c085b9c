"""A storm: processes that train together are killed, stopped and started at random, and the state is never lost.

Eight processes train with DiLoCo. At random moments one of them is killed (SIGKILL), or stopped for a while (SIGSTOP,
SIGCONT), and new ones take the places of the dead. Newcomers hold the state while they wait. Once a run goes on from a
lower outer step than it had made, the storm looks who could have kept the state: a process that made an outer step, or
one that has waited for five seconds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import lockstep
import torch
from char_gpt import coordinator
from lockstep.torch import DiLoCo

INNER_STEPS = 4
STEP = 0.02  # seconds that an inner step takes at least
WIDTH = 256  # of the model: 0.4 MB of parameters, and as much momentum
EVERY = 0.9  # seconds between two events
KILLS = 0.65  # of the events; the others are stops
STOPPED = (0.2, 6.0)  # seconds
ABSENT = (0.0, 2.0)  # seconds from a death to the start of another process
WAITED = 5.0  # seconds after which a newcomer holds the state, as the promise says
CALM = 30.0  # seconds after the storm, in which the run has to make an outer step


# ---- a process ----


def train(number: int, address: str, founders: int, folder: Path) -> None:
    """If the others lose it, it comes again as a new peer, with the state that it has."""
    torch.set_num_threads(1)
    kept: dict[str, Any] | None = None
    with (folder / f"{number}.jsonl").open("w", buffering=1) as told:
        while True:
            kept = train_once(number, address, founders, told, kept)
            founders = 1


def train_once(number: int, address: str, founders: int, told: Any, kept: dict[str, Any] | None) -> dict[str, Any]:
    def tell(event: str, outer: int) -> None:
        told.write(json.dumps({"event": event, "outer": outer, "at": time.monotonic()}) + "\n")

    torch.manual_seed(number)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 128))
    inner = torch.optim.SGD(model.parameters(), lr=0.01)
    with lockstep.connect(address, founders=founders, wait=False, listen_host="127.0.0.1") as run:
        strategy = DiLoCo(run, model, inner, inner_steps=INNER_STEPS)
        if kept is not None:
            strategy.load_global_state_dict(kept)
        tell("waits", strategy.outer_step)
        pause = threading.Event()
        try:
            with strategy:
                tell("enters", strategy.outer_step)
                while True:
                    pause.wait(STEP)
                    model(torch.randn(8, WIDTH)).square().mean().backward()
                    inner.step()
                    inner.zero_grad()
                    if strategy.step().outer:
                        tell("outer", strategy.outer_step)
        except (lockstep.Evicted, lockstep.NotConnected, lockstep.OutcomeUnknown):
            tell("lost", strategy.outer_step)
            return strategy.global_state_dict()


# ---- the storm ----


@dataclass
class Storm:
    """What happened.

    resets: runs that began at outer step 0 although there had been others. lost: those of them before which a process
    could have kept the state, with the moment and the process: one that had made an outer step or waited for WAITED
    seconds, and was not stopped in the last WAITED seconds. back: most outer steps by which a run went back.
    longest_pause: seconds without an outer step. outer_steps: the highest one.
    """

    seed: int
    seconds: float
    kills: int = 0
    stops: int = 0
    joins: int = 0
    foundings: int = 0
    resets: int = 0
    lost: list[str] = field(default_factory=list)
    back: int = 0
    longest_pause: float = 0.0
    outer_steps: int = 0
    goes_on: bool = False


class Processes:
    """The processes of a storm; each has a number, and tells lines in a file of its own."""

    def __init__(self, address: str, peers: int, folder: Path) -> None:
        self._address, self._folder = address, folder
        self.all: list[BaseProcess] = []
        self.died: dict[int, float] = {}
        self.stopped: dict[int, float] = {}  # until when
        self.pauses: list[tuple[int, float, float]] = []  # process, begin, planned end
        self.to_start: list[float] = []
        for _ in range(peers):
            self.start(peers)

    def start(self, founders: int = 1) -> None:
        context = multiprocessing.get_context("fork")
        arguments = (len(self.all), self._address, founders, self._folder)
        self.all.append(context.Process(target=train, args=arguments))
        self.all[-1].start()

    @property
    def alive(self) -> list[int]:
        return [number for number in range(len(self.all)) if number not in self.died]

    def signal(self, number: int, what: signal.Signals) -> None:
        pid = self.all[number].pid
        assert pid is not None
        os.kill(pid, what)

    def kill(self, number: int) -> None:
        self.signal(number, signal.SIGKILL)
        self.all[number].join()
        self.died[number] = time.monotonic()
        self.stopped.pop(number, None)

    def wake(self, now: float) -> None:
        for number in [one for one, until in self.stopped.items() if until <= now]:
            del self.stopped[number]
            self.signal(number, signal.SIGCONT)

    def lines(self) -> list[list[dict[str, Any]]]:
        """What each process has told, in the order of time; of a line that a killed one began nothing is left."""
        files = [self._folder / f"{number}.jsonl" for number in range(len(self.all))]
        texts = [file.read_text() if file.exists() else "" for file in files]
        return [[json.loads(line) for line in text.split("\n")[:-1]] for text in texts]


def rage(processes: Processes, chance: random.Random, seconds: float, storm: Storm) -> None:
    tick, begin = threading.Event(), time.monotonic()
    at = begin + EVERY
    while (now := time.monotonic()) < begin + seconds:
        processes.wake(now)
        while processes.to_start and processes.to_start[0] <= now:
            processes.to_start.pop(0)
            processes.start()
            storm.joins += 1
        if now >= at:
            at = now + chance.uniform(0.2, 1.8) * EVERY
            kills = chance.random() < KILLS
            candidates = [one for one in processes.alive if kills or one not in processes.stopped]
            if candidates and kills:
                processes.kill(chance.choice(candidates))
                storm.kills += 1
                processes.to_start = sorted([*processes.to_start, now + chance.uniform(*ABSENT)])
            elif candidates:
                victim = chance.choice(candidates)
                processes.signal(victim, signal.SIGSTOP)
                processes.stopped[victim] = now + chance.uniform(*STOPPED)
                processes.pauses.append((victim, now, processes.stopped[victim]))
                storm.stops += 1
        tick.wait(0.02)


def calm(processes: Processes) -> bool:
    """Whether the run goes on after the storm."""
    tick, begin = threading.Event(), time.monotonic()
    processes.wake(begin + 2 * STOPPED[1])
    while time.monotonic() < begin + CALM:
        if any(line["event"] == "outer" and line["at"] > begin + 1 for lines in processes.lines() for line in lines):
            return True
        tick.wait(0.1)
    return False


def judge(storm: Storm, told: list[list[dict[str, Any]]], processes: Processes) -> None:
    """Fills in what the processes have told."""

    def runs(number: int, at: float) -> bool:
        stopped = any(one == number and begin <= at and end >= at - WAITED for one, begin, end in processes.pauses)
        return processes.died.get(number, at + 1) > at and not stopped

    events = sorted(
        ((line["at"], number, line["event"], line["outer"]) for number, lines in enumerate(told) for line in lines)
    )
    steps = [at for at, _, event, _ in events if event == "outer"]
    storm.longest_pause = max((b - a for a, b in zip(steps, steps[1:])), default=0.0)
    storm.outer_steps = max((outer for *_, outer in events), default=0)
    newest = 0  # outer step of the run
    has_state: dict[int, float] = {}  # processes that could keep the state, and since when
    for at, number, event, outer in events:
        if event == "waits" and number not in has_state:
            has_state[number] = at + WAITED
        if event == "enters" and outer < newest:
            # Members tell an outer step a moment after they have made it, so a newcomer may seem to be late.
            later = [one for one in events if one[0] >= at and one[2] == "outer"]
            if later and later[0][3] <= newest:
                storm.foundings += 1
                storm.back = max(storm.back, newest - outer)
                keepers = [one for one, since in has_state.items() if since <= at and runs(one, at)]
                storm.resets += outer == 0
                if outer == 0 and keepers:
                    storm.lost.append(f"at {at:.1f} s, outer step {newest}: processes {keepers} could keep it")
                newest = outer
        if event == "outer":
            has_state[number] = min(has_state.get(number, at), at)
            newest = max(newest, outer)


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run experiment storm", description=__doc__)
    parser.add_argument("--peers", type=int, default=8, help="processes (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=600, help="of the storm (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the events (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/experiments"), help="folder (default: %(default)s)")
    given = parser.parse_args()
    # The first optimizer imports for seconds: once, before the forks.
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    storm = Storm(given.seed, given.seconds)
    with tempfile.TemporaryDirectory() as folder, coordinator() as address:
        processes = Processes(address, given.peers, Path(folder))
        try:
            rage(processes, random.Random(given.seed), given.seconds, storm)
            storm.goes_on = calm(processes)
        finally:
            told, alive = processes.lines(), processes.alive
            for number in alive:
                processes.kill(number)
        judge(storm, told, processes)
    print("seed seconds kills stops joins outer-steps foundings-anew resets lost most-back longest-pause goes-on")
    print(
        f"{storm.seed:4} {storm.seconds:7.0f} {storm.kills:5} {storm.stops:5} {storm.joins:5} {storm.outer_steps:11} "
        f"{storm.foundings:14} {storm.resets:6} {len(storm.lost):4} {storm.back:9} {storm.longest_pause:11.1f} s "
        f"{'yes' if storm.goes_on else 'NO':>7}"
    )
    for line in storm.lost:
        print(f"LOST {line}")
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "storm.json"
    file.write_text(json.dumps(dataclasses.asdict(storm), indent=1) + "\n")
    print(f"results: {file}")
    return 0 if storm.goes_on and not storm.lost else 1


if __name__ == "__main__":
    sys.exit(main())
