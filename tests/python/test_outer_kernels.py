"""The kernels of outer steps, from Python: what they compute, and what they refuse."""

from __future__ import annotations

from typing import Any

import lockstep
import numpy as np
import pytest
from lockstep import _lockstep as native

COUNT = 5000


def numbers(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(COUNT, np.float32)


def test_difference_rounds_once() -> None:
    old, now, into = numbers(1), numbers(2), np.empty(COUNT, np.float32)
    native.difference(into, old, now)
    assert into.tobytes() == (old - now).tobytes()


def test_difference_of_float16_begins_with_what_the_model_held() -> None:
    old, now, into = numbers(1), numbers(2).astype(np.float16), np.empty(COUNT, np.float32)
    native.difference(into, old, now)
    assert into.tobytes() == (old.astype(np.float16).astype(np.float32) - now.astype(np.float32)).tobytes()


def test_sgd_rounds_each_operation_and_fills_the_model() -> None:
    theta, gradient, model = numbers(1), numbers(2), np.empty((COUNT // 10, 10), np.float32)
    expected = theta - np.float32(0.7) * gradient
    native.sgd_step(theta, gradient, 0.7, model)
    assert theta.tobytes() == expected.tobytes() == model.tobytes()
    native.sgd_step(theta, gradient, 0.7, None)
    assert theta.tobytes() == (expected - np.float32(0.7) * gradient).tobytes()


def test_nesterov_rounds_each_operation_and_fills_the_model() -> None:
    theta, momentum, gradient, model = numbers(1), numbers(2), numbers(3), np.empty(COUNT, np.float16)
    lr, mu = np.float32(0.7), np.float32(0.9)
    speed = mu * momentum + gradient
    expected = theta - lr * (gradient + mu * speed)
    native.nesterov_step(theta, momentum, gradient, 0.7, 0.9, model)
    assert (theta.tobytes(), momentum.tobytes()) == (expected.tobytes(), speed.tobytes())
    assert model.tobytes() == expected.astype(np.float16).tobytes()


def test_hold_rounds_to_the_type_of_the_model() -> None:
    values, model = numbers(1), np.empty(COUNT, np.float16)
    native.hold(model, values)
    assert model.tobytes() == values.astype(np.float16).tobytes()


def test_mix_rounds_each_operation() -> None:
    model, shared = numbers(1), numbers(2)
    expected = np.float32(0.3) * model + np.float32(0.7) * shared
    native.mix(model, shared, 0.3, 0.7)
    assert model.tobytes() == expected.tobytes()


def test_arrays_are_checked() -> None:
    one, two, wide = np.zeros(1, np.float32), np.zeros(2, np.float32), np.zeros(1)
    for call, text in [
        (lambda: native.difference(one, two, one), "old has 2 elements, into has 1"),
        (lambda: native.difference(one, one, two), "now has 2 elements, into has 1"),
        (lambda: native.difference(wide, one, one), "into is of float64; allowed: float32"),
        (lambda: native.difference(one, one, wide), "now is of float64; allowed: float32, bfloat16, float16"),
        (lambda: native.sgd_step(one, two, 1.0, None), "gradient has 2 elements, theta has 1"),
        (lambda: native.nesterov_step(one, two, one, 1.0, 0.9, None), "momentum has 2 elements, theta has 1"),
        (lambda: native.mix(one, two, 0.5, 0.5), "model has 1 elements, shared has 2"),
        (lambda: native.hold(two, one), "model has 2 elements, values has 1"),
    ]:
        with pytest.raises(lockstep.InvalidArgument, match=text):
            call()
