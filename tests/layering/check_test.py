#!/usr/bin/env python3
"""Plants faults in a small tree, and expects check.py to find each of them and nothing else."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

from check import EXCEPTIONS, main
from tree import names

# A file, a line in it, and what is said of this line, or nothing. Lines of one file stand below each other.
LINES = r"""
core/peer/a.cc | #include "transport/engine.h" | core must not include transport: "transport/engine.h"
core/peer/a.cc |   #  include   "sim/world/world.h"  // why | core must not include sim: "sim/world/world.h"
core/peer/a.cc | #include <hwy/highway.h> | only core/kernels may include Highway: <hwy/highway.h>
core/peer/a.cc | #include <cfenv> | core must not include <cfenv>; see CORE_MAY_USE in tests/layering/includes.py
core/peer/a.cc | #include "../../sim/world.h" | include of "../../sim/world.h": write the path from the top of the tree
core/peer/a.cc | #include "b.h" | include of "b.h": write the path from the top of the tree
core/peer/a.cc | #include SOMETHING | include of a macro: the layers cannot be checked; write the path
core/peer/a.cc | thread_local int counter = 0; | core must be pure: thread_local int counter = 0;
core/peer/a.cc | const char* home = getenv("HOME"); | core must be pure: const char* home = getenv("");
core/peer/a.cc | // no thread_local here, /* nor |
core/peer/a.cc | const char* text = "// volatile"; |
core/base/assert.cc | thread_local LastWords* last = nullptr; |
core/base/assert.cc | thread_local int counter = 0; | core must be pure: thread_local int counter = 0;
core/kernels/a.cc | #include "hwy/foreach_target.h" |
core/kernels/a.cc | #include <cfenv> |
core/wire/a.cc | #include <xxhash.h> |
core/wire/a.cc | #include <vector> |
core/wire/a.cc | #include "core/base/ids.h" |
transport/a.cc | #include "sim/world.h" | transport must not include sim: "sim/world.h"
transport/a.cc | #include "bindings/c/guard.h" | transport must not include c: "bindings/c/guard.h"
transport/a.cc | #include <lockstep.h> | transport must not include c: "lockstep.h"
transport/a.cc | #include <asio.hpp> |
transport/a.cc | #include "core/base/ids.h" |
sim/world/a.cc | #include "transport/engine.h" | sim must not include transport: "transport/engine.h"
sim/world/a.cc | #include "fuzz/door.h" | sim must not include fuzz: "fuzz/door.h"
sim/world/a.cc | #include "tests/support/cluster.h" | sim must not include tests: "tests/support/cluster.h"
sim/world/a.cc | #include "bindings/swarm/swarm.h" | sim must not include swarm: "bindings/swarm/swarm.h"
sim/world/a.cc | #include <unordered_map> |
fuzz/a.cc | #include "transport/engine.h" | fuzz must not include transport: "transport/engine.h"
fuzz/a.cc | #include "transport/tls/records.h" |
fuzz/a.cc | #include "transport/token_file.h" |
fuzz/a.cc | #include "sim/world.h" |
bindings/c/a.cc | #include "sim/world.h" | c must not include sim: "sim/world.h"
bindings/c/a.cc | #include "bindings/swarm/swarm.h" | c must not include swarm: "bindings/swarm/swarm.h"
bindings/c/a.cc | #include "transport/engine.h" |
bindings/c/a.cc | #include "lockstep.h" |
bindings/cli/a.cc | #include "tests/support/cluster.h" | cli must not include tests: "tests/support/cluster.h"
bindings/cli/a.cc | #include "sim/world.h" |
bindings/python/a.cc | #include "core/base/ids.h" | python must not include core: "core/base/ids.h"
bindings/python/a.cc | #include "transport/engine.h" | python must not include transport: "transport/engine.h"
bindings/python/a.cc | #include "core/kernels/training/outer_step.h" |
bindings/python/a.cc | #include "bindings/swarm/swarm.h" |
bindings/swarm/a.cc | #include "tests/support/cluster.h" | swarm must not include tests: "tests/support/cluster.h"
bindings/swarm/a.cc | #include "bindings/c/calls.h" |
bindings/examples/a.c | #include "core/base/ids.h" | examples must not include core: "core/base/ids.h"
bindings/examples/a.c | #include <lockstep.h> |
tests/core/a.cc | #include "sim/world.h" |
sim/checkers/a.h | #include "core/ring/request.h" |
sim/checkers/a.h | #include "core/io/lobby.h" | a checker must not include "core/io/lobby.h": write oracle_* of its own
sim/checkers/a.h | if (ring::describes(request)) return {}; | a checker must not call core/ring or core/kernels
sim/checkers/a.h | if (goes_direct(request)) return {}; | a checker must not call goes_direct(), which decides
sim/checkers/a.h | const auto text = peer::describe(x); | a checker must not call a function of core
sim/checkers/a.h | const ring::Request& request = call.request; |
sim/checkers/a.h | if (oracle::is_direct(request)) return {}; |
sim/checkers/a.h | return "encoded_size(x)";  // or checksum(y) |
sim/checkers/oracle_a.h | const auto bytes = encoded_size(format, 3); |
core/peer/b.cc | // See core/wire/a.cc, wire/a.cc, and x.h of another project: *.h | x.h: there is no such file
core/peer/b.cc | const char* kFile = "c.h";  // as in core/ring/b.h | core/ring/b.h: there is no such file
core/peer/b.cc | /* As in b.cc. */ |
docs/a.md | # A heading, and more |
docs/a.md | [here](#a-heading-and-more) and [there](../core/peer/a.cc), [in](../core) [the web](http://a.b/c.h) |
docs/a.md | [nowhere](#a-heading) | link to #a-heading: docs/a.md has no such heading
docs/a.md | [nowhere](../core/d.h) | link to ../core/d.h: there is no core/d.h
docs/a.md | Why it may not; nothing: it may. | "Why it may not; nothing": say: the reason for a refusal, or nullopt
docs/a.md | One word. Who has it? |
docs/a.md | Who has it may go. | "Who has": the subject is a noun: a peer that, a caller that
docs/a.md | Those are members who have voted. |
core/peer/b.cc | const int a = 0;  // Those who voted | "Those who": the subject is a noun: members that, callers that
x.txt | | =x.txt: no file of the root: see ROOT in tests/layering/documents.py
core/peer/d.h | struct Twice {}; | class Twice is in several folders of core: peer ring
core/ring/d.h | namespace b { class Twice {}; } |
docs/protocol.md | - **Rule 101, a rule.** |
docs/protocol.md | - **Rule 103, a rule.** |
docs/protocol.md | - **Rule 104, a rule.** |
docs/protocol.md | - **Rule 105, a rule.** | no test and no scenario cites rule 105
tests/core/a.cc | // rules 101 and 102 |
sim/scenarios/a.toml | # Rules 103 to 104 |
LOCKSTEP/__init__.py | from . import sim as sim |
LOCKSTEP/__init__.py | from .c import A, f |
LOCKSTEP/__init__.py | __all__ = ["A", "f"] |
LOCKSTEP/types.py | import lockstep.train.b as a | lockstep imports lockstep.train.b; allowed: none
LOCKSTEP/sim/__init__.py | |
LOCKSTEP/sim/b.py | from .. import _lockstep, types |
LOCKSTEP/sim/b.py | import numpy |
LOCKSTEP/train/a.py | from ..sim import b | lockstep.train imports lockstep.sim.b; allowed: lockstep
LOCKSTEP/train/a.py | if TYPE_CHECKING: |
LOCKSTEP/train/a.py |     import lockstep.torch.b | lockstep.train imports lockstep.torch.b; allowed: lockstep
LOCKSTEP/train/a.py | from ..types import Op |
LOCKSTEP/train/b.py | from .codec.b import c |
LOCKSTEP/train/codec/b.py | import torch |
LOCKSTEP/torch/b.py | from ..train.b import d |
LOCKSTEP/torch/b.py | import lockstep.types |
LOCKSTEP/d.py | from . import e |
LOCKSTEP/e.py | def f(): from .g import x |
LOCKSTEP/g.py | if TYPE_CHECKING: import lockstep.d | =lockstep.d, lockstep.e, lockstep.g: import each other in a circle
LOCKSTEP/_h.py | class Twin: x = 1 | a class of this name, too: lockstep.i.Twin
LOCKSTEP/i.py | class Twin: x = 1 |
LOCKSTEP/j.py | from . import _lockstep |
LOCKSTEP/j.py | import lockstep |
LOCKSTEP/j.py | class C(D): |
LOCKSTEP/j.py |     def f(self, other): |
LOCKSTEP/j.py |         super()._f() |
LOCKSTEP/j.py |         return self._x, C._x, lockstep._h, lockstep._lockstep, other.__dict__, other.x_ |
LOCKSTEP/j.py | def g(self, other): |
LOCKSTEP/j.py |     return other._x | _x of another object
LOCKSTEP/j.py |     return self.other._y | _y of another object
LOCKSTEP/c.py | class A: |
LOCKSTEP/c.py |     "With x." |
LOCKSTEP/c.py |     def __init__(self, x, y): pass | lockstep.c.A: the docstring does not name y
LOCKSTEP/c.py |     def g(self, z): "Of z." |
LOCKSTEP/c.py |     def h(self, z): "Of zz." | lockstep.c.A.h: the docstring does not name z
LOCKSTEP/c.py | def f(u, *, v, **w): "Takes v." | lockstep.c.f: the docstring does not name u, w
LOCKSTEP/c.py | def internal(x): pass |
"""
CIRCLE = {
    "core/base/a.h": "",
    "core/peer/a.h": '#include "core/base/a.h"\n',
    "core/ring/a.h": '#include "core/peer/a.h"\n',
}
MEMBERS = """ public:
  Large() : member_1_{1}, member_2_(2) { start(); }
  Large(const Large&) = delete;
  Large& operator=(const Large&) = delete;
  [[nodiscard]] int size() const { return member_1_; }
  void call(int a, const Options& options = {});
  template <typename Input> void step(Input&& input);
  static constexpr int kMost = 3;
  static int instances;
  using Index = std::map<int, int>;
  friend class Other;
  enum class Phase : char { kOpen, kClosed };
  struct Nested { int a = 0; int b; };
"""
PYTHON = "bindings/python/lockstep/"


def cpp_class(members: int, more: str = "") -> str:
    own = "".join(f"  int member_{number}_ = 0;  // a count;\n" for number in range(members))
    return f"namespace a {{\nclass Large final : public Base {{\n{MEMBERS}{own}{more}\n}};\n}}\n"


def cpp_function(lines: int, head: str = "int work(int n) {") -> str:
    return f"{head}\n" + "  n += 1;\n" * (lines - head.count("\n") - 2) + "}\n"


def python_class(attributes: int, methods: int) -> str:
    lines = ["class Large:", "    def __init__(self):", "        self.size: int = 0"]
    lines += [f"        self.attribute_{number}, _ = 0, 1" for number in range(attributes - 1)]
    for number in range(methods - 1):
        lines += [f"    def method_{number}(self):", f"        self.attribute_0 = {number}"]
    return "\n".join(lines) + "\n"


def python_function(lines: int) -> str:
    return "\n".join(["def long():", '    """', *["text"] * 50, '    """', *["    pass"] * (lines - 1)]) + "\n"


SPLIT = "split the class"
LARGE = f"core/peer/c.h:2: a::Large: 21 data members; at most 20: {SPLIT}"
LONG = "81 lines; at most 80: split it"
# The files of a tree, and the complaints.
CASES: list[tuple[dict[str, str], list[str]]] = [
    (CIRCLE, []),
    (
        {"core/base/b.h": '#include "core/ring/a.h"\n', **CIRCLE},
        [
            "core: folders of core include each other in a circle:",
            '  core/base/b.h:1: base includes ring: "core/ring/a.h"',
            '  core/peer/a.h:1: peer includes base: "core/base/a.h"',
            '  core/ring/a.h:1: ring includes peer: "core/peer/a.h"',
        ],
    ),
    ({"core/a.cc": f"// {'ä' * 117}\n", "README.md": f"| {'x' * 200} |\n\n[x]: http://{'x' * 200}\n"}, []),
    ({"core/a.cc": f"// {'x' * 118}\n"}, [f"core/a.cc:1: more than 120 columns: // {'x' * 57}..."]),
    ({"core/a.cc": cpp_function(80) + "const int kTable[] = {\n" + "  1,\n" * 100 + "};\n"}, []),
    ({"core/a.cc": cpp_function(81)}, [f"core/a.cc:1: work: {LONG}"]),
    (
        {"core/a.cc": cpp_function(81, "void Machine::on_input(\n    int n) {")},
        [f"core/a.cc:1: Machine::on_input: {LONG}"],
    ),
    ({"core/a.cc": f"namespace a {{\nclass B {{\n{cpp_function(81)}}};\n}}"}, [f"core/a.cc:3: a::B::work: {LONG}"]),
    ({"core/peer/c.h": cpp_class(20)}, []),
    ({"core/peer/c.h": cpp_class(21)}, [LARGE]),
    ({"core/peer/c.h": cpp_class(19, "  int a_, b_ = 0;")}, [LARGE]),
    *(
        ({"core/peer/c.h": cpp_class(20, f"  {member}")}, [LARGE])
        for member in (
            "std::function<void(int, int)> done_ = [](int, int) { return; };",
            "Other& other_;",
            "int (*callback_)(int);",
            "std::map<int, std::vector<int>> map_{};",
            "enum class Is : char { kLess, kMore } is_ = Is::kLess;",
            "int bits_ : 3;",
            "alignas(64) std::array<int, 3> line_{1, 2, 3};",
            "struct { int a; } pair_;",
            "mutable char text_[4];",
        )
    ),
    (
        {"core/peer/c.h": cpp_class(3), **{f"core/peer/{n}.cc": "namespace a {\nint Large::f() {}\n}" for n in "123"}},
        [f"{LARGE[:27]}3 files with definitions (core/peer/1.cc core/peer/2.cc core/peer/3.cc); at most 2: {SPLIT}"],
    ),
    ({"README.md": "\n" * 151}, ["README.md: 151 lines; at most 150"]),
    (
        {f"sim/{name}.toml": "\n" * 2001 for name in ("cover/plans/a", "cover/plans/b", "corpus/a")},
        ["sim/cover/plans: 4002 lines; at most 4000", "sim/corpus/a.toml: 2001 lines; at most 100"],
    ),
    ({f"{PYTHON}a.py": python_class(20, 30)}, []),
    (
        {f"{PYTHON}a.py": python_class(21, 31)},
        [
            f"{PYTHON}a.py:1: lockstep.a.Large: 31 methods; at most 30",
            f"{PYTHON}a.py:1: lockstep.a.Large: 21 attributes; at most 20",
        ],
    ),
    *(
        (
            {
                f"{PYTHON}types.py": python_class(19, 30),
                f"{PYTHON}a.py": f"{text}\n    def __init__(self):\n        self.own = self.other = 0\n",
            },
            [f"{PYTHON}a.py:2: lockstep.a.Small: 21 attributes; at most 20"],
        )
        for text in (
            "from .types import Large\nclass Small(Large):",
            "from . import types\nclass Small(types.Large):",
            "import lockstep.types\nclass Small(lockstep.types.Large[int]):",
            "import lockstep.types as t\nclass Small(t.Large):",
        )
    ),
    (
        {f"{PYTHON}a.py": "import enum\nclass Few(enum.IntEnum):\n" + "".join(f"    V{n} = {n}\n" for n in range(30))},
        [],
    ),
    ({f"{PYTHON}a.py": python_function(60)}, []),
    ({f"{PYTHON}a.py": python_function(61)}, [f"{PYTHON}a.py:1: lockstep.a.long: 61 lines; at most 60"]),
]


def same(said: object, expected: object) -> None:
    assert said == expected, f"{said}, not {expected}"


class Check(unittest.TestCase):
    """Each test has a tree of its own."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def said(self, files: dict[str, str], *options: str) -> list[str]:
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
            status = main([*options, str(self.root)])
        said = out.getvalue().splitlines()
        assert status == (2 if said[:1] == [f"{self.root} holds no sources"] else int(bool(said))), said
        return said

    def test_lines(self) -> None:
        files: dict[str, str] = {}
        expected = set()
        headers = names(
            "thread mutex chrono random fstream unordered_map ctime atomic sys/socket.h asio.hpp locale time.h"
        )
        of_core = "core must not include <{0}>; see CORE_MAY_USE in tests/layering/includes.py"
        rows = [f"core/base/a.h | #include <{header}> | {of_core.format(header)}" for header in headers]
        for row in [*LINES.strip().splitlines(), *rows]:
            file, line, text = (part.removeprefix(" ").rstrip() for part in (*row.split("|"), "")[:3])
            file = file.replace("LOCKSTEP/", PYTHON)
            files[file] = files.get(file, "") + f"{line}\n"
            if text:
                expected.add(text[1:] if text[0] == "=" else f"{file}:{files[file].count(chr(10))}: {text}")
        said = self.said(files)
        assert (set(said), len(said)) == (expected, len(expected)), sorted(set(said) ^ expected)

    def test_cases(self) -> None:
        for number, (files, expected) in enumerate(CASES):
            with self.subTest(number=number), tempfile.TemporaryDirectory() as folder:
                self.root = Path(folder)
                same(self.said({"core/wire/x.h": "", **files}), expected)

    def test_the_list_only_shrinks(self) -> None:
        file, line, entry = "core/peer/c.h", "// " + "x" * 118 + "\n", "columns core/peer/c.h"
        long = f"{file}:1: more than 120 columns: // {'x' * 57}..."
        stale = "in the list: tests/layering/check.py --shrink"
        same(self.said({file: line, EXCEPTIONS: f"# The list.\n1 {entry}\n"}), [])
        same(self.said({file: line * 2}), [f"{long} (1 in the list)", f"{long.replace(':1', ':2')} (1 in the list)"])
        members = "members core/peer/c.h a::Large"
        listed = {EXCEPTIONS: f"# The list.\n3 {entry}\n22 {members}\n"}
        same(
            self.said({file: cpp_class(21) + line, **listed}),
            [f"{EXCEPTIONS}: {entry}: 1, 3 {stale}", f"{EXCEPTIONS}: {members}: 21, 22 {stale}"],
        )
        same(self.said({}, "--shrink"), [])
        same((self.root / EXCEPTIONS).read_text(), f"# The list.\n1 {entry}\n21 {members}\n")
        self.said({file: cpp_class(22)}, "--shrink")
        same((self.root / EXCEPTIONS).read_text(), f"# The list.\n21 {members}\n")
        same(self.said({}), [f"{LARGE.replace('21', '22')} (21 in the list)"])

    def test_a_tree_without_sources_is_a_mistake(self) -> None:
        self.said({"README.md": ""})
        assert self.said({}) == [f"{self.root} holds no sources"]


if __name__ == "__main__":
    unittest.main()
