"""What each layer costs in instructions, counted by callgrind, against what is recorded."""

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

RECORDED = Path(__file__).parent / "recorded.toml"
TOLERANCE = 0.05


class Failure(Exception):
    """Said to the user as it is; exit code 2."""


@dataclass(frozen=True)
class Layer:
    """One section of recorded.toml."""

    name: str
    instructions: float  # per unit
    why: str
    counted: list[str] = field(default_factory=list)  # patterns of functions; none: the whole program


@dataclass(frozen=True)
class Count:
    """What one run under callgrind took."""

    instructions: float  # per unit
    units: int
    unit: str


def read_layers(text: str) -> list[Layer]:
    """The layers of a recorded.toml; raises Failure if it is none."""
    try:
        sections = tomllib.loads(text)
        return [
            Layer(name, float(s["instructions"]), s["why"], list(s.get("in", []))) for name, s in sections.items()
        ]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise Failure(f"{RECORDED.name} is not a list of layers: {error!r}") from error


def read_count(standard_output: str, callgrinds_words: str) -> Count:
    """From what the program ("500 messages") and callgrind ("Collected : 123") said."""
    units = re.search(r"^(\d+) (\S+)$", standard_output, re.MULTILINE)
    collected = re.search(r"Collected : (\d+)", callgrinds_words)
    if units is None or collected is None or int(units[1]) == 0:
        raise Failure(f"callgrind counted nothing:\n{standard_output}{callgrinds_words}")
    if int(collected[1]) == 0:
        raise Failure("callgrind met none of the functions that are to be counted: have they got other names?")
    return Count(int(collected[1]) / int(units[1]), int(units[1]), units[2])


def count(program: Path, layer: Layer) -> Count:
    """Runs one layer under callgrind."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        command += [f"--toggle-collect={pattern}" for pattern in layer.counted]
        done = subprocess.run([*command, str(program), layer.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{layer.name}: exit code {done.returncode}\n{done.stderr}")
    try:
        return read_count(done.stdout, done.stderr)
    except Failure as failure:
        raise Failure(f"{layer.name}: {failure}") from failure


def judge(layer: Layer, found: Count) -> tuple[str, bool]:
    """A line for people, and whether the count is within its budget."""
    change = found.instructions / layer.instructions - 1 if layer.instructions > 0 else float("inf")
    within = abs(change) <= TOLERANCE
    line = f"{layer.name:<18}{found.instructions:>14,.1f} per {found.unit.removesuffix('s'):<11}"
    line += f"{layer.instructions:>14,.1f}{change:>+9.1%}"
    return (line if within else f"{line}  OVER ITS BUDGET" if change > 0 else f"{line}  LESS: record it"), within


def record(text: str, name: str, instructions: float, why: str) -> str:
    """The text of recorded.toml with another number for one layer, and its reason."""
    section = re.compile(
        rf'(^\[{re.escape(name)}\]\n(?:in = .*\n)?)instructions = .*\nwhy = .*$', re.MULTILINE
    )
    new, changed = section.subn(
        lambda found: f'{found[1]}instructions = {instructions:.1f}\nwhy = "{why}"', text
    )
    if changed != 1:
        raise Failure(f"{RECORDED.name} has no layer '{name}' that can be rewritten")
    return new


def options(arguments: list[str]) -> argparse.Namespace:
    """What was asked for; leaves with 2 when it is wrong."""
    parser = argparse.ArgumentParser(prog="./run budget", description=__doc__)
    parser.add_argument("--program", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="LAYER", action="append", help="only this layer; may be repeated")
    parser.add_argument("--record", metavar="WHY", help="take over what is counted now, for this reason")
    return parser.parse_args(arguments)


def run(given: argparse.Namespace) -> bool:
    """Counts, tells, and maybe records. Whether all is within budget."""
    text = RECORDED.read_text()
    layers = read_layers(text)
    names = [layer.name for layer in layers]
    for wanted in given.only or []:
        if wanted not in names:
            raise Failure(f"unknown layer '{wanted}' (one of: {' '.join(names)})")
    layers = [layer for layer in layers if not given.only or layer.name in given.only]
    if given.record is not None and not re.fullmatch(r"[ -!#-\[\]-~]+", given.record):
        raise Failure("--record takes a reason, in plain letters, without quotes")
    print(f"{'layer':<18}{'instructions':>14}{'':<16}{'recorded':>14}{'change':>9}")
    good = True
    with ThreadPoolExecutor(given.jobs) as pool:
        for layer, found in zip(layers, pool.map(lambda layer: count(given.program, layer), layers), strict=True):
            line, within = judge(layer, found)
            print(line, flush=True)
            if given.record is not None and not within:
                text = record(text, layer.name, found.instructions, given.record)
            good = good and within
    if given.record is not None:
        RECORDED.write_text(text)
        return True
    if not good:
        print(f"If that is meant, say why: ./run budget --record 'WHY' writes it into {RECORDED.name}.")
    return good


def main() -> int:
    """Exit codes: 0 within budget, 1 not, 2 it could not be counted."""
    try:
        return 0 if run(options(sys.argv[1:])) else 1
    except Failure as failure:
        print(f"budget: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
