"""Names of an earlier version are those of now, with a warning."""

from __future__ import annotations

import importlib

import pytest

RENAMED = [
    ("lockstep", "Strategy", "SyncStrategy"),
    ("lockstep.types", "Strategy", "SyncStrategy"),
    ("lockstep.types", "StrategyName", "SyncStrategyName"),
    ("lockstep.torch", "Options", "GroupOptions"),
]


@pytest.mark.parametrize(("module", "former", "present"), RENAMED)
def test_former_names_warn(module: str, former: str, present: str) -> None:
    found = importlib.import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{former} is called {module}\.{present} now"):
        assert getattr(found, former) is getattr(found, present)
    assert former not in found.__all__


@pytest.mark.parametrize("module", sorted({module for module, _, _ in RENAMED}))
def test_names_that_never_were_are_none(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nothing'"):
        assert importlib.import_module(module).Nothing
