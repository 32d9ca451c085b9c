"""A wheel on a machine that has none of our packages: what it needs, and whether it works in a fresh virtual environment.

`./run wheel` runs this on the wheel that it has built; LOCKSTEP_WHEEL names it.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[2]
WHEEL = pathlib.Path(os.environ["LOCKSTEP_WHEEL"])
EXAMPLE = ROOT / "bindings" / "examples" / "python" / "all_reduce.py"


def run(*command: str | pathlib.Path, **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of the programs of a virtual environment that has the wheel and numpy, and knows nothing of this tree."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin" / "pip", "install", "--disable-pip-version-check", "--no-index", "--no-deps", WHEEL)
    run(folder / "bin" / "pip", "install", "--disable-pip-version-check", "numpy")
    return folder / "bin"


@pytest.fixture(scope="session")
def elsewhere() -> dict[str, str]:
    """The environment of a user: nothing in it leads to the build folder."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LOCKSTEP"))}


@pytest.fixture(scope="session")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[pathlib.Path]]:
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(WHEEL) as wheel:
        wheel.extractall(folder)
    found = [path for path in folder.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert sorted(path.name.split(".")[0] for path in found) == ["_lockstep", "lockstep"]
    return found


def test_needs_only_the_c_library(binaries: list[pathlib.Path]) -> None:
    for binary in binaries:
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", binary))
        assert set(needed) <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}, binary.name


def test_shows_no_symbol_but_the_modules_entry(binaries: list[pathlib.Path]) -> None:
    module = next(path for path in binaries if path.name.startswith("_lockstep"))
    symbols = [line.split()[-1] for line in run("nm", "-D", "--defined-only", module).splitlines()]
    assert symbols == ["PyInit__lockstep"]


def test_has_a_portable_name() -> None:
    assert re.fullmatch(r"lockstep-[0-9.]+-cp3\d+-cp3\d+-manylinux_2_\d+_\w+\.whl", WHEEL.name)


def test_holds_sources_types_and_licence() -> None:
    names = set(zipfile.ZipFile(WHEEL).namelist())
    package = ROOT / "bindings" / "python" / "lockstep"
    sources = {
        str(path.relative_to(package.parent)) for path in package.rglob("*.py*") if path.suffix in {".py", ".pyi"}
    }
    assert sources | {"lockstep/py.typed", "lockstep/bin/lockstep"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_imports_without_numpy_and_torch(
    environment: pathlib.Path, elsewhere: dict[str, str], tmp_path: pathlib.Path
) -> None:
    script = "import lockstep, sys; print([name for name in ('numpy', 'torch') if name in sys.modules], lockstep.__version__)"
    assert run(
        environment / "python", "-X", "dev", "-W", "error", "-c", script, cwd=tmp_path, env=elsewhere
    ).startswith("[] ")


def test_both_commands_run(environment: pathlib.Path, elsewhere: dict[str, str], tmp_path: pathlib.Path) -> None:
    version = WHEEL.name.split("-")[1]
    assert run(environment / "lockstep", "--version", cwd=tmp_path, env=elsewhere) == f"lockstep {version}\n"
    assert (
        run(environment / "python", "-m", "lockstep", "--version", cwd=tmp_path, env=elsewhere)
        == f"lockstep {version}\n"
    )
    assert "hash" in run(environment / "lockstep", "sim", "run", "--seed", "7", cwd=tmp_path, env=elsewhere)


def test_example_survives_a_kill(environment: pathlib.Path, elsewhere: dict[str, str], tmp_path: pathlib.Path) -> None:
    def start(*command: str | pathlib.Path) -> subprocess.Popen[str]:
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=elsewhere)

    started = [start(environment / "lockstep", "coordinator", "--listen", "127.0.0.1:0")]
    try:
        assert started[0].stdout is not None
        address = started[0].stdout.readline().split()[-1]
        peers = [start(environment / "python", EXAMPLE, address, "3", "200") for _ in range(3)]
        started += peers
        victim = peers[0]
        assert victim.stdout is not None
        for line in victim.stdout:
            if "3 peers" in line:
                break
        victim.kill()
        outputs = [peer.communicate(timeout=100)[0].splitlines() for peer in peers[1:]]
        assert [peer.returncode for peer in peers[1:]] == [0, 0]
        assert outputs[0] == outputs[1], "the survivors reduced different things"
        assert len(outputs[0]) == 200
        assert "2 peers, sum 2" in outputs[0][-1]
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
