"""The results as text: tables that are Markdown, too."""

from collections.abc import Iterable, Mapping, Sequence

from .summary import LOCKSTEP, Case, Row, Spread, bus_bandwidth
from .words import size_words, three_digits


def table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, *lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def time_words(spread: Spread) -> str:
    """ "51.2 ms (49.9 to 60.1)": the median, the least and the most."""
    unit, factor = ("ms", 1e3) if spread.median >= 1e-3 else ("us", 1e6)
    return f"{three_digits(spread.median * factor)} {unit} ({spread_words(spread, factor)})"


def spread_words(spread: Spread, factor: float = 1) -> str:
    return f"{three_digits(spread.least * factor)} to {three_digits(spread.most * factor)}"


def ratio_words(ratio: Spread | None, whose: str = "") -> str:
    return "" if ratio is None else f"{ratio.median:.2f} ({ratio.least:.2f} to {ratio.most:.2f}){whose}"


def _cell(row: Row, contender: str) -> str:
    timing = row.timings.get(contender)
    if timing is None:
        return ""
    return time_words(timing.spread) + (f", {timing.algorithm}" if timing.algorithm else "")


def _bandwidth(row: Row) -> str:
    timing = row.timings.get(LOCKSTEP)
    return three_digits(bus_bandwidth(row.case.peers, row.case.size, timing.spread.median)) if timing else ""


def times_table(rows: Sequence[Row], names: Mapping[str, str]) -> str:
    """Of one setting. `names` of contenders, by key, in the order of columns."""
    head = ["peers", "tensor", *names.values(), "Lockstep GB/s", "Lockstep / better of both", "Lockstep / limit"]
    lines = [
        [
            str(row.case.peers),
            size_words(row.case.size),
            *(_cell(row, key) for key in names),
            _bandwidth(row),
            ratio_words(row.to_better, f" {names[row.better]}" if row.better else ""),
            ratio_words(row.to_limit),
        ]
        for row in sorted(rows, key=lambda row: (row.case.peers, row.case.size))
    ]
    return table(head, lines)


def cpu_table(cpu: Mapping[Case, Mapping[str, Spread]], names: Mapping[str, str]) -> str:
    head = ["congestion control", "peers", "tensor", *names.values()]
    lines = [
        [
            case.setting,
            str(case.peers),
            size_words(case.size),
            *(f"{its[key].median:.2f} ({its[key].least:.2f} to {its[key].most:.2f})" if key in its else "" for key in names),
        ]
        for case, its in cpu.items()
    ]
    return table(head, lines)
