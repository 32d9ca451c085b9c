"""`await work`: no thread per call, cancellation ends the wait alone, nothing is left behind by loops that are closed."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Awaitable
from typing import Any

import lockstep
import numpy as np
import pytest
from lockstep import _asyncio
from support import IN_TIME, Meeting, Peers, at_each_rank

pytestmark = pytest.mark.timing

Run = lockstep.Communicator


def threads() -> int:
    """Of this process, those of the library included."""
    return len(os.listdir("/proc/self/task"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def in_time(awaitable: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(asyncio.ensure_future(awaitable), IN_TIME)


def test_await_gives_the_result(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        async def step() -> lockstep.Result:
            work = run.all_reduce_async(given)
            result = await work
            assert await work is result  # over already
            assert work.result() is result
            return result

        given = np.full(1000, number + 1.0)
        assert asyncio.run(step()).world_size == 2
        assert (given == 3).all()

    peers(2, main)


def test_await_raises_what_the_call_ended_with(alone: Run) -> None:
    async def step() -> None:
        work = alone.wait_for_world_async(2)
        work.abort("by the test")
        for _ in range(2):
            with pytest.raises(lockstep.Aborted):
                await in_time(work)
        with pytest.raises(lockstep.NotConnected):
            await lockstep.Communicator(listen_host="127.0.0.1").barrier_async()

    asyncio.run(step())


@at_each_rank(2)
def test_the_loop_goes_on_meanwhile(peers: Peers) -> None:
    """Peer 1 begins its call once a task of peer 0 has run while another one awaits."""
    ran = Meeting(2)

    def main(run: Run, number: int) -> None:
        async def other() -> None:
            await asyncio.get_running_loop().run_in_executor(None, ran)

        async def step() -> None:
            work = run.barrier_async()
            result, _ = await in_time(asyncio.gather(work, other()))
            assert result.world_size == 2

        if number == 0:
            asyncio.run(step())
        else:
            ran()
            run.barrier()

    peers(2, main)


@at_each_rank(2)
def test_many_calls_at_once_need_no_thread(peers: Peers) -> None:
    count = 200
    begun, seen = Meeting(2), Meeting(2)
    figures: list[tuple[int, int, int]] = []

    def main(run: Run, number: int) -> None:
        async def step() -> None:
            works = [run.all_reduce_async(np.full(10, tag + 1.0), tag=tag) for tag in range(count)]
            tasks = [asyncio.ensure_future(work) for work in works]
            await asyncio.sleep(0)  # every task awaits its work now
            figures.append((threads(), threading.active_count(), descriptors()))
            begun()
            seen()
            results = await in_time(asyncio.gather(*tasks))
            assert [result.tag for result in results] == list(range(count))

        if number == 0:
            gc.collect()  # a communicator of a former test ends on a thread of its own
            run.barrier(tag=count)
            figures.append((threads(), threading.active_count(), descriptors()))
            asyncio.run(step())
        else:
            run.barrier(tag=count)
            begun()
            seen()
            works = [run.all_reduce_async(np.ones(10), tag=tag) for tag in range(count)]
            for work in works:
                work.wait(IN_TIME)

    peers(2, main)
    before, during = figures
    assert during[0] <= before[0]  # threads of former tests may still end
    assert during[1] <= before[1]
    assert during[2] <= before[2] + 4  # a selector, a pair of sockets, and one for all calls


@at_each_rank(2)
def test_cancelling_ends_the_wait_and_not_the_call(peers: Peers) -> None:
    cancelled = Meeting(2)

    def main(run: Run, number: int) -> None:
        given = np.ones(100)

        async def step() -> None:
            work = run.all_reduce_async(given)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.ensure_future(work), 0.01)
            task = asyncio.ensure_future(work)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not work.done()
            cancelled()
            assert (await in_time(work)).world_size == 2

        if number == 0:
            asyncio.run(step())
        else:
            cancelled()
            run.all_reduce(given)
        assert (given == 2).all()

    peers(2, main)


@at_each_rank(2)
def test_several_tasks_await_one_work(peers: Peers) -> None:
    waiting = Meeting(2)

    def main(run: Run, number: int) -> None:
        async def step() -> None:
            work = run.barrier_async()

            async def waiter() -> lockstep.Result:
                result: lockstep.Result = await work
                return result

            tasks = [asyncio.ensure_future(waiter()) for _ in range(5)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            waiting()
            results = await in_time(asyncio.gather(*tasks, return_exceptions=True))
            assert isinstance(results[0], asyncio.CancelledError)
            assert len({id(result) for result in results[1:]}) == 1

        if number == 0:
            asyncio.run(step())
        else:
            waiting()
            run.barrier()

    peers(2, main)


def test_loops_one_after_another_leave_nothing_behind(peers: Peers) -> None:
    gc.collect()
    before = descriptors()

    def main(run: Run, number: int) -> None:
        async def step() -> None:
            await in_time(asyncio.gather(*(run.all_reduce_async(np.ones(10), tag=tag) for tag in range(4))))

        for _ in range(25):
            asyncio.run(step())

    peers(2, main)
    gc.collect()
    assert len(_asyncio._watchers) <= 2
    assert descriptors() <= before + 6  # those of the coordinator's, that it closes in its own time


@at_each_rank(2)
def test_a_loop_that_is_closed_while_a_call_goes_on(peers: Peers) -> None:
    closed = Meeting(2)

    def main(run: Run, number: int) -> None:
        async def give_up(work: lockstep.Work) -> None:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.ensure_future(work), 0.01)

        async def forget(work: lockstep.Work) -> None:
            asyncio.ensure_future(work)  # noqa: RUF006 - asyncio.run cancels it
            await asyncio.sleep(0)

        if number == 0:
            work = run.all_reduce_async(np.ones(3))
            asyncio.run(give_up(work))
            asyncio.run(forget(work))
            closed()
            assert work.wait(IN_TIME).world_size == 2
        else:
            closed()
            run.all_reduce(np.ones(3))

    peers(2, main)


def test_loops_in_several_threads(peers: Peers) -> None:
    def main(run: Run, number: int) -> int:
        async def steps() -> int:
            for tag in range(50):
                given = np.ones(10)
                await in_time(run.all_reduce_async(given, tag=tag))
                assert (given == 3).all()
            return len(_asyncio._watchers)

        return asyncio.run(steps())

    peers(3, main)


def test_a_loop_keeps_its_descriptor_while_another_one_begins(alone: Run) -> None:
    """Both loops go on waiting through the descriptors that they have: none is opened anew."""

    async def step() -> None:
        work = alone.wait_for_world_async(2)
        waiting = asyncio.ensure_future(work)
        await asyncio.sleep(0)  # the task awaits its work now
        work.abort("by the test")
        with pytest.raises(lockstep.Aborted):
            await in_time(waiting)

    first, second = asyncio.new_event_loop(), asyncio.new_event_loop()
    try:
        first.run_until_complete(step())
        watcher = _asyncio._watchers[first]
        second.run_until_complete(step())
        assert _asyncio._watchers[first] is watcher
        first.close()
        third = asyncio.new_event_loop()
        third.run_until_complete(step())
        third.close()
        assert first not in _asyncio._watchers  # closed before another one began
        assert second in _asyncio._watchers
    finally:
        first.close()
        second.close()


def test_states_change_when_an_awaited_sync_is_over(peers: Peers) -> None:
    def main(run: Run, number: int) -> None:
        state = lockstep.State({"w": np.full(5, float(number)), "step": number}, revision=number)

        async def step() -> None:
            await in_time(run.sync_async(state))

        asyncio.run(step())
        assert (state["step"], state.revision) == (1, 1)
        assert (state["w"] == 1).all()

    peers(2, main)
