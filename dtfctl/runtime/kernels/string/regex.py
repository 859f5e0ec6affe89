"""RE2's regular expressions on Python's engine: the pattern is translated, text is UTF-8 with stray bytes kept."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import map_strings, map_to, only

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


_OWN_FLAGS = {ord("U"): None, ord("s"): None}
_STRAY = r"\udc80-\udcff"


class _Translator:
    """One pattern, read from left to right."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        # For every open group, the inline-flag groups opened inside it that end with it.
        self.extra = [0]
        self.ungreedy = [False]
        self.multiline = [False]
        self.dotall = [False]

    def error(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"Invalid pattern: {self.pattern}, error: {what}")

    def translate(self) -> str:
        out: list[str] = []
        p = self.pattern
        while self.at < len(p):
            c = p[self.at]
            if c == "\\":
                out.append(self._escape(False))
            elif c == "[":
                out.append(self._bracket())
            elif c == "(":
                out.append(self._group())
            elif c == ")":
                if len(self.extra) == 1:
                    raise self.error("unexpected ): " + p)
                out.append(")" * (self.extra.pop() + 1))
                self.ungreedy.pop()
                self.multiline.pop()
                self.dotall.pop()
                self.at += 1
            elif c == "$":
                out.append("$" if self.multiline[-1] else r"\Z")
                self.at += 1
            elif c == ".":
                # Bytes that are no UTF-8 match nothing.
                out.append(f"[^{_STRAY}]" if self.dotall[-1] else f"[^\\n{_STRAY}]")
                self.at += 1
            elif c in "*+?" or (c == "{" and re.match(r"\{\d+(,\d*)?\}", p[self.at :])):
                out.append(self._repeat())
            elif c == "{":
                out.append(r"\{")
                self.at += 1
            else:
                out.append(c)
                self.at += 1
        if len(self.extra) > 1:
            raise self.error("missing ): " + p)
        return "".join(out) + ")" * self.extra[0]

    def _repeat(self) -> str:
        p = self.pattern
        match = re.match(r"[*+?]|\{\d+(,\d*)?\}", p[self.at :])
        assert match is not None
        text = match.group()
        self.at += len(text)
        lazy = p[self.at : self.at + 1] == "?"
        self.at += lazy
        follow = p[self.at : self.at + 1]
        if follow in ("*", "+", "?") and follow:
            raise self.error(f"bad repetition operator: {text}{'?' if lazy else ''}{follow}")
        return text + ("?" if lazy != self.ungreedy[-1] else "")

    def _escape(self, in_bracket: bool) -> str:
        p = self.pattern
        if self.at + 1 >= len(p):
            raise self.error("trailing \\")
        c = p[self.at + 1]
        self.at += 2
        if c == "Q":
            end = p.find("\\E", self.at)
            literal = p[self.at :] if end < 0 else p[self.at : end]
            self.at = len(p) if end < 0 else end + 2
            return re.escape(literal)
        if c == "z":
            return r"\Z"
        if c == "C":
            return r"[\s\S]"
        if c in "pP":
            return self._category(c == "P", in_bracket)
        if c == "x" and p[self.at : self.at + 1] == "{":
            end = p.find("}", self.at)
            code = int(p[self.at + 1 : end], 16)
            self.at = end + 1
            return re.escape(chr(code))
        if c in "123456789" or (c.isalpha() and c not in "abfnrtvxAbBdDsSwW"):
            raise self.error(f"invalid escape sequence: \\{c}")
        if c == "0":
            digits = re.match(r"[0-7]{0,2}", p[self.at :])
            assert digits is not None
            self.at += len(digits.group())
            return re.escape(chr(int(digits.group() or "0", 8)))
        if c.isalpha():
            # RE2's \s has no vertical tab.
            if c == "s" and not in_bracket:
                return r"[\t\n\f\r ]"
            if c == "s":
                return r"\t\n\f\r "
            return "\\" + c
        return re.escape(c)

    def _category(self, negated: bool, in_bracket: bool) -> str:
        p = self.pattern
        if p[self.at : self.at + 1] == "{":
            end = p.find("}", self.at)
            name = p[self.at + 1 : end]
            self.at = end + 1
        else:
            name = p[self.at : self.at + 1]
            self.at += 1
        if name.startswith("^"):
            negated, name = not negated, name[1:]
        ranges = _category_ranges(name)
        if ranges is None:
            raise self.error(f"invalid character class range: \\p{{{name}}}")
        if in_bracket:
            if negated:
                raise self.error(f"\\P{{{name}}} inside a bracket is not supported here; write it as its own class")
            return ranges
        return f"[{'^' if negated else ''}{ranges}]"

    def _bracket(self) -> str:
        p = self.pattern
        self.at += 1
        out = "["
        if p[self.at : self.at + 1] == "^":
            out += "^" + _STRAY
            self.at += 1
        first = True
        while True:
            if self.at >= len(p):
                raise self.error(f"missing ]: {p}")
            c = p[self.at]
            if c == "]" and not first:
                self.at += 1
                return out + "]"
            first = False
            named = re.match(r"\[:(\^?)(\w+):\]", p[self.at :])
            if named:
                if named.group(2) not in _POSIX or named.group(1):
                    raise self.error(f"invalid character class range: {named.group()}")
                out += _POSIX[named.group(2)]
                self.at += len(named.group())
            elif c == "\\":
                out += self._escape(True)
            elif c in "[]&~|":
                out += "\\" + c
                self.at += 1
            else:
                out += c
                self.at += 1

    def _group(self) -> str:
        p = self.pattern
        rest = p[self.at :]
        if not rest.startswith("(?"):
            self.at += 1
            self._open((self.ungreedy[-1], self.multiline[-1], self.dotall[-1]))
            return "("
        named = re.match(r"\(\?P?<([A-Za-z_]\w*)>", rest)
        if named:
            self.at += len(named.group())
            self._open((self.ungreedy[-1], self.multiline[-1], self.dotall[-1]))
            return f"(?P<{named.group(1)}>"
        flags = re.match(r"\(\?([imsU]*)(-[imsU]+)?([:)])", rest)
        if flags is None:
            raise self.error(f"invalid perl operator: {rest[:3]}")
        self.at += len(flags.group())
        on, off = flags.group(1), (flags.group(2) or "")[1:]
        ungreedy, multiline, dotall = self.ungreedy[-1], self.multiline[-1], self.dotall[-1]
        dotall = (dotall or "s" in on) and "s" not in off
        ungreedy = (ungreedy or "U" in on) and "U" not in off
        multiline = (multiline or "m" in on) and "m" not in off
        on, off = on.translate(_OWN_FLAGS), off.translate(_OWN_FLAGS)
        text = f"(?{on}{'-' + off if off else ''}:"
        if flags.group(3) == ":":
            self._open((ungreedy, multiline, dotall))
            return text
        self.ungreedy[-1], self.multiline[-1], self.dotall[-1] = ungreedy, multiline, dotall
        self.extra[-1] += 1
        return text

    def _open(self, flags: tuple[bool, bool, bool]) -> None:
        self.extra.append(0)
        for stack, flag in zip((self.ungreedy, self.multiline, self.dotall), flags):
            stack.append(flag)


