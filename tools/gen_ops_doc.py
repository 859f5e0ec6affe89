"""Write docs/ops.md, the table of ops with kernels, from the registries.

python tools/gen_ops_doc.py            write it
python tools/gen_ops_doc.py --check    exit 1 when it is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path

from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.op_signature import find_signature, op_family
from dtfctl.runtime.framework.registries import has_gradient
from dtfctl.runtime.kernels.registry import FLOATS, NUMBERS, REALS, KernelSpec, load_all_kernels

TARGET = Path(__file__).resolve().parent.parent / "docs" / "ops.md"

_GROUPS = (
    (frozenset(NUMBERS), "numbers"),
    (frozenset(REALS), "reals"),
    (frozenset(FLOATS), "floats"),
)

_HEAD = """\
<!-- Made by tools/gen_ops_doc.py from the op and kernel registries; do not edit. -->
# Ops

{count} op types have kernels here, with TensorFlow's names, attributes and semantics. A type attribute that is not
listed takes every type the op's signature allows. *floats* are bfloat16, half, float and double; *reals* add the
integers from 8 to 64 bits, signed and unsigned; *numbers* add complex64 and complex128. *gradient* says that
`tf.gradients` goes through the op.

An op that is not in the table fails when a graph that uses it is created, and the error names it.
[custom-ops.md](custom-ops.md) shows how to add one.
"""


def _types(types: frozenset[DType]) -> str:
    for group, name in _GROUPS:
        if group <= types:
            rest = types - group
            return ", ".join([name, *sorted(t.name for t in rest)])
    return ", ".join(sorted(t.name for t in types))


def _row(op: str, specs: list[KernelSpec]) -> str:
    devices = sorted({d for s in specs for d in s.devices})
    allowed: dict[str, frozenset[DType]] = {}
    for spec in specs:
        for attr, types in spec.types.items():
            allowed[attr] = allowed.get(attr, frozenset()) | types
    shown = "; ".join(f"{attr}: {_types(types)}" for attr, types in sorted(allowed.items()))
    return f"| {op} | {shown} | {' '.join(devices)} | {'yes' if has_gradient(op) else ''} |"


def document() -> str:
    kernels = {op: specs for op, specs in load_all_kernels().items() if find_signature(op) is not None}
    families: dict[str, list[str]] = defaultdict(list)
    for op in sorted(kernels):
        families[op_family(op)].append(op)
    out = [_HEAD.format(count=len(kernels))]
    for family in sorted(families):
        ops = families[family]
        out += [f"## {family} ({len(ops)})\n", "| op | types | devices | gradient |", "|---|---|---|---|"]
        out += [_row(op, kernels[op]) for op in ops]
        out.append("")
    return "\n".join(out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    text = document()
    if not parser.parse_args().check:
        TARGET.write_text(text)
        return 0
    if not TARGET.exists() or TARGET.read_text() != text:
        print("docs/ops.md is out of date: run python tools/gen_ops_doc.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
