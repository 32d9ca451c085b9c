"""One average over the peers, begun or over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._lockstep import Result, Work
from ..types import PeerId
from .arrays import Floats
from .wire import Wire


class AverageCall:
    """One average over the peers, begun or over.

    arrays: reduced in place. weight: of this peer; None if no peer has weights. wire: how elements travel.
    tag: of the call. residual: what rounding has lost so far; None without error feedback.
    observes: whether this peer takes part with nothing, because it has just joined.
    """

    def __init__(
        self,
        arrays: list[Floats],
        weight: float | None,
        wire: Wire,
        tag: int,
        residual: Floats | Sequence[Floats] | None = None,
        observes: bool = False,
    ) -> None:
        self.pending = np.zeros(2, np.float32)  # above 0 after the reduction: a peer has seen newcomers; that prefetch
        self.arrays = [*arrays, self.pending]
        self.weight = weight
        self.wire = wire
        self.tag = tag
        self.observes = observes
        self.is_void = False  # all that contributed are lost: there is no average
        parts = [residual] if isinstance(residual, np.ndarray) else residual  # like `arrays`
        self.residuals = None if parts is None else [*parts, np.zeros(2, np.float32)]
        self.work: Work | None = None
        self.result: Result | None = None

    @property
    def contributors(self) -> tuple[PeerId, ...]:
        """Those whose progress is in the average, and observers; nobody if it is void."""
        return () if self.result is None else self.result.contributors

    @property
    def has_newcomers(self) -> bool:
        """Whether a contributor has seen newcomers to admit now; the same on all peers."""
        return bool(self.pending[0] > 0) and not self.is_void

    @property
    def has_prefetchers(self) -> bool:
        """Whether a contributor has seen newcomers that fetch the state first; the same on all peers."""
        return bool(self.pending[1] > 0) and not self.is_void
