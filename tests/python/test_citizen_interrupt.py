"""Ctrl-C: a signal to a real process ends every wait within 100 ms, and the communicator can be used afterwards."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator

import lockstep
import numpy as np
import pytest
from processes import LIMIT, Child, coordinator_process, pair_of

pytestmark = pytest.mark.timing

WITHIN = 0.100  # from the signal to KeyboardInterrupt, less the time in which no core was free
ATTEMPTS = 4  # the machine itself may stall

# Runs one wait after the other as the test asks: `wait NAME NUMBER`, and says when it is interrupted.
WAITER = """
signal.signal(signal.SIGUSR1, lambda *_: say("handled", time.monotonic()))
array = np.arange(1000, dtype=np.float32)
before = array.copy()
state = lockstep.State({"weights": np.arange(1 << 18, dtype=np.float32), "step": 0})
tag = 0


def wait_for(name):
    global tag
    tag += 1
    if name == "all_reduce":
        run.all_reduce(array, tag=tag)
    elif name == "all_reduce_list":
        run.all_reduce([array, array[:0]], tag=tag)
    elif name == "all_gather":
        run.all_gather(array, tag=tag)
    elif name == "reduce_scatter":
        run.reduce_scatter(array, tag=tag)
    elif name == "broadcast":
        run.broadcast(array, run.members()[1 - run.rank], tag=tag)
    elif name == "barrier":
        run.barrier(tag=tag)
    elif name == "admit":
        run.admit()
    elif name == "wait_for_world":
        run.wait_for_world(3)
    elif name == "sync":
        run.sync(state, tag=tag)
    elif name == "work.wait":
        works.append(run.barrier_async(tag=tag))
        works[-1].wait()
    elif name == "work.result":
        works.append(run.all_reduce_async(array.copy(), tag=tag))
        works[-1].result(1000)
    elif name == "wait_any":
        works.extend([run.barrier_async(tag=tag), run.barrier_async(tag=tag)])
        lockstep.wait_any(works[-2:])
    elif name == "leave":
        works.append(run.barrier_async(tag=tag))
        run.leave()


say("ready")
works = []
while True:
    word, *arguments = asked()
    if word == "wait":
        say_when_blocked("blocked")
        try:
            wait_for(*arguments)
            say("returned")
        except KeyboardInterrupt:
            say_interrupted()
        except lockstep.Error as error:
            say("raised", type(error).__name__, error)
    elif word == "unharmed":
        for work in works:
            work.abort()
        for work in works:
            try:
                work.wait()
            except lockstep.Aborted:
                pass
        works.clear()
        assert np.array_equal(array, before), array
        sum = np.ones(3)
        result = run.all_reduce(sum, tag=int(arguments[0]), timeout=20)
        say("unharmed", result.world_size, sum[0])
    elif word == "bye":
        run.leave(timeout=10)
        break
