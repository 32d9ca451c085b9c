"""Hunts the mutants of the Python package with its tests: `./run mutants-python`."""

from __future__ import annotations

import argparse
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import survivors
from choice import Choice
from mutations import Mutant, mutants_of
from reach import Test
from selection import named, sources_in
from trial import HUNG, SCRATCH, SOURCES, SURVIVED, become_reaper, copy_of_package, failure_of, import_slow_modules
from trial import sources as all_sources

EVERY = 48  # the sample that the list of survivors is for: one mutant of so many
LONGER = 6  # a mutant that survives the quickest tests gets so many times their budget


def main(arguments: Sequence[str]) -> int:
    """The exit code of `./run mutants-python`."""
    options = _parsed(arguments)
    mutants, existing = _chosen(options)
    if options.list:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    listed = survivors.read(survivors.LIST.read_text())
    print(f"{len(mutants)} mutants", flush=True)
    become_reaper()
    import_slow_modules(with_torch=any(mutant.file.startswith(("torch/", "train/")) for mutant in mutants))
    outcomes = _hunt(mutants, Choice(), options.budget, options.seconds)
    share = _print_rates(outcomes, listed)
    left = len(mutants) - len(outcomes)
    if left:
        print(f"{left} mutants were left when the time was over")
    survived = [mutant.name for mutant, outcome in outcomes.items() if outcome == SURVIVED]
    killed = [mutant.name for mutant, outcome in outcomes.items() if outcome != SURVIVED]
    verdict = survivors.compare(listed, survived, killed, existing)
    _print_verdict(verdict)
    if options.at_least is not None and share < options.at_least:
        print(f"\nless than {options.at_least:g} % were killed")
        return 1
    return int(bool(verdict.killed or verdict.gone or (verdict.unlisted and options.at_least is None)))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run mutants-python", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="FILE",
        action="append",
        help="only this source, such as train/codec/dct.py; or the sources of a folder: train/, torch/, or ./",
    )
    parser.add_argument(
        "--named", metavar="TEXT", action="append", help="only mutants with this text in their names, whatever --every"
    )
    parser.add_argument("--part", type=_part, metavar="I/N", help="only the I-th of N parts of the mutants")
    parser.add_argument(
        "--every", type=int, default=EVERY, help=f"one mutant of so many, by its name (default: {EVERY})"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="only N of the mutants, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="of --sample (default: 0)")
    parser.add_argument(
        "--budget",
        type=float,
        default=20.0,
        help="seconds of tests for each mutant, or six times as many if it survives these (default: 20)",
    )
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begins no mutant after so many seconds")
    parser.add_argument(
        "--at-least",
        type=float,
        metavar="PERCENT",
        help="survivors that are not in the list fail only if a smaller share of the mutants is killed",
    )
    parser.add_argument("--list", action="store_true", help="prints the mutants and hunts none")
    return parser.parse_args(arguments)


def _part(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError("needs i/n, such as 2/4")
    return int(match[1]), int(match[2])


def _chosen(options: argparse.Namespace) -> tuple[list[Mutant], set[str]]:
    """The mutants to hunt, in a random order that depends on the seed; and the names of all mutants of their files."""
    files = list(all_sources())
    if options.only:
        try:
            files = sources_in(options.only, files)
        except LookupError as error:
            raise SystemExit(f"./run mutants-python: no mutants in '{error}' (files: {' '.join(files)})") from None
    everything = [mutant for file in files for mutant in mutants_of(file, (SOURCES / file).read_text())]
    if options.named:
        mutants = named(everything, options.named)
    else:
        mutants = [mutant for mutant in everything if mutant.drawn(options.every)]
    if options.part:
        part, parts = options.part
        mutants = mutants[len(mutants) * (part - 1) // parts : len(mutants) * part // parts]  # of few sources
    random.Random(options.seed).shuffle(mutants)
    return mutants[: options.sample], {mutant.name for mutant in everything}


def _hunt(mutants: list[Mutant], choice: Choice, budget: float, seconds: float) -> dict[Mutant, str]:
    """What has become of each mutant: trial.SURVIVED, trial.HUNG, or the test that failed."""
    began = time.monotonic()
    outcomes: dict[Mutant, str] = {}
    folder = SCRATCH / "mutant"
    for number, mutant in enumerate(mutants, 1):
        if time.monotonic() - began > seconds:
            break
        quickest = choice.tests_for(mutant, budget)
        at = time.monotonic()
        copy_of_package(folder, {mutant.file: mutant.source()}, mutant.stamp())
        outcome = _outcome(folder, quickest)
        if outcome == SURVIVED:
            more = [test for test in choice.tests_for(mutant, LONGER * budget) if test not in quickest]
            outcome = _outcome(folder, more) if more else outcome
        outcomes[mutant] = outcome
        took = time.monotonic() - at
        word = outcome if outcome in (SURVIVED, HUNG) else f"killed by {outcome.rpartition('/')[2]}"
        print(
            f"[{number}/{len(mutants)}] {took:.1f} s, {mutant.file}:{mutant.line} {mutant.name}\n    {word}", flush=True
        )
    return outcomes


def _outcome(folder: Path, tests: list[Test]) -> str:
    limit = 40.0 + 4 * sum(test.seconds for test in tests)
    return failure_of(folder, [test.name for test in tests], limit)


def _print_rates(outcomes: dict[Mutant, str], listed: dict[str, survivors.Survivor]) -> float:
    """Prints the percentage of killed ones among the mutants that are not equivalent. Returns that of all of them."""
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    hung: Counter[str] = Counter()  # among the killed: on a loaded machine, a limit may also end slow tests
    equivalent: Counter[str] = Counter()
    for mutant, outcome in outcomes.items():
        folder = mutant.file.partition("/")[0] if "/" in mutant.file else ""
        package = f"lockstep/{folder}" if folder else "lockstep"
        for row in (mutant.file, package + ": all", "all"):
            if mutant.name in listed and listed[mutant.name].kind == survivors.EQUIVALENT:
                equivalent[row] += 1
                continue
            tried[row] += 1
            killed[row] += outcome != SURVIVED
            hung[row] += outcome == HUNG
    print(f"\n{'file':32} {'tried':>6} {'killed':>6} {'share':>7} {'hung':>6} {'equivalent':>10}")
    for row in sorted({*tried, *equivalent}, key=lambda row: (row == "all", ": all" in row, row)):
        share = _share(killed[row], tried[row])
        print(f"{row:32} {tried[row]:6} {killed[row]:6} {share:5.1f} % {hung[row]:6} {equivalent[row]:10}")
    return _share(killed["all"], tried["all"])


def _share(killed: int, tried: int) -> float:
    return 100 * killed / tried if tried else 100.0


def _print_verdict(verdict: survivors.Verdict) -> None:
    for title, names in (
        (
            "survive and are not in tests/mutants/survivors.txt: write a test, or list them with a reason",
            verdict.unlisted,
        ),
        ("are listed but killed: delete them from tests/mutants/survivors.txt", verdict.killed),
        ("are listed but do not exist: delete them from tests/mutants/survivors.txt", verdict.gone),
    ):
        if names:
            print(f"\nmutants that {title}")
            for name in names:
                print(f"  {name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
