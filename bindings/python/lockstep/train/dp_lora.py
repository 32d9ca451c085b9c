"""DPLoRA: what a peer has learnt is clipped and hidden in noise before it leaves the peer."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from . import tags
from .agreement import Setting
from .arrays import blocks
from .average_call import AverageCall
from .average_rounds import AverageRounds
from .checked import above_0, at_least_0, check_state, number
from .flat import Fragment
from .outer import SGD
from .run_loop import Run
from .sharding import Shard, local_of
from .shared_model import SharedModel, kept_buffers
from .step_info import StepInfo
from .strategy import Strategy
from .training import Parts
from .wire import Wire

entropy = os.urandom  # of the noise: bytes that nobody can predict, and no two calls give again


def gaussian(count: int) -> NDArray[np.float64]:
    """Independent normal numbers of mean 0 and variance 1, by Box and Muller's method, from 8 bytes of entropy each."""
    pairs = -(-count // 2)
    words = np.frombuffer(entropy(16 * pairs), np.uint64)
    uniform = (words >> np.uint64(11)) * 2.0**-53  # at least 0, below 1
    radius = np.sqrt(-2 * np.log(1 - uniform[:pairs]))
    angle = 2 * np.pi * uniform[pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count]


class DPLoRA(Strategy):
    """Trains alone for inner_steps steps, then averages progress that is clipped and hidden in noise.

        progress_m = theta - theta_m,  scaled down to a norm of at most clip
        theta = theta - outer_lr * average of (progress_m + noise_m)

    Differential privacy for each peer: whether a peer has contributed its progress or zeros can hardly be told from the
    results of all rounds. The noise is normal, of the entropy of the operating system, and added before anything leaves
    a peer; in the sum of all peers it has the standard deviation noise_multiplier * clip. X.-Y. Liu et al.,
    "Differentially Private Low-Rank Adaptation of Large Language Model Using Federated Learning", 2023; whole peers are
    protected as in H. B. McMahan et al., "Learning Differentially Private Recurrent Language Models", 2018.

    Only the parameters of the inner optimizer that need gradients are trained and exchanged: give it those of the
    adapters, and freeze the rest. Buffers are not averaged, and must not change in training.

    Protected are the results, not the messages: each peer adds its share of the noise, 1 / sqrt(world) of the standard
    deviation, so who reads a peer's messages on their way sees that share only (for protection from the other peers
    multiply noise_multiplier by sqrt(world)), and peers that add none weaken the protection. What a run begins with is
    not protected. docs/strategies.md says more.

    run: a lockstep.Communicator, or None to train alone; not a Replica.
    inner_steps: steps from one average to the next; equal on all peers.
    clip: the largest norm of a peer's progress, above 0; equal on all peers.
    noise_multiplier: at least 0; 0 adds no noise; equal on all peers.
    delta: above 0, below 1; well below 1 / (number of peers). See epsilon().
    outer_lr: rate of the outer step.
    model, inner, minimum_world, check_every: the module, its optimizer or several, a least number of members, and outer
        steps between two comparisons of hashes; LocalSGD tells more.
    All peers count alike: step() takes no weight.
    Raises ValueError, TypeError.

    Example:
        >>> adapters = [parameter for name, parameter in model.named_parameters() if "lora" in name]
        >>> inner = torch.optim.AdamW(adapters, lr=1e-3)
        >>> with DPLoRA(run, model, inner, inner_steps=10, clip=1.0, noise_multiplier=1.0) as strategy:
        ...     while strategy.epsilon() < 8:
        ...         loss(model).backward()
        ...         inner.step()
        ...         inner.zero_grad()
        ...         strategy.step()
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        inner_steps: int,
        noise_multiplier: float,
        clip: float = 1.0,
        delta: float = 1e-5,
        outer_lr: float = 1.0,
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        if isinstance(run, Shard):
            raise TypeError("run is a Replica, whose shards do not see the norm of all progress; allowed: no shards")
        self._delta = number(delta, "delta", "above 0, below 1")
        if not 0 < self._delta < 1:
            raise ValueError(f"delta is {delta}; allowed: above 0, below 1")
        clip, noise = above_0(clip, "clip"), at_least_0(noise_multiplier, "noise_multiplier")
        parts = Parts(run, model, inner, minimum_world, check_every)
        self._rounds = _NoisyRounds(parts, inner_steps, SGD(outer_lr), clip, noise)
        super().__init__(self._rounds)

    def step(self, weight: float | None = None) -> StepInfo:
        """Ends an inner step; each inner_steps-th one is an outer step. See Strategy.step(). weight: None.

        Raises FloatingPointError if this peer's progress is infinite or NaN, and RuntimeError if a buffer has changed;
        then nothing has left the peer.
        """
        if weight is not None:
            raise ValueError("DPLoRA counts all peers alike, for the sake of the noise: step() without a weight")
        return super().step()

    def epsilon(self) -> float:
        """The epsilon of the run so far, for `delta`; equal on all peers; inf without noise.

        The rounds of a run are normal mechanisms without sampling, so they are together one mechanism: its epsilon is
        that of B. Balle and Y.-X. Wang, "Improving the Gaussian Mechanism for Differential Privacy", 2018, computed by
        the library dp-accounting. A round with fewer contributors than members had less noise, and counts so.
        Raises ImportError without dp-accounting 0.6 or later (pip install dp-accounting; Python 3.10 or later).
        """
        try:
            accounting = importlib.import_module("dp_accounting.gaussian_mechanism")
        except ImportError as error:
            raise ImportError("epsilon() needs dp-accounting 0.6 or later: pip install dp-accounting") from error
        spent = self._rounds.spent
        return float(accounting.get_epsilon_gaussian(1 / math.sqrt(spent), self._delta)) if spent else 0.0


class _NoisyRounds(AverageRounds):
    """Rounds whose progress is clipped and hidden in noise.

    spent: sum over the rounds of 1 / (noise_multiplier**2), as far as a round had the noise that it should have.
    """

    def __init__(self, parts: Parts, inner_steps: int, outer: SGD, clip: float, noise: float) -> None:
        super().__init__(parts, inner_steps, outer, Wire())
        self.spent = 0.0
        self._clip = clip
        self._noise = noise
        self._buffers: dict[str, Any] = {}
        self.loop.buffers.are_averaged = False  # they would tell of a peer's data without noise, so they stay
        self._expected = np.zeros(1, np.float32)  # of members; after a reduction, the average over the contributors

    def state_dict(self) -> dict[str, Any]:
        """See Training; with "spent"."""
        return {**super().state_dict(), "spent": self.spent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Training."""
        check_state(state, {"spent": float})
        if not state["spent"] >= 0:
            raise ValueError(f"spent is {state['spent']}; allowed: at least 0")
        super().load_state_dict(state)
        self.spent = state["spent"]

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), "clip": self._clip, "noise_multiplier": self._noise}

    def counters(self) -> dict[str, float]:
        """See LocalRounds."""
        return {**super().counters(), "spent": self.spent}

    def take_counters(self, state: Mapping[str, Any]) -> None:
        """See LocalRounds."""
        super().take_counters(state)
        self.spent = float(state["spent"])

    def enter(self) -> None:
        """See Training."""
        super().enter()
        self._buffers = _copies_of_buffers(self.model)

    def average_of(self, fragment: Fragment, number: int = 0) -> AverageCall:
        """The average of noisy progress: drawn once, so an attempt that is repeated tells nothing new."""
        self._check_buffers()
        fragment.measure()
        self.hide(fragment)
        self._expected[0] = self.loop.world
        return AverageCall([fragment.gradient, self._expected], None, self.wire, tags.PROGRESS + number)

    def hide(self, fragment: Fragment) -> None:
        """Clips the progress of a fragment, and adds this peer's share of the noise."""
        gradient = fragment.gradient
        squares = math.fsum(
            square for part in blocks(gradient.size) for square in np.square(gradient[part], dtype=np.float64).tolist()
        )
        if not math.isfinite(squares):
            raise FloatingPointError("this peer's progress is infinite or NaN; nothing has left the peer")
        norm = math.sqrt(squares)
        scale = self._clip / norm * (1 - 2.0**-22) if norm > self._clip else 1.0  # less what rounding may add
        deviation = self._noise * self._clip / math.sqrt(self.loop.world)
        for part in blocks(gradient.size):
            hidden = gradient[part].astype(np.float64) * scale
            if deviation:
                hidden += gaussian(hidden.size) * deviation
            gradient[part] = hidden

    def step_of(self, fragment: Fragment, average: AverageCall) -> None:
        """Also counts what the round has told.

        Each of the k contributors has added a variance of (noise_multiplier * clip)**2 / n, where n is the number of
        members that it expected. With equal n, the sum has k / n of the wanted variance; else at least k / (average n).
        """
        contributors = 1 if average.result is None else average.result.world_size
        if self._noise:
            self.spent += float(self._expected[0]) / (contributors * self._noise * self._noise)
        else:
            self.spent = math.inf
        super().step_of(fragment, average)

    def _check_buffers(self) -> None:
        """A newcomer would get buffers that have changed."""
        for name, buffer in _copies_of_buffers(self.model).items():
            if name not in self._buffers or not torch.equal(buffer, self._buffers[name]):
                raise RuntimeError(
                    f"buffer {name} has changed, and would tell newcomers of this peer's data without noise; nothing "
                    "has left the peer. Allowed: buffers that stay, such as those of a batch norm after eval()"
                )


def _copies_of_buffers(model: SharedModel) -> dict[str, Any]:
    named = [(name, local_of(model.module.get_buffer(name))) for name in kept_buffers(model.module)]
    return {name: buffer.cpu().contiguous().clone().reshape(-1).view(torch.uint8) for name, buffer in named}
