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

`.ci/run` gives checks a time of day to end by (DTF_CHECKS_UNTIL, seconds since 1970). Then a test that has not begun
by it is not run. Nor are the tests of processes on a machine that cannot start processes in the time their limits were
made for: there they fail by those limits, one after the other, and say nothing of a change. What was not run for either
reason stands in the last lines, by folder and number. Servers within a test's own process have such limits, too: on
such a machine any test that fails may run once more; and files that the last commits touched go first, as time ends
long before all have run.
"""

from __future__ import annotations

import compileall
import json
import math
import os
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 4
WITH_PROCESSES = (
    *("tests/cluster/", "tests/faults/", "tests/interop/", "tests/lab/"),
    *("tests/unit/cli/", "tests/unit/launcher/", "tests/unit/net/", "tests/unit/services/", "tests/unit/train/"),
)
SOME_FAILED = 1
CORES = len(os.sched_getaffinity(0))
AT_A_TIME = min(2 * CORES, 16)
TOGETHER = ("--dist", "loadfile", "--no-loadscope-reorder")
UNTIL = float(os.environ.get("DTF_CHECKS_UNTIL", "inf"))
# Four at once on two cores took 0.4 s where the limits in these tests were tried.
STARTS_S = 1.2
# What failed is run again even when the time is over; it may take so long.
AGAIN_S = 120
# About as many as land together.
COMMITS = 40


def pytest(arguments: list[str], failures: Path, until: float = UNTIL) -> int:
    """Run pytest; its exit code. Each failed report is a line of `failures` (tests/conftest.py)."""
    command = [sys.executable, "-m", "pytest", *arguments]
    environ = {**os.environ, "DTF_TEST_FAILURES": str(failures)}
    if math.isfinite(until):
        environ["DTF_CHECKS_UNTIL"] = str(until)
    return subprocess.run(command, cwd=ROOT, env=environ).returncode


def told(failures: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in failures.read_text().splitlines()] if failures.exists() else []


def may_run_again(failures: Path, slow: bool) -> list[str]:
    """Give the failed tests if all of them may have a second try; nothing otherwise.

    Args:
        slow: this machine is slower than the limits in tests allow.
    """
    reports = [report for report in told(failures) if report["when"] != "no time"]
    tests = sorted({report["test"] for report in reports})
    if len(tests) > LIMIT or any(report["when"] == "teardown" for report in reports):
        return []
    return tests if slow or all(test.startswith(WITH_PROCESSES) for test in tests) else []


def not_reached(failures: Path) -> Counter[str]:
    """Count the tests that no time was left for, by folder."""
    tests = {report["test"] for report in told(failures) if report["when"] == "no time"}
    return Counter(test.partition("::")[0].rpartition("/")[0] for test in tests)


def newest_tests() -> list[str]:
    """Name the files of tests that the last commits touched, newest first; none where there is no history."""
    command = ["git", "log", "-n", str(COMMITS), "--format=", "--name-only", "--", "tests"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split("\n")
    return [file for file in dict.fromkeys(told) if Path(file).name.startswith("test_") and (ROOT / file).exists()]


def starts_s() -> float:
    """Measure how many seconds AT_A_TIME processes of ours take to start beside each other: the median of five rounds.

    Ends when three rounds say the same of STARTS_S. One before them compiles what is imported, where that is needed.
    """
    rounds: list[float] = []
    _start_together()
    while sum(each > STARTS_S for each in rounds) < 3 and sum(each <= STARTS_S for each in rounds) < 3:
        rounds.append(_start_together())
    return statistics.median(rounds)


def _start_together() -> float:
    begun = time.monotonic()
    started = [subprocess.Popen([sys.executable, "-c", "import dtfctl.cli.app"], cwd=ROOT) for _ in range(AT_A_TIME)]
    codes = [process.wait() for process in started]
    if any(codes):
        raise SystemExit("dtfctl cannot be imported: what Python says stands above")
    return time.monotonic() - begun


def compile_packages() -> None:
    """Compile what is installed here: `up` sends hosts bytecode, and would compile it for each lab of the tests.

    What is no source of this Python is passed by, as pip passes it by: packages carry some.
    """
    for folder in (sysconfig.get_path("purelib"), ROOT / "dtfctl"):
        compileall.compile_dir(folder, quiet=2, workers=0, rx=re.compile(r"/(pip|setuptools)/"))


def main(arguments: list[str]) -> int:
    together, said = [*TOGETHER, "-n", str(AT_A_TIME)], ""
    if math.isfinite(UNTIL) and (seconds := starts_s()) > STARTS_S:
        said = (
            f"NOT RUN, as {AT_A_TIME} processes took {seconds:.1f} s to start here and these tests need "
            f"{STARTS_S:g} s: {' '.join(WITH_PROCESSES)}"
        )
        print(said, flush=True)
        # Rewriting the asserts of 500 files, to say more when one fails, takes each worker minutes here.
        os.environ["DTF_TEST_NEWEST"] = " ".join(newest_tests())
        together = [*TOGETHER, "-n", str(CORES), "--assert=plain", *(f"--ignore={each}" for each in WITH_PROCESSES)]
    elif not arguments and Path("/usr/sbin/sshd").exists():
        compile_packages()
    with tempfile.TemporaryDirectory() as folder:
        code = run(together, arguments, Path(folder), slow=bool(said))
        if left := not_reached(Path(folder) / "first"):
            print(
                "\nNOT RUN FOR WANT OF TIME:",
                *(f"  {count:5} of {where}" for where, count in sorted(left.items())),
                sep="\n",
            )
    if said:
        print(f"\n{said}")
    return code


def run(together: list[str], arguments: list[str], folder: Path, slow: bool) -> int:
    first = pytest([*together, *arguments], folder / "first")
    tests = may_run_again(folder / "first", slow) if first == SOME_FAILED else []
    if not tests:
        return first
    print("\nFAILED BESIDE OTHERS; once more, alone:\n  " + "\n  ".join(tests), flush=True)
    second = pytest(["-n", "0", "-v", *tests], folder / "second", max(UNTIL, time.time() + AGAIN_S))
    if second == 0 and not not_reached(folder / "second"):
        print("\nFAILED BESIDE OTHERS, PASSED ALONE (a fault all the same):\n  " + "\n  ".join(tests), flush=True)
        return second
    return second or first


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
