"""Runs torch's own tests of distributed backends (torch.testing._internal.distributed.distributed_test) over Lockstep.

    torch_suite.py [--compare] [--backend lockstep|gloo] [--world 3] [--part 1/7] [test ...]

Without --compare: runs the tests over one backend, prints a line for each, and fails if a test fails. With --compare:
runs them over Gloo and over Lockstep, prints a table, and fails if Lockstep fails a test that Gloo passes. Torch itself
skips a test that needs a GPU or another number of ranks.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

_SECONDS_EACH = 120
_RESULT = "torch-suite: "  # before a line of JSON


@dataclasses.dataclass
class Result:
    """How a test ended: "passed", "failed" or "skipped"; what it said; its time in seconds."""

    name: str
    outcome: str
    text: str
    seconds: float


class _ActsAs(str):
    """The name of a backend that the tests treat as Gloo: torch decides by the name what a test expects."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) or other == "gloo"

    def __ne__(self, other: object) -> bool:
        return not self == other


def _suite_of(backend: str, world: int, folder: str) -> Any:
    """Torch's test class with this backend. Its processes are forked, which spares each the import of torch."""
    os.environ.update(
        BACKEND="gloo",
        WORLD_SIZE=str(world),
        TEMP_DIR=folder,
        INIT_METHOD=f"file://{folder}/init",
        DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(_SECONDS_EACH),
    )
    import torch
    from torch.testing._internal.distributed import distributed_test

    torch.set_num_threads(1)
    logging.getLogger("torch").setLevel(logging.ERROR)
    if backend != "gloo":
        import lockstep.torch

        lockstep.torch.register()
        distributed_test.BACKEND = _ActsAs(backend)
        torch.distributed.monitored_barrier = lockstep.torch.monitored_barrier  # torch's refuses all backends but Gloo

    class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Suite


def _run_here(backend: str, world: int, names: list[str], part: tuple[int, int]) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        suite = _suite_of(backend, world, folder)
        every = list(unittest.TestLoader().getTestCaseNames(suite))
        unknown = sorted(set(names) - set(every))
        if unknown:
            raise SystemExit(f"torch has no test {', '.join(unknown)}")
        return [_run_one(suite, name) for name in (names or every)[part[0] - 1 :: part[1]]]


def _run_one(suite: Any, name: str) -> Result:
    began, result = time.monotonic(), unittest.TestResult()
    suite(name).run(result)
    wrong = [text for _, text in result.failures + result.errors]
    outcome = "failed" if wrong else "skipped" if result.skipped else "passed"
    return Result(name, outcome, "\n".join(wrong + [text for _, text in result.skipped]), time.monotonic() - began)


def run_apart(backend: str, world: int, names: list[str], part: str = "1/1") -> list[Result]:
    """Runs tests in a process of their own, because torch's module is bound to one backend when it is imported."""
    command = [sys.executable, __file__, "--json", "--backend", backend, "--world", str(world), "--part", part, *names]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False)
    lines = ended.stdout.splitlines()
    results = [Result(**json.loads(line.removeprefix(_RESULT))) for line in lines if line.startswith(_RESULT)]
    if ended.returncode != 0 or not results:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stdout[-4000:]}")
    return results


def _compare(world: int, names: list[str], part: str) -> int:
    ours = {one.name: one for one in run_apart("lockstep", world, names, part)}
    control = {one.name: one for one in run_apart("gloo", world, names, part)}
    for title, results in (("Lockstep", ours), ("Gloo", control)):
        count = collections.Counter(one.outcome for one in results.values())
        seconds = sum(one.seconds for one in results.values())
        print(
            f"{title:10} {world} ranks: {count['passed']:4} passed {count['failed']:4} failed "
            f"{count['skipped']:4} skipped {seconds:6.0f} s"
        )
    worse = [one for one in ours.values() if one.outcome != "passed" and control[one.name].outcome == "passed"]
    for one in worse:
        print(f"\nGloo passes {one.name}; over Lockstep it {one.outcome}:\n{one.text[-2000:]}")
    for one in control.values():
        if one.outcome == "failed" and ours[one.name].outcome == "passed":
            print(f"Gloo fails {one.name}; Lockstep passes it")
    return 1 if worse else 0


def _part(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part such as 1/7")
    return int(number), int(of)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="names of tests; default: all")
    parser.add_argument("--compare", action="store_true", help="runs Gloo, too, and prints a table")
    parser.add_argument("--backend", choices=("lockstep", "gloo"), default="lockstep")
    parser.add_argument("--world", type=int, default=3, help="number of ranks (3)")
    parser.add_argument("--part", type=_part, default=(1, 1), help="only the i-th of n parts, such as 1/7")
    parser.add_argument("--json", action="store_true", help="prints a line of JSON for each test")
    given = parser.parse_args()
    if given.compare:
        return _compare(given.world, given.tests, "{}/{}".format(*given.part))
    results = _run_here(given.backend, given.world, given.tests, given.part)
    for one in results:
        print(_RESULT + json.dumps(dataclasses.asdict(one)) if given.json else f"{one.outcome} {one.name}", flush=True)
        if one.outcome == "failed" and not given.json:
            print(one.text)
    return 1 if not given.json and any(one.outcome == "failed" for one in results) else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.exit(main())
