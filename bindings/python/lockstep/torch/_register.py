"""Makes the backend known to torch: its name, and the init method lockstep://COORDINATOR."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import torch
import torch.distributed as dist

from .. import _lockstep
from ..communicator import connect
from ..errors import InvalidArgument
from ._process_group import GroupOptions, ProcessGroup
from ._rendezvous import COORDINATOR, own_host, own_name

_NAME = "lockstep"
_SCHEME = "lockstep"
_rendezvous: dict[str, str] = {}
"""Coordinator of the default group that an init method has named, until that group is made."""


def register() -> None:
    """Registers the backend "lockstep" and the init method "lockstep://COORDINATOR" with torch. Again: does nothing."""
    if _NAME in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(_NAME, _create, extended_api=True, devices=["cpu", "cuda"])
    dist.register_rendezvous_handler(_SCHEME, _meet)


def _create(given: Any, options: Any) -> ProcessGroup:
    """Torch's creator of a group."""
    is_default = str(given.group_id) in ("", "0")
    coordinator = _rendezvous.pop("coordinator", None) or os.environ.get(COORDINATOR) if is_default else None
    if options is None:
        options = GroupOptions()
    if not isinstance(options, GroupOptions):
        raise TypeError(f"pg_options is a {type(options).__name__}; allowed: lockstep.torch.GroupOptions")
    if getattr(given, "enable_reconfigure", False):
        options = dataclasses.replace(options, enable_reconfigure=True)
    return ProcessGroup(given.store, given.group_rank, given.group_size, given.timeout, options, coordinator)


def _meet(url: str, timeout: timedelta = dist.default_pg_timeout, **_: Any) -> Iterator[tuple[Any, int, int]]:
    """Torch's handler of the init method: rank 0 runs torch's store, and the run tells the others where."""
    parts = urlsplit(url)
    coordinator = parts.netloc + parts.path.removesuffix("/")
    try:
        addresses = _lockstep.addresses_of(coordinator)
    except InvalidArgument as error:
        raise ValueError(
            f"init_method names no coordinator: {error}; allowed: lockstep://TOKEN, lockstep://host:port, "
            "lockstep://file:PATH and lockstep://env:NAME"
        ) from None
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    rank = _number(query, "rank", "RANK")
    size = _number(query, "world_size", "WORLD_SIZE")
    store = _store_of(coordinator, addresses, rank, size, timeout)
    _rendezvous["coordinator"] = coordinator
    yield (store, rank, size)


def _store_of(coordinator: str, addresses: str, rank: int, size: int, timeout: timedelta) -> Any:
    """Torch's store, run by rank 0. A short run of all processes tells where it is."""
    first = addresses.partition(",")[0]
    own = own_host(first.rpartition(":")[0].strip("[]"))
    seconds = timeout.total_seconds()
    place = torch.zeros(64, dtype=torch.uint8, device="cpu")
    store = None
    if rank == 0:
        store = dist.TCPStore(own.strip("[]"), 0, size, is_master=True, timeout=timeout, wait_for_workers=False)
        text = f"{own}|{store.port}".encode()
        place[: len(text)] = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    with connect(coordinator, founders=size, timeout=seconds, name=own_name(f"rank {rank} (meeting)")) as run:
        ranks = run.all_gather(torch.tensor([rank], device="cpu"), timeout=seconds)
        root = ranks.contributors[ranks.output.tolist().index(0)]
        run.broadcast(place, root, timeout=seconds)
        run.barrier(timeout=seconds)
    if store is None:
        told, _, number = bytes(place.tolist()).rstrip(b"\0").decode().rpartition("|")
        store = dist.TCPStore(told.strip("[]"), int(number), size, is_master=False, timeout=timeout)
    store.set(f"lockstep/met/{rank}", b"1")
    if rank == 0:  # the first of the next run: nobody of this one may be left
        store.wait([f"lockstep/met/{other}" for other in range(size)], timeout)
    return store


def _number(query: dict[str, str], name: str, variable: str) -> int:
    text = query.get(name, os.environ.get(variable))
    if text is None:
        raise ValueError(
            f"the init method lockstep:// needs {name}: an argument of init_process_group, ?{name}=, or the variable "
            f"{variable}"
        )
    return int(text)
