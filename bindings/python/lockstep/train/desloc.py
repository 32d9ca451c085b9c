"""DES-LOC: local steps whose parameters and optimizer moments are averaged, each at a period of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..types import WireFormat, WireFormatName
from .checked import check_state, check_tensors, whole_number
from .flat import Fragment
from .local_updates import LocalUpdates
from .optimizer_state import state_of
from .outer import SGD, OuterOptimizer
from .strategy import MOMENTS_TAG, Reduction, Run, Wire

_PERIODS = {"exp_avg": 3, "exp_avg_sq": 3}
_STEP = "step"


class DESLOC(LocalUpdates):
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
    The other arguments are those of LocalSGD. Each moment needs memory for two more float32 copies of the parameters.

    When newcomers enter, all moments are averaged once more, out of turn, and newcomers take over the averages and the
    optimizer's step count. In a Replica newcomers may enter after every outer step, so that all moments are averaged in
    each. A moment's average is over the members that are left after the parameters' average.
    Traffic of an outer step: that of the parameters times 1 + the sum of 1 / period, 1.67 times by default.
    Raises ValueError, TypeError; ValueError on entry, if the inner optimizer has no moment of a name.

    Example:
        >>> with DESLOC(run, model, torch.optim.AdamW(model.parameters()), inner_steps=50) as sync:
        ...     while sync.inner_step < 10_000:
        ...         loss(model).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         sync.step()
    """

    _cuts = True

    def __init__(
        self,
        run: Run,
        model: Any,
        inner: Any,
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
            raise TypeError(f"moments is {periods!r}; allowed: periods by name, such as {_PERIODS}")
        self._periods = {name: whole_number(period, f"period of {name}", 1) for name, period in periods.items()}
        self._moments_wire = Wire.of(moments_wire)
        if self._moments_wire.error_feedback:
            raise ValueError("moments_wire has error feedback; allowed: without, as moments are no sums of changes")
        self._moments: dict[str, Fragment] = {}
        self._moment_step = 0  # steps that the optimizer has counted for the shared moments
        self._moment_offset = 0  # what the optimizer counts beyond the run's inner steps; equal on all peers
        super().__init__(
            run,
            model,
            inner,
            inner_steps=inner_steps,
            outer=SGD(1.0) if outer is None else outer,
            wire=wire,
            minimum_world=minimum_world,
            check_every=check_every,
        )

    def global_state_dict(self) -> dict[str, Any]:
        """A copy of the shared state, with "moments": tensors by moment and parameter."""
        if not self._moments:
            self._find_moments()
        moments = {name: fragment.tensors(fragment.theta) for name, fragment in self._moments.items()}
        steps = {"moment_step": self._moment_step, "moment_offset": self._moment_offset}
        return {**super().global_state_dict(), "moments": moments, **steps}

    def load_global_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a global_state_dict(); see Strategy.load_global_state_dict()."""
        check_state(state, {"moments": Mapping, "moment_step": int, "moment_offset": int})
        if self._entered:
            raise RuntimeError("load_global_state_dict() comes before the `with` block")
        self._find_moments()
        check_tensors(state["moments"], set(self._moments), "moments")
        for name, fragment in self._moments.items():
            check_tensors(state["moments"][name], fragment.names, name)
        super().load_global_state_dict(state)
        for name, fragment in self._moments.items():
            fragment.take(fragment.theta, state["moments"][name])
        self._moment_step, self._moment_offset = int(state["moment_step"]), int(state["moment_offset"])

    # ---- the engine ----

    def _find_moments(self) -> None:
        """The moments of the inner optimizers, and shared copies of them."""
        for optimizer in self._optimizers:
            state_of(optimizer)  # makes them, if there are none
        self._moments = {name: self._moment_of(name) for name in self._periods}
        self._moment_step = max((int(state[_STEP]) for state in self._counts()), default=0)
        self._moment_offset = self._moment_step - self._boundary

    def _moment_of(self, name: str) -> Fragment:
        found = [
            (parameter_name, optimizer.state[parameter][name])
            for parameter_name, parameter in self._named
            for optimizer in self._optimizers
            if name in optimizer.state.get(parameter, {})
        ]
        if not found:
            names = sorted({str(key) for one in self._optimizers for state in one.state.values() for key in state})
            raise ValueError(f"the inner optimizer has no moment {name}; allowed: of {', '.join(names)}")
        fragment = Fragment(found, SGD(), error_feedback=False)
        fragment.load()
        return fragment

    def _counts(self) -> list[Any]:
        """The states of the inner optimizers that count steps, one for each parameter."""
        return [state for optimizer in self._optimizers for state in optimizer.state.values() if _STEP in state]

    def _settings(self) -> dict[str, float]:
        periods = {f"period of {name}": period for name, period in self._periods.items()}
        return {**super()._settings(), **periods, **self._moments_wire.settings("moments_wire")}

    def _shared(self) -> dict[str, Any]:
        moments = {
            f"{name}/{entry.partition('/')[2]}": array
            for name, fragment in self._moments.items()
            for entry, array in fragment.entries().items()
        }
        return {**super()._shared(), **moments}

    def _counters(self) -> dict[str, float]:
        steps = {"moment_step": self._moment_step, "moment_offset": self._moment_offset}
        return {**super()._counters(), **steps}

    def _take_counters(self, state: Mapping[str, Any]) -> None:
        super()._take_counters(state)
        self._moment_step, self._moment_offset = int(state["moment_step"]), int(state["moment_offset"])

    def _enter(self) -> None:
        with torch.no_grad():
            if not self._moments:
                self._find_moments()
            super()._enter()
            for fragment in self._moments.values():
                fragment.store(fragment.theta)
            self._set_counts()

    def _set_counts(self) -> None:
        """The inner optimizers have made as many steps as the shared moments have seen."""
        for state in self._counts():
            if isinstance(state[_STEP], torch.Tensor):
                state[_STEP].fill_(self._moment_step)
            else:
                state[_STEP] = self._moment_step

    def _after_reduction(self, reduction: Reduction) -> None:
        """Averages the moments whose turn it is; all of them, if newcomers may enter now."""
        admits = reduction.has_newcomers or self._replica is not None
        due = [name for name, period in self._periods.items() if admits or self._outer_step % period == 0]
        self._average_moments(due, reduction.weight)

    def _before_newcomers(self) -> None:
        self._average_moments(list(self._periods), None)

    def _average_moments(self, names: list[str], weight: float | None) -> None:
        """Shared copy and optimizer take the average of the members' moments."""
        due = [self._moments[name] for name in names]
        if not due:
            return
        for fragment in due:
            fragment.read(fragment.theta if self._run is None else fragment.gradient)
        if self._run is not None:
            result = self._run.all_reduce(
                [fragment.gradient for fragment in due],
                [fragment.theta for fragment in due],
                op="avg",
                tag=MOMENTS_TAG,
                minimum_world=1,
                up=self._moments_wire.up,
                down=self._moments_wire.down,
                weight=weight,
            )
            self._add_traffic(result)
            for fragment in due:
                fragment.store(fragment.theta)
        self._moment_step = self._inner_step + self._moment_offset
        self._set_counts()  # a newcomer that came in mid-round has counted more
