"""Shards: the part of a sharded model that lies in this process, and the run in which it is reduced."""

from __future__ import annotations

import torch

from ..communicator import Communicator


class Shard:
    """A shard of a replica: it reduces with the same shard of the other replicas. See lockstep.torch.Replica.

    run: the communicator of this shard; its group has the same shard of every replica.
    shard, shards: the number of this shard, and that of the shards of a replica.
    """

    def __init__(self, run: Communicator, shard: int, shards: int) -> None:
        self.run = run
        self.shard = shard
        self.shards = shards


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that lies in this process, sharing its memory."""
    own = tensor.detach()
    return own.to_local() if hasattr(own, "to_local") else own
