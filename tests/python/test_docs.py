"""What people read: docstrings of every public name, and the Python in the READMEs, which runs as it stands there."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lockstep
import lockstep.sim
import pytest
from support import in_threads

ROOT = Path(__file__).parents[2]
README, GUIDE = ROOT / "README.md", ROOT / "bindings" / "python" / "README.md"
EXAMPLE = ROOT / "bindings" / "examples" / "python" / "logistic_regression.py"

needs_sources = pytest.mark.skipif(not GUIDE.exists(), reason="the sources are not here: an installed package")

WITH_EXAMPLE = [
    "connect",
    "wait_any",
    "Communicator",
    "Communicator.all_reduce",
    "Coordinator",
    "PeerId",
    "Result",
    "State",
    "Work",
    "sim.Swarm",
]


def public(module: types.ModuleType, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every public name of a module and of its classes, with what it names."""
    for name in module.__all__:
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue  # modules, versions, names of types
        yield prefix + name, thing
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    yield f"{prefix}{name}.{member}", value


PUBLIC = dict([*public(lockstep), *public(lockstep.errors), *public(lockstep.sim, "sim.")])


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_has_a_docstring(name: str) -> None:
    text = PUBLIC[name].__doc__
    assert text, f"{name} has no docstring of its own"
    if text.startswith(f"{name.rpartition('.')[2]}("):
        text = text.partition("\n\n")[2]  # behind the signature that pybind11 puts there
    first = text.strip().splitlines()[0]
    assert len(first) > 10
    assert re.search(r"[.:]( |$)", first), f"{name}: {first!r} is no sentence"


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_the_main_names_have_an_example(name: str) -> None:
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(PUBLIC[name]) or "")
    assert examples, f"{name} shows no example"
    for example in examples:
        ast.parse(example.source)


def test_arguments_are_documented_where_they_are_many() -> None:
    for name in ("Communicator.all_reduce", "Communicator.sync", "Coordinator"):
        thing = PUBLIC[name]
        text = inspect.getdoc(thing) or ""
        parameters = [
            p for p in inspect.signature(thing).parameters if p not in ("self", "tag", "timeout", "minimum_world")
        ]
        missing = [p for p in parameters if p != "state" and not re.search(rf"\b{p}\b", text)]
        assert not missing, f"{name} says nothing of {missing}"


def test_every_option_is_documented() -> None:
    source = inspect.getsource(lockstep.Options)
    for name in lockstep.Options.__annotations__:
        assert re.search(rf'^    {name}: .*\n    """[A-Z].*', source, re.MULTILINE), f"option {name} is not documented"


def test_help_lists_what_there_is() -> None:
    text = lockstep.__doc__ or ""
    for name in ("connect", "Communicator", "Options", "Work", "wait_any", "Result", "State", "Coordinator", "Error"):
        assert name in text


def code_of_the_package() -> str:
    """The example in `help(lockstep)`."""
    text = lockstep.__doc__ or ""
    begin = text.index("    import lockstep")
    return text[begin : text.index("\n\nEvery run")]


def blocks(path: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)


@needs_sources
@pytest.mark.parametrize("path", [README, GUIDE], ids=lambda path: str(path.relative_to(ROOT)))
def test_python_in_the_readmes_compiles(path: Path) -> None:
    assert blocks(path)
    for block in blocks(path):
        compile(inspect.cleandoc(block), str(path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The variable that names the coordinator holds the token of one that other machines could reach, too."""
    with lockstep.Coordinator(":0", advertise="127.0.0.1") as running:
        monkeypatch.setenv("LOCKSTEP_COORDINATOR", running.token)
        yield


def runs(program: str) -> list[dict[str, Any]]:
    """The names that two threads hold which run it at once."""
    assert '"env:LOCKSTEP_COORDINATOR"' in program
    code = compile(program.replace("1 << 20", "1 << 10"), "program", "exec")
    ended: list[dict[str, Any]] = []

    def run(_: int) -> None:
        names: dict[str, Any] = {}
        exec(code, names)
        ended.append(names)

    in_threads(run, 2)
    assert len(ended) == 2
    return ended


@needs_sources
@pytest.mark.usefixtures("variable")
def test_the_first_example_of_the_readme_runs() -> None:
    first, *_ = blocks(README)
    assert inspect.cleandoc(first).splitlines()[0] == "import lockstep, numpy as np"
    for names in runs(first):
        assert names["result"].world_size == 2
        assert (names["gradient"] == 1).all()


@needs_sources
def test_the_example_of_help_is_that_of_the_readme() -> None:
    shown = ast.parse(inspect.cleandoc(code_of_the_package()))
    assert ast.dump(shown) == ast.dump(ast.parse(blocks(README)[0]))


@needs_sources
def test_the_loop_of_the_guide_is_that_of_the_example() -> None:
    example = EXAMPLE.read_text()
    place = 0
    for line in next(block for block in blocks(GUIDE) if "..." in block).splitlines():
        if line.strip() != "...":
            found = example.find(line.strip(), place)
            assert found >= 0, f"{line!r} is not in {EXAMPLE.name}, or not there"
            place = found + len(line.strip())


@needs_sources
@pytest.mark.usefixtures("variable")
def test_the_loop_of_the_guide_runs() -> None:
    loop = next(block for block in blocks(GUIDE) if "run.sync(state)" in block)
    for names in runs(loop):
        assert (names["state"]["step"], names["state"].revision) == (100, 100)


@needs_sources
def test_the_guide_names_every_error() -> None:
    text = GUIDE.read_text()
    kinds = {name for name in lockstep.errors.__all__ if name not in ("Error", "DeviceArray", "TooManyInFlight")}
    missing = {name for name in kinds if f"`{name}`" not in text}
    assert not missing
