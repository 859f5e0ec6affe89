"""The dashboard of a controller that runs on a host: served there, led to from here, and never left behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.spec.model import ControllerPlace, Dashboard, HostGroup, HostName
from tests.cluster.conftest import STUB_COMMAND, processes_of, wait_until
from tests.cluster.test_served_dashboard import ask, knows, login
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab
from tests.support.ports import free_ports

SERVER = "dtfctl.dashboard --lock-fd"
CONTROLLER = "dtfctl.launcher.controller --lock-fd"


def _set(line: bytes) -> list[Any]:
    """What a line of a stream says of things that have changed."""
    found: list[Any] = json.loads(line[6:])["set"] if line.startswith(b"data: ") else []
    return found


def servers(lab: Lab) -> list[int]:
    return [len(lab.processes(name, SERVER)) for name in lab.names]


def test_a_page_on_a_host_is_led_to_from_here_and_comes_back_there(home: Path, lab: Lab) -> None:
    spec = cluster_of(lab, controller=ControllerPlace("host", lab.address_of(lab.names[1])))
    assert Cluster.up(spec, task_command=STUB_COMMAND).exit_code == 0
    cluster, host = Cluster.open("t"), lab.names[1]
    [port] = free_ports(1)
    opened = cluster.open_dashboard(port)
    try:
        assert opened.is_led and opened.url.startswith(f"http://127.0.0.1:{port}/#token=")
        cookie = login(opened.url)
        assert servers(lab) == [0, 1, 0]
        assert [line for line in processes_of(home) if "dtfctl.dashboard" in line] == []
        stream = ask(opened.url, "/api/stream", cookie=cookie)
        assert stream.readline().startswith(b"data: ")
        # A study that runs here is shown there.
        cluster.show_study("study-1", json.dumps({"title": "lr"}))
        while not any(told[:2] == ["study", "study-1"] for told in _set(stream.readline())):
            pass
        # Whoever dies there.
        for words in (SERVER, CONTROLLER):
            before = lab.processes(host, words)
            for pid in before:
                if b"until" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
            wait_until(lambda b=before, w=words: set(lab.processes(host, w)) - set(b), "it is back")  # type: ignore[misc]
            assert knows(opened.url, cookie)
        # Who asks again is led to the same page.
        second = Cluster.open("t").open_dashboard()
        try:
            assert second.url != opened.url and knows(second.url, cookie)
        finally:
            second.close()
        assert cluster.close_dashboard()
        assert servers(lab) == [0, 0, 0]
    finally:
        opened.close()
    Cluster.open("t").open_dashboard().close()
    assert cluster.down(grace_s=0.5) == ()
    for name in lab.names:
        assert lab.left_over(name) == []


@pytest.mark.nightly
def test_a_page_of_the_file_comes_along_when_the_controller_goes_to_another_host(home: Path, lab: Lab) -> None:
    first = lab.names[0]
    groups = {"all": HostGroup(tuple(HostName(host.address) for host in lab.hosts), slots=2)}
    [port] = free_ports(1)
    spec = cluster_of(
        lab, ps=1, worker=1, host_groups=groups, controller=ControllerPlace("host"), dashboard=Dashboard(port)
    )
    assert Cluster.up(spec, task_command=STUB_COMMAND).exit_code == 0
    wait_until(lambda: servers(lab) == [1, 0, 0], "it is up with the cluster")
    lab.poweroff(first)
    assert Cluster.up(spec, task_command=STUB_COMMAND, adopt=True).usable
    wait_until(lambda: servers(lab)[1:] == [1, 0], "it is where the controller is")
    opened = Cluster.open("t").open_dashboard()
    try:
        assert knows(opened.url, login(opened.url))
    finally:
        opened.close()
    # What the host has that was lost is ended when it is back, page and controller.
    lab.boot(first)
    cluster = Cluster.open("t")
    wait_until(lambda: all(host.state == "up" for host in cluster.status().hosts), "its host is back")
    assert cluster.down(grace_s=0.5) == ()
    for name in lab.names:
        assert lab.left_over(name) == []
