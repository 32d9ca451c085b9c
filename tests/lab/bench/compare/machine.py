"""What the measurements were taken on, and whether it was busy with something else."""

import os
import platform
import time
from dataclasses import dataclass
from pathlib import Path

from .process import children_cpu_seconds


def cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("model name", "Model", "Processor"):
            return value.strip()
    return platform.machine()


def available_gib() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / (1 << 20)
    return float("inf")


def description() -> dict[str, object]:
    return {
        "cpu": cpu_model(),
        "cpus": sorted(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "memory_available_gib": round(available_gib(), 1),
    }


def _busy_seconds() -> float:
    """CPU time of all processes of the machine, and what its host took. Without interrupts, which are everybody's."""
    user, nice, system, _idle, _io_wait, _irq, _soft_irq, steal = Path("/proc/stat").read_text().split()[1:9]
    return sum(map(int, (user, nice, system, steal))) / os.sysconf("SC_CLK_TCK")


@dataclass
class Watch:
    """How many cores were busy with what is not ours since it was made."""

    began: float
    busy: float
    ours: float

    @staticmethod
    def start() -> "Watch":
        return Watch(time.monotonic(), _busy_seconds(), _our_seconds())

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def cores_of_others(self) -> float:
        others = _busy_seconds() - self.busy - (_our_seconds() - self.ours)
        return max(others, 0) / max(self.seconds(), 1e-3)


def _our_seconds() -> float:
    return children_cpu_seconds() + time.process_time()
