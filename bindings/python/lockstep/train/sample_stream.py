"""The samples that a strategy gives to this peer, and their position in the stream of the run."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .checked import check_state, whole_number
from .sample_allocation import Range, SampleAllocation, positions_in, shuffled


class SampleStream:
    """What a strategy uses of a RunSampler; see samplers.Sampler.

    length: number of samples. batch: samples of an inner step. seed, shuffle: of the permutations.
    """

    def __init__(self, length: int, batch: int, seed: int, shuffle: bool) -> None:
        self._length = length
        self._batch = batch
        self._seed = seed
        self._shuffles = shuffle
        self._shard, self._shards = 0, 1
        self._allocation = SampleAllocation()
        self._own: list[Range] = []
        self._begin = 0  # inner step of the run at which the own slice begins

    def divide(self, shard: int, shards: int) -> None:
        """This peer gets the samples of one of so many shards. Raises ValueError."""
        self._shard, self._shards = shard, shards
        if self._length < shards:
            raise ValueError(f"data has {self._length} samples for {shards} shards; allowed: at least as many")

    @property
    def used(self) -> int:
        """Number of samples in the shared parameters."""
        return self._allocation.used

    @property
    def end(self) -> int:
        """The inner step of the run at which the own slice ends."""
        return self._begin + sum(end - begin for begin, end in self._own) // self._batch

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
    def samples(self) -> int:
        """Samples of an epoch: those of this shard."""
        return -(-(self._length - self._shard) // self._shards)

    def positions(self, inner_step: int) -> Any:
        """Of the samples of this inner step of the run. Raises RuntimeError."""
        step = inner_step - self._begin
        positions = positions_in(self._own, step * self._batch, self._batch)
        if positions.size < self._batch or step < 0:
            raise RuntimeError("there are no samples for this inner step; allowed: next() inside of the `with` block")
        return positions

    def indices(self, inner_step: int) -> Any:
        """The samples of this inner step of the run: torch.int64. Raises RuntimeError."""
        positions = self.positions(inner_step)
        places = positions % self.samples * self._shards + self._shard
        epochs = positions // self.samples
        if self._shuffles:
            for epoch in set(epochs.tolist()):
                of_epoch = epochs == epoch
                places[of_epoch] = shuffled(places[of_epoch], self._length, self._seed, epoch)
        return torch.from_numpy(places)
