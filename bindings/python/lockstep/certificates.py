"""Certificates of an authority of the user's own, instead of run tokens."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Union

from ._arguments import path_of, shown

__all__ = ["Certificates"]

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Certificates:
    """Files in PEM that say who this process is, and whom it trusts.

    With certificates, peers connect to "host:port", and the coordinator admits who has a certificate of the authority.
    Its own certificate must name the host, or the IP address, that peers connect to. The coordinator reads changed
    files again by itself; a peer reads them when it connects.

    certificate: of this process; certificates between it and the authority may follow in the file.
    private_key: of this process, without a passphrase.
    authority: certificates of the authorities that both sides trust.
    revocation_list: of these authorities; None: no certificate is revoked.
    """

    certificate: Path
    private_key: Path
    authority: Path
    revocation_list: Path | None = None


def native_certificates(certificates: Certificates | None) -> dict[str, bytes]:
    """The arguments of the native part; none without certificates."""
    if certificates is None:
        return {}
    if not isinstance(certificates, Certificates):
        raise TypeError(f"certificates is {shown(certificates)}; allowed: a lockstep.Certificates, or None")
    paths = {field.name: getattr(certificates, field.name) for field in fields(certificates)}
    return {name: path_of(path, name) for name, path in paths.items() if path is not None}
