"""A process that waits for a call uses no processor: its CPU time, in every form of waiting."""

from __future__ import annotations

import numpy as np
import pytest
from processes import LIMIT, pair_of

SECONDS = 0.4  # of each wait
MOST = (
    0.1  # CPU seconds of all threads in it, of which the event loop and its tasks need the most; polling uses all 0.4
)

WAITER = """
import asyncio, resource
seconds = float(sys.argv[3])


def cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def waits(call, error):
    begin = cpu()
    try:
        call()
    except error:
        say("used", cpu() - begin)


room = np.zeros(3)
if sys.argv[2] == "recv":
    begins = lambda tag: run.recv_async(room, tag=tag)
else:
    begins = lambda tag: run.all_reduce_async(np.ones(3), tag=tag)
works = [begins(tag) for tag in range(50)]


async def first_in_time():
    await asyncio.wait_for(asyncio.ensure_future(works[0]), seconds)


async def all_in_time():
    await asyncio.wait_for(asyncio.gather(*(asyncio.ensure_future(work) for work in works)), seconds)


WAYS = {
    "wait": lambda: works[0].wait(seconds),
    "wait_any": lambda: lockstep.wait_any(works, seconds),
    "await": lambda: asyncio.run(first_in_time()),
    "await all": lambda: asyncio.run(all_in_time()),
}
asyncio.run(asyncio.sleep(0))  # what a first loop imports is no waiting
for way, call in WAYS.items():
    say("waits", way)
    waits(call, asyncio.TimeoutError if "await" in way else lockstep.WaitTimedOut)
say("waits", "blocking")
waits(lambda: run.barrier(tag=99, timeout=seconds), lockstep.TimedOut)
say("waited")
for work in works:
    work.wait(20)
say("over")
run.leave()
"""
WAYS = ["wait", "wait_any", "await", "await all", "blocking"]


@pytest.mark.parametrize("rank", range(2))
@pytest.mark.parametrize("call", ["recv", "all_reduce"])
def test_a_wait_uses_no_processor(call: str, rank: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pair_of(WAITER, rank, call, str(SECONDS)) as (child, partner):
        used: dict[str, float] = {}
        for way in WAYS:
            assert child.line().split(maxsplit=1) == ["waits", way]
            used[way] = float(child.expect("used")[1])
        child.expect("waited")
        other = partner.members()[rank]
        for tag in range(50):
            if call == "recv":
                partner.send(np.ones(3), other, tag=tag, timeout=LIMIT)
            else:
                partner.all_reduce(np.ones(3), tag=tag, timeout=LIMIT)
        child.expect("over")
        assert child.end() == 0, child.errors()
    with capsys.disabled():
        print("\n  " + ", ".join(f"{way}: {1000 * seconds:.1f} ms" for way, seconds in used.items()), end="")
    assert max(used.values()) < MOST, used
