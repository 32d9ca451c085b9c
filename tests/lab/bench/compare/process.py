"""One program at a time: what it prints, and what it costs."""

import os
import resource
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GRACE_S = 5


class Failed(Exception):
    """A program did not do what it was asked; says why in one line."""


@dataclass(frozen=True)
class Ended:
    output: str
    cpu_seconds: float  # of the program and everything that it started


def children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" -\t*")]
    return lines[-1] if lines else "it said nothing"


def _end(program: subprocess.Popen[str]) -> None:
    """Asked first: who starts others ends them."""
    os.killpg(program.pid, signal.SIGTERM)
    try:
        program.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)


def run(words: Sequence[str], variables: Mapping[str, str], timeout_s: float) -> Ended:
    before = children_cpu_seconds()
    try:
        program = subprocess.Popen(
            words,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise Failed(f"cannot run {words[0]}: {error.strerror}") from error
    with program:
        try:
            output, errors = program.communicate(timeout=timeout_s)
        except BaseException as error:  # an interruption too: nothing is left behind
            _end(program)
            if isinstance(error, subprocess.TimeoutExpired):
                raise Failed(f"was not done after {timeout_s:.0f} s") from error
            raise
    if program.returncode != 0:
        raise Failed(f"ended with {program.returncode}: {last_line(errors or output)}")
    return Ended(output, children_cpu_seconds() - before)
