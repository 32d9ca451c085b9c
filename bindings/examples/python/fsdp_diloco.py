"""DiLoCo among replicas of a model that are sharded over two processes each with FSDP2.

python fsdp_diloco.py                            # a coordinator and two replicas of two shards on this machine
python fsdp_diloco.py --join 127.0.0.1:4000      # one more replica, of a run on this machine
python fsdp_diloco.py --join lks1_...            # one replica on any machine; `lockstep coordinator` prints the token

Inside of a replica FSDP2 averages the gradients of every step, here over Gloo. Between replicas each shard reduces its
own part, every 20 steps, in 8 bits. Kill any process: its replica leaves as a whole, and the others go on.

Needs beside it: char_gpt.py.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import tempfile

import torch
from char_gpt import GPT, examples, show, start
from lockstep.torch import DiLoCo, Nesterov, Replica
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

SHARDS = 2


def sharded_model() -> tuple[GPT, object]:
    """A model whose parameters are spread over the processes of this replica, and their mesh."""
    mesh = init_device_mesh("cpu", (SHARDS,))
    model = GPT()
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    register_fsdp_forward_method(model, "loss")
    return model, mesh


def hash_of(model: GPT) -> str:
    """Of this process's shard."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.to_local().numpy(force=True).tobytes())
    return digest.hexdigest()[:16]


def train(shard: int, meeting: str, coordinator: str, replicas: int, steps: int) -> None:
    """One process of a replica. meeting: URL where the processes of the replica meet."""
    init_process_group("gloo", init_method=meeting, rank=shard, world_size=SHARDS)
    model, mesh = sharded_model()
    inner = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)
    with Replica.from_mesh(mesh, coordinator, replicas=replicas) as replica:
        with DiLoCo(replica, model, inner, inner_steps=20, outer=Nesterov(0.7, 0.9), wire="int8") as strategy:
            while strategy.inner_step < steps:
                loss = model.loss(examples(replica.run.id, strategy.inner_step))  # each process has examples of its own
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                inner.step()
                inner.zero_grad()
                info = strategy.step()
                if info.outer and strategy.is_leader and shard == 0:
                    show(info, loss.item(), replica.run.world.view)
    print(f"shard {shard}: {hash_of(model)}", flush=True)
    destroy_process_group()


def run_replica(coordinator: str, replicas: int, steps: int) -> None:
    """A process for each shard, as torchrun would start them."""
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        meeting = f"file://{os.path.join(folder, 'meeting')}"
        shards = [
            context.Process(target=train, args=(shard, meeting, coordinator, replicas, steps))
            for shard in range(SHARDS)
        ]
        for process in shards:
            process.start()
        for process in shards:
            process.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--join", metavar="COORDINATOR", help="run token or host:port")
    parser.add_argument("--replicas", type=int, default=2, help="replicas that begin together (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200, help="inner steps (default: %(default)s)")
    given = parser.parse_args()
    start(run_replica, given.replicas, given.steps, given.join)
