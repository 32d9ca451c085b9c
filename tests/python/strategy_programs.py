"""A peer of the tests of training strategies.

usage: python strategy_programs.py <case> <coordinator> <number> <folder> <turn>
       python strategy_programs.py <case> <coordinator> <number>            trains until it is killed

All reductions compare the shared states: a false alarm fails the test. Peers 0, 1 and 2 begin together; the rank of
each is its number plus `turn`, modulo 3. Peer 3 comes later. All wait before round COMES until it waits for its
admission, so that it enters at a known place. Peer 1 kills itself in the middle of the collective of round DIES, which
is an all-reduce or an all-gather: it and peer 0 have launched it, as the file `launched` says, and peer 2 has not
before the file `dead` is there. Each peer prints what the test compares.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

import lockstep
import numpy as np
import torch
from lockstep.torch import (
    DESLOC,
    SGD,
    DataParallel,
    DeMo,
    DiLoCo,
    DPLoRA,
    FedAvg,
    JustOneByte,
    LocalSGD,
    Nesterov,
    RunSampler,
    SketchedSGD,
    SparseLoCo,
    StepInfo,
    Strategy,
    StreamingDiLoCo,
    Wire,
    by_block,
)
from lockstep.train import dp_lora

FOUNDERS = 3
INNER_STEPS, ROUNDS = 4, 7
COMES, DIES = 2, 4
VICTIM, LATE = 1, 2
IN_TIME = 60.0

TAU = 1
DATA, BATCH = 37, 3
RATIO, SMALL_RATIO, OUTER_LR, SEED = 4, 1.125, 0.25, (7 << 32) + 11
LR, EPS, SAMPLES = 1e-4, 1e-2, 3
CLIP, NOISE = 0.5, 0.25
SPARSE: dict[str, Any] = {"density": 1 / 16, "chunk": 512, "ef_decay": 0.75, "outer_lr": 0.875}
DEMO: dict[str, Any] = {"decay": 0.75, "topk": 9, "chunk": 16, "weight_decay": 0.125}


def diloco(outer: Any = None, **options: Any) -> Callable[[Any, Any, Any], Strategy]:
    return lambda run, model, inner: DiLoCo(
        run, model, inner, inner_steps=INNER_STEPS, outer=outer, check_every=1, **options
    )


def streaming(wire: Any) -> Callable[[Any, Any, Any], Strategy]:
    return lambda run, model, inner: StreamingDiLoCo(
        run,
        model,
        inner,
        inner_steps=INNER_STEPS,
        fragments=by_block(1),
        tau=TAU,
        outer=Nesterov(0.4, 0.9),
        wire=wire,
        check_every=1,
    )


PERIODS = {"exp_avg": 2, "exp_avg_sq": 3}


def desloc(**options: Any) -> Callable[[Any, Any, Any], Strategy]:
    return lambda run, model, inner: DESLOC(
        run, model, inner, inner_steps=INNER_STEPS, moments=PERIODS, check_every=1, **options
    )


def sketched(ratio: float, **options: Any) -> Callable[[Any, Any, Any], Strategy]:
    return lambda run, model, inner: SketchedSGD(
        run, model, inner, inner_steps=INNER_STEPS, ratio=ratio, outer_lr=OUTER_LR, seed=SEED, **options
    )


def sparse(**options: Any) -> Callable[[Any, Any, Any], Strategy]:
    return lambda run, model, inner: SparseLoCo(
        run, model, inner, inner_steps=INNER_STEPS, check_every=1, **SPARSE, **options
    )


CASES: dict[str, Callable[[Any, Any, Any], Strategy]] = {
    "local-sgd": lambda run, model, inner: LocalSGD(run, model, inner, inner_steps=INNER_STEPS, check_every=1),
    "fed-avg": lambda run, model, inner: FedAvg(run, model, inner, inner_steps=INNER_STEPS, lr=0.75, check_every=1),
    "diloco": diloco(),
    "diloco-int8": diloco(Nesterov(0.5, 0.8), wire="int8"),
    "diloco-feedback": diloco(SGD(0.9), wire=Wire("int8", "int8", error_feedback=True)),
    "desloc": desloc(),
    "desloc-int8": desloc(outer=Nesterov(0.5, 0.8), wire="int8", moments_wire="bf16"),
    "data-parallel": lambda run, model, inner: DataParallel(run, model, inner, check_every=1),
    "data-parallel-int8": lambda run, model, inner: DataParallel(run, model, inner, wire="int8", check_every=1),
    "demo": lambda run, model, inner: DeMo(run, model, lr=1.0, check_every=1, **DEMO),
    "outer": diloco(overlap="outer"),
    "outer-int8": diloco(Nesterov(0.4, 0.5), overlap="outer", wire="int8"),
    "eager": diloco(Nesterov(0.4, 0.5), overlap="eager"),
    "eager-int8": diloco(overlap="eager", wire="int8"),
    "sparse-loco": sparse(),
    "sparse-loco-clipped": sparse(aggregate="mean", clip_to_median=True),
    "sparse-loco-weighted": sparse(),
    "streaming": streaming("native"),
    "streaming-int8": streaming("int8"),
    "streaming-4-bits": streaming(Wire("e3m0", "int8")),
    "dp-lora": lambda run, model, inner: DPLoRA(
        run, model, inner, inner_steps=INNER_STEPS, clip=CLIP, noise_multiplier=NOISE, outer_lr=0.5
    ),
    "one-byte": lambda run, model, _: JustOneByte(run, model, lr=LR, eps=EPS, samples=SAMPLES, seed=SEED),
    "sketched": sketched(RATIO),
    "sketched-int8": sketched(SMALL_RATIO, wire="int8"),
}


def make_model(number: int) -> Any:
    """Each peer begins with weights of its own: the strategy has to make them equal."""
    generator = torch.Generator().manual_seed(100 + number)
    model = torch.nn.Sequential(torch.nn.Linear(12, 200), torch.nn.Tanh(), torch.nn.Linear(200, 12))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
    return model


def make_optimizer(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)


class Entropy:
    """Noise of DPLoRA that a test can compute: a peer's own bytes, others at every call."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._calls = 0

    def __call__(self, count: int) -> bytes:
        self._calls += 1
        return np.random.default_rng([self._number, self._calls]).bytes(count)


