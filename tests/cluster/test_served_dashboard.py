"""The dashboard that a controller has served: how long it stays, who brings it back, and that nothing is left of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import Conflict, PortTaken, UsageError
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Dashboard, Metrics
from tests.cluster.conftest import (
    STUB_COMMAND,
    controller_pid,
    kill,
    pids,
    processes_of,
    spec_of,
    wait_until,
)
from tests.support.ports import free_ports

Up = Callable[..., Cluster]


def command(*words: str) -> str:
    """What `dtfctl dashboard` says at last; it ends by itself."""
    ended = subprocess.run(
        [sys.executable, "-m", "dtfctl", "dashboard", *words], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def ask(url: str, path: str = "/", body: Any = None, cookie: str = "") -> http.client.HTTPResponse:
    where = url.partition("/#")[0].removeprefix("http://")
    connection = http.client.HTTPConnection(where, timeout=120)
    sent = {"Cookie": cookie, **({} if body is None else {"Origin": f"http://{where}"})}
    connection.request("GET" if body is None else "POST", path, body and json.dumps(body), sent)
    return connection.getresponse()


def login(url: str) -> str:
    answer = ask(url, "/login", {"token": url.partition("#token=")[2]})
    assert answer.status == 200
    return answer.headers["Set-Cookie"].partition(";")[0]


def knows(url: str, cookie: str) -> bool:
    return bool(json.load(ask(url, "/api/me", cookie=cookie))["known"])


def lets_in(url: str, cookie: str) -> bool:
    """Tell whether the page knows who asks; a page that only begins may end a connection, as browsers know."""
    with contextlib.suppress(ConnectionError, http.client.HTTPException):
        return knows(url, cookie)
    return False


def is_shut(url: str) -> bool:
    port = int(url.partition("/#")[0].rpartition(":")[2])
    with socket.socket() as door:
        return door.connect_ex(("127.0.0.1", port)) != 0


def servers(home: Path) -> list[int]:
    return [int(line.split()[0]) for line in processes_of(home) if "dtfctl.dashboard" in line]


def kill_both(cluster: Cluster, home: Path) -> None:
    """Kill page and controller, stopped first: either starts the other."""
    both = (controller_pid(cluster), *servers(home))
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in both:
            kill(pid, number)


def ends(home: Path, url: str) -> None:
    wait_until(lambda: is_shut(url) and not servers(home), "the page is gone")


def test_the_page_stays_when_the_command_has_ended(up: Up, home: Path) -> None:
    cluster = up()
    url = command("--no-browser")
    assert command("--no-browser") == url, "who asks again is told where it is"
    cookie = login(url)
    assert knows(url, cookie)
    stream, told = ask(url, "/api/stream", cookie=cookie), set()
    while not {("task", "ps/0"), ("task", "worker/1")} <= told:
        line = stream.readline()
        if line.startswith(b"data: "):
            told |= {(kind, name) for kind, name, _ in json.loads(line[6:])["set"]}
    paths = ClusterPaths.of(cluster.name)
    for file in (paths.dashboard, paths.dashboard_process):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert url.partition("#token=")[2] not in Path(f"/proc/{servers(home)[0]}/cmdline").read_text()
    assert cluster.down(grace_s=0.5) == ()
    ends(home, url)
    assert processes_of(home) == []
    assert not list(paths.folder.glob("dashboard*"))


def test_the_command_leads_a_browser_by_a_file_that_only_its_user_can_read(
    up: Up, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = up()
    seen = home / "seen"
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {seen}\n')
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", str(browser))
    url = command()
    wait_until(seen.exists, "a browser is started")
    file = ClusterPaths.of(cluster.name).dashboard_opener
    assert seen.read_text().strip() == file.as_uri()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and url in file.read_text()
    command("--stop")
    assert not file.exists()


def test_a_study_is_kept_under_its_name_and_nowhere_else(up: Up, home: Path) -> None:
    cluster = up()
    cluster.show_study("s-1", "{}")
    kept = ClusterPaths.of(cluster.name).studies
    assert [file.name for file in kept.iterdir()] == ["s-1.json"]
    assert stat.S_IMODE((kept / "s-1.json").stat().st_mode) == 0o600
    for name in ("../s", "a/b", "", "x" * 200):
        with pytest.raises(UsageError, match="no name of a study"):
            cluster.show_study(name, "{}")
    cluster.down(grace_s=0.5)
    assert not kept.exists()


def test_a_page_that_was_ended_lets_nobody_in_any_more(up: Up, home: Path) -> None:
    up()
    assert json.loads(command("--stop", "-o", "json"))["url"] is None, "there was none, which is what was wanted"
    url = command("--no-browser")
    cookie = login(url)
    command("--stop")
    ends(home, url)
    again = command("--no-browser")
    assert again.partition("#")[2] != url.partition("#")[2]
    assert ask(again, "/api/stream", cookie=cookie).status == 401
    assert ask(again, "/login", {"token": url.partition("#token=")[2]}).status == 401


def test_a_page_whose_process_was_killed_comes_back_where_it_was(up: Up, home: Path) -> None:
    cluster = up()
    url = cluster.open_dashboard().url
    cookie = login(url)
    [pid] = servers(home)
    kill(pid)
    wait_until(lambda: servers(home) and pid not in servers(home) and lets_in(url, cookie), "it is back")
    events = [event.reason for event in cluster.events() if event.kind == "controller.dashboard"]
    assert len(events) == 2 and "started again" in events[1]


def test_a_page_outlives_its_controller_and_brings_it_back(up: Up, home: Path) -> None:
    cluster = up()
    url = cluster.open_dashboard().url
    cookie = login(url)
    served, tasks, controller = servers(home), pids(cluster), controller_pid(cluster)
    kill(controller)

    def is_back() -> bool:
        with contextlib.suppress(AssertionError):
            return controller_pid(cluster) != controller
        return False

    wait_until(is_back, "the page's own calls start it again")
    assert servers(home) == served
    wait_until(lambda: pids(cluster) == tasks, "it knows its tasks")
    assert knows(url, cookie)
    assert Cluster.open(cluster.name).open_dashboard().url == url
    assert cluster.down(grace_s=0.5) == ()
    ends(home, url)
    assert processes_of(home) == []


def test_page_and_controller_that_died_together_come_back_by_any_command(up: Up, home: Path) -> None:
    cluster = up()
    url = cluster.open_dashboard().url
    cookie = login(url)
    tasks = pids(cluster)
    kill_both(cluster, home)
    wait_until(lambda: pids(Cluster.open(cluster.name)) == tasks, "it knows its tasks")
    wait_until(lambda: lets_in(url, cookie), "the page is back")
    # Also where it is the next `up` that finds them dead.
    kill_both(cluster, home)
    assert Cluster.up(spec_of(), task_command=STUB_COMMAND).exit_code == 0
    wait_until(lambda: len(servers(home)) == 1 and not is_shut(url), "the page is back")


def test_a_page_that_hangs_does_not_outlive_the_cluster(up: Up, home: Path) -> None:
    cluster = up()
    url = cluster.open_dashboard().url
    kill(servers(home)[0], signal.SIGSTOP)
    assert cluster.down(grace_s=0.5) == ()
    ends(home, url)
    assert processes_of(home) == []


def test_a_page_that_nobody_knows_the_process_of_ends_with_the_cluster(up: Up, home: Path) -> None:
    cluster = up()
    url = cluster.open_dashboard().url
    ClusterPaths.of(cluster.name).dashboard_process.unlink()
    assert cluster.down(grace_s=0.5) == ()
    ends(home, url)
    assert processes_of(home) == []


def test_of_a_cluster_whose_files_are_deleted_no_page_is_left(up: Up, home: Path) -> None:
    cluster = up()
    url = cluster.open_dashboard().url
    try:
        shutil.rmtree(ClusterPaths.of(cluster.name).folder, ignore_errors=True)
        ends(home, url)
    finally:
        # While files go one by one, what misses one of these may start another.
        wait_until(lambda: not ended(home), "nothing of it runs")


def ended(home: Path) -> list[int]:
    """Kill what runs of a cluster; what that was."""
    pids = [int(line.split()[0]) for line in processes_of(home)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            kill(pid)
    return pids


def test_the_file_says_where_the_page_is(up: Up, home: Path) -> None:
    first, second = free_ports(2)
    cluster = up(spec_of(dashboard=Dashboard(first)))
    wait_until(lambda: len(servers(home)) == 1, "it is up with the cluster")
    url = command("--no-browser")
    assert url.startswith(f"http://127.0.0.1:{first}/#token=")
    assert ask(url).status == 200
    with pytest.raises(Conflict, match=f"at port {first}"):
        cluster.open_dashboard(second)
    with pytest.raises(Conflict, match="has a `dashboard:`"):
        cluster.close_dashboard()

    cookie = login(url)
    changed = Cluster.up(spec_of(dashboard=Dashboard(second)), task_command=STUB_COMMAND)
    assert changed.changes == ("change dashboard",) and changed.running == 3
    assert is_shut(url)
    moved = url.replace(str(first), str(second))
    assert cluster.open_dashboard().url == moved
    assert knows(moved, cookie), "who was let in still is"

    assert Cluster.up(spec_of(), task_command=STUB_COMMAND).changes == ("change dashboard",)
    ends(home, moved)
    # It comes with the next cluster of that file, and with another token.
    cluster.down(grace_s=0.5)
    again = up(spec_of(dashboard=Dashboard(first)))
    assert again.open_dashboard().url.partition("/#")[0] == url.partition("/#")[0]
    assert again.open_dashboard().url != url


def test_a_port_that_is_taken_is_said_at_once(up: Up, home: Path) -> None:
    cluster = up()
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(Conflict, match=f"port {port} of the dashboard is taken by pid {os.getpid()}"):
            cluster.open_dashboard(port)
        url = cluster.open_dashboard().url
        with pytest.raises(Conflict, match=f"port {port} of the dashboard is taken"):
            cluster.open_dashboard(port)
        assert ask(url).status == 200, "the page stays where it was"
        with pytest.raises(PortTaken, match=f"port {port} of the dashboard is taken"):
            Cluster.up(spec_of(dashboard=Dashboard(port), metrics=Metrics(free_ports(1)[0])), task_command=STUB_COMMAND)
        assert ask(url).status == 200
    moved = cluster.open_dashboard(port).url
    assert moved.startswith(f"http://127.0.0.1:{port}/#") and is_shut(url)


def test_a_page_whose_own_port_is_taken_meanwhile_comes_back_elsewhere_or_when_it_is_free(up: Up, home: Path) -> None:
    cluster = up()

    def lose_it(url: str) -> socket.socket:
        """Kill controller and page, and take the port before they come back."""
        port = int(url.partition("/#")[0].rpartition(":")[2])
        kill_both(cluster, home)
        taken: list[socket.socket] = []

        def take() -> bool:
            with contextlib.suppress(OSError):
                taken.append(socket.create_server(("127.0.0.1", port)))
            return bool(taken)

        wait_until(take, "its port is free")
        return taken[0]

    url = cluster.open_dashboard().url
    with lose_it(url):
        elsewhere = Cluster.open(cluster.name).open_dashboard().url
        before, after = url.partition("/#"), elsewhere.partition("/#")
        assert after[0] != before[0] and after[2] == before[2]
    [port] = free_ports(1)
    chosen = cluster.open_dashboard(port).url
    with lose_it(chosen):

        def told() -> list[str]:
            return [event.reason for event in Cluster.open(cluster.name).events()]

        wait_until(lambda: any(f"the port {port} of the dashboard is taken" in text for text in told()), "it says so")
        assert servers(home) == []
    wait_until(lambda: len(servers(home)) == 1 and ask(chosen).status == 200, "it has its port again")
