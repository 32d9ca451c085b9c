"""Exchanges of the tests: as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from lockstep.train import Averaging, Contribution, Gathering, Round

F = np.float32


class HeavyBall(Averaging):
    """v = mu * v + average; theta = theta - v. The momentum is a part of the shared state."""

    def __init__(self, mu: float) -> None:
        self.mu = mu
        self.v = np.zeros(0, F)

    def settings(self) -> Mapping[str, float]:
        return {"mu": self.mu}

    def state(self, size: int) -> Mapping[str, Any]:
        self.v = np.zeros(size, F)
        return {"v": self.v}

    def contribution(self, progress: Any, about: Round) -> Any:
        return progress

    def apply(self, theta: Any, average: Any, about: Round) -> None:
        self.v *= F(self.mu)
        self.v += average
        theta -= self.v


class ClippedMean(Gathering):
    """theta = theta - mean of (progress + error), each element clipped; what clipping takes is the sender's error."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.error: Any = 0
        self.total: Any = 0  # progress and error of the round that is made

    def settings(self) -> Mapping[str, float]:
        return {"limit": self.limit}

    def most_bytes(self, size: int) -> int:
        return 4 * size

    def contribution(self, progress: Any, about: Round) -> Any:
        self.total = progress + self.error
        return np.clip(self.total, -F(self.limit), F(self.limit))

    def apply(self, theta: Any, contributions: Sequence[Contribution], about: Round) -> None:
        total = np.zeros_like(theta)
        for one in contributions:
            total += one.data
            if one.peer == about.peer:
                self.error = self.total - one.data
        theta -= total / F(len(contributions))

    def forget(self) -> None:
        self.error = 0
