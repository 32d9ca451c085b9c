"""Garbage collection of communicators and works with calls in flight: it neither blocks nor leaks, and arrays are released."""

from __future__ import annotations

import signal

import lockstep
import numpy as np
import pytest
from processes import LIMIT, Child, coordinator_process

pytestmark = pytest.mark.timing

COLLECT_WITHIN = 0.050
ATTEMPTS = 4  # the machine itself may stall

SETUP = """
import gc, weakref

gc.collect()


class Array(np.ndarray):
    \"\"\"An array that can be watched by a weak reference.\"\"\"


def array(count=1000):
    return np.ones(count, np.float32).view(Array)


def count(kind):
    return len(os.listdir(f"/proc/self/{kind}"))


def collected(*names):
    \"\"\"Deletes globals, collects, and gives the seconds that took: the least of what is left of them may be slow.\"\"\"
    begin, in_queue = time.monotonic(), seconds_in_queue()
    for name in names:
        del globals()[name]
    gc.collect()
    return time.monotonic() - begin - (seconds_in_queue() - in_queue)


# Resources that are made once and stay: the thread of log lines, numpy's and the library's own.
threads = count("task") + 1
once = lockstep.Communicator()
once.close()
del once
gc.collect()
lockstep._lockstep.collect()
until(lambda: count("task") == threads)
descriptors = count("fd")


def nothing_left():
    lockstep._lockstep.collect()
    return count("task") == threads and count("fd") == descriptors


run = lockstep.connect(COORDINATOR, founders=2, timeout=20)
say("ready")
asked()
gc.collect()
"""

DROPS = {
    "a barrier": """
work = run.barrier_async(tag=1)
say("seconds", collected("run", "work"))
""",
    "a communicator alone": """
say("seconds", collected("run"))
""",
    "a work that outlives its communicator": """
work = run.barrier_async(tag=1)
say("seconds", collected("run"))
try:
    work.wait(0)
    raise AssertionError
except lockstep.WaitTimedOut:
    pass  # the work keeps the native part alive
del work
""",
    "a cycle": """
work = run.all_reduce_async(array(), tag=1)
work.run, run.work = run, work
say("seconds", collected("run", "work"))
""",
    "many works": """
works = [run.all_reduce_async(array(), tag=i) for i in range(200)]
say("seconds", collected("run", "works"))
""",
    "a state that is served": """
state = lockstep.State({"weights": array(1 << 20), "step": 0})
run.publish(state, stable=True)
say("seconds", collected("run", "state"))
""",
    "a state that is served by a work": """
state = lockstep.State({"weights": array(1 << 20), "step": 0})
work = run.publish_async(state, stable=True)
say("seconds", collected("run", "state", "work"))
""",
    "a call that waits in a cycle of threads": """
class Holder:
    pass


holder = Holder()
holder.run = run
holder.me = holder
holder.works = [run.barrier_async(tag=i) for i in range(8)]
say("seconds", collected("run", "holder"))
""",
    "a communicator that joins": """
other = lockstep.Communicator()
joining = other.connect_async(COORDINATOR)
state = lockstep.State({"weights": array()})
fetching = other.prefetch_async(state)
del run
say("seconds", collected("other", "joining", "fetching", "state"))
""",
    "an event loop that waits": """
import asyncio


async def main():
    work = run.barrier_async(tag=1)

    async def wait():
        await work

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass


asyncio.run(main())
say("seconds", collected("run"))
""",
    "a closed communicator whose callback holds it": """
class Trainer:
    def __init__(self):
        self.array = array()
        self.run = lockstep.Communicator(journal=self.take)
        self.run.connect_async(COORDINATOR)
        self.run.close()

    def take(self, line):
        lines.append(line)


lines = []
trainer = Trainer()
say("seconds", collected("run", "trainer"))
until(lambda: any('"closed"' in line for line in lines))
""",
    "a callback that holds its communicator": """
class Trainer:
    def __init__(self):
        self.array = array()
        self.run = lockstep.Communicator(journal=self.take)
        self.run.connect_async(COORDINATOR)

    def take(self, line):
        lines.append(line)


lines = []
trainer = Trainer()
say("seconds", collected("run", "trainer"))
until(lambda: any('"closed"' in line for line in lines))
""",
}

