"""Peers whose shared states differ: what they hash, and the error that says who differs where."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .. import errors
from ..communicator import Communicator
from ..errors import Error
from ..types import PeerId

_DIGEST = 8  # bytes


class Desync(errors.Desync):
    """The shared states of the peers differ. All contributors of the reduction that has found it raise it.

    Nothing of that reduction is applied. Enter the `with` block of the strategy again on all peers: the state of the
    most peers wins, and is copied to the others. Or end the peers that differ, and let them connect anew, as newcomers.

    name: the first entry of the shared state that differs, such as "parameters/2.weight" or "momentum/0.bias".
    hashes: what each peer has there, as 16 hex digits; empty if a peer was lost before all had told theirs.
    outer_step: outer steps that the run had made.
    differs: whether this peer's entry is not that of most peers (of the first of them, if several are as frequent).
    """

    def __init__(self, text: str, name: str, hashes: Mapping[PeerId, str], outer_step: int, differs: bool) -> None:
        super().__init__(text)
        self.name = name
        self.hashes = dict(hashes)
        self.outer_step = outer_step
        self.differs = differs


def desync_of(run: Communicator, shared: Mapping[str, Any], difference: str, outer_step: int, tag: int) -> Desync:
    """The error of this peer, after all have told each other the hashes of each entry.

    shared: the entries by name, in the same order on all peers. difference: what the library says.
    """
    names = list(shared)
    own = np.frombuffer(b"".join(map(_digest_of, shared.values())), np.uint8)
    remedy = "enter the `with` block again on all peers, or let the peers that differ connect anew, as newcomers"
    try:
        result = run.all_gather(own, tag=tag)
    except Error:  # somebody is lost, just now
        name = difference.rpartition("(")[2].partition(" ")[0]
        return Desync(f"after outer step {outer_step}, {difference}; {remedy}", name, {}, outer_step, False)
    rows = result.output.reshape(-1, len(names), _DIGEST)
    place = next((at for at in range(len(names)) if len({row[at].tobytes() for row in rows}) > 1), 0)
    hashes = {peer: row[place].tobytes().hex() for peer, row in zip(result.contributors, rows)}
    counts = list(hashes.values())
    common = max(counts, key=counts.count)
    return Desync(
        f"after outer step {outer_step} the shared states differ, first in {names[place]}: {_told(hashes)}; {remedy}",
        names[place],
        hashes,
        outer_step,
        hashes[run.id] != common,
    )


def _digest_of(entry: Any) -> bytes:
    if isinstance(entry, torch.Tensor):
        entry = entry.contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.blake2b(np.ascontiguousarray(entry).tobytes(), digest_size=_DIGEST).digest()


def _told(hashes: Mapping[PeerId, str]) -> str:
    """Each hash with its peers, the most frequent first."""
    peers: dict[str, list[PeerId]] = {}
    for peer, value in hashes.items():
        peers.setdefault(value, []).append(peer)
    ordered: Sequence[tuple[str, list[PeerId]]] = sorted(peers.items(), key=lambda item: -len(item[1]))
    return "; ".join(f"{value} on {', '.join(str(peer)[:8] for peer in ids)}" for value, ids in ordered)
