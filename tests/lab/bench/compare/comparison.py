"""The turns: who is measured when, and what came of it."""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .contenders import Contender, Work
from .machine import available_gib
from .process import Ended, Failed, run
from .settings import Setting
from .summary import Case, CpuSample, Sample, best_timing
from .words import duration_words, size_words

TIMEOUT_S = 600
# CPU time is that of the calls which one run has more than the other: starting, checking and ending are not in it.
FEW_CALLS, MANY_CALLS = 4, 16
# Buffers of a process, in tensors: Gloo's chunked ring has an input, a result and two inboxes.
TENSORS_PER_PROCESS = 4


@dataclass
class Results:
    samples: list[Sample] = field(default_factory=list)
    cpu: list[CpuSample] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    interrupted: bool = False


class Progress:
    """A line on a terminal; elsewhere one per round."""

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self._done = 0
        self._began = time.monotonic()
        self._live = sys.stderr.isatty()

    def turn(self, words: str) -> None:
        if self._live:
            left = (time.monotonic() - self._began) / self._done * (self._turns - self._done) if self._done else None
            rest = f", about {duration_words(left)} left" if left is not None else ""
            print(f"\r\x1b[K{self._done * 100 // self._turns} %{rest}: {words}", end="", file=sys.stderr, flush=True)
        self._done += 1

    def round(self, words: str) -> None:
        if not self._live:
            print(words, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _in_turn(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Another one begins in every round, so that none is always the one after the heaviest."""
    first = number % len(contenders)
    return [*contenders[first:], *contenders[:first]]


class Comparison:
    def __init__(self, contenders: Sequence[Contender], settings: Sequence[Setting], rounds: int) -> None:
        self._contenders = contenders
        self._settings = settings
        self._rounds = rounds
        self.results = Results()
        self._given_up: set[tuple[Case, str]] = set()  # who failed is not asked again

    def run(self, peers: Sequence[int], sizes: Sequence[int], cpu_size: int) -> None:
        times = [(s, Case(s.key, p, size)) for s in self._settings for p in peers for size in sizes]
        times = self._fitting(times)
        cpu = [(setting, case) for setting, case in times if case.size == cpu_size]
        progress = Progress(self._rounds * len(self._contenders) * (len(times) + len(cpu)))
        try:
            self._rounds_of("times", times, self._measure_time, progress)
            self._rounds_of("CPU time", cpu, self._measure_cpu, progress)
        except KeyboardInterrupt:
            self.results.interrupted = True
        progress.end()

    def _fitting(self, cases: list[tuple[Setting, Case]]) -> list[tuple[Setting, Case]]:
        fitting = []
        for setting, case in cases:
            wanted = case.peers * case.size * TENSORS_PER_PROCESS / (1 << 30)
            if wanted <= available_gib():
                fitting.append((setting, case))
            else:
                self.results.left_out.append(
                    f"{setting.key}, {case.peers} peers, {size_words(case.size)}: wants {wanted:.0f} GiB of memory"
                )
        return fitting

    def _rounds_of(
        self,
        what: str,
        cases: Sequence[tuple[Setting, Case]],
        measure: Callable[[Setting, Case, Contender, int], None],
        progress: Progress,
    ) -> None:
        for number in range(self._rounds if cases else 0):
            progress.round(f"{what}: round {number + 1} of {self._rounds}")
            for setting, case in cases:
                for contender in _in_turn(self._contenders, number):
                    words = f"{setting.key}, {case.peers} peers, {size_words(case.size)}, {contender.name}"
                    progress.turn(f"{what}, round {number + 1}: {words}")
                    if (case, contender.key) in self._given_up:
                        continue
                    try:
                        measure(setting, case, contender, number)
                    except Failed as why:
                        self._given_up.add((case, contender.key))
                        self.results.failures.append(f"{words}: {why}")

    def _start(self, setting: Setting, contender: Contender, work: Work) -> Ended:
        return run(setting.command(contender.command(work)), contender.variables, TIMEOUT_S)

    def _measure_time(self, setting: Setting, case: Case, contender: Contender, number: int) -> None:
        ended = self._start(setting, contender, Work(case.peers, case.size))
        measured = contender.read(ended.output)
        if not measured:
            raise Failed("printed no result")
        for one in measured:
            self.results.samples.append(Sample(case, contender.key, one.algorithm, number, one.seconds, one.errors))
            if one.errors:
                raise Failed(f"{one.errors} ELEMENTS ARE WRONG {one.algorithm}".rstrip())

    def _measure_cpu(self, setting: Setting, case: Case, contender: Contender, number: int) -> None:
        algorithm = best_timing(s for s in self.results.samples if s.case == case and s.contender == contender.key).algorithm
        few, many = (
            self._start(setting, contender, Work(case.peers, case.size, calls, algorithm)).cpu_seconds
            for calls in (FEW_CALLS, MANY_CALLS)
        )
        gib = (MANY_CALLS - FEW_CALLS) * case.size / (1 << 30)
        self.results.cpu.append(CpuSample(case, contender.key, number, (many - few) / gib))
