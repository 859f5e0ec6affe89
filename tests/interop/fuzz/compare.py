"""Compare what random programs do here with what they do with TensorFlow.

    python -m tests.interop.fuzz.compare --judge PYTHON [--first N] [--count N] [--show N]

Two processes run the same programs, one with each front end; the first thing that differs in a program is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.fuzz.run import NO_VALUE

ROOT = Path(__file__).resolve().parents[3]
# What sums up float32 differently, through up to twenty ops.
RELATIVE, ABSOLUTE = 1e-3, 1e-4
# What one op does here and several do in TensorFlow, or the other way round: the result has another name.
OTHER_NAMES = frozenset(
    [
        "argsort",
        "assigned",
        "atrous_conv2d",
        "gather",
        "linspace",
        "meshgrid",
        "repeat",
        "nn.silu",
        "nn.swish",
        "piecewise_constant",
        "saturate_cast",
        "sequence_mask",
        "size",
        "softmax_cross_entropy",
        "cross",
        "sort",
        "linalg.expm",
        "linalg.slogdet",
        "matrix_determinant",
        "embedding_lookup",
    ]
)


def start(python: str, out: Path, first: int, count: int, ours: bool) -> subprocess.Popen[bytes]:
    """Start a process that runs some of the programs and writes a line of JSON for each."""
    return subprocess.Popen(
        [python, "-m", "tests.interop.fuzz.run", str(out), str(first), str(count)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if not ours else None,
        cwd=ROOT,
        env={
            **os.environ,
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "CUDA_VISIBLE_DEVICES": "",
            "TF_USE_LEGACY_KERAS": "1",
            **({"DTF_FUZZ_OURS": "1"} if ours else {}),
        },
    )


def read(out: Path) -> dict[int, Any]:
    return dict(map(json.loads, out.read_text().splitlines()))


def close(a: Any, b: Any) -> bool:
    """Whether two records are the same but for rounding."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    if isinstance(a, float) or isinstance(b, float):
        return type(a) is type(b) and bool(np.isclose(a, b, RELATIVE, ABSOLUTE, equal_nan=True))
    return bool(a == b)


# Calls that fail with TypeError here and with ValueError or another kind there, or the other way round; `float` of a
# resource variable asks there for an attribute of its own that is not there.
OTHER_ERRORS = frozenset(["float", "zeros", "conv2d", "range", "[tensor]", "dense", "normalized", "tensordot"])


def as_known(mine: Any, theirs: Any) -> bool:
    """Whether a static shape says all that TensorFlow's does; it may say more."""
    if theirs is None or mine is None:
        return theirs is None
    return len(mine) == len(theirs) and all(t is None or m == t for m, t in zip(mine, theirs))


_STATIC = re.compile(r"(?<=[a-z0-9])(?:<unknown>|\([0-9?, ]*\))(?= |$)")


def _same_call(mine: str, theirs: str) -> bool:
    """Whether calls in a body are the same; what they made may have a static shape that says more."""
    pairs = zip(_STATIC.findall(mine), _STATIC.findall(theirs))
    return _STATIC.sub("", mine) == _STATIC.sub("", theirs) and all(as_known(_dims(m), _dims(t)) for m, t in pairs)


def _dims(said: str) -> list[int | None] | None:
    if said == "<unknown>":
        return None
    return [None if n == "?" else int(n) for n in re.findall(r"\d+|\?", said)]


def _slopes(ours: Any, theirs: Any) -> Any:
    """Leave out how two gradients are kept, and static shapes where ours says as much."""
    if ours and isinstance(ours[0], list) and isinstance(theirs[0], list) and as_known(ours[0][2], theirs[0][2]):
        return [ours[0][1], ours[1]], [theirs[0][1], theirs[1]]
    return ours, theirs


def _by_name(records: Any) -> dict[str, Any]:
    """Records by their names, which may be there twice."""
    found: dict[str, Any] = {}
    for what, *record in records:
        while what in found:
            what += "'"
        found[what] = record
    return found


