"""UnicodeDecode, UnicodeEncode, UnicodeTranscode and UnicodeScript."""

from __future__ import annotations

import codecs
import itertools
import json
from functools import lru_cache
from importlib import resources
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.array.common import vector
from dtfctl.runtime.kernels.pieces import array_of, each, look
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.elementwise import map_strings

# (code point, bytes it took, whether it stands for malformed input)
Character = tuple[int, int, bool]
_WINDOW = 4096
"""Bytes that are decoded at a time: a long string that is malformed everywhere takes no longer than another."""
_OUTPUT = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}


def _codec(name: str, node: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise InvalidArgumentError(f"Could not create converter for input encoding: {name}", node) from None


def characters(value: bytes, codec: str) -> list[Character]:
    """Decode a string to code points; each malformed part is one U+FFFD."""
    if codec in ("utf-16", "utf-32"):
        return _with_mark(value, codec)
    out: list[Character] = []
    at = 0
    while at < len(value):
        look()
        window = value[at : at + _WINDOW]
        try:
            good, bad = window.decode(codec), 0
        except UnicodeDecodeError as e:
            good, bad = window[: e.start].decode(codec), e.end - e.start
            if good and at + len(window) < len(value):
                # What is cut off by the window's end may be whole in the next one.
                bad = 0
        for char in good:
            size = len(char.encode(codec))
            out.append((ord(char), size, False))
            at += size
        if not bad:
            continue
        if codec == "cp1252":
            # Bytes the code page leaves out are control characters, as ICU has it.
            out.append((value[at], 1, False))
            at += 1
            continue
        out.append((0xFFFD, bad, True))
        at += bad
    return out


def _with_mark(value: bytes, codec: str) -> list[Character]:
    width = 2 if codec == "utf-16" else 4
    order = "be"
    mark = value[:width]
    if mark == "\ufeff".encode(f"{codec}-le"):
        order = "le"
    elif mark != "\ufeff".encode(f"{codec}-be"):
        return characters(value, f"{codec}-be")
    found = characters(value[width:], f"{codec}-{order}")
    if found:
        found[0] = (found[0][0], found[0][1] + width, found[0][2])
    return found


class _ErrorPolicy:
    """What to do with malformed input and control characters, from the node's attributes."""

    def __init__(self, k: KernelBuild) -> None:
        self.policy = k.text_attr("errors")
        self.substitute = k.attr("replacement_char")
        self.control = bool(k.attr("replace_control_characters", False))
        if not 0 <= self.substitute <= 0x10FFFF:
            raise InvalidArgumentError("replacement_char out of unicode codepoint range", k.node.name)

    def apply(self, found: list[Character], control_is_error: bool = False) -> list[tuple[int, int]]:
        """(code point, bytes) of what is kept; a dropped character's bytes are counted with none.

        Raises:
            InvalidArgumentError: the input is malformed and the policy is "strict".
        """
        out = []
        for code, size, malformed in each(found):
            if malformed or (self.control and code <= 0x1F):
                if self.policy == "strict" and (malformed or control_is_error):
                    raise InvalidArgumentError("Invalid formatting on input string")
                if self.policy == "ignore":
                    out.append((-1, size))
                    continue
                code = self.substitute
            out.append((code, size))
        return out


@register_kernel("UnicodeTranscode", pieces=True)
def unicode_transcode(k: KernelBuild) -> Kernel:
    source, target = _codec(k.text_attr("input_encoding"), k.node.name), _OUTPUT[k.text_attr("output_encoding")]
    policy = _ErrorPolicy(k)

    def transcode(value: bytes) -> bytes:
        codes = [c for c, _ in policy.apply(characters(value, source), control_is_error=True) if c >= 0]
        return "".join(map(chr, codes)).encode(target, "surrogatepass")

    return lambda x: map_strings(transcode, x)


@register_kernel(("UnicodeDecode", "UnicodeDecodeWithOffsets"), pieces=True)
def unicode_decode(k: KernelBuild) -> Kernel:
    source = _codec(k.text_attr("input_encoding"), k.node.name)
    policy, splits_type = _ErrorPolicy(k), k.dtype("Tsplits").np
    offsets = k.node.op.endswith("Offsets")

    def run(values: Any) -> Any:
        codes: list[int] = []
        starts: list[int] = []
        splits = [0]
        for value in each(values):
            at = 0
            for code, size in each(policy.apply(characters(value, source))):
                if code >= 0:
                    codes.append(code)
                    starts.append(at)
                at += size
            splits.append(len(codes))
        out = (array_of(splits, splits_type), array_of(codes, np.int32))
        return (*out, array_of(starts, np.int64)) if offsets else out

    return run


@register_kernel("UnicodeEncode", pieces=True)
def unicode_encode(k: KernelBuild) -> Kernel:
    target, policy = _OUTPUT[k.text_attr("output_encoding")], _ErrorPolicy(k)

    def run(values: Any, splits: Any) -> Any:
        if values.ndim != 1 or splits.ndim != 1:
            raise InvalidArgumentError("Both the input_tensor and input_splits should be of rank 1. ")
        ends = vector(splits, "input_splits")
        if not ends:
            raise InvalidArgumentError("Input_splits should contain elements, but was empty")
        if ends[0] != 0:
            raise InvalidArgumentError(f"First value in input_splits must be zero, got {ends[0]}")
        for a, b in itertools.pairwise(ends):
            if b < a:
                raise InvalidArgumentError(f"Values in input_splits must be equal or in ascending order, got {a},{b}")
            if b > values.size:
                raise InvalidArgumentError(
                    f"Values in input_splits must be less than or equal to input_values length, got {b} > {values.size}"
                )
        found = [(c, 1, not (0 <= c <= 0x10FFFF) or 0xD800 <= c <= 0xDFFF) for c in each(values)]
        out = []
        for a, b in each(itertools.pairwise(ends)):
            try:
                kept = policy.apply(found[a:b])
            except InvalidArgumentError:
                raise InvalidArgumentError("Code point is out of range for Unicode, or is a surrogate.") from None
            out.append("".join(chr(c) for c, _ in kept if c >= 0).encode(target, "surrogatepass"))
        return object_array(out, (len(out),))

    return run


@lru_cache(maxsize=1)
def _script_ranges() -> tuple[Any, Any]:
    """Starts of the ranges of code points that share a script, and ICU's numbers of those scripts."""
    text = resources.files("dtfctl.runtime.kernels.string").joinpath("unicode_scripts.json").read_text()
    rows = np.array(json.loads(text), np.int32)
    return rows[:, 0], rows[:, 1]


@register_kernel("UnicodeScript")
def unicode_script(k: KernelBuild) -> Kernel:
    def run(codes: Any) -> Any:
        starts, scripts = _script_ranges()
        found = scripts[np.searchsorted(starts, codes.reshape(-1), "right") - 1]
        inside = (codes >= 0) & (codes <= 0x10FFFF)
        return np.where(inside, found.reshape(codes.shape), -1).astype(np.int32)

    return run
