"""`await work` without a thread per call: the native part makes a descriptor readable when a call is over."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Generator
from weakref import WeakKeyDictionary, ref

from ._lockstep import Result, Waker, Work


class _Watcher:
    """The calls that one event loop waits for. All of them share one descriptor."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # weak: _watchers has the loop as key
        self._waker = Waker()
        self._tokens = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def watch(self, work: Work) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        token = next(self._tokens)
        if not self._waiting:
            loop.add_reader(self._waker.fileno(), self._ended)
        self._waiting[token] = future
        future.add_done_callback(lambda _: self._forget(token))
        self._waker.watch(work, token)
        return future

    def _ended(self) -> None:
        for token in self._waker.take():
            future = self._waiting.get(token)
            if future is not None and not future.done():
                future.set_result(None)

    def _forget(self, token: int) -> None:
        self._waiting.pop(token, None)
        loop = self._loop()
        if not self._waiting and loop is not None and not loop.is_closed():
            loop.remove_reader(self._waker.fileno())


_watchers: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watcher] = WeakKeyDictionary()


def until_over(work: Work) -> Generator[object, None, Result]:
    """The coroutine behind `await work`. Cancelling it ends the wait; the call continues."""
    if not work.done():
        loop = asyncio.get_running_loop()
        watcher = _watchers.get(loop)
        if watcher is None:
            for key in _watchers.keyrefs():  # a list: other threads have loops, too
                other = key()
                if other is not None and other.is_closed():
                    _watchers.pop(other, None)
            watcher = _watchers[loop] = _Watcher(loop)
        yield from watcher.watch(work)
    return work.result(0)
