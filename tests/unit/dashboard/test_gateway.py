"""Calls of clients in pages to the masters of a job's tasks."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, cast

import grpc
import pytest

from dtfctl.dashboard import gateway
from dtfctl.dashboard.server import Dashboard
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import Conflict
from dtfctl.launcher.model import JobStatus
from tests.doubles.launcher import status, task
from tests.unit.dashboard.test_server import FakeCluster, Page

RUN = "tensorflow.MasterService/RunStep"


class Master:
    """A master behind a port of `dtfctl connect`, that notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes, Any]] = []
        self.waiting = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)
        self.closed = threading.Event()
        self.is_away = threading.Event()
        self.server = grpc.server(ThreadPoolExecutor(32))
        self.server.add_generic_rpc_handlers((self,))  # type: ignore[arg-type]
        self.target = f"grpc://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def service(self, details: Any) -> Any:
        def answer(request: bytes, call: Any) -> bytes:
            self.asked.append((details.method, request, dict(call.invocation_metadata()).get("dtf-job")))
            if request == b"wait":
                ended = threading.Event()
                call.add_callback(ended.set)
                self.waiting.release()
                ended.wait(60)
                self.cancelled.release()
            if request == b"wrong":
                call.abort(grpc.StatusCode.NOT_FOUND, "no such session")
            return request[::-1]

        return grpc.unary_unary_rpc_method_handler(answer)

    def serve(self, until: Callable[[], bool]) -> None:
        while not until() and not self.is_away.wait(0.02):
            pass
        if self.is_away.is_set():
            raise Conflict("the cluster is down", "")

    def close(self) -> None:
        self.server.stop(None)
        self.closed.set()


@dataclass
class Masters(FakeCluster):
    opened: list[tuple[str, Master]] = field(default_factory=list)

    def connect(self, name: str) -> Master:
        if name == "worker/1":
            raise Conflict("worker/1 is starting and has no address yet", "look")
        self.opened.append((name, Master()))
        return self.opened[-1][1]


JOBS = [
    JobStatus("own-1", "own", "running", "in-graph", "j.py", tasks=("worker/0", "worker/1")),
    JobStatus("over-1", "over", "succeeded", "in-graph", "j.py", tasks=("worker/0",)),
    *(JobStatus(f"w-{n}", "w", "running", "in-graph", "j.py", tasks=(f"worker/{n}",)) for n in range(10)),
]


@pytest.fixture
def cluster() -> Iterator[Masters]:
    tasks = [task("ps/0"), *(task(f"worker/{n}") for n in range(12))]
    found = Masters(status(*tasks, jobs=JOBS))
    yield found
    for _, master in found.opened:
        master.close()


@dataclass
class Client:
    page: Page
    cookie: str

    def call(
        self, body: bytes = b"", job: str = "own-1", task: str = "worker/0", **more: str
    ) -> http.client.HTTPResponse:
        sent = {"Content_Type": "application/proto", "Connect_Protocol_Version": "1", **more}
        return self.page.ask(f"/rpc/{job}/{task}/{RUN}", body, cookie=self.cookie, **sent)

    def begin(self, body: bytes) -> socket.socket:
        """Begin a call and do not wait for its answer."""
        begun = socket.create_connection(("127.0.0.1", self.page.dashboard.port))
        host = f"127.0.0.1:{self.page.dashboard.port}"
        lines = [f"POST /rpc/own-1/worker/0/{RUN} HTTP/1.1", f"Host: {host}", f"Origin: http://{host}"]
        lines += [f"Cookie: {self.cookie}", "Content-Type: application/proto", f"Content-Length: {len(body)}", "", ""]
        begun.sendall("\r\n".join(lines).encode() + body)
        return begun


@pytest.fixture
def client(cluster: Masters) -> Iterator[Client]:
    dashboard = Dashboard(lambda: cast(Cluster, cluster))
    dashboard.start()
    page = Page(dashboard, cluster)
    found = Client(page, page.login().partition(";")[0])
    next(page.stream("/api/stream", found.cookie))  # it knows of the jobs then
    while dashboard.feed.known("job", "own-1") is None:
        pass
    yield found
    dashboard.close()


def test_a_call_goes_to_the_master_as_it_is_about_the_job_alone(client: Client, cluster: Masters) -> None:
    answer = client.call(b"\x00\xff1", Connect_Timeout_Ms="60000")
    assert (answer.status, answer.headers["Content-Type"], answer.read()) == (200, "application/proto", b"1\xff\x00")
    ((name, master),) = cluster.opened
    scope = "job=own-1&tasks=ps/0=ps/0,worker/0=worker/0,worker/1=worker/1"
    assert name == "worker/0" and master.asked == [(f"/{RUN}", b"\x00\xff1", scope)]
    # What the page says of a scope is not what counts; the way stays open.
    assert client.call(b"2", Dtf_Job="job=other-1").read() == b"2"
    assert master.asked[-1][2] == scope and len(cluster.opened) == 1


def test_a_job_that_has_all_tasks_says_no_list(client: Client, cluster: Masters) -> None:
    everything = tuple(t.name for t in cluster.state.tasks if t.job != "ps")
    cluster.become(replace(cluster.state, jobs=(replace(JOBS[0], tasks=everything),)))
    while client.page.dashboard.feed.known("job", "w-1") is not None:
        pass
    assert client.call(b"1").status == 200
    assert cluster.opened[0][1].asked[0][2] == "job=own-1"


