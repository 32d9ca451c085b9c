"""Names of an earlier version, which still work and warn."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping


def renamed(module: str, name: str, present: Mapping[str, str]) -> object:
    """What a name of a module stands for that it does not have, for the module's __getattr__().

    present: the names of now by those of an earlier version.
    Warns (DeprecationWarning). Raises AttributeError for a name that never was.
    """
    if name not in present:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(
        f"{module}.{name} is called {module}.{present[name]} now; the former name ends with the next version",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(sys.modules[module], present[name])
