"""Forked children: a use of what they inherited is refused, they end cleanly, and the parent goes on as if nothing had happened."""

from __future__ import annotations

import os
import signal
import time

import lockstep
import numpy as np
import pytest
from processes import LIMIT, Child

pytestmark = pytest.mark.timing

JOIN = """
import gc, multiprocessing, traceback, warnings
warnings.filterwarnings("ignore", ".*multi-threaded, use of fork.*")  # Python 3.12 and later say so of every fork

run = lockstep.connect(COORDINATOR, founders=2, timeout=20)


def forked(function):
    \"\"\"The exit code of a child that runs the function and ends as a Python program does.\"\"\"
    child = os.fork()
    if child == 0:
        code = 1
        try:
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    end = time.monotonic() + 10
    tick = threading.Event()
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        tick.wait(0.002)
    os.kill(child, signal.SIGABRT)
    os.waitpid(child, 0)
    return "hangs"


def meets(tag):
    value = np.ones(3)
    result = run.all_reduce(value, tag=tag, timeout=20)
    say("met", result.world_size, value[0])


"""

REFUSED = """
state = lockstep.State({"weights": np.zeros(10), "step": 0})
array = np.ones(10)
work = run.barrier_async(tag=7)
done = run.all_reduce_async(array, tag=8)
say("ready")
done.wait()

USES = {
    "all_reduce": lambda: run.all_reduce(array),
    "all_reduce_async": lambda: run.all_reduce_async(array),
    "all_gather": lambda: run.all_gather(array),
    "reduce_scatter": lambda: run.reduce_scatter(array),
    "broadcast": lambda: run.broadcast(array, root=lockstep.PeerId(bytes(16))),
    "barrier": lambda: run.barrier(),
    "admit": lambda: run.admit(),
    "wait_for_world": lambda: run.wait_for_world(2),
    "connect": lambda: run.connect(COORDINATOR),
    "leave": lambda: run.leave(),
    "abort_all": lambda: run.abort_all(),
    "sync": lambda: run.sync(state),
    "sync_async": lambda: run.sync_async(state),
    "publish": lambda: run.publish(state),
    "prefetch": lambda: run.prefetch(state),
    "watch": lambda: run.watch(state),
    "world": lambda: run.world,
    "members": lambda: run.members(),
    "groups": lambda: run.groups(),
    "pending": lambda: run.pending,
    "flight_record": lambda: run.flight_record("/dev/null"),
    "work.wait": lambda: work.wait(),
    "work.done": lambda: work.done(),
    "work.abort": lambda: work.abort(),
    "work.progress": lambda: work.progress,
    "wait_any": lambda: lockstep.wait_any([work]),
}


def uses():
    wrong = {}
    for name, use in USES.items():
        try:
            use()
            wrong[name] = "works"
        except lockstep.Forked as error:
            if "make a new communicator here" not in str(error) or error.status != lockstep.Status.FORKED:
                wrong[name] = str(error)
        except BaseException as error:
            wrong[name] = repr(error)
    repr(run), repr(work), repr(done.result())  # what is known already stays known
    run.close()  # does nothing, and raises nothing
    assert not wrong, wrong


say("child", forked(uses))
meets(9)
work.wait(20)
run.leave()
"""


