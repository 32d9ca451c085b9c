"""The example compare_strategies.py: one command gives a table and a plot."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from torch_processes import TorchProcess  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "bindings" / "examples" / "python" / "compare_strategies.py"
NAMES = ["diloco-int8", "data-parallel"]
SVG = "{http://www.w3.org/2000/svg}"

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not here: an installed package")


def test_it_compares_loss_and_traffic(tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    options = ("--only", ",".join(NAMES), "--peers", 2, "--warm", 2, "--steps", 40, "--plot", plot)
    with TorchProcess(EXAMPLE, *options) as program:
        assert program.end() == 0, program.output()
        lines = [line for _, line in program.lines]
    rows = [line.split() for line in lines if re.match(r" +\d+ +\d+\.\d{3} ", line)]
    assert [row[0] for row in rows] == ["20", "40"] * 2, "one leader writes each row"
    assert {row[2] for row in rows} == {"2"}
    end = {line.split()[0]: line.split()[1:] for line in lines[-3:-1]}
    assert list(end) == NAMES
    (int8_loss, int8_sent, _), (loss, sent, _) = (map(float, end[name]) for name in NAMES)
    assert 0 < int8_loss < 5
    assert 0 < loss < 5
    assert sent / int8_sent == pytest.approx(79, rel=0.05)
    root = ElementTree.parse(plot).getroot()
    words = [text.text for text in root.iter(f"{SVG}text")]
    assert set(NAMES) <= set(words)
