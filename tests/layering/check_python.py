#!/usr/bin/env python3
"""Checks the shape of the Python package.

usage: check_python.py [--all | --shrink] [tree]

- Imports point one way: lockstep.torch -> lockstep.train -> lockstep, and lockstep.sim -> lockstep.
- No modules import each other in a circle. Imports of a function and for type checkers (TYPE_CHECKING) count, too. An
  import of a module is none of its package. The stub of the native module is not read.
- A class has at most 20 attributes and 30 methods, those of its bases in the package included. Members of an
  enumeration are values, not attributes.
- A function has at most 60 lines, its docstring not included.
- No code uses a private attribute (`x._name`) of an object other than self, cls, super() and the class it is in.

python_exceptions.txt beside the script, or in the tree that is given, lists what was wrong with the last three before
this check existed. An entry that is no longer true fails, too: --shrink lowers the numbers of the list to the present
ones. --all prints the numbers of all classes and functions instead.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Union

PACKAGE = "lockstep"
NATIVE = f"{PACKAGE}._lockstep"
FOLDER = Path("bindings/python")
ARROWS = {
    PACKAGE: set(),
    f"{PACKAGE}.sim": {PACKAGE},
    f"{PACKAGE}.train": {PACKAGE},
    f"{PACKAGE}.torch": {PACKAGE, f"{PACKAGE}.train"},
}
REEXPORTS = {(PACKAGE, f"{PACKAGE}.sim")}  # lockstep/__init__.py loads it when it is used
MOST = {"attributes": 20, "methods": 30, "lines": 60, "uses": 0}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


@dataclass
class Class:
    """A class: its own attributes and methods, and the full names of its bases."""

    attributes: set[str] = field(default_factory=set)
    methods: set[str] = field(default_factory=set)
    bases: list[str] = field(default_factory=list)


class Module:
    """A module: what its names stand for, and what it imports, with the lines."""

    def __init__(self, name: str, path: Path, modules: set[str]) -> None:
        self.name = name
        self.path = path
        self.tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.names: dict[str, str] = {}
        self.imports: dict[str, int] = {}
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    first = one.name.partition(".")[0]
                    self.names[one.asname or first] = one.name if one.asname else first
                    self._add(one.name, node.lineno, modules)
            elif isinstance(node, ast.ImportFrom):
                parts = package.split(".")
                base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
                origin = ".".join(part for part in (base, node.module) if part)
                for one in node.names:
                    self.names[one.asname or one.name] = f"{origin}.{one.name}"
                    self._add(f"{origin}.{one.name}", node.lineno, modules)

    def _add(self, imported: str, line: int, modules: set[str]) -> None:
        module = imported if imported in modules else imported.rpartition(".")[0]
        if module in modules and module not in (self.name, NATIVE):
            self.imports.setdefault(module, line)

    def resolved(self, node: ast.expr) -> str:
        """The full name of what an expression such as `errors.Desync` stands for; "" for other expressions."""
        if isinstance(node, ast.Subscript):
            return self.resolved(node.value)
        if isinstance(node, ast.Attribute):
            return f"{self.resolved(node.value)}.{node.attr}"
        return self.names.get(node.id, f"{self.name}.{node.id}") if isinstance(node, ast.Name) else ""


def house_of(module: str) -> str:
    return max((house for house in ARROWS if f"{module}.".startswith(f"{house}.")), key=len)


def wrong_arrows(modules: dict[str, Module]) -> Iterator[str]:
    for module in modules.values():
        house = house_of(module.name)
        for imported, line in module.imports.items():
            to = house_of(imported)
            if to != house and to not in ARROWS[house] and (module.name, imported) not in REEXPORTS:
                allowed = ", ".join(sorted(ARROWS[house])) or "none"
                yield f"{module.path}:{line}: {house} imports {imported}; allowed: {allowed}"


def circles(modules: dict[str, Module]) -> Iterator[str]:
    """One circle of each set of modules that import each other: Kosaraju's algorithm."""
    order: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name not in seen:
            seen.add(name)
            for imported in sorted(modules[name].imports):
                visit(imported)
            order.append(name)

    for name in sorted(modules):
        visit(name)
    placed: set[str] = set()
    for first in reversed(order):
        group, reached = [first], {first} - placed
        for name in group:  # grows
            more = {one for one in modules if name in modules[one].imports} - placed - reached
            reached |= more
            group += sorted(more)
        if len(reached) > 1:
            yield f"{', '.join(sorted(reached))}: import each other in a circle"
        placed |= reached


def own_members(node: ast.ClassDef, module: Module) -> Class:
    bases = [module.resolved(base) for base in node.bases]
    found = Class(bases=bases)
    is_enumeration = any(base.rpartition(".")[2].endswith(("Enum", "Flag")) for base in bases)
    for statement in node.body:
        if isinstance(statement, FUNCTIONS):
            found.methods.add(statement.name)
            found.attributes |= {
                one.attr
                for one in ast.walk(statement)
                if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and is_own(one.value)
            }
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and not is_enumeration:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            found.attributes |= {one.id for one in targets if isinstance(one, ast.Name) and not one.id.startswith("__")}
    found.attributes -= found.methods
    return found


