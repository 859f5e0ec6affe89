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
by it is not run, and one that has not ended OVER_S later is stopped. Nor are the tests of processes run on a machine
that cannot start processes in the time their limits were made for: there they fail by those limits, one after the
other, and say nothing of a change. What was not run for either reason stands in the last lines, by folder and number.
Servers within a test's own process have such limits, too: on such a machine any test that fails may run once more. And
files that the last commits touched are a round of their own, before all others: to collect nine thousand tests takes
such a machine half its time, and it ends long before all have run.
"""

from __future__ import annotations

import compileall
import contextlib
import json
import math
import os
import re
import signal
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
    *("tests/cluster/", "tests/faults/", "tests/interop/", "tests/lab/", "tests/ray/", "tests/slurm/"),
    *("tests/unit/cli/", "tests/unit/launcher/", "tests/unit/net/", "tests/unit/services/", "tests/unit/train/"),
    "tests/unit/memory/test_other_pythons.py",
)
SOME_FAILED, NONE_RAN = 1, 5
# Phases of a test; a crash of the process it ran in has no name.
FAILED = ("setup", "call", "teardown", "???")
CORES = len(os.sched_getaffinity(0))
AT_A_TIME = min(2 * CORES, 16)
TOGETHER = ("--dist", "loadfile", "--no-loadscope-reorder")
UNTIL = float(os.environ.get("DTF_CHECKS_UNTIL", "inf"))
# Four at once on two cores took 0.4 s where the limits in these tests were tried.
STARTS_S = 1.2
# What failed is run again even when the time is over; it may take so long.
AGAIN_S = 120
# A test that began in time may end so long after it.
OVER_S = 120
# A round of tests that has less time left is not begun.
ROUND_S = 240
# About as many as land together.
COMMITS = 40


def pytest(arguments: list[str], events: Path, until: float = UNTIL) -> int:
    """Run pytest; its exit code. What befalls a test is a line of `events` (tests/conftest.py).

    Raises:
        subprocess.TimeoutExpired: tests were still running OVER_S after `until`; they are killed.
    """
    command = [sys.executable, "-m", "pytest", *arguments]
    environ = {**os.environ, "DTF_TEST_EVENTS": str(events)}
    if not math.isfinite(until):
        return subprocess.run(command, cwd=ROOT, env=environ).returncode
    environ["DTF_CHECKS_UNTIL"] = str(until)
    ran = subprocess.Popen(command, cwd=ROOT, env=environ, start_new_session=True)
    try:
        return ran.wait(max(until + OVER_S - time.time(), 0))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(ran.pid, signal.SIGKILL)


def told(events: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in events.read_text().splitlines()] if events.exists() else []


def tests_that(events: Path, *whens: str) -> set[str]:
    """Name the tests that any of `whens` was told of."""
    return {event["test"] for event in told(events) if event["when"] in whens}


def may_run_again(events: Path, slow: bool) -> list[str]:
    """Give the failed tests if all of them may have a second try; nothing otherwise.

    Args:
        slow: this machine is slower than the limits in tests allow.
    """
    reports = [event for event in told(events) if event["when"] in FAILED]
    tests = sorted({report["test"] for report in reports})
    if len(tests) > LIMIT or any(report["when"] == "teardown" for report in reports):
        return []
    return tests if slow or all(test.startswith(WITH_PROCESSES) for test in tests) else []


def not_reached(events: Path) -> Counter[str]:
    """Count the tests that no time was left for, by folder."""
    tests = tests_that(events, "collected") - tests_that(events, "begun")
    return Counter(test.partition("::")[0].rpartition("/")[0] for test in tests)


def stopped(events: Path) -> set[str]:
    """Name the tests that were running when time was over."""
    return tests_that(events, "begun") - tests_that(events, "passed", "skipped", *FAILED)


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
    together, rounds, said = [*TOGETHER, "-n", str(AT_A_TIME)], [arguments], ""
    if math.isfinite(UNTIL) and (seconds := starts_s()) > STARTS_S:
        said = (
            f"NOT RUN, as {AT_A_TIME} processes took {seconds:.1f} s to start here and these tests need "
            f"{STARTS_S:g} s: {' '.join(WITH_PROCESSES)}"
        )
        print(said, flush=True)
        # Rewriting the asserts of 500 files, to say more when one fails, takes each worker minutes here.
        together = [*TOGETHER, "-n", str(CORES), "--assert=plain", *(f"--ignore={each}" for each in WITH_PROCESSES)]
        newest = [file for file in newest_tests() if not file.startswith(WITH_PROCESSES)]
        if newest and not arguments:
            rounds = [newest, [f"--ignore={file}" for file in newest]]
    elif not arguments and Path("/usr/sbin/sshd").exists():
        compile_packages()
    code = 0
    for each in rounds:
        if each is not rounds[0] and time.time() > UNTIL - ROUND_S:
            said += "\nNOT RUN FOR WANT OF TIME: every test that the last commits did not touch"
        elif code == 0:
            with tempfile.TemporaryDirectory() as folder:
                code = run([*together, *each], Path(folder), slow=bool(said))
            if code == NONE_RAN and each is not rounds[0]:
                code = 0
    if said:
        print(f"\n{said}")
    return code


def run(together: list[str], folder: Path, slow: bool) -> int:
    """Run tests, and once more what may fail beside others.

    Returns:
        pytest's code; where time was over before all had begun, NONE_RAN if none had failed and none passed.
    """
    events = folder / "first"
    try:
        first = pytest(together, events)
    except subprocess.TimeoutExpired:
        first = SOME_FAILED if tests_that(events, *FAILED) else 0 if tests_that(events, "passed") else NONE_RAN
        print("\nSTOPPED, AS TIME WAS OVER, IN:", *sorted(stopped(events)), sep="\n  ", flush=True)
    left = [f"  {count:5} of {where}" for where, count in sorted(not_reached(events).items())]
    if left:
        print("\nNOT RUN FOR WANT OF TIME:", *left, sep="\n", flush=True)
    tests = may_run_again(events, slow) if first == SOME_FAILED else []
    if not tests:
        return first
    print("\nFAILED BESIDE OTHERS; once more, alone:\n  " + "\n  ".join(tests), flush=True)
    try:
        second = pytest(["-n", "0", "-v", *tests], folder / "second", max(UNTIL, time.time() + AGAIN_S))
    except subprocess.TimeoutExpired:
        return first
    if second == 0 and not not_reached(folder / "second"):
        print("\nFAILED BESIDE OTHERS, PASSED ALONE (a fault all the same):\n  " + "\n  ".join(tests), flush=True)
        return second
    return second or first


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
