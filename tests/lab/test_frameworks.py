"""Jobs of other frameworks over two hosts of the lab: their processes meet over the network, and one is killed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import ClientStatus, Framework, JobRequest
from dtfctl.launcher.spec.model import HostGroup, HostName
from tests.cluster.conftest import STUB_COMMAND, wait_until
from tests.interop.framework_jobs import ENVIRONMENT, python_of, python_with, run
from tests.lab.conftest import cluster_of
from tests.lab.netns import Lab


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[int], Lab]) -> Lab:
    """Two hosts, and a spare one."""
    return make_lab(3)


@pytest.fixture(scope="module")
def cluster(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A ps and two workers on two hosts. Their servers are stubs: these frameworks bring their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("lab") / "home"))
        names = [HostName(lab.address_of(name)) for name in lab.names]
        groups = {"two": HostGroup(tuple(names[:2])), "reserve": HostGroup(tuple(names[2:]), spare=True)}
        made = Cluster.up(cluster_of(lab, host_groups=groups), task_command=STUB_COMMAND).cluster
        assert made is not None
        try:
            assert len({task.host for task in made.status().tasks if task.job == "worker"}) == 2
            yield made
        finally:
            made.down(grace_s=1.0)


@pytest.fixture
def meeting(tmp_path: Path) -> str:
    """The path of a script that meets its peers, and in its first start waits until one is gone."""
    path = tmp_path / "meeting.py"
    path.write_text(textwrap.dedent(MEETING))
    return str(path)


def met(cluster: Cluster, job_id: str, start: int) -> list[list[str]]:
    """What the processes of that start say about where they met, by rank."""
    lines = [line.text.split() for line in cluster.logs(f"job:{job_id}") if line.text.startswith("met ")]
    return sorted(words for words in lines if words[4] == str(start))


def killer(lab: Lab) -> Callable[[ClientStatus], None]:
    names = {lab.address_of(name): name for name in lab.names}

    def kill(client: ClientStatus) -> None:
        lab.sh(names[client.host], "kill", "-9", str(client.pid))

    return kill


def python_there(lab: Lab, package: str) -> str:
    """The interpreter that has it; skips the test where there is none that the hosts can see."""
    python = python_of(package)
    if lab.sh(lab.names[0], "sh", "-c", f"test -x {python} && echo yes", check=False).strip() != "yes":
        pytest.skip(f"{python} is not to be seen on the lab's hosts, which have their own /tmp and home")
    return python


MEETING = """
    # As torch.distributed.init_process_group("gloo") does, without torch: rank 0 listens, all others connect.
    import os, pathlib, socket, sys, time
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank == 0:
        server = socket.create_server(("", place[1]))
        peers = [server.accept()[0] for _ in range(world - 1)]
    else:
        while True:
            try:
                peers = [socket.create_connection(place, timeout=1.0)]
                break
            except OSError:
                time.sleep(0.05)
        peers[0].settimeout(None)
    start = os.environ["TORCHELASTIC_RESTART_COUNT"]
    print("met", rank, os.environ["LOCAL_RANK"], os.environ["GROUP_RANK"], start, *place, flush=True)
    for peer in peers:
        peer.sendall(start.encode())
        assert peer.recv(16) == start.encode(), "somebody of another start"
    if start == "0":
        peers[0].recv(1)  # until it is gone
        sys.exit("a peer has vanished")
