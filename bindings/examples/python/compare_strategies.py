"""Several training strategies learn the same, with four processes each: a table, and a plot of loss against traffic.

python compare_strategies.py                               # a minute or two on two cores; writes strategies.svg
python compare_strategies.py --only data-parallel,diloco-int8 --steps 400 --plot two.svg

Every run begins with a warm start: some steps of data parallel training, whose traffic does not count. The columns of
the table: step, loss of examples that nobody learns, peers, view, MB that a peer has sent, seconds that it has waited.

Needs beside it: char_gpt.py, plot.py.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, Callable

import lockstep
import torch
from char_gpt import GPT, examples, show_row, start
from lockstep.torch import DataParallel, DiLoCo, FedAvg, Nesterov, Strategy, StreamingDiLoCo, by_block
from plot import draw

Make = Callable[[lockstep.Communicator, Any, Any], Strategy]
Told = tuple[list[tuple[float, float]], float]
"""Pairs of MB that a peer has sent, and loss; seconds that it has waited."""

EVERY = 20  # steps from one row of the table to the next, and of one outer step to the next
BATCH = 8
STRATEGIES: dict[str, Make] = {
    "data-parallel": lambda run, model, inner: DataParallel(run, model, inner),
    "fed-avg": lambda run, model, inner: FedAvg(run, model, inner, inner_steps=EVERY),
    "diloco": lambda run, model, inner: DiLoCo(run, model, inner, inner_steps=EVERY, outer=Nesterov(0.5, 0.8)),
    "diloco-int8": lambda run, model, inner: DiLoCo(
        run, model, inner, inner_steps=EVERY, outer=Nesterov(0.5, 0.8), wire="int8"
    ),
    "streaming-4-bit": lambda run, model, inner: StreamingDiLoCo(
        run, model, inner, inner_steps=EVERY, fragments=by_block(1), tau=2, wire="e3m0"
    ),
}


def train(make: Make, run: lockstep.Communicator, model: GPT, steps: int, begin: int, inner: Any) -> Told:
    """Trains with a strategy; its leader prints the rows. The run has made `begin` steps before."""
    held_out = examples(b"test", 0, 128)
    sent, seconds, points = 0.0, 0.0, []
    with make(run, model, inner) as strategy:
        while strategy.inner_step < steps:
            model.loss(examples(run.id, begin + strategy.inner_step, BATCH)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            inner.step()
            inner.zero_grad()
            info = strategy.step(float(BATCH) if isinstance(strategy, FedAvg) else None)
            sent += info.bytes_sent / 1e6
            seconds += info.seconds
            if strategy.inner_step % EVERY == 0:
                with torch.no_grad():
                    points.append((sent, model.loss(held_out).item()))
                if strategy.is_leader:
                    show_row(info.inner_step, points[-1][1], info.world, run.world.view, sent, seconds)
    return points, seconds


def peer(make: Make, warm: int, told: SimpleQueue[Told], coordinator: str, founders: int, steps: int) -> None:
    """A process: the warm start, then the strategy. The first peer tells what it has seen."""
    torch.manual_seed(7)
    model = GPT()
    inner = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)
    with lockstep.connect(coordinator, founders=founders) as run:
        is_first = run.rank == 0
        if warm:
            train(STRATEGIES["data-parallel"], run, model, warm, 0, inner)
        seen = train(make, run, model, steps, warm, inner)
        if is_first:
            told.put(seen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(STRATEGIES), help="names with commas (default: %(default)s)")
    parser.add_argument("--peers", type=int, default=4, help="processes (default: %(default)s)")
    parser.add_argument("--warm", type=int, default=60, help="steps of the warm start (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="steps of the strategy (default: %(default)s)")
    parser.add_argument("--plot", type=Path, default=Path("strategies.svg"), help="picture (default: %(default)s)")
    given = parser.parse_args()
    results: dict[str, Told] = {}
    for name in given.only.split(","):
        print(f"\n{name}", flush=True)
        told: SimpleQueue[Told] = multiprocessing.get_context("fork").SimpleQueue()
        start(functools.partial(peer, STRATEGIES[name], given.warm, told), given.peers, given.steps)
        results[name] = told.get()
    print(f"\n{'strategy':16} {'loss':>7} {'MB sent':>8} {'waited s':>9}")
    for name, (points, seconds) in results.items():
        print(f"{name:16} {points[-1][1]:7.3f} {points[-1][0]:8.2f} {seconds:9.2f}")
    curves = {name: points for name, (points, _) in results.items()}
    draw(
        given.plot, f"A small GPT, {given.peers} peers", "MB that a peer has sent", "loss of the next character", curves
    )
    print(f"plot: {given.plot}")


if __name__ == "__main__":
    main()
