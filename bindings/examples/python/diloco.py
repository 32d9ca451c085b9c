"""A small GPT learns Python: four peers train alone for 20 steps, then exchange what they have learnt, in 8 bits.

python diloco.py                           # a coordinator and four peers on this machine; kill any of the peers
python diloco.py --join 127.0.0.1:4000     # one more peer; on any machine: --join TOKEN, of `lockstep coordinator`

One file. The data are the sources of Python's standard library, which every machine with Python has.
"""

import argparse
import functools
import math
import multiprocessing
import sysconfig
from pathlib import Path

import lockstep
import torch
from lockstep.torch import DiLoCo, Nesterov
from torch import Tensor, nn

CHARACTERS, CONTEXT, WIDTH, HEADS, LAYERS = 128, 64, 64, 4, 4


class GPT(nn.Module):
    """A model of characters with 0.2 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.character, self.place = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        block = functools.partial(nn.TransformerEncoderLayer, dropout=0.0, activation="gelu", norm_first=True)
        self.blocks = nn.ModuleList(block(WIDTH, HEADS, 4 * WIDTH, batch_first=True) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CHARACTERS)

    def loss(self, text: Tensor) -> Tensor:
        """Cross entropy of each next character, in nats. text: batch, CONTEXT + 1."""
        x = self.character(text[:, :-1]) + self.place(torch.arange(CONTEXT))
        for block in self.blocks:
            x = block(x, nn.Transformer.generate_square_subsequent_mask(CONTEXT), is_causal=True)
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


def train(run: lockstep.Communicator, steps: int) -> lockstep.State:
    model = GPT()
    inner = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.1)
    with DiLoCo(run, model, inner, inner_steps=20, outer=Nesterov(0.7, 0.9), wire="int8") as strategy:
        while strategy.inner_step < steps:
            inner.param_groups[0]["lr"] = 2e-3 * (0.55 + 0.45 * math.cos(math.pi * strategy.inner_step / steps))
            loss = model.loss(examples(run.id, strategy.inner_step))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            inner.step()
            inner.zero_grad()
            run.spend(0.2)  # a step's time in the simulator, for test_diloco_churn.py; no effect here
            info = strategy.step()
            if info.outer and strategy.is_leader:
                sent = (info.bytes_sent + info.bytes_received) / 1e6
                row = f"{info.inner_step:6} {loss.item():7.3f} {info.world:6} {run.world.view:5}"
                print(f"{row} {sent:7.2f} {info.seconds:8.3f}", flush=True)
    return lockstep.State(model.state_dict(), revision=strategy.outer_step)


def peer(coordinator: str, founders: int, steps: int) -> None:
    with lockstep.connect(coordinator, founders=founders, wait=False) as run:
        train(run, steps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--join", metavar="COORDINATOR", help="run token or host:port")
    parser.add_argument("--peers", type=int, default=4, help="peers that begin together (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=400, help="inner steps (default: %(default)s)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.optim.SGD(GPT().parameters(), lr=1.0)  # the first optimizer imports for seconds: before forks and admissions
    if given.join:
        peer(given.join, given.peers, given.steps)
    else:
        with lockstep.Coordinator("127.0.0.1:0") as running:
            start = functools.partial(multiprocessing.get_context("fork").Process, target=peer)
            peers = [start(args=(running.address, given.peers, given.steps)) for _ in range(given.peers)]
            for process in peers:
                process.start()
            print(f"coordinator {running.address}; processes {[process.pid for process in peers]}", flush=True)
            print("  step    loss  world  view      MB  seconds", flush=True)
            for process in peers:
                process.join()
