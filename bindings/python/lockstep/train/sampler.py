"""Which samples a peer trains on, so that the run sees each of them once in an epoch."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any, Callable

import torch

from .checked import whole_number
from .sample_stream import SampleStream
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
        length, self._dataset = _length_of(data)
        batch, seed = whole_number(batch, "batch", 1), whole_number(seed, "seed", 0)
        self._collate = torch.utils.data.default_collate if collate is None else collate
        self._strategy = strategy
        self._stream = SampleStream(length, batch, seed, bool(shuffle))
        self._stream.divide(*strategy.add_sampler(self._stream))

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
        return self._stream.indices(self._strategy.inner_step)

    def round(self) -> list[list[int]]:
        """The indices of this and each following inner step of the round, for a loader with workers of its own.

        Example:
            >>> for x, y in torch.utils.data.DataLoader(dataset, batch_sampler=data.round(), num_workers=2):
            ...     train(x, y)  # with strategy.step()
        """
        return [self._stream.indices(step).tolist() for step in range(self._strategy.inner_step, self._stream.end)]

    @property
    def epoch(self) -> int:
        """The epoch of the run, from 0, to which the first sample of this inner step belongs."""
        return int(self._stream.positions(self._strategy.inner_step)[0]) // self._stream.samples

    @property
    def seen(self) -> int:
        """Number of samples in the shared parameters; with a Replica, those of this shard. Equal on all peers."""
        return self._stream.used


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
