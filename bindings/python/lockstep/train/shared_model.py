"""The model of a strategy, and the shared copy of what it trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..types import OpName
from .checked import check_tensors
from .flat import Fragment, HostTensors
from .sharding import local_of


class SharedModel:
    """A model whose trained parameters have a shared copy, in fragments.

    module: the model. optimizers: those that train it. named: the parameters that they train, with their names, in the
        order of the model.
    fragments: the shared copies; each trained parameter is in one of them. A strategy sets them.
    is_loaded: whether the fragments hold parameters: those of the model when a run began, or of a checkpoint.
    is_stored: whether the model has the shared parameters already, because an outer step has just written both.
    """

    def __init__(self, module: torch.nn.Module, optimizers: Sequence[Any]) -> None:
        self.module = module
        self.optimizers = optimizers
        self.named = _parameters_of(module, optimizers)
        self.fragments: list[Fragment] = []
        self.is_loaded = False
        self.is_stored = False

    def load(self) -> None:
        """The shared parameters become those of the model, if they are none yet."""
        if not self.is_loaded:
            self._read()
        self.is_loaded = True  # entered again, a strategy goes on from its state

    def _read(self) -> None:
        with torch.no_grad():
            for fragment in self.fragments:
                fragment.load()

    def store(self) -> None:
        """The model takes the shared parameters, and begins to train there."""
        if self.is_stored:
            return
        with torch.no_grad():
            for fragment in self.fragments:
                if fragment.begin is None:
                    fragment.store(fragment.theta)
                else:
                    fragment.begin_at()

    def entries(self) -> dict[str, Any]:
        """The shared arrays by name: parameters and momentum."""
        entries: dict[str, Any] = {}
        for fragment in self.fragments:
            entries.update(fragment.entries())
        return entries

    def rest(self) -> HostTensors:
        """What newcomers take over besides: frozen parameters, and buffers that the state_dict() has."""
        trained = {name for name, _ in self.named}
        tensors = [(name, p) for name, p in self.module.named_parameters() if name not in trained]
        tensors += [(name, self.module.get_buffer(name)) for name in kept_buffers(self.module)]
        return HostTensors((f"model/{name}", tensor) for name, tensor in tensors)

    @property
    def whole(self) -> Fragment:
        """The only fragment of a model that is not cut."""
        (fragment,) = self.fragments
        return fragment

    @property
    def pinned(self) -> bool:
        """Whether copies on the host lie in memory from which a GPU copies faster."""
        return any(parameter.device.type == "cuda" for _, parameter in self.named)

    # ---- for checkpoints ----

    def state_dict(self) -> dict[str, Any]:
        """Copies of "parameters", "momentum" and "model": tensors by name."""
        state: dict[str, Any] = {"parameters": {}, "momentum": {}, "model": copies_of(self.rest())}
        if not self.is_loaded:
            self._read()
        for fragment in self.fragments:
            state["parameters"].update(fragment.tensors(fragment.theta))
            if fragment.momentum is not None:
                state["momentum"].update(fragment.tensors(fragment.momentum))
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a state_dict(). Raises KeyError, TypeError, ValueError."""
        for fragment in self.fragments:
            check_tensors(state["parameters"], fragment.names, "parameters")
            if fragment.momentum is not None:
                check_tensors(state["momentum"], fragment.names, "momentum")
        for fragment in self.fragments:
            fragment.take(fragment.theta, state["parameters"])
            if fragment.momentum is not None:
                fragment.take(fragment.momentum, state["momentum"])
        take_copies(self.rest(), state["model"])
        self.is_loaded = True


class Buffers:
    """The buffers of a model that its state_dict() has, in groups of one type.

    are_averaged: whether members make them equal; if not, they must stay as they are.
    kept: copies of them as they were when all members had the same, by their names in the shared state.
    """

    def __init__(self, model: Any) -> None:
        self.are_averaged = True
        self._model = model
        self._names = kept_buffers(model)
        self._groups: list[tuple[OpName, HostTensors]] = []
        self.kept: dict[str, Any] = {}

    def keep(self) -> None:
        """While all members have the same buffers."""
        buffers = HostTensors((f"model/{name}", self._model.get_buffer(name)) for name in self._names)
        buffers.fetch()
        self.kept = {name: array.clone() for name, array in buffers.arrays.items()}

    def fetch(self) -> Sequence[tuple[OpName, list[Any]]]:
        """For each group the operation that makes it equal, and its arrays."""
        by_type: dict[Any, dict[str, Any]] = {}
        for name in self._names:  # looked up anew, as modules may replace their buffers
            buffer = self._model.get_buffer(name)
            by_type.setdefault(buffer.dtype, {})[name] = buffer
        self._groups = [
            ("avg" if dtype.is_floating_point or dtype.is_complex else "max", HostTensors(group.items()))
            for dtype, group in by_type.items()
        ]
        for _, group in self._groups:
            group.fetch()
        return [(op, list(group.arrays.values())) for op, group in self._groups if group.arrays]

    def give_back(self) -> None:
        """After the calls: the model has the results."""
        for _, group in self._groups:
            group.give_back()


class AllParameters:
    """What stands for the inner optimizer of a strategy that has none: it has all parameters that need gradients."""

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "parameters"):
            raise TypeError(f"model is of type {type(model).__name__}; allowed: a torch.nn.Module")
        self.param_groups = [{"params": [p for p in model.parameters() if p.requires_grad]}]


def kept_buffers(model: Any) -> list[str]:
    """The names of the buffers that a model's state_dict() has."""
    kept = set(model.state_dict())
    return [name for name, _ in model.named_buffers() if name in kept]


def _parameters_of(model: Any, optimizers: Sequence[Any]) -> list[tuple[str, Any]]:
    """The parameters of the optimizers that need gradients, with their names, in the order of the model."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    wanted = set()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if id(parameter) not in names:
                    raise ValueError(
                        f"the optimizer has a parameter of shape {tuple(parameter.shape)} that is not in the model; "
                        "allowed: parameters of the model"
                    )
                wanted.add(id(parameter))
    on_meta = [name for name, p in model.named_parameters() if p.is_meta]
    if on_meta:
        raise ValueError(f"{', '.join(on_meta)} lie on the meta device, without memory; allowed: cpu, cuda")
    named = [(name, p) for name, p in model.named_parameters() if id(p) in wanted and p.requires_grad]
    if not named:
        raise ValueError("the optimizer has no parameter that needs gradients; allowed: at least one")
    return named


def copies_of(rest: HostTensors) -> dict[str, Any]:
    """Copies of these tensors, by their names in the model."""
    rest.fetch()
    return {name.partition("/")[2]: array.clone() for name, array in rest.arrays.items()}


def take_copies(rest: HostTensors, tensors: Mapping[str, Any]) -> None:
    """Sets these tensors to copies. Raises KeyError, TypeError, ValueError for other shapes; then none has changed."""
    given = {}
    check_tensors(tensors, {name.partition("/")[2] for name in rest.arrays}, "tensors")
    for name, array in rest.arrays.items():
        short = name.partition("/")[2]
        if not isinstance(tensors[short], torch.Tensor):
            raise TypeError(f"{short} of the state is of type {type(tensors[short]).__name__}; allowed: a torch.Tensor")
        given[name] = local_of(tensors[short])
        if given[name].shape != array.shape:
            raise ValueError(
                f"{short} of the state has the shape {tuple(given[name].shape)}; allowed: {tuple(array.shape)}"
            )
    for name, array in rest.arrays.items():
        array.copy_(given[name])
    rest.give_back()
