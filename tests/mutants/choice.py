"""Chooses the tests for a mutant: those that reach its statement, quickest first."""

from __future__ import annotations

import functools
from pathlib import Path

from mutations import Mutant
from reach import Test, statement_of, tests_of
from trial import SOURCES

TABLE = Path(__file__).with_name("tests.txt")
PER_SECOND = 10  # the most tests for each second of the budget: the shortest ones take longer than they measure


def read_table(text: str) -> dict[str, list[str]]:
    """The files with the tests of each source: lines `source: file file`."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {source: files.split() for source, _, files in (line.partition(":") for line in lines)}


def chosen(tests: list[Test], file: str, statement: int | None, budget: float) -> list[Test]:
    """Tests that reach the statement, quickest first, while their sum is below the budget in seconds.

    Tests that depend on time come last: a slow machine would seem to kill mutants.

    statement: None for a line outside of functions, which any test may depend on: the tests come in the order of their
    files. If no test reaches the statement, all tests that reach the file are candidates.
    """
    if statement is None:
        place = {name: i for i, name in enumerate(dict.fromkeys(_file_of(test) for test in tests))}
        candidates = sorted(tests, key=lambda test: (test.is_timed, place[_file_of(test)], test.seconds))
    else:
        reach_file = [test for test in tests if file in test.reached]
        reach_statement = [test for test in reach_file if statement in test.reached[file]]
        candidates = sorted(reach_statement or reach_file or tests, key=lambda test: (test.is_timed, test.seconds))
    found: list[Test] = []
    left = budget
    for test in candidates[: round(PER_SECOND * budget)]:
        left -= test.seconds
        if left < 0 and found:
            break
        found.append(test)
    return found


def _file_of(test: Test) -> str:
    return test.name.partition("::")[0]


class Choice:
    """Chooses tests for mutants; records what tests reach when the first mutant asks."""

    def __init__(self) -> None:
        self._files = read_table(TABLE.read_text())

    @functools.cache  # noqa: B019 - there is one choice
    def _tests_of(self, source: str) -> list[Test]:
        return [test for file in self._files[source] for test in _recorded(file)]

    def tests_for(self, mutant: Mutant, budget: float) -> list[Test]:
        """The tests for a mutant, within a budget of seconds. Raises LookupError if there are none."""
        tests = self._tests_of(mutant.file)
        statement = statement_of((SOURCES / mutant.file).read_text(), mutant.line)
        found = chosen(tests, mutant.file, statement, budget)
        if not found:
            raise LookupError(f"no test in {' '.join(self._files[mutant.file])} reaches {mutant.file}")
        return found


@functools.cache
def _recorded(file: str) -> list[Test]:
    print(f"records what {file} reaches", flush=True)
    return tests_of(file)
