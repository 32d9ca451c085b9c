"""LocalTraining: brings an Exchange that anyone can write into a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import Error, Mismatch
from ..types import PeerId, WireFormat, WireFormatName
from .agreement import Setting
from .arrays import Bytes, Floats
from .checked import check_state, check_tensors
from .exchange import Averaging, Contribution, Exchange, Gathering, Round
from .flat import Fragment
from .local_updates import LocalUpdates
from .outer import OuterOptimizer
from .strategy import GRADIENT_TAG, Reduction, Run, Wire

_HEADER = np.dtype(  # of a gathered block; type: that of the elements that follow, as numpy writes it, such as <f4
    [("has_newcomers", "u1"), ("has_weight", "u1"), ("type", "S6"), ("weight", "<f8")]
)


class LocalTraining(LocalUpdates):
    """Trains alone for inner_steps steps, then makes the outer step of an exchange of your own.

    exchange: an Averaging or a Gathering. What it keeps belongs to this strategy: make a new one for each.
    inner_steps: steps from one outer step to the next; equal on all peers.
    wire: of an Averaging: a lockstep.torch.Wire without error feedback, or a wire format for both ways.
    run, model, inner, minimum_world, check_every: as in LocalSGD.
    Errors are those of every strategy. An error that apply() raises leaves the parameters as apply() has left them, so
    it must check before it changes something, and raise on all peers alike.
    Raises ValueError, TypeError.

    Example:
        >>> with LocalTraining(run, model, optimizer, TrimmedMean(1), inner_steps=20) as strategy:
        ...     while strategy.inner_step < 1000:
        ...         loss(model).backward()
        ...         optimizer.step()
        ...         optimizer.zero_grad()
        ...         strategy.step()
    """

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        inner: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        exchange: Averaging | Gathering,
        *,
        inner_steps: int = 20,
        wire: Wire | WireFormat | WireFormatName = "native",
        minimum_world: int = 0,
        check_every: int = 10,
    ) -> None:
        if not isinstance(exchange, (Averaging, Gathering)):
            raise TypeError(
                f"exchange is {exchange!r}; allowed: an object of a class derived from Averaging or Gathering"
            )
        if Wire.of(wire).error_feedback:
            raise ValueError(
                "wire has error_feedback, whose errors only a sum of progress makes good; allowed: without"
            )
        if isinstance(exchange, Gathering) and Wire.of(wire) != Wire():
            raise ValueError("wire is for averages, and the exchange is a Gathering; allowed: wire='native'")
        self._exchange = exchange
        super().__init__(
            run,
            model,
            inner,
            inner_steps=inner_steps,
            outer=_Applied(exchange),
            wire=wire,
            minimum_world=minimum_world,
            check_every=check_every,
        )
        self._size = self._fragments[0].theta.size
        self._arrays = dict(exchange.state(self._size))
        for name, array in self._arrays.items():
            if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable):
                raise TypeError(
                    f"state()[{name!r}] is {type(array).__name__}; allowed: a contiguous, writable np.ndarray"
                )

    def global_state_dict(self) -> dict[str, Any]:
        """A copy of the shared state, with "exchange": its arrays as tensors; see Strategy.global_state_dict()."""
        arrays = {name: torch.from_numpy(array.copy()) for name, array in self._arrays.items()}
        return {**super().global_state_dict(), "exchange": arrays}

    def load_global_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a global_state_dict(); see Strategy.load_global_state_dict()."""
        check_state(state, {"exchange": Mapping})
        check_tensors(state["exchange"], set(self._arrays), "exchange")
        for name, array in self._arrays.items():
            if tuple(state["exchange"][name].shape) != array.shape:
                raise ValueError(f"{name} has shape {tuple(state['exchange'][name].shape)}; allowed: {array.shape}")
        super().load_global_state_dict(state)
        for name, array in self._arrays.items():
            np.copyto(array, state["exchange"][name].numpy())
        self._exchange.forget()

    # ---- the engine ----

    def _enter(self) -> None:
        before = self._outer_step
        super()._enter()
        if self._outer_step != before:
            self._exchange.forget()

    def _shared(self) -> dict[str, Any]:
        return {**super()._shared(), **{f"exchange/{name}": array for name, array in self._arrays.items()}}

    def _all_settings(self, settings: Mapping[str, float], entries: Mapping[str, Any]) -> dict[str, Setting]:
        return {**super()._all_settings(settings, entries), "exchange": type(self._exchange).__name__}

    def _about(self) -> Round:
        return Round(self._outer_step, self._own_id, self._weight)

    def _reduction_of(self, fragment: Fragment, number: int = 0) -> Reduction:
        assert isinstance(self._exchange, Averaging)
        given = self._exchange.contribution(fragment.gradient, self._about())
        if not (isinstance(given, np.ndarray) and given.dtype == np.float32 and given.ndim == 1):
            raise TypeError(f"contribution() returns {_kind_of(given)}; allowed: a float32 array of one dimension")
        weight, self._weight = self._weight, None
        return Reduction([np.ascontiguousarray(given)], weight, GRADIENT_TAG + number, None)

    def _step_of(self, fragment: Fragment, reduction: Reduction) -> None:
        assert isinstance(self._exchange, Averaging)
        self._exchange.apply(
            fragment.theta, reduction.arrays[0], Round(self._outer_step, self._own_id, reduction.weight)
        )

    def _after_inner_step(self) -> int | None:
        if isinstance(self._exchange, Averaging):
            return super()._after_inner_step()
        if self._inner_step % self._inner_steps:
            return None
        try:
            has_newcomers = self._gather_round(self._exchange, self._fragments[0])
        except Error:  # the next step tries again
            self._inner_step -= 1
            raise
        self._end_gathering(has_newcomers)
        return 0

    def _gather_round(self, exchange: Gathering, fragment: Fragment) -> bool:
        """Returns whether a contributor has seen newcomers."""
        fragment.measure()
        about = self._about()
        given = exchange.contribution(fragment.gradient, about)
        most = exchange.most_bytes(self._size)
        if not isinstance(given, np.ndarray) or given.dtype.kind not in "biufc":
            raise TypeError(f"contribution() returns {_kind_of(given)}; allowed: an np.ndarray of numbers")
        if given.nbytes > most:
            raise ValueError(f"contribution() returns {given.nbytes} bytes; allowed: most_bytes(), which are {most}")
        gathered = sorted(self._gather(self._block_of(given), most + _HEADER.itemsize))
        contributions = [_contribution_of(peer, block, *gathered[0]) for peer, block in gathered]
        exchange.apply(fragment.theta, contributions, about)
        self._weight = None
        return any(bool(_header_of(block)["has_newcomers"]) for _, block in gathered)

    def _block_of(self, given: NDArray[Any]) -> Bytes:
        header = np.zeros(1, _HEADER)
        header["has_newcomers"] = self._sees_newcomers()
        header["has_weight"] = self._weight is not None
        header["type"] = given.dtype.str.encode()
        header["weight"] = self._weight or 0.0
        return np.concatenate([header.view(np.uint8), np.ascontiguousarray(given).reshape(-1).view(np.uint8)])


