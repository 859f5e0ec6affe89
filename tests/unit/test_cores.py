"""How many cores a process may use, by files as kernels write them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from dtfctl import cores
from dtfctl.cores import granted, quota


class Process:
    """A process in control groups, described as in /proc/self."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proc, self.root = folder / "proc", folder / "sys fs"
        self.proc.mkdir()

    def is_in(self, groups: str, *mounts: str) -> None:
        (self.proc / "cgroup").write_text(groups)
        (self.proc / "mountinfo").write_text("".join(f"{mount}\n" for mount in mounts))

    def mount(self, kind: str, options: str, shown: str = "/") -> str:
        at = str(self.root).replace(" ", "\\040")
        return f"31 24 0:27 {shown} {at} rw,relatime shared:9 - {kind} {kind} {options}"

    def bound(self, group: str, **files: str) -> None:
        at = self.root / group
        at.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (at / name.replace("cpu_", "cpu.", 1)).write_text(text)


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def test_the_least_of_all_groups_above_counts(process: Process) -> None:
    process.is_in("0::/a/b\n", process.mount("cgroup2", "rw,nsdelegate"))
    process.bound("a/b", cpu_max="max 100000\n")
    assert quota(process.proc) == math.inf
    quota.cache_clear()
    process.bound("a", cpu_max="150000 100000\n")
    assert quota(process.proc) == 1.5
    quota.cache_clear()
    process.bound("a/b", cpu_max="40000 50000\n")
    assert quota(process.proc) == 0.8


def test_groups_of_version_1(process: Process) -> None:
    process.is_in("4:memory:/m\n3:cpu,cpuacct:/c/d\n", process.mount("cgroup", "rw,cpu,cpuacct"))
    process.bound("m", cpu_cfs_quota_us="1", cpu_cfs_period_us="100000")
    process.bound("c/d", cpu_cfs_quota_us="-1\n", cpu_cfs_period_us="100000\n")
    process.bound("c", cpu_cfs_quota_us="300000\n", cpu_cfs_period_us="100000\n")
    assert quota(process.proc) == 3.0


def test_a_container_sees_its_own_group_as_the_root(process: Process) -> None:
    process.is_in("0::/docker/one/inner\n", process.mount("cgroup2", "rw", "/docker/one"))
    process.bound("", cpu_max="200000 100000")
    process.bound("inner", cpu_max="max 100000")
    assert quota(process.proc) == 2.0


@pytest.mark.parametrize("text", ["", "garbage", "1 0", "5", "max"])
def test_what_cannot_be_read_bounds_nothing(process: Process, text: str) -> None:
    process.is_in("0::/a\nhalf a line\n", "half a line", process.mount("cgroup2", "rw"))
    process.bound("a", cpu_max=text)
    assert quota(process.proc) == math.inf
    assert quota(process.folder / "nowhere") == math.inf


def test_a_share_of_cores_is_rounded_up_and_told_numbers_are_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in cores.TOLD_BY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cores, "pinned", lambda: 8)
    monkeypatch.setattr(cores, "quota", lambda: 2.5)
    assert granted() == 3
    monkeypatch.setattr(cores, "quota", lambda: math.inf)
    assert granted() == 8
    monkeypatch.setattr(cores, "quota", lambda: 0.2)
    assert granted() == 1
    monkeypatch.setattr(cores, "quota", lambda: math.inf)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "6")
    assert granted() == 6
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert granted() == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "none")
    assert granted() == 6
    # More than there is may be asked for, and is not there.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "16")
    assert granted() == 8
