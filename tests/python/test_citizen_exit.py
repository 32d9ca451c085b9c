"""A Python process that ends with calls in flight: it neither hangs nor crashes, and says nothing of the fatal kind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import lockstep
import numpy as np
import pytest
from processes import LIMIT, Child, coordinator_process

pytestmark = pytest.mark.timing

EXIT_WITHIN = 5.0

JOIN = """
run = lockstep.connect(COORDINATOR, founders=2, timeout=20)
arrays = [np.ones(1 << 16, np.float32) for _ in range(8)]


def pending():
    return [run.all_reduce_async(array, tag=tag) for tag, array in enumerate(arrays)]


def in_a_thread(function, daemon):
    thread = threading.Thread(target=function, daemon=daemon)
    thread.start()
    blocked = is_blocked(thread)
    until(lambda: blocked() or not thread.is_alive())
    return thread


def quietly():
    try:
        run.barrier(tag=50)
    except lockstep.Error as error:
        say("thread", type(error).__name__)


"""

ENDS = {
    "works": (0, "works = pending()"),
    "works dropped": (0, "pending()"),
    "works in a global cycle": (
        0,
        "works = pending()\nworks.append(works)\nworks[0].me = works[0]\nworks[0].run = run",
    ),
    "never closed": (0, "run.barrier_async(tag=1)"),
    "sync": (0, "work = run.sync_async(lockstep.State({'weights': arrays[0], 'step': 0}))"),
    "published": (0, "run.publish(lockstep.State({'weights': arrays[0]}), stable=True)"),
    "joining": (0, "other = lockstep.Communicator()\njoining = other.connect_async(COORDINATOR)"),
    "sys.exit": (3, "works = pending()\nsys.exit(3)"),
    "unhandled": (1, "works = pending()\nraise RuntimeError('planted')"),
    "os._exit": (4, "works = pending()\nos._exit(4)"),
    "daemon thread": (0, "in_a_thread(quietly, True)"),
    "daemon thread and works": (0, "works = pending()\nin_a_thread(quietly, True)"),
    "thread": (0, "in_a_thread(quietly, False)"),
    "thread, sys.exit": (3, "in_a_thread(quietly, False)\nsys.exit(3)"),
    "thread, unhandled": (1, "in_a_thread(quietly, False)\nraise RuntimeError('planted')"),
    "daemon threads that go on": (
        0,
        """
def forever():
    while True:
        try:
            run.barrier(tag=51)
        except BaseException:
            pass

for _ in range(8):
    in_a_thread(forever, True)
""",
    ),
    "daemon threads that wait for works": (
        0,
        """
works = pending()

def wait_for(work):
    while True:
        try:
            work.wait(0.5)
        except BaseException:
            pass

for work in works:
    in_a_thread(lambda work=work: wait_for(work), True)
""",
    ),
    "asyncio": (
        1,
        """
import asyncio

async def main():
    work = run.barrier_async(tag=1)

    async def wait():
        await work

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    raise RuntimeError('planted')

asyncio.run(main())
""",
    ),
    "coordinator of its own": (0, "mine = lockstep.Coordinator('127.0.0.1:0')\nalone = lockstep.connect(mine.address)"),
    "kept by a module": (0, "sys.modules['kept'] = run\nimport builtins\nbuiltins.kept = [run, pending()]"),
    "used at exit": (
        0,
        """
class Late:
    def __del__(self, run=run):
        try:
            run.barrier(tag=1)
        except lockstep.Error:
            pass

builtins_late = sys.modules["late"] = Late()
""",
    ),
}

# What the interpreter and the C++ runtime print when they fail.
FATAL = ["Fatal", "terminate", "Segmentation", "Aborted", "Exception ignored", "core dumped", "ResourceWarning"]


def check_end(child: Child, code: int) -> None:
    assert child.end(EXIT_WITHIN) == code, child.errors()
    said = child.errors()
    assert not any(word in said for word in FATAL), said
    if code == 1:
        assert "planted" in said
        assert said.count("Traceback") == 1, said
    else:
        assert said == ""


@contextlib.contextmanager
def joined(code: str, address: str) -> Iterator[tuple[Child, lockstep.Communicator]]:
    """A process that has joined with a partner, and then runs the code as the test asks."""
    with Child(JOIN + "say('ready')\nasked()\n" + code, address) as child:
        with lockstep.connect(address, founders=2, timeout=LIMIT) as partner:
            child.expect("ready")
            yield child, partner


@pytest.mark.parametrize("name", ENDS)
def test_exit(name: str) -> None:
    code, program = ENDS[name]
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, joined(program, coordinator.address) as (child, _):
        child.ask("end")
        check_end(child, code)


@pytest.mark.parametrize("what", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("name", ["works", "daemon thread", "thread", "sys.exit", "unhandled", "sync"])
def test_exit_without_the_coordinator(name: str, what: int) -> None:
    code, program = ENDS[name]
    if name == "sync" and what == signal.SIGKILL:
        program = "try:\n    " + program + "\nexcept lockstep.NotConnected:\n    pass"
    # Calls may be refused once the death of the coordinator is known.
    program = program.replace(
        "works = pending()", "try:\n    works = pending()\nexcept lockstep.NotConnected:\n    pass"
    )
    with coordinator_process() as (coordinator, address):
        with (
            Child(JOIN + "say('ready')\nasked()\n" + program, address) as child,
            lockstep.Communicator(founders=2) as partner,
        ):
            partner.connect(address, timeout=LIMIT)
            child.expect("ready")
            coordinator.signal(what)
            child.ask("end")
            check_end(child, code)
            coordinator.signal(signal.SIGKILL)


def test_exit_within_a_with_block_that_raises() -> None:
    """The `with` leaves before the exception is shown; no call is in flight, so it is quick, and others see no error."""
    program = """
with run:
    run.barrier(tag=1)
    raise RuntimeError("planted")
"""
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(JOIN + program, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            partner.barrier(tag=1, timeout=LIMIT)
            check_end(child, 1)
            value = np.ones(1)
            assert partner.all_reduce(value, timeout=LIMIT).world_size == 1


def test_ctrl_c_at_a_program_that_does_not_expect_it() -> None:
    with (
        lockstep.Coordinator("127.0.0.1:0") as coordinator,
        joined("say_when_blocked('blocked')\nrun.barrier()", coordinator.address) as (child, _),
    ):
        child.ask("go")
        child.expect("blocked")
        child.signal(signal.SIGINT)
        assert child.end(EXIT_WITHIN) == -signal.SIGINT, child.errors()
        assert "KeyboardInterrupt" in child.errors()
        assert not any(word in child.errors() for word in FATAL), child.errors()


def test_others_notice_an_exit_at_once() -> None:
    """A peer that ends without leaving is lost for the others, not waited for."""
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, joined("", coordinator.address) as (child, partner):
        child.ask("end")
        check_end(child, 0)
        assert partner.barrier(timeout=LIMIT).world_size == 1


def test_exit_without_any_use() -> None:
    with Child("run = lockstep.Communicator()\nsay('ready')", "") as child:
        child.expect("ready")  # the limit is for the end alone: numpy's import takes seconds on a busy machine
        check_end(child, 0)


def test_late_call_says_that_the_process_is_ending() -> None:
    program = """
def late():
    try:
        run.barrier(tag=50)
    except lockstep.Error as error:
        say("late", error)

in_a_thread(late, False)
"""
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, joined(program, coordinator.address) as (child, _):
        child.ask("end")
        assert "join" in " ".join(child.expect("late")), "the text says what to do"
        check_end(child, 0)
