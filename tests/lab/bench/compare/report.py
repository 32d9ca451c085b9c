"""The results as data, for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from .comparison import Results
from .summary import Row


def _plain(row: Row) -> dict[str, object]:
    return {
        **asdict(row.case),
        "seconds": {key: asdict(timing.spread) for key, timing in row.timings.items()},
        "algorithms": {key: timing.algorithm for key, timing in row.timings.items() if timing.algorithm},
        "better": row.better,
        "to_better": asdict(row.to_better) if row.to_better else None,
        "to_limit": asdict(row.to_limit) if row.to_limit else None,
    }


def report(facts: Mapping[str, object], rows: Sequence[Row], results: Results) -> dict[str, object]:
    return {
        "version": 1,
        **facts,
        "rows": [_plain(row) for row in rows],
        "samples": [asdict(sample) for sample in results.samples],
        "cpu_seconds_per_gib": [asdict(sample) for sample in results.cpu],
        "left_out": results.left_out,
        "failures": results.failures,
        "interrupted": results.interrupted,
    }
