"""The shape of the Python package.

- Imports point one way: lockstep.torch -> lockstep.train -> lockstep, and lockstep.sim -> lockstep.
- No modules import each other in a circle. Imports of a function and for type checkers (TYPE_CHECKING) count, too. An
  import of a module is none of its package. The stub of the native module is not read.
- A class has at most 20 attributes and 30 methods, those of its bases in the package included. Members of an
  enumeration are values, not attributes. No two modules have a class of the same name.
- A function has at most 60 lines, its docstring not included.
- No code uses a private attribute (`x._name`) of an object other than self, cls, super() and the class it is in.
- The docstring of a function, class or method that the package exports (`__all__`) names every parameter.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Union

from tree import Finding, Tree, groups_in_circles

PACKAGE, FOLDER = "lockstep", "bindings/python/"
NATIVE = f"{PACKAGE}._lockstep"
ARROWS = {
    PACKAGE: set(),
    f"{PACKAGE}.sim": {PACKAGE},
    f"{PACKAGE}.train": {PACKAGE},
    f"{PACKAGE}.torch": {PACKAGE, f"{PACKAGE}.train"},
}
REEXPORTS = {(PACKAGE, f"{PACKAGE}.sim")}  # lockstep/__init__.py loads it when it is used
MOST = {"attributes": 20, "methods": 30, "lines": 60}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
Definition = Union[ast.ClassDef, Function]


class Module:
    """A module: what its names stand for, what it imports and exports, with the lines."""

    def __init__(self, file: str, text: str, modules: set[str]) -> None:
        self.file = file
        self.name = name_of(file)
        self.tree = ast.parse(text, file)
        self.nodes = list(ast.walk(self.tree))
        self.names: dict[str, str] = {}
        self.imports: dict[str, int] = {}
        self.exports: list[str] = []
        package = self.name if file.endswith("__init__.py") else self.name.rpartition(".")[0]
        for node in self.nodes:
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
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                self.exports = [str(one.value) for one in ast.walk(node.value) if isinstance(one, ast.Constant)]

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


def name_of(file: str) -> str:
    return file[len(FOLDER) : -len(".py")].replace("/", ".").removesuffix(".__init__")


def house_of(module: str) -> str:
    return max((house for house in ARROWS if f"{module}.".startswith(f"{house}.")), key=len)


def imports(modules: dict[str, Module]) -> Iterator[Finding]:
    for name, module in modules.items():
        house = house_of(name)
        for imported, line in module.imports.items():
            to = house_of(imported)
            if to != house and to not in ARROWS[house] and (name, imported) not in REEXPORTS:
                text = f"{house} imports {imported}; allowed: {', '.join(sorted(ARROWS[house])) or 'none'}"
                yield Finding("import", f"{name} {imported}", f"{module.file}:{line}", text)
    for group in groups_in_circles({name: set(module.imports) for name, module in modules.items()}):
        yield Finding("circle", " ".join(group), ", ".join(group), "import each other in a circle")


def is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


class Class:
    """A class: its own attributes and methods, and the full names of its bases."""

    def __init__(self, node: ast.ClassDef, module: Module) -> None:
        self.node, self.module = node, module
        self.bases = [module.resolved(base) for base in node.bases]
        self.attributes: set[str] = set()
        self.methods = {one.name: one for one in node.body if isinstance(one, FUNCTIONS)}
        is_enumeration = any(base.rpartition(".")[2].endswith(("Enum", "Flag")) for base in self.bases)
        for one in [node for method in self.methods.values() for node in ast.walk(method)]:
            if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and is_own(one.value):
                self.attributes.add(one.attr)
        for statement in node.body if not is_enumeration else ():
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                self.attributes |= {one.id for one in targets if isinstance(one, ast.Name) and one.id[:2] != "__"}

    def with_bases(self, classes: dict[str, Class]) -> list[Class]:
        return [self, *(one for base in self.bases if base in classes for one in classes[base].with_bases(classes))]


def definitions(node: ast.AST, name: str) -> Iterator[tuple[str, Definition]]:
    """All classes and functions under a node, with their full names."""
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, (ast.ClassDef, *FUNCTIONS)):
            inner = f"{name}.{child.name}"
            yield inner, child
        yield from definitions(child, inner)


def lines_of(function: Function) -> int:
    """Without the docstring."""
    text = function.body[0]
    has_docstring = ast.get_docstring(function, clean=False) is not None
    docstring = (text.end_lineno or 0) - text.lineno + 1 if has_docstring else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def private_uses(module: Module, modules: dict[str, Module]) -> Iterator[Finding]:
    """Uses of private attributes of other objects. Private names of modules of the package are no attributes."""

    def walk(node: ast.AST, own: tuple[str, ...]) -> Iterator[Finding]:
        if isinstance(node, ast.ClassDef):
            own = (*own, node.name)
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.endswith("__"):
            of = node.value
            is_super = isinstance(of, ast.Call) and isinstance(of.func, ast.Name) and of.func.id == "super"
            is_class = isinstance(of, ast.Name) and of.id in own
            if not (is_own(of) or is_super or is_class or module.resolved(node) in (*modules, NATIVE)):
                place = f"{module.file}:{node.lineno}"
                yield Finding("uses", f"{module.name} {node.attr}", place, f"{node.attr} of another object")
        for child in ast.iter_child_nodes(node):
            yield from walk(child, own)

    return walk(module.tree, ())


def unnamed(function: Function, docstring: str) -> list[str]:
    """The parameters that a docstring does not name."""
    of = function.args
    names = [one.arg for one in (*of.posonlyargs, *of.args, of.vararg, *of.kwonlyargs, of.kwarg) if one]
    return [name for name in names if name not in ("self", "cls") and not re.search(rf"\b{name}\b", docstring)]


def described(name: str, node: Definition) -> Iterator[tuple[str, Function, str]]:
    """The functions of an exported definition, each with the text that describes it."""
    text = ast.get_docstring(node) or ""
    if not isinstance(node, ast.ClassDef):
        yield name, node, text
        return
    for one in node.body:
        if isinstance(one, FUNCTIONS) and one.name == "__init__":
            yield name, one, text + (ast.get_docstring(one) or "")
        elif isinstance(one, FUNCTIONS) and one.name[0] != "_":
            yield f"{name}.{one.name}", one, ast.get_docstring(one) or ""


def docstrings(modules: dict[str, Module], nodes: dict[str, Definition], places: dict[str, str]) -> Iterator[Finding]:
    exported = {one.names.get(name, f"{one.name}.{name}") for one in modules.values() for name in one.exports}
    for name in sorted(exported & {*nodes}):
        for full, function, docstring in described(name, nodes[name]):
            if missing := unnamed(function, docstring):
                place = f"{places[name].partition(':')[0]}:{function.lineno}"
                text = f"{full}: the docstring does not name {', '.join(missing)}"
                yield Finding("docstring", full, place, text, len(missing))


def package(tree: Tree) -> Iterator[Finding]:
    files = tree.under(f"{FOLDER}{PACKAGE}", suffixes=(".py",))
    known = {*map(name_of, files), NATIVE}
    modules = {name_of(file): Module(file, tree.text(file), known) for file in files}
    yield from imports(modules)
    classes: dict[str, Class] = {}
    nodes: dict[str, Definition] = {}
    places: dict[str, str] = {}
    sizes: dict[tuple[str, str], int] = {}
    for module in modules.values():
        yield from private_uses(module, modules)
        for name, node in definitions(module.tree, module.name):
            nodes.setdefault(name, node)
            places[name] = f"{module.file}:{node.lineno}"
            if isinstance(node, ast.ClassDef):
                classes[name] = Class(node, module)
            else:
                sizes["lines", name] = max(sizes.get(("lines", name), 0), lines_of(node))
    same: dict[str, list[str]] = defaultdict(list)
    for name, one in classes.items():
        whole = one.with_bases(classes)
        methods = {method for part in whole for method in part.methods}
        sizes["methods", name] = len(methods)
        sizes["attributes", name] = len({attribute for part in whole for attribute in part.attributes} - methods)
        if name.rpartition(".")[0] in modules:
            same[one.node.name].append(name)
    for (kind, name), count in sizes.items():
        if count > MOST[kind]:
            yield Finding(kind, name, places[name], f"{name}: {count} {kind}; at most {MOST[kind]}", count)
    for name, of in same.items():
        if len(of) > 1:
            text = f"a class of this name, too: {' '.join(of[1:])}"
            yield Finding("same-name", f"{PACKAGE} {name}", places[of[0]], text, len(of))
    yield from docstrings(modules, nodes, places)
