"""LocalTraining: brings an Exchange that anyone can write into a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import Error, InvalidArgument, Mismatch
from ..types import PeerId, WireFormat, WireFormatName
from .agreement import Setting
from .arrays import Bytes, Floats
from .checked import check_state, check_tensors
from .checked_exchange import CheckedExchange, check_exchange, kind_of
from .exchange import Averaging, Contribution, Gathering, Round
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
        if Wire.of(wire).error_feedback:
            raise ValueError(
                "wire has error_feedback, whose errors only a sum of progress makes good; allowed: without"
            )
        if isinstance(exchange, Gathering) and Wire.of(wire) != Wire():
            raise ValueError("wire is for averages, and the exchange is a Gathering; allowed: wire='native'")
        check_exchange(exchange)
        super().__init__(
            run,
            model,
            inner,
            inner_steps=inner_steps,
            outer=_Applied(),
            wire=wire,
            minimum_world=minimum_world,
            check_every=check_every,
        )
        self._exchange = CheckedExchange(exchange, self._fragments[0].theta.size)

    def global_state_dict(self) -> dict[str, Any]:
        """A copy of the shared state, with "exchange": its arrays as tensors; see Strategy.global_state_dict()."""
        arrays = {name: torch.from_numpy(array.copy()) for name, array in self._exchange.arrays.items()}
        return {**super().global_state_dict(), "exchange": arrays}

    def load_global_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a global_state_dict(); see Strategy.load_global_state_dict()."""
        check_state(state, {"exchange": Mapping})
        given = {name: tensor.numpy() for name, tensor in state["exchange"].items()}
        check_tensors(given, set(self._exchange.arrays), "exchange")
        for name in given:
            own = self._exchange.arrays.get(name)
            if own is None or own.shape != given[name].shape or own.dtype != given[name].dtype:
                allowed = "no such array" if own is None else kind_of(own)
                raise ValueError(f"{name} of the state's exchange is {kind_of(given[name])}; allowed: {allowed}")
        super().load_global_state_dict(state)
        for name, array in self._exchange.arrays.items():
            np.copyto(array, given[name])
        self._exchange.forget()

    # ---- the engine ----

    def _enter(self) -> None:
        before = self._outer_step
        super()._enter()
        if self._outer_step != before:
            self._exchange.forget()

    def _shared(self) -> dict[str, Any]:
        return {**super()._shared(), **{f"exchange/{name}": array for name, array in self._exchange.arrays.items()}}

    def _all_settings(self, settings: Mapping[str, float], entries: Mapping[str, Any]) -> dict[str, Setting]:
        return {**super()._all_settings(settings, entries), **self._exchange.settings()}

    def _about(self) -> Round:
        return Round(self._outer_step, self._own_id, self._weight)

    def _reduction_of(self, fragment: Fragment, number: int = 0) -> Reduction:
        given = self._exchange.contribution(fragment.gradient, self._about())
        weight, self._weight = self._weight, None
        return Reduction([given], weight, GRADIENT_TAG + number, None)

    def _step_of(self, fragment: Fragment, reduction: Reduction) -> None:
        about = Round(self._outer_step, self._own_id, reduction.weight)
        self._exchange.apply(fragment.theta, reduction.arrays[0], about)

    def _after_inner_step(self) -> int | None:
        if not self._exchange.gathers:
            return super()._after_inner_step()
        if self._inner_step % self._inner_steps:
            return None
        try:
            has_newcomers = self._gather_round(self._fragments[0])
        except Error:  # the next step tries again
            self._inner_step -= 1
            raise
        self._end_gathering(has_newcomers)
        return 0

    def _gather_round(self, fragment: Fragment) -> bool:
        """Returns whether a contributor has seen newcomers."""
        fragment.measure()
        about = self._about()
        block = self._block_of(self._exchange.contribution(fragment.gradient, about))
        gathered = sorted(self._gather(block, self._exchange.most_bytes + _HEADER.itemsize))
        contributions = [_contribution_of(peer, block, *gathered[0]) for peer, block in gathered]
        with_weight = [one.peer for one in contributions if one.weight is not None]
        without = [one.peer for one in contributions if one.weight is None]
        if with_weight and without:
            raise InvalidArgument(
                f"peer {with_weight[0]} has called step() with a weight, and peer {without[0]} without one; allowed: "
                "all with, or all without"
            )
        self._exchange.apply(fragment.theta, contributions, about)
        self._weight = None
        return any(bool(_header_of(block)["has_newcomers"]) for _, block in gathered)

    def _block_of(self, given: NDArray[Any]) -> Bytes:
        header = np.zeros(1, _HEADER)
        header["has_newcomers"] = self._sees_newcomers()
        header["has_weight"] = self._weight is not None
        header["type"] = given.dtype.str.encode()
        header["weight"] = self._weight or 0.0
        return np.concatenate([header.view(np.uint8), given.view(np.uint8)])


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
    """Stands for an exchange where an outer optimizer is wanted, and makes no step."""

    @property
    def has_momentum(self) -> bool:
        """False: the exchange keeps its own arrays."""
        return False

    def step(self, theta: Floats, momentum: Floats | None, gradient: Floats) -> None:
        """Makes no step: the exchange makes it."""
        raise NotImplementedError("an exchange makes its own outer step")

    def settings(self) -> Mapping[str, float]:
        """None here: LocalTraining compares those of the exchange, under names of their own."""
        return {}
