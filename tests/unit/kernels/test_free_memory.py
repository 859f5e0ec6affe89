"""How much memory there is: of the host, and of control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfctl.runtime.kernels import free_memory
from dtfctl.runtime.kernels.free_memory import UNKNOWN, free_bytes

GB = 1 << 30


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with 9 GB."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    groups.mkdir()
    (proc / "meminfo").write_text(f"MemAvailable:  {8 << 20} kB\nSwapFree:  {1 << 20} kB\n")
    monkeypatch.setattr(free_memory, "_PROC", proc)
    monkeypatch.setattr(free_memory, "_GROUPS", groups)
    return tmp_path


def group(folder: Path, limit: str, used: int, inactive: int, version: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(
        f"anon 1\ninactive_file {inactive if version == 2 else 1}\ntotal_inactive_file {inactive}\n"
    )


def test_without_groups_it_is_the_hosts(host: Path) -> None:
    assert free_bytes() == 9 * GB


def test_a_system_that_does_not_say(host: Path) -> None:
    (host / "proc" / "meminfo").unlink()
    assert free_bytes() == UNKNOWN


def test_the_least_of_a_group_and_those_it_is_in(host: Path) -> None:
    (host / "proc" / "self" / "cgroup").write_text("0::/jobs/one\n")
    group(host / "groups" / "jobs" / "one", "max", 3 * GB, 0, 2)
    group(host / "groups" / "jobs", str(4 * GB), 3 * GB, GB // 2, 2)
    assert free_bytes() == GB + GB // 2
    group(host / "groups" / "jobs" / "one", str(GB), 2 * GB, 0, 2)
    assert free_bytes() == 0


def test_the_first_version(host: Path) -> None:
    (host / "proc" / "self" / "cgroup").write_text("5:cpu,cpuacct:/x\n4:memory:/x/y\n0::/\n")
    group(host / "groups" / "memory" / "x" / "y", str(6 * GB), 2 * GB, GB, 1)
    group(host / "groups" / "memory", str(2**63 - 4096), 0, 0, 1)
    assert free_bytes() == 5 * GB


def test_in_a_container_the_path_is_the_hosts(host: Path) -> None:
    (host / "proc" / "self" / "cgroup").write_text("0::/../../pods/mine\n")
    group(host / "groups", str(2 * GB), GB, 0, 2)
    assert free_bytes() == GB
