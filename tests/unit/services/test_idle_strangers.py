"""A task with 1,024 descriptors, and strangers at every door of it: it opens the files of a checkpoint, and answers."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from dtfctl.launcher.identity.certificates import ensure_authority, ensure_certificate
from tests.support.ports import free_ports
from tests.support.waiting import eventually

FILES = 1024
STATUS = "/dtf.WorkerService/GetStatus"
PLAIN = b"PRI * HTTP/2.0\r\n\r\n"
HELLO_BEGUN = bytes.fromhex("16030100c8010000c40303")  # of TLS: the rest never comes

TASK = """
import json, os, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))
from dtfctl.runtime.services.server import TaskServer, TaskServerConfig, TlsFiles
told = json.loads(sys.argv[1])
tls = TlsFiles(*map(Path, told["tls"])) if told["tls"] else None
cluster = {{job: {{int(index): address for index, address in tasks.items()}} for job, tasks in told["cluster"].items()}}
listen = cluster["ps"][0]
server = TaskServer(TaskServerConfig(cluster, "ps", 0, 1, listen, None, tls, Path(told["folder"])))
server.start()
print("serves", flush=True)
for line in sys.stdin:
    try:
        held = [open(os.path.join(told["folder"], f"shard-{{n}}"), "wb") for n in range(300)]
        for file in held:
            file.close()
        print("saved", flush=True)
    except OSError as error:
        print(error, flush=True)
os._exit(0)
"""


def doors_of(pid: int) -> list[tuple[str, int] | str]:
    """Every address at which it listens: TCP, and names of unix sockets without a file."""
    inodes = set()
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(fd).removeprefix("socket:[").rstrip("]"))
    found: list[tuple[str, int] | str] = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            row = line.split()
            if row[3] == "0A" and row[9] in inodes:
                found.append(("127.0.0.1", int(row[1].partition(":")[2], 16)))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        row = line.split()
        if len(row) > 7 and row[6] in inodes and row[3] == "00010000" and row[7].startswith("@"):
            found.append("\0" + row[7][1:])
    return found


def stranger(door: tuple[str, int] | str, says: bytes) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX if isinstance(door, str) else socket.AF_INET)
    try:
        sock.settimeout(60.0)
        sock.connect(door)
        if says:
            sock.sendall(says)
    except BaseException:
        sock.close()
        raise
    return sock


class Task:
    """A ps in a process of its own."""

    def __init__(self, folder: Path, secure: bool) -> None:
        self.address = f"127.0.0.1:{free_ports(1)[0]}"
        self.files = None
        tls: list[str] = []
        if secure:
            ensure_authority(folder, "c")
            self.files = ensure_certificate(folder, "c", "task", "ps/0")
            tls = [str(path) for path in (self.files.ca, self.files.cert, self.files.key)]
        cluster = {"ps": {0: self.address}, "worker": {0: "127.0.0.1:1"}}
        told = {"cluster": cluster, "tls": tls, "folder": str(folder)}
        words = [sys.executable, "-c", TASK.format(files=FILES), json.dumps(told)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.says() == "serves"

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def save(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("save\n")
        self.process.stdin.flush()
        return self.says()

    @property
    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def channel(self) -> grpc.Channel:
        if self.files is None:
            return grpc.insecure_channel(self.address)
        keys = [path.read_bytes() for path in (self.files.ca, self.files.key, self.files.cert)]
        name = (("grpc.ssl_target_name_override", "ps-0.task.c.dtfctl"),)
        return grpc.secure_channel(self.address, grpc.ssl_channel_credentials(*keys), options=name)

    def is_answered(self) -> bool:
        """A peer that connects now is served; being refused is an answer, too."""
        with self.channel() as channel:
            ask: Any = channel.unary_unary(STATUS)
            try:
                ask(b"", timeout=60.0, wait_for_ready=True)
            except grpc.RpcError as error:
                return bool(error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED))  # type: ignore[attr-defined]
            return True


@pytest.fixture(params=["with certificates", "in plain text"])
def task(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Task]:
    made = Task(tmp_path, request.param == "with certificates")
    yield made
    made.process.kill()
    made.process.communicate()


def besiege(task: Task, count: int, for_s: float) -> None:
    assert task.save() == "saved" and task.is_answered()
    doors = doors_of(task.process.pid)
    assert sum(isinstance(door, str) for door in doors) >= 2 and len(doors) >= 4, doors
    ends = time.monotonic() + for_s
    while True:
        with contextlib.ExitStack() as stack:
            for door in doors:
                for number in range(count // len(doors)):
                    with contextlib.suppress(ConnectionError, BlockingIOError):
                        says = (b"", HELLO_BEGUN, PLAIN)[number % 3]
                        stack.enter_context(stranger(door, says))
            assert task.open_files < FILES - 300, "a checkpoint of 300 files must find room"
            assert task.save() == "saved"
            assert task.is_answered()
        if time.monotonic() > ends:
            break
    before = len(doors) * 4 + 60
    eventually(lambda: task.open_files < before)
    assert task.process.poll() is None


def test_strangers_at_every_door(task: Task) -> None:
    besiege(task, 1200, 0.0)


@pytest.mark.nightly
def test_strangers_at_every_door_for_a_minute(task: Task) -> None:
    besiege(task, 4000, 60.0)
