"""Regular expressions by RE2 itself, as in TensorFlow: a search takes linear time whatever pattern and text are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import re2

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.pieces import ITEMS, joined, look
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import map_strings, map_to, only

_KEPT = 16
"""Patterns that ops got as a tensor; each may take 8 MB."""
_SHORTEST_RUNES = ((0x80, 1), (0xC0, 0), (0xE0, 2), (0xF0, 3), (0xF8, 4))
"""How long a character in UTF-8 is whose first byte is below; 0: none begins so."""


@lru_cache(maxsize=_KEPT)
def compile_re2(pattern: bytes) -> Any:
    """Compile a pattern.

    Raises:
        InvalidArgumentError: RE2 does not take it.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as e:
        said = e.args[0] if e.args else b""
        why = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise InvalidArgumentError(f"Invalid pattern: {pattern.decode('utf-8', 'replace')}, error: {why}") from None
    finally:
        re2.purge()  # it would keep 128


def _parse_rewrite(rewrite: bytes) -> tuple[list[bytes | int], bool]:
    """Literal pieces and group numbers up to where it is malformed, and whether it is well-formed."""
    out: list[bytes | int] = []
    at = 0
    while (mark := rewrite.find(b"\\", at)) >= 0:
        out.append(rewrite[at:mark])
        c = rewrite[mark + 1 : mark + 2]
        if c.isdigit():
            out.append(int(c))
        elif c == b"\\":
            out.append(c)
        else:
            return out, False
        at = mark + 2
    return [*out, rewrite[at:]], True


def _rune_length(text: bytes, at: int) -> int:
    """Count the bytes that the character at `at` takes; 1 where the text is no UTF-8."""
    for below, length in _SHORTEST_RUNES:
        if text[at] < below:
            try:
                return len(text[at : at + length].decode()[:1].encode()) or 1
            except UnicodeDecodeError:
                return 1
    return 1


def replace(pattern: Any, rewrite: bytes, everywhere: bool, text: bytes) -> bytes:
    """Do RE2's Replace or GlobalReplace: an empty match right after a match does not count."""
    parts, is_whole = _parse_rewrite(rewrite)
    if max((p for p in parts if isinstance(p, int)), default=0) > pattern.groups:
        return text
    if not everywhere and not is_whole:
        return text
    out: list[bytes] = []
    at, last_end = 0, -1
    while at <= len(text):
        if not len(out) % ITEMS:
            look()
        match = pattern.search(text, at)
        if match is None:
            break
        start, end = match.span()
        out.append(text[at:start])
        if start == end == last_end:
            at = start
            if at < len(text):
                end = at + _rune_length(text, at)
                out.append(text[at:end])
                at = end
            else:
                at += 1
            continue
        out += [p if isinstance(p, bytes) else match.group(p) or b"" for p in parts]
        at = last_end = end
        if not everywhere:
            break
    out.append(text[at:])
    return joined(out)


def _need_scalar(value: Any, what: str) -> bytes:
    if value.shape != ():
        shape = str(list(TensorShape(value.shape).known())).replace(" ", "")
        raise InvalidArgumentError(f"{what} must be scalar, but received {shape}")
    text: bytes = only(value)
    return text


@register_kernel("RegexReplace", pieces=True)
def regex_replace(k: KernelBuild) -> Kernel:
    everywhere = k.attr("replace_global")

    def run(values: Any, pattern: Any, rewrite: Any) -> Any:
        compiled = compile_re2(_need_scalar(pattern, "Pattern"))
        new = _need_scalar(rewrite, "Rewrite")
        return map_strings(lambda v: replace(compiled, new, everywhere, v), values)

    return run


@register_kernel("StaticRegexReplace", pieces=True)
def static_regex_replace(k: KernelBuild) -> Kernel:
    compiled, rewrite, everywhere = compile_re2(k.attr("pattern")), k.attr("rewrite"), k.attr("replace_global")
    return lambda values: map_strings(lambda v: replace(compiled, rewrite, everywhere, v), values)


def _matches(pattern: Any, values: Any) -> Any:
    return map_to(lambda v: pattern.fullmatch(v) is not None, values, np.bool_)


@register_kernel("RegexFullMatch", pieces=True)
def regex_full_match(k: KernelBuild) -> Kernel:
    return lambda values, pattern: _matches(compile_re2(_need_scalar(pattern, "Pattern")), values)


@register_kernel("StaticRegexFullMatch", pieces=True)
def static_regex_full_match(k: KernelBuild) -> Kernel:
    compiled = compile_re2(k.attr("pattern"))
    return lambda values: _matches(compiled, values)
