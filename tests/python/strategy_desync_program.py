"""A peer of a run in which a bit of one peer's shared state flips.

usage: python strategy_desync_program.py <case> <parameters or momentum> <coordinator> <rank that flips a bit>

That peer flips a bit of PLACES after outer step FLIPS. Every peer prints its rank and the error that it gets, enters
the `with` block again, and trains to the end.
"""

from __future__ import annotations

import sys
from typing import Any

import lockstep
import torch
from lockstep.torch import Desync, StreamingDiLoCo
from strategy_programs import (
    CASES,
    FOUNDERS,
    IN_TIME,
    backward,
    hash_of,
    make_model,
    make_optimizer,
    say,
    steps_of,
    weight_of,
)

FLIPS = 2
PLACES = {"parameters": "2.weight", "momentum": "0.bias"}


def flip(sync: Any, group: str) -> None:
    """One bit in the middle of a tensor of the shared state, high enough that no step rounds it away."""
    for fragment in sync._training.model.fragments:
        entry = fragment.entries().get(f"{group}/{PLACES[group]}")
        if entry is not None:
            entry.view("u4")[entry.size // 2] ^= 1 << 20


def main(case: str, group: str, address: str, victim: int) -> None:
    torch.set_num_threads(1)
    has_flipped = False
    with lockstep.connect(address, timeout=IN_TIME, founders=FOUNDERS, listen_host="127.0.0.1", spin=0) as run:
        rank = run.rank
        say("rank", rank)
        model = make_model(rank)
        optimizer = make_optimizer(model)
        sync = CASES[case](run, model, optimizer)
        total = 6 * steps_of(case) + (1 if isinstance(sync, StreamingDiLoCo) else 0)
        while sync.inner_step < total:
            try:
                with sync:
                    say("begins", run.id, sync.inner_step, sync.outer_step)
                    while sync.inner_step < total:
                        if sync.outer_step == FLIPS and not has_flipped:
                            has_flipped = True
                            if rank == victim:
                                flip(sync, group)
                        backward(model, optimizer, rank, sync.inner_step)
                        optimizer.step()
                        sync.step(weight_of(case, rank))
            except Desync as error:
                say("desync", error.outer_step, error.name, error.differs, *sorted(error.hashes.items()))
                say("text", error)
        state = sync.global_state_dict()
        tensors = [*state["parameters"].values(), *state["momentum"].values()]
        say("ended", sync.outer_step, hash_of(*[tensor.numpy() for tensor in tensors]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
