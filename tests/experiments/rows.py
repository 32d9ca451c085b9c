"""Strategies that both tables measure, with the hyper-parameters of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiment import REFERENCE, Make, Row
from lockstep.torch import (
    DESLOC,
    DataParallel,
    DiLoCo,
    FedAvg,
    OuterOptimizer,
    SketchedSGD,
    SparseLoCo,
    StreamingDiLoCo,
    Wire,
)

INNER_STEPS = 20
FOUR_BITS = Wire("e3m0", "int8")
FED_BACK = Wire("e3m0", "int8", error_feedback=True)


def data_parallel() -> Make:
    return lambda run, model, inner: DataParallel(run, model, inner)


def fed_avg() -> Make:
    return lambda run, model, inner: FedAvg(run, model, inner, inner_steps=INNER_STEPS)


def desloc(moments: Mapping[str, int]) -> Make:
    return lambda run, model, inner: DESLOC(run, model, inner, inner_steps=INNER_STEPS, moments=moments)


def sketched(ratio: float) -> Make:
    return lambda run, model, inner: SketchedSGD(run, model, inner, inner_steps=INNER_STEPS, ratio=ratio)


def sparse_loco(density: float) -> Make:
    return lambda run, model, inner: SparseLoCo(
        run, model, inner, inner_steps=INNER_STEPS, density=density, outer_lr=0.7
    )


def diloco(outer: OuterOptimizer, **options: Any) -> Make:
    return lambda run, model, inner: DiLoCo(run, model, inner, inner_steps=INNER_STEPS, outer=outer, **options)


def streaming(outer: OuterOptimizer, fragments: Any, wire: Any) -> Make:
    return lambda run, model, inner: StreamingDiLoCo(
        run, model, inner, inner_steps=INNER_STEPS, fragments=fragments, tau=2, alpha=0.5, outer=outer, wire=wire
    )


def rows_without_outer() -> Sequence[Row]:
    return [
        Row(REFERENCE, "data parallel", data_parallel()),
        Row("alone", "one worker alone", data_parallel(), peers=1),
        Row("fed-avg", "FedAvg", fed_avg(), weighs=True),
        Row("des-loc", "DES-LOC, moments every 3rd and 6th time", desloc({"exp_avg": 3, "exp_avg_sq": 6})),
        Row("des-loc-equal", "DES-LOC, moments every 3rd time", desloc({"exp_avg": 3, "exp_avg_sq": 3})),
    ]


def rows_of_diloco(outer: OuterOptimizer) -> Sequence[Row]:
    return [
        Row("diloco", f"DiLoCo {outer_words(outer)}", diloco(outer)),
        Row("diloco-int8", "DiLoCo, int8", diloco(outer, wire="int8")),
        Row("diloco-4-bit", "DiLoCo, e3m0 up, int8 down", diloco(outer, wire=FOUR_BITS)),
        Row("diloco-4-bit-feedback", "DiLoCo, the same with error feedback", diloco(outer, wire=FED_BACK)),
    ]


def rows_of_overlap(outer: OuterOptimizer) -> Sequence[Row]:
    return [
        Row("eager", f"DiLoCo, eager {outer_words(outer)}", diloco(outer, overlap="eager")),
        Row("outer", f"DiLoCo, a round late {outer_words(outer)}", diloco(outer, overlap="outer")),
    ]


def rows_of_streaming(outer: OuterOptimizer, fragments: Any) -> Sequence[Row]:
    return [
        Row("streaming", f"Streaming {outer_words(outer)}, e3m0 up, int8 down", streaming(outer, fragments, FOUR_BITS)),
        Row("streaming-4-bit", "Streaming, e3m0 both ways", streaming(outer, fragments, "e3m0")),
    ]


def rows_of_few_elements(density: float, ratio: float) -> Sequence[Row]:
    return [
        Row("sparse-loco", f"SparseLoCo, 1 of {1 / density:g} elements, 2 bits", sparse_loco(density)),
        Row("sketched", f"SketchedSGD, {ratio:g} times smaller", sketched(ratio)),
    ]


def outer_words(outer: OuterOptimizer) -> str:
    return f"({', '.join(f'{value:g}' for value in outer.settings().values())})"
