"""Strategies with small messages, with real processes: every bit is that of a reference in one process.

In each run a newcomer enters at a known round, and a peer is killed in the middle of a collective.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import strategy_programs as programs  # noqa: E402
import strategy_reference as reference  # noqa: E402
from test_torch_strategies import NEWCOMER, Peer, Rounds, run_case  # noqa: E402


@pytest.mark.parametrize(
    ("case", "ratio", "wire"),
    [("sketched", programs.RATIO, reference.exactly), ("sketched-int8", programs.SMALL_RATIO, reference.int8)],
)
def test_sketches(case: str, ratio: float, wire: Any, tmp_path: Path, coordinator: lockstep.Coordinator) -> None:
    torch.set_num_threads(1)
    rounds = Rounds(case, run_case(case, coordinator.address, tmp_path))
    theta = rounds.first_parameters()
    outer = reference.Outer(programs.OUTER_LR, 0.0, theta.size)
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    steps = programs.INNER_STEPS
    for number, members in enumerate(rounds.members):
        hashed = (ratio, programs.SEED, number)
        sketches = [reference.sketch(peers[one].train(theta, number * steps, steps), *hashed) for one in members]
        average = reference.average(sketches, [1.0] * len(members), wire, wire)
        theta = outer.step(theta, reference.unsketch(average, theta.size, *hashed))
        rounds.check(number + 1, theta, None, None)
    rounds.check_end(theta)


def test_one_byte(tmp_path: Path, coordinator: lockstep.Coordinator) -> None:
    """Everything follows from the slopes: nobody exchanges a direction."""
    torch.set_num_threads(1)
    all_told = run_case("one-byte", coordinator.address, tmp_path)
    rounds = Rounds("one-byte", all_told)
    theta = rounds.first_parameters()
    model = programs.make_model(0)
    samples = range(programs.SAMPLES)
    for number, members in enumerate(rounds.members):
        ids = [bytes.fromhex(all_told[one].begin[0]) for one in members]
        directions = [
            [reference.direction(theta.size, each, sample, programs.SEED, number) for sample in samples] for each in ids
        ]
        gradient = np.zeros_like(theta)
        for one, own in zip(members, directions):
            for z in own:
                losses = []
                for eps in (np.float32(programs.EPS), np.float32(-programs.EPS)):
                    reference.unflatten(model, theta + eps * z)
                    losses.append(programs.loss_of(model, one, number).item())
                gradient = gradient + reference.code((losses[0] - losses[1]) / (2 * programs.EPS)) * z
        gradient = gradient / np.float32(len(members) * programs.SAMPLES)
        theta = theta - np.float32(programs.LR) * gradient
        rounds.check(number + 1, theta, None, None)
    rounds.check_end(theta)


def test_noise(tmp_path: Path, coordinator: lockstep.Coordinator) -> None:
    """Also the round that begins again after a kill has the noise that was drawn once."""
    torch.set_num_threads(1)
    rounds = Rounds("dp-lora", run_case("dp-lora", coordinator.address, tmp_path))
    theta = rounds.first_parameters()
    peers = [Peer(number) for number in range(NEWCOMER + 1)]
    entropies = [programs.Entropy(number) for number in range(NEWCOMER + 1)]
    steps, world = programs.INNER_STEPS, programs.FOUNDERS
    scales: list[float] = []
    for number, members in enumerate(rounds.members):
        inputs = []
        for one in members:
            progress = peers[one].train(theta, number * steps, steps).astype(np.float64)
            norm = math.sqrt(math.fsum((progress * progress).tolist()))
            scales.append(programs.CLIP / norm * (1 - 2.0**-22) if norm > programs.CLIP else 1.0)
            noise = reference.gaussian(entropies[one], theta.size) * (programs.NOISE * programs.CLIP / math.sqrt(world))
            inputs.append((progress * scales[-1] + noise).astype(np.float32))
        average = reference.average(inputs, [1.0] * len(members), reference.exactly, reference.exactly)
        theta = theta - np.float32(0.5) * average
        rounds.check(number + 1, theta, None, None)
        world = len(rounds.members[number + 1]) if number == programs.COMES else len(members)
    rounds.check_end(theta)
    assert min(scales) < max(scales) == 1
