"""Pytest plugin: with DTF_TEST_COSTS=FILE, write what each test cost; tools/test_costs.py adds it up.

A line of the file is JSON: `test`, `when` (collect, setup, call, teardown), `cpu` (CPU seconds, user and system) and
`wall` (seconds). The CPU time is that of a control group (cgroup v1 cpuacct) which the process of the tests joins, so
daemons that a test leaves to its clusters count too; where none can be made, it is the process's and its ended
children's. What a fixture of a module or session costs stands with the first test that asks for it.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Generator
from pathlib import Path

import pytest

CPUACCT = Path("/sys/fs/cgroup/cpuacct")


class Costs:
    """Reads the CPU clock of this process and of all that it starts, and writes down what passed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.group: Path | None = CPUACCT / f"dtfctl-tests-{os.getpid()}"
        try:
            self.group.mkdir()
            (self.group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            self.group = None

    def cpu_s(self) -> float:
        if self.group is not None:
            return int((self.group / "cpuacct.usage").read_text()) / 1e9
        times = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(time.ru_utime + time.ru_stime for time in times)

    def span(self, test: str, when: str) -> Generator[None, object, object]:
        cpu, wall = self.cpu_s(), time.monotonic()
        try:
            return (yield)
        finally:
            line = {"test": test, "when": when, "cpu": self.cpu_s() - cpu, "wall": time.monotonic() - wall}
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        return (yield from self.span("", "collect"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self.span(item.nodeid, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self.span(item.nodeid, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self.span(item.nodeid, "teardown"))

    def pytest_unconfigure(self) -> None:
        if self.group is not None:
            try:
                (CPUACCT / "cgroup.procs").write_text(str(os.getpid()))
                self.group.rmdir()
            except OSError:
                pass  # something of the tests still runs in it


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get("DTF_TEST_COSTS")
    # The one that only hands out tests to xdist's workers runs none.
    if path and not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(Costs(path), "dtfctl-costs")
