"""Threads that use one communicator at once, and callbacks that fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import lockstep
import numpy as np
import pytest
from processes import LIMIT, is_blocked, until

pytestmark = pytest.mark.timing

THREADS = 8
Pair = tuple[lockstep.Communicator, lockstep.Communicator]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two peers of one run in this process."""
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        first, second = lockstep.Communicator(founders=2), lockstep.Communicator(founders=2)
        joining = first.connect_async(coordinator.address, timeout=LIMIT)
        second.connect(coordinator.address, timeout=LIMIT)
        joining.wait(LIMIT)
        yield first, second
        first.close()
        second.close()


class Crew:
    """Threads, and what they raised."""

    def __init__(self) -> None:
        self.raised: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, function: object, *arguments: object) -> threading.Thread:
        def work() -> None:
            try:
                function(*arguments)  # type: ignore[operator]
            except BaseException as error:
                self.raised.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def join(self) -> None:
        for thread in self._threads:
            thread.join(LIMIT)
            assert not thread.is_alive(), "a thread hangs"


def test_eight_threads_with_tags_of_their_own(pair: Pair) -> None:
    def calls(run: lockstep.Communicator, tag: int) -> None:
        for number in range(50):
            value = np.full(257, tag + number, np.float32)
            result = run.all_reduce(value, tag=tag, timeout=LIMIT)
            assert result.tag == tag
            assert result.use == number
            assert result.world_size == 2
            assert (value == 2 * (tag + number)).all()
            if number % 10 == tag:
                run.barrier(tag=1000 + tag, timeout=LIMIT)
            work = run.all_reduce_async(value, tag=100 + tag, timeout=LIMIT)
            assert lockstep.wait_any([work], LIMIT) is work
            assert work.result() is work.wait()
            assert run.world.world_size == 2
            assert len(run.members()) == 2

    crew = Crew()
    for run in pair:
        for tag in range(THREADS):
            crew.start(calls, run, tag)
    crew.join()
    assert not crew.raised


def test_many_threads_wait_for_one_work(pair: Pair) -> None:
    seen = []
    work = pair[0].barrier_async()
    crew = Crew()
    for _ in range(THREADS):
        crew.start(lambda: seen.append(work.wait(LIMIT)))
    pair[1].barrier(timeout=LIMIT)
    crew.join()
    assert not crew.raised
    assert len(seen) == THREADS
    assert all(result is seen[0] for result in seen)


def test_sync_seen_by_many_threads_sets_the_values_once(pair: Pair) -> None:
    states = [lockstep.State({"weights": np.full(100, i, np.float32), "step": i}, revision=i) for i in range(2)]
    work = pair[0].sync_async(states[0])
    crew = Crew()
    for _ in range(THREADS):
        crew.start(work.wait, LIMIT)
    pair[1].sync(states[1], timeout=LIMIT)
    crew.join()
    assert not crew.raised
    assert states[0]["step"] == 1
    assert states[0].revision == 1
    assert (states[0]["weights"] == 1).all()


def test_close_ends_what_other_threads_wait_for(pair: Pair) -> None:
    first, _ = pair
    state = lockstep.State({"weights": np.zeros(10)})
    array = np.arange(10.0)
    works = [first.barrier_async(tag=20 + i) for i in range(3)]
    waits = [
        lambda: first.barrier(tag=1),
        lambda: first.all_reduce(array, tag=2),
        lambda: first.sync(state, tag=3),
        lambda: first.admit(),
        lambda: works[0].wait(),
        lambda: lockstep.wait_any(works[1:]).wait(),
        lambda: first.all_gather(np.ones(3), tag=4),
    ]
    crew = Crew()
    for thread in [crew.start(wait) for wait in waits]:
        assert until(is_blocked(thread))
    first.close()
    crew.join()
    assert len(crew.raised) == len(waits)
    for error in crew.raised:
        assert isinstance(error, (lockstep.OutcomeUnknown, lockstep.NotConnected)), repr(error)
    assert (array == np.arange(10.0)).all()
    with pytest.raises(lockstep.NotConnected):
        first.barrier()
    first.close()  # again: does nothing


def test_close_by_many_threads_at_once(pair: Pair) -> None:
    first, _ = pair
    crew = Crew()
    work = first.barrier_async()
    for _ in range(THREADS):
        crew.start(first.close)
    crew.join()
    assert not crew.raised
    with pytest.raises((lockstep.OutcomeUnknown, lockstep.NotConnected)):
        work.wait(LIMIT)


