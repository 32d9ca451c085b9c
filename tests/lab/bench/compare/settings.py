"""What the network is while everybody all-reduces. Each setting is a row of tables and plots of its own."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SYSTEM = "system"
_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
_IN_NAMESPACE = f'ip link set lo up && echo "$0" > {_CONTROL} && exec "$@"'


@dataclass(frozen=True)
class Setting:
    key: str
    words: str
    launcher: tuple[str, ...] = ()  # before every command

    def command(self, words: Sequence[str]) -> list[str]:
        return [*self.launcher, *words]


def system_control() -> str:
    return _CONTROL.read_text().strip()


def setting_of(key: str) -> Setting:
    """The system's loopback; or, for the name of a congestion control, a network namespace for each program, where everybody has
    that one. Raises ValueError."""
    if key == SYSTEM:
        return Setting(key, f"congestion control of the system, {system_control()}")
    allowed = _ALLOWED.read_text().split()
    if key not in allowed:
        raise ValueError(f"a namespace may not have congestion control '{key}' (one of: {' '.join([SYSTEM, *allowed])})")
    launcher = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c", _IN_NAMESPACE, key]
    return Setting(key, f"congestion control {key}", tuple(launcher))


def works(setting: Setting) -> bool:
    """Namespaces want root, or a system that gives them to everybody."""
    if not setting.launcher:
        return True
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run(setting.command(["true"]), capture_output=True, check=False).returncode == 0


def default_keys() -> list[str]:
    """What users have, and what every kernel has."""
    return [SYSTEM] if system_control() == "reno" else [SYSTEM, "reno"]
