"""How long strategies wait for a slow line: two processes, 100 Mbit/s and 80 ms there and back between them.

A round of computation takes about twice as long as its reduction. An inner step waits for 0.1 s while a parameter
changes, as if an accelerator computed: the cores are free for the reduction. The ideal time is that of the steps alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import lockstep
import torch
from experiment import Make
from lockstep.torch import SGD, DiLoCo, StreamingDiLoCo, by_bytes

INNER_STEPS = 24
STEP_SECONDS = 0.1
LAYERS, WIDTH = 12, 500  # 3 million parameters: 12 MB
FRAGMENTS = 2
TAU = 10  # steps that a fragment's reduction may take
BLOCKING_AT_LEAST, OVERLAPPED_AT_MOST = 1.3, 1.1

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Overlap:
    """A strategy. overlapped: whether its reductions go on while the program computes."""

    name: str
    overlapped: bool
    make: Make


@dataclass(frozen=True)
class Measured:
    """What one strategy took: seconds for `rounds` rounds, of the slower peer; and bytes that a peer sent for each."""

    row: str
    rounds: int
    seconds: float
    ideal: float
    sent: float

    @property
    def ratio(self) -> float:
        """Of the ideal time."""
        return self.seconds / self.ideal


def diloco(**options: Any) -> Make:
    return lambda run, model, inner: DiLoCo(run, model, inner, inner_steps=INNER_STEPS, **options)


ROWS = {
    "blocking": Overlap("DiLoCo, blocking", False, diloco()),
    "outer": Overlap("DiLoCo, a round late", True, diloco(overlap="outer")),
    "eager": Overlap("DiLoCo, eager", True, diloco(overlap="eager")),
    "streaming": Overlap(
        f"Streaming, {FRAGMENTS} fragments, tau {TAU}",
        True,
        lambda run, model, inner: StreamingDiLoCo(
            run,
            model,
            inner,
            inner_steps=INNER_STEPS,
            fragments=by_bytes(4 * WIDTH * WIDTH * LAYERS // FRAGMENTS),
            tau=TAU,
            outer=SGD(0.7),
            wire="native",
        ),
    ),
}


def train(coordinator: str, row: str, rounds: int) -> Measured:
    """One peer. The clock runs from the end of the first round: with an overlap, the first one waits for nothing."""
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    computed = threading.Event()
    began, sent = math.nan, 0
    with lockstep.connect(coordinator, founders=2) as run, ROWS[row].make(run, model, inner) as strategy:
        while strategy.inner_step < INNER_STEPS * (rounds + 1):
            until = time.monotonic() + STEP_SECONDS
            with torch.no_grad():
                next(model.parameters())[0, 0] += 0.001
            computed.wait(max(0.0, until - time.monotonic()))
            info = strategy.step()
            if info.inner_step == INNER_STEPS:
                began = time.monotonic()
            elif info.inner_step > INNER_STEPS:
                sent += info.bytes_sent
        seconds = time.monotonic() - began
    return Measured(row, rounds, seconds, rounds * INNER_STEPS * STEP_SECONDS, sent / rounds)


def measure(row: str, rounds: int, wan: Path, program: Path) -> Measured:
    """Runs the two peers and their coordinator on the network of overlap.toml."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            *(str(wan), "run", str(FOLDER / "overlap.toml"), "--json"),
            *("--coordinator", f"{program} coordinator -l {{address}}:4000", "--"),
            *(sys.executable, __file__, "--rounds", str(rounds), "--peer", row, "{coordinator}:4000"),
            f"{folder}/{{index}}.json",
        ]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        results = [json.loads(file.read_text()) for file in sorted(Path(folder).glob("*.json"))]
    if ended.returncode or len(results) != 2:
        sys.exit(f"{row}: the peers ended with {ended.returncode}:\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}")
    return max((Measured(**result) for result in results), key=lambda measured: measured.seconds)


def report(measured: Sequence[Measured], folder: Path) -> int:
    """Prints the table and whether the bounds hold, and writes JSON. Returns 1 if a bound does not hold."""
    print("\n| strategy | seconds for a round | of the ideal time | MB sent for a round |\n|---|---|---|---|")
    outcomes = []
    by_row: dict[str, list[Measured]] = {}
    for one in measured:
        by_row.setdefault(one.row, []).append(one)
    for key, every in by_row.items():
        ratio = statistics.median(one.ratio for one in every)
        seconds = statistics.median(one.seconds / one.rounds for one in every)
        print(f"| {ROWS[key].name} | {seconds:.2f} | {ratio:.2f} | {every[0].sent / 1e6:.1f} |")
        overlapped = ROWS[key].overlapped
        outcomes.append(ratio <= OVERLAPPED_AT_MOST if overlapped else ratio >= BLOCKING_AT_LEAST)
    print(f"\nthe ideal time of a round: {INNER_STEPS * STEP_SECONDS:.2f} s\n")
    for key, holds in zip(by_row, outcomes):
        bound = f"at most {OVERLAPPED_AT_MOST}" if ROWS[key].overlapped else f"at least {BLOCKING_AT_LEAST}"
        print(f"{'holds' if holds else 'DOES NOT HOLD':>13}: {key}: {bound} of the ideal time")
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "overlap.json"
    settings = {"torch": torch.__version__, "lockstep": lockstep.__version__, "cores": os.cpu_count()}
    file.write_text(json.dumps({"settings": settings, "results": [asdict(one) for one in measured]}, indent=1) + "\n")
    print(f"\nresults: {file}")
    return 0 if all(outcomes) else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="./run experiment overlap", description=__doc__)
    parser.add_argument("--only", metavar="ROW,ROW", default=",".join(ROWS), help="of these: %(default)s")
    parser.add_argument("--rounds", type=int, default=6, help="of each measurement (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=3, help="measurements of each row (default: %(default)s)")
    parser.add_argument("--wan", type=Path, default=Path("build/release/tests/lab/wan/lockstep_wan"), help="program")
    parser.add_argument("--program", type=Path, default=Path("build/release/bindings/cli/lockstep"), help="lockstep")
    parser.add_argument("--out", type=Path, default=Path("build/experiments"), help="folder (default: %(default)s)")
    parser.add_argument("--peer", nargs=3, metavar=("ROW", "COORDINATOR", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        row, coordinator, file = given.peer
        Path(file).write_text(json.dumps(asdict(train(coordinator, row, given.rounds))))
        return 0
    rows = given.only.split(",")
    if unknown := sorted(set(rows) - set(ROWS)):
        parser.error(f"unknown row {unknown[0]!r}; allowed: {', '.join(ROWS)}")
    if given.rounds < 1 or given.turns < 1:
        parser.error(f"--rounds is {given.rounds} and --turns is {given.turns}; allowed: at least 1")
    measured = []
    for turn in range(given.turns):
        for row in rows:
            one = measure(row, given.rounds, given.wan.resolve(), given.program.resolve())
            print(f"turn {turn + 1} of {given.turns}, {row}: {one.ratio:.2f} of the ideal time", flush=True)
            measured.append(one)
    return report(measured, given.out)


if __name__ == "__main__":
    sys.exit(main())
