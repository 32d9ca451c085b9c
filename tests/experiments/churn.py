"""Processes under kills and joins: DiLoCo on the characters, 8 processes, 200 outer steps, an event every few seconds.

Three runs are left alone, and three are disturbed. After every outer step all peers have equal parameters; the loss of
the disturbed runs is within the spread of the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import math
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import lockstep
import torch
from char_gpt import coordinator
from chars import Chars, examples
from experiment import SEEDS, inner_step, make_inner, rate_at, settings_of
from lockstep.torch import DiLoCo, Nesterov

TASK = Chars()
INNER_STEPS = 3
OUTER = Nesterov(0.7, 0.5)  # with a momentum of 0.9, rounds of 3 steps go too far
LEFT_ALONE = 10  # outer steps before the end without kills and joins
FEWEST, MOST = -2, 2  # processes less and more than at the begin
LEAST_MEMBERS = 2  # a run without members is over
NEVER = 1024  # founders: more than there are
IN_TIME = 300.0  # seconds from the last event to the last outer step
TO_LEAVE = 20.0  # seconds from the last outer step to the end of a process


@dataclass(frozen=True)
class Run:
    """One run.

    late: processes that were started too late to become members. worlds: fewest and most contributors of an outer step.
    retries: most reductions that a peer began again. outer_steps: those that some peer told. disagreements: outer steps
    after which two peers had different parameters. ended: peers that told the last outer step, of world_at_end.
    failed: processes that ended with an error.
    """

    seed: int
    disturbed: bool
    loss: float
    kills: int
    joins: int
    late: int
    worlds: tuple[int, int]
    retries: int
    outer_steps: int
    disagreements: int
    ended: int
    world_at_end: int
    failed: int
    seconds: float


# ---- a peer ----


def hash_of(state: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for group in ("parameters", "momentum"):
        for tensor in state[group].values():
            digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]


def train(number: int, founders: int, seed: int, address: str, folder: Path) -> None:
    """A process; if the others lose it, it comes again as a new peer. Tells each outer step in a file of its own."""
    torch.set_num_threads(1)
    with (folder / f"peer-{number}.jsonl").open("w", buffering=1) as told:
        while True:
            try:
                train_once(number, seed, address, founders, told)
                return
            except (lockstep.Evicted, lockstep.NotConnected, lockstep.OutcomeUnknown):
                founders = NEVER


def train_once(number: int, seed: int, address: str, founders: int, told: Any) -> None:
    torch.manual_seed(seed)
    model = TASK.make_model()
    inner = make_inner(model, TASK.rate)
    with lockstep.connect(address, founders=founders, listen_host="127.0.0.1") as run:
        with DiLoCo(run, model, inner, inner_steps=INNER_STEPS, outer=OUTER, wire="int8") as strategy:
            while (step := strategy.inner_step) < TASK.steps:
                loss = model.loss(examples(seed, number, step, TASK.batch))
                inner_step(TASK, model, inner, rate_at(TASK, step), loss)
                info = strategy.step()
                if info.outer:
                    line = {"outer": info.outer_step, "hash": hash_of(strategy.global_state_dict())}
                    told.write(json.dumps({**line, "world": info.world, "retries": info.retries}) + "\n")
            is_leader = strategy.is_leader
    if is_leader:
        loss, _ = TASK.evaluate(model, seed)
        told.write(json.dumps({"loss": loss}) + "\n")


# ---- a run ----


class Peers:
    """The processes of a run, and what they have told."""

    def __init__(self, seed: int, address: str, founders: int, folder: Path) -> None:
        self._arguments = (seed, address, folder)
        self._folder = folder
        self.all: list[BaseProcess] = []
        self.killed: set[BaseProcess] = set()
        for _ in range(founders):
            self.start(founders)

    def start(self, founders: int = NEVER) -> None:
        """Starts a process. One that comes later founds no run of its own, also when the run is over."""
        context = multiprocessing.get_context("fork")
        process = context.Process(target=train, args=(len(self.all), founders, *self._arguments))
        process.start()
        self.all.append(process)

    def kill(self, process: BaseProcess) -> None:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        self.killed.add(process)

    @property
    def alive(self) -> list[BaseProcess]:
        return [process for process in self.all if process.is_alive()]

    def told(self) -> list[list[dict[str, Any]]]:
        """The lines of each process; of a line that a killed one began nothing is left."""
        files = [self._folder / f"peer-{number}.jsonl" for number in range(len(self.all))]
        texts = [file.read_text() if file.exists() else "" for file in files]
        return [[json.loads(line) for line in text.split("\n")[:-1]] for text in texts]

    def outer_step(self) -> int:
        """The newest outer step."""
        return max((line.get("outer", 0) for lines in self.told() for line in lines), default=0)

    def end(self, outer_steps: int) -> int:
        """Waits until the run is over. Returns the number of processes that came too late to become members."""
        limit, tick = time.monotonic() + IN_TIME, threading.Event()
        while not self._is_over(outer_steps) and self.alive and time.monotonic() < limit:
            tick.wait(0.1)
        limit = time.monotonic() + TO_LEAVE
        for process, last in zip(self.all, self.last_lines(outer_steps)):
            if last:
                process.join(max(0.0, limit - time.monotonic()))
        late = self.alive
        for process in late:
            self.kill(process)
        return len(late)

    def last_lines(self, outer_steps: int) -> list[dict[str, Any] | None]:
        """What each process has told of the last outer step."""
        return [next((line for line in lines if line.get("outer") == outer_steps), None) for lines in self.told()]

    def _is_over(self, outer_steps: int) -> bool:
        """Whether all contributors to the last outer step have told it."""
        last = [line for line in self.last_lines(outer_steps) if line]
        return bool(last) and len(last) == last[0]["world"]


def disturb(peers: Peers, chance: random.Random, last: int, every: float) -> tuple[int, int]:
    """Kills a process, or starts one, every so many seconds until the outer step `last`. Returns how many of each."""
    kills = joins = 0
    fewest, most = len(peers.all) + FEWEST, len(peers.all) + MOST
    tick = threading.Event()
    while peers.alive and not peers.outer_step():  # until the run is founded
        tick.wait(0.1)
    while True:
        tick.wait(chance.uniform(0.5, 1.5) * every)
        alive = peers.alive
        if peers.outer_step() >= last or not alive:
            return kills, joins
        victim = chance.choice(alive)
        members = [process for process, lines in zip(peers.all, peers.told()) if lines and process in alive]
        may_go = len(alive) > fewest and (victim not in members or len(members) > LEAST_MEMBERS)
        if may_go and (len(alive) >= most or chance.random() < 0.5):
            peers.kill(victim)
            kills += 1
        else:
            peers.start()
            joins += 1


def run_once(seed: int, disturbed: bool, founders: int, outer_steps: int, every: float) -> Run:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, coordinator() as address:
        peers = Peers(seed, address, founders, Path(folder))
        kills = joins = 0
        if disturbed:
            kills, joins = disturb(peers, random.Random(seed), outer_steps - LEFT_ALONE, every)
        late = peers.end(outer_steps)
        told, last = peers.told(), [line for line in peers.last_lines(outer_steps) if line]
    steps: dict[int, list[dict[str, Any]]] = {}
    for line in (line for lines in told for line in lines if "outer" in line):
        steps.setdefault(line["outer"], []).append(line)
    worlds = [line["world"] for lines in steps.values() for line in lines]
    return Run(
        seed=seed,
        disturbed=disturbed,
        loss=next((line["loss"] for lines in told for line in lines if "loss" in line), math.nan),
        kills=kills,
        joins=joins,
        late=late,
        worlds=(min(worlds), max(worlds)),
        retries=max(sum(line.get("retries", 0) for line in lines) for lines in told),
        outer_steps=len(steps),
        disagreements=sum(len({line["hash"] for line in lines}) > 1 for lines in steps.values()),
        ended=len(last),
        world_at_end=last[0]["world"] if last else 0,
        failed=sum(process.exitcode != 0 for process in peers.all if process not in peers.killed),
        seconds=time.monotonic() - began,
    )


# ---- the command ----


def claims(runs: list[Run], outer_steps: int) -> dict[str, bool]:
    alone = [run.loss for run in runs if not run.disturbed]
    disturbed = [run.loss for run in runs if run.disturbed]
    return {
        "every run makes all outer steps": all(run.outer_steps == outer_steps for run in runs),
        "no process fails": all(run.failed == 0 for run in runs),
        "all members of the last outer step tell it": all(run.ended == run.world_at_end for run in runs),
        "all peers have equal parameters and momentum after each outer step": all(
            run.disagreements == 0 for run in runs
        ),
        "the mean loss of the disturbed runs is within the spread of the others": bool(alone and disturbed)
        and statistics.fmean(disturbed) <= max(alone),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run experiment churn", description=__doc__)
    parser.add_argument("--peers", type=int, default=8, help="processes that begin together (default: %(default)s)")
    parser.add_argument("--outer-steps", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between events (default: %(default)s)")
    parser.add_argument("--seeds", metavar="N,N", default=",".join(map(str, SEEDS)), help="(default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/experiments"), help="folder (default: %(default)s)")
    given = parser.parse_args()
    TASK.steps = given.outer_steps * INNER_STEPS
    make_inner(TASK.make_model(), TASK.rate)  # the first optimizer imports for seconds: once, before the forks
    runs: list[Run] = []
    print("seed  disturbed   loss  kills  joins  late  peers  retries  disagreements  seconds")
    for seed in (int(seed) for seed in given.seeds.split(",")):
        for disturbed in (False, True):
            run = run_once(seed, disturbed, given.peers, given.outer_steps, given.every)
            runs.append(run)
            peers = f"{run.worlds[0]}-{run.worlds[1]}"
            print(
                f"{seed:4} {'yes' if disturbed else 'no':>10} {run.loss:6.3f} {run.kills:6} {run.joins:6} {run.late:5} "
                f"{peers:>6} {run.retries:8} {run.disagreements:14} {run.seconds:8.0f}",
                flush=True,
            )
    held = claims(runs, given.outer_steps)
    for words, holds in held.items():
        print(f"{'holds' if holds else 'DOES NOT HOLD':>13}: {words}")
    given.out.mkdir(parents=True, exist_ok=True)
    file = given.out / "churn.json"
    settings = {**settings_of(TASK), "peers": given.peers, "inner_steps": INNER_STEPS, "every": given.every}
    results = {"settings": settings, "runs": [dataclasses.asdict(run) for run in runs], "claims": held}
    file.write_text(json.dumps(results, indent=1) + "\n")
    print(f"results: {file}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
