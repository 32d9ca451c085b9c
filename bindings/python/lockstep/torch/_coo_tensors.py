"""Sums of sparse tensors (torch.sparse_coo), whose ranks store elements at different places."""

from __future__ import annotations

import zlib
from typing import Any

import torch

from ..communicator import Communicator
from ..errors import Error, Mismatch
from ..train.arrays import host_memory
from ._call_sequence import CallSequence, Outcome
from ._tensors import Reduction, as_bytes, check_reduced
from ._work import Call

_INDEX_BYTES = 8


class CooSum:
    """The sum, or average, of one sparse tensor of each rank. Ranks exchange `own_size`, then `elements`.

    A lost rank ends the exchange, also in an elastic group.

    tensor: this rank's tensor, on any device; it gets the sum in give_back().
    reduction: sum or avg; another one raises TypeError.
    world: number of ranks.
    own_size: number of elements that this rank stores, and a digest of what must be equal on all ranks.
    sizes: room for the `own_size` of all ranks, in rank order.
    elements: this rank's indices, then its values, as bytes; None before take_sizes().
    """

    def __init__(self, tensor: torch.Tensor, reduction: Reduction, world: int) -> None:
        if reduction.op not in ("sum", "avg") or reduction.factor is not None:
            raise TypeError(f"sparse tensors have no {reduction.op}; allowed: SUM and AVG")
        check_reduced(tensor)
        self._tensor = tensor
        self._averages = reduction.op == "avg"
        self._own = tensor.detach().cpu().coalesce()
        kind = f"{list(tensor.shape)} {tensor.dtype} {tensor.sparse_dim()}"
        self._digest = zlib.crc32(kind.encode())
        self.own_size = torch.tensor([self._own.values().shape[0], self._digest], device="cpu")
        self.sizes = torch.zeros(2 * world, dtype=torch.int64, device="cpu")
        self.elements: torch.Tensor | None = None
        self._room = host_memory(0, torch.uint8)

    def take_sizes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The elements of this rank, and room for those of all ranks. Raises Mismatch if the tensors differ in kind."""
        for rank, digest in enumerate(self.sizes[1::2].tolist()):
            if digest != self._digest:
                raise Mismatch(
                    f"all_reduce of a sparse tensor: {self._tensor.dtype} of shape {tuple(self._tensor.shape)} with "
                    f"{self._tensor.sparse_dim()} sparse dimensions here; rank {rank} has another kind of tensor"
                )
        indices = self._own.indices().t().contiguous()
        self.elements = torch.cat([as_bytes(indices), as_bytes(self._own.values().contiguous())])
        self._room = host_memory(sum(self._counts()) * self._bytes_each(), torch.uint8)
        return self.elements, self._room

    def exchange(self, run: Communicator, **options: Any) -> Call:
        """Begins the exchange. options: those of all_gather_async(), for both of its calls."""

        def following(outcome: Outcome) -> Call | None:
            if isinstance(outcome, Error) or self.elements is not None:
                return None
            elements, room = self.take_sizes()
            return run.all_gather_async(elements, room, **options)

        return CallSequence(run.all_gather_async(self.own_size, self.sizes, **options), following)

    def give_back(self) -> None:
        """After the exchange: the tensor holds the sum, added up in the order of ranks."""
        total = torch.zeros_like(self._own)
        for part in self._room.split([count * self._bytes_each() for count in self._counts()]):
            total = (total + self._tensor_of(part)).coalesce()
        if self._averages:
            total = total / len(self._counts())
        with torch.no_grad():  # detach() of a sparse tensor makes another one
            self._tensor.copy_(total)

    def _counts(self) -> list[int]:
        counts: list[int] = self.sizes[0::2].tolist()
        return counts

    def _bytes_each(self) -> int:
        values = self._own.values()
        elements = values[:1].numel() if values.shape[0] else values.new_empty(values.shape[1:]).numel()
        size: int = self._own.sparse_dim() * _INDEX_BYTES + elements * values.element_size()
        return size

    def _tensor_of(self, part: torch.Tensor) -> torch.Tensor:
        count, dims = part.numel() // self._bytes_each(), self._own.sparse_dim()
        indices, values = part.split([count * dims * _INDEX_BYTES, count * (self._bytes_each() - dims * _INDEX_BYTES)])
        return torch.sparse_coo_tensor(
            indices.clone().view(torch.int64).view(count, dims).t(),
            values.clone().view(self._own.dtype).view(count, *self._own.values().shape[1:]),
            self._own.shape,
            check_invariants=True,
            device="cpu",
        )