def test_calls_race_with_close() -> None:
    """Whatever a thread does while another one closes: an error of the documented kind."""
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        for _ in range(20):
            run = lockstep.connect(coordinator.address, timeout=LIMIT)
            begun = threading.Barrier(4)

            def calls(run: lockstep.Communicator = run, begun: threading.Barrier = begun) -> None:
                begun.wait(LIMIT)
                while True:
                    run.all_reduce(np.ones(100), tag=threading.get_ident())
                    run.barrier_async(tag=threading.get_ident()).wait()
                    run.members()

            crew = Crew()
            for _ in range(3):
                crew.start(calls)
            begun.wait(LIMIT)
            run.close()
            crew.join()
            assert len(crew.raised) == 3
            for error in crew.raised:
                assert isinstance(error, (lockstep.OutcomeUnknown, lockstep.NotConnected)), repr(error)


def test_abort_all_ends_blocking_calls_of_other_threads(pair: Pair) -> None:
    first, second = pair
    crew = Crew()
    crew.start(lambda: first.barrier(tag=1, timeout=LIMIT))
    # Aborts until there was a call to abort.
    assert until(lambda: first.abort_all("enough") is None and bool(crew.raised))
    crew.join()
    (error,) = crew.raised
    assert isinstance(error, lockstep.Aborted)
    assert "enough" in str(error)
    with pytest.raises(lockstep.Aborted, match="enough"):
        second.barrier(tag=1, timeout=LIMIT)


# ---- callbacks ----


class Failure(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize("what", [ValueError("planted"), SystemExit(3), KeyboardInterrupt(), Failure("planted")])
def test_journal_function_that_raises_does_not_end_the_run(
    what: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def journal(line: str) -> None:
        calls.append(line)
        raise what

    with lockstep.Coordinator("127.0.0.1:0") as coordinator, caplog.at_level(logging.ERROR, "lockstep"):
        with lockstep.connect(coordinator.address, timeout=LIMIT, journal=journal) as run:
            for number in range(5):
                assert run.all_reduce(np.ones(4), timeout=LIMIT).use == number
            # Every line comes, and each failure is told.
            assert until(lambda: len(calls) >= 10 and len(caplog.records) >= 10)
        assert type(what).__name__ in caplog.text


class BrokenLogger(logging.Logger):
    def info(self, *_: object, **__: object) -> None:
        raise RuntimeError("this logger is broken")

    def exception(self, *_: object, **__: object) -> None:
        raise RuntimeError("this one, too")


def test_logger_that_raises_does_not_end_the_run_or_the_lines_of_others() -> None:
    lines: list[str] = []
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        with lockstep.connect(coordinator.address, timeout=LIMIT, logger=BrokenLogger("broken")) as run:
            run.barrier(timeout=LIMIT)
        with lockstep.connect(coordinator.address, timeout=LIMIT, journal=lines.append) as run:
            run.barrier(timeout=LIMIT)
            assert until(lambda: len(lines) >= 2)


def test_handler_that_raises_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(logging.Handler):
        seen = 0

        def emit(self, _: logging.LogRecord) -> None:
            Handler.seen += 1
            raise RuntimeError("planted")

    logger = logging.Logger("handled")
    logger.addHandler(Handler())
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        with lockstep.connect(coordinator.address, timeout=LIMIT, logger=logger) as run:
            run.barrier(timeout=LIMIT)
            assert until(lambda: Handler.seen > 0)


def test_callback_that_closes_its_communicator() -> None:
    closed = threading.Event()
    runs: list[lockstep.Communicator] = []

    def journal(_: str) -> None:
        if runs:
            runs[0].close()
            closed.set()

    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        runs.append(lockstep.Communicator(journal=journal))
        try:
            runs[0].connect(coordinator.address, timeout=LIMIT)
            runs[0].barrier(timeout=LIMIT)
        except (lockstep.NotConnected, lockstep.OutcomeUnknown):
            pass
        assert closed.wait(LIMIT)


def test_callback_that_blocks_drops_lines_and_not_the_run(caplog: pytest.LogCaptureFixture) -> None:
    go = threading.Event()

    def journal(_: str) -> None:
        go.wait(LIMIT)

    with lockstep.Coordinator("127.0.0.1:0") as coordinator, caplog.at_level(logging.WARNING, "lockstep"):
        with lockstep.connect(coordinator.address, timeout=LIMIT, journal=journal) as run:
            works = []
            for number in range(6000):  # two lines each
                works.append(run.barrier_async(tag=number))
                if len(works) == 100:
                    for work in works:
                        work.wait(LIMIT)
                    works.clear()
            go.set()
            assert until(lambda: "dropped" in caplog.text)
