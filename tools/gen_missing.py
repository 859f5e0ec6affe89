"""Write the last section of docs/coming-from-tensorflow-1.md: TensorFlow's names that are not here, what to use.

python tools/gen_missing.py            write it
python tools/gen_missing.py --check    exit 1 when it is out of date
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import dtfctl.runtime as tf
from dtfctl.runtime.api import missing

TARGET = Path(__file__).resolve().parent.parent / "docs" / "coming-from-tensorflow-1.md"
MARK = "<!-- missing: made by tools/gen_missing.py; do not edit -->\n"
OLDER = ("contrib", "estimator", "examples")
"""What TensorFlow 1 had and 2.21 has not."""


MISSING = object()


def is_here(name: str) -> bool:
    """Whether `tf.NAME` is there."""
    found: Any = tf
    for word in name.split("."):
        # `tf.newaxis` is None and there.
        found = getattr(found, word, MISSING)
        if found is MISSING:
            return False
    return True


def section() -> str:
    """The section's text."""
    names = missing.tensorflow_names()
    absent = sorted(n for n in names if not is_here(n))
    below: dict[str, list[str]] = defaultdict(list)
    for name in absent:
        words = name.split(".")
        beginnings = [".".join(words[:count]) for count in range(1, len(words))]
        whole = next((b for b in beginnings if b in absent), None)
        below[f"{whole}." if whole else ".".join(words[:-1])].append(words[-1])
    spaces = {key[:-1] for key in below if key.endswith(".")}
    lines = [
        f"Compared with the {len(names):,} names of `tensorflow.compat.v1` in TensorFlow 2.21: ",
        f"{len(names) - len(absent):,} are here, {len(absent):,} are not. ",
        "[api.md](api.md) describes those that are.\n\n",
        "| not there | instead |\n|---|---|\n",
    ]
    for space in sorted([*spaces, *(name for name in OLDER if not is_here(name))]):
        count = len(below.get(f"{space}.", []))
        what = f"all of `tf.{space}`" + (f" ({count} names)" if count else "")
        lines.append(f"| {what} | {missing.instead_of(space) or '`tf.raw_ops`'} |\n")
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for space, words in below.items():
        for word in () if space.endswith(".") else words:
            name = f"{space}.{word}" if space else word
            if name not in spaces:
                rows[space, missing.instead_of(name) or "`tf.raw_ops`"].append(name)
    for (_, instead), found in sorted(rows.items()):
        lines.append(f"| {', '.join(f'`tf.{name}`' for name in found)} | {instead} |\n")
    return "".join(lines)


def main() -> int:
    """Write or check."""
    old = TARGET.read_text()
    new = old[: old.index(MARK) + len(MARK)] + section()
    if "--check" in sys.argv[1:]:
        if new != old:
            print(f"{TARGET.name} is out of date: run python tools/gen_missing.py", file=sys.stderr)
        return int(new != old)
    TARGET.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
