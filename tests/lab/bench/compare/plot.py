"""The results as a picture: bus bandwidth by size, a panel per setting and number of peers."""

from collections.abc import Mapping, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from .summary import LIMIT, LOCKSTEP, Row, Spread, bus_bandwidth
from .words import size_words

WIDTH, HEIGHT = 300, 190  # of a panel's plane
LEFT, TOP, GAP_X, GAP_Y = 64, 106, 40, 76
# Distinct for people with colour blindness, too (Okabe and Ito).
COLOURS = {LOCKSTEP: "#0072b2", "open-mpi": "#e69f00", "gloo": "#009e73", LIMIT: "#777777"}
GRID = "#e4e4e4"


def nice_step(most: float, steps: int = 5) -> float:
    """1, 2 or 5 times a power of ten, so that about `steps` of them reach `most`."""
    power = 1.0
    while power * 10 * steps <= most:
        power *= 10
    while power * steps > most:
        power /= 10
    return next((power * factor for factor in (1, 2, 5) if power * factor * steps >= most), power * 10)


def _text(parent: Element, x: float, y: float, words: str, anchor: str = "middle", size: int = 11, **more: str) -> None:
    style = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, "font-size": str(size), **more}
    SubElement(parent, "text", style).text = words


def _line(parent: Element, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> None:
    ends = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    SubElement(parent, "line", {**ends, "stroke": colour, "stroke-width": str(width)})


def _series(panel: Element, contender: str, points: Sequence[tuple[float, Spread]], most: float) -> None:
    colour = COLOURS.get(contender, "#000000")
    group = SubElement(panel, "g", {"stroke": colour, "fill": colour})

    def height(value: float) -> float:
        return HEIGHT * (1 - value / most)

    for x, spread in points:
        _line(group, x, height(spread.least), x, height(spread.most), colour, 1.5)
        SubElement(group, "circle", {"cx": f"{x:.1f}", "cy": f"{height(spread.median):.1f}", "r": "3"})
    path = " ".join(f"{x:.1f},{height(spread.median):.1f}" for x, spread in points)
    width = "2.6" if contender == LOCKSTEP else "1.6"
    style = {"points": path, "fill": "none", "stroke-width": width}
    SubElement(group, "polyline", {**style, "stroke-dasharray": "5 4"} if contender == LIMIT else style)


def bandwidths(row: Row) -> dict[str, Spread]:
    def of(seconds: float) -> float:
        return bus_bandwidth(row.case.peers, row.case.size, seconds)

    spreads = {key: timing.spread for key, timing in row.timings.items()}
    return {key: Spread(of(its.median), of(its.most), of(its.least)) for key, its in spreads.items()}


def _panel(picture: Element, x: float, y: float, title: str, rows: Sequence[Row], sizes: Sequence[int], most: float) -> None:
    panel = SubElement(picture, "g", {"transform": f"translate({x:.1f} {y:.1f})"})
    _text(panel, 0, -12, title, "start", 12, **{"font-weight": "bold"})
    step = nice_step(most)
    for n in range(round(most / step) + 1):
        _line(panel, 0, HEIGHT * (1 - n * step / most), WIDTH, HEIGHT * (1 - n * step / most), GRID)
        _text(panel, -8, HEIGHT * (1 - n * step / most) + 4, f"{n * step:g}", "end", fill="#555555")
    places = {size: WIDTH * (n + 0.5) / len(sizes) for n, size in enumerate(sizes)}
    for size, place in places.items():
        _text(panel, place, HEIGHT + 18, size_words(size), fill="#555555", size=10)
    for contender in COLOURS:
        points = {places[row.case.size]: bandwidths(row)[contender] for row in rows if contender in row.timings}
        if points:
            _series(panel, contender, [(x, points[x]) for x in sorted(points)], most)


def picture(rows: Sequence[Row], names: Mapping[str, str], settings: Mapping[str, str], note: str) -> str:
    """SVG. `names` of contenders and `settings` by key, in order; `note` is a line about where and when."""
    peers = sorted({row.case.peers for row in rows})
    sizes = sorted({row.case.size for row in rows})
    highest = max((spread.most for row in rows for spread in bandwidths(row).values()), default=1.0)
    step = nice_step(highest)
    most = step * -(-highest // step)
    width = LEFT + len(peers) * (WIDTH + GAP_X)
    height = TOP + len(settings) * (HEIGHT + GAP_Y) - 20
    view = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}", "width": str(width)}
    root = Element("svg", {**view, "font-family": "Helvetica, Arial, sans-serif"})
    SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": "white"})
    _text(root, LEFT, 24, "All-reduce of f32: bus bandwidth in GB/s, median with least and most", "start", 15)
    _text(root, LEFT, 42, note, "start", 10, fill="#555555")
    place = float(LEFT)
    for key, name in names.items():
        _line(root, place, 58, place + 18, 58, COLOURS.get(key, "#000000"), 3)
        _text(root, place + 24, 62, name, "start", 12)
        place += 24 + 8 * len(name) + 20
    for line, (setting, words) in enumerate(settings.items()):
        for column, count in enumerate(peers):
            its = [row for row in rows if (row.case.setting, row.case.peers) == (setting, count)]
            x, y = LEFT + column * (WIDTH + GAP_X), TOP + line * (HEIGHT + GAP_Y)
            _panel(root, x, y, f"{count} peers" + (f"; {words}" if column == 0 else ""), its, sizes, most)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"