def loss_of(model: Any, number: int, step: int) -> Any:
    """The loss of a peer's own examples of one inner step of the run."""
    generator = torch.Generator().manual_seed(1000 * number + step)
    x = torch.randn(16, 12, generator=generator).to(next(model.parameters()).device)
    return (model(x) - x.flip(1)).square().mean()


def backward(model: Any, optimizer: Any, number: int, step: int) -> None:
    """The gradient of loss_of(); the rate follows the run."""
    optimizer.param_groups[0]["lr"] = 0.02 / (1 + step)
    optimizer.zero_grad()
    loss_of(model, number, step).backward()


def learn(sync: Strategy, case: str, model: Any, optimizer: Any, number: int) -> StepInfo:
    """One inner step of a peer."""
    if isinstance(sync, JustOneByte):
        return sync.step(lambda: loss_of(model, number, sync.inner_step))
    backward(model, optimizer, number, sync.inner_step)
    if isinstance(sync, DeMo):
        sync.lr = optimizer.param_groups[0]["lr"]
    else:
        optimizer.step()
    return sync.step(weight_of(case, number % 4))


def steps_of(case: str) -> int:
    """Inner steps from one all-reduce to the next."""
    if case.startswith("streaming"):
        return INNER_STEPS // 2
    return 1 if case.startswith(("data-parallel", "demo", "one-byte")) else INNER_STEPS


def total_of(case: str) -> int:
    """Inner steps of the run."""
    return ROUNDS * steps_of(case) + (TAU if case.startswith("streaming") else 0)


def weight_of(case: str, number: int) -> float | None:
    """Powers of two, so that products are exact."""
    return float(1 << number) if case in ("fed-avg", "sparse-loco-weighted") else None


