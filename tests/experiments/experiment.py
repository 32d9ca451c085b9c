"""Measures strategies: each row of a table trains peers in a simulated swarm, with several seeds.

The peers are real: the strategies, the communicators and the bytes of their messages are those of a program with
processes. The swarm runs them in one process and one thread at a time, so equal seeds give equal results.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Callable

import lockstep
import torch
from lockstep import sim
from lockstep.torch import Strategy
from plot import draw

PEERS = 4
SEEDS = (1, 2, 3)
REFERENCE = "data-parallel"  # the row that traffic and losses are compared with

Make = Callable[[Any, Any, Any], Strategy]
"""Makes a strategy from a run, a model and its inner optimizer."""


@dataclass(frozen=True)
class Row:
    """A line of a table.

    key: short name, for --only and the results. name: in the table. make: makes the strategy of a peer.
    peers: number of peers. weighs: whether step() gets the number of examples.
    by_label: whether each peer's data are those of a few labels, where a task knows labels. rate: factor of the
    learning rate.
    """

    key: str
    name: str
    make: Make
    peers: int = PEERS
    weighs: bool = False
    by_label: bool = False
    rate: float = 1.0


@dataclass(frozen=True)
class Result:
    """What one row gave with one seed.

    loss, accuracy: of the shared parameters on data that no peer has seen; accuracy is None where a task has none.
    sent: payload that a peer sent, in bytes, the mean over the peers. seconds: time of the training on this machine.
    """

    row: str
    seed: int
    loss: float
    accuracy: float | None
    sent: float
    seconds: float


class Line:
    """The results of one row with all seeds."""

    def __init__(self, results: Sequence[Result], reference: Sequence[Result]) -> None:
        self.losses = [result.loss for result in results]
        self.loss = statistics.fmean(self.losses)
        accuracies = [result.accuracy for result in results if result.accuracy is not None]
        self.accuracy = statistics.fmean(accuracies) if accuracies else None
        self.sent = statistics.fmean(result.sent for result in results)
        self.seconds = statistics.fmean(result.seconds for result in results)
        self.over = self.loss / statistics.fmean(result.loss for result in reference) - 1 if reference else math.nan
        dense = statistics.fmean(result.sent for result in reference) if reference else math.nan
        self.less_traffic = dense / self.sent if self.sent else math.inf


Lines = Mapping[str, Line]


@dataclass(frozen=True)
class Claim:
    """A statement about the results. measure: returns whether it holds, and the measured numbers in words."""

    words: str
    rows: tuple[str, ...]
    measure: Callable[[Lines], tuple[bool, str]]


def within(row: str, percent: float, less: float, of: str = REFERENCE) -> Claim:
    """The loss is at most so many percent above another row's, at so many times less traffic than data parallel."""

    def measure(lines: Lines) -> tuple[bool, str]:
        line = lines[row]
        over = 100 * (line.loss / lines[of].loss - 1)
        holds = over <= percent and round(line.less_traffic) >= less
        return holds, f"{over:+.1f} %, {line.less_traffic:.0f} times"

    words = f"{row}: within {percent:g} % of {of}, {less:g} times less traffic"
    return Claim(words, (row, of, REFERENCE), measure)


def near(row: str, other: str, difference: float) -> Claim:
    """The loss differs from another row's by at most `difference`."""

    def measure(lines: Lines) -> tuple[bool, str]:
        measured = lines[row].loss - lines[other].loss
        return abs(measured) <= difference, f"{measured:+.4f}"

    return Claim(f"{row}: loss within {difference:g} of {other}", (row, other), measure)


def worse(row: str, other: str) -> Claim:
    """The loss is greater than another row's, with every seed."""

    def measure(lines: Lines) -> tuple[bool, str]:
        more = [one - another for one, another in zip(lines[row].losses, lines[other].losses)]
        return min(more) > 0, f"{min(more):+.3f} to {max(more):+.3f}"

    return Claim(f"{row}: a greater loss than {other}, with every seed", (row, other), measure)


def accurate(row: str, points: float) -> Claim:
    """The mean accuracy is at most so many percentage points below that of data parallel."""

    def measure(lines: Lines) -> tuple[bool, str]:
        below = 100 * _accuracy_below(row, REFERENCE, lines)
        return below <= points, f"{below:.1f}"

    return Claim(f"{row}: accuracy at most {points:g} points below {REFERENCE}", (row, REFERENCE), measure)


