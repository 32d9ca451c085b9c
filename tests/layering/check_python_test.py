#!/usr/bin/env python3
"""Plants violations in a small package, and expects check_python.py to find each of them and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECK = Path(__file__).with_name("check_python.py")
LIST = "tests/layering/python_exceptions.txt"


def class_of(attributes: int, methods: int, head: str = "class Large:") -> str:
    """A class with so many attributes and methods, the constructor included."""
    lines = [head, "    def __init__(self):", "        self.size: int = 0"]
    lines += [f"        self.attribute_{number}, _ = 0, 1" for number in range(attributes - 1)]
    for number in range(methods - 1):
        lines += [f"    def method_{number}(self):", f"        self.attribute_0 = {number}"]
    return "\n".join(lines) + "\n"


def function_of(lines: int, docstring: int = 0) -> str:
    text = ['    """' + "\n" * (docstring - 1) + '"""'] if docstring else []
    return "\n".join(["def long():", *text, *["    pass"] * (lines - 1)]) + "\n"


class CheckPython(unittest.TestCase):
    """Each test has a tree of its own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Path(folder.name)
        for name in ("__init__", "types", "sim/__init__", "train/__init__", "train/codec/__init__", "torch/__init__"):
            self.write(f"{name}.py", '"""A module."""\n')
        (self.tree / LIST).parent.mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        path = self.tree / "bindings/python/lockstep" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, CHECK, *options, self.tree], capture_output=True, text=True, check=False)

    def accepts(self) -> None:
        done = self.check()
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

    def refuses(self, *complaints: str) -> None:
        done = self.check()
        assert (done.returncode, done.stdout.splitlines()) == (1, list(complaints)), done.stdout + done.stderr

    def listed(self, *entries: str) -> None:
        (self.tree / LIST).write_text("".join(f"{line}\n" for line in ("# The list.", *entries)))

    def test_arrows_that_are_allowed(self) -> None:
        self.write("__init__.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import sim as sim\n")
        self.write("sim/a.py", "from .. import _lockstep, types\nimport numpy\n")
        self.write("train/a.py", "from ..types import Op\nfrom .. import _lockstep as native\nfrom .codec.b import c\n")
        self.write("train/codec/b.py", "import torch\nfrom ...types import Op\n")
        self.write("torch/a.py", "from ..train import a\nfrom ..train.a import d\nimport lockstep.types\n")
        self.accepts()

    def test_arrows_the_wrong_way(self) -> None:
        train = "bindings/python/lockstep/train/a.py"
        for text, imported in (
            ("from ..torch import Options", "lockstep.torch"),
            ("def f():\n    import lockstep.torch", "lockstep.torch"),
            ("if TYPE_CHECKING:\n    from ..torch.b import Options", "lockstep.torch.b"),
            ("from .. import sim", "lockstep.sim"),
            ("from ..sim import b", "lockstep.sim.b"),
        ):
            self.write("torch/b.py", "")
            self.write("sim/b.py", "")
            self.write("train/a.py", text)
            line = text.count("\n") + 1
            self.refuses(f"{train}:{line}: lockstep.train imports {imported}; allowed: lockstep")
        self.write("train/a.py", "")
        self.write("types.py", "import lockstep.train.a as a\n")
        self.refuses("bindings/python/lockstep/types.py:1: lockstep imports lockstep.train.a; allowed: none")

    def test_circles(self) -> None:
        self.write("a.py", "from . import b\n")
        self.write("b.py", "def f():\n    from .c import d\n")
        self.write("c.py", "if TYPE_CHECKING:\n    import lockstep.a\n")
        self.write("d.py", "from .a import x\n")
        self.refuses("lockstep.a, lockstep.b, lockstep.c: import each other in a circle")
        self.write("c.py", "from . import _lockstep\n")
        self.write("__init__.py", "from .a import x\nfrom .d import y\n")
        self.accepts()

    def test_sizes_of_classes(self) -> None:
        self.write("a.py", class_of(20, 30))
        self.accepts()
        self.write("a.py", class_of(21, 30))
        self.refuses("bindings/python/lockstep/a.py:1: lockstep.a.Large: 21 attributes; at most 20")
        self.write("a.py", class_of(20, 31))
        self.refuses("bindings/python/lockstep/a.py:1: lockstep.a.Large: 31 methods; at most 30")
        self.write("a.py", class_of(20, 3, "class Large:\n    more: int = 0"))
        self.refuses("bindings/python/lockstep/a.py:1: lockstep.a.Large: 21 attributes; at most 20")

    def test_members_of_bases_count(self) -> None:
        self.write("types.py", class_of(19, 30))
        own = "\n    def __init__(self):\n        self.own = self.other = 0\n"
        for text in (
            f"from .types import Large\nclass Small(Large):{own}",
            f"from . import types\nclass Small(types.Large):{own}",
            f"import lockstep.types\nclass Small(lockstep.types.Large[int]):{own}",
            f"import lockstep.types as t\nclass Small(t.Large):{own}",
        ):
            self.write("a.py", text)
            self.refuses("bindings/python/lockstep/a.py:2: lockstep.a.Small: 21 attributes; at most 20")

    def test_values_of_an_enumeration_are_no_attributes(self) -> None:
        values = "".join(f"    VALUE_{number} = {number}\n" for number in range(30))
        self.write("a.py", f"import enum\nclass Values(enum.IntEnum):\n{values}")
        self.accepts()

    def test_lengths_of_functions(self) -> None:
        self.write("a.py", function_of(60, docstring=50))
        self.accepts()
        self.write("a.py", function_of(61, docstring=50))
        self.refuses("bindings/python/lockstep/a.py:1: lockstep.a.long: 61 lines; at most 60")

    def test_private_attributes(self) -> None:
        self.write("_b.py", "")
        self.write(
            "a.py",
            "from . import _lockstep\nimport lockstep\n"
            "class A(B):\n"
            "    def f(self, other):\n"
            "        super()._f()\n"
            "        return self._x, A._x, lockstep._b, lockstep._lockstep, other.__dict__, other.x_\n"
            "    @classmethod\n"
            "    def g(cls):\n"
            "        return cls._x\n",
        )
        self.accepts()
        self.write("a.py", "def f(other):\n    return other._x + other._x\ndef g(self):\n    return self.other._y\n")
        self.refuses(
            "bindings/python/lockstep/a.py:2: lockstep.a _x: 2 uses of another object; at most 0",
            "bindings/python/lockstep/a.py:4: lockstep.a _y: 1 uses of another object; at most 0",
        )

    def test_the_list_only_shrinks(self) -> None:
        self.write("a.py", class_of(22, 3) + function_of(70) + "def f(a):\n    a._x = a._x\n")
        self.listed("22 attributes lockstep.a.Large", "70 lines lockstep.a.long", "2 uses lockstep.a _x")
        self.accepts()
        self.write("a.py", class_of(21, 3) + function_of(71) + "def f(a):\n    a._x = 1\n")
        line = len(class_of(21, 3).splitlines()) + 1
        long = f"bindings/python/lockstep/a.py:{line}: lockstep.a.long: 71 lines; at most 70"
        end = "in the list: run tests/layering/check_python.py --shrink"
        self.refuses(long, f"attributes lockstep.a.Large: 21, 22 {end}", f"uses lockstep.a _x: 1, 2 {end}")
        assert self.check("--shrink").returncode == 0
        self.refuses(long)
        entries = ["21 attributes lockstep.a.Large", "70 lines lockstep.a.long", "1 uses lockstep.a _x"]
        assert (self.tree / LIST).read_text().splitlines() == ["# The list.", *entries]
        self.write("a.py", "")
        self.check("--shrink")
        assert (self.tree / LIST).read_text() == "# The list.\n"
        self.accepts()

    def test_a_tree_without_the_package_is_a_mistake(self) -> None:
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([sys.executable, CHECK, empty], capture_output=True, check=False)
        assert done.returncode == 2


if __name__ == "__main__":
    unittest.main()
