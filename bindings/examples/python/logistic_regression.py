"""A logistic regression that survives kills and takes newcomers in: all peers hold the same weights, to the last bit.

lockstep coordinator --listen 127.0.0.1:4000 &
python logistic_regression.py 127.0.0.1:4000 --founders 2 &
python logistic_regression.py 127.0.0.1:4000 --founders 2 &
python logistic_regression.py 127.0.0.1:4000 --founders 2     # a newcomer; kill any of them
"""

import argparse
from typing import Optional

import lockstep
import numpy as np

FEATURES = 20
TRUE_WEIGHTS = np.linspace(-2, 2, FEATURES)


def batch(random: np.random.Generator, size: int = 32) -> tuple:
    """Examples that the generator draws: features, and labels 0 or 1."""
    x = random.normal(size=(size, FEATURES))
    y = (random.random(size) < 1 / (1 + np.exp(-x @ TRUE_WEIGHTS))).astype(np.float64)
    return x, y


def train(run: lockstep.Communicator, steps: int = 100, inner_steps: int = 2, say=None) -> lockstep.State:
    """Each outer step: some steps alone, the average of what all peers have learnt, newcomers in, one state for all."""
    state = lockstep.State({"weights": np.zeros(FEATURES), "step": 0})
    run.sync(state)  # a newcomer takes over weights and step of the others
    while state["step"] < steps:
        local = state["weights"].copy()
        random = np.random.default_rng([state["step"], run.rank])  # examples that no other peer has
        for _ in range(inner_steps):
            x, y = batch(random)
            local -= 0.3 * x.T @ (1 / (1 + np.exp(-x @ local)) - y) / len(y)
        run.spend(0.5)  # in a simulated swarm the inner steps take so long
        change = local - state["weights"]
        result = run.all_reduce(change, op="avg")
        state["weights"] += change
        state["step"] += 1
        state.revision += 1
        if say is not None:
            say(f"step {state['step']}: {result.world_size} peers, hash {result.hash:016x}")
        run.admit()  # newcomers come in here,
        run.sync(state)  # and do this first: so everybody does it; if all are equal it costs a round trip
    return state


def accuracy(weights: np.ndarray) -> float:
    x, y = batch(np.random.default_rng(1), size=2000)
    return float(np.mean((x @ weights > 0) == (y > 0.5)))


def main(arguments: Optional[list] = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coordinator", help="run token or host:port")
    parser.add_argument("--founders", type=int, default=1, help="peers to begin with (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=100, help="outer steps (default: %(default)s)")
    given = parser.parse_args(arguments)
    with lockstep.connect(given.coordinator, founders=given.founders) as run:
        state = train(run, given.steps, say=lambda line: print(line, flush=True))
        print(f"accuracy {accuracy(state['weights']):.3f}", flush=True)


if __name__ == "__main__":
    main()
