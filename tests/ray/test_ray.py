"""Clusters on nodes that Ray lends: a real GCS, real nodes, real actors; tasks are stubs where those do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dtfctl.launcher.api import Cluster, UpResult
from dtfctl.launcher.errors import DeadlineExpired
from dtfctl.launcher.model import ClusterStatus
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.ray.client import RaySilent
from dtfctl.launcher.spec.load import parse_spec
from dtfctl.launcher.spec.model import ClusterSpec
from tests.cluster.conftest import STUB_COMMAND, controller_pid, kill, wait_until
from tests.faults.conftest import Measured
from tests.ray.site import Site


def name() -> str:
    """A cluster's name of this test's own: the nodes' home knows what other tests have left there."""
    words = os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].partition(" ")[0]
    return f"r-{zlib.crc32(words.encode()):08x}"


def text_of(site: Site, ray: str = "hosts: 2", tasks: str = "{ps: 1, worker: 2}") -> str:
    asked = f'{{{ray}, address: "{site.address}", python: {site.python}}}'
    return f"cluster: {name()}\nprovider: ray\nray: {asked}\ntasks: {tasks}\n"


def spec_of(site: Site, ray: str = "hosts: 2", tasks: str = "{ps: 1, worker: 2}") -> ClusterSpec:
    return parse_spec(text_of(site, ray, tasks), environ=dict(os.environ))


def bring_up(spec: ClusterSpec, **options: Any) -> Cluster:
    result: UpResult = Cluster.up(spec, task_command=STUB_COMMAND, **options)
    assert result.exit_code == 0, result.problems
    assert result.cluster is not None
    return result.cluster


def wait_status(cluster: Cluster, is_so: Callable[[ClusterStatus], Any], what: str) -> ClusterStatus:
    def look() -> ClusterStatus | None:
        status = cluster.status()
        return status if is_so(status) else None

    found: ClusterStatus = wait_until(look, what)
    return found


def all_run(status: ClusterStatus) -> bool:
    return status.running == len(status.tasks)


