"""What an array of a list costs: an all-reduce of a list of small arrays beside that of one array of the same bytes.

./run bench lists [--arrays 10000] [--elements 25] [--calls 7]

Two processes on this machine. Microseconds: what the fastest calls take more than the flat call for each array of the
list, and their CPU on rank 0.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from typing import Any

import lockstep
import numpy as np


def peer(address: str, kind: str, arrays: int, elements: int, calls: int) -> None:
    flat: Any = np.ones(arrays * elements, np.float32)
    many: Any = [np.ones(elements, np.float32) for _ in range(arrays)]
    if kind == "torch":
        import torch

        torch.set_num_threads(1)
        flat, many = torch.from_numpy(flat), [torch.from_numpy(array) for array in many]
    best = {"flat": (9e9, 9e9), "list": (9e9, 9e9)}
    with lockstep.connect(address, founders=2, listen_host="127.0.0.1") as run:
        is_first = run.rank == 0  # before the other one leaves
        for _ in range(calls + 1):
            for name, given in (("flat", flat), ("list", many)):
                run.barrier()
                begin, cpu = time.perf_counter(), time.process_time()
                run.all_reduce(given, op="avg")
                figures = (time.perf_counter() - begin, time.process_time() - cpu)
                best[name] = (min(best[name][0], figures[0]), min(best[name][1], figures[1]))
        if is_first:
            seconds, cpu = (1e6 * (best["list"][i] - best["flat"][i]) / arrays for i in range(2))
            print(
                f"{kind}: {arrays} arrays of {elements} float32: flat {best['flat'][0] * 1e3:.2f} ms, list "
                f"{best['list'][0] * 1e3:.2f} ms: {seconds:.2f} us for each array, CPU {cpu:.2f} us",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrays", type=int, default=10_000, help="arrays of the list (default: %(default)s)")
    parser.add_argument("--elements", type=int, default=25, help="elements of each (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=7, help="calls of each kind (default: %(default)s)")
    given = parser.parse_args()
    for kind in ("numpy", "torch"):
        with lockstep.Coordinator("127.0.0.1:0") as coordinator:
            arguments = (coordinator.address, kind, given.arrays, given.elements, given.calls)
            processes = [multiprocessing.Process(target=peer, args=arguments) for _ in range(2)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()


if __name__ == "__main__":
    main()
