"""What ~/.ssh/config says: obeyed, or named with file and line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncssh
import pytest

from dtfctl.launcher.providers import login, ssh_config
from dtfctl.launcher.providers.login import Logins
from dtfctl.launcher.providers.ssh_config import unheeded
from dtfctl.launcher.spec.model import Ssh


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(ssh_config, "SYSTEM_FILE", tmp_path / "system")
    (tmp_path / ".ssh").mkdir()
    return tmp_path / ".ssh" / "config"


def test_what_is_not_obeyed_is_named_with_its_line_where_it_applies(config: Path) -> None:
    config.write_text(
        "Include more\n"
        "Host other\n    StrictHostKeyChecking no\n"
        "Host node*\n    StrictHostKeyChecking no\n    ServerAliveInterval 5\n    User train\n"
        "Match user train\n    ControlMaster auto\n"
    )
    (config.parent / "more").write_text("Host node1\n    VerifyHostKeyDNS yes\n")
    notes = unheeded("node1")
    assert [note.partition(" is not obeyed: ")[0] for note in notes] == [
        "~/.ssh/more:2: VerifyHostKeyDNS yes",
        "~/.ssh/config:5: StrictHostKeyChecking no",
        "~/.ssh/config:9: ControlMaster auto",
    ]
    assert [note.split()[1] for note in unheeded("node2")] == ["StrictHostKeyChecking", "ControlMaster"]
    assert unheeded("elsewhere") == []


def test_what_changes_nothing_is_not_named(config: Path) -> None:
    config.write_text("StrictHostKeyChecking ask\nVerifyHostKeyDNS no\n")
    assert unheeded("node1") == []


def test_a_login_that_the_systems_file_describes_is_named(config: Path) -> None:
    ssh_config.SYSTEM_FILE.write_text("Host *\n    SendEnv LANG\nHost node1\n    ProxyJump bastion\n")
    (note,) = unheeded("node1")
    assert note.startswith("~/system:4: ProxyJump bastion is not obeyed: only ~/.ssh/config is read")
    assert unheeded("node2") == []


def options_of(name: str, **ssh: object) -> tuple[Logins, object]:
    async def make() -> tuple[Logins, object]:
        logins = Logins(Ssh(**ssh), Path("pins"))  # type: ignore[arg-type]
        return logins, await logins._options(name, None, 22, None)

    return asyncio.run(make())


def files_of(name: str, **ssh: object) -> list[str]:
    logins, options = options_of(name, **ssh)
    return [str(path) for path in logins._keys_for(options)._files[:-1]]  # type: ignore[arg-type]


def test_host_keys_are_looked_up_where_openssh_looks(config: Path) -> None:
    home = str(config.parents[1])
    system = list(login.OF_THE_SYSTEM)
    config.write_text(
        "Host a\n  UserKnownHostsFile ~/mine ~/yours\n"
        "Host b\n  GlobalKnownHostsFile /etc/all\n"
        "Host c\n  UserKnownHostsFile none\n"
    )
    assert files_of("a") == [f"{home}/mine", f"{home}/yours", *system]
    assert files_of("b") == [f"{home}/.ssh/known_hosts", f"{home}/.ssh/known_hosts2", "/etc/all"]
    assert files_of("c") == system, "no file of the user's, but still a check"
    assert files_of("a", known_hosts="~/spec") == [f"{home}/spec"], "the spec comes first"


@pytest.mark.parametrize(("ssh", "expected"), [({}, 3.0), ({"timeout": 7.0}, 7.0)])
def test_the_timeout_is_the_specs_then_that_of_the_file(config: Path, ssh: dict[str, float], expected: float) -> None:
    config.write_text("ConnectTimeout 3\n")
    logins, options = options_of("a", **ssh)
    assert logins._timeout_of(options) == expected  # type: ignore[arg-type]


def said(name: str) -> asyncssh.SSHClientConnectionOptions:
    made = options_of(name)[1]
    assert isinstance(made, asyncssh.SSHClientConnectionOptions)
    return made


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("User bob # the builder\n", "bob"),
        ('Host\ta\n\tUser = "bob"\n', "bob"),
        ('Match exec "test %h = a"\n  User bob\n', "bob"),
        ('Match exec "test %h = b"\n  User eve\nHost *\n  User bob\n', "bob"),
        ("Match host=a !user=eve\n  User bob\n", "bob"),
        ("Match final host a\n  User bob\n", "bob"),
        ("Host a\n  HostName real.example\nMatch final host real.example\n  User bob\nHost *\n  Port 7\n", "bob"),
        ("Include none/*.conf\nInclude some/*.conf\nUser eve\n", "bob"),
    ],
)
def test_what_openssh_takes_from_a_file_is_taken(config: Path, text: str, user: str) -> None:
    """Each of these was tried with `ssh -G`."""
    (config.parent / "some").mkdir()
    for name, who in (("2", "eve"), ("1", "bob"), ("3", "eve")):
        (config.parent / "some" / f"{name}.conf").write_text(f"Host a\n  User {who}\n")
    config.write_text(text)
    assert said("a").username == user


def test_tokens_and_variables_are_expanded_in_the_names_of_known_hosts_files(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RACK", "r7")
    config.write_text("UserKnownHostsFile %d/.ssh/${RACK}/%h\n")
    assert files_of("a")[0] == f"{config.parents[1]}/.ssh/r7/a"


def test_a_key_that_is_not_there_keeps_nobody_from_logging_in_with_another(config: Path) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(config.parent / "id_a")
    config.write_text("IdentityFile ~/.ssh/none\nIdentityFile ~/.ssh/id_%n\n")
    assert [pair.public_data for pair in said("a").client_keys or ()] == [key.public_data]


def test_an_agent_may_be_named_by_a_variable(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/agent")
    monkeypatch.setenv("MINE", "/run/mine")
    config.write_text("Host a\n  IdentityAgent SSH_AUTH_SOCK\nHost b\n  IdentityAgent $MINE\n")
    assert (said("a").agent_path, said("b").agent_path) == ("/run/agent", "/run/mine")


def test_of_a_jump_host_and_a_command_the_first_counts(config: Path) -> None:
    config.write_text("Host a\n  ProxyCommand nc %h %p\nHost b\n  ProxyCommand none\nHost *\n  ProxyJump gate\n")
    assert (login._jumps_of(said("a")), said("a").proxy_command) == ((), ["nc", "a", "22"])
    assert (login._jumps_of(said("b")), said("b").proxy_command) == ((), None)
    assert login._jumps_of(said("c")) == ("gate",)


def test_no_terminal_is_asked_for(config: Path) -> None:
    config.write_text("RequestTTY force\n")
    assert said("a").request_pty is False


def test_the_port_of_the_spec_comes_first(config: Path) -> None:
    config.write_text("Port 7\n")
    made = asyncio.run(Logins(Ssh(), Path("pins"))._options("a", None, 2222, None))
    assert (made.port, said("a").port) == (2222, 7)
