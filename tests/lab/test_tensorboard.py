"""`dtfctl tensorboard` of a job whose files are on a host, which is reached through the cluster alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.spec.model import ControllerPlace
from tests.cluster.conftest import wait_until
from tests.cluster.test_tensorboard import SCRIPT, board_of
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab
from tests.support.tensorboard import python_with_tensorboard

pytestmark = pytest.mark.slow


def test_a_job_of_other_hosts_is_shown_here(
    home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorboard").write_text(f"#!{python_with_tensorboard()}\n")
    (tmp_path / "tensorboard").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    spec = cluster_of(lab, ps=1, worker=1, controller=ControllerPlace("host", lab.address_of(lab.names[2])))
    assert Cluster.up(spec).exit_code == 0
    cluster = Cluster.open("t")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    job = cluster.submit(JobRequest(str(script)))
    wait_until(lambda: (told := cluster.job(job).progress) is not None and told.step > 60, "the job trains")
    assert not Path(cluster.job(job).checkpoint_dir).exists(), "its files are not here"
    with board_of("tensorboard", job, "--no-browser") as board:

        def steps() -> int:
            curves = board.json("scalars/tags").get("tensorboard", {})
            if not {"loss", "global_step/sec"} <= curves.keys():
                return 0
            return int(board.json("scalars/scalars", run="tensorboard", tag="loss")[-1][1])

        wait_until(lambda: steps() > 0, "its loss and rate are shown")
        before = steps()
        wait_until(lambda: steps() > before, "what is new is shown, too")
        assert any("spread" in found for found in board.json("histograms/tags").values())
    assert cluster.down(grace_s=1.0) == ()
