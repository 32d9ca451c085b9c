"""Replicas of a model that are sharded over several processes each: a replica joins, and is lost, as a whole."""

from __future__ import annotations

import os
import secrets
from datetime import timedelta
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from .._lockstep import Result
from ..communicator import Communicator
from ..errors import Evicted, NotConnected
from ..state import State
from ..train.optimizer_state import state_of
from ..train.sharding import Shard, local_of
from ._rendezvous import COORDINATOR, own_name

_TIMEOUT = timedelta(minutes=5)
_STEP = "step"


class Replica(Shard):
    """This process's shard of a replica, among the other replicas. Made by from_mesh().

    Inside of a replica, FSDP2 works over any backend of torch. Between replicas, shard i of each replica reduces with
    shard i of the others. The shards of a replica are a gang: they are admitted together, each collective has one
    outcome on all of them, and when one of them dies, the others of its replica raise lockstep.Evicted at their next
    call; the other replicas go on. A shard that waits for a dead one inside of the replica gets the error of the
    backend there.

    run: the communicator of this shard; its group has the same shard of every replica.
    shard, shards: the number of this shard, and that of the shards of a replica.
    result: receipt of the last reduction; None before the first.

    Example:
        >>> mesh = torch.distributed.init_device_mesh("cpu", (2,))
        >>> model = torch.distributed.fsdp.fully_shard(model, mesh=mesh)
        >>> with lockstep.torch.Replica.from_mesh(mesh, "env:LOCKSTEP_COORDINATOR", replicas=3) as replica:
        ...     replica.attach(model)
        ...     step = replica.sync(model, optimizer, 0)
        ...     while step < 1000:
        ...         loss(model).backward()  # averages the gradients over all replicas
        ...         optimizer.step()
        ...         step = replica.sync(model, optimizer, step + 1)  # newcomers come in here
    """

    def __init__(self, run: Communicator, shard: int, shards: int) -> None:
        super().__init__(run, shard, shards)
        self.result: Result | None = None
        self._is_new = True

    @classmethod
    def from_mesh(
        cls,
        mesh: Any,
        coordinator: str | None = None,
        *,
        replicas: int | None = None,
        timeout: timedelta = _TIMEOUT,
        **options: Any,
    ) -> Replica:
        """Joins the run with all shards of this replica. Every process of the mesh calls it.

        mesh: a DeviceMesh of one dimension, the shards of this replica, if each replica is a world of its own for
            torch; or of two dimensions, replicas and shards.
        coordinator: as lockstep.connect() takes it; None for the variable LOCKSTEP_COORDINATOR. It must outlive every
            replica.
        replicas: number of replicas that found the run; None for the first dimension of the mesh, or else 1. Replicas
            that come later wait until the others call sync().
        timeout: limit for the replica to be admitted; if a process of the replica dies before, the others wait so long.
        options: see lockstep.Options.
        Raises ValueError; lockstep.Unreachable, Refused, TimedOut.
        """
        coordinator = coordinator or os.environ.get(COORDINATOR)
        if not coordinator:
            raise ValueError(f"a replica needs a coordinator: an argument, or the variable {COORDINATOR}")
        if mesh.ndim not in (1, 2):
            raise ValueError(f"mesh has {mesh.ndim} dimensions; allowed: 1 (shards) or 2 (replicas, shards)")
        inner = mesh.ndim - 1
        shard, shards = mesh.get_local_rank(inner), mesh.size(inner)
        founding = replicas or (mesh.size(0) if inner else 1)
        options.setdefault("name", own_name(f"shard {shard}"))
        run = Communicator(
            group=shard,
            gang=_number_for_all(mesh.get_group(inner), shard),
            gang_size=shards,
            founders=founding * shards,
            **options,
        )
        try:
            run.connect(coordinator, timeout=timeout.total_seconds())
        except BaseException:
            run.close()
            raise
        return cls(run, shard, shards)

    def attach(self, model: torch.nn.Module) -> None:
        """From now on every backward pass averages the gradients over all replicas, by FSDP's set_all_reduce_hook.

        Each FSDP module reduces when its gradients are there. If a replica is lost in between, the modules that follow
        are averaged over fewer replicas; they are equal on all that go on.

        model: a module with fully_shard() applied to it or to parts of it, on the mesh of the shards.
        """
        modules = [module for module in model.modules() if hasattr(module, "set_all_reduce_hook")]
        if not modules:
            raise ValueError("the model has no module with fully_shard(): call fully_shard() first")
        for module in modules:
            module.set_all_reduce_hook(self.average)

    def average(self, gradient: torch.Tensor) -> None:
        """Averages a tensor over the replicas, in place; goes on among the survivors when a replica is lost."""
        self.result = self.run.all_reduce(gradient, op="avg")

    def sync(self, model: torch.nn.Module, optimizer: Any = None, step: int = 0) -> int:
        """Lets waiting replicas in, and makes shards, buffers and the optimizer's state equal on all replicas.

        All replicas call it at the same place of their program, and a newcomer first of all. The highest step wins; if
        all are equal, it costs two round trips and a digest of the state.

        step: the number of steps that this state has seen.
        Returns the step of the state that all replicas hold now. Raises lockstep.Error; ValueError for an optimizer
        whose step needs a closure (LBFGS).
        """
        if not self._is_new:
            self.run.admit()
        self._is_new = False
        state = State({**_shards_of(model), **state_of(optimizer), _STEP: step}, revision=step)
        self.run.sync(state)
        return int(state[_STEP])

    @property
    def replicas(self) -> int:
        """The number of replicas in the newest view."""
        return self.run.world_size

    @property
    def rank(self) -> int:
        """This replica's place among the replicas in the newest view."""
        return self.run.rank

    def leave(self, timeout: timedelta = timedelta(seconds=10)) -> None:
        """Leaves the run: every shard of the replica calls it. The other replicas go on without an error."""
        try:
            self.run.leave(timeout=timeout.total_seconds())
        except (Evicted, NotConnected):
            pass  # the run is over for this replica already
        finally:
            self.run.close()

    def __enter__(self) -> Replica:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.leave()
        else:
            self.run.close()  # the other shards of this replica cannot go on either

    def __repr__(self) -> str:
        return f"<lockstep.torch.Replica shard {self.shard} of {self.shards}, {self.run!r}>"


def _number_for_all(group: Any, shard: int) -> int:
    """A number that the first shard draws: two replicas draw different ones."""
    number = [secrets.randbits(62) + 1 if shard == 0 else 0]
    dist.broadcast_object_list(number, dist.get_global_rank(group, 0), group=group)  # NCCL moves no tensor of the CPU
    return number[0]


def _shards_of(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    named = [*model.named_parameters(), *model.named_buffers()]
    return {f"model/{name}": local for name, tensor in named if (local := local_of(tensor)).numel()}
