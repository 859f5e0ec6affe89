"""Code that pages of the documentation show, for those who run it as it stands there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def code_of(page: str, heading: str, language: str) -> tuple[str, ...]:
    """The blocks of one language below a heading of `docs/PAGE`, up to the next heading of its level."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    below = re.split(rf"^## {re.escape(heading)}$", text, maxsplit=1, flags=re.MULTILINE)[1]
    section = re.split(r"^## ", below, maxsplit=1, flags=re.MULTILINE)[0]
    return tuple(re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def fused_code(op: str) -> str:
    """The block of docs/custom-ops.md that registers a fused op."""
    (found,) = (code for code in code_of("custom-ops.md", "One kernel for several ops", "python") if f'"{op}"' in code)
    return found


def c_command() -> list[str]:
    """The command that the page gives to compile its C source, `norms.c`."""
    page = (ROOT / "docs" / "custom-ops.md").read_text("utf-8")
    (found,) = re.findall(r"`(cc [^`]* norms\.c)`", page)
    return str(found).split()


def c_code() -> str:
    """The C source that the page's kernel by cffi calls."""
    (found,) = code_of("custom-ops.md", "One kernel for several ops", "c")
    return found
