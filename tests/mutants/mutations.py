"""The mutants of a Python source: each is the source with one small change, and has a name that survives other changes.

mutmut's library makes the changes. Changes that no test should notice are left out: of annotations, docstrings,
`if TYPE_CHECKING`, `__all__`, aliases of types, and texts of messages.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

CONTEXT = 28  # characters of the statement that a name shows on each side of the change

# Calls that only types and the reader see.
TYPE_CALLS = {"cast", "TypeVar", "NewType", "NamedTuple", "ParamSpec", "overload"}
MESSAGE_CALLS = {"warn", "debug", "info", "warning", "error", "exception"}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change of one source."""

    file: str  # path in the package
    line: int  # of the change, in the source
    name: str  # file, function, and the statement with the change in braces
    was: cst.CSTNode = dataclasses.field(repr=False, compare=False)
    now: cst.CSTNode = dataclasses.field(repr=False, compare=False)
    module: cst.Module = dataclasses.field(repr=False, compare=False)

    def source(self) -> str:
        """The whole changed source."""
        changed: str = self.module.deep_replace(self.was, self.now).code
        return changed

    def _hash(self) -> int:
        return int(hashlib.sha256(self.name.encode()).hexdigest()[:12], 16)

    def drawn(self, every: int) -> bool:
        """Whether this mutant is in the sample of one mutant of `every`, by a hash of its name."""
        return self._hash() % every == 0

    def stamp(self) -> int:
        """A time for the changed file, in seconds, that differs from those of other mutants."""
        return self._hash() % (1 << 31)


