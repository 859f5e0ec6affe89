"""Run every test; a few that start processes may fail beside others if they pass alone, and are named at the end.

    python tools/run_tests.py [what pytest takes]

Twice as many tests run at a time as there are cores: those that start processes mostly wait. A file's tests stay
together, so its clusters and labs are made once, and the files of processes come first (tests/conftest.py).

A thousand tests here start controllers, agents, SSH servers and tasks, and kill and freeze them. One that fails once in
a thousand runs would refuse every second change of something else. So what fails, if it is at most LIMIT tests and all
of them start processes, runs once more, one after the other. Whatever fails then has failed; so have tests in one
process, errors while something is taken down, and processes that are left behind. What passes the second time is a
fault all the same, of the product or of the test: its first failure stands in full above, and its name in the last
lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 4
WITH_PROCESSES = (
    *("tests/cluster/", "tests/faults/", "tests/interop/", "tests/lab/"),
    *("tests/unit/cli/", "tests/unit/launcher/", "tests/unit/net/", "tests/unit/services/", "tests/unit/train/"),
)
SOME_FAILED = 1
AT_A_TIME = min(2 * len(os.sched_getaffinity(0)), 16)
TOGETHER = ("-n", str(AT_A_TIME), "--dist", "loadfile", "--no-loadscope-reorder")


def pytest(arguments: list[str], failures: Path) -> int:
    """Run pytest; its exit code. Each failed report is a line of `failures` (tests/conftest.py)."""
    command = [sys.executable, "-m", "pytest", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "DTF_TEST_FAILURES": str(failures)}).returncode


def may_run_again(failures: Path) -> list[str]:
    """Give the failed tests if all of them may have a second try; nothing otherwise."""
    reports = [json.loads(line) for line in failures.read_text().splitlines()] if failures.exists() else []
    tests = sorted({report["test"] for report in reports})
    if len(tests) > LIMIT or any(report["when"] == "teardown" for report in reports):
        return []
    return tests if all(test.startswith(WITH_PROCESSES) for test in tests) else []


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        first = pytest([*TOGETHER, *arguments], Path(folder) / "first")
        tests = may_run_again(Path(folder) / "first") if first == SOME_FAILED else []
        if not tests:
            return first
        print("\nFAILED BESIDE OTHERS; once more, alone:\n  " + "\n  ".join(tests), flush=True)
        second = pytest(["-n", "0", "-v", *tests], Path(folder) / "second")
    if second == 0:
        print("\nFAILED BESIDE OTHERS, PASSED ALONE (a fault all the same):\n  " + "\n  ".join(tests), flush=True)
    return second


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
