"""No leak over 10,000 calls of each kind, by what Python (tracemalloc) and the system (RSS) count."""

from __future__ import annotations

import pytest
from processes import Child, coordinator_process

CALLS = 10_000
MOST_RSS = 2 << 20
MOST_TRACED = 16 << 10

PROGRAM = """
import gc, tracemalloc

run = lockstep.connect(COORDINATOR, timeout=20)
array = np.ones(64, np.float32)
other = np.ones(64, np.float64)
state = lockstep.State({"weights": np.ones(64, np.float32), "step": 0, "rate": 0.5})


def blocking(i):
    run.all_reduce(array, op="max", tag=i % 7)


def lists(i):
    run.all_reduce([array, array[:8]], [array.copy(), array[:8].copy()], tag=i % 7)


def asynchronous(i):
    run.all_reduce_async(array, op="max", tag=i % 7).wait()


def dropped(i):
    run.all_reduce_async(np.ones(64), tag=i % 7)
    if i % 50 == 0:
        run.barrier()


def refused(i):
    try:
        run.all_reduce(array, op="max", minimum_world=2)
        raise AssertionError
    except lockstep.BelowMinimum as error:
        assert error.result.world_size == 1


def wrong(i):
    for bad in (lambda: run.all_reduce(array[::2]), lambda: run.all_reduce(array, tag=-1), lambda: run.all_reduce(None)):
        try:
            bad()
            raise AssertionError
        except (lockstep.InvalidArgument, TypeError):
            pass


def aborted(i):
    work = run.wait_for_world_async(2)
    work.abort("enough")
    try:
        work.wait()
        raise AssertionError
    except lockstep.Aborted:
        pass


def synced(i):
    state["step"] += 1
    state.revision += 1
    run.sync(state)


def gathered(i):
    assert run.all_gather(array, tag=i % 7).output.size == 64


def local(i):
    run.world, run.members(), run.groups(), run.pending, repr(run), run.id


def waited(i):
    works = [run.barrier_async(tag=100 + k) for k in range(3)]
    lockstep.wait_any(works)
    for work in works:
        work.result()


calls = globals()[sys.argv[2]]
COUNT = int(sys.argv[3])


def repeat(count):
    for i in range(count):
        calls(i)
    while run.pending:  # dropped calls hold their arrays until they end
        os.sched_yield()
    gc.collect()
    lockstep._lockstep.collect()


def rss():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


repeat(2000)
before = rss()
repeat(COUNT)
grown = rss() - before
tracemalloc.start()
repeat(500)
before = tracemalloc.get_traced_memory()[0]
repeat(COUNT // 4)
traced = tracemalloc.get_traced_memory()[0] - before
tracemalloc.stop()
say("grown", grown, traced)
run.leave()
"""

KINDS = [
    "blocking",
    "lists",
    "asynchronous",
    "dropped",
    "refused",
    "wrong",
    "aborted",
    "synced",
    "gathered",
    "local",
    "waited",
]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_leak_nothing(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (
        coordinator_process() as (_, address),
        Child(PROGRAM, address, kind, str(CALLS), flags=("-W", "error")) as child,
    ):
        grown, traced = map(int, child.expect("grown", 80)[1:])
        assert child.end() == 0, child.errors()
        assert child.errors() == ""
    with capsys.disabled():
        print(f"\n  {kind}: RSS {grown / 1024:+.0f} KiB, tracemalloc {traced:+d} bytes", end="")
    assert grown < MOST_RSS
    assert traced < MOST_TRACED


def test_communicators_leak_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    program = """
    import gc


    def rss():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


    def repeat(count):
        for i in range(count):
            with lockstep.connect(COORDINATOR, timeout=20) as run:
                run.all_reduce_async(np.ones(1000))
            del run
        gc.collect()
        lockstep._lockstep.collect()


    repeat(int(sys.argv[2]))
    before = rss()
    repeat(int(sys.argv[2]) // 2)
    say("grown", rss() - before)
    """
    # The library keeps the empty handles of the last 1024.
    with coordinator_process() as (_, address), Child(program, address, "200", flags=("-W", "error")) as child:
        grown = int(child.expect("grown", 80)[1])
        assert child.end() == 0, child.errors()
    with capsys.disabled():
        print(f"\n  100 communicators: RSS {grown / 1024:+.0f} KiB", end="")
    assert grown < MOST_RSS
