"""What the command line asks for."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .settings import Setting, default_keys, setting_of
from .words import size_of

T = TypeVar("T")
CONTENDERS = ("open-mpi", "gloo", "ring")


@dataclass(frozen=True)
class Options:
    peers: list[int]
    sizes: list[int]
    rounds: int
    against: list[str]
    settings: list[Setting]
    cpu_size: int  # 0: no such table
    cpus: list[int]  # empty: all
    build: Path
    out: Path


def _list_of(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Of words with commas between them, each once."""

    def read_all(words: str) -> list[T]:
        try:
            return list(dict.fromkeys(read(word.strip()) for word in words.split(",")))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read_all


def _number(least: int, most: int) -> Callable[[str], int]:
    def read(word: str) -> int:
        if not word.isascii() or not word.isdigit() or not least <= int(word) <= most:
            raise ValueError(f"'{word}' is no number from {least} to {most}")
        return int(word)

    return read


def _one(read: Callable[[str], T]) -> Callable[[str], T]:
    return lambda word: _list_of(read)(word.replace(",", "_"))[0]


def _contender(word: str) -> str:
    if word not in CONTENDERS:
        raise ValueError(f"'{word}' is none of {', '.join(CONTENDERS)}")
    return word


def _cpu_size(word: str) -> int:
    return 0 if word == "0" else size_of(word)


def parse(words: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(
        prog="./run bench compare",
        description="All-reduce of f32 by Lockstep, by others, and by a ring with nothing around it, in turn.",
        epilog="Lists have commas between their words: --peers 2,4 --sizes 64K,1M",
    )
    add = parser.add_argument
    add("--peers", type=_list_of(_number(2, 64)), default="2,4,8", help="how many processes (%(default)s)")
    add("--sizes", type=_list_of(size_of), default="4K,64K,1M,16M,64M,256M", help="of tensors (%(default)s)")
    add("--rounds", type=_one(_number(1, 1000)), default="5", help="how often all take their turns (%(default)s)")
    add("--against", type=_list_of(_contender), default=",".join(CONTENDERS), help="whom (%(default)s)")
    add(
        "--settings",
        type=_list_of(setting_of),
        default=",".join(default_keys()),
        help="congestion control: the system's, or of a network namespace for the purpose (%(default)s)",
    )
    add("--cpu-size", type=_one(_cpu_size), default="64M", help="one of them, for which CPU time is told; 0: none (%(default)s)")
    add("--cpus", type=_list_of(_number(0, 4095)), default=[], help="for everything that is measured (all)")
    add("--build", type=Path, default=Path("build/release"), help="folder of the programs (%(default)s)")
    add("--out", type=Path, default=Path("build/bench"), help="folder for compare.json and compare.svg (%(default)s)")
    return Options(**vars(parser.parse_args(words)))


if __name__ == "__main__":
    parse(sys.argv[1:])
