"""What an outer step of each training strategy costs, beside an all-reduce of the same bytes.

    ./run bench train --params 25M --tensors 48 --strategies LocalSGD,DiLoCo --turns 9

Each strategy has processes of its own, on one machine, over TCP on loopback. They take turns: an all-reduce in place of
one float32 array as large as the parameters, a step of the strategy, and again; each begins at a barrier and takes as
long as on the slowest process. A step is one whole outer step: inner_steps is 1, and of a streaming strategy it is one
reduction of every fragment. Ratios are those of neighbouring turns. Only ratios within one run mean something. The
ratio of work is that of the seconds that all processes spend on CPUs: other programs of the machine change it less.

Memory is what a process holds at most from the construction of the strategy to the end of its third step, less what it
held before: resident bytes as the kernel counts them. Beside it stands what the strategy states: copies of the
parameters in float32, and 64 MiB for what is on its way.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from compare.machine import Watch, description
from compare.summary import Spread
from compare.table import spread_words, table, time_words
from compare.words import three_digits

IN_FLIGHT = 64 << 20  # bytes of pieces on their way, and of the library
FRAGMENTS = 4  # of a streaming strategy
COLUMNS = 1000  # of a matrix


@dataclass(frozen=True)
class Stated:
    """What is stated of a strategy.

    copies: float32 copies of the parameters that it holds. goal: largest ratio to an all-reduce; None: none is set.
    """

    copies: float
    goal: float | None = None


STRATEGIES: Mapping[str, Stated] = {
    "LocalSGD": Stated(1, 1.5),
    "FedAvg": Stated(1, 1.5),
    "DiLoCo": Stated(2, 1.5),
    "StreamingDiLoCo": Stated(3),
    "DESLOC": Stated(5),
    "DataParallel": Stated(1),
    "DPLoRA": Stated(2),
    "SparseLoCo": Stated(2, 3.0),
    "SketchedSGD": Stated(1.2, 3.0),
    "DeMo": Stated(2, 5.0),
    "JustOneByte": Stated(2),
}
DEFAULT = ("LocalSGD", "FedAvg", "DiLoCo", "StreamingDiLoCo", "DataParallel", "SparseLoCo", "SketchedSGD", "DeMo")


@dataclass(frozen=True)
class Row:
    """What one strategy took.

    raw, step: seconds of each turn. raw_work, step_work: seconds of all processes on CPUs in each turn.
    memory: bytes of the process that held the most.
    """

    strategy: str
    bytes: int
    raw: Sequence[float]
    step: Sequence[float]
    raw_work: Sequence[float]
    step_work: Sequence[float]
    memory: int

    @property
    def ratio(self) -> Spread:
        """A step over the all-reduce of its turn."""
        return Spread.of([step / raw for raw, step in zip(self.raw, self.step)])

    @property
    def work(self) -> Spread:
        """The work of a step on CPUs, over that of the all-reduce of its turn."""
        return Spread.of([step / raw for raw, step in zip(self.raw_work, self.step_work)])

    @property
    def bound(self) -> int:
        """What the strategy may hold, in bytes."""
        return int(STRATEGIES[self.strategy].copies * self.bytes) + IN_FLIGHT


def report(rows: Sequence[Row]) -> str:
    head = ["strategy", "all-reduce", "outer step", "ratio", "goal", "ratio of work", "memory", "stated"]
    return table(head, [_line(row) for row in rows])


def _line(row: Row) -> list[str]:
    goal = STRATEGIES[row.strategy].goal
    ratio, work = (f"{three_digits(one.median)} ({spread_words(one)})" for one in (row.ratio, row.work))
    times = [time_words(Spread.of(seconds)) for seconds in (row.raw, row.step)]
    memory = [f"{size / (1 << 20):.0f} MiB" for size in (row.memory, row.bound)]
    return [row.strategy, *times, ratio, "-" if goal is None else f"{goal:g}", work, *memory]


def sizes_of(params: int, tensors: int) -> list[int]:
    """Elements of each tensor: unlike sizes, as a model has them, that add up."""
    weights = [1 + number % 4 for number in range(tensors)]
    ends = [params * sum(weights[: number + 1]) // sum(weights) for number in range(tensors)]
    return [end - begin for begin, end in zip([0, *ends], ends)]


def shape_of(size: int) -> tuple[int, ...]:
    """A matrix of about so many elements, as most parameters are; a vector if it is small."""
    return (size // COLUMNS, COLUMNS) if size >= 64 * COLUMNS else (size,)


def number_of(words: str) -> int:
    """25M, 300k, 7."""
    factor = {"k": 1000, "m": 1_000_000, "g": 1_000_000_000}.get(words[-1:].lower(), 1)
    return int(float(words if factor == 1 else words[:-1]) * factor)


# ---- one process ----


class Trainer:
    """A model, a strategy over it, and an array as large as its parameters."""

    def __init__(self, run: Any, strategy: str, params: int, tensors: int, rank: int) -> None:
        import lockstep.torch  # noqa: F401 - its own memory is not that of a strategy
        import torch

        self._run = run
        generator = torch.Generator().manual_seed(1)
        self._moves = [torch.rand(997, generator=generator) * 1e-3 * (1 + rank) for _ in range(2)]
        self._turn = 0
        self._array: Any = None
        self._enter(strategy, None, [997, 997], generator)  # imports
        self.memory = self._enter(strategy, run, sizes_of(params, tensors), generator)

    def _enter(self, strategy: str, run: Any, sizes: Sequence[int], generator: Any) -> int:
        """Makes a model, and three steps of a strategy over it. Returns the memory that it has needed."""
        import torch

        model: Any = torch.nn.Module()
        model.blocks = torch.nn.ModuleList()
        for size in sizes:
            block = torch.nn.Module()
            block.weight = torch.nn.Parameter(torch.rand(shape_of(size), generator=generator) - 0.5)
            model.blocks.append(block)
        self._parameters = list(model.parameters())
        gradients = [torch.zeros_like(parameter) for parameter in self._parameters]
        before = _resident()
        _forget_peak()
        self._strategy, self._step = strategy_of(strategy, run, model)
        self._strategy.__enter__()
        for parameter, gradient in zip(self._parameters, gradients):
            parameter.grad = gradient
        for _ in range(3):
            self.step()
        return _peak() - before

    def step(self) -> tuple[float, float]:
        """Seconds of an outer step, after parameters and gradients have changed, and of its work on CPUs."""
        import torch

        move = self._moves[self._turn % 2]
        self._turn += 1
        with torch.no_grad():
            for parameter in self._parameters:
                whole = parameter.numel() // move.numel() * move.numel()
                for changed in (parameter, parameter.grad):
                    changed.view(-1)[:whole].view(-1, move.numel()).add_(move)
        return self._timed(self._step)

    def raw(self) -> tuple[float, float]:
        """Seconds of an all-reduce in place of one array, and of its work on CPUs."""
        if self._array is None:
            import numpy as np

            self._array = np.ones(sum(parameter.numel() for parameter in self._parameters), np.float32)
        return self._timed(lambda: self._run.all_reduce(self._array, op="avg"))

    def _timed(self, call: Callable[[], Any]) -> tuple[float, float]:
        if self._run is not None:
            self._run.barrier()
        begin, work = time.perf_counter(), time.process_time()
        call()
        return time.perf_counter() - begin, time.process_time() - work


def strategy_of(name: str, run: Any, model: Any) -> tuple[Any, Callable[[], Any]]:
    """The strategy, and its whole outer step. run: None to train alone."""
    import lockstep.torch as strategies
    import torch

    plain = torch.optim.SGD(model.parameters(), lr=0.0)
    strategy: Any
    if name == "StreamingDiLoCo":
        limit = -(-4 * sum(parameter.numel() for parameter in model.parameters()) // FRAGMENTS)
        cut = strategies.by_bytes(limit)
        count = len(cut(model))
        strategy = strategies.StreamingDiLoCo(
            run, model, plain, inner_steps=count, fragments=cut, tau=0, wire="native", check_every=0
        )
        return strategy, lambda: [strategy.step() for _ in range(count)]
    if name == "DataParallel":
        inner = _Still(model.parameters())
        strategy = strategies.DataParallel(run, model, inner, check_every=0)
        return strategy, lambda: (inner.step(), strategy.step())
    if name == "DeMo":
        strategy = strategies.DeMo(run, model, lr=1e-3, check_every=0)
        return strategy, strategy.step
    if name == "JustOneByte":
        strategy = strategies.JustOneByte(run, model, lr=1e-6, check_every=0)
        return strategy, lambda: strategy.step(lambda: 0.5)
    options: dict[str, Any] = {"inner_steps": 1, "check_every": 0}
    if name == "DPLoRA":
        options["noise_multiplier"] = 1.0
    if name == "DESLOC":
        options["moments"] = {"exp_avg": 1, "exp_avg_sq": 1}
        plain = torch.optim.AdamW(model.parameters(), lr=0.0)
    strategy = getattr(strategies, name)(run, model, plain, **options)
    return strategy, (lambda: strategy.step(1.0)) if name == "FedAvg" else strategy.step


def _Still(parameters: Any) -> Any:
    """An optimizer of torch whose step changes nothing, and which has a state of one number."""
    import torch

    base: Any = torch.optim.Optimizer

    class Still(base):  # type: ignore[misc]
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for parameter in group["params"]:
                    self.state[parameter].setdefault("step", torch.zeros(()))

    return Still(parameters, {"lr": 0.0})


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def peer(coordinator: str, rank: int, peers: int, strategy: str, params: int, tensors: int) -> None:
    """Answers `raw` and `step` with two numbers of seconds; its first line is the memory of the strategy in bytes."""
    import lockstep

    with lockstep.connect(coordinator, founders=peers) as run:
        trainer = Trainer(run, strategy, params, tensors, rank)
        print(trainer.memory, flush=True)
        for line in sys.stdin:
            print(*(trainer.raw() if line.strip() == "raw" else trainer.step()), flush=True)


# ---- all of them ----


class Peers:
    """The processes of one strategy, which wait for their next turn."""

    def __init__(self, coordinator: str, options: argparse.Namespace, strategy: str) -> None:
        words = [strategy, str(options.params), str(options.tensors)]
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--peer", coordinator, str(rank), str(options.peers), *words],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(options.peers)
        ]
        try:
            self.memory = max(int(self._answer(process)) for process in self._processes)
        except BaseException:
            self.close()
            raise

    def measure(self, what: str) -> tuple[float, float]:
        """Seconds on the slowest process, and of the work of all processes on CPUs."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{what}\n")
            process.stdin.flush()
        answers = [[float(word) for word in self._answer(process).split()] for process in self._processes]
        return max(seconds for seconds, _ in answers), sum(work for _, work in answers)

    def _answer(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"a peer ended with {process.wait()}; its error is above")
        return line

    def close(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.communicate()


@contextlib.contextmanager
def peers_of(options: argparse.Namespace, strategy: str) -> Iterator[Peers]:
    import lockstep

    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        peers = Peers(coordinator.address, options, strategy)
        try:
            yield peers
        finally:
            peers.close()


def row_of(options: argparse.Namespace, strategy: str) -> Row:
    with peers_of(options, strategy) as peers:
        for what in ("raw", "step"):
            peers.measure(what)  # the first all-reduce takes its memory
        turns = [peers.measure("raw") + peers.measure("step") for _ in range(options.turns)]
        raw, raw_work, step, step_work = zip(*turns)
        return Row(strategy, 4 * options.params, raw, step, raw_work, step_work, peers.memory)


def _strategies(words: str) -> list[str]:
    names = words.split(",")
    for name in names:
        if name not in STRATEGIES:
            raise argparse.ArgumentTypeError(f"no strategy {name}; there are {', '.join(STRATEGIES)}")
    return names


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--params", type=number_of, default=25_000_000, help="parameters of the model (25M)")
    parser.add_argument("--tensors", type=int, default=48, help="tensors of the model (48)")
    parser.add_argument(
        "--strategies",
        type=_strategies,
        default=list(DEFAULT),
        help=f"of {', '.join(STRATEGIES)} ({','.join(DEFAULT)})",
    )
    parser.add_argument("--turns", type=int, default=7, help="of each strategy (7)")
    parser.add_argument("--peers", type=int, default=2, help="processes (2)")
    parser.add_argument("--json", default="build/bench/train.json", help="every turn (build/bench/train.json)")
    parser.add_argument("--peer", nargs=6, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> None:
    options = options_of(arguments)
    if options.peer:
        coordinator, rank, peers, strategy, params, tensors = options.peer
        return peer(coordinator, int(rank), int(peers), strategy, int(params), int(tensors))
    watch, rows = Watch.start(), []
    for strategy in options.strategies:
        rows.append(row_of(options, strategy))
        print(f"{strategy}: done", file=sys.stderr, flush=True)
    size = f"{4 * options.params / (1 << 20):.0f} MiB"
    print(f"{options.peers} peers, {options.params} parameters in {options.tensors} tensors, {size} of float32\n")
    print(report(rows))
    all_raw = [seconds for row in rows for seconds in row.raw]
    print(f"\nall-reduce, median of all turns: {median(all_raw):.3f} s.")
    print(f"{watch.seconds():.0f} s; other work took {watch.cores_of_others():.1f} CPUs.")
    path = Path(options.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [vars(row) for row in rows]
    path.write_text(json.dumps({"machine": description(), "rows": found}, indent=1) + "\n")
    print(f"every turn: {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
