"""Includes point one way: python -> c -> transport -> core <- sim <- fuzz.

swarm, which python sees, stands on c and on sim; python also sees core/kernels/training, the per-element work of its
strategies; fuzz also sees transport/tls, for its decoder of records, and the parser of token files; the command line
and the tests see everything.
Core includes only itself, the harmless part of the C++ standard library, xxHash, and (under core/kernels) Highway, and
has no other way to the outside world (rule 1 of docs/protocol.md). Folders of core, and those of sim, do not include
each other in a circle. Checkers do not call what they judge: a checker that does sees no mistake of it (sim/README.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tree import Finding, Tree, groups_in_circles, names

PARTS = names("core transport sim fuzz tests")
BINDINGS = names("c cli python examples swarm")
SEES = {
    "core": "core",
    "transport": "core transport",
    "sim": "core sim",
    "fuzz": "core sim fuzz",
    "c": "core transport c",
    "swarm": "core transport c sim swarm",
    "python": "c swarm python",
    "examples": "c examples",
    "cli": "core transport sim c cli examples swarm",
}
ALSO = {"fuzz": ("transport/tls/", "transport/token_file.h"), "python": ("core/kernels/training/",)}
# Values, containers in order, arithmetic. No clock, thread, entropy, file, stream, locale or signal; no unordered
# container: their order differs between libraries.
CORE_MAY_USE = names("""
    algorithm any array bit bitset cassert cctype cerrno cfloat charconv climits cmath compare concepts cstdarg cstddef
    cstdint cstdio cstdlib cstring deque exception forward_list functional initializer_list iterator limits list map
    memory memory_resource new numbers numeric optional queue ranges ratio set source_location span stack stdexcept
    string string_view tuple type_traits typeindex typeinfo utility valarray variant vector version""")
IMPURE = re.compile(
    r"(?<!\w)(thread_local|volatile|getenv|rand|srand|__DATE__|__TIME__|__asm__|asm)(?!\w)"
    r"|__builtin_(readcyclecounter|ia32_rdtsc)"
)
LAST_WORDS = ("core/base/assert.cc", "thread_local LastWords*")  # said when all is over

# What checkers may include: data, and the limits that the README of sim declares.
DATA = names("""
    base/assert base/data_type base/holdings base/ids base/rng base/time buffers/buffer_ref coordinator/coordinator
    io/identity kernels/formats/format peer/effect peer/options peer/peer ring/request trace/event wire/limits
    wire/link_reader wire/message""")
# Functions of these headers, and of what they include, that decide how a call is cut, travels or is computed.
DECIDING = names("""
    algorithm_of bits_of block_elements checksum digest digest_of direct_room encoded_size format_of_chunk goes_direct
    goes_whole has_phase highest_common is_weight layout_of narrow owner_of_whole part_of reduces reduces_in_place
    result_hash scratch_bytes staging_bytes total_weight validate_encoding widen""")
CALLS = re.compile(
    r"(?<![\w:])(?P<library>ring|reference|formats|kernels)::"
    r"|(?<!\w)(?P<core>peer|wire|state|lockstep)::[a-z]\w*\("
    rf"|(?<![\w.>])(?P<deciding>{'|'.join(DECIDING)})\("
)


def part_of(path: str) -> str:
    """The part of the tree that a path belongs to; "" for a path outside."""
    first, _, rest = path.partition("/")
    if first == "bindings":
        first = rest.partition("/")[0]
        return first if first in BINDINGS and "/" in rest else ""
    return "c" if path == "lockstep.h" else first if first in PARTS and rest else ""


def wrong_include(file: str, mark: str, path: str) -> str:
    me, other = part_of(file), part_of(path)
    if not mark:
        return "include of a macro: the layers cannot be checked; write the path"
    is_xxhash = path in ("xxhash.h", "xxh3.h")
    is_bare = mark == '"' and not other and me not in ("examples", "tests") and "/" not in path and not is_xxhash
    if is_bare or re.search(r"(^|/)\.\.?(/|$)", path):
        return f'include of "{path}": write the path from the top of the tree'
    if other and me in SEES and other not in SEES[me].split() and not path.startswith(ALSO.get(me, ())):
        return f'{me} must not include {other}: "{path}"'
    if me == "core" and not other and not is_xxhash:
        in_kernels = file.startswith("core/kernels/")
        if path.startswith("hwy/"):
            return "" if in_kernels else f"only core/kernels may include Highway: <{path}>"
        if path not in CORE_MAY_USE and not (path == "cfenv" and in_kernels):  # rounding must be known in kernels
            return f"core must not include <{path}>; see CORE_MAY_USE in tests/layering/includes.py"
    return ""


def layers(tree: Tree) -> Iterator[Finding]:
    arrows: dict[str, dict[str, set[str]]] = {"core": {}, "sim": {}}
    places: dict[tuple[str, str, str], str] = {}
    for file in tree.under(*PARTS, "bindings"):
        for line, mark, path in tree.includes(file):
            if text := wrong_include(file, mark, path):
                yield Finding("include", f"{file} {path}", f"{file}:{line}", text)
            (part, _, start), (other, _, end) = file.partition("/"), path.partition("/")
            start, end = start.partition("/")[0], end.partition("/")[0]
            if part in arrows and other == part and start != end:
                arrows[part].setdefault(start, set()).add(end)
                places.setdefault((part, start, end), f'{file}:{line}: {start} includes {end}: "{path}"')
    for part, of_part in arrows.items():
        for group in groups_in_circles(of_part):
            inside = [place for arrow, place in places.items() if arrow[0] == part and {*arrow[1:]} <= {*group}]
            text = f"folders of {part} include each other in a circle:"
            yield Finding("circle", f"{part}: {' '.join(group)}", part, "\n  ".join([text, *inside]))


def purity(tree: Tree) -> Iterator[Finding]:
    for file in tree.under("core"):
        for number, line in enumerate(tree.code(file).splitlines(), 1):
            found = IMPURE.search(line)
            if found and not (file == LAST_WORDS[0] and line.startswith(LAST_WORDS[1])):
                yield Finding("purity", f"{file} {found[0]}", f"{file}:{number}", f"core must be pure: {line.strip()}")


def checkers(tree: Tree) -> Iterator[Finding]:
    for file in tree.under("sim/checkers"):
        for line, mark, path in tree.includes(file):
            if mark == '"' and path.startswith("core/") and path[5:].removesuffix(".h") not in DATA:
                text = f'a checker must not include "{path}": write oracle_* of its own'
                yield Finding("checker", f"{file} {path}", f"{file}:{line}", text)
        for number, text in enumerate(tree.code(file).splitlines(), 1):
            code = re.sub(r"oracle::|ring::(Request|Tensor|Block|Watched)", "", text)  # stated by a caller
            for call in CALLS.finditer(code):
                if call["deciding"] and "/oracle_" in file:
                    continue
                what = f"{call['deciding']}(), which decides" if call["deciding"] else "a function of core"
                what = "core/ring or core/kernels" if call["library"] else what
                yield Finding("checker", f"{file} {call[0]}", f"{file}:{number}", f"a checker must not call {what}")