def mutants_of(file: str, source: str) -> list[Mutant]:
    """All mutants of a source, in the order of its lines."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions = wrapper.resolve(PositionProvider)
    seen: Counter[str] = Counter()
    mutants = []
    for path in _paths(wrapper.module, []):
        node = path[-1]
        for now in _changes(path):
            name = f"{file} {_function_of(path)}: {_shown(wrapper.module, path, now)}"
            seen[name] += 1
            if seen[name] > 1:
                name += f" #{seen[name]}"
            line = next(positions[one].start.line for one in reversed(path) if one in positions)
            mutants.append(Mutant(file, line, name, node, now, wrapper.module))
    return mutants


def _paths(node: cst.CSTNode, above: list[cst.CSTNode]) -> Iterator[list[cst.CSTNode]]:
    """Every node that may change, with all nodes above it, the module first."""
    path = [*above, node]
    if _is_left_out(path):
        return
    yield path
    for child in node.children:
        yield from _paths(child, path)


def _is_left_out(path: list[cst.CSTNode]) -> bool:
    node, above = path[-1], path[-2] if len(path) > 1 else None
    if isinstance(node, (cst.Annotation, cst.Import, cst.ImportFrom, cst.FormattedString, cst.ConcatenatedString)):
        return not isinstance(node, cst.FormattedString) or _is_in_raise(path)
    if isinstance(node, cst.If):
        return "TYPE_CHECKING" in _names(node.test)
    if isinstance(node, cst.Expr):  # a docstring, or `...`
        return isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString, cst.Ellipsis))
    if isinstance(node, cst.FunctionDef):
        return any("overload" in _names(decorator.decorator) for decorator in node.decorators)
    if isinstance(node, cst.Call):
        if _called(node) in TYPE_CALLS:
            return True
        return _called(node) in MESSAGE_CALLS and isinstance(above, cst.Expr)
    if isinstance(node, (cst.Assign, cst.AnnAssign)):
        in_function = any(isinstance(one, cst.FunctionDef) for one in path)
        target = node.target if isinstance(node, cst.AnnAssign) else node.targets[0].target
        if isinstance(target, cst.Name) and target.value in ("__all__", "__slots__"):
            return True
        return not in_function and isinstance(node.value, cst.Subscript)  # an alias of a type
    if isinstance(node, cst.SimpleString):  # a message has spaces; a name has none
        return " " in node.value or _is_in_raise(path)
    return False


def _changes(path: list[cst.CSTNode]) -> Iterable[cst.CSTNode]:
    node = path[-1]
    for kind, operator in mutation_operators:
        if not isinstance(node, kind):
            continue
        made = list(operator(node))
        if isinstance(node, cst.SimpleString):
            made = made[:1]  # the others change the case of letters
        for now in made:
            if not _is_message(path, node, now):
                yield now
    if isinstance(node, (cst.If, cst.While)) and isinstance(node.test, (cst.Name, cst.Attribute, cst.Call)):
        yield node.with_changes(test=cst.UnaryOperation(cst.Not(), node.test))


def _is_message(path: list[cst.CSTNode], node: cst.CSTNode, now: cst.CSTNode) -> bool:
    """Whether a change of a call replaces or removes a text that a person reads."""
    if not isinstance(node, cst.Call) or not isinstance(now, cst.Call):
        return False
    text = (cst.SimpleString, cst.ConcatenatedString, cst.FormattedString)
    kept = {id(argument) for argument in now.args}
    changed = [argument.value for argument in node.args if id(argument) not in kept]
    return _is_in_raise(path) and any(isinstance(value, text) for value in changed)


def _is_in_raise(path: list[cst.CSTNode]) -> bool:
    return any(isinstance(one, cst.Raise) for one in path)


def _names(node: cst.CSTNode) -> set[str]:
    """The names in an expression."""
    found = {node.value} if isinstance(node, cst.Name) else set()
    for child in node.children:
        found |= _names(child)
    return found


def _called(call: cst.Call) -> str:
    """The last name of what is called."""
    if isinstance(call.func, cst.Attribute):
        return str(call.func.attr.value)
    return str(call.func.value) if isinstance(call.func, cst.Name) else ""


def _function_of(path: list[cst.CSTNode]) -> str:
    """The classes and functions around a change, or `module`."""
    return ".".join(one.name.value for one in path if isinstance(one, (cst.ClassDef, cst.FunctionDef))) or "module"


def _shown(module: cst.Module, path: list[cst.CSTNode], now: cst.CSTNode) -> str:
    """The statement of a change, shortened, as `return rank {+ -> -} 1`."""
    place = max(i for i, one in enumerate(path) if isinstance(one, (cst.BaseSmallStatement, cst.BaseStatement)))
    node = path[-1]
    whole = path[place]
    if isinstance(whole, cst.BaseCompoundStatement):  # without its body
        bare = {"body": cst.SimpleStatementSuite([cst.Pass()]), "leading_lines": []}
        for part in ("orelse", "finalbody"):
            if hasattr(whole, part):
                bare[part] = None
        if isinstance(whole, cst.Try):
            bare["handlers"] = [one.with_changes(body=cst.SimpleStatementSuite([cst.Pass()])) for one in whole.handlers]
        if node is whole:
            was, then = whole.with_changes(**bare), now.with_changes(**bare)
        else:
            was, then = whole.with_changes(**bare), whole.deep_replace(node, now).with_changes(**bare)
    else:
        was, then = whole, now if node is whole else whole.deep_replace(node, now)
    return _difference(_one_line(module.code_for_node(was)), _one_line(module.code_for_node(then)))


def _one_line(code: str) -> str:
    lines = [line for line in code.splitlines() if not line.strip().startswith("#")]
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def _difference(was: str, now: str) -> str:
    """Both texts as one, with the words in which they differ in braces."""
    before, after = _words(was), _words(now)
    first = 0
    while first < min(len(before), len(after)) and before[first] == after[first]:
        first += 1
    last = 0
    while last < min(len(before), len(after)) - first and before[-1 - last] == after[-1 - last]:
        last += 1
    left = "".join(before[:first])
    right = "".join(before[len(before) - last :])
    if len(left) > CONTEXT:
        left = "…" + left[-CONTEXT:]
    if len(right) > CONTEXT:
        right = right[:CONTEXT] + "…"
    changed = "".join(before[first : len(before) - last]).strip()
    return f"{left}{{{changed} -> {''.join(after[first : len(after) - last]).strip()}}}{right}"


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|.", text)
