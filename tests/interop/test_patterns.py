"""Regular expressions give what stock TensorFlow gives: random patterns, rewrites and texts, many malformed."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import run_op

GOOD = ["a", "b", "é", ".", "[^a]", "[[:alpha:]]", r"\s", r"\pL", r"\b", "^", "$", r"\z", "(a)", "(?:b|)", "(?i:B)"]
GOOD += ["(?s).", r"\x{e9}", r"\C", "|", r"\Q.\E", "(?U)a+", "(b)"]
ATOMS = GOOD * 4 + ["(?m)^", "[", "(", ")", "*", "{2,1}", "{2}", r"\1", "\xff"]
REPEATS = [*["", "*", "+", "?", "*?", "{2}", "{0,2}"] * 3, "**"]
PIECES = [r"\0", r"\1", r"\2", "x", "", "\\\\", r"\z", "\\"]
LETTERS = [b"a", b"b", "é".encode(), b"\n", b" ", b"\xff", b"\xc3", "€".encode(), b"B", b"\x00"]


def make_cases(count: int, seed: int) -> list[list[object]]:
    rng = random.Random(seed)
    cases: list[list[object]] = []
    for _ in range(count):
        pattern = "".join(rng.choice(ATOMS) + rng.choice(REPEATS) for _ in range(rng.randint(1, 4)))
        raw = pattern.encode("latin-1" if rng.random() < 0.1 else "utf-8")
        rewrite = "".join(rng.choice(PIECES) for _ in range(rng.randint(0, 3)))
        text = b"".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 6)))
        op = rng.choice(["replace", "replace", "match"])
        cases.append([op, raw.decode("latin-1"), rewrite, rng.random() < 0.7, text.decode("latin-1")])
    return cases


def ours(op: str, pattern: str, rewrite: str, everywhere: bool, text: str) -> str:
    value = np.array([text.encode("latin-1")], object)
    scalars = [np.array(item.encode("latin-1"), object) for item in (pattern, rewrite)]
    try:
        if op == "match":
            return str(bool(run_op("RegexFullMatch", value, scalars[0])[0]))
        return run_op("RegexReplace", value, *scalars, replace_global=everywhere)[0].decode("latin-1")
    except InvalidArgumentError:
        return "InvalidArgument"


def test_patterns_mean_what_they_mean_to_tensorflow(tensorflow_python: str, tmp_path: Path) -> None:
    cases = make_cases(600, 7)
    (tmp_path / "cases").write_text(json.dumps(cases))
    script = Path(__file__).with_name("stock_patterns.py")
    subprocess.run(
        [tensorflow_python, str(script), str(tmp_path / "cases"), str(tmp_path / "answers")],
        check=True,
        capture_output=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        timeout=280,
    )
    theirs = json.loads((tmp_path / "answers").read_text())
    assert len(set(theirs)) > 20 and theirs.count("InvalidArgument") < len(theirs) / 2
    wrong = [(case, ours(*case), want) for case, want in zip(cases, theirs) if ours(*case) != want]  # type: ignore[arg-type]
    assert not wrong
