"""Calls of torch.distributed: the backend lockstep beside Lockstep from C and from Python, and beside Gloo.

    ./run bench torch --peers 2,4 --sizes 4K,1M --turns 5
    ./run bench torch --call send --peers 2

All four take turns, and the order of every second turn is reversed, so what else the machine does meets all of them.
The three that run in Python use the same processes, the same tensor and, except Gloo, the same run; C is
`lockstep bench`, in processes of its own, while the others sleep. TCP on loopback, f32. all_reduce: in place; a call
takes as long as on the slowest process. send: ranks 0 and 1, 2 and 3, and so on send to each other in turns; the time
is half of a round trip. Only ratios and differences within one run mean something.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from compare.machine import Watch, description
from compare.summary import Spread
from compare.table import spread_words, table, time_words
from compare.words import size_of, size_words, three_digits

CONTENDERS = {"c": "C", "python": "Python", "torch": "torch over Lockstep", "gloo": "torch over Gloo"}


@dataclass(frozen=True)
class Row:
    """What one size took among so many peers: the median seconds of a call, of each turn, by contender."""

    peers: int
    size: int
    turns: Mapping[str, Sequence[float]]

    def more(self, than: str) -> Spread:
        """Seconds that a call through torch takes more, over the turns."""
        return Spread.of([ours - other for ours, other in zip(self.turns["torch"], self.turns[than])])

    def ratio(self, to: str) -> Spread:
        """A call through torch over one of `to`, over the turns."""
        return Spread.of([ours / other for ours, other in zip(self.turns["torch"], self.turns[to])])


def calls_of(size: int) -> int:
    """Calls of one turn."""
    return max(3, min(1000, (256 << 20) // size))


def seconds_of_turn(of_peers: Sequence[Sequence[float]]) -> float:
    """The median call. A call takes as long as on the slowest peer."""
    return float(median(max(of_all) for of_all in zip(*of_peers)))


def order_of(turn: int) -> list[str]:
    """Every second turn is reversed."""
    return list(CONTENDERS) if turn % 2 == 0 else list(CONTENDERS)[::-1]


def report(rows: Sequence[Row]) -> str:
    head = ["peers", "tensor", *CONTENDERS.values(), "torch - C", "torch / C", "torch - Python", "torch / Gloo"]
    return table(head, [_line(row) for row in rows])


def _line(row: Row) -> list[str]:
    times = [time_words(Spread.of(row.turns[key])) for key in CONTENDERS]
    differences = [
        f"{row.more(key).median * 1e6:+.1f} us ({row.more(key).least * 1e6:+.1f} to {row.more(key).most * 1e6:+.1f})"
        for key in ("c", "python")
    ]
    ratios = [f"{three_digits(row.ratio(key).median)} ({spread_words(row.ratio(key))})" for key in ("c", "gloo")]
    return [str(row.peers), size_words(row.size), *times, differences[0], ratios[0], differences[1], ratios[1]]


# ---- one process of torch ----


class AllReduce:
    """Sums of ones, in place."""

    parts = 1  # equal parts of a call that are measured

    def __init__(self, elements: int, gloo: Any) -> None:
        import torch
        import torch.distributed as dist

        world: Any = dist.group.WORLD
        self._size = dist.get_world_size()
        self._tensor = tensor = torch.ones(elements)
        run, array = world.communicator, tensor.numpy()
        self.calls: dict[str, Callable[[], object]] = {
            "python": lambda: run.all_reduce(array),
            "torch": lambda: dist.all_reduce(tensor),
            "gloo": lambda: dist.all_reduce(tensor, group=gloo),
        }

    def prepare(self) -> None:
        self._tensor.fill_(1)

    def check(self, who: str) -> None:
        if not (self._tensor == self._size).all():
            raise SystemExit(f"{who}: a sum of {self._size} ones is {self._tensor.min()} to {self._tensor.max()}")
        self._tensor.zero_()  # sums in place grow


class RoundTrip:
    """A message to the other rank of the pair, and one back."""

    parts = 2

    def __init__(self, elements: int, gloo: Any) -> None:
        import torch
        import torch.distributed as dist

        world: Any = dist.group.WORLD
        run, rank = world.communicator, dist.get_rank()
        self._partner = partner = rank ^ 1
        self._given, self._got = given, got = torch.full((elements,), float(rank)), torch.empty(elements)
        sent, received, member = given.numpy(), got.numpy(), run.members()[partner]

        def turns(send: Callable[[], object], receive: Callable[[], object]) -> Callable[[], object]:
            first, second = (send, receive) if rank % 2 == 0 else (receive, send)
            return lambda: (first(), second())

        self.calls: dict[str, Callable[[], object]] = {
            "python": turns(lambda: run.send(sent, member), lambda: run.recv(received, member)),
            "torch": turns(lambda: dist.send(given, partner), lambda: dist.recv(got, partner)),
            "gloo": turns(lambda: dist.send(given, partner, group=gloo), lambda: dist.recv(got, partner, group=gloo)),
        }

    def prepare(self) -> None:
        self._got.fill_(-1)

    def check(self, who: str) -> None:
        if not (self._got == self._partner).all():
            raise SystemExit(f"{who}: rank {self._partner} sent its rank, and {self._got.unique()} came")


CALLS: dict[str, type[AllReduce] | type[RoundTrip]] = {"all_reduce": AllReduce, "send": RoundTrip}


def measured(call: Callable[[], object], calls: int) -> list[float]:
    """Seconds of each call, one after the other, as `lockstep bench` does it. Some calls before warm up."""
    times = []
    last = time.perf_counter()
    for _ in range(calls + max(2, calls // 20)):
        call()
        now = time.perf_counter()
        times.append(now - last)
        last = now
    return times[-calls:]


def peer(kind: str, rank: int, size: int, store: str) -> None:
    """Reads lines with a contender, a size in bytes and a number of calls. Answers with the seconds of each call."""
    import lockstep.torch
    import torch.distributed as dist

    lockstep.torch.register()
    dist.init_process_group("lockstep", init_method=f"file://{store}", rank=rank, world_size=size)
    gloo = dist.new_group(backend="gloo")
    subjects: dict[int, AllReduce | RoundTrip] = {}  # the one of the last size
    print("ready", flush=True)
    for line in sys.stdin:
        who, words, count = line.split()
        if int(words) not in subjects:
            subjects.clear()
            subjects[int(words)] = CALLS[kind](int(words) // 4, gloo)
        subject = subjects[int(words)]
        subject.prepare()
        subject.calls[who]()
        subject.check(who)
        times = measured(subject.calls[who], int(count))
        print(json.dumps([seconds / subject.parts for seconds in times]), flush=True)
    dist.destroy_process_group()


# ---- all of them ----


class Peers:
    """So many processes of torch, which wait for their next measurement."""

    def __init__(self, kind: str, count: int, store: str, coordinator: str) -> None:
        variables = {
            **os.environ,
            "LOCKSTEP_COORDINATOR": coordinator,
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, "--peer", kind, str(rank), str(count), store],
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(count)
        ]
        try:
            for process in self._processes:
                self._answer(process)
        except BaseException:
            self.close()
            raise

    def measure(self, who: str, size: int) -> float:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{who} {size} {calls_of(size)}\n")
            process.stdin.flush()
        return seconds_of_turn([json.loads(self._answer(process)) for process in self._processes])

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
def peers_of(kind: str, count: int) -> Iterator[Peers]:
    import lockstep

    with tempfile.TemporaryDirectory() as folder, lockstep.Coordinator("127.0.0.1:0") as coordinator:
        peers = Peers(kind, count, f"{folder}/store", coordinator.address)
        try:
            yield peers
        finally:
            peers.close()


def from_c(program: str, kind: str, peers: int, size: int) -> float:
    place, half = ("in", "in_place") if kind == "all_reduce" else ("out", "out_of_place")
    words = [program, "bench", "-c", kind, "-p", peers, "-b", size, "-e", size, "-n", calls_of(size), "--only", place]
    ended = subprocess.run([*(str(word) for word in words), "--json"], stdout=subprocess.PIPE, check=True)
    microseconds: list[float] = json.loads(ended.stdout)["rows"][0][half]["calls_us"]
    return median(microseconds) * 1e-6


def row_of(program: str, kind: str, peers: Peers, count: int, size: int, turns: int) -> Row:
    times: dict[str, list[float]] = {key: [] for key in CONTENDERS}
    for turn in range(turns):
        for who in order_of(turn):
            times[who].append(from_c(program, kind, count, size) if who == "c" else peers.measure(who, size))
    return Row(count, size, times)


def _numbers(words: str) -> list[int]:
    return [int(word) for word in words.split(",")]


def _sizes(words: str) -> list[int]:
    return [size_of(word) for word in words.split(",")]


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bindings/cli/lockstep", help="the lockstep program")
    parser.add_argument("--call", choices=CALLS, default="all_reduce", help="the call to measure (all_reduce)")
    parser.add_argument("--peers", type=_numbers, default=[2, 4], help="numbers of processes (2,4)")
    parser.add_argument(
        "--sizes", type=_sizes, default=[4 << 10, 1 << 20, 64 << 20, 256 << 20], help="(4K,1M,64M,256M)"
    )
    parser.add_argument("--turns", type=int, default=7, help="of each, per size (7)")
    parser.add_argument(
        "--json", default="build/bench/torch.json", help="where every turn goes (build/bench/torch.json)"
    )
    parser.add_argument("--peer", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.call == "send" and any(count % 2 for count in options.peers):
        parser.error(f"--peers {','.join(map(str, options.peers))}: send needs pairs: give even numbers")
    return options


def main(arguments: Sequence[str]) -> None:
    options = options_of(arguments)
    if options.peer:
        kind, rank, size, store = options.peer
        return peer(kind, int(rank), int(size), store)
    watch, rows = Watch.start(), []
    for count in options.peers:
        with peers_of(options.call, count) as peers:
            for size in options.sizes:
                rows.append(row_of(options.program, options.call, peers, count, size, options.turns))
                print(f"{count} peers, {size_words(size)}: done", file=sys.stderr, flush=True)
    print(report(rows))
    print(f"{watch.seconds():.0f} s; other work took {watch.cores_of_others():.1f} CPUs.")
    path = Path(options.json)
    path.parent.mkdir(parents=True, exist_ok=True)
    found = [{"peers": row.peers, "bytes": row.size, "seconds": row.turns} for row in rows]
    path.write_text(json.dumps({"machine": description(), "call": options.call, "rows": found}, indent=1) + "\n")
    print(f"every turn: {path}")


if __name__ == "__main__":
    main(sys.argv[1:])