def less_accurate(row: str, other: str, points: float) -> Claim:
    """The mean accuracy is at least so many percentage points below another row's."""

    def measure(lines: Lines) -> tuple[bool, str]:
        below = 100 * _accuracy_below(row, other, lines)
        return below >= points, f"{below:.1f}"

    return Claim(f"{row}: accuracy at least {points:g} points below {other}", (row, other), measure)


def _accuracy_below(row: str, other: str, lines: Lines) -> float:
    return (lines[other].accuracy or 0.0) - (lines[row].accuracy or 0.0)


class Task(ABC):
    """What is learnt, and the rows and claims of its table.

    name: of the files and in the title. steps: inner steps. batch: examples of a peer and step. rate: the greatest
    learning rate; it falls to a tenth along a cosine.
    """

    name: str
    steps: int
    batch: int
    rate: float
    rows: Sequence[Row]
    claims: Sequence[Claim]

    @abstractmethod
    def make_model(self) -> torch.nn.Module:
        """A new model, from torch's global random numbers."""

    @abstractmethod
    def loss(self, model: Any, row: Row, seed: int, peer: int, step: int) -> torch.Tensor:
        """The loss of a peer's examples of a step."""

    @abstractmethod
    def evaluate(self, model: Any, seed: int) -> tuple[float, float | None]:
        """Loss and accuracy, if there is one, on data that no peer has seen."""

    def prepare(self, seed: int, folder: Path) -> None:  # noqa: B027 - most tasks begin with a new model
        """Makes what all rows of a seed begin with."""

    def load(self, model: Any, inner: Any, seed: int, folder: Path) -> None:  # noqa: B027
        """Sets a new model and its optimizer to what all rows of a seed begin with."""


