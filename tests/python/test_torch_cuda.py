"""torch on a CUDA device: collectives, transfers and strategies give what they give on the CPU.

And on every machine: what the package allocates for itself lies in the memory of the host, whatever the default device.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lockstep
import pytest
from support import Peers
from torch_processes import run_ranks

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

import strategy_programs as programs  # noqa: E402

PROGRAMS = Path(__file__).parent / "torch_programs.py"
PACKAGE = Path(lockstep.__file__).parent
NEW_TENSORS = {
    "arange",
    "as_tensor",
    "empty",
    "eye",
    "full",
    "linspace",
    "ones",
    "tensor",
    "zeros",
    "sparse_coo_tensor",
}
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@needs_cuda
@pytest.mark.parametrize("size", [2, 3])
def test_results_on_a_device_are_those_on_the_cpu(size: int, tmp_path: Path) -> None:
    """Which tests of the backend compare with Gloo's."""
    method = f"file://{tmp_path}/store"
    for code, output in run_ranks(PROGRAMS, [["compared", rank, size, method, "cuda"] for rank in range(size)]):
        assert code == 0, output
        for program in ("collectives", "functional", "ddp", "fsdp", "dtensor"):
            assert f"equal {program} " in output, output


@needs_cuda
@pytest.mark.parametrize("rank", [0, 1])
def test_work_that_the_device_has_not_done_yet_comes_first(rank: int, tmp_path: Path) -> None:
    """In a stream of its own, with the future completed by another thread; each rank is the one that receives."""
    method = f"file://{tmp_path}/store"
    ended = run_ranks(PROGRAMS, [["streams", number, 2, method, str(rank)] for number in range(2)])
    assert all(code == 0 and "over" in output for code, output in ended), ended


def trained(case: str, peers: Peers, device: str) -> list[Any]:
    """The parameters of two peers after some rounds of a strategy, flat, on the CPU."""

    def main(run: Any, number: int) -> Any:
        model = programs.make_model(number).to(device)
        optimizer = programs.make_optimizer(model)
        with programs.CASES[case](run, model, optimizer) as sync:
            begun = programs.hash_of_model(model)
            for _ in range(4 * programs.steps_of(case)):
                programs.learn(sync, case, model, optimizer, number)
        assert all(parameter.device.type == device for parameter in model.parameters())
        assert programs.hash_of_model(model) != begun
        return torch.cat([parameter.detach().cpu().flatten() for parameter in model.parameters()])

    return peers(2, main)


@needs_cuda
@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("case", programs.CASES)
def test_strategies_train_a_model_on_a_device(case: str, peers: Peers) -> None:
    first, second = trained(case, peers, "cuda")
    assert torch.isfinite(first).all()
    assert torch.equal(first, second)


@needs_cuda
@pytest.mark.usefixtures("one_torch_thread")
@pytest.mark.parametrize("case", ["local-sgd", "fed-avg", "diloco", "desloc", "data-parallel", "outer", "streaming"])
def test_a_device_trains_as_the_cpu_does(case: str, peers: Peers) -> None:
    on_device, on_cpu = trained(case, peers, "cuda")[0], trained(case, peers, "cpu")[0]
    assert torch.allclose(on_device, on_cpu, rtol=1e-3, atol=1e-4), (on_device - on_cpu).abs().max()


def new_tensors(source: str) -> Iterator[ast.Call]:
    """Calls such as torch.empty()."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in NEW_TENSORS:
            of = node.func.value
            if isinstance(of, ast.Name) and of.id == "torch":
                yield node


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_new_tensors_name_their_device(path: Path) -> None:
    """A program may call torch.set_default_device("cuda")."""
    for call in new_tensors(path.read_text()):
        named = [keyword.arg for keyword in call.keywords]
        assert "device" in named, f"line {call.lineno}: {ast.unparse(call)}"


def test_results_do_not_depend_on_the_default_device(tmp_path: Path) -> None:
    """Tensors of the CPU, while others would be made on a device without memory."""
    method = f"file://{tmp_path}/store"
    ended = run_ranks(PROGRAMS, [["elsewhere", rank, 2, method] for rank in range(2)])
    assert all(code == 0 and "over" in output for code, output in ended), ended
