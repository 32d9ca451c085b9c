"""Replicas of a model, sharded over two processes each with FSDP2. Kill any process: its replica leaves as a whole.

    lockstep coordinator --listen 127.0.0.1:4000 &
    torchrun --nproc-per-node 2 fsdp_replicas.py 127.0.0.1:4000 --replicas 3    # in three shells

Between machines `lockstep coordinator` prints a run token: give that instead of the address.

Each replica is a world of its own for torch, here over Gloo. Start a killed replica again: it takes over the others'
parameters and optimizer at their next step.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Sequence

import lockstep.torch
import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def make_model() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))


def hash_of(model: torch.nn.Module) -> str:
    """Of this process's shard."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.to_local().numpy(force=True).tobytes())  # type: ignore[operator]
    return digest.hexdigest()[:16]


def train(replica: lockstep.torch.Replica, model: torch.nn.Module, steps: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    replica.attach(model)
    step = replica.sync(model, optimizer, 0)  # a newcomer takes over step and state of the others
    while step < steps:
        x = torch.randn(32, 8)  # each process has examples of its own
        (model(x) - x.flip(1)).square().mean().backward()  # averages the gradients over all replicas
        optimizer.step()
        optimizer.zero_grad()
        assert replica.result is not None
        print(f"step {step + 1}: {replica.result.world_size} replicas, hash {hash_of(model)}", flush=True)
        step = replica.sync(model, optimizer, step + 1)  # newcomers come in here


def rank_and_size(init_method: str | None) -> dict[str, int]:
    """What torch reads from the environment only if no init method is given."""
    return {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])} if init_method else {}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("coordinator")
    parser.add_argument("--replicas", type=int, default=1, help="number of replicas that begin together")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--init-method", help="where the processes of this replica meet (default: as torchrun says)")
    options = parser.parse_args(arguments)
    init_process_group("gloo", init_method=options.init_method, **rank_and_size(options.init_method))
    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    model = make_model()
    for layer in (model[0], model[2]):  # type: ignore[index]
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    torch.seed()
    with lockstep.torch.Replica.from_mesh(mesh, options.coordinator, replicas=options.replicas) as replica:
        train(replica, model, options.steps)
    destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