def hash_of(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def hash_of_model(model: Any) -> str:
    return hash_of(*[parameter.detach().cpu().numpy() for parameter in model.parameters()])


def until(condition: Callable[[], Any]) -> None:
    tick, end = threading.Event(), time.monotonic() + IN_TIME
    while not condition():
        assert time.monotonic() < end, "what the peer waits for has not come"
        tick.wait(0.002)


def say(*words: object) -> None:
    print(*words, flush=True)


class Run(lockstep.Communicator):
    """A communicator whose peer dies in the middle of a collective, or comes late to it."""

    number = 0
    folder = Path()
    rounds = 0

    def all_reduce_async(self, *arguments: Any, **options: Any) -> Any:
        """Begins all_reduce(), at its time."""
        return self.launch(super().all_reduce_async, *arguments, **options)

    def all_gather_async(self, *arguments: Any, **options: Any) -> Any:
        """Begins all_gather(), at its time."""
        return self.launch(super().all_gather_async, *arguments, **options)

    def launch(self, begin: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        if self.rounds == DIES and self.number == LATE:
            until((self.folder / "dead").exists)
            until(lambda: self.world_size == FOUNDERS)  # the victim is lost, and the newcomer is there
        work = begin(*arguments, **options)
        say("launched", self.rounds)
        if self.rounds == DIES and self.number == VICTIM:
            until((self.folder / "launched").exists)
            os.kill(os.getpid(), signal.SIGKILL)
        self.rounds += 1
        return work


def train(case: str, run: Run) -> None:
    number = run.number
    dp_lora.entropy = Entropy(number)
    model = make_model(number)
    optimizer = make_optimizer(model)
    sync = CASES[case](run, model, optimizer)
    data = RunSampler(DATA, sync, BATCH)
    with sync:
        say("begins", run.id, sync.inner_step, hash_of_model(model))
        while sync.inner_step < total_of(case):
            if sync.inner_step == COMES * steps_of(case) and number < FOUNDERS:
                until(lambda: run.pending == 1)
            say("draws", sync.inner_step, data.epoch, *data.next().tolist())
            info = learn(sync, case, model, optimizer, number)
            if info.outer:
                state = sync.global_state_dict()
                momentum = [state["momentum"], *state.get("moments", {}).values()]
                say(
                    "outer",
                    info.outer_step,
                    ",".join(map(str, info.contributors)),
                    info.retries,
                    hash_of(*[tensor.numpy() for tensor in state["parameters"].values()]),
                    hash_of(*[tensor.numpy() for group in momentum for tensor in group.values()]),
                    hash_of_model(model),
                )
    say("ended", hash_of_model(model))
    (position,) = sync.global_state_dict()["samplers"]
    say("position", position["cursor"], *[number for one in position["free"] for number in one])


def train_on(case: str, address: str, number: int) -> None:
    """Trains until the process is killed. Odd peers fetch the state while they wait for their admission."""
    torch.set_num_threads(1)
    model = make_model(number)
    optimizer = make_optimizer(model)
    with lockstep.Communicator(founders=FOUNDERS, listen_host="127.0.0.1", spin=0) as run:
        joining = run.connect_async(address, timeout=IN_TIME)
        if number % 2 == 0:
            joining.wait(IN_TIME)
        with CASES[case](run, model, optimizer) as sync:
            assert joining.done()
            while True:
                info = learn(sync, case, model, optimizer, number)
                if info.outer:
                    state = sync.global_state_dict()
                    tensors = [*state["parameters"].values(), *state["momentum"].values()]
                    hashed = hash_of(*[tensor.numpy() for tensor in tensors])
                    own = run.id in info.contributors
                    say(f"outer {info.outer_step} of {info.world} at {sync.inner_step}: {hashed} {own}")


def main(case: str, address: str, number: int, folder: Path, turn: int) -> None:
    torch.set_num_threads(1)
    run = Run(founders=FOUNDERS, listen_host="127.0.0.1", spin=0)
    run.number, run.folder = number, folder
    rank = (number + turn) % FOUNDERS if number < FOUNDERS else number
    if 0 < rank < FOUNDERS:
        until((folder / f"arrived-{rank - 1}").exists)
    joining = run.connect_async(address, timeout=IN_TIME)
    until(lambda: joining.done() or run.stage not in ("new", "reaching"))
    (folder / f"arrived-{rank}").touch()
    joining.wait()
    assert number >= FOUNDERS or run.rank == rank
    with run:
        train(case, run)


if __name__ == "__main__":
    if len(sys.argv) > 4:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))
    else:
        train_on(sys.argv[1], sys.argv[2], int(sys.argv[3]))
