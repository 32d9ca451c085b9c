"""Arguments of training strategies, checked where they come in: their errors name the argument and what is allowed."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any

from .._arguments import shown
from ..communicator import Communicator
from .sharding import Shard

_MOST = 2**53  # settings travel as float64


def whole_number(value: Any, name: str, least: int) -> int:
    """An int of at least `least`. Raises TypeError, ValueError."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}; allowed: an int of at least {least}") from None
    if not least <= number <= _MOST:
        raise ValueError(f"{name} is {number}; allowed: {least} to {_MOST}")
    return number


def number(value: Any, name: str, allowed: str) -> float:
    """A number. Raises TypeError."""
    wrong = TypeError(f"{name} is {shown(value)}; allowed: {allowed}")
    if isinstance(value, (str, bytes, bytearray, bool)):  # float() reads them
        raise wrong
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None


def above_0(value: Any, name: str) -> float:
    """A finite number above 0. Raises TypeError, ValueError."""
    checked = number(value, name, "a finite number above 0")
    if not 0 < checked < math.inf:
        raise ValueError(f"{name} is {value}; allowed: a finite number above 0")
    return checked


def at_least_0(value: Any, name: str) -> float:
    """A finite number of at least 0. Raises TypeError, ValueError."""
    checked = number(value, name, "a finite number of at least 0")
    if not 0 <= checked < math.inf:
        raise ValueError(f"{name} is {value}; allowed: a finite number of at least 0")
    return checked


def weight_of(value: Any) -> float:
    """A weight: a finite number of at least 0. Raises TypeError, ValueError."""
    return at_least_0(number(value, "weight", "a number of at least 0"), "weight")


def check_parts(run: Any, model: Any, optimizers: list[Any]) -> None:
    """Raises TypeError for a run, a model or an inner optimizer that is something else."""
    if run is not None and not isinstance(run, (Communicator, Shard)):
        raise TypeError(f"run is {shown(run)}; allowed: a lockstep.Communicator (from connect()), a Replica, or None")
    if not hasattr(model, "named_parameters"):
        raise TypeError(f"model is of type {type(model).__name__}; allowed: a torch.nn.Module")
    for optimizer in optimizers:
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(
                f"inner is of type {type(optimizer).__name__}; allowed: an optimizer of torch, or a list of them"
            )


def check_state(state: Any, entries: Mapping[str, Any]) -> None:
    """Raises KeyError, TypeError or ValueError for what is no global_state_dict(). entries: names and types."""
    if not isinstance(state, Mapping):
        raise TypeError(f"state is of type {type(state).__name__}; allowed: what global_state_dict() has returned")
    missing = [name for name in entries if name not in state]
    if missing:
        raise KeyError(f"the state has no {', '.join(missing)}; allowed: what global_state_dict() has returned")
    for name, kind in entries.items():
        if kind is int:
            whole_number(state[name], name, 0)
        elif not isinstance(state[name], kind):
            allowed = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise TypeError(f"{name} is of type {type(state[name]).__name__}; allowed: {allowed}")


def check_tensors(given: Mapping[str, Any], wanted: set[str], what: str) -> None:
    """Raises KeyError if tensors of the model are missing in a state."""
    missing = sorted(wanted - set(given))
    if missing:
        raise KeyError(f"{what} of the state has no {', '.join(missing)}: it is of another model or strategy")


def sampler_states_of(state: Any) -> list[Any]:
    """The positions of samplers in a global_state_dict(). Raises TypeError."""
    check_state(state, {})
    samplers = state.get("samplers", ())
    if not isinstance(samplers, (list, tuple)):
        raise TypeError(f"samplers is of type {type(samplers).__name__}; allowed: a list")
    return list(samplers)
