"""torchft's Manager over Lockstep: a replica for each process; kill any, start more.

    torchft_lighthouse --bind "[::]:29510" --min_replicas 1 &
    TORCHFT_LIGHTHOUSE=http://localhost:29510 python torchft_manager.py    # in several shells

The one difference to a program of torchft is the process group.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from datetime import timedelta

import lockstep.torch
import torch
from torch.distributed import TCPStore
from torchft import Manager


def train(manager: Manager, model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    while manager.current_step() < steps:
        manager.start_quorum()
        x = torch.randn(32, 8)  # each process has examples of its own
        optimizer.zero_grad()
        (model(x) - x.flip(1)).square().mean().backward()
        for work in [manager.allreduce(parameter.grad) for parameter in model.parameters()]:
            work.wait()
        if manager.should_commit():
            optimizer.step()
            digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
            print(
                f"step {manager.current_step()}: {manager.num_participants()} replicas, hash {digest.hexdigest()[:16]}",
                flush=True,
            )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--min-replicas", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    torch.seed()

    def load(state: dict[str, dict[str, object]]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=lockstep.torch.reconfigurable(timeout=timedelta(seconds=10)),  # torchft's own: ProcessGroupGloo(...)
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
        min_replica_size=options.min_replicas,
        use_async_quorum=False,
        timeout=timedelta(seconds=10),
        quorum_timeout=timedelta(seconds=20),
        rank=0,
        world_size=1,
        store_addr="localhost",
        store_port=store.port,
        hostname="localhost",
    )
    try:
        train(manager, model, optimizer, options.steps)
    finally:
        manager.shutdown()


if __name__ == "__main__":
    main(sys.argv[1:])
