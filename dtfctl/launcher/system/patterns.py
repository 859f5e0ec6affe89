"""Regular expressions of a spec: RE2's, since no pattern over no output may keep an agent from its leases."""

from __future__ import annotations

from typing import Any


def compile_pattern(text: str) -> Any:
    """Compile a pattern that is searched in bytes.

    Raises:
        ValueError: RE2 does not take it; the text says why.
    """
    import re2  # most specs have no pattern

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text.encode("utf-8", "surrogateescape"), options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        raise ValueError(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)) from None