"""


def test_a_group_over_two_hosts_meets_again_at_another_port(cluster: Cluster, lab: Lab, meeting: str) -> None:
    job_id = cluster.submit(JobRequest(meeting, framework="torch"))
    wait_until(lambda: len(met(cluster, job_id, 0)) == 2, "both met")
    victim = next(client for client in cluster.job(job_id).clients if client.name == "worker/1")
    killer(lab)(victim)
    status = wait_until(lambda: (job := cluster.job(job_id)).is_final and job, "it has ended")
    assert (status.state, status.restarts) == ("succeeded", 1), status.reason
    first, second = met(cluster, job_id, 0), met(cluster, job_id, 1)
    assert [words[1:4] for words in second] == [["0", "0", "0"], ["1", "0", "1"]]
    assert first[0][5] == second[0][5] == status.clients[0].host
    assert first[0][6] != second[0][6]


@pytest.mark.slow
def test_torch_over_two_hosts(cluster: Cluster, lab: Lab) -> None:
    done = run(
        cluster,
        "torch",
        python_there(lab, "TORCH"),
        "torch_ddp.py",
        *("--steps", "120", "--pause", "0.02"),
        victim="worker/1",
        at="^step 40",
        end=killer(lab),
        env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "eth0"},
    )
    assert (done.status.restarts, done.status.starts) == (1, 2)
    assert "rank 1 goes on from step 40" in done.lines
    assert "weights [2.0, -3.0, 0.5]" in done.text


@pytest.mark.slow
def test_jax_over_two_hosts(cluster: Cluster, lab: Lab) -> None:
    done = run(
        cluster,
        "jax",
        python_there(lab, "JAX"),
        "jax_sum.py",
        *("--steps", "60", "--pause", "0.02"),
        victim="worker/1",
        at="^step 20",
        end=killer(lab),
    )
    assert (done.status.restarts, done.status.starts) == (1, 2)
    assert f"process 1: total {sum(step * 3 for step in range(60))}" in done.lines


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_digits_are_learned_over_two_hosts_that_share_no_disk(cluster: Cluster, lab: Lab, framework: Framework) -> None:
    """A process is killed on the other host than that of the checkpoints' writer; all go on from the newest one."""
    python_with(framework.upper(), "sklearn")
    done = run(
        cluster,
        framework,
        python_there(lab, framework.upper()),
        f"{framework}_digits.py",
        *("--epochs", "12", "--pause", "0.3"),
        victim="worker/1",
        at="^epoch 4,",
        end=killer(lab),
        env={**ENVIRONMENT, "GLOO_SOCKET_IFNAME": "eth0"},
    )
    assert len({client.host for client in done.status.clients}) == 2
    assert (done.status.restarts, done.status.starts) == (1, 2)
    begins = re.findall(r"2 (?:ranks|processes) begin at epoch (\d+)", done.text)
    assert begins[0] == "0" and int(begins[1]) >= 4
    accuracy = re.search(r"that it has not seen: ([\d.]+)", done.text)
    assert accuracy is not None and float(accuracy[1]) > 0.93


@pytest.mark.slow
def test_tensorflow_over_two_hosts(cluster: Cluster, lab: Lab) -> None:
    done = run(
        cluster,
        "tensorflow",
        python_there(lab, "TENSORFLOW"),
        "tensorflow_ps.py",
        *("--steps", "900", "--pause", "0.02"),
        victim="worker/1",
        at="^worker/1 step",
        end=killer(lab),
    )
    assert {client.name: client.restarts for client in done.status.clients} == {"worker/0": 0, "worker/1": 1, "ps/0": 0}
    assert done.status.starts == 1
    assert done.lines.count("worker/1 serves") == 2


def test_a_group_that_loses_a_host_meets_again_on_others(cluster: Cluster, lab: Lab, meeting: str) -> None:
    """The last test: it uses a host up."""
    job_id = cluster.submit(JobRequest(meeting, framework="torch"))
    wait_until(lambda: len(met(cluster, job_id, 0)) == 2, "both met")
    lost = {client.name: client.host for client in cluster.job(job_id).clients}["worker/1"]
    name = next(name for name in lab.names if lab.address_of(name) == lost)
    lab.poweroff(name)
    try:
        status = wait_until(lambda: (job := cluster.job(job_id)).is_final and job, "it has ended", timeout_s=90.0)
        assert (status.state, status.exit_code) == ("succeeded", 0), status.reason
        hosts = {client.name: client.host for client in status.clients}
        assert lost not in hosts.values()
        assert status.starts >= 2
        assert [event.kind for event in cluster.events() if event.subject == f"job:{job_id}"].count(
            "job.starts-again"
        ) == status.starts - 1
    finally:
        lab.boot(name)
