"""Fault-tolerant collectives for machine learning over the public internet."""

from lockstep._lockstep import version as _version

__version__ = _version()
__all__ = ["__version__"]
