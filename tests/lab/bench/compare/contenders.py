"""Who is compared: how each is started, and how what it prints is read."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from .process import Failed


@dataclass(frozen=True)
class Work:
    peers: int
    size: int
    calls: int = 0  # 0: about half a second of them
    algorithm: str = ""  # only this one, of those that have several


@dataclass(frozen=True)
class Measured:
    algorithm: str
    seconds: float
    errors: int


class Contender(Protocol):
    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def variables(self) -> Mapping[str, str]:
        """Of the environment."""

    def command(self, work: Work) -> list[str]: ...
    def read(self, output: str) -> list[Measured]:
        """Raises Failed."""

    def missing(self) -> str | None:
        """Why it cannot be compared, in a line."""


def _no_program(path: Path) -> str | None:
    return None if path.is_file() else f"{path} was not built"


@dataclass(frozen=True)
class Lockstep:
    program: Path
    key: str = "lockstep"
    name: str = "Lockstep"
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, work: Work) -> list[str]:
        size = str(work.size)
        calls = ["-n", str(work.calls)] if work.calls else []
        return [str(self.program), "bench", "-p", str(work.peers), "-b", size, "-e", size, "--only", "out", "-j", *calls]

    def read(self, output: str) -> list[Measured]:
        try:
            timings = [row["out_of_place"] for row in json.loads(output)["rows"]]
            return [Measured("", timing["time_us"] * 1e-6, timing["errors"]) for timing in timings]
        except (ValueError, KeyError, TypeError) as error:
            raise Failed(f"printed what is no result: {error}") from error

    def missing(self) -> str | None:
        return _no_program(self.program)


@dataclass(frozen=True)
class Yardstick:
    """A program of yardsticks/: prints lines "bytes microseconds busbw errors [algorithm]"."""

    key: str
    name: str
    program: Path
    launcher: tuple[str, ...] = ()  # what starts the processes; without it the program does
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, work: Work) -> list[str]:
        processes = ["-n", str(work.peers)]
        calls = ["--calls", str(work.calls)] if work.calls else []
        algorithm = ["--algorithm", work.algorithm] if work.algorithm else []
        program = str(self.program)
        start = [*self.launcher, *processes, program] if self.launcher else [program, *processes]
        return [*start, str(work.size), *calls, *algorithm]

    def read(self, output: str) -> list[Measured]:
        try:
            lines = [line.split() for line in output.splitlines()]
            return [Measured(" ".join(line[4:]), float(line[1]) * 1e-6, int(line[3])) for line in lines]
        except (ValueError, IndexError) as error:
            raise Failed(f"printed what is no result: {error}") from error

    def missing(self) -> str | None:
        if self.launcher and shutil.which(self.launcher[0]) is None:
            return f"there is no {self.launcher[0]}"
        return _no_program(self.program)


# Only TCP, over loopback, as everybody; more processes than cores; no word about being root.
_MPIRUN = tuple(
    "mpirun --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include lo --mca oob_tcp_if_include lo"
    " --oversubscribe --allow-run-as-root".split()
)


def all_contenders(build: Path) -> list[Contender]:
    """Lockstep first, the limit last."""
    yardsticks = build / "tests/lab/bench/yardsticks"
    quiet = {"OMPI_MCA_btl_base_warn_component_unused": "0"}
    return [
        Lockstep(build / "bindings/cli/lockstep"),
        Yardstick("open-mpi", "Open MPI", yardsticks / "yardstick_open_mpi", _MPIRUN, variables=quiet),
        Yardstick("gloo", "Gloo", yardsticks / "yardstick_gloo"),
        Yardstick("ring", "ring, the limit", yardsticks / "yardstick_ring"),
    ]
