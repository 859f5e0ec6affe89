"""`dtfctl init`, `validate`, `config` and `schema`: spec files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dtfctl.launcher.operator.clean_hosts import HostCleaned
from tests.unit.cli.harness import LOCAL, ROOT, Dtfctl


def test_init_writes_a_valid_spec_once(dtfctl: Dtfctl, tmp_path: Path) -> None:
    file = tmp_path / "lab.yaml"
    first = dtfctl("init", str(file), "--hosts", "alice@node[1-4]", "--worker", "8")
    assert (first.code, first.out) == (0, f"wrote {file}: cluster lab, 9 tasks\n")
    assert dtfctl("validate", str(file)).out == f"{file} is valid: cluster lab, 9 tasks on 4 hosts\n"
    again = dtfctl("init", str(file))
    assert (again.code, again.err.splitlines()[0]) == (7, f"error: {file} exists")
    assert dtfctl("init", str(file), "--force", "--name", "Bad Name").code == 2
    assert dtfctl("init", str(file), "--force").code == 0
    assert dtfctl("init", str(tmp_path / "none" / "x.yaml")).code == 2


def test_validate_names_every_file_and_exits_3_if_one_is_wrong(dtfctl: Dtfctl, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("cluster: dev\ntasks: {wrker: 2}\n")
    result = dtfctl("validate", LOCAL, str(file))
    assert result.code == 3
    assert result.out.splitlines() == [
        f"{LOCAL} is valid: cluster demo, 3 tasks on 1 host",
        f"{file} is not valid: 1 problem",
    ]
    found = dtfctl("validate", LOCAL, str(file), "-o", "json").json
    assert [(f["valid"], f.get("tasks")) for f in found["files"]] == [
        (True, ["ps/0", "worker/0", "worker/1"]),
        (False, None),
    ]
    assert found["files"][1]["problems"][0]["column"] == 9


def test_config_shows_origins_and_prints_a_spec(dtfctl: Dtfctl, tmp_path: Path) -> None:
    lines = dtfctl("config", LOCAL).out.splitlines()
    assert any(line.split() == ["restart.attempts", "5", "default"] for line in lines)
    resolved = tmp_path / "resolved.yaml"
    resolved.write_text(dtfctl("config", LOCAL, "-o", "yaml").out)
    assert dtfctl("validate", str(resolved)).code == 0


def test_schema_is_the_published_one(dtfctl: Dtfctl) -> None:
    assert dtfctl("schema").json == json.loads((ROOT / "dtfctl/launcher/spec/schema.json").read_text("utf-8"))


def test_hosts_clean_says_how_many_hosts_have_nothing_left(
    dtfctl: Dtfctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("cluster: lab\nhosts: node[1-2]\ntasks: {worker: 2}\n")
    done = [HostCleaned("node1", "owner", "it belongs to eve@home"), HostCleaned("node2", ended=3)]
    monkeypatch.setattr("dtfctl.launcher.operator.clean_hosts.clean_hosts", lambda *_, **__: done)
    result = dtfctl("hosts", "clean", str(file), "--yes")
    assert (result.code, result.out) == (5, "nothing of cluster lab is left on 1 host; processes ended: 3\n")
    done.pop()
    result = dtfctl("hosts", "clean", str(file), "--yes")
    assert (result.code, result.out) == (5, "cluster lab was removed from none of 1 host\n")


def test_a_profile_for_no_folder_is_refused_before_anything_is_recorded(dtfctl: Dtfctl, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none" / "x.json"):
        refused = dtfctl("profile", "--to", str(place))
        assert refused.code == 2
        assert "folder" in refused.err
