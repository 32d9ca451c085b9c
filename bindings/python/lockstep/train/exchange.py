"""What peers tell each other in an outer step, and what becomes of it: the part of a strategy that anyone can write.

An Exchange knows no run, no model and no peer that dies: arrays go in, and arrays come out. So it is tested without a
run. LocalTraining brings it into one; docs/strategies.md has an example of 30 lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ..types import PeerId
from .arrays import Floats


@dataclass(frozen=True)
class Round:
    """The outer step for which peers exchange something.

    outer_step: outer steps that the run has made before; equal on all peers. A seed for random numbers that all share.
    peer: id of this peer.
    weight: sum of the weights that this peer's program has given to step() since the last outer step; None if it gives
        none.
    """

    outer_step: int
    peer: PeerId
    weight: float | None


@dataclass(frozen=True)
class Contribution:
    """What a peer has given to a Gathering.

    peer: its id.
    data: what its contribution() has returned, in one dimension. All contributions have the same type of elements, but
        any peer may have sent any values, and any number of them: check what you rely on.
    weight: see Round; None if peers give none.
    """

    peer: PeerId
    data: NDArray[Any]
    weight: float | None


class Exchange:
    """What Averaging and Gathering have in common; derive from one of them.

    All peers call the same methods in the same order. apply() must give the same bits on every peer: use operations of
    numpy that work element by element (add, multiply, sort, median, ...), no dot products, and no sums along an axis
    whose order numpy may choose.

    A round may fail after contribution(), and be made again; apply() is called once for each outer step that is made.
    So what a peer keeps for itself, such as what was not sent yet, changes in apply() only.
    """

    def settings(self) -> Mapping[str, float]:
        """The numbers that must be equal on all peers, by name. A peer with others is refused when it enters."""
        return {}

    def state(self, size: int) -> Mapping[str, NDArray[Any]]:
        """The arrays that apply() changes besides the parameters, by name, such as a momentum; called once.

        They are a part of the shared state: newcomers take them over, before their first round. The exchange keeps
        references to them.

        size: number of the parameters' elements.
        """
        return {}

    def forget(self) -> None:
        """Empties what this peer keeps for itself: the parameters are no longer those of its last outer step."""


class Averaging(Exchange, ABC):
    """An exchange in which all peers get the average of what they have given, by one all-reduce."""

    @abstractmethod
    def contribution(self, progress: Floats, about: Round) -> Floats:
        """Returns what this peer gives: float32, one dimension, of the same size on all peers.

        progress: the shared parameters minus those of this peer, float32, one dimension; may be changed and returned.
        """

    @abstractmethod
    def apply(self, theta: Floats, average: Floats, about: Round) -> None:
        """Makes the outer step.

        theta: the shared parameters, float32, one dimension; changed in place.
        average: of all contributions, weighted if peers give weights; the same bits on all peers. May be overwritten.
        """


class Gathering(Exchange, ABC):
    """An exchange in which every peer gets what each peer has given, by one all-gather."""

    @abstractmethod
    def most_bytes(self, size: int) -> int:
        """Returns the most bytes that a contribution has; equal on all peers.

        size: number of the parameters' elements.
        """

    @abstractmethod
    def contribution(self, progress: Floats, about: Round) -> NDArray[Any]:
        """Returns what this peer gives: an array of any type and size, of the same type on all peers.

        progress: the shared parameters minus those of this peer, float32, one dimension; may be changed and returned.
        """

    @abstractmethod
    def apply(self, theta: Floats, contributions: Sequence[Contribution], about: Round) -> None:
        """Makes the outer step.

        theta: the shared parameters, float32, one dimension; changed in place.
        contributions: of all peers that are left, this one's among them, in the order of their ids.
        """
