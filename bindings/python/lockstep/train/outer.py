"""Outer optimizers: how the average of all peers' progress changes the shared parameters.

Every operation is rounded on its own, in a fixed order, so that a step gives the same bits on every CPU. The optimizers
of torch do not: their kernels fuse a multiplication with an addition where the CPU can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _lockstep as native
from .arrays import Floats
from .checked import number


class OuterOptimizer(ABC):
    """An outer optimizer: stateless itself; a strategy keeps the momentum, which is part of the shared state.

    Subclass it for an optimizer of your own. A step must give the same bits on every peer: use operations of numpy that
    are rounded one by one (multiply, add, subtract, divide, sqrt), no dot products and no sums.
    """

    @property
    @abstractmethod
    def has_momentum(self) -> bool:
        """Whether step() needs a momentum."""

    @abstractmethod
    def step(self, theta: Floats, momentum: Floats | None, gradient: Floats) -> None:
        """Changes the parameters in place.

        theta: parameters, float32, one dimension.
        momentum: of the same size, zeros before the first step, changed in place; None without has_momentum.
        gradient: average of old minus new parameters, of the same size; may be overwritten.
        """

    @abstractmethod
    def settings(self) -> Mapping[str, float]:
        """The numbers that must be equal on all peers, by name."""


@dataclass(frozen=True)
class SGD(OuterOptimizer):
    """Plain steps: theta = theta - lr * gradient. With lr=1 the parameters become the average of all peers' parameters.

    lr: rate, above 0.
    Raises ValueError.
    """

    lr: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lr", _rate_of(self.lr))

    @property
    def has_momentum(self) -> bool:
        """False: there is no momentum."""
        return False

    def step(self, theta: Floats, momentum: Floats | None, gradient: Floats) -> None:
        """Changes the parameters in place; see OuterOptimizer.step()."""
        self.step_into(theta, momentum, gradient, None)

    def step_into(self, theta: Floats, momentum: Floats | None, gradient: Floats, model: Any) -> None:
        """A step() after which `model` has the new parameters.

        model: float32, bfloat16 or float16, as large as theta; may be the memory of the gradient. None: there is none.
        """
        native.sgd_step(theta, gradient, float(np.float32(self.lr)), model)

    def settings(self) -> Mapping[str, float]:
        """The rate."""
        return {"outer_lr": self.lr}


@dataclass(frozen=True)
class Nesterov(OuterOptimizer):
    """SGD with Nesterov momentum, in the form of torch: v = momentum * v + g; theta = theta - lr * (g + momentum * v).

    lr: rate, above 0. momentum: at least 0, below 1.
    The defaults are those of DiLoCo. They need some 40 outer steps; for shorter runs use (0.5, 0.8).
    Raises ValueError.
    """

    lr: float = 0.7
    momentum: float = 0.9

    def __post_init__(self) -> None:
        object.__setattr__(self, "lr", _rate_of(self.lr))
        object.__setattr__(self, "momentum", number(self.momentum, "momentum", "at least 0, below 1"))
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum is {self.momentum}; allowed: at least 0, below 1")

    @property
    def has_momentum(self) -> bool:
        """True: a momentum as large as the parameters."""
        return True

    def step(self, theta: Floats, momentum: Floats | None, gradient: Floats) -> None:
        """Changes parameters and momentum in place; see OuterOptimizer.step()."""
        self.step_into(theta, momentum, gradient, None)

    def step_into(self, theta: Floats, momentum: Floats | None, gradient: Floats, model: Any) -> None:
        """See SGD.step_into()."""
        if momentum is None:
            raise ValueError("momentum is None; allowed: an array as large as theta")
        lr, mu = float(np.float32(self.lr)), float(np.float32(self.momentum))
        native.nesterov_step(theta, momentum, gradient, lr, mu, model)

    def settings(self) -> Mapping[str, float]:
        """Rate and momentum."""
        return {"outer_lr": self.lr, "outer_momentum": self.momentum}


class NoSteps(OuterOptimizer):
    """Stands where an optimizer is wanted, and makes no step: what has the shared parameters makes its own."""

    @property
    def has_momentum(self) -> bool:
        """False."""
        return False

    def step(self, theta: Floats, momentum: Floats | None, gradient: Floats) -> None:
        """Raises NotImplementedError."""
        raise NotImplementedError("this strategy makes its outer steps itself")

    def settings(self) -> Mapping[str, float]:
        """None."""
        return {}


def steps_into(outer: OuterOptimizer) -> SGD | Nesterov | None:
    """The optimizer, if it is one whose step works element by element in native code."""
    return outer if type(outer) in (SGD, Nesterov) else None  # type: ignore[return-value]  # not one derived from them


def _rate_of(lr: Any) -> float:
    rate = number(lr, "lr", "a finite number above 0")
    if not (0 < rate <= float(np.finfo(np.float32).max)):
        raise ValueError(f"lr is {rate}; allowed: a finite number above 0, which float32 holds")
    return rate
