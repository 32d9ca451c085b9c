"""GB/s of an all-reduce of two processes on this machine, by size: the first call and later ones, and their memory.

./run bench large [--sizes 64M,256M,1G] [--out] [--calls 3]

--out: the result goes to another array, so no copy of the input is kept.
GB/s: bytes of the array by seconds. CPU and faults: of rank 0 in the call; on a busy machine they say more than GB/s.
Memory: the peak of rank 0. Each process needs twice the size."""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time

import lockstep
import numpy as np

PATIENCE = 300.0  # seconds: a machine that is busy with other things loses nobody
UNITS = {"K": 10, "M": 20, "G": 30}


def bytes_of(text: str) -> int:
    return int(text[:-1]) << UNITS[text[-1]] if text[-1] in UNITS else int(text)


def peer(address: str, size: int, calls: int, has_out: bool) -> None:
    communicator = lockstep.Communicator(
        founders=2, listen_host="127.0.0.1", link_silence=PATIENCE, link_timeout=2 * PATIENCE
    )
    communicator.connect(address)
    with communicator as run:
        array = np.ones(size, np.uint8)
        out = np.ones(size, np.uint8) if has_out else None
        figures = []
        is_first = run.rank == 0  # before the other one leaves
        for _ in range(calls):
            run.barrier()
            before, begin = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            run.all_reduce(array, out)
            seconds, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF)
            kernel = after.ru_stime - before.ru_stime
            cpu = after.ru_utime - before.ru_utime + kernel
            figures.append((seconds, cpu, kernel, after.ru_minflt - before.ru_minflt))
        if is_first:
            first, cpu, kernel, faults = figures[0]
            later, later_cpu = min(figure[0] for figure in figures[1:]), min(figure[1] for figure in figures[1:])
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
            print(
                f"{size / 2**20:7.0f} MiB  first {size / first / 1e9:6.2f} GB/s, {first:7.3f} s, CPU {cpu:6.3f} s "
                f"(kernel {kernel:6.3f} s), {faults:6} faults  later {size / later / 1e9:6.2f} GB/s, "
                f"CPU {later_cpu:6.3f} s  memory {peak / size:4.1f} times the array",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="64M,256M,1G", help="comma-separated (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=3, help="calls of each size (default: %(default)s)")
    parser.add_argument("--out", action="store_true", help="out of place")
    given = parser.parse_args()
    for size in map(bytes_of, given.sizes.split(",")):
        with lockstep.Coordinator("127.0.0.1:0", silence=PATIENCE) as coordinator:
            arguments = (coordinator.address, size, given.calls, given.out)
            processes = [multiprocessing.Process(target=peer, args=arguments) for _ in range(2)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()


if __name__ == "__main__":
    main()
