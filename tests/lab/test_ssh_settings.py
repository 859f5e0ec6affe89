"""`up` logs in as ~/.ssh/config says, and says what of it is not obeyed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import Ssh
from tests.cluster.conftest import STUB_COMMAND
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab


def test_hosts_are_found_logged_in_to_and_recognised_by_the_users_own_settings(
    home: Path, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aliases, an included file, a jump host with an alias of its own, keys, and where host keys are looked up."""
    first, second, third = lab.hosts
    lines = {line.split(",")[0]: line.split()[1:] for line in lab.known_hosts.read_text().splitlines()}
    folder = tmp_path / ".ssh"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    (folder / "here").write_text(
        "".join(f"{name} {' '.join(lines[host.name])}\n" for name, host in (("gate", first), ("inner", second)))
        + f"{third.address} {' '.join(lines[third.name])}\n"
    )
    (folder / "hosts.conf").write_text(
        f"Host gate\n  HostName {first.address}\n  HostKeyAlias gate\n"
        f"Host inner\n  HostName {second.address}\n  HostKeyAlias inner\n  ProxyJump ssh://gate:22\n"
        f"Host last\n  HostName {third.address}\n  StrictHostKeyChecking no\n"
    )
    (folder / "config").write_text(
        "Include hosts.conf\n"
        'Match host * exec "[ %n != nobody ]"\n  User root  # may log in\n'
        "  UserKnownHostsFile %d/.ssh/here\n"
        f"Host *\n  IdentityFile ~/.ssh/not_there\n  IdentityFile {lab.key}\n  IdentitiesOnly yes\n"
        "  RequestTTY force\n  RemoteCommand tmux attach\n  SendEnv LC_*\n  AddKeysToAgent yes\n"
    )
    spec = cluster_of(lab, ps=0, worker=3, slots=1, ssh=Ssh(timeout=30.0), aliases=("gate", "inner", "last"))
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert (result.exit_code, result.running) == (0, 3), result.problems
    cluster = result.cluster
    assert cluster is not None
    notes = [event.reason for event in cluster.events() if event.kind == "host.note"]
    own = [note for note in notes if note.startswith("~/")]
    assert [note.partition(" is not")[0] for note in own] == ["~/.ssh/hosts.conf:10: StrictHostKeyChecking no"]
    assert cluster.down() == ()

    (folder / "here").write_text(f"{third.address} {' '.join(lines[second.name])}\n")
    result = Cluster.up(spec, task_command=STUB_COMMAND)
    assert result.running == 0
    said = " ".join(result.problems)
    assert "host key changed (here:1)" in said and "host key is not known" in said, said
    if result.cluster is not None:
        assert result.cluster.down() == ()