def make_inner(model: torch.nn.Module, rate: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def rate_at(task: Task, step: int) -> float:
    return task.rate * (0.55 + 0.45 * math.cos(math.pi * step / task.steps))


def inner_step(task: Task, model: Any, inner: Any, rate: float, loss: torch.Tensor) -> None:
    inner.param_groups[0]["lr"] = rate
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    inner.step()
    inner.zero_grad()


def train(run: lockstep.Communicator, task: Task, row: Row, seed: int, folder: Path) -> tuple[float, Any]:
    """One peer. Returns the bytes that it sent; one of the peers also loss and accuracy at the end.

    No step() tells the bytes of a reduction that is in flight at the end: it counts like the mean of the others.
    """
    peer = run.rank
    torch.manual_seed(seed)
    model = task.make_model()
    inner = make_inner(model, task.rate)
    task.load(model, inner, seed, folder)
    sent = told = 0
    with row.make(run, model, inner) as strategy:
        while strategy.inner_step < task.steps:
            step = strategy.inner_step
            loss = task.loss(model, row, seed, peer, step)
            inner_step(task, model, inner, row.rate * rate_at(task, step), loss)
            info = strategy.step(float(task.batch) if row.weighs else None)
            sent += info.bytes_sent
            told += info.outer
    return sent * strategy.outer_step / told, task.evaluate(model, seed) if peer == 0 else None


def measure(task: Task, row: Row, seed: int, folder: Path) -> Result:
    torch.set_num_threads(1)
    began = time.monotonic()
    report = sim.Swarm(peers=row.peers, seed=seed).run(train, task, row, seed, folder, shrink=False)
    seconds = time.monotonic() - began
    sent = statistics.fmean(bytes_sent for bytes_sent, _ in report.values)
    ((loss, accuracy),) = [evaluated for _, evaluated in report.values if evaluated]
    return Result(row.key, seed, loss, accuracy, sent, seconds)


# ---- the command ----

_task: Task  # of this process and of those that it forks: rows have functions, which cannot be sent


def _measure(key: str, seed: int, folder: Path) -> Result:
    return measure(_task, next(row for row in _task.rows if row.key == key), seed, folder)


def _prepare(seed: int, folder: Path) -> None:
    torch.set_num_threads(1)
    _task.prepare(seed, folder)


def main(task: Task, arguments: Sequence[str] | None = None) -> int:
    """Measures the rows, prints the table and the claims, and writes JSON and SVG. Returns the exit code."""
    global _task
    _task = task
    keys = [row.key for row in task.rows]
    parser = argparse.ArgumentParser(prog=f"./run experiment {task.name}", description=sys.modules["__main__"].__doc__)
    parser.add_argument("--only", metavar="ROW,ROW", help=f"only these rows, beside earlier results: {', '.join(keys)}")
    parser.add_argument("--seeds", metavar="N,N", default=",".join(map(str, SEEDS)), help="(default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="rows at once (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=task.steps, help="inner steps (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/experiments"), help="folder (default: %(default)s)")
    given = parser.parse_args(arguments)
    task.steps = given.steps
    wanted = given.only.split(",") if given.only else keys
    if unknown := sorted(set(wanted) - set(keys)):
        parser.error(f"unknown row {unknown[0]!r}; allowed: {', '.join(keys)}")
    seeds = [int(seed) for seed in given.seeds.split(",")]
    folder: Path = given.out
    folder.mkdir(parents=True, exist_ok=True)
    results = _measure_all(task, wanted, seeds, given.jobs, folder)
    return report(task, results, folder)


def settings_of(task: Task) -> dict[str, Any]:
    """What results must have in common to stand in one table."""
    versions = {"torch": torch.__version__, "python": platform.python_version(), "lockstep": lockstep.__version__}
    return {"task": task.name, "steps": task.steps, "peers": PEERS, **versions}


def _measure_all(task: Task, keys: Sequence[str], seeds: Sequence[int], jobs: int, folder: Path) -> list[Result]:
    """Measures in `jobs` processes. Each result is written at once, so that no break loses it."""
    file = folder / f"{task.name}.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    results: dict[tuple[str, int], Result] = {}
    if kept.get("settings") == settings_of(task):
        results = {(one["row"], one["seed"]): Result(**one) for one in kept["results"]}
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for prepared in [pool.submit(_prepare, seed, folder) for seed in seeds]:
            prepared.result()
        ordered: list[Result] = []
        waiting = [pool.submit(_measure, key, seed, folder) for seed in seeds for key in keys]
        for future in as_completed(waiting):
            one = future.result()
            results[one.row, one.seed] = one
            print(f"{one.row}, seed {one.seed}: loss {one.loss:.4f}, {one.seconds:.0f} s", flush=True)
            ordered = [results[row.key, each] for row in task.rows for each in seeds_of(results, row.key)]
            written = {"settings": settings_of(task), "results": [asdict(result) for result in ordered]}
            file.write_text(json.dumps(written, indent=1) + "\n")
    return ordered


def seeds_of(results: Mapping[tuple[str, int], Result], key: str) -> list[int]:
    """The seeds of a row, in order."""
    return sorted(seed for row, seed in results if row == key)


def lines_of(task: Task, results: Sequence[Result]) -> dict[str, Line]:
    """By row, in the order of the table."""
    by_row = {row.key: [one for one in results if one.row == row.key] for row in task.rows}
    return {key: Line(every, by_row[REFERENCE]) for key, every in by_row.items() if every}


def table(task: Task, lines: Lines) -> str:
    """In Markdown."""
    has_accuracy = any(line.accuracy is not None for line in lines.values())
    titles = ["strategy", "loss", "least to most", "over data parallel", *["accuracy"] * has_accuracy, "less traffic"]
    text = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in task.rows:
        if row.key in lines:
            line = lines[row.key]
            spread = f"{min(line.losses):.3f} to {max(line.losses):.3f}"
            accuracy = [] if line.accuracy is None else [f"{line.accuracy:.3f}"]
            less = "no traffic" if math.isinf(line.less_traffic) else f"{line.less_traffic:.0f} times"
            cells = [row.name, f"{line.loss:.3f}", spread, f"{100 * line.over:+.1f} %", *accuracy, less]
            text.append(f"| {' | '.join(cells)} |")
    return "\n".join(text)


def report(task: Task, results: Sequence[Result], folder: Path) -> int:
    """Prints the table and the claims, and draws the plot. Returns 1 if a claim does not hold."""
    lines = lines_of(task, results)
    print(f"\n{table(task, lines)}\n")
    outcomes = []
    for claim in task.claims:
        if all(row in lines for row in claim.rows):
            holds, measured = claim.measure(lines)
            outcomes.append(holds)
            print(f"{'holds' if holds else 'DOES NOT HOLD':>13}: {claim.words} (measured: {measured})")
    names = {row.key: row.name for row in task.rows}
    points = {
        names[key]: [(line.sent / 1e6, loss) for loss in (min(line.losses), max(line.losses), line.loss)]
        for key, line in lines.items()
        if line.sent
    }
    picture = folder / f"{task.name}.svg"
    title = f"{task.name}: loss after {task.steps} steps of {PEERS} peers: mean, and least to most of the seeds"
    draw(picture, title, "MB that a peer has sent", "loss on held-out data", points)
    print(f"\nresults: {folder / task.name}.json; plot: {picture}")
    return 0 if all(outcomes) else 1
