"""The SSH provider against SSH servers in this process: what needs no root. Real hosts are in tests/lab."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.check_hosts import HostCheck, check_hosts
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers import conversation
from dtfctl.launcher.providers.bundle import Bundles, Layer, Platform
from dtfctl.launcher.providers.packing import Archive
from dtfctl.launcher.providers.ssh import SshProvider
from dtfctl.launcher.spec.grouping import grouped
from dtfctl.launcher.spec.model import (
    ClusterSpec,
    HostGroup,
    HostName,
    Ssh,
    Sync,
    TaskGroup,
)
from dtfctl.launcher.system.files import private_folder
from dtfctl.net.address import connect as connect_to
from tests.cluster.conftest import STUB_COMMAND
from tests.cluster.strangers import listening_ports
from tests.doubles.ssh_hosts import Behaviour, SshHosts

BEHAVIOURS: dict[int, Behaviour] = {
    2: "good",
    3: "noisy",
    4: "locked",
    5: "silent",
    6: "bare",
    7: "good",
    8: "good",
    10: "ends",
    11: "good",
}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with pytest.MonkeyPatch.context() as patch, SshHosts(tmp_path_factory.mktemp("ssh"), BEHAVIOURS) as hosts:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("me")))  # settings of who runs the tests are not the tests'
        hosts.write_known_hosts(wrong=(7, 8))
        hosts.lend_packages(2)
        yield hosts


def spec_of(servers: SshHosts, numbers: list[int], **ssh: object) -> ClusterSpec:
    settings = {
        "key": str(servers.key),
        "port": servers.port,
        "known_hosts": str(servers.known_hosts),
        "timeout": 3.0,
        "retries": 0,
        **ssh,
    }
    names = tuple(HostName(f"127.0.0.{number}", "me") for number in numbers)
    return ClusterSpec(
        "t",
        {"worker": TaskGroup(len(numbers), min=1)},
        host_groups={"all": HostGroup(names, slots=1)},
        ssh=Ssh(**settings),  # type: ignore[arg-type]
        python=sys.executable,
    )


def by_number(checks: list[HostCheck]) -> dict[int, HostCheck]:
    return {int(check.name.rpartition(".")[2]): check for check in checks}


def test_each_host_says_what_is_wrong_with_it_and_all_take_as_long_as_the_slowest(
    home: Path, servers: SshHosts
) -> None:
    begun = time.monotonic()
    found = by_number(check_hosts(spec_of(servers, list(BEHAVIOURS) + [9])))
    took = time.monotonic() - begun
    assert {number: check.cause for number, check in found.items()} == {
        2: "",
        3: "",
        4: "auth",
        5: "unreachable",
        6: "python",
        7: "host-key",
        8: "host-key",
        9: "unreachable",
        10: "install",
        11: "",
    }
    assert found[2].python.startswith("3.")
    assert found[3].free_bytes > 0, "a greeting is not an answer"
    ended = "its shell ended with 3 before it answered: This account is closed for maintenance."
    assert found[10].problem == ended
    assert found[4].problem == "authentication failed for user me"
    assert found[5].problem == "no answer within 3 s"
    assert found[9].problem == f"connection refused at port {servers.port}"
    lines = grouped([(check.name, check.problem, check.where) for check in found.values() if check.cause])
    assert "127.0.0.[7-8]: host key changed (known_hosts:6,7)" in lines
    print(f"checked {len(found)} hosts, one of them silent, in {took:.1f} s")


def test_an_unknown_key_is_refused_or_accepted_but_checking_pins_nothing(
    home: Path, servers: SshHosts, tmp_path: Path
) -> None:
    none = str(tmp_path / "none")
    (strict,) = check_hosts(spec_of(servers, [2], known_hosts=none))
    assert strict.cause == "host-key"
    assert "not known" in strict.problem
    (pinned,) = check_hosts(spec_of(servers, [2], known_hosts=none, host_keys="pin"))
    assert pinned.cause == ""
    assert not (home / "known_hosts").exists()


def test_a_missing_key_file_is_said_not_dumped(home: Path, servers: SshHosts) -> None:
    (check,) = check_hosts(spec_of(servers, [2], key="/nowhere/key"))
    assert check.cause == "auth"
    assert "/nowhere/key" in check.problem


def test_a_cluster_comes_up_on_the_good_hosts(home: Path, servers: SshHosts) -> None:
    """The whole way: dtfctl over SSH, certificates, agents, tasks; then nothing is left but the cache."""
    result = Cluster.up(spec_of(servers, [2, 4, 7]), task_command=STUB_COMMAND)
    assert (result.exit_code, result.running, result.wanted) == (5, 1, 3), result.problems
    cluster = result.cluster
    assert cluster is not None
    kinds = [event.kind for event in cluster.events() if event.subject == "host:127.0.0.2"]
    assert kinds[:2] == ["host.connecting", "host.installing"]
    assert {task.address.rpartition(":")[0] for task in cluster.status().tasks if task.state == "running"} == {
        "127.0.0.2"
    }
    assert cluster.down() == ()
    base = servers.home(2) / ".dtfctl"
    # Links are what the test lends the hosts.
    left = sorted(path.name for path in base.iterdir() if not path.is_symlink())
    assert left == ["clusters", "layers", "runtime", "tmp"]
    assert not list(base.rglob("*.key"))
    assert not (servers.home(4) / ".dtfctl").exists()


def test_a_spec_that_comes_again_while_files_are_on_their_way_disturbs_no_host(
    home: Path, servers: SshHosts, tmp_path: Path
) -> None:
    """The controller hands the spec over whenever it was applied, and hosts may be in the middle of the last one."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "blob").write_bytes(os.urandom(2**20))
    spec = replace(spec_of(servers, [2]), sync=(Sync(str(folder), str(tmp_path / "there")),))
    paths = ClusterPaths.of(spec.cluster)
    controller_client.prepare(paths)
    provider = SshProvider(paths)
    try:
        provider.configure(spec)
        with ThreadPoolExecutor(1) as pool:
            started = pool.submit(provider.start_agent, "127.0.0.2")
            while not started.done():
                provider.configure(spec)
                time.sleep(0.002)
        agent = started.result()
        assert agent.host == "127.0.0.2"
        assert (tmp_path / "there" / "blob").read_bytes() == (folder / "blob").read_bytes()
    finally:
        provider.kill_agent("127.0.0.2")
        provider.clean("127.0.0.2")
        provider.close()


