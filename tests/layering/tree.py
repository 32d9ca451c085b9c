"""The files of a tree, what their code and comments are, and what a check finds in them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

names = str.split  # of a list of names
CPP = (".h", ".hpp", ".inc", ".c", ".cc", ".cpp")
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"\(.*?\)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
MARKED, COMMENT = re.compile(r"^[ \t]*#.*|  # .*"), re.compile(r"//.*|/\*.*")
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"]?)([^>\"\r\n]*)", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: a kind and a name, under which exceptions.txt may list it, and how much of it."""

    kind: str
    name: str
    place: str
    text: str
    count: int = 1


class Tree:
    """The files that git knows or could know; without git, all files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
        inside = subprocess.run(["git", "ls-files", "--error-unmatch", "."], cwd=root, capture_output=True, check=False)
        if inside.returncode == 0:
            listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
        else:
            listed = [str(path.relative_to(root)) for path in root.rglob("*")]
        self.files = sorted({file for file in listed if (root / file).is_file()})
        self.text = lru_cache(maxsize=None)(self._text)
        self.code = lru_cache(maxsize=None)(self._code)
        self.prose = lru_cache(maxsize=None)(lambda file: list(self._prose(file)))

    def under(self, *folders: str, suffixes: Iterable[str] = CPP) -> list[str]:
        starts = tuple(f"{folder}/" for folder in folders)
        return [file for file in self.files if file.startswith(starts) and file.endswith(tuple(suffixes))]

    def _text(self, file: str) -> str:
        return (self.root / file).read_text(encoding="utf-8", errors="replace")

    def _code(self, file: str) -> str:
        """C or C++ without comments and literals, as many lines as before."""
        return TOKEN.sub(
            lambda one: ('""' if one[0][-1] in "\"'" else " ") + "\n" * one[0].count("\n"), self.text(file)
        )

    def includes(self, file: str) -> Iterator[tuple[int, str, str]]:
        """Line, mark (`"`, `<`, or nothing) and path of each include."""
        text = self.text(file)
        for found in INCLUDE.finditer(text):
            yield text.count("\n", 0, found.start(1)) + 1, found[1], found[2]

    def _prose(self, file: str) -> Iterator[tuple[int, str]]:
        """The lines of comments; of a document, all but the blocks of code."""
        document = file.endswith(".md")
        marked = file.endswith((".py", ".sh", ".cmake", ".toml", "CMakeLists.txt")) or file.rpartition("/")[2] == "run"
        skipped = block = False
        for number, line in enumerate(self.text(file).splitlines(), 1):
            if document:
                skipped ^= line.startswith("```")
                if not skipped and not line.startswith("```"):
                    yield number, line
            elif marked:
                if found := MARKED.search(line):
                    yield number, found[0]
            elif found := COMMENT.search(line) if not block else re.match(".*", line):
                block = (block or found[0].startswith("/*")) and "*/" not in found[0]
                yield number, found[0]


def groups_in_circles(arrows: dict[str, set[str]]) -> Iterator[list[str]]:
    """The sets of nodes that reach each other along arrows."""
    reach: dict[str, set[str]] = {}
    for start in arrows:
        reached: set[str] = set()
        ahead = list(arrows[start])
        while ahead:
            node = ahead.pop()
            if node not in reached:
                reached.add(node)
                ahead += arrows.get(node, ())
        reach[start] = reached
    told: set[str] = set()
    for start in sorted(arrows):
        if start in reach[start] and start not in told:
            group = sorted(node for node in reach[start] if start in reach.get(node, ()))
            told |= set(group)
            yield group
