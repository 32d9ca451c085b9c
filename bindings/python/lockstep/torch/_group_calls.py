"""The collectives of a group as calls of its run: how they begin, what their ends mean, what their errors say."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Callable

from .._lockstep import Result
from ..errors import Error, Evicted, NotConnected, OutcomeUnknown, TimedOut
from ..types import OpName
from ._failure_policy import CollectiveError, FailurePolicy, failure_of
from ._group_membership import GroupMembership
from ._work import Call, Ended, EndedWork, Finish, GroupWork, Tensors

_log = logging.getLogger("lockstep")


class GroupCalls:
    """How the collectives of a group begin and end.

    timeout: the default of every collective, in seconds.
    needs_rank_0: whether another rank of this group runs the coordinator.
    result: the receipt of the last collective that has ended; None before the first.
    coalesced: the works since the beginning of coalescing, which end as one; None: each ends for itself.
    abort_hooks: called before abort(), and when a collective has failed; by torch's numbers.
    """

    def __init__(self, membership: GroupMembership, policy: FailurePolicy, timeout: float, needs_rank_0: bool) -> None:
        self.timeout = timeout
        self.result: Result | None = None
        self.coalesced: list[GroupWork] | None = None
        self.abort_hooks: dict[int, Callable[[], object]] = {}
        self._membership = membership
        self._policy = policy
        self._needs_rank_0 = needs_rank_0

    # ---- how calls begin ----

    def seconds(self, timeout: timedelta | None) -> float:
        """The limit of a collective with this timeout of torch's."""
        seconds = timeout.total_seconds() if timeout is not None else -1.0
        return seconds if seconds > 0 else self.timeout  # torch's "unset" is -1 ms

    def is_async(self, opts: Any) -> bool:
        """Whether the caller does something else before it waits."""
        return self.coalesced is not None or getattr(opts, "asyncOp", True)

    def call(self, name: str, opts: Any, *arrays: Any, **options: Any) -> Call:
        """Begins a call of the communicator. A caller that would only wait makes the call itself.

        options: of the call; without minimum_world all members must contribute.
        """
        now = self._membership.present
        options.setdefault("minimum_world", len(now.members))
        options["timeout"] = self.seconds(opts.timeout)
        if self.is_async(opts):
            call: Call = getattr(now.run, name + "_async")(*arrays, **options)
            return call
        try:
            return Ended(getattr(now.run, name)(*arrays, **options))
        except Error as error:
            return Ended(error)

    def call_among_survivors(self, name: str, opts: Any, *arrays: Any, **options: Any) -> Call:
        """call() that an elastic group goes on with when a rank is lost."""
        least, retry = self._policy.least(len(self._membership.present.members)), self._policy.retries
        return self.call(name, opts, *arrays, minimum_world=least, retry=retry, **options)

    def all_reduce_at_once(self, array: Any, op: OpName, tensors: Tensors, opts: Any) -> EndedWork:
        """The all-reduce of a caller that waits for it, of one tensor that needs no copy. Small ones are frequent."""
        now = self._membership.present
        call = now.all_reduce(op, self.seconds(opts.timeout), self._policy.least, self._policy.retries)
        try:
            result = call(array)
        except Error as error:
            return EndedWork(tensors, self.failure(error))
        self.result = result
        self._policy.committed(result, now)
        return EndedWork(tensors, None)

    @contextlib.contextmanager
    def answering(self, operation: str, calls: int = 1, tag: int = 0) -> Iterator[None]:
        """Tells the other ranks if this rank refuses a collective inside of the `with` block: they do not wait for it.

        operation: torch's name of it. calls: the number of calls of which the collective consists. tag: of the calls.
        """
        try:
            yield
        except Exception as error:
            now = self._membership.now
            if now is not None:
                for _ in range(calls):
                    now.run.refuse(operation, error, tag=tag)
            raise

    def each(self, operation: str, begin: Callable[..., GroupWork], pairs: Sequence[Any], opts: Any) -> GroupWork:
        """One collective for each pair of tensors, as one Work."""
        works: list[GroupWork] = []
        for one, other in pairs:
            with self.answering(operation, len(pairs) - len(works) - 1):  # begin() tells the others about its own
                works.append(begin(one, other, opts))
        return self.together(works)

    # ---- how calls end ----

    def begun(self, calls: Sequence[Call], tensors: Tensors, finish: Finish = lambda _: None) -> GroupWork:
        """The Work of calls that were just made. finish: see GroupWork."""
        now = self._membership.now

        def end(results: Sequence[Result]) -> None:
            if results and now is not None:
                self.result = results[-1]
                self._policy.committed(results[-1], now)
            finish(results)

        return self._collected(GroupWork(calls, tensors, end, self.failure))

    def transfer(self, calls: Sequence[Call], tensors: Tensors, finish: Finish) -> GroupWork:
        """The Work of sends or receives that were just begun."""
        members = self._membership.present.members
        return self._collected(GroupWork(calls, tensors, finish, self.failure, members))

    def together(
        self, works: Sequence[GroupWork], tensors: Tensors | None = None, then: Callable[[], object] = lambda: None
    ) -> GroupWork:
        """Several works as one. tensors: None for all of theirs. then: called once all of them have succeeded."""
        if tensors is None:
            tensors = [tensor for work in works for tensor in work.tensors]

        def finish(results: Sequence[Result]) -> None:
            left = iter(results)
            for work in works:
                work.finish(list(itertools.islice(left, len(work.calls))))
            then()

        if self.coalesced is not None:
            self.coalesced = [work for work in self.coalesced if work not in works]
        calls = [call for work in works for call in work.calls]
        return self._collected(GroupWork(calls, tensors, finish, self.failure))

    def _collected(self, work: GroupWork) -> GroupWork:
        if self.coalesced is not None:
            self.coalesced.append(work)
        return work

    def failure(self, error: BaseException) -> CollectiveError:
        """The exception of torch for an error of Lockstep."""
        now, lost = self._membership.now, []
        with contextlib.suppress(Error):
            lost = self._membership.present.lost()
        text = str(error)
        if isinstance(error, TimedOut):
            text = f"the timeout of the call has passed: {text}"
        end_of_run = error if isinstance(error, (NotConnected, Evicted, OutcomeUnknown)) else None
        if self._needs_rank_0 and end_of_run is not None and "the coordinator at '" in text:
            lost = sorted({0, *lost})
            text = text.replace(": rejoin as a new peer", "") + (
                "; rank 0 ran the coordinator of this group, so the run is over for all ranks: create a new group. With"
                " init_method='lockstep://TOKEN' a `lockstep coordinator` outlives every rank"
            )
        elif not end_of_run:
            text += self._policy.advice(lost)
        if now is not None and end_of_run:
            now.end_of_run = end_of_run
        self.call_abort_hooks()
        return failure_of(error, text, lost)

    def call_abort_hooks(self) -> None:
        """Calls all of them."""
        for hook in list(self.abort_hooks.values()):
            try:
                hook()
            except Exception:
                _log.exception("an abort hook failed")
