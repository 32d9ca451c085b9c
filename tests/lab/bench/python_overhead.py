"""What an all-reduce costs more from Python than from C: `lockstep bench` and two Python peers take turns.

PYTHONPATH=build/release/bindings/python python tests/lab/bench/python_overhead.py build/release/bindings/cli/lockstep
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from typing import List

SIZES = {"4K": (4 << 10, 2000), "256M": (256 << 20, 5)}


def peer(address: str, size: int, calls: int) -> None:
    """Prints the microseconds of each call, as JSON."""
    import numpy as np

    import lockstep

    with lockstep.connect(address, founders=2, timeout=30) as run:
        array = np.zeros(size // 4, np.float32)
        times = []
        last = time.perf_counter_ns()
        for _ in range(calls + max(3, calls // 20)):  # one after the other, as `lockstep bench` does
            run.all_reduce(array)
            now = time.perf_counter_ns()
            times.append((now - last) / 1000)
            last = now
    print(json.dumps(times[-calls:]))


def from_python(size: int, calls: int) -> float:
    """Median of the slower peer's microseconds."""
    import lockstep

    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        command = [sys.executable, __file__, "--peer", coordinator.address, str(size), str(calls)]
        peers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
        times = [json.loads(one.communicate()[0]) for one in peers]
    return statistics.median(max(both) for both in zip(*times))


def from_c(program: str, size: str, calls: int) -> float:
    """The same of the C library."""
    command = [program, "bench", "-p", "2", "-b", size, "-e", size, "-n", str(calls), "--only", "in", "--json"]
    row = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["rows"][0]
    return statistics.median(row["in_place"]["calls_us"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", help="the lockstep program")
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--peer", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:
        return peer(given.peer[0], int(given.peer[1]), int(given.peer[2]))
    for name, (size, calls) in SIZES.items():
        c: List[float] = []
        python: List[float] = []
        for _ in range(given.turns):
            c.append(from_c(given.program, name, calls))
            python.append(from_python(size, calls))
        more = statistics.median(python) - statistics.median(c)
        print(
            f"{name}: C {statistics.median(c):.1f} us ({', '.join(f'{t:.1f}' for t in c)}), "
            f"Python {statistics.median(python):.1f} us ({', '.join(f'{t:.1f}' for t in python)}): "
            f"{more:+.1f} us, {100 * more / statistics.median(c):+.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