def test_a_host_waits_for_as_long_as_what_it_is_to_get_has_to_be_downloaded(
    home: Path, servers: SshHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program there ends by itself after a while without a request."""
    text = conversation.source().replace(b"LONGEST_IDLE_S = 120", b"LONGEST_IDLE_S = 8")
    monkeypatch.setattr(conversation, "source", lambda: text)
    monkeypatch.setattr(conversation, "SIGN_S", 0.5)
    pack = Bundles.archive

    def pack_slowly(self: Bundles, platform: Platform, layer: Layer, *rest: Any) -> Archive:
        time.sleep(12.0)
        return pack(self, platform, layer, *rest)

    monkeypatch.setattr(Bundles, "archive", pack_slowly)
    servers.lend_packages(11)
    paths = ClusterPaths.of("t")
    controller_client.prepare(paths)
    provider = SshProvider(paths)
    try:
        provider.configure(spec_of(servers, [11]))
        assert provider.start_agent("127.0.0.11").host == "127.0.0.11"
    finally:
        provider.kill_agent("127.0.0.11")
        provider.clean("127.0.0.11")
        provider.close()


def test_what_is_forwarded_has_no_port_and_is_this_users_alone(home: Path, servers: SshHosts) -> None:
    """Loopback is every user's; a socket in a private folder is not, however long its path."""
    paths = ClusterPaths.of("x" * 63)  # too long for the kernel as it is
    (left := private_folder(paths.run) / "ssh-999999999-1-0.sock").touch()
    provider = SshProvider(paths)
    said = []
    try:
        provider.configure(spec_of(servers, [2]))
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"127.0.0.1:{server.getsockname()[1]}"
            before = listening_ports([os.getpid()])
            way = provider.forward("127.0.0.2", address)
            assert listening_ports([os.getpid()]) == before
            assert way == provider.forward("127.0.0.2", address)
            for _ in range(2):
                with connect_to(way, 60.0) as mine:
                    mine.sendall(b"hello")
                    with server.accept()[0] as theirs:
                        theirs.settimeout(60.0)
                        said.append(theirs.recv(5))
        path = Path(way.removeprefix("unix:"))
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    finally:
        provider.close()
    assert said == [b"hello", b"hello"]
    assert not path.exists() and not left.exists()
