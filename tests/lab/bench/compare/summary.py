"""What many measurements say: medians, spreads and ratios. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

LOCKSTEP = "lockstep"
LIMIT = "ring"
OTHERS = ("open-mpi", "gloo")  # the better of these is what Lockstep is measured by


@dataclass(frozen=True)
class Case:
    """What is measured, whoever does it."""

    setting: str
    peers: int
    size: int


@dataclass(frozen=True)
class Sample:
    case: Case
    contender: str
    algorithm: str
    round: int
    seconds: float  # of a call
    errors: int


@dataclass(frozen=True)
class CpuSample:
    case: Case
    contender: str
    round: int
    seconds_per_gib: float


@dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> "Spread":
        return Spread(median(values), min(values), max(values))


@dataclass(frozen=True)
class Timing:
    """One contender in one case, by its best algorithm."""

    algorithm: str
    by_round: dict[int, float]

    @property
    def spread(self) -> Spread:
        return Spread.of(list(self.by_round.values()))


@dataclass(frozen=True)
class Row:
    case: Case
    timings: dict[str, Timing]  # by contender
    better: str | None  # which of OTHERS is
    to_better: Spread | None  # how many times as fast as that one Lockstep is
    to_limit: Spread | None


def bus_bandwidth(peers: int, size: int, seconds: float) -> float:
    """In GB/s; as nccl-tests define it for all-reduce."""
    return size / seconds * 2 * (peers - 1) / peers * 1e-9


def speedup(ours: Timing, other: Timing) -> Spread | None:
    """The ratio of the medians, and the least and the most of any round. None: no round has both."""
    both = [other.by_round[n] / ours.by_round[n] for n in ours.by_round if n in other.by_round]
    if not both:
        return None
    return Spread(other.spread.median / ours.spread.median, min(both), max(both))


def best_timing(samples: Iterable[Sample]) -> Timing:
    """The algorithm with the least median. All samples are of one contender in one case."""
    by_algorithm: dict[str, dict[int, float]] = {}
    for sample in samples:
        by_algorithm.setdefault(sample.algorithm, {})[sample.round] = sample.seconds
    timings = [Timing(algorithm, by_round) for algorithm, by_round in by_algorithm.items()]
    return min(timings, key=lambda timing: timing.spread.median)


def row_of(case: Case, samples: Iterable[Sample]) -> Row:
    by_contender: dict[str, list[Sample]] = {}
    for sample in samples:
        by_contender.setdefault(sample.contender, []).append(sample)
    timings = {contender: best_timing(its) for contender, its in by_contender.items()}
    better = min((key for key in OTHERS if key in timings), key=lambda key: timings[key].spread.median, default=None)
    ours = timings.get(LOCKSTEP)

    def against(key: str | None) -> Spread | None:
        return speedup(ours, timings[key]) if ours is not None and key is not None and key in timings else None

    return Row(case, timings, better, against(better), against(LIMIT))


def rows_of(samples: Iterable[Sample]) -> list[Row]:
    """In the order in which cases were first measured."""
    by_case: dict[Case, list[Sample]] = {}
    for sample in samples:
        by_case.setdefault(sample.case, []).append(sample)
    return [row_of(case, its) for case, its in by_case.items()]


def cpu_of(samples: Iterable[CpuSample]) -> dict[Case, dict[str, Spread]]:
    """CPU seconds per GiB, by case and contender."""
    values: dict[Case, dict[str, list[float]]] = {}
    for sample in samples:
        values.setdefault(sample.case, {}).setdefault(sample.contender, []).append(sample.seconds_per_gib)
    return {case: {key: Spread.of(its) for key, its in of_case.items()} for case, of_case in values.items()}
