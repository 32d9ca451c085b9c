"""Tests of the hunt for mutants: what changes, what tests reach, what the list says."""

from __future__ import annotations

import contextlib
import io
import tempfile
import textwrap
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import choice
import pytest
import reach
import survivors
from mutations import Mutant, mutants_of
from reach import Test, statement_of, telling
from selection import named, sources_in
from trial import HUNG, SURVIVED, become_reaper, run, sources

SOURCE = textwrap.dedent(
    '''
    """Adds."""
    from __future__ import annotations
    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        from collections.abc import Sequence

    __all__ = ["added"]
    Numbers = list[int]

    class Sum:
        """A sum."""

        def added(self, first: int = 1) -> int:
            """One more."""
            if first < 0:
                raise ValueError(f"{first} is negative", first + 1)
            # the sum
            return first + 2
    '''
)


def mutants() -> list[Mutant]:
    return mutants_of("sum.py", SOURCE)


class Mutations(unittest.TestCase):
    def test_a_mutant_is_one_change_with_the_function_and_the_statement_in_its_name(self) -> None:
        plus = next(mutant for mutant in mutants() if "return" in mutant.name and "{+ -> -}" in mutant.name)
        assert plus.name == "sum.py Sum.added: return first {+ -> -} 2"
        assert SOURCE.splitlines()[plus.line - 1].strip() == "return first + 2"
        assert plus.source() == SOURCE.replace("first + 2", "first - 2")

    def test_names_differ_and_do_not_depend_on_the_lines_before(self) -> None:
        names = [mutant.name for mutant in mutants()]
        assert len(set(names)) == len(names)
        later = mutants_of("sum.py", SOURCE.replace('"""Adds."""', '"""Adds."""\n# a comment\nimport os'))
        assert [mutant.name for mutant in later] == names

    def test_equal_changes_of_one_function_are_numbered(self) -> None:
        names = [mutant.name for mutant in mutants_of("a.py", "def f(x):\n    x += 1\n    x += 1\n")]
        assert "a.py f: x {+ -> -}= 1" in names
        assert "a.py f: x {+ -> -}= 1 #2" in names

    def test_annotations_docstrings_types_and_messages_stay(self) -> None:
        lines = {mutant.line for mutant in mutants()}
        kept = {number for number, line in enumerate(SOURCE.splitlines(), 1) if number not in lines}
        for text in ("__all__", "Numbers", '"""A sum', '"""One more', "TYPE_CHECKING", "import"):
            with self.subTest(text):
                found = {number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line}
                assert found <= kept
        assert "is negative" not in "".join(mutant.name.partition("{")[2].partition("}")[0] for mutant in mutants())

    def test_a_sample_has_about_one_of_so_many_and_is_in_the_sample_of_a_divisor(self) -> None:
        everything = mutants_of("sums.py", "\n".join(f"def f{i}(x):\n    return x + {i}" for i in range(200)))
        few = [mutant for mutant in everything if mutant.drawn(8)]
        assert len(everything) / 16 < len(few) < len(everything) / 4
        assert all(mutant.drawn(4) for mutant in few)


class Selection(unittest.TestCase):
    SOURCES = ("a.py", "b.py", "torch/a.py", "torch/c.py")

    def test_a_source_or_the_sources_of_a_folder(self) -> None:
        for wanted, found in (
            (["b.py"], ["b.py"]),
            (["torch/"], ["torch/a.py", "torch/c.py"]),
            (["./"], ["a.py", "b.py"]),
            (["torch/c.py", "a.py", "torch/"], ["a.py", "torch/a.py", "torch/c.py"]),
        ):
            with self.subTest(wanted):
                assert sources_in(wanted, self.SOURCES) == found

    def test_a_name_without_a_source_is_an_error(self) -> None:
        for name in ("c.py", "torch", "tor/", ""):
            with self.subTest(name), pytest.raises(LookupError):
                sources_in(["a.py", name], self.SOURCES)

    def test_mutants_by_a_piece_of_their_names(self) -> None:
        assert named(mutants(), ["{+ -> -} 2"]) == [one for one in mutants() if one.name.endswith("{+ -> -} 2")]
        assert named(mutants(), ["Sum.added"]) == mutants()
        assert named(mutants(), ["Sum.removed"]) == []


