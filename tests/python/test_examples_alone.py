"""Each example works from an empty folder, with nothing but the files beside it that it names, and the package."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "bindings" / "examples" / "python"

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not here: an installed package")

OTHERS = {"torch", "torchft"}  # packages that may be missing

# Runs each program of the arguments in its folder: with --help, or, without options, as the only peer of a coordinator.
RUN = """
import contextlib, io, json, os, runpy, sys
import lockstep
ends = {}
for path in sys.argv[1:]:
    folder = os.path.dirname(path)
    modules, place = set(sys.modules), list(sys.path)
    os.chdir(folder)
    sys.path[0] = folder
    try:
        with contextlib.redirect_stdout(io.StringIO()), lockstep.Coordinator("127.0.0.1:0") as coordinator:
            has_options = "argparse" in open(path).read()
            sys.argv = [path, "--help"] if has_options else [path, coordinator.address, "1", "2"]
            runpy.run_path(path, run_name="__main__")
        ends[path] = "exit 0"
    except SystemExit as end:
        ends[path] = f"exit {end.code}"
    except ModuleNotFoundError as error:
        ends[path] = f"no {error.name}"
    sys.path[:] = place
    for name in set(sys.modules) - modules:  # helpers beside an example
        if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
            del sys.modules[name]
print(json.dumps(ends))
"""


@pytest.mark.slow
def test_each_example_alone(tmp_path: Path) -> None:
    programs = []
    for example in sorted(EXAMPLES.glob("*.py")):
        words = ast.get_docstring(ast.parse(example.read_text())) or ""
        needs = re.search(r"Needs beside it: (.+)\.$", words, re.M)
        folder = tmp_path / example.stem
        folder.mkdir()
        for name in [example.name, *(needs[1].split(", ") if needs else [])]:
            shutil.copy(EXAMPLES / name, folder)
        programs.append(str(folder / example.name))
    done = subprocess.run([sys.executable, "-c", RUN, *programs], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    ends = json.loads(done.stdout.splitlines()[-1])
    assert list(ends) == programs
    failed = {path: end for path, end in ends.items() if end != "exit 0"}
    assert {path for path, end in failed.items() if end.removeprefix("no ") not in OTHERS} == set(), failed