def test_every_use_in_a_child_is_refused() -> None:
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(JOIN + REFUSED, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            child.expect("ready")
            partner.all_reduce(np.ones(10), tag=8, timeout=LIMIT)
            assert child.expect("child") == ["child", "0"], child.errors()
            partner.all_reduce(np.ones(3), tag=9, timeout=LIMIT)
            assert child.expect("met") == ["met", "2", "2.0"]
            partner.barrier(tag=7, timeout=LIMIT)
            assert child.end() == 0, child.errors()
            assert child.errors() == ""


CHILDREN = {
    "garbage": """
works = [run.barrier_async(tag=100 + i) for i in range(20)]
done = lockstep.connect(own.address)  # a second communicator, over at the fork
done.close()


def collects():
    global run, works, done, own
    del run, works, done, own
    gc.collect()


code = forked(collects)
for work in works:
    work.abort()
""",
    "exits as a program does": """
def exits():
    import atexit
    threading._shutdown()
    atexit._run_exitfuncs()


code = forked(exits)
""",
    "multiprocessing": """
def refused():
    try:
        run.barrier()
    except lockstep.Forked:
        sys.exit(0)
    sys.exit(5)


process = multiprocessing.get_context("fork").Process(target=refused)
process.start()
process.join(10)
code = process.exitcode
process.close()
""",
    "pool": """
def square(x):
    return x * x


with multiprocessing.get_context("fork").Pool(2) as pool:
    code = 0 if pool.map(square, range(10)) == [x * x for x in range(10)] else 1
    pool.close()
    pool.join()
""",
    "with block": """
def leaves_a_with_block():
    try:
        with run:
            pass
    except lockstep.Forked:
        pass
    own.stop()


code = forked(leaves_a_with_block)
""",
    "communicator of its own": """
def has_its_own():
    with lockstep.Coordinator("127.0.0.1:0") as mine, lockstep.connect(mine.address, timeout=10) as alone:
        value = np.ones(4)
        assert alone.all_reduce(value, timeout=10).world_size == 1
        work = alone.barrier_async()
        work.wait(10)
        lines = []
        journalled = lockstep.Communicator(journal=lines.append)
        journalled.close()
    del alone, mine, work
    gc.collect()


code = forked(has_its_own)
""",
    "grandchild": """
def forks():
    assert forked(run.close) == 0


code = forked(forks)
""",
    "many": """
code = max(forked(lambda: None) for _ in range(20))
""",
    "while others call": """
stop = threading.Event()


def calls():
    number = 0
    while not stop.is_set():
        own_run.all_reduce(np.ones(16), tag=number)
        own_run.barrier_async(tag=number)
        number += 1


own_run = lockstep.connect(own.address, timeout=20)
threads = [threading.Thread(target=calls) for _ in range(1)]
for thread in threads:
    thread.start()


def collects():
    lockstep._lockstep.collect()
    gc.collect()


code = max(forked(collects) for _ in range(15))
stop.set()
for thread in threads:
    thread.join()
""",
}

LEAVES = """
say("child", code)
meets(10)
run.leave()
"""


@pytest.mark.parametrize("name", CHILDREN)
def test_child_ends_cleanly_and_the_parent_goes_on(name: str) -> None:
    program = JOIN + "own = lockstep.Coordinator('127.0.0.1:0')\n" + CHILDREN[name] + LEAVES
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(program, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            assert child.expect("child") == ["child", "0"], child.errors()
            partner.all_reduce(np.ones(3), tag=10, timeout=LIMIT)
            assert child.expect("met") == ["met", "2", "2.0"]
            assert child.end() == 0, child.errors()
            assert child.errors() == ""


def test_killed_parent_with_a_live_child_is_noticed_at_once() -> None:
    program = (
        JOIN
        + """
child = os.fork()
if child == 0:
    signal.pause()
    os._exit(0)
say("child", child)
run.barrier()
"""
    )
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(program, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            grandchild = int(child.expect("child")[1])
            try:
                killed = child.signal(signal.SIGKILL)
                result = partner.barrier(tag=1, timeout=LIMIT)
                seconds = time.monotonic() - killed
            finally:
                os.kill(grandchild, signal.SIGKILL)
    assert result.world_size == 1
    assert seconds < 1


def test_fork_in_a_signal_handler_that_interrupts_a_wait() -> None:
    program = (
        JOIN
        + """
def on_signal(*_):
    say("child", forked(lambda: None))


signal.signal(signal.SIGUSR1, on_signal)
say_when_blocked("blocked")
run.barrier(tag=3, timeout=20)
meets(10)
run.leave()
"""
    )
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(program, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            child.expect("blocked")
            child.signal(signal.SIGUSR1)
            assert child.expect("child") == ["child", "0"], child.errors()
            partner.barrier(tag=3, timeout=LIMIT)
            partner.all_reduce(np.ones(3), tag=10, timeout=LIMIT)
            child.expect("met")
            assert child.end() == 0, child.errors()


def test_ctrl_c_works_in_a_child_that_a_thread_forked() -> None:
    program = (
        JOIN
        + """
def fork_here():
    pid = os.fork()
    if pid == 0:
        say_when_blocked("blocked")
        try:
            lockstep.connect(address, founders=2, timeout=20)
        except KeyboardInterrupt:
            say("interrupted", time.monotonic())
        os._exit(0)
    say("child", pid)
    os.waitpid(pid, 0)


own = lockstep.Coordinator("127.0.0.1:0")
address = own.address
thread = threading.Thread(target=fork_here)
thread.start()
thread.join()
meets(10)
run.leave()
"""
    )
    with lockstep.Coordinator("127.0.0.1:0") as coordinator, Child(program, coordinator.address) as child:
        with lockstep.connect(coordinator.address, founders=2, timeout=LIMIT) as partner:
            words = [child.line().split() for _ in range(2)]
            grandchild = int(next(line[1] for line in words if line[0] == "child"))
            sent = time.monotonic()
            os.kill(grandchild, signal.SIGINT)
            assert float(child.expect("interrupted")[1]) - sent < 0.5
            partner.all_reduce(np.ones(3), tag=10, timeout=LIMIT)
            child.expect("met")
            assert child.end() == 0, child.errors()


def test_workers_of_a_torch_data_loader() -> None:
    pytest.importorskip("torch")
    program = (
        """
import torch

torch.set_num_threads(1)
"""
        + JOIN
        + """
data = torch.utils.data.TensorDataset(torch.arange(64, dtype=torch.float32))
total = torch.zeros(1)
for (batch,) in torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, multiprocessing_context="fork"):
    part = batch.sum().reshape(1)
    run.all_reduce(part)
    total += part
say("total", int(total))
meets(10)
run.leave()
"""
    )
    with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        with Child(program, coordinator.address, flags=()) as child:  # torch itself warns
            with lockstep.connect(coordinator.address, founders=2, timeout=60) as partner:
                for _ in range(8):
                    partner.all_reduce(np.zeros(1, np.float32), timeout=60)
                assert child.expect("total") == ["total", str(sum(range(64)))]
                partner.all_reduce(np.ones(3), tag=10, timeout=LIMIT)
                child.expect("met")
                assert child.end() == 0, child.errors()