class Reach(unittest.TestCase):
    def test_every_statement_of_a_function_tells_before_it_runs(self) -> None:
        told: list[tuple[str, int]] = []
        code = telling("sum.py", SOURCE).replace("from lockstep_reached import reached as _tell_reached", "")
        scope: dict[str, Any] = {"_tell_reached": lambda file, line: told.append((file, line))}
        exec(code + "\nresult = Sum().added()", scope)
        assert scope["result"] == 3
        assert scope["Sum"].added.__doc__ == "One more."
        texts = [SOURCE.splitlines()[line - 1].strip() for _, line in told]
        assert texts == ["if first < 0:", "return first + 2"]

    def test_the_statement_of_a_line(self) -> None:
        lines = SOURCE.splitlines()

        def of(text: str) -> str | None:
            line = statement_of(SOURCE, next(number for number, one in enumerate(lines, 1) if text in one))
            return lines[line - 1].strip() if line else None

        assert of("raise") == 'raise ValueError(f"{first} is negative", first + 1)'
        assert of("def added") == "if first < 0:"
        assert of("Numbers") is None

    def test_only_a_recording_in_which_every_test_has_passed_is_kept(self) -> None:
        test = {"name": "a", "seconds": 1.0, "reached": {"a.py": [1]}}
        recordings: list[tuple[list[object], int | None]] = [([], None), ([], 70), ([test], 1), ([test, test], 0)]
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(reach, "SCRATCH", Path(name)),
            mock.patch.object(reach, "_record", side_effect=recordings),
            contextlib.redirect_stdout(io.StringIO()) as output,
        ):
            assert [len(reach.tests_of("test_package.py")) for _ in range(5)] == [0, 0, 1, 2, 2]
        assert output.getvalue().splitlines() == [
            "test_package.py has ended with the limit of 900 s: only 0 passed tests of it are used",
            "test_package.py has ended with exit code 70: only 0 passed tests of it are used",
            "test_package.py has ended with failed tests: only 1 passed tests of it are used",
        ]


class Choice(unittest.TestCase):
    TESTS = (
        Test("slow", 5.0, {"a.py": [1, 2]}),
        Test("quick", 1.0, {"a.py": [1]}),
        Test("timed", 0.1, {"a.py": [1, 2]}, is_timed=True),
        Test("other", 0.1, {"b.py": [1]}),
    )

    def chosen(self, statement: int | None, budget: float = 100) -> list[str]:
        return [test.name for test in choice.chosen(list(self.TESTS), "a.py", statement, budget)]

    def test_tests_that_reach_the_statement_quickest_first_and_timed_ones_last(self) -> None:
        assert self.chosen(1) == ["quick", "slow", "timed"]
        assert self.chosen(2) == ["slow", "timed"]

    def test_tests_in_the_order_of_their_files_for_a_line_outside_of_functions(self) -> None:
        assert self.chosen(None) == ["slow", "quick", "other", "timed"]
        tests = [Test("b.py::x", 2.0, {}), Test("a.py::x", 1.0, {}), Test("b.py::y", 1.0, {})]
        assert [test.name for test in choice.chosen(tests, "c.py", None, 100)] == ["b.py::y", "b.py::x", "a.py::x"]

    def test_the_budget_bounds_the_tests_but_leaves_one(self) -> None:
        assert self.chosen(1, budget=2) == ["quick"]
        assert self.chosen(2, budget=2) == ["slow"]

    def test_the_table_names_each_source_and_files_that_exist(self) -> None:
        table = choice.read_table(choice.TABLE.read_text())
        assert set(table) == set(sources())
        tests = Path(__file__).parents[1] / "python"
        for file in {file for files in table.values() for file in files}:
            assert (tests / file).exists(), file


class Trial(unittest.TestCase):
    def test_a_process_that_takes_too_long_is_killed_with_what_it_has_started(self) -> None:
        become_reaper()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            code = (
                "import os, subprocess, sys\n"
                "command = [sys.executable, '-c', 'input()']\n"
                "child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)\n"
                f"open({str(folder / 'pid')!r}, 'w').write(str(child.pid))\n"
                "os.read(os.pipe()[0], 1)\n"
            )

            def forever() -> int:
                exec(code)
                return 0

            assert run(folder, forever, 2.0) is None
            assert not Path("/proc", (folder / "pid").read_text()).exists()

    def test_the_exit_code_of_a_process(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            assert run(Path(name), lambda: 3, 30.0) == 3


class List(unittest.TestCase):
    TEXT = "# comment\na.py f: {x -> y}\n  equivalent: same\n\na.py g: {x -> y}\n  not yet: hard\n"

    def test_two_lines_for_each_mutant(self) -> None:
        listed = survivors.read(self.TEXT)
        assert [one.kind for one in listed.values()] == [survivors.EQUIVALENT, survivors.NOT_YET]
        for text in ("a.py f: {x -> y}\n", "a.py f: {x -> y}\n  because: no\n", self.TEXT + self.TEXT):
            with self.subTest(text), pytest.raises(ValueError, match="in the list of survivors"):
                survivors.read(text)

    def test_a_survivor_must_be_listed_and_a_listed_mutant_must_survive_and_exist(self) -> None:
        listed = survivors.read(self.TEXT)
        first, second = listed
        assert survivors.compare(listed, [first], ["a.py h"], {first, second}) == survivors.Verdict([], [], [])
        assert survivors.compare(listed, ["a.py new"], [], {first, second}).unlisted == ["a.py new"]
        assert survivors.compare(listed, [], [first], {first, second}).killed == [first]
        assert survivors.compare(listed, [], [], {first}).gone == [second]
        assert survivors.compare(listed, [], [], {"b.py f"}).gone == []

    def test_the_list_in_the_tree_can_be_read(self) -> None:
        survivors.read(survivors.LIST.read_text())
        assert SURVIVED != HUNG


if __name__ == "__main__":
    unittest.main()
