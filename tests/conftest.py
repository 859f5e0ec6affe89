"""Fixtures of every test: an own home for clusters, and no process left behind."""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import IS_NIGHTLY, examples

# How fast a loaded machine makes examples says nothing about the product.
settings.register_profile(
    "dtfctl", deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("dtfctl")
# A shell's background jobs ignore Ctrl-C, those of nohup that a terminal is closed, and so would all that they start:
# tests that send these signals would wait for nothing.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, usual)
GRACE_S = 20.0
OK, INTERRUPTED = pytest.ExitCode.OK, pytest.ExitCode.INTERRUPTED
UNTIL = float(os.environ.get("DTF_CHECKS_UNTIL", "inf"))
pytest_plugins = ["tests.faults.report", "tests.support.costs"]
LOG_LINES = 80
FIRST = (
    "tests/faults/",
    "tests/lab/",
    "tests/cluster/",
    "tests/interop/",
    "tests/unit/services/",
    "tests/unit/launcher/",
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the garbage collector rest meanwhile, and never walk what collecting made: all of it stays.

    Each full collection of a test would else take half a second, a tenth of all that the tests take.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Tests of processes wait more than they compute, and their files take longest: none of them is left for the end.
    items.sort(
        key=lambda item: next((i for i, folder in enumerate(FIRST) if item.nodeid.startswith(folder)), len(FIRST))
    )
    if IS_NIGHTLY:
        return
    for item in items:
        if "nightly" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="runs in `make nightly` (DTF_NIGHTLY=1)"))


def pytest_collection_finish(session: pytest.Session) -> None:
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        tell("collected", *(item.nodeid for item in session.items))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Begin a test, or end the run where time is over: to pass by ten thousand of them takes a slow machine minutes."""
    if time.time() <= UNTIL:
        tell("begun", item.nodeid)
        return None
    item.session.shouldstop = "time is over"
    return True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        tell(report.when, report.nodeid)
    elif report.when == "call" or report.skipped:
        tell(report.outcome, report.nodeid)


def tell(when: str, *tests: str) -> None:
    """Tell tools/run_tests.py what befell tests: collected, begun, passed, skipped, or the phase that failed."""
    if path := os.environ.get("DTF_TEST_EVENTS"):
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps({"test": test, "when": when}) + "\n" for test in tests)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Judge a run that time ended by what ran."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if time.time() > UNTIL and reporter is not None and session.exitstatus in (OK, INTERRUPTED):
        if reporter.stats.get("failed") or reporter.stats.get("error"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        else:
            session.exitstatus = OK if reporter.stats.get("passed") else pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test of a cluster shows what the controller and the agents of its clusters wrote."""
    report = yield
    home = getattr(item, "funcargs", {}).get("home")
    if report.failed and isinstance(home, Path):
        for log in sorted({*home.glob("clusters/*/logs*/*.log"), *home.glob("clusters/*/hosts/*/*.log")}):
            lines = log.read_text(errors="replace").splitlines()
            if lines:
                report.sections.append((f"end of {log.relative_to(home)}", "\n".join(lines[-LOG_LINES:])))
    return report


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Clusters of tests live below the session's temporary folder, and none of their processes outlives it."""
    base = tmp_path_factory.getbasetemp()
    home = tmp_path_factory.mktemp("home")
    before = os.environ.get("DTFCTL_HOME")
    os.environ["DTFCTL_HOME"] = str(home)
    yield home
    if before is None:
        del os.environ["DTFCTL_HOME"]
    else:
        os.environ["DTFCTL_HOME"] = before
    deadline = time.monotonic() + GRACE_S
    while (left := processes_below(base)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, "processes of a test cluster outlive the tests:\n" + "\n".join(left)


def processes_below(base: Path) -> list[str]:
    """Live processes whose DTFCTL_HOME lies in `base`, as `pid command`; zombies have no environment: not counted."""
    wanted = f"DTFCTL_HOME={base}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes().split(b"\0")
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue  # it ended meanwhile, or belongs to somebody else
        if int(folder.name) != os.getpid() and any(entry.startswith(wanted) for entry in environ):
            found.append(f"{folder.name} {command}")
    return found
