"""A small GPT of characters, its data, and a table: what compare_strategies.py and fsdp_diloco.py have in common.

The data are the sources of Python's standard library, which every machine with Python has.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import sysconfig
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Callable

import lockstep
import torch
from lockstep.torch import StepInfo
from torch import Tensor, nn

CHARACTERS, CONTEXT, WIDTH, HEADS, LAYERS = 128, 64, 64, 4, 4


class Block(nn.Module):
    """Attention to earlier characters, then a layer for each character."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """x: batch, characters, WIDTH."""
        heads = self.mix(self.norms[0](x)).view(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        wide: Tensor = nn.functional.gelu(self.wide(self.norms[1](x)))
        result: Tensor = x + self.narrow(wide)
        return result


class GPT(nn.Module):
    """0.2 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.character, self.place = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHARACTERS)

    def loss(self, text: Tensor) -> Tensor:
        """Cross entropy of each next character, in nats. text: batch, CONTEXT + 1."""
        x = self.character(text[:, :-1]) + self.place(torch.arange(text.shape[1] - 1))
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), text[:, 1:].flatten())


@functools.cache
def corpus() -> Tensor:
    """Up to 4 MB of the standard library, as numbers below CHARACTERS."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    text = b"".join(file.read_bytes() for file in files)[: 4 << 20]
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long().clamp(max=CHARACTERS - 1)


def examples(peer: bytes, step: int, size: int = 8) -> Tensor:
    """Pieces of text that this peer draws for this step of the run: size, CONTEXT + 1."""
    generator = torch.Generator().manual_seed(int.from_bytes(peer[:4], "big") + step)
    begins = torch.randint(len(corpus()) - CONTEXT - 1, (size, 1), generator=generator)
    return corpus()[begins + torch.arange(CONTEXT + 1)]


def show(info: StepInfo, loss: float, view: int) -> None:
    """A line of the table, written by the leader of an outer step."""
    show_row(info.inner_step, loss, info.world, view, (info.bytes_sent + info.bytes_received) / 1e6, info.seconds)


def show_row(step: int, loss: float, world: int, view: int, megabytes: float, seconds: float) -> None:
    """A line of the table."""
    print(f"{step:6} {loss:7.3f} {world:6} {view:5} {megabytes:7.2f} {seconds:8.3f}", flush=True)


def start(peer: Callable[[str, int, int], None], peers: int, steps: int, join: str | None = None) -> None:
    """Runs a coordinator and so many peers on this machine: peer(address, peers, steps) in a process each.

    join: the coordinator of a run that is there, as lockstep.connect() takes it; then only one peer runs, in this
        process.
    """
    torch.set_num_threads(1)
    torch.optim.SGD(GPT().parameters(), lr=1.0)  # the first optimizer imports for seconds: before forks and admissions
    corpus()
    if join:
        peer(join, peers, steps)
        return
    context = multiprocessing.get_context("fork")
    with coordinator() as address:
        processes = [context.Process(target=peer, args=(address, peers, steps)) for _ in range(peers)]
        for process in processes:
            process.start()
        print(f"coordinator {address}; processes {[process.pid for process in processes]}", flush=True)
        print("  step    loss  world  view      MB  seconds", flush=True)
        for process in processes:
            process.join()


@contextlib.contextmanager
def coordinator() -> Iterator[str]:
    """Runs a coordinator in a process of its own, and gives its address."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_coordinate, args=(theirs,), daemon=True)
    process.start()
    yield ours.recv()
    process.terminate()
    process.join()


def _coordinate(pipe: Connection) -> None:
    with lockstep.Coordinator("127.0.0.1:0") as running:
        pipe.send(running.address)
        threading.Event().wait()
