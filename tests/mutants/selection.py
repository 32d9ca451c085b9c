"""Selects the mutants that a hunt tries: by source, by folder, by a piece of the name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mutations import Mutant


def sources_in(wanted: Iterable[str], sources: Sequence[str]) -> list[str]:
    """The wanted sources, each once, in the order of `sources`.

    wanted: sources; a folder that ends with a slash stands for the sources directly in it: `train/`, or `./` for the
    package's own folder. Raises LookupError for a name without a source.
    """
    found: set[str] = set()
    for name in wanted:
        here = {source for source in sources if name in (source, _folder_of(source))}
        if not here:
            raise LookupError(name)
        found |= here
    return [source for source in sources if source in found]


def _folder_of(source: str) -> str:
    folder, _, _ = source.rpartition("/")
    return f"{folder or '.'}/"


def named(mutants: Iterable[Mutant], texts: Sequence[str]) -> list[Mutant]:
    """The mutants with one of the texts in their names."""
    return [mutant for mutant in mutants if any(text in mutant.name for text in texts)]
