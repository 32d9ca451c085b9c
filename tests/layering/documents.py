"""Lines, words, names of files, rules of the protocol, files at the root, and sizes of plans."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from tree import Finding, Tree, names

ROOT = names("""
    .clang-format .clang-tidy .editorconfig .gitignore CMakeLists.txt CMakePresets.json LICENSE README.md SECURITY.md
    pyproject.toml run""")
SOURCES = re.compile(r".*\.(h|c|cc|py|pyi|sh|cmake)$|(.*/)?(run|CMakeLists\.txt)$")
COLUMNS, README_LINES, COVER_LINES, PLAN_LINES = 120, 150, 4000, 100

# Words that the style rules out in prose, and what stands in their place.
VERB = r"(?:is|are|was|were|has|have|had|does|did|can|cannot|could|may|must|will|would|comes|goes|lies|stands|differs)"
WORDS = {
    r"\b[Ww]hy\b[^.?]*; ?nothing\b|[;,] nothing: ": "say: the reason for a refusal, or nullopt",
    rf"(?:^|[.;:] )(?:[Ww]ho|What) {VERB}\b(?!.*\?$)": "the subject is a noun: a peer that, a caller that",
    r"\b[Tt]hose who\b": "the subject is a noun: members that, callers that",
    r"\b(?:come|comes|coming|came) through\b": "contributions are committed, messages arrive",
}
ANY_WORDS = re.compile("|".join(WORDS))

# Files of other projects, files that programs write, and names of examples.
ELSEWHERE = names("""
    doc/PERFORMANCE.md net/core/sock.c report.md lost.toml my_program.c FOLDER/embedded.h a.cc b.cc a_test.cc""")
NAME = re.compile(
    r"([\w./+~$*{}-]*[\w}*]\.(?:h|c|cc|py|pyi|sh|md|cmake|toml|txt|inc))(?=[^\w.*{-]|\.[^a-z]|\.?$)", re.ASCII
)
NO_NAME = re.compile(r".*[*{}$~]|.*[A-Z]\.toml|build|dist|[/0-9-]")


def columns(tree: Tree) -> Iterator[Finding]:
    for file in tree.files:
        is_document = file.endswith(".md")
        for number, line in enumerate(tree.text(file).splitlines() if is_document or SOURCES.match(file) else (), 1):
            if len(line) > COLUMNS and not (is_document and re.match(r"\||\s*(\[[^]]*\]: )?\S*$", line)):
                yield Finding("columns", file, f"{file}:{number}", f"more than {COLUMNS} columns: {line[:60]}...")


def words(tree: Tree) -> Iterator[Finding]:
    for file in tree.files:
        for number, line in tree.prose(file) if file.endswith(".md") or SOURCES.match(file) else ():
            text = line if file.endswith(".md") else line.lstrip(" \t/*#")
            for ruled_out, advice in WORDS.items() if ANY_WORDS.search(text) and not text.startswith("#") else ():
                if found := re.search(ruled_out, text):
                    yield Finding("words", file, f"{file}:{number}", f'"{found[0].strip(" .:;")}": {advice}')


def anchors(tree: Tree, file: str) -> set[str]:
    headings = [re.sub(r"^#+ +", "", line).lower() for _, line in tree.prose(file) if re.match("#+ ", line)]
    return {re.sub(r"[^a-z0-9 _-]", "", heading).replace(" ", "-") for heading in headings}


def mentions(tree: Tree) -> Iterator[Finding]:
    """Comments and documents name files that exist; links of documents lead to a file, and to a heading of it.

    A name is a path from the top of the tree, or the end of such a path, or relative to the file that names it.
    """
    parts = [file.split("/") for file in tree.files]
    ends = {"/".join(part[start:]) for part in parts for start in range(len(part))}
    folders = {"/".join(part[:end]) for part in parts for end in range(1, len(part))}
    for file in tree.files:
        if not (file.endswith(".md") or SOURCES.match(file)):
            continue
        folder = posixpath.dirname(file)
        for number, line in tree.prose(file):
            place = f"{file}:{number}"
            for link in re.findall(r"\]\(([^)]*)\)", line) if file.endswith(".md") else ():
                path, _, anchor = link.partition("#")
                to = posixpath.normpath(posixpath.join(folder, path)) if path else file
                if re.match("[a-z]+:", link):
                    continue
                if to not in tree.files and to not in folders:
                    yield Finding("link", f"{file} {link}", place, f"link to {link}: there is no {to}")
                elif anchor and to.endswith(".md") and anchor not in anchors(tree, to):
                    yield Finding("link", f"{file} {link}", place, f"link to {link}: {to} has no such heading")
            for name in (
                NAME.findall(re.sub(r"[a-z]+://[^ )]*|(?<=\])\([^)]*\)|<[^>]*>", "", line)) if "." in line else ()
            ):
                if NO_NAME.match(name) or name in ELSEWHERE or name.removeprefix("./") in ends:
                    continue
                if posixpath.normpath(posixpath.join(folder, name)) not in tree.files:
                    yield Finding("mention", f"{file} {name}", place, f"{name}: there is no such file")


def rules(tree: Tree) -> Iterator[Finding]:
    """Each rule of the protocol is cited by a test, or by the story of a scenario."""
    protocol = "docs/protocol.md"
    if protocol not in tree.files:
        return
    cited: set[int] = set()
    stories = tree.under("sim/scenarios", "tests/scenarios", suffixes=(".toml", ".txt"))
    for file in [*tree.under("tests", suffixes=(".cc", ".h", ".py")), *stories]:
        for found in re.findall(r"\b[Rr]ules? (\d+(?:(?:, | and | to )\d+)*)", tree.text(file)):
            cited |= {int(number) for number in re.findall(r"\d+", found)}
            for start, end in re.findall(r"(\d+) to (\d+)", found):
                cited |= set(range(int(start), int(end)))
    for line, text in enumerate(tree.text(protocol).splitlines(), 1):
        for number in re.findall(r"\*\*Rule (\d+),", text):
            if int(number) not in cited:
                yield Finding("rule", number, f"{protocol}:{line}", f"no test and no scenario cites rule {number}")


def sizes(tree: Tree) -> Iterator[Finding]:
    """Files at the root; lines of the README, of the plans of coverage together, and of each plan of the corpus."""
    for file in tree.files:
        if "/" not in file and file not in ROOT:
            yield Finding("root", file, file, "no file of the root: see ROOT in tests/layering/documents.py")
    plans = tree.under("sim/cover/plans", suffixes=(".toml",))
    for name, files, most in (
        ("README.md", [file for file in tree.files if file == "README.md"], README_LINES),
        ("sim/cover/plans", plans, COVER_LINES),
        *((file, [file], PLAN_LINES) for file in tree.under("sim/corpus", suffixes=(".toml",))),
    ):
        count = sum(tree.text(file).count("\n") for file in files)
        if count > most:
            yield Finding("size", name, name, f"{count} lines; at most {most}", count)
