"""What an agent looks for in the log of a task that ended."""

from __future__ import annotations

from pathlib import Path

from dtfctl.launcher.agent.start import logs

STAMP = "2026-01-31T12:00:00.123Z"


def write(folder: Path, *lines: str) -> Path:
    log = folder / "worker-0.log"
    log.write_text("".join(f"{STAMP} err {line}\n" for line in lines))
    return log


def test_the_first_pattern_that_is_found_is_told(tmp_path: Path) -> None:
    log = write(tmp_path, "a step", "CUDA out of memory: 3 GiB", "the end")
    assert logs.matches(log, STAMP, ["Xid [0-9]+", "out of memory", "end"]) == "out of memory"
    assert logs.matches(log, STAMP, ["Xid [0-9]+"]) == ""
    assert logs.matches(log, "2026-01-31T12:00:01.000Z", ["end"]) == ""


def test_no_pattern_over_no_output_keeps_the_agent_from_its_leases(tmp_path: Path) -> None:
    log = write(tmp_path, "a" * 100_000)
    assert logs.matches(log, STAMP, ["(a+)+$b", "(a|a)*b", "(?=a)b", "a{3}$"]) == "a{3}$"
