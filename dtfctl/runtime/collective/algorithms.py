"""How the members of a group compute something together: what each sends to whom, and waits for.

An algorithm is a generator, run once by each member: it sends when it likes, yields the (rank, tag) of what it needs
next, is sent the array that has come, and returns its result. It knows no threads, sockets or clocks. Merging for
all is in all_reduce.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]
Algorithm: TypeAlias = Generator[tuple[int, str], Array, Array]
Final: TypeAlias = Callable[[Array], Any]
"""Finishes an array of merged values, in place."""

_LINE = 64
# What stays in a processor's cache while arrays of others are merged into it.
_BLOCK_BYTES = 1 << 17


class Merge(Protocol):
    """Merges two arrays into a third, which may be the first of them."""

    def __call__(self, a: Array, b: Array, /, *, out: Array) -> Any: ...


class Group(Protocol):
    """A group as one member sees it.

    Attributes:
        rank: which member this is, from 0.
        size: how many there are.
        hosts: by rank: a number that members on one host have in common.
        racks: by rank: a number that members in one rack have in common.
        places: by rank: its place among neighbours.
    """

    rank: int
    size: int
    hosts: Sequence[int]
    racks: Sequence[int]
    places: Sequence[int]

    def send(self, to: int, tag: str, value: Array) -> None:
        """Send an array, which does not change afterwards; never waits."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Make an array that others will look at."""


def reduce_scatter(group: Group, value: Array, merge: Merge, final: Final) -> Algorithm:
    """Merge the arrays of all members; each gets its own part of the first dimension, which they divide evenly."""
    rows = value.shape[0] // group.size
    own = value[rows * group.rank : rows * (group.rank + 1)]
    for other in others(group):
        group.send(other, "s", value[rows * other : rows * (other + 1)])
    out = group.empty(own.shape, own.dtype)
    if group.size == 1:
        np.copyto(out, own)
    else:
        yield from merge_all(group, "s", own, out, merge)
    final(out)
    return out


def merge_all(group: Group, tag: str, own: Array, out: Array, merge: Merge) -> Generator[tuple[int, str], Array, None]:
    """Merge what all have sent with one's own, in the order of ranks, into `out`."""
    if group.size > 2 and out.nbytes > _BLOCK_BYTES and len(set(group.hosts)) == 1:
        # All are there at about the same time, and it is memory that takes long: `out` is to be written once.
        values = []
        for rank in range(group.size):
            values.append(own if rank == group.rank else (yield from receive(rank, tag, own.shape)))
        _merge_in_blocks(values, out, merge)
        return
    first = own if group.rank == 0 else (yield from receive(0, tag, own.shape))
    second = own if group.rank == 1 else (yield from receive(1, tag, own.shape))
    merge(first, second, out=out)
    for rank in range(2, group.size):
        merge(out, own if rank == group.rank else (yield from receive(rank, tag, own.shape)), out=out)


def _merge_in_blocks(values: Sequence[Array], out: Array, merge: Merge) -> None:
    rows = max(_BLOCK_BYTES * len(out) // out.nbytes, 1)
    for start in range(0, len(out), rows):
        at = slice(start, start + rows)
        block = out[at]
        merge(values[0][at], values[1][at], out=block)
        for value in values[2:]:
            merge(block, value[at], out=block)


def all_gather(group: Group, value: Array, is_even: bool = False) -> Algorithm:
    """Put the arrays of all members one below the other, by rank; they may differ in the first dimension.

    Args:
        is_even: refuse those that do, as the first version of TensorFlow's op does.
    """
    for other in others(group):
        group.send(other, "g", value)
    parts = []
    for rank in range(group.size):
        part = value if rank == group.rank else (yield rank, "g")
        if part.shape[1:] != value.shape[1:] or (is_even and part.shape != value.shape):
            raise ValueError(_mismatch(rank, part.shape, value.shape))
        parts.append(part)
    out = group.empty((sum(len(part) for part in parts), *value.shape[1:]), value.dtype)
    np.concatenate(parts, out=out)
    return out


def all_to_all(group: Group, value: Array) -> Algorithm:
    """Send the n-th part of the first dimension to the n-th member, and put what came in the order of ranks."""
    rows = value.shape[0] // group.size
    for other in others(group):
        group.send(other, "p", value[rows * other : rows * (other + 1)])
    out = group.empty(value.shape, value.dtype)
    for rank in range(group.size):
        at = slice(rows * rank, rows * (rank + 1))
        np.copyto(out[at], value[at] if rank == group.rank else (yield from receive(rank, "p", out[at].shape)))
    return out


def broadcast(group: Group, source: int, value: Array | None, shape: Sequence[int]) -> Algorithm:
    """Give all members the array of one, along a binomial tree.

    Args:
        value: the array in the member that is the source.
        shape: of the array.
    """
    place = (group.rank - source) % group.size
    have = value
    step = 1
    while step < group.size:
        if place < step:
            if place + step < group.size:
                assert have is not None
                group.send((source + place + step) % group.size, "b", have)
        elif place < 2 * step:
            have = yield from receive((source + place - step) % group.size, "b", shape)
        step *= 2
    assert have is not None
    return have


def place(group: Group) -> Algorithm:
    """Tell this member's place among neighbours, and the number of its rack; nothing is sent."""
    yield from ()
    return np.array([group.places[group.rank], group.racks[group.rank]], np.int32)


def cut(flat: Array, parts: int) -> list[slice]:
    """Cut an array of one dimension in parts of about the same size that begin where a cache line does.

    >>> cut(np.zeros(100, np.float32), 3)
    [slice(0, 48, None), slice(48, 80, None), slice(80, 100, None)]
    """
    unit = max(_LINE // flat.itemsize, 1)
    each, more = divmod(-(-flat.size // unit), parts)
    starts = [min(unit * (each * i + min(i, more)), flat.size) for i in range(parts + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(starts)]


def others(group: Group) -> list[int]:
    """List the other members, the next one first: not all begin with the same."""
    return [(group.rank + i) % group.size for i in range(1, group.size)]


def receive(rank: int, tag: str, shape: Sequence[int]) -> Algorithm:
    """Wait for an array of that shape.

    Raises:
        ValueError: it has another one.
    """
    value = yield rank, tag
    if value.shape != tuple(shape):
        raise ValueError(_mismatch(rank, value.shape, shape))
    return value


def _mismatch(rank: int, sent: Sequence[int], own: Sequence[int]) -> str:
    return f"Shape mismatch in the collective instance. Rank {rank} sent {list(sent)} where this one has {list(own)}"
