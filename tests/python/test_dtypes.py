"""Every dtype of torch in every call: the right result, or an error that names the dtype. No element is misread."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lockstep
import numpy as np
import pytest
from support import Peers
from torch_processes import run_ranks

torch = pytest.importorskip("torch", reason="torch is not installed")
dtypes = pytest.importorskip("torch_dtypes")

PROGRAM = Path(__file__).parent / "torch_dtypes.py"


@pytest.mark.filterwarnings("ignore")  # torch warns of types that it will remove
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_the_plain_api_reduces_or_refuses(peers: Peers, dtype: Any) -> None:
    def main(run: lockstep.Communicator, number: int) -> None:
        given = dtypes.tensor_of(dtype, number)
        calls = {
            "all_reduce": lambda: run.all_reduce(given),
            "all_reduce of a list": lambda: run.all_reduce([given, given]),
            "reduce": lambda: run.reduce(given, root=run.members()[0]),
            "broadcast": lambda: run.broadcast(given, root=run.members()[0]),
            "all_gather": lambda: run.all_gather(given),
            "sync": lambda: run.sync(lockstep.State({"given": given})),
        }
        if dtype not in dtypes.REDUCED:
            for name, call in calls.items():
                with pytest.raises((lockstep.ArrayError, lockstep.Error)) as caught:
                    call()
                assert str(dtype) in str(caught.value), (name, str(caught.value))
                assert "supported: bool, 8 to 64 bit integers" in str(caught.value), (name, str(caught.value))
            return
        run.all_reduce(given)
        assert torch.equal(given, dtypes.sum_of(dtype, 2))

    peers(2, main)


@pytest.mark.slow
def test_the_torch_backend_reduces_moves_or_refuses(tmp_path: Path) -> None:
    ended = run_ranks(PROGRAM, [[rank, 2, f"file://{tmp_path}/store"] for rank in range(2)])
    for code, output in ended:
        assert code == 0, output
        assert f"right or refused: {len(dtypes.ALL)} dtypes" in output, output


def test_a_tensor_that_torch_negates_later_is_refused(alone: lockstep.Communicator) -> None:
    given = torch._neg_view(torch.ones(3))
    with pytest.raises(lockstep.ArrayError, match=r"negated when torch reads it.*x\.resolve_neg\(\)"):
        alone.all_reduce(given)


@pytest.mark.parametrize("name", ["int4", "uint4", "int2", "float8_e4m3fn", "float4_e2m1fn"])
def test_types_of_ml_dtypes_are_refused(alone: lockstep.Communicator, name: str) -> None:
    dtype = getattr(pytest.importorskip("ml_dtypes"), name)
    with pytest.raises(lockstep.ArrayError, match=rf"dtype {name} .*supported: bool, 8 to 64 bit integers"):
        alone.all_reduce(np.ones(3, dtype))


def test_the_table_has_every_dtype() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = {one for name in dir(torch) if isinstance(one := getattr(torch, name), torch.dtype)}
    assert known == set(dtypes.ALL)
    assert {f"torch.{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)} <= {str(one) for one in dtypes.ALL}
