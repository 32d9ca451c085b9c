"""Runs the user's own function as many peers in one process, on a simulated network, in virtual time."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from .. import _lockstep
from .._context import context
from ..communicator import Communicator
from ..errors import Evicted, InvalidArgument, NotConnected, OutcomeUnknown
from ..state import State
from ._command import Failure
from .conditions import churn_of, conditions_of, scenario_of

__all__ = ["Killed", "Program", "Swarm", "SwarmFailure", "SwarmReport"]

Main = Callable[..., Any]

_SHRINK_RUNS = 200
_SHRINK_SECONDS = 20.0
_STACK_BYTES = 512 << 10
_LAST_WORDS = 5.0  # seconds that a thread has to come to its end when the run is over


class Killed(BaseException):
    """The peer's host crashed, or the run is over. The next call of the program raises it; do not catch it."""


@dataclass(frozen=True)
class Program:
    """One start of the program on one host."""

    host: str
    """"a", "b", ..."""
    start: int
    """Number of this start on its host, from 1."""
    began: float
    """Virtual seconds since the run began."""
    ended: float
    end: str
    """"returned", "failed", "killed", "left", "too late", or "running": ended together with the run."""
    value: Any = None
    """The return value of the program."""
    error: BaseException | None = None
    """The exception of the program."""


@dataclass(frozen=True)
class SwarmReport:
    """The results of a swarm's run. Equal seeds and programs give equal reports."""

    seed: int
    hash: int
    """Hash of all events."""
    seconds: float
    """Virtual seconds until the last program ended."""
    events: int
    commits: int
    """Committed collectives; so `aborts`, `retries` and `views`."""
    aborts: int
    retries: int
    views: int
    programs: tuple[Program, ...]
    happenings: tuple[tuple[float, str], ...]
    """Faults, starts and ends with their virtual times in seconds."""
    faults: tuple[str, ...]
    """All faults of the run, in words."""

    @property
    def values(self) -> list[Any]:
        """The return values of the programs that returned."""
        return [program.value for program in self.programs if program.end == "returned"]


class SwarmFailure(Failure):
    """A program raised, all programs waited in vain, states differed, or Lockstep broke a promise.

    kind: "program", "deadlock", "states" (also: a sync repaired one), "limit", or the id of the promise, such as "S2".
    seed: the seed of the run. faults: the fewest faults, in words, that give the same failure; `only`: their numbers.
    repeat: an expression that repeats the failure.
    """

    def __init__(
        self, text: str, kind: str, seed: int, faults: Sequence[str], only: Sequence[int], repeat: str
    ) -> None:
        listed = "".join(f"\n  {fault}" for fault in faults)
        super().__init__(f"{text}\nseed {seed}, faults:{listed or ' none'}", kind, kind, repeat, None)
        self.seed = seed
        self.faults = tuple(faults)
        self.only = tuple(only)


