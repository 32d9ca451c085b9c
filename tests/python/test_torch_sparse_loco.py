"""SparseLoCo: every bit is that of a reference in one process, with real processes and in a simulated swarm under churn.

LOCKSTEP_SEEDS=1000 pytest tests/python/test_torch_sparse_loco.py               # more than the default of 5
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import strategy_programs as programs  # noqa: E402
import strategy_reference as reference  # noqa: E402
from test_torch_strategies import NEWCOMER, Peer, Rounds, run_case  # noqa: E402


def split(values: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return np.split(values, np.cumsum(sizes)[:-1])


class Reference:
    """The equations of SparseLoCo. Each peer has an error, which begins with 0."""

    def __init__(
        self, sizes: list[int], density: float, chunk: int, ef_decay: float, outer_lr: float, **how: bool
    ) -> None:
        self.sizes, self.density, self.chunk, self.how = sizes, density, chunk, how
        self.ef_decay, self.outer = np.float32(ef_decay), reference.Outer(outer_lr, 0.0, sum(sizes))
        self.errors: dict[Any, np.ndarray] = {}

    def step(self, theta: np.ndarray, progress: dict[Any, np.ndarray], weights: dict[Any, float]) -> np.ndarray:
        """The parameters after an outer step. progress: of the contributors, in the order of their ids."""
        sent: dict[Any, list[reference.Sent]] = {}
        for peer, gradient in progress.items():
            error = self.ef_decay * self.errors.get(peer, np.zeros_like(theta)) + gradient
            sent[peer] = [reference.sparse(part, self.density, self.chunk) for part in split(error, self.sizes)]
            self.errors[peer] = error - np.concatenate([one.values for one in sent[peer]])
        averages = [
            reference.average_sparse(list(tensor), [weights[peer] for peer in sent], **self.how)
            for tensor in zip(*sent.values())
        ]
        return self.outer.step(theta, np.concatenate(averages))


@pytest.mark.parametrize(
    ("case", "how"),
    [
        ("sparse-loco", {}),
        ("sparse-loco-clipped", {"counts_absent": True, "clips": True}),
        ("sparse-loco-weighted", {}),
    ],
)
def test_every_bit_is_that_of_the_reference(
    case: str, how: dict[str, bool], tmp_path: Path, coordinator: lockstep.Coordinator
) -> None:
    """A newcomer enters in round 3, and a peer dies in the middle of the all-gather of round 4."""
    torch.set_num_threads(1)
    rounds = Rounds(run_case(case, coordinator.address, tmp_path))
    theta = rounds.first_parameters()
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    equations = Reference([p.numel() for p in peers[0].model.parameters()], **programs.SPARSE, **how)
    steps = programs.INNER_STEPS
    for number, members in enumerate(rounds.members):
        by_id = sorted(members, key=lambda member: rounds.told[member].begin[0])
        progress = {member: peers[member].train(theta, number * steps, steps) for member in by_id}
        weights = {member: (programs.weight_of(case, member) or 0.25) * steps for member in by_id}
        theta = equations.step(theta, progress, weights)
        rounds.check(number + 1, theta, None, None)
    rounds.check_end(theta)
