"""Draws loss against traffic as SVG, with nothing but Python's standard library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

Points = Sequence[tuple[float, float]]
"""Pairs of x, above 0, and y."""

WIDTH, HEIGHT, LEFT, TOP, LEGEND = 520, 340, 64, 64, 300
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#777777", "#000000")  # Okabe and Ito
SHAPES = ("M-4,0A4,4 0 1 0 4,0A4,4 0 1 0 -4,0", "M-4,-4H4V4H-4Z", "M0,-5L5,4H-5Z", "M0,-5L5,0L0,5L-5,0Z")


def draw(path: Path, title: str, x_name: str, y_name: str, series: Mapping[str, Points]) -> None:
    """Writes a picture of lines with a mark at their last point. x is on a logarithmic scale.

    series: by name, in the order of the legend; each with at least one point. Raises ValueError, OSError.
    """
    every = [point for points in series.values() for point in points]
    if not every or min(x for x, _ in every) <= 0:
        raise ValueError("a plot needs points with x above 0")
    low, high = _range(math.log10(x) for x, _ in every)
    bottom, top = _range(y for _, y in every)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - low) / (high - low)
        return LEFT + WIDTH * across, TOP + HEIGHT * (top - y) / (top - bottom)

    size = {"width": str(LEFT + WIDTH + LEGEND), "height": str(TOP + HEIGHT + 56)}
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "font-family": "sans-serif", **size})
    SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "white"})
    _text(root, LEFT, 24, title, "start", 15)
    _text(root, LEFT + WIDTH / 2, TOP + HEIGHT + 42, x_name)
    _text(root, LEFT, TOP - 12, y_name, "start")
    for mark in _marks(low, high):
        x, _ = place(mark, bottom)
        _line(root, [(x, TOP), (x, TOP + HEIGHT)], "#e4e4e4", 1)
        _text(root, x, TOP + HEIGHT + 18, f"{mark:g}")
    step = 10 ** math.floor(math.log10(top - bottom))
    step = next(step * part for part in (0.2, 0.5, 1) if (top - bottom) / (step * part) <= 8)
    for number in range(math.ceil(bottom / step), math.floor(top / step) + 1):
        _, y = place(10**low, number * step)
        _line(root, [(LEFT, y), (LEFT + WIDTH, y)], "#e4e4e4", 1)
        _text(root, LEFT - 8, y + 4, f"{number * step:.4g}", "end")
    for number, (name, points) in enumerate(series.items()):
        style = COLOURS[number % len(COLOURS)], SHAPES[number // len(COLOURS) % len(SHAPES)]
        _line(root, [place(*point) for point in points], style[0], 1.6)
        _mark(root, place(*points[-1]), *style)
        _mark(root, (LEFT + WIDTH + 24, TOP + 10 + 20 * number), *style)
        _text(root, LEFT + WIDTH + 36, TOP + 14 + 20 * number, name, "start")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(ElementTree.tostring(root, encoding="unicode") + "\n")


def _range(values: Iterable[float]) -> tuple[float, float]:
    """The least and the greatest value, with some room around."""
    every = list(values)
    room = 0.06 * (max(every) - min(every)) or 0.5
    return min(every) - room, max(every) + room


def _marks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two powers of ten; fewer where they would stand close."""
    digits = (1, 2, 5) if high - low < 3 else (1,)
    powers = range(math.floor(low), math.ceil(high) + 1)
    return [digit * 10.0**power for power in powers for digit in digits if low <= math.log10(digit) + power <= high]


def _text(root: Element, x: float, y: float, words: str, anchor: str = "middle", size: int = 12) -> None:
    style = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, "font-size": str(size)}
    SubElement(root, "text", style).text = words


def _line(root: Element, points: Points, colour: str, width: float) -> None:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    SubElement(root, "polyline", {"points": path, "fill": "none", "stroke": colour, "stroke-width": str(width)})


def _mark(root: Element, at: tuple[float, float], colour: str, shape: str) -> None:
    SubElement(root, "path", {"d": shape, "fill": colour, "transform": f"translate({at[0]:.1f} {at[1]:.1f})"})
