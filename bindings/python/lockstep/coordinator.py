"""A coordinator inside a Python process."""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from types import TracebackType

from . import _lockstep
from ._arguments import path_of
from ._lines import log_sink
from .certificates import Certificates, native_certificates

__all__ = ["Coordinator"]


_running: weakref.WeakSet[Coordinator] = weakref.WeakSet()


class Coordinator:
    """Decides membership, order and outcomes. Never sees a tensor. Every run needs a coordinator.

    Like the command `lockstep coordinator`, on a thread of this process. The run ends with this process.

    A coordinator that listens on loopback addresses only, without a token file, needs no proof of its peers. Any other
    speaks TLS 1.3 only, and admits peers that connect with its `token`.

    listen: "host:port"; without a host, all addresses; port 0 uses any free port.
    heartbeat: seconds between the heartbeats of a peer.
    silence: seconds without a byte after which a peer is lost; at least twice the heartbeat.
    greeting: seconds within which a new connection must send its first message.
    logger: receives a record of level INFO for each event; None for the logger "lockstep".
    flight_file: file for the flight recording if the coordinator fails.
    shared_thread: runs on one thread of this process, together with all communicators that have this option.
    token_file: its key and its run tokens, for the command `lockstep token`; made if it is missing. None: one token,
        which ends with the coordinator.
    advertise: the addresses in run tokens, as "host" or "host:port", with commas; None: those that it listens on.
    certificates: instead of tokens: who has a certificate of this authority is admitted.
    insecure: no TLS and no token. Everybody on the way can read and change all, and everybody may join.
    dial_back: find out which peers can be dialled, by dialling each newcomer at its address; a peer behind a router or
        a firewall dials the others. False: all can be dialled; right where this coordinator may open no connections.
    Raises InvalidArgument, Unreachable (the address cannot be listened on).

    Example:
        >>> with lockstep.Coordinator("127.0.0.1:0") as coordinator:
        ...     run = lockstep.connect(coordinator.address)
    """

    def __init__(
        self,
        listen: str = "127.0.0.1:0",
        *,
        heartbeat: float | None = None,
        silence: float | None = None,
        greeting: float | None = None,
        logger: logging.Logger | None = None,
        flight_file: str | os.PathLike[str] | None = None,
        shared_thread: bool = False,
        token_file: str | os.PathLike[str] | None = None,
        advertise: str | None = None,
        certificates: Certificates | None = None,
        insecure: bool = False,
        dial_back: bool = True,
    ) -> None:
        sink = log_sink(logging.getLogger("lockstep.coordinator") if logger is None else logger)
        self._native = _lockstep.Coordinator(
            {
                "listen": listen,
                "heartbeat": heartbeat,
                "silence": silence,
                "greeting": greeting,
                "flight_file": None if flight_file is None else path_of(flight_file, "flight_file"),
                "shared_thread": shared_thread,
                "token_file": None if token_file is None else path_of(token_file, "token_file"),
                "advertise": advertise,
                **native_certificates(certificates),
                "insecure": insecure,
                "no_dial_back": not dial_back,
                "log": sink.number,
            }
        )
        sink.keep()
        _running.add(self)

    @property
    def address(self) -> str:
        """The address to connect to from this machine, such as "127.0.0.1:40123"."""
        return self._native.address()

    @property
    def token(self) -> str:
        """The string that peers connect with: a run token, or `address` where no token is needed.

        A run token holds a secret: whoever has it may join. `repr()` and logs do not show it.
        """
        return self._native.token()

    def flight_record(self, path: str | os.PathLike[str]) -> None:
        """Writes the contents of the flight recorder, for `lockstep sim replay`. The run continues."""
        self._native.flight_record(path_of(path, "path"))

    def stop(self) -> None:
        """Stops the coordinator. Its peers lose the run. A second call does nothing."""
        self._native.stop()

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<lockstep.Coordinator at {self.address}>"


def _stop_all() -> None:
    """At exit, no thread may remain when the interpreter has gone."""
    for coordinator in list(_running):
        coordinator.stop()


atexit.register(_stop_all)
