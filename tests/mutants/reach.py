"""Which tests reach which statements of the package, in every process that they start.

The tests run on a copy of the package in which every statement of a function first tells that it was reached. A
statement tells this at once, to a file, so that a process that is killed has told it, too.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from trial import ROOT, SCRATCH, SOURCES, copy_of_package, run, run_pytest, sources, write_json

TESTS = ROOT / "tests/python"
LIMIT = 900.0  # seconds that the tests of one file may take

# The module that a told statement calls. A number is written once for each test and process.
TELLER = """
import os

_told = set()

def reached(file, line):
    if (file, line) in _told:
        return
    _told.add((file, line))
    path = os.environ.get("LOCKSTEP_REACHED")
    if path:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(descriptor, f"{file}:{line}\\n".encode())
        except OSError:  # a test limits the size of files
            pass
        finally:
            os.close(descriptor)

def forget():
    _told.clear()
"""


class Telling(ast.NodeTransformer):
    """Puts a call before every statement of every function."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._in_function = False

    def visit(self, node: ast.AST) -> ast.AST:
        was = self._in_function
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if not isinstance(statements, list) or not all(isinstance(one, ast.stmt) for one in statements):
                continue
            inside = was or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            self._in_function = inside and not isinstance(node, ast.ClassDef)
            told: list[ast.stmt] = []
            for one in statements:
                is_docstring = one is statements[0] and name == "body" and _is_text(one)
                if self._in_function and not is_docstring and not isinstance(one, (ast.Global, ast.Nonlocal)):
                    told.append(ast.parse(f"_tell_reached({self._file!r}, {one.lineno})").body[0])
                told.append(self.visit(one))  # type: ignore[arg-type]
            setattr(node, name, told)
        for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            self._in_function = was
            self.visit(handler)
        self._in_function = was
        return node


def telling(file: str, source: str) -> str:
    """The source, with the calls in it."""
    tree = Telling(file).visit(ast.parse(source))
    assert isinstance(tree, ast.Module)
    place = 0
    for place, one in enumerate(tree.body):  # noqa: B007
        if not _is_text(one) and not (isinstance(one, ast.ImportFrom) and one.module == "__future__"):
            break
    tree.body.insert(place, ast.parse("from lockstep_reached import reached as _tell_reached").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def statement_of(source: str, line: int) -> int | None:
    """The line at which the statement of a line tells that it was reached; None outside of functions.

    Of a function's own lines, this is its first statement: decorators and defaults work when the function does.
    """
    found: int | None = None

    def look(node: ast.AST, inside: bool) -> None:
        nonlocal found
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.excepthandler, ast.match_case)):
                look(child, inside)
            if not isinstance(child, ast.stmt) or not _first_line(child) <= line <= (child.end_lineno or 0):
                continue
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found = _begin(child.body)
                look(child, True)
                continue
            if inside:
                found = child.lineno
            look(child, inside)

    look(ast.parse(source), False)
    return found


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _begin(body: Sequence[ast.stmt]) -> int:
    return body[1 if _is_text(body[0]) and len(body) > 1 else 0].lineno


def _is_text(statement: ast.stmt) -> bool:
    """Whether a statement is a constant, such as a docstring."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@dataclasses.dataclass(frozen=True)
class Test:
    """One test that passes."""

    name: str  # pytest's
    seconds: float
    reached: dict[str, list[int]]  # lines of statements, by file
    is_timed: bool = False  # depends on how fast the machine answers


class Recorder:
    """A plugin of pytest that keeps what each passed test has reached, and how long the test took."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "reached"
        self._seconds = 0.0
        self._passed = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._file.unlink(missing_ok=True)
        os.environ["LOCKSTEP_REACHED"] = str(self._file)
        import lockstep_reached  # type: ignore[import-not-found]

        lockstep_reached.forget()
        self._seconds, self._passed = 0.0, True
        outcome = yield
        if self._passed:
            is_timed = any(item.iter_markers("timing"))
            test = Test(item.nodeid, round(self._seconds, 2), self._reached(), is_timed)
            with open(self._folder / "tests", "a") as file:  # at once: a later test may end this process
                print(json.dumps(dataclasses.asdict(test)), file=file)
        return outcome

    def _reached(self) -> dict[str, list[int]]:
        found: dict[str, set[int]] = {}
        if self._file.exists():
            for text in self._file.read_text().splitlines():
                file, _, line = text.rpartition(":")
                found.setdefault(file, set()).add(int(line))
        return {file: sorted(lines) for file, lines in found.items()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds += report.duration
        self._passed = self._passed and report.passed


def tests_of(file: str) -> list[Test]:
    """The tests of a file in tests/python, as recorded, or recorded now if the file or the package has changed."""
    record = SCRATCH / "reach" / f"{file}.json"
    made_of = _hash_of(file)
    try:
        known = json.loads(record.read_text())
    except (OSError, ValueError):
        known = {}
    if known.get("made_of") != made_of:
        tests, code = _record(file)
        known = {"made_of": made_of, "tests": tests}
        if code == 0:  # otherwise the next command tries again
            write_json(record, known)
        else:
            print(f"{file} has ended with {how_ended(code)}: only {len(tests)} passed tests of it are used", flush=True)
    return [Test(**test) for test in known["tests"]]


def how_ended(code: int | None) -> str:
    """How a run of pytest has ended, by what trial.run() returns."""
    if code is None:
        return f"the limit of {LIMIT:g} s"
    return "failed tests" if code == pytest.ExitCode.TESTS_FAILED else f"exit code {code}"


def _record(file: str) -> tuple[list[object], int | None]:
    """The tests of a file that pass, with what they reach; and what the run of pytest has returned."""
    folder = SCRATCH / "told"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = {one: telling(one, (SOURCES / one).read_text()) for one in sources()}
    copy_of_package(folder, texts, int(_hash_of(file)[:7], 16))
    (folder / "lockstep_reached.py").write_text(TELLER)
    recorder = Recorder(folder)
    code = run(folder, lambda: run_pytest([f"tests/python/{file}"], recorder), LIMIT)
    told = folder / "tests"
    return [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else [], code


def _hash_of(file: str) -> str:
    helpers = [path for path in sorted(TESTS.glob("*.py")) if not path.name.startswith("test_")]
    digest = hashlib.sha256()
    for path in [*(SOURCES / one for one in sources()), *helpers, TESTS / file]:
        digest.update(path.read_bytes())
    return digest.hexdigest()
