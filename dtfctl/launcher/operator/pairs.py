"""Who meets whom: all pairs of some hosts, in rounds in which nobody is in two pairs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def rounds(names: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield rounds of pairs, as few as there can be: the first name stays, the others go around it.

    >>> list(rounds(["a", "b", "c", "d"]))
    [[('a', 'd'), ('b', 'c')], [('a', 'c'), ('d', 'b')], [('a', 'b'), ('c', 'd')]]
    """
    circle: list[str | None] = [*names, *([None] if len(names) % 2 else [])]
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        met = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(a, b) for a, b in met if a is not None and b is not None]
        circle = [circle[0], circle[-1], *circle[1:-1]]
