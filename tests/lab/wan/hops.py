"""The time of the calls of a training loop, in hops: one process of each peer, started by `lockstep_wan run`.

    lockstep_wan run far-16.toml --coordinator 'lockstep coordinator --insecure -l {address}:4000'
        -- python tests/lab/wan/hops.py {coordinator}:4000 --peers {peers}

All members begin a call after a barrier; its time is that of the slowest member. The first member prints a table:
medians, the least and the most, and the median in hops. With --newcomer the process that comes last joins during the
outer steps of the others, and the table has one row: the outer step that admits it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from statistics import median

import lockstep
import numpy as np
import torch
from lockstep.torch import DiLoCo

STATED = {"barrier": 2, "sync of equal states": 2, "admit": 4, "outer step": 3, "outer step that admits": 21}
REPORT_TAG = 77
JOINS_WITHIN_S = 120


def timed(run: lockstep.Communicator, body: Callable[[], object], calls: int) -> list[float]:
    """The seconds of each call, on this member."""
    body()  # the first call opens links, or meets no earlier state
    seconds = []
    for _ in range(calls):
        run.barrier(tag=REPORT_TAG)
        begin = time.monotonic()
        body()
        seconds.append(time.monotonic() - begin)
    return seconds


def slowest(run: lockstep.Communicator, seconds: list[float]) -> list[float]:
    """Of all members, call by call."""
    array = np.array(seconds)
    run.all_reduce(array, op="max", tag=REPORT_TAG)
    return [float(one) for one in array]


def tell(name: str, seconds: list[float], latency: float) -> None:
    words = [f"{1e3 * one:.0f} ms" for one in (median(seconds), min(seconds), max(seconds))]
    hops = f"{median(seconds) / latency:.2f} hops"
    print(f"{name:24} {STATED[name]:2} hops {words[0]:>8} ({words[1]} to {words[2]}) {hops:>12}", flush=True)


def trainer(run: lockstep.Communicator | None, parameters: int) -> tuple[DiLoCo, Callable[[], object]]:
    """A strategy, and an inner step that is an outer step, too."""
    model = torch.nn.Linear(parameters, 1, bias=False)
    inner = torch.optim.SGD(model.parameters(), lr=0.01)
    strategy = DiLoCo(run, model, inner, inner_steps=1, check_every=0)

    def step() -> object:
        inner.zero_grad()
        model(torch.ones(1, parameters)).sum().backward()
        inner.step()
        return strategy.step()

    return strategy, step


def warm_up(parameters: int) -> None:
    """Trains alone: what torch loads late is loaded when this process joins the run."""
    strategy, step = trainer(None, parameters)
    with strategy:
        step()


def members_call(run: lockstep.Communicator, options: argparse.Namespace) -> None:
    state = lockstep.State({"weights": np.ones(options.parameters, np.float32)}, revision=1)
    rows = {
        "barrier": timed(run, lambda: run.barrier(tag=1), options.calls),
        "sync of equal states": timed(run, lambda: run.sync(state, tag=2), options.calls),
        "admit": timed(run, run.admit, options.calls),
    }
    strategy, step = trainer(run, options.parameters)
    with strategy:
        rows["outer step"] = timed(run, step, options.calls)
    for name, seconds in rows.items():
        whole = slowest(run, seconds)
        if run.rank == 0:
            tell(name, whole, options.latency)


def newcomer_joins(run: lockstep.Communicator, options: argparse.Namespace) -> None:
    """Outer steps until one of them has admitted the newcomer."""
    strategy, step = trainer(run, options.parameters)
    seconds = 0.0
    with strategy:
        end = time.monotonic() + JOINS_WITHIN_S
        while run.world_size < options.peers and time.monotonic() < end:
            begin = time.monotonic()
            step()
            seconds = time.monotonic() - begin
        joined = run.world_size == options.peers
    if run.rank == 0 and joined:
        tell("outer step that admits", [seconds], options.latency)
    elif not joined:
        print(f"no newcomer joined within {JOINS_WITHIN_S} s", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coordinator", help="host:port, of a coordinator that is insecure; or its run token")
    parser.add_argument("--peers", type=int, required=True, help="processes")
    parser.add_argument("--calls", type=int, default=9, help="that are measured, of each kind (%(default)s)")
    parser.add_argument("--parameters", type=int, default=1024, help="of the model, f32 (%(default)s)")
    parser.add_argument("--latency", type=float, default=0.04, help="seconds of a hop (%(default)s)")
    parser.add_argument("--newcomer", action="store_true", help="one process joins while the others train")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warm_up(options.parameters)
    founders = options.peers - (1 if options.newcomer else 0)  # the process that comes last is the newcomer
    with lockstep.connect(options.coordinator, founders=founders, timeout=300, insecure=True) as run:
        (newcomer_joins if options.newcomer else members_call)(run, options)
        run.leave()
    return 0


if __name__ == "__main__":
    sys.exit(main())
