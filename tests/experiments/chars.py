"""A GPT of characters learns the sources of Python's standard library, from a checkpoint of data parallel training."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import lockstep
import torch
from char_gpt import GPT, corpus
from experiment import PEERS, Row, Task, inner_step, main, make_inner, near, within, worse
from lockstep import sim
from lockstep.torch import SGD, Nesterov, by_block
from rows import (
    data_parallel,
    diloco,
    rows_of_diloco,
    rows_of_few_elements,
    rows_of_overlap,
    rows_of_streaming,
    rows_without_outer,
)

CONTEXT = 32
PIECE, HELD_OUT = 16 << 10, 20  # characters; every 20th piece is for the evaluation
WARM_STEPS = 200


@functools.cache
def texts() -> tuple[torch.Tensor, torch.Tensor]:
    """The text to learn, and pieces to evaluate: number, CONTEXT + 1."""
    pieces = corpus().split(PIECE)
    learn = torch.cat([piece for number, piece in enumerate(pieces) if number % HELD_OUT != HELD_OUT - 1])
    held_out = torch.cat(pieces[HELD_OUT - 1 :: HELD_OUT])
    return learn, held_out[: len(held_out) // (CONTEXT + 1) * (CONTEXT + 1)].view(-1, CONTEXT + 1)


def examples(seed: int, peer: int, step: int, batch: int) -> torch.Tensor:
    """batch, CONTEXT + 1."""
    generator = torch.Generator().manual_seed((seed * 1000 + peer) * 1_000_000 + step)
    begins = torch.randint(len(texts()[0]) - CONTEXT - 1, (batch, 1), generator=generator)
    return texts()[0][begins + torch.arange(CONTEXT + 1)]


class Chars(Task):
    name, steps, batch, rate = "chars", 1000, 8, 2e-3
    rows = (
        *rows_without_outer(),
        Row("data-parallel-fast", "data parallel, twice the learning rate", data_parallel(), rate=2.0),
        *rows_of_diloco(Nesterov(0.7, 0.9)),
        Row("diloco-fast", "DiLoCo, int8, twice the learning rate", diloco(Nesterov(0.7, 0.9), wire="int8"), rate=2.0),
        *rows_of_streaming(Nesterov(0.7, 0.9), by_block(1)),
        *rows_of_overlap(SGD(0.7)),
        *rows_of_few_elements(1 / 32, ratio=4),
    )
    claims = (
        within("diloco", 3, 20),
        within("diloco-int8", 3, 79),
        near("diloco-int8", "diloco", 0.01),
        within("diloco-fast", 3, 79, of="data-parallel-fast"),
        within("streaming-4-bit", 7, 155),
        worse("fed-avg", "diloco"),
        worse("fed-avg", "diloco-int8"),
        worse("alone", "diloco"),
    )

    def make_model(self) -> torch.nn.Module:
        return GPT()

    def loss(self, model: Any, row: Row, seed: int, peer: int, step: int) -> torch.Tensor:
        loss: torch.Tensor = model.loss(examples(seed, peer, WARM_STEPS + step, self.batch))
        return loss

    def evaluate(self, model: Any, seed: int) -> tuple[float, float | None]:
        with torch.no_grad():
            total = sum(model.loss(part).item() * len(part) for part in texts()[1].split(512))
        return total / len(texts()[1]), None

    def prepare(self, seed: int, folder: Path) -> None:
        """The warm start: a checkpoint of the model and its optimizer."""
        report = sim.Swarm(peers=PEERS, seed=seed).run(warm_up, self, seed, shrink=False)
        torch.save(report.values[0], checkpoint_of(seed, folder))

    def load(self, model: Any, inner: Any, seed: int, folder: Path) -> None:
        state = torch.load(checkpoint_of(seed, folder))
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["inner"])


def checkpoint_of(seed: int, folder: Path) -> Path:
    return folder / f"chars-warm-{WARM_STEPS}-{seed}.pt"


def warm_up(run: lockstep.Communicator, task: Task, seed: int) -> dict[str, Any]:
    peer = run.rank
    torch.manual_seed(seed)
    model = task.make_model()
    inner = make_inner(model, task.rate)
    with data_parallel()(run, model, inner) as strategy:
        while strategy.inner_step < WARM_STEPS:
            loss = model.loss(examples(seed, peer, strategy.inner_step, task.batch))
            inner_step(task, model, inner, task.rate, loss)
            strategy.step()
    return {"model": model.state_dict(), "inner": inner.state_dict()}


if __name__ == "__main__":
    sys.exit(main(Chars()))