def test_faults_have_connects_names_and_statuses(client: Client, cluster: Masters) -> None:
    def fault(answer: http.client.HTTPResponse) -> tuple[int, str]:
        return answer.status, json.load(answer)["code"]

    wrong = client.call(b"wrong")
    assert wrong.status == 404 and json.load(wrong) == {"code": "not_found", "message": "no such session"}
    assert fault(client.call(b"wait", Connect_Timeout_Ms="50")) == (504, "deadline_exceeded")
    assert fault(client.call(task="worker/1")) == (503, "unavailable")
    assert fault(client.call(Connect_Timeout_Ms="-1")) == (400, "invalid_argument")
    assert fault(client.call(Connect_Protocol_Version="2")) == (400, "invalid_argument")
    assert fault(client.call(Content_Encoding="gzip")) == (501, "unimplemented")
    assert fault(client.call(Content_Type="application/json")) == (415, "unimplemented")
    assert client.call(Content_Length=str(gateway.MOST_QUESTION + 1)).status == 413


def test_a_page_gets_no_further_than_a_job_and_its_tasks(client: Client, cluster: Masters) -> None:
    for job, task_name, code in (
        ("own-1", "worker/5", "permission_denied"),
        ("own-1", "ps/0", "permission_denied"),
        ("over-1", "worker/0", "not_found"),
        ("nobody-1", "worker/0", "not_found"),
        ("own-1&tasks=x", "worker/0", "unimplemented"),
        ("..", "worker/0", "unimplemented"),
        ("own-1", "worker", "unimplemented"),
    ):
        assert json.load(client.call(job=job, task=task_name))["code"] == code, (job, task_name)
    for method in (
        "tensorflow.MasterService/Reset",
        "tensorflow.WorkerService/RunGraph",
        "dtf.GraphService/Get",
        "tensorflow.MasterService/RunStep/x",
        "",
    ):
        path = f"/rpc/own-1/worker/0/{method}"
        answer = client.page.ask(path, b"", cookie=client.cookie, Content_Type="application/proto")
        assert answer.status == 501, method
    assert cluster.opened == []


def test_nobody_else_calls(client: Client, cluster: Masters) -> None:
    path, kind = f"/rpc/own-1/worker/0/{RUN}", "application/proto"
    assert client.page.ask(path, b"", Content_Type=kind).status == 401
    for origin in ("http://evil.example", None):
        assert client.page.ask(path, b"", cookie=client.cookie, origin=origin, Content_Type=kind).status == 403
    assert client.page.ask(path, b"", cookie=client.cookie, host="evil.example", Content_Type=kind).status == 421
    assert client.page.ask(path, cookie=client.cookie).status == 404
    assert cluster.opened == []


def test_what_a_browser_gives_up_is_cancelled(client: Client, cluster: Masters) -> None:
    begun = client.begin(b"wait")
    while not cluster.opened:
        pass
    master = cluster.opened[0][1]
    assert master.waiting.acquire(timeout=60)
    begun.close()
    assert master.cancelled.acquire(timeout=60)
    # And so is all when the dashboard ends.
    begun = client.begin(b"wait")
    assert master.waiting.acquire(timeout=60)
    client.page.dashboard.close()
    assert master.cancelled.acquire(timeout=60) and master.closed.wait(60)
    begun.close()


def test_so_many_calls_run_and_no_more(client: Client, cluster: Masters, monkeypatch: pytest.MonkeyPatch) -> None:
    client.call(b"1").read()
    master = cluster.opened[0][1]
    begun = [client.begin(b"wait") for _ in range(gateway.MOST_CALLS)]
    for _ in begun:
        assert master.waiting.acquire(timeout=60)
    # It is refused before its message is read.
    refused = client.call(b"", Content_Length=str(gateway.MOST_QUESTION))
    assert refused.status == 429 and json.load(refused)["code"] == "resource_exhausted"
    assert refused.headers["Connection"] == "close"
    for one in begun:
        one.close()
    for _ in begun:
        assert master.cancelled.acquire(timeout=60)
    while client.call(b"1").status != 200:
        pass


def test_ways_that_are_not_used_are_closed(client: Client, cluster: Masters, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [n for n in range(9) if n != 1]
    for n in others:
        assert client.call(b"1", job=f"w-{n}", task=f"worker/{n}").status == 200
    assert client.call(b"1", job="w-9", task="worker/9").status == 200
    # The one that was used longest ago went for it.
    assert cluster.opened[0][1].closed.wait(60) and not cluster.opened[1][1].closed.is_set()
    monkeypatch.setattr(gateway, "IDLE_S", -1.0)
    for _, master in cluster.opened:
        assert master.closed.wait(60)
    monkeypatch.setattr(gateway, "IDLE_S", 300.0)
    assert client.call(b"12", job="w-2", task="worker/2").read() == b"21"


def test_a_way_whose_cluster_is_down_is_opened_again_when_it_is_back(client: Client, cluster: Masters) -> None:
    assert client.call(b"1").status == 200
    first = cluster.opened[0][1]
    first.is_away.set()
    assert first.closed.wait(60)
    assert client.call(b"12").read() == b"21"
    assert len(cluster.opened) == 2
