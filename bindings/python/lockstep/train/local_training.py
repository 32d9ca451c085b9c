"""LocalTraining: brings an Exchange that anyone can write into a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InvalidArgument, Mismatch
from ..types import PeerId, WireFormat, WireFormatName
from . import tags
from .agreement import Setting
from .arrays import Bytes
from .average_call import AverageCall
from .average_rounds import AverageRounds
from .checked import check_state
from .checked_exchange import CheckedExchange, check_exchange
from .exchange import Averaging, Contribution, Gathering, Round
from .flat import Fragment
from .local_rounds import GatherRounds, LocalRounds
from .outer import NoSteps
from .run_loop import Run
from .strategy import Strategy
from .training import Parts
from .wire import Wire

_HEADER = np.dtype(  # of a gathered block; type: that of the elements that follow, as numpy writes it, such as <f4
    [("has_newcomers", "u1"), ("has_weight", "u1"), ("type", "S6"), ("weight", "<f8")]
)


class LocalTraining(Strategy):
    """Trains alone for inner_steps steps, then makes the outer step of an exchange of your own.

    exchange: an Averaging or a Gathering. What it keeps belongs to this strategy: make a new one for each.
    inner_steps: steps from one outer step to the next; equal on all peers.
    wire: of an Averaging: a lockstep.train.Wire without error feedback, or a wire format for both ways.
    run, model, inner, minimum_world, check_every: a run or None, the module, its optimizer or several, a least number
        of members, and outer steps between two comparisons of hashes; LocalSGD tells more.
    Errors are those of every strategy. Desync also comes from an array that apply() changes, and state() does not
    return.
    An error that apply() raises leaves the parameters as apply() has left them, so it must check before it changes
    something, and raise on all peers alike.
    Raises ValueError, TypeError.

    Example:
        >>> strategy = LocalTraining(run, model, optimizer, TrimmedMean(1), inner_steps=20)
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
        wire = Wire.of(wire)
        if wire.error_feedback:
            raise ValueError(
                "wire has error_feedback, whose errors only a sum of progress makes good; allowed: without"
            )
        if isinstance(exchange, Gathering) and wire != Wire():
            raise ValueError("wire is for averages, and the exchange is a Gathering; allowed: wire='native'")
        check_exchange(exchange)
        parts = Parts(run, model, inner, minimum_world, check_every)
        if isinstance(exchange, Gathering):
            super().__init__(_GatheredRounds(parts, inner_steps, exchange))
        else:
            super().__init__(_AveragedRounds(parts, inner_steps, exchange, wire))


class _ExchangeRounds(LocalRounds):
    """Rounds whose outer step an exchange makes; its arrays are part of the shared state."""

    exchange: CheckedExchange

    def state_dict(self) -> dict[str, Any]:
        """See Training; with "exchange": its arrays as tensors."""
        return {**super().state_dict(), "exchange": self.exchange.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See Training."""
        check_state(state, {"exchange": Mapping})
        self.exchange.check(state["exchange"])
        super().load_state_dict(state)
        self.exchange.load_state_dict(state["exchange"])

    def enter(self) -> None:
        """See Training."""
        before = self.loop.outer_step
        super().enter()
        if self.loop.outer_step != before:
            self.exchange.forget()

    def entries(self) -> dict[str, Any]:
        """See SharedTraining."""
        return {**super().entries(), **self.exchange.entries()}

    def settings(self) -> dict[str, Setting]:
        """See SharedTraining."""
        return {**super().settings(), **self.exchange.settings()}


class _AveragedRounds(_ExchangeRounds, AverageRounds):
    """Rounds of an Averaging."""

    def __init__(self, parts: Parts, inner_steps: int, exchange: Averaging, wire: Wire) -> None:
        AverageRounds.__init__(self, parts, inner_steps, NoSteps(), wire)
        self.exchange = CheckedExchange(exchange, self.model.whole.theta.size)

    def average_of(self, fragment: Fragment, number: int = 0) -> AverageCall:
        """See AverageRounds."""
        fragment.measure()
        about = Round(self.loop.outer_step, self.loop.own_id, self.weight)
        given = self.exchange.contribution(fragment.gradient, about)
        return AverageCall([given], self.take_weight(), self.wire, tags.PROGRESS + number)

    def step_of(self, fragment: Fragment, average: AverageCall) -> None:
        """See AverageRounds."""
        about = Round(self.loop.outer_step, self.loop.own_id, average.weight)
        self.exchange.apply(fragment.theta, average.arrays[0], about)


class _GatheredRounds(_ExchangeRounds, GatherRounds):
    """Rounds of a Gathering."""

    def __init__(self, parts: Parts, inner_steps: int, exchange: Gathering) -> None:
        GatherRounds.__init__(self, parts, inner_steps)
        self.model.fragments = [Fragment(self.model.named, NoSteps(), error_feedback=False)]
        self.exchange = CheckedExchange(exchange, self.model.whole.theta.size)

    def step_with_peers(self, fragment: Fragment) -> bool:
        """See GatherRounds."""
        fragment.measure()
        about = Round(self.loop.outer_step, self.loop.own_id, self.weight)
        block = self._block_of(self.exchange.contribution(fragment.gradient, about))
        gathered = sorted(self.loop.gather(block, self.exchange.most_bytes + _HEADER.itemsize))
        contributions = [_contribution_of(peer, block, *gathered[0]) for peer, block in gathered]
        with_weight = [one.peer for one in contributions if one.weight is not None]
        without = [one.peer for one in contributions if one.weight is None]
        if with_weight and without:
            raise InvalidArgument(
                f"peer {with_weight[0]} has called step() with a weight, and peer {without[0]} without one; allowed: "
                "all with, or all without"
            )
        self.exchange.apply(fragment.theta, contributions, about)
        self.weight = None
        return any(bool(_header_of(block)["has_newcomers"]) for _, block in gathered)

    def _block_of(self, given: NDArray[Any]) -> Bytes:
        header = np.zeros(1, _HEADER)
        header["has_newcomers"] = self.loop.sees_newcomers()
        header["has_weight"] = self.weight is not None
        header["type"] = given.dtype.str.encode()
        header["weight"] = self.weight or 0.0
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
