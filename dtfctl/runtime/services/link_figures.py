"""What is measured of the links to another task, and what both ends tell each other of it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dtfctl.runtime.compression.payoff import Judgement, Ledger
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.rendezvous.transports.base import Link

# Seconds to decode a byte, before the name of a codec.
_DECODE_S = struct.Struct("<d")


@dataclass(frozen=True)
class LinkFigures:
    """How a task sends to another one.

    Attributes:
        transport, is_encrypted: see Link.
        bytes_s, samples: see Meter; 0 where nothing has been measured.
        judgements: of the codecs on this way.
    """

    transport: str
    is_encrypted: bool
    bytes_s: float
    samples: int
    judgements: list[Judgement]


def figures_of(links: Sequence[Link], ledger: Ledger | None) -> LinkFigures:
    """Gather the figures of the links to one task.

    Args:
        links: one at least. Both ends may have opened one, and use the first they have: the one that was measured
            most says most.
        ledger: what is known of codecs on this way.
    """
    link = max(links, key=lambda link: 0 if link.meter is None else link.meter.samples)
    return LinkFigures(
        link.transport,
        link.is_encrypted,
        0.0 if link.meter is None else link.meter.bytes_s,
        0 if link.meter is None else link.meter.samples,
        [] if ledger is None else ledger.judgements(),
    )


def rate_of(links: Sequence[Link]) -> tuple[float, float]:
    """Give what these links carry, in bytes a second, and when that was timed; 0 where it was not measured."""
    for link in links:
        if link.meter is not None and link.meter.bytes_s:
            return link.meter.bytes_s, link.meter.timed_at
    return 0.0, float("-inf")


def pack_decoded(codec: str, decode_s: float) -> bytes:
    """Pack how long a byte of a codec takes to decode, as the payload of a DECODED frame."""
    return _DECODE_S.pack(decode_s) + codec.encode()


def parse_decoded(payload: Any) -> tuple[str, float]:
    """Parse what `pack_decoded` packed: (codec, seconds).

    Raises:
        InvalidArgumentError: the payload does not say that.
    """
    try:
        (decode_s,) = _DECODE_S.unpack_from(payload)
        codec = bytes(payload[_DECODE_S.size :]).decode()
    except (struct.error, UnicodeDecodeError):
        raise InvalidArgumentError(f"A DECODED frame of {len(payload)} bytes makes no sense") from None
    if not 0 <= decode_s < 1:
        raise InvalidArgumentError(f"A byte that takes {decode_s} s to decode")
    return codec, decode_s