NOTHING_LEFT = """
until(nothing_left, 5)
KINDS = (Array, lockstep.Communicator, lockstep.Work, lockstep._lockstep.Communicator)
until(lambda: (gc.collect(), not any(isinstance(one, KINDS) for one in gc.get_objects()))[1])
say("nothing left")
"""


def watched(program: str) -> str:
    """Every array that the program makes is seen to be released."""
    return (
        SETUP
        + """
references = []
make = array


def array(count=1000):
    made = make(count)
    references.append(weakref.ref(made))
    return made


"""
        + program
        + """
until(lambda: (gc.collect(), not any(reference() is not None for reference in references))[1], 5)
"""
        + NOTHING_LEFT
    )


def dropped(name: str, stop: bool = False) -> float:
    """Runs one of them, checks that nothing is left, and gives the seconds that it took to collect."""
    with coordinator_process() as (coordinator, address), Child(watched(DROPS[name]), address) as child:
        with lockstep.Communicator(founders=2) as partner:
            partner.connect(address, timeout=LIMIT)
            child.expect("ready")
            if stop:
                coordinator.signal(signal.SIGSTOP)
            child.ask("go")
            seconds = float(child.expect("seconds")[1])
            child.expect("nothing")
            assert child.end() == 0, child.errors()
            assert child.errors() == ""
            if stop:
                coordinator.signal(signal.SIGCONT)
            else:  # the others do not wait for it
                assert partner.barrier(tag=99, timeout=LIMIT).world_size == 1
    return seconds


def check_quick(capsys: pytest.CaptureFixture[str], name: str, stop: bool = False) -> None:
    best = LIMIT
    for _ in range(ATTEMPTS):
        best = min(best, dropped(name, stop))
        if best < COLLECT_WITHIN:
            break
    with capsys.disabled():
        print(f"\n  {name}{', stopped coordinator' * stop}: collected in {best * 1000:.1f} ms", end="")
    assert best < COLLECT_WITHIN


@pytest.mark.parametrize("name", DROPS)
def test_dropped(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_quick(capsys, name)


@pytest.mark.parametrize("name", ["a barrier", "many works"])
def test_dropped_while_the_coordinator_is_stopped(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_quick(capsys, name, stop=True)


def test_dropped_work_goes_on_and_its_array_stays_alive() -> None:
    program = (
        SETUP
        + """
mine = array()
released = weakref.ref(mine)
run.all_reduce_async(mine, tag=1)
del mine
gc.collect()
assert released() is not None
say("alive")
run.barrier(tag=2)
until(lambda: lockstep._lockstep.collect() or released() is None)
say("released")
run.leave()
"""
    )
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(program, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            child.expect("ready")
            child.ask("go")
            child.expect("alive")
            value = np.ones(1000, np.float32)
            assert partner.all_reduce(value, tag=1, timeout=LIMIT).world_size == 2
            partner.barrier(tag=2, timeout=LIMIT)
            child.expect("released")
            assert child.end() == 0, child.errors()


def test_idle_main_thread_releases_arrays_without_a_call() -> None:
    """What a call has borrowed comes back on its own, on the main thread, once the call is over."""
    program = (
        SETUP
        + """
mine = array()
released = weakref.ref(mine)
run.all_reduce_async(mine, tag=1)
del mine
say("started")
until(lambda: released() is None)
say("released")
run.leave()
"""
    )
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(program, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            child.expect("ready")
            child.ask("go")
            child.expect("started")
            partner.all_reduce(np.ones(1000, np.float32), tag=1, timeout=LIMIT)
            child.expect("released")
            assert child.end() == 0, child.errors()


def test_hundred_communicators_leave_nothing_behind() -> None:
    program = (
        SETUP
        + """
for i in range(100):
    other = lockstep.Communicator()
    if i % 2:
        other.close()
del other, run
gc.collect()
"""
        + NOTHING_LEFT
    )
    with coordinator_process() as (_, address), Child(program, address) as child:
        with lockstep.connect(address, founders=2, timeout=LIMIT):
            child.expect("ready")
            child.ask("go")
            child.expect("nothing")
            assert child.end() == 0, child.errors()
            assert child.errors() == ""