"""


def print_latency(capsys: pytest.CaptureFixture[str], name: str, seconds: float) -> None:
    with capsys.disabled():
        print(f"\n  {name}: {seconds * 1000:.0f} ms from the signal to KeyboardInterrupt", end="")


def interrupt(child: Child, *words: object) -> float:
    """Asks for a wait, interrupts it, and gives the seconds until KeyboardInterrupt was there: the best of some attempts."""
    best = LIMIT
    for _ in range(ATTEMPTS):
        child.ask(*words)
        child.expect("blocked")
        sent = child.signal(signal.SIGINT)
        best = min(best, float(child.expect("interrupted")[1]) - sent)
        if best < WITHIN:
            break
    return best


@pytest.fixture(scope="module", params=range(2), ids=lambda rank: f"rank {rank}")
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Child, lockstep.Communicator]]:
    """A process that waits for its partner, and the partner."""
    with pair_of(WAITER, request.param) as (child, partner):
        child.expect("ready")
        yield child, partner
        child.ask("bye")
        assert child.end() == 0, child.errors()
        assert child.errors() == ""


tags = iter(range(1 << 40, 1 << 41))


def check_unharmed(child: Child, partner: lockstep.Communicator) -> None:
    """The next call of both works."""
    tag = next(tags)
    child.ask("unharmed", tag)
    value = np.ones(3)
    assert partner.all_reduce(value, tag=tag, timeout=LIMIT).world_size == 2
    assert child.expect("unharmed") == ["unharmed", "2", "2.0"]


WAITS = [
    "all_reduce",
    "all_reduce_list",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "barrier",
    "admit",
    "wait_for_world",
    "sync",
    "work.wait",
    "work.result",
    "wait_any",
]


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_the_wait(
    pair: tuple[Child, lockstep.Communicator], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    child, partner = pair
    seconds = interrupt(child, "wait", name)
    print_latency(capsys, name, seconds)
    assert seconds < WITHIN
    check_unharmed(child, partner)


@pytest.mark.parametrize("name", ["barrier", "work.wait"])
def test_handler_that_does_not_raise_runs_and_the_wait_goes_on(
    pair: tuple[Child, lockstep.Communicator], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    child, partner = pair
    child.ask("wait", name)
    child.expect("blocked")
    best = LIMIT
    for _ in range(ATTEMPTS):
        sent = child.signal(signal.SIGUSR1)
        best = min(best, float(child.expect("handled")[1]) - sent)
    with capsys.disabled():
        print(f"\n  {name}: {best * 1000:.0f} ms from the signal to its handler", end="")
    assert best < WITHIN
    child.signal(signal.SIGINT)
    child.expect("interrupted")
    check_unharmed(child, partner)


@pytest.mark.parametrize("rank", range(2))
def test_partner_learns_of_an_interrupted_call(rank: int) -> None:
    code = """
    say_when_blocked("blocked")
    array = np.ones(10)
    try:
        run.all_reduce(array)
    except KeyboardInterrupt:
        say("interrupted")
    asked()
    run.leave()
    """
    with pair_of(code, rank) as (child, partner):
        child.expect("blocked")
        child.signal(signal.SIGINT)
        child.expect("interrupted")
        array = np.ones(10)
        with pytest.raises(lockstep.Aborted, match="interrupted"):
            partner.all_reduce(array, timeout=LIMIT)
        assert array.tolist() == [1] * 10
        child.ask("end")
        assert child.end() == 0, child.errors()


@pytest.mark.parametrize("rank", range(2))
def test_ctrl_c_ends_leave(rank: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pair_of(WAITER, rank) as (child, _):
        child.expect("ready")
        child.ask("wait", "leave")
        child.expect("blocked")
        sent = child.signal(signal.SIGINT)
        seconds = float(child.expect("interrupted")[1]) - sent
        print_latency(capsys, "leave", seconds)
        assert seconds < WITHIN * 5  # a single attempt: the peer is out
        child.ask("wait", "barrier")
        assert child.expect("raised")[1] == "NotConnected"


CONNECTER = """
while True:
    asked()
    say_when_blocked("blocked")
    try:
        lockstep.connect(COORDINATOR, founders=2)
        say("returned")
    except KeyboardInterrupt:
        say_interrupted()
    except lockstep.Error as error:
        say("raised", type(error).__name__, error)