def commands_of(account: Path) -> list[str]:
    """The command lines of all that runs as the nodes' user, but Ray's own."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes()
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"HOME={account}".encode() in environ.split(b"\0") and "dtfctl" in words and "ray::" not in words:
            found.append(words)
    return found


@pytest.mark.slow
def test_up_takes_nodes_of_ray_and_down_gives_them_back(site: Site, home: Path, account: Path) -> None:
    cluster = bring_up(spec_of(site))
    status = cluster.status()
    assert status.grant is not None and status.grant.state == "granted"
    assert {task.host for task in status.tasks} == {"ray-0", "ray-1"}
    nodes = {host.node.partition("/")[2] for host in status.hosts}
    assert len(nodes) == 2 and nodes <= {node[:6] for node in site.node_ids()}
    assert [group.rpartition("-")[0] for group in site.groups()] == [f"dtfctl-{name()}"]
    keys = ClusterPaths.of(name()).certificates
    secrets = [line for path in keys.glob("*.key") for line in path.read_text().splitlines()[1:-1]]
    assert secrets and not any(secret in words for words in commands_of(account) for secret in secrets)

    before = {task.name: task.pid for task in status.tasks}
    kill(controller_pid(cluster))
    for host in status.hosts:
        assert host.agent_pid
        kill(host.agent_pid)
    now = wait_status(cluster, lambda now: all(host.state == "up" for host in now.hosts), "other agents")
    assert {task.name: task.pid for task in now.tasks} == before, "tasks have not noticed"
    again = Cluster.up(spec_of(site), task_command=STUB_COMMAND)
    assert again.changes == ()
    cluster.down()
    assert site.groups() == []
    wait_until(lambda: not commands_of(account), "all has ended")
    assert not ClusterPaths.of(name()).allocation.exists()


@pytest.mark.slow
@pytest.mark.fault(35)
def test_an_actor_that_ends_takes_all_on_its_host_along_and_another_comes(
    site: Site, home: Path, account: Path, measured: Measured
) -> None:
    cluster = bring_up(spec_of(site))
    lost = {task.name: task.pid for task in cluster.status().tasks if task.host == "ray-1"}
    group = site.groups()[0]
    begun = time.monotonic()
    site.ask(f"ray.kill(ray.get_actor('{group}/1'), no_restart=False)")
    wait_status(
        cluster,
        lambda now: all_run(now) and all(task.pid != lost.get(task.name) for task in now.tasks),
        "tasks of the host run in others",
    )
    measured("tasks again s", time.monotonic() - begun)
    site.ask(f"ray.util.remove_placement_group(ray.util.get_placement_group('{group}'))")
    wait_status(cluster, lambda now: now.grant is not None and now.grant.state == "ended", "that it is gone is known")
    wait_until(lambda: not [words for words in commands_of(account) if "launcher.agent" in words], "agents have ended")
    cluster = bring_up(spec_of(site))
    assert site.groups() not in ([], [group])
    cluster.down()
    assert site.groups() == []


@pytest.mark.nightly
def test_further_hosts_are_taken_when_nodes_come_and_left_when_they_go(python: str, home: Path, account: Path) -> None:
    site = Site(python, account, 2)
    try:
        spec = spec_of(site, "hosts: 3, min: 1", "{ps: 1, worker: 3}")
        result = Cluster.up(spec, task_command=STUB_COMMAND)
        assert (result.exit_code, result.problems) == (0, ())
        cluster = result.cluster
        assert cluster is not None
        now = wait_status(
            cluster, lambda now: bool(now.notes) and now.notes[0].startswith("2 of 3 hosts"), "what there is"
        )
        assert len({host.node for host in now.hosts if host.node}) == 2, "each on a node of its own"
        site.add_node()
        now = wait_status(cluster, lambda now: all_run(now) and not now.notes, "the new node is taken")
        assert len({host.node for host in now.hosts}) == 3
        first = site.node_ids()
        index = next(i for i in (1, 2) if any(host.node.endswith(first[i][:6]) for host in now.hosts))
        site.remove_node(index)
        now = wait_status(
            cluster, lambda now: bool(now.notes) and now.notes[0].startswith("2 of 3 hosts"), "a node is lost"
        )
        wait_status(cluster, lambda now: now.tasks[0].state == "running", "the ps runs")
        assert cluster.status().problems == ()
        site.add_node()
        wait_status(cluster, lambda now: all_run(now) and not now.notes, "another is taken in its place")
        assert cluster.down() == ()
        assert site.groups() == []
    finally:
        site.down()


@pytest.mark.nightly
@pytest.mark.fault(36)
def test_a_lost_node_is_left_and_another_takes_its_place(
    python: str, home: Path, account: Path, measured: Measured
) -> None:
    site = Site(python, account, 3)
    try:
        cluster = bring_up(spec_of(site))
        ids = site.node_ids()
        victim, index = next(
            (host, index) for host in cluster.status().hosts for index in (1, 2) if host.node.endswith(ids[index][:6])
        )
        begun = time.monotonic()
        site.remove_node(index)
        spare = ids[3 - index][:6]
        now = wait_status(
            cluster,
            lambda now: (
                all_run(now)
                and all(host.state == "up" for host in now.hosts)
                and next(host.node for host in now.hosts if host.name == victim.name) != victim.node
            ),
            "the host is another node",
        )
        measured("tasks again s", time.monotonic() - begun)
        used = {host.node.partition("/")[2] for host in now.hosts}
        assert spare in used or used == {ids[0][:6], spare}
        cluster.down()
        assert site.groups() == []
    finally:
        site.down()


@pytest.mark.nightly
def test_up_waits_for_nodes_that_are_not_there_yet(python: str, home: Path, account: Path) -> None:
    site = Site(python, account, 1)
    try:
        with pytest.raises(DeadlineExpired):
            bring_up(spec_of(site), timeout_s=5.0)
        cluster = Cluster.open(name())
        now = wait_status(cluster, lambda now: now.grant is not None and now.grant.state == "queued", "it is known")
        assert now.grant is not None and now.grant.why == "1 of 2 nodes that have CPU 1 are there"
        site.add_node()
        cluster = bring_up(spec_of(site))
        cluster.down()
        assert site.groups() == []
        result = Cluster.up(spec_of(site, "hosts: 4"), task_command=STUB_COMMAND, wait=False)
        assert result.cluster is not None and len(site.groups()) == 1
        result.cluster.down()
        assert site.groups() == [], "also a request that still waits is taken back"
    finally:
        site.down()


@pytest.mark.nightly
def test_the_autoscaler_adds_nodes_for_a_cluster_and_takes_them_away_after_it(
    python: str, home: Path, account: Path
) -> None:
    site = Site(python, account, 2, kind="autoscaler")
    try:
        assert site.alive() == 1, "a head, which has no processors to lend"
        cluster = bring_up(spec_of(site))
        status = cluster.status()
        assert {task.host for task in status.tasks} == {"ray-0", "ray-1"} and all_run(status)
        assert site.alive() == 3, "a node for each: the ids that the autoscaler gives begin alike"
        assert "allocation.queued" in [event.kind for event in cluster.events()], "it has waited for them"
        assert cluster.down() == ()
        wait_until(lambda: site.alive() == 1, "nobody needs the nodes", 120.0)
    finally:
        site.down()


def test_a_ray_that_is_not_there_leaves_nothing(python: str, home: Path) -> None:
    text = (
        f"cluster: {name()}\nprovider: ray\nray: {{python: {python}, address: '127.0.0.9:9'}}\ntasks: {{worker: 1}}\n"
    )
    with pytest.raises(RaySilent) as caught:
        Cluster.up(parse_spec(text, environ=dict(os.environ)), task_command=STUB_COMMAND)
    assert "ray start" in caught.value.hint or "ray status" in caught.value.hint
    assert not ClusterPaths.of(name()).info.exists()


@pytest.mark.nightly
def test_a_ray_job_brings_a_cluster_up_trains_and_takes_it_down(
    python: str, home: Path, account: Path, tmp_path: Path
) -> None:
    site = Site(python, account, 2, kind="dashboard")
    try:
        sent = tmp_path / "sent"
        sent.mkdir()
        (sent / "lab.yaml").write_text(text_of(site, tasks="{worker: 2}"))
        (sent / "train.py").write_text("import os\nprint('trains', os.environ['DTF_TASK_INDEX'])\n")
        tool = f"{sys.executable} -m dtfctl"
        env = f"HOME={account} DTFCTL_HOME={home}"
        entry = f"{env} {tool} submit --up lab.yaml train.py"
        words = [str(Path(python).with_name("ray")), "job", "submit", "--address", f"http://{site.dashboard}"]
        words += ["--working-dir", str(sent), "--", "sh", "-c", entry]

        def submitted() -> subprocess.CompletedProcess[str] | None:
            done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
            return None if "No available agent" in done.stderr else done  # that of the head node begins late

        job = wait_until(submitted, "Ray takes jobs", 300.0)
        assert job.returncode == 0, job.stdout[-3000:] + job.stderr[-3000:]
        assert "trains 0" in job.stdout and "trains 1" in job.stdout
        assert site.groups() == []
    finally:
        site.down()
