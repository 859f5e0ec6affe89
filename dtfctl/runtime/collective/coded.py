"""Pieces of arrays that are encoded on their way between hosts: fewer bytes, of which nearly the same is made.

Members exchange pieces as in all_reduce.pieces. What a codec leaves out is added to what the same member sends of the
same piece the next time, and what the member leaves out that has merged a piece to what it merges next (DoubleSqueeze:
Tang et al. 2019). All get the same bits, as all decode the same.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache

import numpy as np

from dtfctl.runtime.collective.algorithms import Array, Final, Group, Merge, cut, others
from dtfctl.runtime.compression import Codec, decode, encode, parse_codec

LEAST = 4096
"""Arrays of fewer elements are sent as they are."""


@lru_cache(64)
def codec_of(text: str) -> Codec:
    """Make the codec that a text names; see compression.parse_codec."""
    return parse_codec(text)


class Coding:
    """How a member encodes what it sends of one array, step after step.

    Args:
        states: what is owed, by the name of a piece; kept from step to step.
    """

    def __init__(self, codec: Codec, states: dict[str, Array]) -> None:
        self._codec = codec
        self._states = states

    def encode(self, name: str, values: Array) -> Array:
        size = self._codec.state_size(values.shape)
        state = self._states.get(name)
        if state is None or len(state) != size:
            state = self._states[name] = np.zeros(size, np.float32)
        return encode(self._codec, values, state, state)

    def decode(self, message: Array, like: Array) -> Array:
        return decode(self._codec, message, like.shape)


def coded_pieces(
    group: Group, flat: Array, out: Array, merge: Merge, final: Final, coding: Coding
) -> Generator[tuple[int, str], Array, None]:
    """Merge a piece for all, and send it to all, encoded both times."""
    parts = cut(flat, group.size)
    for other in others(group):
        group.send(other, "s", coding.encode(f"to {other} of {group.size}", flat[parts[other]]))
    mine = out[parts[group.rank]]
    values = []
    for rank in range(group.size):
        if rank == group.rank:
            values.append(flat[parts[rank]])
        else:
            values.append(coding.decode((yield rank, "s"), mine))
    merge(values[0], values[1], out=mine)
    for value in values[2:]:
        merge(mine, value, out=mine)
    final(mine)
    message = coding.encode(f"merged of {group.size}", mine)
    for other in others(group):
        group.send(other, "a", message)
    np.copyto(mine, coding.decode(message, mine))
    for other in others(group):
        piece = out[parts[other]]
        np.copyto(piece, coding.decode((yield other, "a"), piece))
