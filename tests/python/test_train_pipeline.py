"""Outer steps in pieces: the same bits as a whole, and what is left when a call between two others fails."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from lockstep import sim
from support import IN_TIME, InOrder, Peers, at_each_rank, until

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import (  # noqa: E402
    DESLOC,
    SGD,
    DataParallel,
    DiLoCo,
    FedAvg,
    LocalSGD,
    Nesterov,
    StepInfo,
    StreamingDiLoCo,
    Wire,
)
from lockstep.train import pipeline as pieces  # noqa: E402
from lockstep.train.arrays import zeros  # noqa: E402
from lockstep.train.flat import Borrowed, Fragment  # noqa: E402
from lockstep.train.pieces import PieceByPiece  # noqa: E402

torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)  # the first optimizer imports for seconds: not in a test

pytestmark = pytest.mark.usefixtures("one_torch_thread")

STEPS = 2
LARGE = 1 << 22  # elements, 16 MiB

STRATEGIES: dict[str, Callable[..., Any]] = {
    "local SGD": lambda *three: LocalSGD(*three, inner_steps=STEPS),
    "fed avg": lambda *three: FedAvg(*three, inner_steps=STEPS, lr=0.5),
    "DiLoCo": lambda *three: DiLoCo(*three, inner_steps=STEPS),
    "DES-LOC": lambda *three: DESLOC(*three, inner_steps=STEPS, moments={"exp_avg": 1, "exp_avg_sq": 1}),
}


def cut_small(monkeypatch: pytest.MonkeyPatch, piece: int = 16) -> None:
    for name, value in {"PIECE": piece, "NEAR": 3, "FAR": 5, "SMALL": 0}.items():
        monkeypatch.setattr(pieces, name, value)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_small(monkeypatch)


class Model(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Parameters of unlike layouts: plain, transposed, two in one memory, and none of some elements."""

    def __init__(self, seed: int, dtype: Any = torch.float32, *, shares: bool = True) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def made(*shape: int) -> Any:
            return torch.randn(shape, generator=generator).to(dtype)

        memory = made(70)
        two = [memory[:40], memory[20:60] if shares else memory[30:].clone()]
        self.parts = torch.nn.ParameterList([made(3, 11), made(40), made(9, 5).t(), *two, made(0), made(61)])

    def forward(self) -> Any:
        return sum((part.float() ** 2).sum() * (1 + number) for number, part in enumerate(self.parts))


def adam(model: Any) -> Any:
    return torch.optim.AdamW(model.parameters(), lr=0.02)


def trains(sync: Any, model: Any, inner: Any, until_step: int, peer: int = 0) -> list[StepInfo]:
    infos = []
    while sync.inner_step < until_step:
        inner.zero_grad()
        (model() * (1 + 0.1 * peer + 0.01 * sync.inner_step)).backward()
        inner.step()
        infos.append(sync.step(1.0 + peer) if isinstance(sync, FedAvg) else sync.step())
    return infos


def bits(model: Any) -> bytes:
    return b"".join(part.detach().float().numpy().tobytes() for part in model.parameters())


def shared(sync: Any) -> tuple[bytes, bytes]:
    (fragment,) = sync._training.model.fragments
    return fragment.theta.tobytes(), b"" if fragment.momentum is None else fragment.momentum.tobytes()