"""


def test_ctrl_c_ends_connect_without_a_coordinator(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else will
        with Child(CONNECTER, f"127.0.0.1:{taken.getsockname()[1]}") as child:
            seconds = interrupt(child, "connect")
            print_latency(capsys, "connect, nobody listens", seconds)
            assert seconds < WITHIN


def test_ctrl_c_ends_connect_to_a_silent_coordinator(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with Child(CONNECTER, f"127.0.0.1:{silent.getsockname()[1]}") as child:
            seconds = interrupt(child, "connect")
            print_latency(capsys, "connect, silent coordinator", seconds)
            assert seconds < WITHIN


def test_ctrl_c_ends_connect_that_waits_for_founders(capsys: pytest.CaptureFixture[str]) -> None:
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(CONNECTER, coordinator.address) as child:
        seconds = interrupt(child, "connect")
        print_latency(capsys, "connect, founders are missing", seconds)
        assert seconds < WITHIN


def test_ctrl_c_ends_prefetch(capsys: pytest.CaptureFixture[str]) -> None:
    code = """
    run = lockstep.Communicator()
    joining = run.connect_async(COORDINATOR)
    state = lockstep.State({"weights": np.zeros(1 << 20, np.float32)})
    while True:
        asked()
        say_when_blocked("blocked")
        try:
            run.prefetch(state)
            say("returned")
        except KeyboardInterrupt:
            say_interrupted()
        except lockstep.Error as error:
            say("raised", type(error).__name__, error)
    """
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        # Nobody admits the newcomer, and the state comes slowly.
        with lockstep.connect(coordinator.address, timeout=LIMIT, state_bytes_per_second=1 << 16) as member:
            member.publish(lockstep.State({"weights": np.ones(1 << 20, np.float32)}, revision=1))
            with Child(code, coordinator.address) as child:
                seconds = interrupt(child, "prefetch")
                print_latency(capsys, "prefetch", seconds)
                assert seconds < WITHIN


STOPPED = """
run = lockstep.connect(COORDINATOR, founders=2, timeout=20)
say("ready")
array = np.ones(1000)
while True:
    word, *arguments = asked()
    if word == "wait":
        say_when_blocked("blocked")
        try:
            if arguments[0] == "admit":
                run.admit()
            else:
                run.all_reduce(array, tag=int(arguments[1]))
            say("returned")
        except KeyboardInterrupt:
            say_interrupted()
    elif word == "again":
        try:
            result = run.all_reduce(array, tag=99, timeout=20)
            say("again", result.world_size, array[0], array[-1])
        except lockstep.Error as error:
            say("raised", type(error).__name__, error)
"""


@pytest.mark.parametrize("name", ["all_reduce", "admit"])
def test_ctrl_c_while_the_coordinator_does_not_answer(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with coordinator_process() as (coordinator, address), Child(STOPPED, address) as child:
        with lockstep.connect(address, founders=2, timeout=LIMIT) as partner:
            child.expect("ready")
            coordinator.signal(signal.SIGSTOP)
            child.ask("wait", name, 1)
            child.expect("blocked")
            sent = child.signal(signal.SIGINT)
            seconds = float(child.expect("interrupted")[1]) - sent
            coordinator.signal(signal.SIGCONT)
            print_latency(capsys, f"{name}, stopped coordinator", seconds)
            assert seconds < WITHIN * 5  # a single attempt
            child.ask("again")
            ones = np.ones(1000)
            assert partner.all_reduce(ones, tag=99, timeout=LIMIT).world_size == 2
            # The interrupted call gave the array back untouched before the next one took it.
            assert child.expect("again") == ["again", "2", "2.0", "2.0"]


KEPT = """
import gc
run = lockstep.connect(COORDINATOR, founders=2, timeout=20)
memory = bytearray(bytes(range(256)) * 64)
before = bytes(memory)
partner = run.members()[1 - run.rank]


def lent():
    \"\"\"An array of the memory, which nobody else refers to: while one lives, the memory cannot be resized.\"\"\"
    return np.frombuffer(memory, np.float32)


