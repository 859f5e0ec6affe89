"""Logs of an earlier cluster of the same name do not mix with the new one's."""

from pathlib import Path

from dtfctl.launcher.operator.controller_client import KEPT_LOGS, set_logs_aside
from dtfctl.launcher.paths import ClusterPaths


def test_logs_move_aside_and_the_oldest_go(tmp_path: Path) -> None:
    paths = ClusterPaths(tmp_path / "demo")
    set_logs_aside(paths)
    for n in range(KEPT_LOGS + 2):
        paths.logs.mkdir(parents=True)
        (paths.logs / "worker-0.log").write_text(str(n))
        set_logs_aside(paths)
        assert not paths.logs.exists()
    kept = {p.name: (p / "worker-0.log").read_text() for p in paths.folder.iterdir()}
    assert kept == {f"logs.{i}": str(KEPT_LOGS + 2 - i) for i in range(1, KEPT_LOGS + 1)}
