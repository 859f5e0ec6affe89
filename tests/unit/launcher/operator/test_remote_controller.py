"""A controller on a host: what is kept here of where it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dtfctl.launcher.messages import codec
from dtfctl.launcher.operator.remote_controller import Place, settle_on
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, TaskGroup


@pytest.mark.parametrize("fast", [True, False])
def test_its_host_gets_numba_and_onednn_only_where_the_spec_lets_hosts_have_them(tmp_path: Path, fast: bool) -> None:
    paths = ClusterPaths(tmp_path)
    groups = {"all": HostGroup((HostName("h1"),))}
    spec = ClusterSpec("t", {"ps": TaskGroup(1)}, host_groups=groups, home="~/mine", fast=fast)
    settle_on(paths, spec, 1.0, "h1")
    place = codec.decode(Place, paths.controller_place.read_bytes())
    assert (place.as_spec("t").fast, place.as_spec("t").home) == (fast, "~/mine")
    kept = json.loads(paths.controller_place.read_bytes())
    del kept["fast"]
    assert codec.decode(Place, json.dumps(kept).encode()).fast, "a cluster from before this was kept"
