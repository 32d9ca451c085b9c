"""Native kernels of the strategies that send few elements: their arguments, and models in every kind of memory.

Their results: tests/core/kernels/training, test_torch_golden_bits.py, test_train_sparse_codec.py, test_train_demo.py.
"""

from __future__ import annotations

import threading
from typing import Any, Callable

import lockstep
import numpy as np
import pytest
from lockstep import _lockstep as native

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import DeMo, SketchedSGD, SparseLoCo  # noqa: E402
from lockstep.train.codec.dct import TiledDct  # noqa: E402

F = np.float32


def floats(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(count).astype(F)


def encoder(*runs: tuple[int, int, int]) -> Any:
    return native.SparseEncoder(native.SparseLayout([list(runs)]))


def block_of(layout: Any, values: Any) -> Any:
    made = native.SparseEncoder(layout)
    made.add(values)
    block = np.empty(made.size, np.uint8)
    made.write(block, None, False, 1.0)
    return native.SparseBlock.decode(layout, block)


LAYOUT = native.SparseLayout([[(2, 8, 2)]])
OTHER = native.SparseLayout([[(2, 8, 2)]])
HASH = native.SketchHash(5000, 410, 91, (1, 2))
DCT = native.TileDct(4, 8)


def average() -> Any:
    return native.SparseAverage([block_of(LAYOUT, floats(16))], False, False)


@pytest.mark.parametrize(
    "call",
    [
        lambda: native.SparseLayout([[(1, 4097, 1)]]),
        lambda: native.SparseLayout([[(1, 0, 0)]]),
        lambda: native.SparseLayout([[(1, 8, 9)]]),
        lambda: native.SparseLayout([[(1 << 41, 8, 1)]]),
        lambda: encoder((2, 8, 2)).add(floats(7)),
        lambda: encoder((2, 8, 2)).add(floats(24)),
        lambda: encoder((2, 8, 2)).add(floats(16).astype(np.float64)),
        lambda: encoder((2, 8, 2)).size,
        lambda: encoder((2, 8, 2)).add_progress(floats(8), floats(16), floats(16), 0.5),
        lambda: encoder((2, 8, 2)).add_progress(floats(16), floats(16), floats(16).astype(np.float64), 0.5),
        lambda: encoder((2, 8, 2)).add_progress(floats(16), floats(16), None, 0.5),
        lambda: encoder((2, 8, 2)).add_momentum(DCT, (1, 1, 8), floats(32), None, 0, 0.5, 0.5),
        lambda: encoder((2, 32, 2)).add_momentum(DCT, (1, 2, 8), floats(64), None, 0, 0.5, 0.5),
        lambda: encoder((2, 32, 2)).add_momentum(DCT, (2, 1, 8), floats(63), None, 0, 0.5, 0.5),
        lambda: encoder((2, 32, 2)).add_momentum(DCT, (2, 1, 8), floats(64), floats(63), 8, 0.5, 0.5),
        lambda: encoder((2, 32, 2)).add_momentum(DCT, (2, 1, 8), floats(64), floats(64), 7, 0.5, 0.5),
        lambda: encoder((2, 8, 2)).write(np.empty(60, np.uint8), None, False, 1.0),
        lambda: native.SparseBlock.decode(LAYOUT, floats(3)),
        lambda: native.SparseAverage([], False, False),
        lambda: native.SparseAverage([block_of(LAYOUT, floats(16)), block_of(OTHER, floats(16))], False, False),
        lambda: average().average(1, floats(16)),
        lambda: average().average(0, floats(17)),
        lambda: average().average(0, floats(5)),
        lambda: average().sparse_step(None, 0, 4, floats(8), floats(8), floats(8), None, 0.5, 0.5),
        lambda: average().sparse_step(None, 0, 8, floats(16), floats(16), floats(16), None, 0.5, 0.5),
        lambda: average().sparse_step(None, 0, 0, floats(16), floats(16), floats(16), floats(8), 0.5, 0.5),
        lambda: average().sign_step(None, 0, 0, DCT, (1, 1, 8), floats(32), floats(32), None, 0, None, 0.5, 0.5, 1.0),
        lambda: native.TileDct(0, 8),
        lambda: native.TileDct(8, 65),
        lambda: DCT.forward(floats(32), floats(31), (1, 1, 8)),
        lambda: DCT.backward(floats(32), floats(31), (1, 1, 8)),
        lambda: native.SketchHash(5000, 410, 0, (1, 2)),
        lambda: native.SketchHash(5000, 4097, 91, (1, 2)),
        lambda: native.SketchHash((1 << 35) + 4096, 410, 0, (1, 2)),
        lambda: HASH.sketch(0, 0, floats(5000), floats(500)),
        lambda: HASH.sketch(0, 0, floats(100), floats(501)),
        lambda: HASH.sketch(0, 1, floats(4999), floats(501)),
        lambda: HASH.unsketch(0, 8192, floats(0), floats(501)),
        lambda: native.philox((1 << 32) - 1, (0, 0, 0), (0, 0), np.empty(8, np.uint32)),
        lambda: native.philox(0, (0, 0, 0), (0, 0), np.empty(7, np.uint32)),
        lambda: native.direction(64, (0, 0, 0), (0, 0), 1.0, floats(8)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(lockstep.InvalidArgument):
        call()


def test_a_block_keeps_its_bytes() -> None:
    values = floats(16)
    block = block_of(LAYOUT, values)  # the array of bytes is gone
    assert block.count(0) == 4
    places, kept = np.empty(4, np.int64), np.empty(4, F)
    block.read(0, places, kept)
    wanted = [sorted(np.argsort(-np.abs(values[at : at + 8]), kind="stable")[:2] + at) for at in (0, 8)]
    assert places.tolist() == [place for both in wanted for place in both]
    assert (np.sign(kept) == np.sign(values[places])).all()


def test_kernels_work_on_several_threads_at_once() -> None:
    """And give the same bits: nothing is shared."""
    values = floats(1 << 18)
    tiled = TiledDct(512, 512, 64)
    made: list[bytes] = []

    def work() -> None:
        coefficients = np.empty_like(values)
        tiled.forward(values, coefficients)
        made.append(coefficients.tobytes())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 4
    assert len(set(made)) == 1


# ---- models in every kind of memory ----


def plain(shape: tuple[int, int], values: Any) -> Any:
    return torch.nn.Parameter(torch.from_numpy(values.copy()).reshape(shape))


def transposed(shape: tuple[int, int], values: Any) -> Any:
    return torch.nn.Parameter(torch.from_numpy(values.copy()).reshape(shape).t().contiguous().t())


def strided(shape: tuple[int, int], values: Any) -> Any:
    room = torch.zeros(2 * values.size)
    room[::2] = torch.from_numpy(values)
    return torch.nn.Parameter(room[::2].view(shape))


STRATEGIES: dict[str, Callable[[Any, Any], Any]] = {
    "SparseLoCo": lambda model, inner: SparseLoCo(None, model, inner, inner_steps=1, density=0.1, chunk=100),
    "SketchedSGD": lambda model, inner: SketchedSGD(None, model, inner, inner_steps=1, ratio=3),
    "DeMo": lambda model, inner: DeMo(None, model, lr=0.01, chunk=16, topk=9),
}


def trained(strategy: str, make: Callable[[tuple[int, int], Any], Any]) -> bytes:
    """The parameters after three outer steps."""
    model = torch.nn.ParameterList([make((40, 50), floats(2000, 1)), make((70, 30), floats(2100, 2))])
    inner = torch.optim.SGD(model.parameters(), lr=0.0)
    with STRATEGIES[strategy](model, inner) as sync:
        for step in range(3):
            for number, parameter in enumerate(model):
                change = torch.from_numpy(floats(parameter.numel(), 10 * step + number)).reshape(parameter.shape)
                parameter.grad = change
                with torch.no_grad():
                    parameter.add_(change * 0.1)
            sync.step()
    return b"".join(parameter.detach().contiguous().numpy().tobytes() for parameter in model)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("make", [transposed, strided])
def test_memory_of_another_layout_gives_the_same_bits(strategy: str, make: Any) -> None:
    assert trained(strategy, make) == trained(strategy, plain)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_parameters_that_share_memory_are_measured_before_any_is_written(strategy: str) -> None:
    """Two parameters of one memory and two of equal memory learn the same in the first step."""

    def moved(shares: bool) -> list[bytes]:
        first = torch.nn.Parameter(torch.from_numpy(floats(400)).reshape(20, 20))
        second = torch.nn.Parameter(first.detach() if shares else first.detach().clone())
        model = torch.nn.ParameterList([first, second])
        with STRATEGIES[strategy](model, torch.optim.SGD(model.parameters(), lr=0.0)) as sync:
            change = torch.from_numpy(floats(400, 5)).reshape(20, 20)
            with torch.no_grad():
                for parameter in (first,) if shares else (first, second):
                    parameter.add_(change)
            first.grad = second.grad = change
            sync.step()
            return [tensor.numpy().tobytes() for tensor in sync.global_state_dict()["parameters"].values()]

    assert moved(shares=True) == moved(shares=False)
