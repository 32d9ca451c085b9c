"""Outer optimizers of lockstep.torch: every bit of a step, on every CPU."""

from __future__ import annotations

import dataclasses
import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from lockstep.torch import SGD, Nesterov, OuterOptimizer  # noqa: E402

COUNT = (1 << 16) + 77  # more than one pass


def numbers(seed: int, count: int = COUNT) -> Any:
    """The same floats on every machine: random bits, of magnitudes from denormal to 2**15."""
    words = np.random.Generator(np.random.PCG64(seed)).integers(0, 1 << 32, count, np.uint64).astype(np.uint32)
    words = (words & np.uint32(0x807FFFFF)) | ((words >> np.uint32(23)) % np.uint32(143)) << np.uint32(23)
    return words.view(np.float32).copy()


def digest(*arrays: Any) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def rounded(value: Fraction) -> np.float32:
    """A fraction as the nearest float32, ties to even; a double would round twice."""
    if value == 0:
        return np.float32(0)
    guess = np.float32(float(value))
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    return min(near, key=lambda one: (abs(Fraction(float(one)) - value), int(one.view(np.uint32)) & 1))


def test_each_operation_of_nesterov_is_rounded_once() -> None:
    theta, v, g = (numbers(seed, 300) for seed in (1, 2, 3))
    optimizer = Nesterov(0.7, 0.9)
    lr, mu = Fraction(float(np.float32(0.7))), Fraction(float(np.float32(0.9)))
    expected = []
    for old, speed, gradient in zip(theta.tolist(), v.tolist(), g.tolist()):
        new = rounded(Fraction(float(rounded(mu * Fraction(speed)))) + Fraction(gradient))
        ahead = rounded(Fraction(gradient) + Fraction(float(rounded(mu * Fraction(float(new))))))
        expected.append(rounded(Fraction(old) - Fraction(float(rounded(lr * Fraction(float(ahead)))))))
    optimizer.step(theta, v, g)
    assert theta.tolist() == [float(one) for one in expected]


@pytest.mark.parametrize("flush", [False, True])
def test_steps_give_the_recorded_bits(flush: bool) -> None:
    """Recorded on x86-64; also where the thread flushes denormal numbers to zero."""
    theta, v = numbers(1), numbers(2)
    torch.set_flush_denormal(flush)
    try:
        for round_ in range(3):
            Nesterov(0.7, 0.9).step(theta, v, numbers(3 + round_))
        SGD(0.3).step(theta, None, numbers(9))
    finally:
        torch.set_flush_denormal(False)
    assert digest(theta, v) == "ddef6faad85e5f37"


def test_a_plain_step_of_rate_one_is_a_difference() -> None:
    theta, gradient = np.float32([3, 5, -1]), np.float32([1, 7, -1])
    SGD().step(theta, None, gradient)
    assert theta.tolist() == [2, -2, 0]


def test_nesterov_goes_downhill_as_torch_does() -> None:
    """Equal up to rounding."""
    theta, v = np.float32([1, -2, 3]), np.zeros(3, np.float32)
    parameter = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    torchs = torch.optim.SGD([parameter], lr=0.5, momentum=0.8, nesterov=True)
    for _ in range(5):
        parameter.grad = 0.3 * parameter.detach()
        gradient = np.float32(0.3) * theta
        torchs.step()
        Nesterov(0.5, 0.8).step(theta, v, gradient)
        np.testing.assert_allclose(theta, parameter.detach().numpy(), rtol=1e-5)


def test_arguments_are_checked() -> None:
    for rate in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="lr is"):
            SGD(rate)
        with pytest.raises(ValueError, match="lr is"):
            Nesterov(rate)
    for momentum in (-0.1, 1.0):
        with pytest.raises(ValueError, match="momentum is"):
            Nesterov(0.7, momentum)
    with pytest.raises(ValueError, match="momentum is None"):
        Nesterov().step(np.zeros(3, np.float32), None, np.zeros(3, np.float32))
    with pytest.raises(dataclasses.FrozenInstanceError):
        SGD().lr = 2  # type: ignore[misc]


def test_settings_and_momentum() -> None:
    assert SGD(0.5).settings() == {"outer_lr": 0.5}
    assert Nesterov(0.5, 0.25).settings() == {"outer_lr": 0.5, "outer_momentum": 0.25}
    assert (SGD().has_momentum, Nesterov().has_momentum) == (False, True)
    with pytest.raises(TypeError):
        OuterOptimizer()  # type: ignore[abstract]
