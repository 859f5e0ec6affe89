"""Graphs of files: the process that reads them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.errors import Conflict, UsageError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.model import JobStatus
from dtfctl.launcher.operator.graphs import GraphView, of_file, of_job, ops_of
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup
from dtfctl.protocol import graph_pb2, meta_graph_pb2
from tests.doubles.launcher import status, task


def test_modules_in_the_folder_where_one_stands_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else may have put them there."""
    (tmp_path / "json.py").write_text("raise SystemExit('this is not the json that was meant')")
    (tmp_path / "model.pb").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"model\.pb is no graph"):
        of_file(Path("model.pb"), GraphView())


def test_a_job_that_has_ended_is_shown_by_the_newest_graph_that_it_has_saved(tmp_path: Path) -> None:
    job = JobStatus("train-1", "train", "succeeded", "in-graph", "train.py", checkpoint_dir=str(tmp_path))
    paths, told = ClusterPaths(tmp_path / "home"), status(task("ps/0"), task("worker/0"), jobs=[job])
    with pytest.raises(Conflict, match=f"train-1 has ended .* saved none in {tmp_path}"):
        of_job(paths, told, "train-1", GraphView())
    older = meta_graph_pb2.MetaGraphDef(graph_def=graph_pb2.GraphDef(node=[graph_pb2.NodeDef(name="a", op="NoOp")]))
    newer = meta_graph_pb2.MetaGraphDef(graph_def=graph_pb2.GraphDef(node=[graph_pb2.NodeDef(name="b", op="NoOp")]))
    for age, (name, meta) in enumerate({"model.ckpt-9.meta": older, "model.ckpt-10.meta": newer}.items()):
        (tmp_path / name).write_bytes(meta.SerializeToString())
        os.utime(tmp_path / name, (age, age))
    said = of_job(paths, told, "train-1", GraphView())
    assert said["graph"].startswith("train-1, which has ended, as saved in ") and said["step"] == "b"
    # Nodes without a device are placed on the tasks that the cluster has.
    assert said["overview"][-1][1] == "1: worker/0 1"


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"state": "queued"}, "waits in the queue"), ({"framework": "torch"}, "runs torch, whose graph no task has")],
)
def test_a_job_that_cannot_have_a_graph_is_told_why(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    job = replace(JobStatus("train-1", "train", "running", "in-graph", "train.py"), **changes)
    with pytest.raises(Conflict, match=said):
        of_job(ClusterPaths(tmp_path / "home"), status(task("worker/0"), jobs=[job]), "train-1", GraphView())


def test_ops_that_a_spec_names_are_known_where_they_are_on_this_machine(tmp_path: Path) -> None:
    ops = tmp_path / "ops"
    ops.mkdir()
    (ops / "shop_ops.py").touch()
    paths = ClusterPaths(tmp_path / "home")
    paths.folder.mkdir(parents=True)
    assert ops_of(paths) == {}
    for folder, known in ((ops, "shop_ops"), (tmp_path / "elsewhere", "")):
        env = {"DTF_OPS": "shop_ops, ops_of_other_machines.more", "PYTHONPATH": str(folder)}
        paths.spec.write_text(codec.encode(ClusterSpec("shop", {"worker": TaskGroup(1)}, env=env)))
        found = ops_of(paths)
        assert found.get("DTF_OPS", "") == known
        assert found.get("PYTHONPATH", str(folder)).split(os.pathsep)[0] == str(folder)
