"""A store of keys and values in every process that others may meet: what is needed of torch's, without its look-ups.

Torch's TCPStore looks up a host's name at every connection, which takes seconds where no name server answers, and some
of its calls have no limit. Requests and answers are lines of JSON: [operation, key, ...], and a value.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Union

from .. import _threads

_LINE_LIMIT = 1 << 16  # bytes of a request or an answer
_CONNECTIONS = 4096
_KEYS = 1 << 20
_ANSWER_WITHIN = 10.0  # seconds

Value = Union[bytes, str]


class StoreServer:
    """Keeps keys and values, for clients that reach a port of this host."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._listener = socket.create_server(("", 0), family=family, dualstack_ipv6=both, backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._ready = selectors.DefaultSelector()
        self._listener.setblocking(False)
        self._ready.register(self._listener, selectors.EVENT_READ)
        self._waker, wake = socket.socketpair()
        self._ready.register(wake, selectors.EVENT_READ)
        self._wake = wake
        self._open: dict[socket.socket, bytes] = {}
        self._thread = _threads.start(self._serve, "lockstep-store", self._waker.close)

    def close(self) -> None:
        """Closes all connections."""
        self._waker.close()
        self._thread.join()

    def answer(self, request: Any) -> str | bool | None:
        """Carries out a request. Called by the server's thread, and by clients of this process."""
        operation, key, *more = request
        if len(self._values) >= _KEYS and key not in self._values:
            raise ValueError("the store is full")
        if operation == "set":
            self._values[key] = more[0]
            return None
        if operation == "check":
            return key in self._values
        if operation == "get":
            return self._values.get(key)
        if operation == "keep":
            return self._values.setdefault(key, more[0])
        raise ValueError(f"no operation {operation!r}")

    def _serve(self) -> None:
        while True:
            for key, _ in self._ready.select():
                if key.fileobj is self._wake:
                    for connection in [self._listener, self._wake, *self._open]:
                        connection.close()
                    self._ready.close()
                    return
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._receive(key.fileobj)  # type: ignore[arg-type]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            if len(self._open) >= _CONNECTIONS:
                connection.close()
                return
            connection.setblocking(False)  # so a client that reads nothing is given up, and delays nobody
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open[connection] = b""
            self._ready.register(connection, selectors.EVENT_READ)

    def _receive(self, connection: socket.socket) -> None:
        try:
            piece = connection.recv(_LINE_LIMIT)
            *lines, rest = (self._open[connection] + piece).split(b"\n")
            if not piece or len(rest) > _LINE_LIMIT:
                raise ConnectionError
            self._open[connection] = rest
            for line in lines:
                connection.sendall(json.dumps(self.answer(json.loads(line))).encode() + b"\n")
        except (OSError, ValueError, TypeError, KeyError):
            self._ready.unregister(connection)
            del self._open[connection]
            connection.close()


class Store:
    """A store of another process, or of this one. Has the methods of torch's store that this package uses.

    host: its host, for whoever asks by which network others are reached.
    Raises OSError when the other process does not answer.
    """

    def __init__(self, server: StoreServer | _Remote, host: str, prefix: str = "") -> None:
        self._server = server
        self.host = host
        self._prefix = prefix

    def under(self, name: str) -> Store:
        """The part of it under a name."""
        return Store(self._server, self.host, f"{self._prefix}{name}/")

    def set(self, key: str, value: Value) -> None:
        """Sets a key."""
        self._server.answer(["set", self._prefix + key, _text(value)])

    def get(self, key: str) -> bytes:
        """The value of a key that is there."""
        value = self._server.answer(["get", self._prefix + key])
        if value is None:
            raise KeyError(key)
        return str(value).encode()

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return all(self._server.answer(["check", self._prefix + key]) for key in keys)

    def keep(self, key: str, value: Value) -> bytes:
        """Sets a key unless it is there. Returns its value."""
        return str(self._server.answer(["keep", self._prefix + key, _text(value)])).encode()


class _Remote:
    """A connection to the server of another process."""

    def __init__(self, host: str, port: int, seconds: float) -> None:
        self._connection = socket.create_connection((host, port), timeout=seconds)
        self._connection.settimeout(_ANSWER_WITHIN)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._connection.makefile("rb")
        self._one_at_a_time = threading.Lock()

    def answer(self, request: Any) -> str | bool | None:
        with self._one_at_a_time:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
            line = self._answers.readline(_LINE_LIMIT)
        if not line.endswith(b"\n"):
            raise ConnectionError("the process with the store has closed the connection")
        value: str | bool | None = json.loads(line)
        return value

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):  # the connection was not made
            self._answers.close()
            self._connection.close()


def connect_store(host: str, port: int, seconds: float) -> Store:
    """The store of another process. Raises OSError when it cannot be reached in so many seconds."""
    limit = time.monotonic() + seconds
    while True:
        try:
            return Store(_Remote(host, port, max(0.001, limit - time.monotonic())), host)
        except ConnectionRefusedError:
            raise
        except OSError:  # not reached this time
            if time.monotonic() > limit:
                raise


def keep(store: Any, key: str, value: str) -> str:
    """Sets a key of a store, ours or torch's, unless it is there. Returns its value."""
    kept = store.keep(key, value) if isinstance(store, Store) else store.compare_set(key, "", value)
    return str(kept.decode())


def _text(value: Value) -> str:
    return value.decode() if isinstance(value, bytes) else value