@lru_cache(maxsize=64)
def _category_ranges(name: str) -> str | None:
    """Bracket contents for a Unicode general category such as L or Lu."""
    import sys
    import unicodedata

    if not re.fullmatch(r"[A-Z][a-z]?", name):
        return None
    out, start, previous = [], -1, -2
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(name):
            if code != previous + 1:
                if start >= 0:
                    out.append((start, previous))
                start = code
            previous = code
    if start < 0:
        return None
    out.append((start, previous))
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in out)


@lru_cache(maxsize=256)
def compile_re2(pattern: bytes) -> re.Pattern[str]:
    """The pattern, compiled.

    Raises:
        InvalidArgumentError: RE2 would not take it.
    """
    text = pattern.decode("utf-8", "surrogateescape")
    try:
        return re.compile(_Translator(text).translate(), re.ASCII)
    except (re.error, OverflowError, ValueError) as e:
        raise InvalidArgumentError(f"Invalid pattern: {text}, error: {e}") from e


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _encode(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")


def _parse_rewrite(rewrite: str) -> list[str | int]:
    """Literal pieces and group numbers, up to where it is malformed, as RE2 does."""
    out: list[str | int] = []
    at = 0
    while at < len(rewrite):
        c = rewrite[at]
        if c != "\\":
            out.append(c)
            at += 1
            continue
        c = rewrite[at + 1 : at + 2]
        if c.isdigit():
            out.append(int(c))
        elif c == "\\":
            out.append("\\")
        else:
            break
        at += 2
    return out


def replace(pattern: re.Pattern[str], rewrite: bytes, everywhere: bool, value: bytes) -> bytes:
    """RE2's Replace or GlobalReplace: an empty match right after a match does not count."""
    parts = _parse_rewrite(_decode(rewrite))
    if max((p for p in parts if isinstance(p, int)), default=0) > pattern.groups:
        return value
    text = _decode(value)
    out, at, last_end = [], 0, -1
    while at <= len(text):
        match = pattern.search(text, at)
        if match is None:
            break
        if match.end() == match.start() == last_end:
            if at >= len(text):
                break
            out.append(text[at])
            at += 1
            last_end = -1
            continue
        out.append(text[at : match.start()])
        out += [p if isinstance(p, str) else match.group(p) or "" for p in parts]
        at = last_end = match.end()
        if not everywhere:
            break
    return _encode("".join(out) + text[at:])


def _need_scalar(value: Any, what: str) -> bytes:
    if value.shape != ():
        shape = str(list(TensorShape(value.shape).known())).replace(" ", "")
        raise InvalidArgumentError(f"{what} must be scalar, but received {shape}")
    return only(value)  # type: ignore[no-any-return]


@register_kernel("RegexReplace")
def regex_replace(k: KernelBuild) -> Kernel:
    everywhere = k.attr("replace_global")

    def run(values: Any, pattern: Any, rewrite: Any) -> Any:
        compiled = compile_re2(_need_scalar(pattern, "Pattern"))
        new = _need_scalar(rewrite, "Rewrite")
        return map_strings(lambda v: replace(compiled, new, everywhere, v), values)

    return run


@register_kernel("StaticRegexReplace")
def static_regex_replace(k: KernelBuild) -> Kernel:
    compiled, rewrite, everywhere = compile_re2(k.attr("pattern")), k.attr("rewrite"), k.attr("replace_global")
    return lambda values: map_strings(lambda v: replace(compiled, rewrite, everywhere, v), values)


def _matches(pattern: re.Pattern[str], values: Any) -> Any:
    return map_to(lambda v: pattern.fullmatch(_decode(v)) is not None, values, np.bool_)


@register_kernel("RegexFullMatch")
def regex_full_match(k: KernelBuild) -> Kernel:
    return lambda values, pattern: _matches(compile_re2(_need_scalar(pattern, "Pattern")), values)


@register_kernel("StaticRegexFullMatch")
def static_regex_full_match(k: KernelBuild) -> Kernel:
    compiled = compile_re2(k.attr("pattern"))
    return lambda values: _matches(compiled, values)
