"""A plugin of every test run: the failure table, as measured by the tests marked `fault`, printed at the end."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest

from tests.faults.table import ROWS

PROPERTY = "fault"
HEAD = """# The failure table, as measured

Made by `make bench-faults`; the promises are in [operations.md](operations.md), the tests in `tests/faults`.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fault-report", metavar="FILE", help="write the measured failure table there, as Markdown")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    seen: dict[int, dict[str, float]] = defaultdict(dict)
    for report in (r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())):
        for key, text in report.user_properties:
            if key == PROPERTY:
                number, name, value = json.loads(text)
                seen[number][name] = max(value, seen[number].get(name, value))
    if not seen:
        return
    lines = ["| # | fault | number | measured | goal | |", "|---|---|---|---|---|---|"]
    for row in ROWS:
        for name, value in seen[row.number].items():
            goal = row.goals[name]
            verdict = "met" if value <= goal else "NOT MET"
            lines.append(f"| {row.number} | {row.fault} | {name} | {value:.3g} | ≤ {goal:g} | {verdict} |")
    terminalreporter.section("failure table")
    for line in lines:
        terminalreporter.write_line(line)
    target = config.getoption("--fault-report")
    if target:
        Path(target).write_text("\n".join([HEAD, *lines]) + "\n")
