"""What tells one compiled step of a session from another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from dtfctl.protocol import config_pb2


class Signature(NamedTuple):
    """A request's feeds, fetches and targets, in an order of their own, and a digest of what else shapes the result."""

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]
    options: str = ""


def signature_of(
    feeds: Iterable[str],
    fetches: Iterable[str],
    targets: Iterable[str],
    options: config_pb2.RunOptions | None = None,
    partial: bool = False,
) -> Signature:
    """Return the signature of a request; the same for any order of its parts.

    Of the options only those count that change the compiled graph: debug watches and the collective key. Repeated
    fetches and targets are one; repeated feeds stay, for they are an error that pruning reports.
    """
    digest = ""
    if partial or (
        options is not None and (options.experimental.collective_graph_key or options.debug_options.ByteSize())
    ):
        text = hashlib.blake2b(digest_size=8)
        text.update(b"partial" if partial else b"")
        if options is not None:
            text.update(options.debug_options.SerializeToString(deterministic=True))
            text.update(str(options.experimental.collective_graph_key).encode())
        digest = text.hexdigest()
    return Signature(tuple(sorted(feeds)), tuple(sorted(set(fetches))), tuple(sorted(set(targets))), digest)
