#!/usr/bin/env python3
"""Checks the shape of the tree: check.py [--shrink] [tree].

What each check wants stands in its module: includes.py, shapes.py, documents.py, package.py. exceptions.txt, in
tests/layering of the tree, lists what was wrong before a check existed: lines "COUNT KIND NAME". Nothing is added. An
entry that is no longer true fails, too: --shrink lowers the counts to the present ones, and never raises one.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from pathlib import Path

import documents
import includes
import package
import shapes
from tree import Finding, Tree

EXCEPTIONS = "tests/layering/exceptions.txt"
CHECKS = (
    *(includes.layers, includes.purity, includes.checkers, shapes.shapes, package.package),
    *(documents.columns, documents.words, documents.mentions, documents.rules, documents.sizes),
)


def listed_in(path: Path) -> Counter[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    entries = [line.partition(" ") for line in lines if line and not line.startswith("#")]
    return Counter({key: int(count) for count, _, key in entries})


def shrink(path: Path, now: Counter[str]) -> None:
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    kept = listed_in(path) & now
    path.write_text("".join(f"{line}\n" for line in [*comments, *(f"{kept[key]} {key}" for key in sorted(kept))]))


def complaints(findings: list[Finding], listed: Counter[str], now: Counter[str]) -> list[str]:
    said = []
    for finding in findings:
        key = f"{finding.kind} {finding.name}"
        if now[key] > listed[key]:
            said.append(f"{finding.place}: {finding.text}" + (f" ({listed[key]} in the list)" if listed[key] else ""))
    for key in sorted(listed):
        if now[key] < listed[key]:
            said.append(f"{EXCEPTIONS}: {key}: {now[key]}, {listed[key]} in the list: tests/layering/check.py --shrink")
    return said


def main(arguments: list[str]) -> int:
    shrinks = arguments[:1] == ["--shrink"]
    root = Path(*arguments[shrinks:]) if arguments[shrinks:] else Path(__file__).resolve().parents[2]
    tree = Tree(root)
    if not shutil.which("ctags"):
        print("check.py needs universal-ctags", file=sys.stderr)
        return 2
    if not tree.under("core", "transport", "sim", "fuzz", "bindings"):
        print(f"{root} holds no sources", file=sys.stderr)
        return 2
    findings = [finding for check in CHECKS for finding in check(tree)]
    now: Counter[str] = Counter()
    for finding in findings:
        now[f"{finding.kind} {finding.name}"] += finding.count
    if shrinks:
        shrink(root / EXCEPTIONS, now)
        return 0
    said = complaints(findings, listed_in(root / EXCEPTIONS), now)
    print("".join(f"{line}\n" for line in said), end="")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
