"""The words of the system's ssh, from a spec."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from dtfctl.launcher.operator.ssh_command import ssh_command
from dtfctl.launcher.spec import parse_spec

PINS = Path("/p/pins")


def words_of(ssh: str, hosts: str = "alice@node1") -> list[str]:
    spec = parse_spec(f"cluster: x\nhosts: {hosts}\ntasks: {{worker: 1}}\nssh: {ssh}\n", "x.yaml")
    return ssh_command(spec.hosts[0], spec.ssh, PINS)


def test_what_the_spec_leaves_open_is_left_to_the_users_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", pwd.getpwuid(os.getuid()).pw_dir)
    assert words_of("{}") == ["ssh", "-o", "ConnectTimeout=10", "-o", "StrictHostKeyChecking=yes", "alice@node1"]
    assert words_of("{}", "node1")[-1] == "node1"


def test_every_setting_of_the_spec_is_in_the_command() -> None:
    found = words_of("{user: train, key: /k/id, port: 2200, known_hosts: /k/known, host_keys: pin, timeout: 3s}", "n1")
    assert found[-3:] == ["-p", "2200", "train@n1"]
    assert found[found.index("-i") + 1] == "/k/id"
    assert {"ConnectTimeout=3", "UserKnownHostsFile=/p/pins /k/known", "StrictHostKeyChecking=accept-new"} <= set(found)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
@pytest.mark.parametrize("jump", ["bob@gate:2222", "[gate1, 'bob@gate2:2222']"])
def test_ssh_itself_understands_it(jump: str, tmp_path: Path) -> None:
    key = tmp_path / "my key"
    key.touch()
    found = words_of(f"{{key: '{key}', jump: {jump}, port: 2200, known_hosts: '/k/my known'}}")
    said = subprocess.run([found[0], "-F", "none", "-G", *found[1:]], capture_output=True, text=True, check=True).stdout
    settings = [line.partition(" ")[::2] for line in said.splitlines()]
    assert {("user", "alice"), ("hostname", "node1"), ("port", "2200"), ("identityfile", str(key))} <= set(settings)
    proxy = dict(settings)["proxycommand"]
    assert proxy.endswith("-W [%h]:%p") and "-p 2222 bob@gate" in proxy
    assert proxy.count(str(key)) == proxy.count("ssh -o")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
def test_ssh_reads_the_settings_of_home_where_that_is_not_the_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my home" / ".ssh"
    folder.mkdir(parents=True)
    (folder / "config").write_text("Host node1\n  HostName 10.1.2.3\n  Port 2299\n")
    (folder / "id_ed25519").touch()
    monkeypatch.setenv("HOME", str(folder.parent))

    def settings(ssh: str) -> dict[str, str]:
        found = words_of(ssh)
        said = subprocess.run([found[0], "-G", *found[1:]], capture_output=True, text=True, check=True).stdout
        return dict(line.partition(" ")[::2] for line in said.splitlines())

    said = settings("{}")
    assert (said["hostname"], said["port"]) == ("10.1.2.3", "2299")
    assert said["userknownhostsfile"] == str(folder / "known_hosts") and said["identityfile"] == str(
        folder / "id_ed25519"
    )
    assert "-F" in shlex.split(settings("{jump: gate}")["proxycommand"])
    (folder / "config").write_text("Host node1\n  UserKnownHostsFile /k/theirs\n")
    assert settings("{}")["userknownhostsfile"] == "/k/theirs"
    (folder / "config").unlink()
    assert settings("{known_hosts: /k/mine}")["userknownhostsfile"] == "/k/mine"
