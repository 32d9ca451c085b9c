"""Which samples a peer trains on, so that the run sees each of them once in an epoch."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable

import torch

from .checked import check_state, whole_number
from .sample_allocation import Range, SampleAllocation, positions_in, shuffled
from .strategy import Strategy


class RunSampler:
    """Gives each peer samples of its own: in each epoch of the run, each sample is in exactly one contribution.

    The samples of the run are one shuffled stream, epoch after epoch. At the begin of a round (from one outer step to
    the next) each member takes a slice of inner_steps * batch samples, in the order of the ranks. The samples of a
    contribution that came through are used up. If a peer is lost or leaves before its outer step, then its slice is
    given out again in the next round: what it had learnt is in no parameters. Newcomers and checkpoints go on where the
    run is: the position is part of the shared state.

    data: a dataset of torch with a length (a map-style Dataset), or the number of samples.
    strategy: make the sampler before its `with` block. A strategy may have several samplers.
    batch: samples of an inner step of one peer, equal on all peers. A batch may reach into the next epoch.
    seed: of the permutations, equal on all peers. shuffle: False gives the samples in order.
    collate: makes a batch of a list of items; default: torch.utils.data.default_collate.
    In a Replica each shard has samples of its own; their number is that of the samples divided by that of the shards.
    Raises ValueError, TypeError; RuntimeError inside of the `with` block.

    Example:
        >>> data = RunSampler(dataset, strategy, batch=32)
        >>> with strategy:
        ...     while strategy.inner_step < 1000:
        ...         x, y = data.next()
        ...         loss(model(x), y).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         strategy.step()
    """

    def __init__(
        self,
        data: Any,
        strategy: Strategy,
        batch: int = 32,
        *,
        seed: int = 0,
        shuffle: bool = True,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        if not isinstance(strategy, Strategy):
            raise TypeError(f"strategy is of type {type(strategy).__name__}; allowed: a strategy, such as DiLoCo(...)")
        self._length, self._dataset = _length_of(data)
        self._batch = whole_number(batch, "batch", 1)
        self._seed = whole_number(seed, "seed", 0)
        self._shuffles = bool(shuffle)
        self._collate = torch.utils.data.default_collate if collate is None else collate
        self._allocation = SampleAllocation()
        self._own: list[Range] = []
        self._begin = 0  # inner step of the run at which the own slice begins
        self._strategy = strategy
        self._shard, self._shards = strategy.add_sampler(self)
        if self._length < self._shards:
            raise ValueError(f"data has {self._length} samples for {self._shards} shards; allowed: at least as many")

    # ---- what a program uses ----

    def next(self, device: Any = None) -> Any:
        """The batch of this inner step: collated items of the dataset, or indices if `data` is a number.

        The run's counters decide: until strategy.step() every call returns the same samples. Indices are a torch.int64
        tensor of `batch` elements. device: where tensors go. Raises RuntimeError outside of the `with` block.
        """
        indices = self.indices()
        if self._dataset is None:
            return indices if device is None else indices.to(device)
        many = getattr(self._dataset, "__getitems__", None)
        chosen = indices.tolist()
        items = list(many(chosen)) if many else [self._dataset[index] for index in chosen]
        batch = self._collate(items)
        return batch if device is None else _moved(batch, device)

    def __iter__(self) -> Iterator[Any]:
        """Calls next() again and again; the loop calls strategy.step(), and ends itself."""
        while True:
            yield self.next()

    def indices(self) -> Any:
        """The indices of the samples of this inner step: torch.int64, `batch` elements."""
        return self._indices(self._strategy.inner_step - self._begin)

    def round(self) -> list[list[int]]:
        """The indices of this and each following inner step of the round, for a loader with workers of its own.

        Example:
            >>> for x, y in torch.utils.data.DataLoader(dataset, batch_sampler=data.round(), num_workers=2):
            ...     train(x, y)  # with strategy.step()
        """
        steps = sum(end - begin for begin, end in self._own) // self._batch
        return [self._indices(step).tolist() for step in range(self._strategy.inner_step - self._begin, steps)]

    @property
    def epoch(self) -> int:
        """The epoch of the run, from 0, to which the first sample of this inner step belongs."""
        return int(self._positions(self._strategy.inner_step - self._begin)[0]) // self._samples

    @property
    def seen(self) -> int:
        """Number of samples in the shared parameters; with a Replica, those of this shard. Equal on all peers."""
        return self._allocation.used

    # ---- what the strategy uses ----

    @property
    def settings(self) -> Mapping[str, float]:
        """What must be equal on all peers."""
        return {
            "samples": self._length,
            "batch": self._batch,
            "seed": self._seed,
            "shuffle": self._shuffles,
        }

    def allocate(self, members: Sequence[bytes], own: bytes, steps: int, inner_step: int) -> None:
        """Members that have no slice of the current round get one for so many steps, from this inner step on."""
        if not self._allocation.slice_of(own):
            self._begin = inner_step
        self._allocation.allocate(members, steps * self._batch)
        self._own = self._allocation.slice_of(own)

    def end_round(self) -> None:
        """See SampleAllocation.end_round()."""
        self._allocation.end_round()

    def settle(self, contributors: Sequence[bytes]) -> None:
        """See SampleAllocation.settle()."""
        self._allocation.settle(contributors)

    def forget_rounds(self) -> None:
        """See SampleAllocation.forget_rounds()."""
        self._allocation.forget_rounds()
        self._own = []

    def entry(self) -> Any:
        """The position, for the shared state."""
        return self._allocation.save()

    def take(self, entry: Any) -> None:
        """Takes over the position of the run."""
        self._allocation.load(entry)

    def state(self) -> dict[str, Any]:
        """The position after the last outer step, for a checkpoint."""
        return {"cursor": self._allocation.cursor, "free": self._allocation.free_of(), "settings": dict(self.settings)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Takes over a state(). Raises KeyError, ValueError, TypeError."""
        check_state(state, {"cursor": int, "free": (list, tuple), "settings": Mapping})
        for name in ("samples", "seed", "shuffle"):
            own, given = self.settings[name], state["settings"].get(name)
            if given != own:
                raise ValueError(f"{name} of the sampler is {own}, and {given} in the state; allowed: equal settings")
        cursor = whole_number(state["cursor"], "cursor", 0)
        try:
            free = [(operator.index(begin), operator.index(end)) for begin, end in state["free"]]
        except (TypeError, ValueError):
            raise TypeError(f"free is {state['free']!r}; allowed: pairs of positions") from None
        ends = [0, *(end for _, end in free), cursor]
        if any(not last <= begin < end <= cursor for last, (begin, end) in zip(ends, free)):
            raise ValueError(f"free is {free}; allowed: sorted pairs of positions up to {cursor}, the cursor")
        self._allocation.begin_at(cursor, free)

    # ---- samples of positions ----

    @property
    def _samples(self) -> int:
        """Samples of an epoch: those of this shard."""
        return -(-(self._length - self._shard) // self._shards)

    def _positions(self, step: int) -> Any:
        positions = positions_in(self._own, step * self._batch, self._batch)
        if positions.size < self._batch or step < 0:
            raise RuntimeError("there are no samples for this inner step; allowed: next() inside of the `with` block")
        return positions

    def _indices(self, step: int) -> Any:
        positions = self._positions(step)
        places = positions % self._samples * self._shards + self._shard
        epochs = positions // self._samples
        if self._shuffles:
            for epoch in set(epochs.tolist()):
                of_epoch = epochs == epoch
                places[of_epoch] = shuffled(places[of_epoch], self._length, self._seed, epoch)
        return torch.from_numpy(places)


def _length_of(data: Any) -> tuple[int, Any]:
    """The number of samples, and the dataset if there is one."""
    try:
        return whole_number(operator.index(data), "data", 1), None
    except TypeError:
        pass
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        raise TypeError(
            f"data is of type {type(data).__name__}; allowed: a dataset with a length, or the number of samples"
        )
    length = len(data)
    if length < 1:
        raise ValueError("data has no samples; allowed: at least 1")
    return length, data


def _moved(batch: Any, device: Any) -> Any:
    """The batch with its tensors on the device."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: _moved(part, device) for name, part in batch.items()}
    if isinstance(batch, (list, tuple)):
        parts = [_moved(part, device) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)  # a NamedTuple takes its fields
    return batch
