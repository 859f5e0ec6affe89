"""The specs in cluster-examples on the lab. What differs is said in `fit`: fewer hosts, other logins, no GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec import load_spec
from tests.cluster.conftest import STUB_COMMAND
from tests.lab.netns import Lab

EXAMPLES = Path(__file__).parents[2] / "cluster-examples"


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[int], Lab]) -> Lab:
    return make_lab(6)


def fit(text: str, changes: dict[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, f"the example changed; {old!r} is not in it"
        text = text.replace(old, new)
    return text


def names(lab: Lab, home: Path, monkeypatch: pytest.MonkeyPatch, aliases: list[str]) -> None:
    """The example's host names lead to hosts of the lab."""
    ssh = home / ".ssh"
    ssh.mkdir(parents=True)
    (ssh / "known_hosts").write_bytes(lab.known_hosts.read_bytes())
    lines = [f"Host {alias}\n  HostName {host.address}\n" for alias, host in zip(aliases, lab.hosts)]
    (ssh / "config").write_text("".join([*lines, f"Host *\n  User root\n  IdentityFile {lab.key}\n"]))
    monkeypatch.setenv("HOME", str(home))


def test_lab(home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names(lab, tmp_path / "me", monkeypatch, ["gpu1", "gpu2", "gpu3", "gpu4"])
    text = fit((EXAMPLES / "lab.yaml").read_text(), {"lab@gpu": "gpu", "gpus: 1,": "gpus: 0,"})
    folder = tmp_path / "vision"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "lab.yaml").write_text(text)
    result = Cluster.up(load_spec(folder / "lab.yaml", {}, for_up=True), task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (0, 6), result.problems
    assert result.cluster is not None
    assert {task.host for task in result.cluster.status().tasks} == {"gpu1", "gpu2", "gpu3"}, "gpu4 is a spare"
    assert (lab.home(lab.names[0]) / "vision" / "train.py").exists()
    assert result.cluster.down() == ()


def test_rack(home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hosts for parameters, two racks of one for workers, a spare and the jump host, instead of 109."""
    names(
        lab,
        tmp_path / "me",
        monkeypatch,
        ["cpu01.dc1", "cpu02.dc1", "r1g01.dc1", "r2g01.dc1", "r1g25.dc1", "bastion.dc1"],
    )
    changes = {
        "cpu[01-08].dc1": "cpu[01-02].dc1",
        "r[1-4]g[01-24].dc1": "r[1-2]g01.dc1",
        "r[1-4]g25.dc1": "r[1]g25.dc1",
        "user: train": "user: root",
        "~/.ssh/train_ed25519": str(lab.key),
        "./known_hosts": str(lab.known_hosts),
        " && ~/venv/bin/pip install -r ~/ranker/requirements.txt": "",
        "python3 -m venv ~/venv": "python3 -m venv --without-pip ~/venv",
        "count: 16": "count: 4",
        "count: 768": "count: 6",
        "min: 704": "min: 4",
        "gpus: 1 ": "gpus: 0 ",
        "gpus: 1}": "gpus: 0}",
        "memory: 24GiB": "memory: 1GiB",
        "/mnt/ckpt/ranker": str(lab.root / "ckpt"),
        "dir: ~/dtfctl-logs, ": "",
    }
    folder = tmp_path / "spec"
    (folder / "ranker").mkdir(parents=True)
    (folder / "ranker" / "requirements.txt").write_text("")
    (folder / "rack.yaml").write_text(fit((EXAMPLES / "rack.yaml").read_text(), changes))
    result = Cluster.up(load_spec(folder / "rack.yaml", {}, for_up=True), task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (0, 12), result.problems
    assert result.cluster is not None
    places = {task.name: task.host for task in result.cluster.status().tasks}
    assert {places[f"ps/{n}"] for n in range(4)} == {"cpu01.dc1", "cpu02.dc1"}
    assert {places[f"worker/{n}"] for n in range(6)} == {"r1g01.dc1", "r2g01.dc1"}
    assert (lab.home(lab.names[2]) / "venv/bin/python").exists()
    assert result.cluster.down() == ()