# ---- bits ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", STRATEGIES)
def test_pieces_have_the_bits_of_a_whole(name: str, dtype: Any, peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    def main(run: Any, number: int) -> tuple[bytes, tuple[bytes, bytes], list[tuple[Any, ...]]]:
        model = Model(1, dtype)
        inner = adam(model)
        with STRATEGIES[name](run, model, inner) as sync:
            infos = trains(sync, model, inner, 3 * STEPS, number)
            return bits(model), shared(sync), [(info.outer, info.world, info.outer_step) for info in infos]

    whole = peers(2, main)  # among two, a sum has one order
    cut_small(monkeypatch)
    cut = peers(2, main)
    assert cut == whole
    assert len(set(map(str, cut))) == 1


def test_alone_pieces_have_the_bits_of_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def learn() -> tuple[bytes, tuple[bytes, bytes]]:
        model = Model(1)
        inner = adam(model)
        with DiLoCo(None, model, inner, inner_steps=STEPS) as sync:
            trains(sync, model, inner, 3 * STEPS)
            return bits(model), shared(sync)

    whole = learn()
    cut_small(monkeypatch)
    assert learn() == whole


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("wire", ["native", Wire("int8", "int8", error_feedback=True)])
def test_gradients_in_place_have_the_bits_of_copies(
    wire: Any, dtype: Any, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(run: Any, number: int) -> tuple[bytes, bool, list[int]]:
        model = Model(1, dtype, shares=False)
        inner = adam(model)
        with DataParallel(run, model, inner, wire="native" if dtype is torch.bfloat16 else wire) as sync:
            trains(sync, model, inner, 1, number)
            places = [part.grad.data_ptr() for part in model.parameters()]
            for _ in range(2):
                (model() * (1 + number)).backward()  # adds to the gradients, which stay where they are
                inner.step()
                sync.step()
            same = [part.grad.data_ptr() for part in model.parameters()] == places
            return bits(model), same, [sync.inner_step, sync._steps._gradients._copies is None]

    whole = peers(2, main)
    cut_small(monkeypatch)
    cut = peers(2, main)
    assert cut[0] == cut[1]
    assert cut[0][1]
    assert whole[0][2] == [3, False]
    if wire == "native":
        assert cut[0][0] == whole[0][0]


@pytest.mark.usefixtures("small_pieces")
def test_an_optimizer_of_ones_own_steps_as_a_whole() -> None:
    class Own(Nesterov):
        def step(self, theta: Any, momentum: Any, gradient: Any) -> None:
            sizes.append(theta.size)
            super().step(theta, momentum, gradient)

    sizes: list[int] = []
    model = Model(1)
    with DiLoCo(None, model, adam(model), inner_steps=1, outer=Own()) as sync:
        trains(sync, model, adam(model), 1)
    assert sizes == [sum(part.numel() for part in model.parameters())]


# ---- how many are on their way ----


class Line:
    """A line on which each call takes so many seconds; counts the most calls on their way at once."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.flying = self.most = 0

    def begin(self, number: int, flight: pieces.Flight) -> Any:
        self.flying += 1
        self.most = max(self.most, self.flying)
        flight.taken[:] = number
        return self

    def wait(self) -> Any:
        self.flying -= 1
        return self


def test_far_peers_have_more_pieces_on_their_way(small_pieces: None) -> None:
    for seconds, most in ((0.001, pieces.NEAR), (0.1, pieces.FAR)):
        cut = pieces.Pieces(16 * 20 + 5)
        line = Line(seconds)
        for turn in range(2):
            seen = []
            for flight, result in cut.averages(lambda flight: flight.given.fill(0), line.begin):
                assert result is line
                seen.append((flight.piece.start, flight.taken.size, flight.taken[0]))
                if flight.piece.start == 0 and cut.is_far:
                    cut.widen()
            assert seen == [(16 * number, 16 if number < 20 else 5, number) for number in range(21)]
            assert line.most == (pieces.NEAR if turn == 0 else most)
            assert line.flying == 0


def test_what_is_left_behind_is_not_used_again(small_pieces: None) -> None:
    cut, line = pieces.Pieces(16 * 10), Line(0.1)
    flights = []
    for _ in cut.averages(lambda flight: flights.append(flight), line.begin):
        if cut.over == 2:
            break
    assert len(cut.abandon()) == line.flying == 2  # the third is over
    left = {id(one.given.base) for one in flights}
    next(iter(cut.averages(lambda flight: flights.append(flight), line.begin)))
    assert id(flights[-1].given.base) not in left
    cut.drain()


# ---- memory ----


def resident() -> Iterator[int]:
    """Each time: the most bytes that this process has held since the last time."""
    status, refs = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    while True:
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        refs.write_text("5")
        yield int(line.split()[1]) << 10


@pytest.mark.parametrize("advice", [None, -1], ids=["no name for it", "no such advice"])
def test_memory_needs_no_huge_pages(advice: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without them gives usual pages."""
    if advice is None:
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    else:
        monkeypatch.setattr(mmap, "MADV_HUGEPAGE", advice, raising=False)
    array = zeros(LARGE, pinned=False)
    assert array.shape == (LARGE,)
    assert array.dtype == np.float32
    assert not array.any()
    array[-1] = 1  # may be written to


@pytest.mark.parametrize("count", [1, 2])
def test_a_large_outer_step_takes_no_memory_of_the_size_of_the_model(
    count: int, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_small(monkeypatch, 1 << 14)
    met = threading.Barrier(count)

    def main(run: Any, number: int) -> int:
        model = torch.nn.ParameterList([torch.ones(LARGE // 4) for _ in range(4)])
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        with DiLoCo(run if count > 1 else None, model, inner, inner_steps=1, check_every=0) as sync:
            sync.step()
            met.wait(IN_TIME)
            most = resident()
            next(most)
            before = next(most)
            sync.step()
            met.wait(IN_TIME)
            assert sync._training.model.fragments[0]._gradient is None
            return next(most) - before

    assert max(peers(count, main)) < 4 * LARGE // 2


def test_fragments_of_a_stream_share_the_memory_of_their_gradients() -> None:
    model = Model(1)
    names = [[name] for name, part in model.named_parameters() if part.numel()]
    sync = StreamingDiLoCo(
        None,
        model,
        adam(model),
        inner_steps=len(names),
        fragments=lambda _: [*names[:-1], [*names[-1], "parts.5"]],
        tau=0,
    )
    with sync:
        trains(sync, model, adam(model), len(names))
    bases = {fragment.gradient.__array_interface__["data"][0] for fragment in sync._training.model.fragments}
    assert len(bases) == 1


# ---- losses and errors between the pieces ----


class Trap:
    """Calls a function on one peer when it has the average of its third piece, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, peer: int, function: Callable[[Any], None]) -> None:
        self._here = threading.local()
        put = Borrowed.put
        left = [3]

        def puts(borrowed: Borrowed, average: Any, piece: slice) -> None:
            put(borrowed, average, piece)
            if getattr(self._here, "number", None) == peer:
                left[0] -= 1
                if not left[0]:
                    function(self._here.run)

        monkeypatch.setattr(Borrowed, "put", puts)

    def enter(self, run: Any, number: int) -> None:
        self._here.run, self._here.number = run, number


class Died(Exception):
    pass


def die(run: Any) -> None:
    run.close()
    raise Died


@at_each_rank(2)
@pytest.mark.usefixtures("small_pieces")
def test_a_failed_step_leaves_the_shared_state_as_it_was(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_piece = PieceByPiece.begin_piece
    errs = [True]

    def begins(self: Any, average: Any, number: int, flight: Any, *more: Any) -> Any:
        if number == 4 and self._loop.own_id == self._loop.members[0] and errs:
            errs.clear()
            flight.given, flight.taken = flight.given[:-1], flight.taken[:-1]
        return begin_piece(self, average, number, flight, *more)

    monkeypatch.setattr(PieceByPiece, "begin_piece", begins)

    def main(run: Any, number: int) -> tuple[bytes, int]:
        model = Model(1)
        inner = adam(model)
        sync = DiLoCo(run, model, inner, inner_steps=STEPS)
        before: list[Any] = []

        def fail() -> None:
            with sync:
                before.append(shared(sync))
                trains(sync, model, inner, STEPS, number)

        with pytest.raises(lockstep.Mismatch):
            fail()
        assert shared(sync) == before[0]
        assert sync.outer_step == 0
        assert bits(model) == bits(Model(1))
        with sync:
            trains(sync, model, inner, 2 * STEPS, number)
        return bits(model), sync.outer_step

    first, second = peers(2, main)
    assert first == second
    assert first[1] == 2


@at_each_rank(2)
@pytest.mark.usefixtures("small_pieces")
def test_what_interrupts_a_step_leaves_the_shared_state_as_it_was(
    peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Any) -> None:
        raise KeyboardInterrupt

    trap = Trap(monkeypatch, 0, interrupt)

    def main(run: Any, number: int) -> tuple[bytes, tuple[bytes, bytes]] | None:
        trap.enter(run, number)
        model = Model(1)
        inner = adam(model)
        sync = DiLoCo(run, model, inner, inner_steps=STEPS)
        with sync:
            before = shared(sync)
            if number == 0:
                with pytest.raises(KeyboardInterrupt):
                    trains(sync, model, inner, STEPS)
                assert (shared(sync), bits(model)) == (before, bits(Model(1)))
                run.close()
                return None
            trains(sync, model, inner, STEPS, number)
            return bits(model), shared(sync)

    assert peers(2, main)[1] is not None


@at_each_rank(3)
@pytest.mark.usefixtures("small_pieces")
def test_after_a_loss_between_pieces_the_survivors_are_equal(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    trap = Trap(monkeypatch, 2, die)

    def main(run: Any, number: int) -> Any:
        trap.enter(run, number)
        model = Model(1)
        inner = adam(model)
        try:
            with DiLoCo(run, model, inner, inner_steps=STEPS) as sync:
                infos = trains(sync, model, inner, 2 * STEPS, number)
                return bits(model), shared(sync), [(info.world, info.contributors) for info in infos if info.outer]
        except Died:
            return None

    first, second, _ = peers(3, main)
    assert first == second
    assert [world for world, _ in first[2]] == [2, 2]


@pytest.mark.parametrize("turn", range(2))
@pytest.mark.usefixtures("small_pieces")
def test_too_few_members_between_pieces_begin_the_round_anew(
    turn: int, coordinator: lockstep.Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = Trap(monkeypatch, 1, die)
    connect = InOrder(coordinator.address, 2)
    ended: dict[int, tuple[bytes, tuple[bytes, bytes], int]] = {}
    infos: dict[int, list[StepInfo]] = {}
    alone = threading.Event()

    def peer(number: int) -> None:
        run = lockstep.Communicator(founders=2, listen_host="127.0.0.1", spin=0)
        if number < 2:
            connect(run, number ^ turn).wait()
        else:
            run.connect(coordinator.address, timeout=IN_TIME)
        trap.enter(run, number)
        model = Model(1)
        inner = adam(model)
        try:
            with DiLoCo(run, model, inner, inner_steps=STEPS, minimum_world=2) as sync:
                infos[number] = trains(sync, model, inner, 3 * STEPS, number)
                ended[number] = bits(model), shared(sync), sync.outer_step
        except Died:
            until(lambda: runs[0].world_size == 1)
            alone.set()
            return
        run.leave(timeout=IN_TIME)
        run.close()

    runs: list[Any] = []
    begin = Trap.enter

    def enters(self: Trap, run: Any, number: int) -> None:
        if number == 0:
            runs.append(run)
        begin(self, run, number)

    monkeypatch.setattr(Trap, "enter", enters)
    threads = [threading.Thread(target=peer, args=(number,), daemon=True) for number in range(2)]
    for thread in threads:
        thread.start()
    assert alone.wait(IN_TIME)
    threads.append(threading.Thread(target=peer, args=(2,), daemon=True))
    threads[-1].start()
    for thread in threads:
        thread.join(IN_TIME)
        assert not thread.is_alive()
    assert ended[0] == ended[2]
    assert ended[0][2] == 3
    assert [info.outer_step for info in infos[0] if info.outer] == [1, 2, 3]
    assert len(infos[0]) == 4 * STEPS, "the first round was made twice"


@pytest.mark.parametrize("name", ["DiLoCo", "DES-LOC"])
@pytest.mark.usefixtures("small_pieces")
def test_peers_are_equal_under_churn(name: str) -> None:
    """States of one revision are compared by the swarm."""

    def loop(run: lockstep.Communicator) -> lockstep.State:
        model = Model(1)
        inner = adam(model)
        with STRATEGIES[name](run, model, inner) as sync:
            while sync.inner_step < 20 * STEPS:
                run.spend(0.5)
                trains(sync, model, inner, sync.inner_step + 1, run.id[0])
            theta, momentum = shared(sync)
        return lockstep.State(
            {"theta": np.frombuffer(theta, np.uint8), "momentum": np.frombuffer(momentum, np.uint8)},
            revision=sync.outer_step,
        )

    for seed in range(4):
        sim.Swarm(peers=4, churn=True, seed=seed).run(loop)


def test_a_rate_of_one_and_a_model_of_one_piece_use_no_pieces() -> None:
    model = Model(1)
    assert LocalSGD(None, model, adam(model))._training.pieces is None
    assert isinstance(SGD(), SGD)
    assert Fragment([("a", torch.nn.Parameter(torch.zeros(3)))], SGD(), error_feedback=False)._gradient is None