def _header_of(block: Bytes) -> Any:
    return block[: _HEADER.itemsize].view(_HEADER)[0]


def _contribution_of(peer: PeerId, block: Bytes, first: PeerId, first_block: Bytes) -> Contribution:
    """What a peer has given. All peers have the same blocks, so all raise alike.

    first, first_block: a peer whose block has the type that those of all peers must have.
    Raises Mismatch.
    """
    for one, its_block in ((first, first_block), (peer, block)):
        if its_block.size < _HEADER.itemsize:
            raise Mismatch(f"peer {one} has sent {its_block.size} bytes, which are no contribution")
    header = _header_of(block)
    kind, wanted = (bytes(one["type"]).decode("ascii", "replace") for one in (header, _header_of(first_block)))
    data = block[_HEADER.itemsize :]
    try:
        dtype = np.dtype(kind)
    except TypeError:
        raise Mismatch(f"peer {peer} has sent elements of type {kind!r}, which does not exist") from None
    if kind != wanted:
        raise Mismatch(f"peer {peer} has sent elements of type {kind}, and peer {first} of type {wanted}")
    if dtype.kind not in "biufc" or data.size % dtype.itemsize:
        raise Mismatch(f"peer {peer} has sent {data.size} bytes, which are no elements of type {kind}")
    return Contribution(peer, data.copy().view(dtype), float(header["weight"]) if header["has_weight"] else None)


class _Applied(OuterOptimizer):
    """Stands for an exchange where an outer optimizer is wanted: it has the settings, and makes no step."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    @property
    def has_momentum(self) -> bool:
        """False: the exchange keeps its own arrays."""
        return False

    def step(self, theta: Floats, momentum: Floats | None, gradient: Floats) -> None:
        """Makes no step: the exchange makes it."""
        raise NotImplementedError("an exchange makes its own outer step")

    def settings(self) -> Mapping[str, float]:
        """Those of the exchange, and its name."""
        return self._exchange.settings()


def _kind_of(given: object) -> str:
    if isinstance(given, np.ndarray):
        return f"an array of {given.dtype} with {given.ndim} dimensions"
    return f"an object of type {type(given).__name__}"