class Swarm:
    """Runs a function as many peers. One thread runs at a time; the simulator provides network, timeouts and faults.

    peers: number of peers that start at once, on hosts "a", "b", ...; joining peers are added.
    net: the network, as in a scenario: {"profile": "world"}, {"latency": "20 ms", "rate": "1 Gbit/s"}.
    faults: like `[[do]]` of a scenario: [{"at": "2 s", "crash": "b"}, {"at": "5 s", "join": "e"}].
        `lockstep sim scenario keys` lists all keys; a time may be a range, from which the seed draws.
    churn: numbers of faults that the seed draws: {"crashes": 3, "joins": 2, "leaves": 1, "vanishes", "stalls", "cuts",
        "resets": 2, "until": 20.0}; True for some of each. The faults never end one of the founders.
    seed: seed of all draws.
    only: numbers of the faults to keep, as a SwarmFailure lists them; None for all.
    restart: restart a program that ends with Evicted, OutcomeUnknown or NotConnected, for example after a long pause,
        with a new communicator, as a supervisor of processes would; False: such an end is a failure.
    strict: a sync that repairs the state of a member is a failure, since its program has a bug (see Communicator.sync);
        False: it is none. A sync(strict=...) of the program speaks for itself.
    scenario: further keys of a scenario, such as heartbeat="200 ms".
    Raises InvalidArgument.

    If a peer crashes, the next call of its program raises lockstep.sim.Killed. A host that restarts or joins runs the
    program again. A program's computation takes no virtual time, except the time that it spends: `run.spend(0.5)`.

    Example:
        >>> def main(run):
        ...     state = lockstep.State({"weights": np.zeros(10), "step": 0})
        ...     run.sync(state)
        ...     while state["step"] < 30:
        ...         gradient = np.ones(10)
        ...         run.all_reduce(gradient, op="avg")
        ...         run.spend(0.1)
        ...         state["weights"] -= gradient
        ...         state["step"] += 1
        ...         state.revision += 1
        ...         run.admit()
        ...         run.sync(state)
        ...     return state
        >>> report = lockstep.sim.Swarm(peers=8, churn=True, seed=7).run(main)
    """

    def __init__(
        self,
        peers: int = 4,
        *,
        net: Mapping[str, Any] | None = None,
        faults: Iterable[Mapping[str, Any]] = (),
        churn: Mapping[str, Any] | bool | None = None,
        seed: int = 0,
        only: Sequence[int] | None = None,
        restart: bool = True,
        strict: bool = True,
        **scenario: Any,
    ) -> None:
        self._arguments = {
            "peers": peers,
            "net": net,
            "faults": list(faults),
            "churn": churn,
            **({} if restart else {"restart": False}),
            **({} if strict else {"strict": False}),
            **scenario,
        }
        keys = scenario_of(peers, net, self._arguments["faults"], scenario)
        self._restart = restart
        self._strict = strict
        self._seed = seed
        self._conditions = conditions_of(keys, seed)
        drawn = churn_of(churn, peers)
        if drawn:
            self._conditions.add(drawn)
        self._only = tuple(range(len(self._conditions.faults()))) if only is None else tuple(only)

    @property
    def seed(self) -> int:
        """The seed of all draws."""
        return self._seed

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults of the run, in words."""
        all_faults = self._conditions.faults()
        return tuple(all_faults[index] for index in self._only)

    def run(self, main: Main, *arguments: Any, shrink: bool = True) -> SwarmReport:
        """Runs main(run, *arguments) as every peer until all have ended.

        main: receives a connected Communicator. Its return value is part of the report; States that programs return at
            the same revision must be equal.
        shrink: after a failure, search for the fewest faults that give the same failure, by repeating the run.
        Raises SwarmFailure, with the program's exception as its cause.
        """
        program = functools.partial(_call, main, arguments)
        outcome = self._run_once(program, self._only)
        if outcome.failure is None:
            return outcome.report
        only, outcome = self._shrunk(program, outcome) if shrink else (self._only, outcome)
        raise self._failure_of(outcome, only) from outcome.cause

    def _run_once(self, program: Main, only: Sequence[int]) -> _Outcome:
        conditions = self._conditions.with_faults(list(only))
        return _Stage(conditions, tuple(conditions.faults()), self._restart, self._strict).run(program)

    def _shrunk(self, program: Main, first: _Outcome) -> tuple[tuple[int, ...], _Outcome]:
        """Removes faults (half of them, a quarter, ...) as long as the failure stays the same."""
        until = time.monotonic() + _SHRINK_SECONDS
        runs = 0
        kept, smallest = self._only, first
        size = max(1, len(kept) // 2)
        while kept:
            changed = False
            for begin in range(0, len(kept), size):
                fewer = kept[:begin] + kept[begin + size :]
                runs += 1
                if runs > _SHRINK_RUNS or time.monotonic() > until:
                    return kept, smallest
                outcome = self._run_once(program, fewer)
                if outcome.is_like(first):
                    kept, smallest, changed = fewer, outcome, True
                    break
            if not changed:
                if size == 1:
                    break
                size //= 2
        return kept, smallest

    def _failure_of(self, outcome: _Outcome, only: tuple[int, ...]) -> SwarmFailure:
        assert outcome.failure is not None
        kind, text, at = outcome.failure
        faults = self._conditions.faults()
        given = {name: value for name, value in self._arguments.items() if value not in (None, [])}
        given["seed"] = self._seed
        given["only"] = list(only)
        repeat = f"lockstep.sim.Swarm({', '.join(f'{name}={value!r}' for name, value in given.items())}).run(main)"
        return SwarmFailure(f"{kind} at {at:.3f} s: {text}", kind, self._seed, [faults[i] for i in only], only, repeat)


def _call(main: Main, arguments: tuple[Any, ...], run: Communicator) -> Any:
    return main(run, *arguments)


@dataclass
class _Outcome:
    report: SwarmReport
    failure: tuple[str, str, float] | None
    cause: BaseException | None

    def is_like(self, other: _Outcome) -> bool:
        if self.failure is None or other.failure is None or self.failure[0] != other.failure[0]:
            return False
        return type(self.cause) is type(other.cause)


class _Stage:
    """One run: a thread for each program."""

    def __init__(self, conditions: _lockstep.Conditions, faults: tuple[str, ...], restart: bool, strict: bool) -> None:
        self._native = _lockstep.Swarm(conditions)
        self._restart_after = (Evicted, OutcomeUnknown, NotConnected) if restart else ()
        self._strict = strict
        self._repair: tuple[str, float] | None = None  # the first, and when
        self._faults = faults
        self._threads: list[threading.Thread] = []
        self._values: dict[int, Any] = {}
        self._errors: dict[int, BaseException] = {}
        self._first_error: BaseException | None = None

    def run(self, program: Main) -> _Outcome:
        if context.place is not None:
            raise InvalidArgument("a program of a swarm cannot run a swarm")
        before = threading.stack_size(_STACK_BYTES)
        try:
            facts = self._native.run(functools.partial(self._start, program))
        finally:
            threading.stack_size(before)
            for thread in self._threads:
                thread.join(_LAST_WORDS)
        return self._outcome(facts)

    def _start(self, program: Main, number: int) -> None:
        thread = threading.Thread(
            target=self._run_program, args=(program, number), name=f"lockstep-peer-{number}", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def _run_program(self, program: Main, number: int) -> None:
        self._native.enter(number)
        failure: str | None = None
        place = _Place(self._native, number, self._strict, self._note_repair)
        context.place = place
        try:
            self._values[number] = self._until_it_returns(program, place)
        except Killed:
            pass
        except BaseException as error:
            if not self._native.killed(number):
                self._errors[number] = error
                self._first_error = self._first_error or error
                failure = "".join(traceback.format_exception_only(type(error), error)).strip()
        finally:
            place.close()
            context.place = None
            self._native.exit(number, failure)

    def _note_repair(self, text: str, at: float) -> None:
        self._repair = self._repair or (text, at)

    def _until_it_returns(self, program: Main, place: _Place) -> Any:
        while True:
            try:
                with place.connected() as run:
                    return program(run)
            except self._restart_after:
                place.check()

    def _outcome(self, facts: Mapping[str, Any]) -> _Outcome:
        programs = tuple(
            Program(host, start, began, ended, end, self._values.get(number), self._errors.get(number))
            for number, host, start, began, ended, end in facts["programs"]
        )
        names = ("seed", "hash", "seconds", "events", "commits", "aborts", "retries", "views")
        report = SwarmReport(
            **{name: facts[name] for name in names},
            programs=programs,
            happenings=tuple(facts["happenings"]),
            faults=self._faults,
        )
        failure = facts["failure"]
        if self._repair is not None and (failure is None or failure[2] >= self._repair[1]):
            text, at = self._repair
            failure = ("states", f"{text}; a program has a bug, or its host a broken memory", at)
        if failure is None:
            differ = _states_that_differ(programs)
            failure = ("states", differ, report.seconds) if differ else None
        cause = self._first_error if failure is not None and failure[0] in ("program", "states") else None
        return _Outcome(report, failure, cause)


class _Place:
    """The environment of one program; see lockstep._context."""

    def __init__(self, native: _lockstep.Swarm, number: int, strict: bool, noted: Callable[[str, float], None]) -> None:
        self.strict = strict
        self._native = native
        self._number = number
        self._noted = noted
        self._opened: list[Any] = []

    def open(self, options: dict[str, Any]) -> Any:
        opened = _lockstep.Communicator(self._native.open(self._number, options))
        self._opened.append(opened)
        return opened

    def note_repair(self, text: str) -> None:
        self._noted(text, self.now())

    def check(self) -> None:
        if self._native.killed(self._number):
            raise Killed(f"the peer on host {self._native.host_of(self._number)} was killed")

    def spend(self, seconds: float) -> None:
        if not self._native.spend(self._number, seconds):
            self.check()

    def now(self) -> float:
        return self._native.now(self._number)

    @contextlib.contextmanager
    def connected(self) -> Iterator[Communicator]:
        run = Communicator()
        run.connect("coordinator:4000")
        with run:
            yield run

    def close(self) -> None:
        for opened in self._opened:
            opened.close()


def _states_that_differ(programs: Sequence[Program]) -> str:
    """Compares states that peers return at the same revision. Names the peer and the entry that differ."""
    first: dict[int, tuple[Program, dict[str, Any]]] = {}
    for program in programs:
        state = program.value
        if program.end != "returned" or not isinstance(state, State):
            continue
        contents = state._contents()
        seen = first.setdefault(state.revision, (program, contents))
        different = [name for name in contents if contents[name] != seen[1].get(name)]
        if different:
            return (
                f"hosts {seen[0].host} and {program.host} returned states of revision {state.revision} that differ in "
                f"{', '.join(different)}"
            )
    return ""
