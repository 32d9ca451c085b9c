"""A small network learns scikit-learn's handwritten digits: 1,437 images to learn, 360 to evaluate."""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from experiment import PEERS, Row, Task, accurate, less_accurate, main, near
from lockstep.torch import SGD, Nesterov, by_bytes
from rows import diloco, rows_of_diloco, rows_of_few_elements, rows_of_overlap, rows_of_streaming, rows_without_outer
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

IMAGES, HELD_OUT = 1797, 360
OUTER = Nesterov(0.5, 0.8)  # for 30 outer steps: see docs/strategies.md


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    """All images, in a random order, and their labels; the first HELD_OUT are for the evaluation."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(0))
    return torch.from_numpy(images).float()[order] / 16, torch.from_numpy(labels).long()[order]


@functools.cache
def share_of(peer: int, by_label: bool) -> Tensor:
    """The numbers of the images that a peer learns: every PEERS-th, or a quarter of all, sorted by label."""
    numbers = torch.arange(HELD_OUT, IMAGES)
    if by_label:
        return numbers[digits()[1][numbers].argsort(stable=True)].tensor_split(PEERS)[peer]
    return numbers[peer::PEERS]


class Digits(Task):
    name, steps, batch, rate = "digits", 600, 16, 2e-3
    rows = (
        *rows_without_outer(),
        *rows_of_diloco(OUTER),
        *rows_of_streaming(Nesterov(0.7, 0.9), by_bytes(72 << 10)),  # the first layer, and the others
        *rows_of_overlap(SGD(0.7)),
        *rows_of_few_elements(1 / 16, ratio=10),
        Row("diloco-by-label", "DiLoCo, each peer has a few labels", diloco(OUTER), by_label=True),
    )
    claims = (
        accurate("fed-avg", 1.3),
        accurate("diloco", 1.0),
        near("diloco-int8", "diloco", 0.01),
        accurate("streaming-4-bit", 1.6),
        accurate("eager", 2.3),
        accurate("outer", 2.3),
        less_accurate("alone", "diloco", 2.0),
    )

    def make_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))

    def loss(self, model: Any, row: Row, seed: int, peer: int, step: int) -> Tensor:
        images, labels = digits()
        share = share_of(peer, row.by_label)
        generator = torch.Generator().manual_seed((seed * 1000 + peer) * 1_000_000 + step)
        drawn = share[torch.randint(len(share), (self.batch,), generator=generator)]
        return cross_entropy(model(images[drawn]), labels[drawn])

    def evaluate(self, model: Any, seed: int) -> tuple[float, float | None]:
        images, labels = (each[:HELD_OUT] for each in digits())
        with torch.no_grad():
            scores = model(images)
        accuracy = (scores.argmax(1) == labels).float().mean().item()
        return cross_entropy(scores, labels).item(), accuracy


if __name__ == "__main__":
    sys.exit(main(Digits()))
