"""`tensorflow.core.lib.core.error_codes_pb2`: the numbers of errors."""

from __future__ import annotations

from dtfctl.runtime.framework.errors import Code

__all__ = ["Code"]


def __getattr__(name: str) -> int:
    try:
        return int(Code[name])
    except KeyError:
        raise AttributeError(name) from None
