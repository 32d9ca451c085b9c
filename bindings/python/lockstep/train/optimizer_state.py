"""The tensors of an optimizer of torch, also before its first step."""

from __future__ import annotations

import contextlib
import inspect
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .sharding import local_of

# Parameters whose tensors were made, or found to be none, by id: a parameter may have none for ever (plain SGD).
_asked: weakref.WeakKeyDictionary[Any, dict[int, Any]] = weakref.WeakKeyDictionary()


def state_of(optimizer: Any) -> dict[str, torch.Tensor]:
    """The optimizer's tensors by name; parameters that have made no step yet get those that they would begin with.

    Changes neither parameters nor gradients. Equal names on all peers whose optimizers are equal, whichever parameters
    have had a gradient so far.
    Raises ValueError for an optimizer whose step needs a closure.
    """
    if optimizer is None:
        return {}
    if needs_closure(optimizer):
        raise ValueError(
            f"{type(optimizer).__name__} evaluates the loss in its step, so its state cannot be made equal; allowed: "
            "an optimizer whose step() needs no closure, or None"
        )
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    asked = _asked.setdefault(optimizer, {})
    new = [p for p in parameters if p.requires_grad and id(p) not in asked and not optimizer.state.get(p)]
    if new:
        _begin(optimizer, parameters, new)
    asked.update((id(parameter), parameter) for parameter in parameters if parameter.requires_grad)
    return {
        f"optimizer/{index}/{name}": local
        for index, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor) and (local := local_of(value)).numel()
    }


def needs_closure(optimizer: Any) -> bool:
    """Whether step() cannot be called without a function that evaluates the loss, as that of LBFGS."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _begin(optimizer: Any, parameters: Sequence[Any], new: Sequence[Any]) -> None:
    """Makes the tensors of new parameters: those of torch's own function for that, or zeros, as a step has them."""
    with _gradients_of_zero(parameters, new):
        _make_as_torch_does(optimizer)
    rest = [parameter for parameter in new if not optimizer.state.get(parameter)]
    if not rest:
        return
    with _gradients_of_zero(parameters, rest), _rates_of_zero(optimizer):
        optimizer.step()
    for parameter in rest:
        for value in optimizer.state.get(parameter, {}).values():
            if isinstance(value, torch.Tensor):
                value.zero_()


def _make_as_torch_does(optimizer: Any) -> None:
    """Optimizers of torch make the tensors of parameters with a gradient in _init_group(group, list, list, ...)."""
    make = getattr(optimizer, "_init_group", None)
    if make is None:
        return
    lists = len(inspect.signature(make).parameters) - 1
    for group in optimizer.param_groups:
        make(group, *([] for _ in range(lists)))


@contextlib.contextmanager
def _gradients_of_zero(parameters: Sequence[Any], some: Sequence[Any]) -> Iterator[None]:
    """Meanwhile some parameters have gradients of 0, and the others none."""
    before = [parameter.grad for parameter in parameters]
    wanted = {id(parameter) for parameter in some}
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter) if id(parameter) in wanted else None
        yield
    finally:
        for parameter, gradient in zip(parameters, before):
            parameter.grad = gradient


@contextlib.contextmanager
def _rates_of_zero(optimizer: Any) -> Iterator[None]:
    """Meanwhile a step changes no parameter."""
    before = [group["lr"] for group in optimizer.param_groups]
    try:
        for group in optimizer.param_groups:
            group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], torch.Tensor) else 0.0
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, before):
            group["lr"] = rate
