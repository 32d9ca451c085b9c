"""DES-LOC: local steps whose parameters and optimizer moments are averaged, each at a period of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._arguments import shown
from ..types import WireFormat, WireFormatName
from . import tags
from .agreement import Setting
from .average_call import AverageCall
from .average_rounds import AverageRounds
from .checked import check_state, check_tensors, whole_number
from .flat import Fragment
from .optimizer_state import state_of
from .outer import SGD, OuterOptimizer
from .run_loop import Run
from .shared_model import SharedModel
from .strategy import Strategy
from .training import Parts
from .wire import Wire

_PERIODS = {"exp_avg": 3, "exp_avg_sq": 3}
_STEP = "step"


class DESLOC(Strategy):
    """Averages the parameters every inner_steps steps, and each moment of the inner optimizer more rarely.

        theta = average of theta_m                            every outer step
        moment = average of moment_m                          every `period`-th outer step, for each moment

    A. Iacob et al., "DES-LOC: Desynced Low Communication Adaptive Optimizers for Training Foundation Models", 2025.
    With all periods 1 this is Local Adam.

    moments: periods in outer steps by the names of the inner optimizer's state; default: {"exp_avg": 3, "exp_avg_sq":
        3}, for Adam. The paper averages the second moment half as often, which can diverge (docs/strategies.md).
        Moments that are not named stay local.
    outer: an OuterOptimizer for the parameters; default: SGD(1.0), the plain average.
    moments_wire: how moments travel. int8 and less round small second moments to 0, and then Adam divides by almost
        nothing: use "native" or "bf16".
    inner_steps: steps from one outer step to the next; equal on all peers.
    wire: of the parameters: a lockstep.train.Wire, or a wire format for both ways.
    run, model, inner, minimum_world, check_every: a run or None, the module, its optimizer or several, a least number
        of members, and outer steps between two comparisons of hashes; LocalSGD tells more.
    Memory: that of LocalSGD; each moment needs two more float32 copies of the parameters.

    When newcomers enter, all moments are averaged once more, out of turn, and newcomers take over the averages and the
    optimizer's step count. In a Replica newcomers may enter after every outer step, so that all moments are averaged in
    each. A moment's average is over the members that are left after the parameters' average.
    Traffic of an outer step: that of the parameters times 1 + the sum of 1 / period, 1.67 times by default.
    Raises ValueError, TypeError; ValueError on entry, if the inner optimizer has no moment of a name.

    Example:
        >>> strategy = DESLOC(run, model, torch.optim.AdamW(model.parameters()), inner_steps=50)
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        inner_steps: int = 20,
        moments: Mapping[str, int] | None = None,
        outer: OuterOptimizer | None = None,
        wire: Wire | WireFormat | WireFormatName = "native",
        moments_wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        periods = _PERIODS if moments is None else moments
        if not isinstance(periods, Mapping):
            raise TypeError(f"moments is {shown(periods)}; allowed: periods by name, such as {_PERIODS}")
        periods = {name: whole_number(period, f"period of {name}", 1) for name, period in periods.items()}
        if Wire.of(moments_wire).error_feedback:
            raise ValueError("moments_wire has error feedback; allowed: without, as moments are no sums of changes")
        parts = Parts(run, model, inner, minimum_world, check_every)
        outer = SGD(1.0) if outer is None else outer
        super().__init__(_DesyncedRounds(parts, inner_steps, outer, Wire.of(wire), periods, Wire.of(moments_wire)))