def is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def with_bases(name: str, classes: dict[str, Class]) -> Class:
    whole = Class(set(classes[name].attributes), set(classes[name].methods))
    for base in classes[name].bases:
        if base in classes:
            more = with_bases(base, classes)
            whole.attributes |= more.attributes
            whole.methods |= more.methods
    whole.attributes -= whole.methods
    return whole


def definitions(node: ast.AST, name: str) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """All classes and functions under a node, with their full names."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, (ast.ClassDef, *FUNCTIONS)):
            inner = f"{name}.{child.name}"
            yield inner, child
        yield from definitions(child, inner)


def lines_of(function: Function) -> int:
    lines = (function.end_lineno or 0) - function.lineno + 1
    text = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (text.end_lineno or 0) - text.lineno + 1
    return lines


def private_uses(module: Module, modules: dict[str, Module]) -> Iterator[tuple[str, int]]:
    """The private attributes of other objects that a module uses, with their lines."""

    def walk(node: ast.AST, classes: tuple[str, ...]) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.ClassDef):
            classes = (*classes, node.name)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            of = node.value
            is_super = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "super"
            is_class = isinstance(of, ast.Name) and of.id in classes
            if not (is_own(of) or is_super or is_class or module.resolved(node) in (*modules, NATIVE)):
                yield node.attr, node.lineno
        for child in ast.iter_child_nodes(node):
            yield from walk(child, classes)

    return walk(module.tree, ())


def measured(modules: dict[str, Module]) -> dict[str, tuple[int, str]]:
    """For each key of the list its number, and where it is."""
    found: dict[str, tuple[int, str]] = {}
    classes: dict[str, Class] = {}
    places: dict[str, str] = {}
    for module in modules.values():
        for name, node in definitions(module.tree, module.name):
            place = f"{module.path}:{node.lineno}"
            if isinstance(node, ast.ClassDef):
                classes[name], places[name] = own_members(node, module), place
            else:
                key = f"lines {name}"
                found[key] = max(found.get(key, (0, "")), (lines_of(node), place))
        uses = list(private_uses(module, modules))
        first = dict(reversed(uses))
        for attribute, count in Counter(attribute for attribute, _ in uses).items():
            found[f"uses {module.name} {attribute}"] = count, f"{module.path}:{first[attribute]}"
    for name in classes:
        whole = with_bases(name, classes)
        found[f"attributes {name}"] = len(whole.attributes), places[name]
        found[f"methods {name}"] = len(whole.methods), places[name]
    return found


def listed_in(path: Path) -> dict[str, int]:
    lines = path.read_text().splitlines() if path.exists() else []
    entries = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return {key: int(count) for count, _, key in entries}


def shrink(path: Path, found: dict[str, tuple[int, str]]) -> None:
    """Lowers the numbers of the list to the present ones, and raises none."""
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    now = {key: min(count, found.get(key, (0, ""))[0]) for key, count in listed_in(path).items()}
    kept = [f"{count} {key}" for key, count in sorted(now.items()) if count > MOST[key.partition(" ")[0]]]
    path.write_text("".join(f"{line}\n" for line in comments + kept))


def against_list(found: dict[str, tuple[int, str]], listed: dict[str, int]) -> Iterator[str]:
    for key, (count, place) in sorted(found.items()):
        kind, _, name = key.partition(" ")
        most = max(MOST[kind], listed.get(key, 0))
        if count > most:
            yield f"{place}: {name}: {count} {kind}{' of another object' if kind == 'uses' else ''}; at most {most}"
    for key, count in sorted(listed.items()):
        now = found.get(key, (0, ""))[0]
        if now < count:
            yield f"{key}: {now}, {count} in the list: run tests/layering/check_python.py --shrink"


def main(arguments: list[str]) -> int:
    mode = arguments.pop(0) if arguments and arguments[0] in ("--all", "--shrink") else ""
    here = Path(__file__).resolve().parent
    tree = Path(arguments[0]) if arguments else here.parents[1]
    exceptions = (tree / "tests/layering" if arguments else here) / "python_exceptions.txt"
    paths = sorted((tree / FOLDER / PACKAGE).rglob("*.py"))
    if not paths:
        print(f"check_python: {tree} has no {FOLDER / PACKAGE}/*.py", file=sys.stderr)
        return 2
    by_name = {}
    for path in paths:
        parts = path.relative_to(tree / FOLDER).with_suffix("").parts
        by_name[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    modules = {name: Module(name, path, {*by_name, NATIVE}) for name, path in by_name.items()}
    found = measured(modules)
    if mode == "--shrink":
        shrink(exceptions, found)
        return 0
    if mode == "--all":
        print("\n".join(f"{count} {key}" for key, (count, _) in sorted(found.items())))
        return 0
    complaints = [*wrong_arrows(modules), *circles(modules), *against_list(found, listed_in(exceptions))]
    for complaint in complaints:
        print(complaint.replace(f"{tree}/", ""))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
