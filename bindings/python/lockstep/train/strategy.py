"""The surface that all training strategies share."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, TypeVar

from .checked import sampler_states_of
from .samplers import Sampler
from .step_info import StepInfo
from .training import Training

T = TypeVar("T", bound="Strategy")


class Strategy:
    """What all strategies have in common; see LocalSGD, FedAvg, DiLoCo, StreamingDiLoCo and DataParallel.

    Entering the `with` block makes this peer's parameters, momentum and counters equal to the run's, bit for bit. Call
    step() after each step of the inner optimizer. At the end of the block the model has the shared parameters.

    inner_step and outer_step count the steps of the run, not of this process: a newcomer takes them over. Learning-rate
    schedules and data follow them.

    When a peer dies, the reduction in flight goes on among the survivors. Newcomers enter after an outer step: members
    agree in the reduction before it whether newcomers wait. Do not connect with auto_admit.

    A newcomer that has connected with wait=False (or connect_async()) holds the shared state while it waits: members
    publish it whenever it stays the same for a tenth of a second. When all members are lost, the newcomers go on from
    the newest state that one of them holds. The shards of a Replica hold nothing.

    Errors: step() raises what Communicator.all_reduce() raises, above all Evicted, NotConnected and OutcomeUnknown:
    connect again as a new peer. Peers with other settings raise ValueError when they enter, or lockstep.Mismatch. If
    the peers' shared states differ, step() raises Desync on all of them.

    A strategy is made by its own class, such as DiLoCo(run, model, inner, ...); for one that you write yourself, use
    LocalTraining. training: what it does.
    """

    def __init__(self, training: Training) -> None:
        self._training = training
        self._loop = training.loop
        self._loop.strategy = type(self).__name__
        self._entered = False
        self._is_interrupted = False  # an error has ended the `with` block

    def step(self, weight: float | None = None) -> StepInfo:
        """Ends an inner step; call it after the step of the inner optimizer.

        weight: how much this inner step counts, such as its number of examples or tokens, at least 0. All peers give
            weights, or none does. A contribution counts with the sum of the weights since the last one.
        Raises the errors of Communicator.all_reduce(); RuntimeError outside of the `with` block.
        """
        self._check_entered()
        return self._training.step(weight)

    @property
    def inner_step(self) -> int:
        """Number of inner steps that the run has made."""
        return self._loop.inner_step

    @property
    def outer_step(self) -> int:
        """Number of outer steps that the run has made; of a streaming strategy, of fragments."""
        return self._loop.outer_step

    @property
    def world(self) -> int:
        """Members that take part in the next reduction, as far as known; equal on all peers between two of them."""
        return self._loop.world

    @property
    def is_leader(self) -> bool:
        """Whether this peer was the first contributor of the last reduction: exactly one peer was."""
        loop = self._loop
        if loop.run is None:
            return True
        return loop.contributors[0] == loop.run.id if loop.contributors else loop.run.rank == 0

    @property
    def newest_wins(self) -> bool:
        """What happens if a peer joins that has made more outer steps than the run.

        Set it before the `with` block, on all peers or on none. False: entering raises lockstep.StateConflict on that
        peer, and the run goes on without it. True: the run takes over its state, so that a run that is founded anew
        goes on from the furthest of its peers.
        """
        return self._loop.newest_wins

    @newest_wins.setter
    def newest_wins(self, wins: bool) -> None:
        self._loop.newest_wins = wins

    def wait(self) -> None:
        """Waits for reductions in flight, and takes their results into the shared parameters.

        Call it before an evaluation or a checkpoint. Changes no result, whichever peers call it, and when.
        """
        self._check_entered()
        self._training.wait()

    def global_state_dict(self) -> dict[str, Any]:
        """A copy of the shared state: "parameters", "momentum" and "model" (tensors by name), counters, "samplers".

        Some strategies add entries: "optimizer" (DataParallel), "moments" (DESLOC), "exchange" (LocalTraining) and
        "spent" (DPLoRA). The tensors lie in the memory of the host. Call wait() before, so that
        nothing is in flight.
        """
        return {**self._training.state_dict(), "samplers": self._loop.samplers.states()}

    def load_global_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a global_state_dict(), before the `with` block.

        One peer with the state is enough when a run begins: the state with the most outer steps wins. A peer that joins
        a run takes over the run's state instead, unless that has made fewer outer steps: see newest_wins.
        Raises RuntimeError inside of the `with` block, KeyError, ValueError.
        """
        if self._entered:
            raise RuntimeError("load_global_state_dict() comes before the `with` block")
        positions = sampler_states_of(state)
        self._training.load_state_dict(state)
        self._loop.samplers.load(positions)

    def add_sampler(self, sampler: Sampler) -> tuple[int, int]:
        """Makes the position of a sampler part of the shared state; RunSampler calls it.

        Returns the number of this peer's shard and the number of shards of its replica; (0, 1) without a Replica.
        Raises RuntimeError inside of the `with` block.
        """
        if self._entered:
            raise RuntimeError("a sampler comes before the `with` block: its position is part of the shared state")
        self._loop.samplers.add(sampler)
        replica = self._loop.replica
        return (0, 1) if replica is None else (replica.shard, replica.shards)

    def __enter__(self: T) -> T:
        if self._entered:
            raise RuntimeError("this strategy is in a `with` block already; allowed: once at a time")
        if self._is_interrupted:
            self._loop.begin_anew(self._training.left_behind())
            self._is_interrupted = False
        self._loop.samplers.begin()
        self._training.enter()
        self._loop.buffers.keep()
        self._entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_interrupted = kind is not None
        try:
            if kind is None:
                self._training.finish()
        except BaseException:
            self._is_interrupted = True
            raise
        finally:
            self._entered = False
            self._loop.publication.withdraw()
            self._training.detach()

    def _check_entered(self) -> None:
        if not self._entered:
            raise RuntimeError("a strategy works inside of its `with` block only")