class _DesyncedRounds(AverageRounds):
    """Rounds after some of which moments of the inner optimizer are averaged, too. periods: in rounds, by moment."""

    def __init__(
        self,
        parts: Parts,
        inner_steps: int,
        outer: OuterOptimizer,
        wire: Wire,
        periods: Mapping[str, int],
        moments_wire: Wire,
    ) -> None:
        super().__init__(parts, inner_steps, outer, wire, in_pieces=True)
        self._periods = periods
        self._moments_wire = moments_wire
        self._moments = _Moments(self.model, list(periods))

    def state_dict(self) -> dict[str, Any]:
        """See Training; with "moments": tensors by moment and parameter."""
        self._moments.find(self.boundary)
        return {**super().state_dict(), **self._moments.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Training."""
        self._moments.check(state)
        super().load_state_dict(state)
        self._moments.load_state_dict(state)

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        periods = {f"period of {name}": period for name, period in self._periods.items()}
        return {**super().settings(), **periods, **self._moments_wire.settings("moments_wire")}

    def entries(self) -> dict[str, Any]:
        """See SharedTraining."""
        return {**super().entries(), **self._moments.entries()}

    def counters(self) -> dict[str, float]:
        """See LocalRounds."""
        return {**super().counters(), **self._moments.counters()}

    def take_counters(self, state: Mapping[str, Any]) -> None:
        """See LocalRounds."""
        super().take_counters(state)
        self._moments.take_counters(state)

    def enter(self) -> None:
        """See Training."""
        with torch.no_grad():
            self._moments.find(self.boundary)
            super().enter()
            self._moments.store()

    def after_average(self, average: AverageCall) -> None:
        """Averages the moments whose turn it is; all of them, if newcomers may enter now."""
        admits = average.has_newcomers or self.loop.replica is not None
        due = [name for name, period in self._periods.items() if admits or self.loop.outer_step % period == 0]
        self._average(due, average.weight)

    def before_newcomers(self) -> None:
        """See SharedTraining."""
        self._average(list(self._periods), None)

    def _average(self, names: list[str], weight: float | None) -> None:
        """Shared copy and optimizer take the average of the members' moments."""
        due = self._moments.of(names)
        if not due:
            return
        run = self.loop.run
        for fragment in due:
            fragment.read(fragment.theta if run is None else fragment.gradient)
        if run is not None:
            result = run.all_reduce(
                [fragment.gradient for fragment in due],
                [fragment.theta for fragment in due],
                op="avg",
                tag=tags.MOMENTS,
                minimum_world=1,
                up=self._moments_wire.up,
                down=self._moments_wire.down,
                weight=weight,
            )
            self.loop.traffic.add(result)
            for fragment in due:
                fragment.store(fragment.theta)
        self._moments.set_step(self.loop.inner_step)  # a newcomer that came in mid-round has counted more


class _Moments:
    """The moments of the inner optimizers by name, their shared copies, and the steps that the optimizers count."""

    def __init__(self, model: SharedModel, names: list[str]) -> None:
        self._model = model
        self._names = names
        self._fragments: dict[str, Fragment] = {}
        self._step = 0  # steps that the optimizer has counted for the shared moments
        self._offset = 0  # what the optimizer counts beyond the run's inner steps; equal on all peers

    def find(self, inner_step: int) -> None:
        """Finds the moments, and copies them, unless they were found before. Raises ValueError if there is none."""
        if self._fragments:
            return
        for optimizer in self._model.optimizers:
            state_of(optimizer)  # makes them, if there are none
        self._fragments = {name: self._fragment_of(name) for name in self._names}
        self._step = max((int(state[_STEP]) for state in self._counts()), default=0)
        self._offset = self._step - inner_step

    def _fragment_of(self, name: str) -> Fragment:
        optimizers = self._model.optimizers
        found = [
            (parameter_name, optimizer.state[parameter][name])
            for parameter_name, parameter in self._model.named
            for optimizer in optimizers
            if name in optimizer.state.get(parameter, {})
        ]
        if not found:
            names = sorted({str(key) for one in optimizers for state in one.state.values() for key in state})
            raise ValueError(f"the inner optimizer has no moment {name}; allowed: of {', '.join(names)}")
        fragment = Fragment(found, SGD(), error_feedback=False)
        fragment.load()
        return fragment

    def of(self, names: Sequence[str]) -> list[Fragment]:
        """The shared copies of some moments."""
        return [self._fragments[name] for name in names]

    def set_step(self, inner_step: int) -> None:
        """The shared moments belong to this inner step of the run."""
        self._step = inner_step + self._offset
        self._set_counts()

    def store(self) -> None:
        """The inner optimizers take the shared moments, and have made as many steps as these have seen."""
        for fragment in self._fragments.values():
            fragment.store(fragment.theta)
        self._set_counts()

    def _set_counts(self) -> None:
        for state in self._counts():
            if isinstance(state[_STEP], torch.Tensor):
                state[_STEP].fill_(self._step)
            else:
                state[_STEP] = self._step

    def _counts(self) -> list[Any]:
        """The states of the inner optimizers that count steps, one for each parameter."""
        return [state for optimizer in self._model.optimizers for state in optimizer.state.values() if _STEP in state]

    # ---- the shared state ----

    def entries(self) -> dict[str, Any]:
        """The shared copies by moment and parameter."""
        return {
            f"{name}/{entry.partition('/')[2]}": array
            for name, fragment in self._fragments.items()
            for entry, array in fragment.entries().items()
        }

    def counters(self) -> dict[str, int]:
        """The numbers of the shared state."""
        return {"moment_step": self._step, "moment_offset": self._offset}

    def take_counters(self, state: Mapping[str, Any]) -> None:
        """Takes them over from a state."""
        self._step, self._offset = int(state["moment_step"]), int(state["moment_offset"])

    def state_dict(self) -> dict[str, Any]:
        """Copies, for a checkpoint."""
        moments = {name: fragment.tensors(fragment.theta) for name, fragment in self._fragments.items()}
        return {"moments": moments, **self.counters()}

    def check(self, state: Mapping[str, Any]) -> None:
        """Raises KeyError, TypeError, ValueError for what is no state_dict()."""
        check_state(state, {"moments": Mapping, "moment_step": int, "moment_offset": int})
        self.find(0)
        check_tensors(state["moments"], set(self._fragments), "moments")
        for name, fragment in self._fragments.items():
            check_tensors(state["moments"][name], fragment.names, name)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a state_dict() that was checked."""
        for name, fragment in self._fragments.items():
            fragment.take(fragment.theta, state["moments"][name])
        self.take_counters(state)
