"""How a model is cut into fragments that a streaming strategy reduces one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Literal

import torch

from .._arguments import shown
from .checked import whole_number
from .sharding import local_of

Cut = Callable[[Any], Sequence[Sequence[str]]]
"""Gives for a model the names of the parameters of each fragment; every trained parameter is in exactly one."""


def by_block(layers: int = 3, pattern: Literal["strided", "sequential"] = "strided", blocks: str | None = None) -> Cut:
    """Fragments of whole blocks, such as the layers of a transformer; all other parameters are a fragment of their own.

    layers: largest number of blocks of a fragment.
    pattern: "strided": fragment i of n has the blocks i, i + n, i + 2n, ...; "sequential": blocks that follow each
        other.
    blocks: name of the torch.nn.ModuleList or Sequential in the model; None for the longest.
    Raises ValueError.
    """
    layers = whole_number(layers, "layers", 1)
    if pattern not in ("strided", "sequential"):
        raise ValueError(f"pattern is {shown(pattern)}; allowed: 'strided', 'sequential'")

    def cut(model: Any) -> list[list[str]]:
        prefix, container = _blocks_of(model, blocks)
        in_block = [
            [f"{prefix}{name}.{parameter}" for parameter, _ in block.named_parameters()]
            for name, block in container.named_children()
        ]
        count = -(-len(in_block) // layers)
        if pattern == "strided":
            groups = [in_block[number::count] for number in range(count)]
        else:
            groups = [in_block[begin : begin + layers] for begin in range(0, len(in_block), layers)]
        fragments = [[name for block in group for name in block] for group in groups]
        covered = {name for fragment in fragments for name in fragment}
        rest = [name for name, _ in model.named_parameters() if name not in covered]
        return [rest, *fragments] if rest else fragments

    return cut


def by_bytes(limit: int) -> Cut:
    """Fragments of parameters that follow each other, of at most `limit` bytes as float32.

    A parameter that is larger is a fragment of its own.

    Raises ValueError.
    """
    limit = whole_number(limit, "limit", 1)

    def cut(model: Any) -> list[list[str]]:
        fragments: list[list[str]] = []
        room = 0
        for name, parameter in model.named_parameters():
            size = 4 * local_of(parameter).numel()
            if size > room:
                fragments.append([])
                room = limit
            fragments[-1].append(name)
            room -= size
        return fragments

    return cut


def whole(model: Any) -> list[list[str]]:
    """One fragment of all parameters."""
    return [[name for name, _ in model.named_parameters()]]


def fragments_of(cut: Cut, model: Any, named: Sequence[tuple[str, Any]]) -> list[list[tuple[str, Any]]]:
    """The trained parameters of each fragment that has some. Raises ValueError if one is in no fragment, or in two."""
    allowed = "allowed: by_block(), by_bytes(), or a function of the model that returns lists of parameter names"
    if not callable(cut):
        raise TypeError(f"fragments is {shown(cut)}; {allowed}")
    functions_of_cuts: tuple[object, ...] = (by_block, by_bytes)
    lists = None if cut in functions_of_cuts else cut(model)
    if not isinstance(lists, (list, tuple)) or not all(isinstance(names, (list, tuple)) for names in lists):
        raise TypeError(f"fragments returns {type(lists).__name__}; {allowed}")
    every = [name for names in lists for name in names]
    twice = sorted({name for name in every if every.count(name) > 1})
    if twice:
        raise ValueError(f"two fragments have the parameters {', '.join(twice)}; allowed: each in exactly one")
    trained = dict(named)
    fragments = []
    for names in lists:
        fragment = [(name, trained.pop(name)) for name in names if name in trained]
        if fragment:
            fragments.append(fragment)
    if trained:
        raise ValueError(f"no fragment has the parameters {', '.join(trained)}; allowed: each in exactly one")
    return fragments


def _blocks_of(model: Any, name: str | None) -> tuple[str, Any]:
    """The container of the blocks, and what the names of its parameters begin with."""
    kinds = (torch.nn.ModuleList, torch.nn.Sequential)
    containers = {
        prefix: module
        for prefix, module in model.named_modules()
        if isinstance(module, kinds) and name in (None, prefix) and len(module)
    }
    if not containers:
        wanted = "" if name is None else f" named {name!r}"
        raise ValueError(
            f"the model has no ModuleList or Sequential{wanted}; name one with `blocks`, or use by_bytes()"
        )
    prefix, container = max(containers.items(), key=lambda item: len(item[1]))
    return f"{prefix}." if prefix else "", container