def _unlike_values(have: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """Static shapes that the values have not: where they say more than TensorFlow's they must be right."""
    for what, got in have["values"]:
        made = have["items"][int(what.split()[0])][2]
        for (name, _, static), value in zip((m for m in made if m[0]), got if isinstance(got, list) else ()):
            if not as_known(value[0], static):
                yield "shape of the value", f"{what} {name}", static, value[0]
    for what, kind, got in have["gradients"]:
        if isinstance(kind, list) and isinstance(got, list) and not as_known(got[0][0], kind[2]):
            yield "shape of the value", what, kind[2], got[0][0]


def differences(have: Any, want: Any) -> Iterator[tuple[str, str, Any, Any]]:
    """What is not the same in one program: (kind, which item, ours, TensorFlow's)."""
    if "broke" in want:
        # TensorFlow's graph of gradients is refused by TensorFlow itself: branches in loops of another type.
        return
    if "broke" in have:
        yield "broke", "", have["broke"], None
        return
    failed = {int(what.split()[0]) for what, got in want["values"] if isinstance(got, str)}
    early = set()
    for i, (mine, theirs) in enumerate(zip(have["items"], want["items"])):
        if not _same_call(mine[0], theirs[0]):
            yield "path", theirs[0], mine, theirs
            return
        if mine[1] and theirs[1] and theirs[0].split()[0] in OTHER_ERRORS:
            continue
        if mine[1] and not theirs[1] and i in failed:
            # More is known here of a shape: what cannot be is refused before it fails in a step.
            early.add(f"{i} {theirs[0]}")
            continue
        if mine[1] != theirs[1] or len(mine[2]) != len(theirs[2]):
            yield "error", theirs[0], mine[1:], theirs[1:]
            continue
        for (name, dtype, shape), (their_name, their_dtype, their_shape) in zip(mine[2], theirs[2]):
            if dtype != their_dtype:
                yield "dtype", theirs[0], dtype, their_dtype
            if not as_known(shape, their_shape):
                yield "shape", theirs[0], shape, their_shape
            if name != their_name and theirs[0].split()[0] not in OTHER_NAMES:
                yield "name", theirs[0], name, their_name
    yield from _unlike_values(have)
    grows = any(item[0].endswith("while_loop that grows") for item in want["items"])
    # Which variables a step has trained when it fails is as it happens.
    for part in ("values", "gradients", "impure", *([] if want["trained"] else ["variables"])):
        found = _by_name(have[part])
        for what, theirs in _by_name(want[part]).items():
            ours = found.pop(what, None)
            if grows and part == "gradients" and theirs == ["ValueError", []]:
                # TensorFlow has no gradient of a loop that grows to a size that is known after it.
                found = {name: record for name, record in found.items() if not name.startswith(what)}
                continue
            if theirs[-1] == NO_VALUE or what in early:
                continue
            if part == "gradients":
                ours, theirs = _slopes(ours, theirs)
            if not close(ours, theirs):
                yield part, what, ours, theirs
        for what, ours in found.items():
            yield part, what, ours, None
    if have["trained"] != want["trained"]:
        yield "trained", "", have["trained"], want["trained"]


def main(arguments: list[str]) -> int:
    """Run the comparison; exit 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--judge", default=os.environ.get("DTF_TEST_TENSORFLOW", "python3"), help="a Python with TensorFlow"
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--show", type=int, default=2, help="differences to show of a program")
    parser.add_argument("--keep", type=Path, help="a folder for what was found, and to take TensorFlow's results from")
    options = parser.parse_args(arguments)
    folder = options.keep or Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    span = f"{options.first}-{options.count}"
    here, there = folder / f"ours-{span}", folder / f"theirs-{span}"
    running = [start(sys.executable, here, options.first, options.count, ours=True)]
    if not there.exists():
        running.append(start(options.judge, there, options.first, options.count, ours=False))
    for process in running:
        _, said = process.communicate()
        if process.returncode:
            print((said or b"").decode()[-3000:])
            return 2
    mine, theirs = read(here), read(there)
    kinds: Counter[str] = Counter()
    bad = 0
    for number, want in theirs.items():
        found = list(differences(mine[number], want))
        bad += bool(found)
        for kind, what, ours, judged in found[: options.show]:
            print(f"{number}: {kind}: {what}\n   ours   {str(ours)[:400]}\n   theirs {str(judged)[:400]}")
        kinds.update({f"{kind}: {' '.join(what.split()[:2])}" for kind, what, _, _ in found})
    print(f"\n{bad} of {len(theirs)} programs differ")
    for kind, n in kinds.most_common():
        print(f"  {n:4} {kind}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
