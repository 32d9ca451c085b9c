"""An exchange that somebody else has written: what it returns is checked, and its errors say which method is wrong."""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .agreement import Setting
from .arrays import Floats
from .checked import check_tensors, number, whole_number
from .exchange import Averaging, Contribution, Exchange, Gathering, Round

_in_use: dict[int, weakref.ref[Exchange]] = {}  # by id


def check_exchange(exchange: Averaging | Gathering) -> None:
    """Raises TypeError for something else, ValueError for an exchange that a strategy has already."""
    if not isinstance(exchange, (Averaging, Gathering)):
        kind = type(exchange).__name__
        raise TypeError(
            f"exchange is of type {kind}; allowed: an object of a class derived from Averaging or Gathering"
        )
    if id(exchange) in _in_use and _in_use[id(exchange)]() is exchange:
        raise ValueError("exchange belongs to another strategy, which changes its arrays; allowed: a new one for each")


class CheckedExchange:
    """arrays: those of state(), by name. most_bytes: of a Gathering; 0 of an Averaging.

    size: number of the parameters' elements.
    Raises TypeError, ValueError.
    """

    def __init__(self, exchange: Averaging | Gathering, size: int) -> None:
        self._exchange = exchange
        self.most_bytes = 0
        if isinstance(exchange, Gathering):
            self.most_bytes = whole_number(exchange.most_bytes(size), "most_bytes()", 0)
        self.arrays = _arrays_of(exchange, size)
        attributes: dict[str, Any] = getattr(exchange, "__dict__", {})
        self._kept = {  # attributes that are shared arrays
            name: value for name, value in attributes.items() if any(value is one for one in self.arrays.values())
        }
        _in_use[id(exchange)] = weakref.ref(exchange)

    @property
    def gathers(self) -> bool:
        """Whether it is a Gathering."""
        return isinstance(self._exchange, Gathering)

    def settings(self) -> dict[str, Setting]:
        """What must be equal on all peers. Raises TypeError, ValueError."""
        settings: dict[str, Setting] = {"exchange": type(self._exchange).__name__, "most_bytes()": self.most_bytes}
        for name, value in self._exchange.settings().items():
            what = f"settings()[{name!r}]"
            settings[f"exchange.{name}"] = checked = number(value, what, "a finite number")
            if not math.isfinite(checked):
                raise ValueError(f"{what} is {checked}; allowed: a finite number")
        return settings

    def contribution(self, progress: Floats, about: Round) -> NDArray[Any]:
        """Raises TypeError, ValueError."""
        given = self._exchange.contribution(progress, about)
        if not self.gathers:
            if not (isinstance(given, np.ndarray) and given.dtype == np.float32 and given.ndim == 1):
                raise TypeError(f"contribution() returns {kind_of(given)}; allowed: a float32 array of one dimension")
        elif not isinstance(given, np.ndarray) or given.dtype.kind not in "biufc":
            raise TypeError(f"contribution() returns {kind_of(given)}; allowed: an np.ndarray of numbers")
        elif given.nbytes > self.most_bytes:
            raise ValueError(
                f"contribution() returns {given.nbytes} bytes; allowed: most_bytes(), which are {self.most_bytes}"
            )
        return np.ascontiguousarray(given).reshape(-1)

    def apply(self, theta: Floats, given: Floats | Sequence[Contribution], about: Round) -> None:
        """Makes the outer step. Raises what it raises; TypeError if it has put something in place of an array."""
        apply: Any = self._exchange.apply
        returned = apply(theta, given, about)
        if returned is not None:
            raise TypeError(f"apply() returns {kind_of(returned)}; allowed: None: it changes theta in place")
        for name, array in self._kept.items():
            if getattr(self._exchange, name, None) is not array:
                raise TypeError(
                    f"apply() has replaced {name}, an array of state(), by another one, which nobody shares; allowed: "
                    f"to change its elements, as in self.{name}[:] = ..."
                )

    def forget(self) -> None:
        """See Exchange."""
        self._exchange.forget()

    # ---- the shared arrays ----

    def entries(self) -> dict[str, NDArray[Any]]:
        """The arrays by their names in the shared state."""
        return {f"exchange/{name}": array for name, array in self.arrays.items()}

    def state_dict(self) -> dict[str, Any]:
        """Copies of the arrays as tensors, for a checkpoint."""
        return {name: torch.from_numpy(array.copy()) for name, array in self.arrays.items()}

    def check(self, state: Mapping[str, Any]) -> None:
        """Raises KeyError, TypeError or ValueError for what is no state_dict() of an exchange like this."""
        check_tensors(state, set(self.arrays), "exchange")
        for name, tensor in state.items():
            own, given = self.arrays.get(name), tensor.numpy()
            if own is None or own.shape != given.shape or own.dtype != given.dtype:
                allowed = "no such array" if own is None else kind_of(own)
                raise ValueError(f"{name} of the state's exchange is {kind_of(given)}; allowed: {allowed}")

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a state_dict() that was checked; forgets the rest."""
        for name, array in self.arrays.items():
            np.copyto(array, state[name].numpy())
        self.forget()


def _arrays_of(exchange: Exchange, size: int) -> dict[str, NDArray[Any]]:
    """What state() returns. Raises TypeError, ValueError."""
    arrays = exchange.state(size)
    if not isinstance(arrays, Mapping):
        raise TypeError(f"state() returns {kind_of(arrays)}; allowed: arrays by name")
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"state() has the name {name!r}; allowed: a str")
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise TypeError(f"state()[{name!r}] is {kind_of(array)}; allowed: an np.ndarray of real numbers")
        if not array.flags.c_contiguous or not array.flags.writeable:
            what = "not contiguous" if not array.flags.c_contiguous else "read-only"
            raise ValueError(f"state()[{name!r}] is {what}; allowed: a contiguous array that can be written to")
    return dict(arrays)


def kind_of(given: object) -> str:
    """What an error says about an object that is not allowed."""
    if isinstance(given, np.ndarray):
        return f"an array of {given.dtype} with the shape {given.shape}"
    return f"an object of type {type(given).__name__}"
