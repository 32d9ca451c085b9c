"""DistributedDataParallel over Lockstep: the program of torch with one word changed. Kill any process but the first.

    for rank in 0 1 2; do
      RANK=$rank WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=29500 python ddp.py &
    done

With a coordinator of its own, any process may die:

    lockstep coordinator --listen 127.0.0.1:4000 &
    ... python ddp.py --init-method lockstep://127.0.0.1:4000    # between machines: lockstep://lks1_..., its run token
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from typing import Any

import lockstep.torch
import torch
import torch.distributed as dist


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--init-method", default="env://")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args(arguments)
    dist.init_process_group(
        "lockstep",  # the word
        init_method=options.init_method,
        pg_options=lockstep.torch.GroupOptions(elastic=True),  # survivors go on without an error
    )
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    ddp = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.seed()
    group: Any = dist.group.WORLD
    for step in range(options.steps):
        x = torch.randn(32, 8)  # each process has examples of its own
        optimizer.zero_grad()
        (ddp(x) - x.flip(1)).square().mean().backward()
        optimizer.step()
        digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
        print(f"step {step + 1}: {group.size()} ranks, hash {digest.hexdigest()[:16]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
