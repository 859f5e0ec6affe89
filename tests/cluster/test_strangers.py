"""A running cluster with everything open that it can open: nobody else gets in, and nobody else sees a secret."""

from __future__ import annotations

import http.client
import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.controller.serve.dashboard import read_page
from dtfctl.launcher.identity.certificates import TlsFiles, ensure_authority, ensure_certificate
from dtfctl.launcher.messages.dashboard import ServedPage
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.operator.tunnel import Tunnel
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import Dashboard, Metrics
from dtfctl.launcher.system.procfs import identify
from tests.cluster.conftest import processes_of, spec_of, wait_until
from tests.cluster.strangers import PAGE, PREFACE, Port, greet, is_answered, listening_ports, make_expired, plain_answer
from tests.support.ports import free_ports
from tests.support.strangers import answer_at_shared_port, as_nobody, needs_second_user, own_answer

SECRET = "s3cret-0b9f6c"


@dataclass
class Running:
    cluster: Cluster
    paths: ClusterPaths
    tunnel: Tunnel
    metrics_port: int
    job: str

    @property
    def pids(self) -> list[int]:
        """Of every process of the cluster, its jobs and its tunnel."""
        known = {int(line.split()[0]) for line in processes_of(self.paths.folder)}
        status = self.cluster.status()
        known |= {task.pid for task in status.tasks if task.pid} | {os.getpid()}
        known |= {client.pid for job in status.jobs for client in job.clients if client.pid}
        found = set(known)
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and identify(int(entry.name)):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent in known and int(entry.name) != os.getpid():
                    found.add(int(entry.name))
        return sorted(found - {os.getpid()})

    @property
    def ports(self) -> list[Port]:
        return listening_ports(self.pids)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    base = tmp_path_factory.mktemp("strangers")
    base.chmod(0o755)
    for parent in (base.parent, base.parent.parent):
        parent.chmod(parent.stat().st_mode | 0o011)  # it is the cluster's own folders that have to keep others out
    (port,) = free_ports(1)
    (base / "job.py").write_text("import time; print('up', flush=True); time.sleep(600)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(base / "home"))
        spec = spec_of("guarded", worker=1, metrics=Metrics(port), dashboard=Dashboard(0), env={"API_TOKEN": SECRET})
        cluster = Cluster.up(spec).cluster
        assert cluster is not None
        try:
            job = cluster.submit(JobRequest(str(base / "job.py"), env={"JOB_TOKEN": SECRET}))
            wait_until(lambda: any(line.text == "up" for line in cluster.logs(f"job:{job}")), "the job runs")
            with cluster.connect("worker/0") as tunnel:
                yield Running(cluster, ClusterPaths.of("guarded"), tunnel, port, job)
        finally:
            cluster.down(grace_s=1.0)


def authority_and_reader(running: Running, number: int) -> tuple[Path, TlsFiles, bytes]:
    """Who says who may come in at a port, somebody who may, and what one says there.

    At the ports for tensors even a task is not answered without a ticket that it was given before; TLS lets it in.
    """
    if number == running.metrics_port:
        return running.paths.readers, TlsFiles.of(running.paths.readers, "metrics"), PAGE
    return (
        running.paths.certificates,
        TlsFiles.of(running.paths.host("localhost") / "certificates", "task-worker-0"),
        PREFACE,
    )


def page(running: Running) -> ServedPage:
    found = read_page(running.paths)
    assert found is not None
    return found


def tunnel_port(running: Running) -> int:
    return int(running.tunnel.target.rpartition(":")[2])


def plain_ports(running: Running) -> set[int]:
    """Ports for this user's processes only, which know no TLS."""
    return {tunnel_port(running), page(running).port}


def test_every_port_refuses_strangers(running: Running, tmp_path: Path) -> None:
    ports = running.ports
    commands = " ".join(port.command for port in ports)
    for process in (
        "launcher.controller",
        "launcher.agent",
        "dtfctl.task",
        "dtfctl.plaintext_port",
        "dtfctl.dashboard",
    ):
        assert process in commands
    numbers = {port.number for port in ports}
    assert running.metrics_port in numbers
    assert numbers >= plain_ports(running)
    assert len(numbers) >= 7  # controller, metrics, agent, two tasks, tunnel, dashboard
    ensure_authority(tmp_path / "other", "guarded")
    forged = ensure_certificate(tmp_path / "other", "guarded", "cli")
    welcome: Counter[str] = Counter()
    for port in ports:
        if port.number in plain_ports(running):
            continue  # below
        authority, mine, hello = authority_and_reader(running, port.number)
        expired = make_expired(tmp_path / str(port.number), authority, "cli")
        welcome[greet(port.number, mine, hello)] += 1
        assert not is_answered(port.number, None, hello), f"no certificate: {port}"
        assert not is_answered(port.number, forged, hello), f"a certificate of another authority: {port}"
        assert not is_answered(port.number, expired, hello), f"an expired certificate: {port}"
        assert plain_answer(port.number, hello) == b"", f"plain text: {port}"
    assert welcome["answered"] >= 5 and not welcome["refused"], "nobody at all is let in, so this shows nothing"


def test_the_certificate_for_metrics_opens_nothing_else(running: Running) -> None:
    reader = TlsFiles.of(running.paths.readers, "metrics")
    user = TlsFiles.of(running.paths.certificates, "cli")
    assert not is_answered(running.metrics_port, user, PAGE)
    for port in running.ports:
        if port.number not in {running.metrics_port, *plain_ports(running)}:
            assert not is_answered(port.number, reader, PREFACE), port


def test_the_metrics_page_is_what_prometheus_reads(running: Running) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    # What a task counts comes with its next beat.
    wait_until(lambda: "dtfctl_runtime_threads" in running.cluster.metrics(), "figures of a task come")
    text = running.cluster.metrics()
    names = {family.name for family in text_string_to_metric_families(text)}
    assert {"dtfctl_task_restarts", "dtfctl_cluster_healthy", "dtfctl_host_up"} <= names
    config = running.cluster.scrape_config()
    assert all(Path(config["tls_config"][key]).is_file() for key in ("ca_file", "cert_file", "key_file"))


def test_nothing_listens_beyond_loopback(running: Running) -> None:
    loopback = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert not [port for port in running.ports if port.address not in loopback]


def test_secrets_are_in_no_command_line_log_status_or_event(running: Running) -> None:
    keys = [path.read_text().splitlines()[1] for path in running.paths.certificates.rglob("*.key")]
    assert len(keys) >= 6
    secrets = [SECRET, "PRIVATE KEY", *keys, page(running).token, page(running).session]
    for pid in running.pids:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        assert not [secret for secret in secrets if secret in command], pid
        assert stat.S_IMODE(os.stat(f"/proc/{pid}/environ").st_mode) == 0o400
    for log in running.paths.logs.rglob("*.log"):
        text = log.read_text(errors="replace")
        assert not [secret for secret in secrets if secret in text], log
    said = [repr(running.cluster.status()), *(repr(event) for event in running.cluster.events())]
    said.append(running.cluster.metrics())
    assert not [secret for secret in secrets if any(secret in text for text in said)]


def test_files_are_for_this_user_only(running: Running) -> None:
    home = running.paths.folder.parent.parent
    for path in (home, running.paths.folder, running.paths.certificates, running.paths.readers, running.paths.logs):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    open_to_others = [
        path
        for path in home.rglob("*")
        if not path.is_symlink() and stat.S_ISREG(path.stat().st_mode) and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    private = [path for path in open_to_others if path.suffix in (".key", ".pem", ".db", ".json", ".log")]
    assert not private
    sockets = [path for path in home.rglob("*") if stat.S_ISSOCK(path.lstat().st_mode)]
    for path in sockets:
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for pid in running.pids:
        for mapped in set(re.findall(r"/dev/shm/\S+", Path(f"/proc/{pid}/maps").read_text())):
            if Path(mapped).exists():
                assert not stat.S_IMODE(Path(mapped).stat().st_mode) & 0o077, mapped


NOBODY = """
import json, os, socket, ssl, sys
facts = json.loads(sys.argv[1])
got = []
for path in facts["paths"]:
    try:
        os.listdir(path) if os.path.isdir(path) else open(path).read()
        got.append(path)
    except OSError:
        pass
for pid in facts["pids"]:
    for name in ("environ", "maps", "mem", "cwd"):
        try:
            open(f"/proc/{pid}/{name}").read() if name != "cwd" else os.readlink(f"/proc/{pid}/cwd")
            got.append(f"/proc/{pid}/{name}")
        except OSError:
            pass
    try:
        os.kill(pid, 0)
        got.append(f"signal {pid}")
    except OSError:
        pass
for path in facts["sockets"]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            client = socket.socket(socket.AF_UNIX, kind)
            client.settimeout(20)
            client.connect("\\0" + path[1:] if path.startswith("@") else path)
            if not path.startswith("@"):
                got.append(path)
            else:  # anybody can connect to a name without a file; nobody may be answered
                client.send(b"x" * 64)
                if client.recv(99):
                    got.append(path)
        except OSError:
            pass
hello = b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
for port in facts["ports"]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), 20), server_hostname="x") as tls:
            tls.sendall(hello)
            if tls.recv(999):
                got.append(port)
    except OSError:
        pass
for port in facts["plain"]:
    for hello in (hello, b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" % port):
        try:
            with socket.create_connection(("127.0.0.1", port), 20) as plain:
                plain.sendall(hello)
                if plain.recv(999):
                    got.append(port)
        except OSError:
            pass
print(json.dumps({"uid": os.getuid(), "got": got}))
"""


@needs_second_user
def test_another_user_of_the_host_reaches_nothing(running: Running) -> None:
    home = running.paths.folder.parent.parent
    pids = running.pids
    sockets = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if str(home) in line]
    sockets += [str(path) for pid in pids for path in _socket_files(pid)]
    assert sockets
    files = [str(path) for path in home.rglob("*")]
    plain = plain_ports(running)
    ports = [port.number for port in running.ports if port.number not in plain]
    assert page(running).port in plain and greet_page(page(running).port) == 200, "it would answer this user"
    facts = {"paths": [str(home), *files], "pids": pids, "sockets": sockets, "ports": ports, "plain": sorted(plain)}
    done = as_nobody(NOBODY, json.dumps(facts))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"uid": 65534, "got": []}


def greet_page(number: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", number, timeout=60)
    connection.request("GET", "/")
    return connection.getresponse().status


def _socket_files(pid: int) -> list[Path]:
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(fd).removeprefix("socket:[").rstrip("]"))
        except OSError:
            continue
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return [Path(row[7]) for row in rows if len(row) > 7 and row[6] in inodes]


@needs_second_user
def test_the_port_for_tensorflows_client_serves_its_owner_alone(running: Running) -> None:
    """Also from a local port that a process of the owner has at the same time, towards somewhere else."""
    port = tunnel_port(running)
    for _ in range(15):
        assert answer_at_shared_port(port) == "closed"
        assert own_answer(port)
