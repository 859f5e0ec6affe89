"""What tests.interop.tf_own_tests has found, as text."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDERS = ("kernel_tests", "ops", "data/kernel_tests", "training", "client", "saved_model", "summary")
Results = dict[str, Any]
# A reason names at most so many tests.
_NAMED = 3


def read_results(out: Path) -> dict[str, Results]:
    """Read the results of every file that was run, by its name under tensorflow/python."""
    paths = sorted((out / "results").glob("*.json"))
    return {path.stem.replace("__", "/"): json.loads(path.read_text()) for path in paths}


def is_judged(record: Results) -> bool:
    """Tell whether a test ran steps here to its end, and stock TensorFlow passes it."""
    ended = record["ours"] not in ("skip", "killed", "not run")
    return bool(record["steps"] > 0 and ended and record.get("stock", "pass") == "pass")


def counts(results: Mapping[str, Results]) -> tuple[int, int, int, int]:
    """Return how many files are judged, how many of them are at par, how many tests stock passes, and of these ours."""
    files = at_par = tests = passed = 0
    for result in results.values():
        judged = [record for record in result["tests"].values() if is_judged(record)]
        good = sum(record["ours"] == "pass" for record in judged)
        files += bool(judged)
        at_par += bool(judged) and good == len(judged)
        tests += len(judged)
        passed += good
    return files, at_par, tests, passed


def table(results: Mapping[str, Results]) -> list[str]:
    """Say per folder how many files and tests were judged, and how many are at par."""
    lines = ["| folder | files | judged | at par | tests judged | pass here | |", "|---|" + "---:|" * 6]
    for folder in (*FOLDERS, ""):
        mine = {file: result for file, result in results.items() if file.startswith(folder)}
        files, at_par, tests, passed = counts(mine)
        share = f"{100 * passed / tests:.1f} %" if tests else ""
        lines.append(f"| {folder or '**all**'} | {len(mine)} | {files} | {at_par} | {tests:,} | {passed:,} | {share} |")
    return lines


def _reason(why: str) -> str:
    """Return what an error says without names and numbers, so that tests with one cause stand together."""
    kind, _, text = why.partition(": ")
    text = re.split(r"\nNode: [^\n]*\n", text)[-1]
    why = f"{kind}: " + re.split(r"\n\nOriginal stack|\nErrors may have|\nDefined at", text)[0]
    why = re.sub(r"\[\[[^\]]*\]\]|\{\{[^}]*\}\}|0x[0-9a-f]+", "", why)
    why = re.sub(r"-?\d+(\.\d+)?(e[-+]?\d+)?", "N", why)
    return " ".join(why.split())[:200].replace("|", "/")


def reasons(results: Mapping[str, Results]) -> list[str]:
    """List the tests that stock TensorFlow passes and we do not, by what they say."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for file, result in results.items():
        for name, record in result["tests"].items():
            if is_judged(record) and record["ours"] != "pass":
                groups[_reason(record["why"])][f"{file}: {name}"] += 1
    lines = ["| tests | what they say | such as |", "|---:|---|---|"]
    for why, where in sorted(groups.items(), key=lambda group: -sum(group[1].values())):
        lines.append(f"| {sum(where.values())} | {why} | {', '.join(list(where)[:_NAMED])} |")
    return lines


def unjudged(results: Mapping[str, Results]) -> list[str]:
    """List the files of which no test is judged, and those that were cut off."""
    none = {file: r for file, r in results.items() if not any(map(is_judged, r["tests"].values()))}
    broken = [file for file, r in none.items() if r["end"].startswith("exit")]
    eager = [file for file in none if file not in broken]
    cut = [f"{file} ({r['end']}, {len(r['tests'])} of {r['found']} run)" for file, r in results.items()]
    return [
        f"{len(eager)} files without a step in a session: {', '.join(eager)}",
        "",
        f"{len(broken)} files that do not start: {', '.join(broken)}",
        "",
        f"Cut off: {', '.join(text for text in cut if '(done' not in text and '(exit' not in text)}",
    ]
