"""LocalSGD and FedAvg: peers average what they have learnt."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..types import WireFormat, WireFormatName
from .average_rounds import AverageRounds
from .outer import SGD
from .run_loop import Run
from .step_info import StepInfo
from .strategy import Strategy
from .training import Parts
from .wire import Wire


class LocalSGD(Strategy):
    """Averages the parameters of all peers after every inner_steps steps.

        theta = average of theta_m        computed as theta - average of (theta - theta_m)

    run: a lockstep.Communicator, a lockstep.torch.Replica, or None to train alone.
    model: its parameters that the inner optimizer changes are averaged: float32, bfloat16 or float16, on any device.
        The shared copy is float32, in the memory of the host; an outer step needs up to 64 MiB besides, and one more
        copy for parameters in other types, on a device or not contiguous (docs/strategies.md has a table). Buffers are
        averaged in the outer steps. Newcomers also take over frozen parameters.
    inner: the optimizer of the inner steps, or several; its state is not shared, and a newcomer's begins empty.
    inner_steps: steps from one average to the next; equal on all peers. An outer step sends what one all-reduce of the
        parameters does.
    wire: a lockstep.train.Wire, or a wire format for both ways.
    minimum_world: with fewer members the strategy waits for more; 0: never.
    check_every: every so many outer steps the reduction also compares a hash of the shared state, at one read of the
        state and 8 bytes: if the peers differ, all of them raise Desync. 0: never.
    Raises ValueError, TypeError.

    Example:
        >>> with lockstep.connect("env:LOCKSTEP_COORDINATOR", wait=False) as run:
        ...     with LocalSGD(run, model, optimizer, inner_steps=20) as strategy:
        ...         while strategy.inner_step < 1000:
        ...             loss(model).backward()
        ...             optimizer.step()
        ...             optimizer.zero_grad()
        ...             strategy.step()
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        inner_steps: int = 20,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        parts = Parts(run, model, inner, minimum_world, check_every)
        super().__init__(AverageRounds(parts, inner_steps, SGD(1.0), Wire.of(wire), fetches_ahead=True, in_pieces=True))


class FedAvg(Strategy):
    """Averages the parameters of all peers, weighted by the number of examples that each has seen.

        theta = theta - lr * (sum of n_m * (theta - theta_m)) / (sum of n_m)

    step(weight) needs the number of examples of each inner step.

    lr: rate of the server; 1 is the plain average.
    inner_steps: steps from one average to the next; equal on all peers.
    run, model, inner, wire, minimum_world, check_every: a run or None, the module, its optimizer or several, formats on
        the wire, a least number of members, and outer steps between two comparisons of hashes; LocalSGD tells more.
    Raises ValueError, TypeError.
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        inner_steps: int = 100,
        lr: float = 1.0,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        parts = Parts(run, model, inner, minimum_world, check_every)
        super().__init__(AverageRounds(parts, inner_steps, SGD(lr), Wire.of(wire), fetches_ahead=True, in_pieces=True))

    def step(self, weight: float | None = None) -> StepInfo:
        """Ends an inner step. weight: its number of examples, at least 0. Raises ValueError without; see Strategy."""
        if weight is None:
            raise ValueError("FedAvg weighs each peer by its examples: step(weight=number of examples)")
        return super().step(weight)
