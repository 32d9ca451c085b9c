"""Shapes of C and C++, as universal-ctags reads them: sizes of classes, lengths of functions, names of classes.

A class outside of tests has at most 20 data members, and at most two files define its members outside of the class.
Static members, and members of nested classes and of bases, do not count. A function has at most 80 lines, head and
braces included. No two folders of core have a class of the same name, nested classes aside.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tree import Finding, Tree, names

CLASSES = ("class", "struct", "union")
CTAGS = names(
    "ctags --_interactive --languages=C,C++ --map-C++=+.h --kinds-C=fmsu --kinds-C++=fmcsun --fields=FKNPZens"
)
# Ctags does not see a member with it.
UNREADABLE = re.compile(r"\balignas\([^()]*(?:\([^()]*\))?[^()]*\)|\{\}\.\w+(?=;)")
HEAD_ENDS = re.compile(r"[;{}]\s*(//.*)?$|^\s*(//|#|\w+:$)|\*/\s*$|^\s*$")


@dataclass(frozen=True)
class Tag:
    """A definition: the lines, and the full name of what it stands in, without anonymous namespaces."""

    file: str
    kind: str
    name: str
    scope: str
    scope_kind: str
    first: int
    last: int
    text: str

    @property
    def full(self) -> str:
        return f"{self.scope}::{self.name}" if self.scope else self.name


def tags_of(tree: Tree, files: list[str]) -> Iterator[Tag]:
    asked = []
    for file in files:
        text = UNREADABLE.sub("", tree.text(file)).encode()
        asked.append(
            json.dumps({"command": "generate-tags", "filename": file, "size": len(text)}).encode() + b"\n" + text
        )
    done = subprocess.run(CTAGS, input=b"".join(asked), capture_output=True, check=True)
    tags = [of for of in map(json.loads, done.stdout.splitlines()) if of["_type"] == "tag"]
    unnamed = {of["name"] for of in tags if of["kind"] == "namespace" and of["name"].startswith("__anon")}
    for of in tags:
        scope = "::".join(part for part in of.get("scope", "").split("::") if part not in unnamed)
        line = of["line"]
        text = of.get("pattern", "")
        yield Tag(of["path"], of["kind"], of["name"], scope, of.get("scopeKind", ""), line, of.get("end", line), text)


def is_static(tag: Tag) -> bool:
    return re.search(r"\b(static|constexpr)\b", tag.text.partition("=")[0]) is not None


def shapes(tree: Tree) -> Iterator[Finding]:
    tags = list(tags_of(tree, tree.under("core", "transport", "sim", "fuzz", "bindings", suffixes=(".h", ".c", ".cc"))))
    classes = {(tag.file, tag.full): tag for tag in tags if tag.kind in CLASSES}
    members: dict[tuple[str, str], int] = defaultdict(int)
    definitions: dict[str, set[str]] = defaultdict(set)
    for tag in tags:
        around = classes.get((tag.file, tag.scope))
        if tag.kind == "member" and not is_static(tag):
            members[tag.file, tag.scope] += 1
        elif tag.kind == "function":
            if not (around and around.first <= tag.first <= around.last):
                definitions[tag.scope].add(tag.file)
            yield from long_function(tree, tag)
    for (file, name), tag in classes.items():
        place = f"{file}:{tag.first}"
        if (count := members[file, name]) > 20:
            text = f"{name}: {count} data members; at most 20: split the class"
            yield Finding("members", f"{file} {name}", place, text, count)
        if len(of := sorted(definitions[name])) > 2:
            text = f"{name}: {len(of)} files with definitions ({' '.join(of)}); at most 2: split the class"
            yield Finding("files", f"{file} {name}", place, text, len(of))
    yield from same_names(list(classes.values()))


def long_function(tree: Tree, tag: Tag) -> Iterator[Finding]:
    if tag.last - tag.first < 60 or tag.name.startswith("__anon"):
        return
    lines, first = tree.text(tag.file).splitlines(), tag.first
    while first > 1 and not HEAD_ENDS.search(lines[first - 2]):
        first -= 1
    if (count := tag.last - first + 1) > 80:
        text = f"{tag.full}: {count} lines; at most 80: split it"
        yield Finding("lines", f"{tag.file} {tag.full}", f"{tag.file}:{first}", text, count)


def same_names(classes: list[Tag]) -> Iterator[Finding]:
    folders: dict[str, dict[str, Tag]] = defaultdict(dict)
    for tag in classes:
        if tag.file.startswith("core/") and tag.scope_kind in ("", "namespace") and not tag.name.startswith("__anon"):
            folders[tag.name].setdefault(tag.file.split("/")[1], tag)
    for name, of in folders.items():
        if len(of) > 1:
            first = next(iter(of.values()))
            text = f"class {name} is in several folders of core: {' '.join(sorted(of))}"
            yield Finding("same-name", name, f"{first.file}:{first.first}", text, len(of))
