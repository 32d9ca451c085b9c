"""How the elements of an average travel."""

from __future__ import annotations

from dataclasses import dataclass

from ..types import WIRE_FORMATS, WireFormat, WireFormatName, number_of


@dataclass(frozen=True)
class Wire:
    """How float32 elements travel, equal on all peers.

    up, down: formats of contributions and of the result; see lockstep.WireFormat.
    error_feedback: adds what rounding loses to the next contribution; for 4 bits. Needs as much memory as the
        parameters, and links between all pairs of peers.
    Raises InvalidArgument.

    Example:
        >>> wire = Wire("e3m0", "int8", error_feedback=True)
    """

    up: WireFormat | WireFormatName = "native"
    down: WireFormat | WireFormatName = "native"
    error_feedback: bool = False

    def __post_init__(self) -> None:
        number_of(WIRE_FORMATS, self.up, "up")
        number_of(WIRE_FORMATS, self.down, "down")

    @classmethod
    def of(cls, wire: Wire | WireFormat | WireFormatName) -> Wire:
        """The wire itself, or one that uses the named format both ways."""
        return wire if isinstance(wire, Wire) else cls(wire, wire)

    def settings(self, name: str) -> dict[str, float]:
        """What has to be equal on all peers."""
        up, down = (number_of(WIRE_FORMATS, wire, name) for wire in (self.up, self.down))
        formats = {f"{name}.up (a WireFormat)": int(up), f"{name}.down (a WireFormat)": int(down)}
        return {**formats, f"{name}.error_feedback": int(self.error_feedback)}