CALLS = {
    "all_reduce": lambda: run.all_reduce(lent()),
    "list": lambda: run.all_reduce([lent()]),
    "out": lambda: run.all_reduce(np.ones(len(memory) // 4, np.float32), lent()),
    "all_gather": lambda: run.all_gather(np.ones(len(memory) // 8, np.float32), lent()),
    "broadcast": lambda: run.broadcast(lent(), partner),
    "sync": lambda: run.sync(lockstep.State({"w": lent()})),
}


def is_free():
    try:
        memory.extend(b"more")
        return True
    except BufferError:
        return False


say("ready")
asked()
say_when_blocked("blocked")
try:
    CALLS[sys.argv[2]]()
except KeyboardInterrupt:
    say("interrupted")
gc.collect()
say("free" if is_free() else "lent")
asked()
until(is_free)
say("free", memory[: len(before)] == before)
asked()
"""


@pytest.mark.parametrize("name", ["all_reduce", "list", "out", "all_gather", "broadcast", "sync"])
def test_memory_is_lent_until_an_interrupted_call_has_really_ended(name: str) -> None:
    """The coordinator does not answer, so the call is still to be aborted when Ctrl-C has ended the wait."""
    with coordinator_process() as (coordinator, address), Child(KEPT, address, name) as child:
        with lockstep.connect(address, founders=2, timeout=LIMIT):
            child.expect("ready")
            coordinator.signal(signal.SIGSTOP)
            child.ask("wait")
            child.expect("blocked")
            child.signal(signal.SIGINT)
            child.expect("interrupted")
            child.expect("lent")
            coordinator.signal(signal.SIGCONT)
            child.ask("goes on")
            assert child.expect("free") == ["free", "True"], "the call has written to the memory"
            child.ask("end")
            assert child.end() == 0, child.errors()


WITHIN_A_BLOCK = """
with lockstep.connect(COORDINATOR, founders=2, timeout=20) as run:
    say_when_blocked("blocked")
    run.barrier()
"""


def test_ctrl_c_within_a_with_block_leaves_politely() -> None:
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(WITHIN_A_BLOCK, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            child.expect("blocked")
            sent = child.signal(signal.SIGINT)
            assert child.end() == -signal.SIGINT
            assert time.monotonic() - sent < 3
            assert child.errors().count("Traceback") == 1
            assert partner.barrier(tag=1, timeout=LIMIT).world_size == 1


def test_ctrl_c_within_a_with_block_while_the_coordinator_does_not_answer() -> None:
    best = LIMIT
    for _ in range(ATTEMPTS):
        with coordinator_process() as (coordinator, address), Child(WITHIN_A_BLOCK, address) as child:
            with lockstep.Communicator(founders=2) as partner:
                partner.connect(address, timeout=LIMIT)
                child.expect("blocked")
                coordinator.signal(signal.SIGSTOP)
                sent = child.signal(signal.SIGINT)
                assert child.end() == -signal.SIGINT
                best = min(best, time.monotonic() - sent)
                coordinator.signal(signal.SIGCONT)
                assert child.errors().count("Traceback") == 1, child.errors()
        if best < 3:
            break
    assert best < 3


def test_ctrl_c_ends_await(capsys: pytest.CaptureFixture[str]) -> None:
    code = """
    import asyncio


    async def until_over(work):
        say_when_blocked_in_the_loop()
        await work


    def say_when_blocked_in_the_loop():
        main = threading.main_thread()
        seen = 0

        def in_select():
            nonlocal seen
            frame = sys._current_frames()[main.ident]
            seen = seen + 1 if frame.f_code.co_name == "select" else 0
            return seen >= 5

        say_when("blocked", in_select, main.native_id)


    run = lockstep.connect(COORDINATOR, founders=2, timeout=20)
    tag = 0
    while True:
        word, *_ = asked()
        if word == "end":
            break
        tag += 1
        work = run.barrier_async(tag=tag)
        try:
            asyncio.run(until_over(work))
            say("returned")
        except KeyboardInterrupt:
            say_interrupted()
        assert not work.done()
    run.barrier(tag=1000)
    run.leave()
    """
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(code, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            seconds = interrupt(child, "wait")
            print_latency(capsys, "await", seconds)
            assert seconds < WITHIN
            child.ask("end")
            partner.barrier(tag=1000, timeout=LIMIT)
            child.ask("end")
            for tag in range(1, ATTEMPTS + 1):  # what is still in flight there
                partner.barrier_async(tag=tag)
            assert child.end() == 0, child.errors()
            assert child.errors() == ""
