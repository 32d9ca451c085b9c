"""Numbers as people write them."""

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_of(word: str) -> int:
    """Bytes: "64K", "1M", "4096". Raises ValueError, which says what is wrong."""
    text = word.strip().upper().removesuffix("IB")
    unit = text[-1:] if text[-1:] in ("K", "M", "G") else ""
    digits = text.removesuffix(unit)
    if not digits.isascii() or not digits.isdigit():
        raise ValueError(f"'{word}' is no size; write 4096, 64K, 1M or 1G")
    size = int(digits) * UNITS[unit]
    if size < 4 or size % 4 != 0 or size > 4 << 30:
        raise ValueError(f"'{word}' is no size of a tensor of f32: a multiple of 4 bytes, at most 4G")
    return size


def size_words(size: int) -> str:
    for unit in ("G", "M", "K"):
        if size >= UNITS[unit] and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]} {unit}iB"
    return f"{size} B"


def three_digits(number: float) -> str:
    """0.0123, 1.23, 12.3, 123, 1234: what a measurement is good for."""
    for limit, digits in ((0.095, 4), (0.95, 3), (9.95, 2), (99.5, 1)):
        if number < limit:
            return f"{number:.{digits}f}"
    return f"{number:.0f}"


def duration_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
