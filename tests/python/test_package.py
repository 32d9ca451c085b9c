"""The package as it is imported, wherever it was built."""

from __future__ import annotations

import pathlib
import re
import sys

import lockstep
import pytest
from support import Processes, ends_well

ROOT = pathlib.Path(__file__).parents[2]


def test_version_is_the_one_of_cmake() -> None:
    match = re.search(r"project\(lockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    assert match is not None
    assert lockstep.__version__ == match[1]


def test_the_simulator_is_reachable_and_imported_when_it_is_used(processes: Processes) -> None:
    program = """
import sys
import lockstep
assert "lockstep.sim" not in sys.modules
assert "sim" in dir(lockstep)
assert lockstep.sim.Failure.__module__ == "lockstep.sim._command"
import lockstep.sim as sim
assert sim is lockstep.sim is sys.modules["lockstep.sim"]
assert not hasattr(lockstep, "simulator")
print("over")
"""
    assert ends_well(processes("-c", program)) == "over\n"


def test_strategies_need_no_backend_which_exports_their_names(processes: Processes) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    program = """
import sys
import lockstep.train
assert "lockstep.torch" not in sys.modules
import lockstep.torch
assert len(set(lockstep.torch.__all__)) == len(lockstep.torch.__all__)
assert set(lockstep.train.__all__) < set(lockstep.torch.__all__)
for name in lockstep.train.__all__:
    assert getattr(lockstep.torch, name) is getattr(lockstep.train, name)
print("over")
"""
    assert ends_well(processes("-c", program)) == "over\n"


def test_an_awaited_work_is_a_result_for_type_checkers(tmp_path: pathlib.Path) -> None:
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text(
        """import lockstep

async def step(work: lockstep.Work) -> int:
    reveal_type(await work)
    lockstep.sim.run(seed=7)
    return (await work).world_size
"""
    )
    package = str(pathlib.Path(lockstep.__file__).parents[1])
    output, errors, _ = api.run(
        ["--strict", f"--cache-dir={tmp_path}/cache", f"--python-executable={sys.executable}", str(program)]
    )
    assert 'Revealed type is "lockstep._lockstep.Result"' in output, output + errors + package
    assert "error" not in output, output
