"""The dashboard's server: who is let in, what is told, what is done; and the files of its page."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, cast

import pytest

from dtfctl.dashboard import feed
from dtfctl.dashboard.server import Dashboard
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import NoSuchCluster, NoSuchJob
from dtfctl.launcher.model import ClusterStatus, Event, JobStatus, LogLine, Progress
from tests.doubles.launcher import status, task
from tests.support.waiting import wait_until

JOB = JobStatus(
    "<b>j</b>", "j", "running", "between-graph", "j.py", progress=Progress(3, 9, {"loss": float("nan")}, 5.0)
)


@dataclass
class FakeCluster:
    """A cluster that changes when a test says so."""

    state: ClusterStatus
    version: int = 1
    is_down: bool = False
    # What an agent tells late comes where it belongs by its time.
    told: Sequence[Event] = (Event(2, 6.0, "task.running", "worker/0"), Event(1, 7.0, "task.ready", "worker/0"))
    done: list[tuple[str, Any]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def become(self, state: ClusterStatus) -> None:
        with self.changed:
            self.state, self.version = state, self.version + 1
            self.changed.notify_all()

    def newer_status(self, version: int, wait_s: float) -> tuple[ClusterStatus, int]:
        with self.changed:
            self.changed.wait_for(lambda: self.version > version or self.is_down, min(wait_s, 0.2))
            if self.is_down:
                raise NoSuchCluster("it is gone", "")
            return self.state, self.version

    def events(self, *, follow: bool) -> Iterator[Event]:
        if not self.is_down:
            yield from self.told
        with self.changed:
            self.changed.wait_for(lambda: self.is_down)
        raise NoSuchCluster("it is gone", "")

    def status(self) -> ClusterStatus:
        if self.is_down:
            raise NoSuchCluster("it is gone", "")
        return self.state

    def log_batches(self, selector: str, tail: int, wait_s: float) -> Iterator[list[LogLine]]:
        if selector != "worker/0":
            raise NoSuchJob(f"there is no {selector}", "look")
        yield [LogLine("worker/0", "out", "</script>", 1.0)]
        yield []

    def cancel(self, ids: list[str]) -> None:
        self.done.append(("cancel", ids))

    def restart(self, what: str, *, wait_s: float) -> None:
        self.done.append(("restart", what))

    def drain(self, hosts: list[str], *, reason: str) -> None:
        self.done.append(("drain", hosts))


@dataclass
class Page:
    dashboard: Dashboard
    cluster: FakeCluster

    def ask(
        self, path: str, body: Any = None, *, cookie: str = "", origin: str | None = "", host: str = "", **headers: str
    ) -> http.client.HTTPResponse:
        """Ask as a browser does; `origin` "": the page's own."""
        where = host or f"127.0.0.1:{self.dashboard.port}"
        connection = http.client.HTTPConnection("127.0.0.1", self.dashboard.port, timeout=20)
        sent = {"Host": where, "Cookie": cookie, **{name.replace("_", "-"): text for name, text in headers.items()}}
        if body is not None and origin is not None:
            sent["Origin"] = origin or f"http://{where}"
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("GET" if body is None else "POST", path, data, sent)
        return connection.getresponse()

    def login(self) -> str:
        answer = self.ask("/login", {"token": self.dashboard.token})
        assert answer.status == 200
        return answer.headers["Set-Cookie"]

    def stream(self, path: str, cookie: str) -> Iterator[Any]:
        answer = self.ask(path, cookie=cookie)
        assert answer.headers["Content-Type"] == "text/event-stream"
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])


@pytest.fixture
def page() -> Iterator[Page]:
    cluster = FakeCluster(status(task("worker/0"), jobs=[JOB]))
    dashboard = Dashboard(lambda: cast(Cluster, cluster))
    dashboard.start()
    yield Page(dashboard, cluster)
    dashboard.close()


def test_a_stranger_gets_the_page_and_nothing_of_the_cluster(page: Page) -> None:
    for path in (
        "/api/stream",
        "/api/logs?of=worker/0",
        "/api/graph?job=j",
        "/api/picture?job=j",
        "/api/nothing",
        "/etc/passwd",
        "/static/../server.py",
    ):
        assert page.ask(path).status == 401, path
        assert page.ask(path, cookie=f"{page.dashboard.cookie}=guess").status == 401
    for path in ("/api/do", "/api/profile", "/rpc/j/worker/0/tensorflow.MasterService/RunStep"):
        assert page.ask(path, {"verb": "cancel", "what": "j"}).status == 401
    wrong = page.ask("/login", {"token": "guess"})
    assert wrong.status == 401 and "Set-Cookie" not in wrong.headers
    assert json.load(page.ask("/api/me")) == {"known": False}
    assert page.cluster.done == []


def test_no_other_origin_and_no_other_name_of_this_host(page: Page) -> None:
    cookie = page.login()
    assert {"HttpOnly", "SameSite=Strict"} <= set(cookie.split("; "))
    assert json.load(page.ask("/api/me", cookie=cookie)) == {"known": True}
    deed = {"verb": "cancel", "what": "j"}
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", None):
        assert page.ask("/api/do", deed, cookie=cookie, origin=origin).status == 403, origin
    # A name that somebody has let point to this machine.
    for host in ("evil.example", f"evil.example:{page.dashboard.port}", "127.0.0.1.evil.example:80"):
        assert page.ask("/", host=host).status == 421
        assert page.ask("/api/do", deed, cookie=cookie, host=host).status == 421
    assert page.ask("/api/me", cookie=cookie, Sec_Fetch_Site="cross-site").status == 403
    assert page.ask("/", Sec_Fetch_Site="cross-site").status == 200
    assert page.cluster.done == []


def test_what_is_no_request_of_the_page_is_refused(page: Page) -> None:
    cookie = page.login()
    assert page.ask("/api/do", b"x" * 100_000, cookie=cookie).status == 413
    assert page.ask("/api/do", b"[1]", cookie=cookie).status == 400
    assert page.ask("/api/do", b"{", cookie=cookie).status == 400
    unknown = page.ask("/api/do", {"verb": "exec", "what": "rm"}, cookie=cookie)
    assert unknown.status == 409 and "exec" in json.load(unknown)["error"]
    assert page.ask("/api/nothing", cookie=cookie).status == 404
    assert page.cluster.done == []


def test_cookies_of_other_ports_do_not_hide_the_page_s_own(page: Page) -> None:
    own = page.login().partition(";")[0]
    for others in ('state={"a":[1,2]}', "a b=1", "x", "x=\xff", f"{page.dashboard.cookie}=of another path"):
        assert json.load(page.ask("/api/me", cookie=f"{others}; {own}")) == {"known": True}, others
        assert json.load(page.ask("/api/me", cookie=f"{own}; {others}")) == {"known": True}, others
        assert json.load(page.ask("/api/me", cookie=others)) == {"known": False}, others


def test_what_nothing_can_read_is_refused_in_words(page: Page) -> None:
    cookie = page.login()
    for body in (b"[" * 60_000, b'{"verb": "restart", "what": "\\ud800"}', b"\xff"):
        assert page.ask("/api/do", body, cookie=cookie).status == 400
        assert page.ask("/login", body).status == 400
    assert page.ask("/login", b"{}", Content_Length="\xb2").status == 413
    assert page.ask("http://[/", cookie=cookie).status == 400
    assert page.ask("/api/graph?job=j&stage=all", cookie=cookie).status == 409
    assert page.cluster.done == []


def test_what_is_asked_for_is_done(page: Page) -> None:
    cookie = page.login()
    for verb, what in (("cancel", "j"), ("restart", "worker/0"), ("drain", "localhost")):
        assert page.ask("/api/do", {"verb": verb, "what": what}, cookie=cookie).status == 200
    assert page.cluster.done == [("cancel", ["j"]), ("restart", "worker/0"), ("drain", ["localhost"])]


def test_a_stream_tells_all_and_then_what_changes(page: Page) -> None:
    found = page.stream("/api/stream", page.login())
    told: dict[tuple[str, str], Any] = {}
    events: list[Any] = []

    def until(seen: Any) -> None:
        while not seen():
            news = next(found)
            told.update({(kind, name): value for kind, name, value in news["set"]})
            events.extend(news["events"])

    until(lambda: ("task", "worker/0") in told and len(events) == 2)
    assert told["cluster", ""]["healthy"] and told["task", "worker/0"]["state"] == "running"
    # JSON has no NaN.
    assert told["job", "<b>j</b>"]["progress"]["metrics"] == {"loss": None}
    assert [event["kind"] for event in events] == ["task.running", "task.ready"]
    ended = replace(JOB, state="failed", reason="<img src=x onerror=alert(1)>")
    page.cluster.become(status(task("worker/1"), jobs=[ended]))
    until(lambda: told["task", "worker/0"] is None)
    assert told["task", "worker/1"]["state"] == "running" and told["job", "<b>j</b>"]["reason"] == ended.reason
    page.cluster.is_down = True
    until(lambda: told["cluster", ""]["away"])
    assert told["cluster", ""]["away"] == "the cluster is down"


def test_a_page_that_begins_to_look_is_told_at_once_what_nobody_had_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "UNSEEN_S", 1000.0)
    monkeypatch.setattr(feed, "LEAST_S", 0.01)
    cluster = FakeCluster(status(task("worker/0")))
    told = feed.Feed(lambda: cast(Cluster, cluster))
    told.start()
    try:
        wait_until(lambda: told.known("task", "worker/0") is not None, "the first status is taken")
        cluster.become(status(task("worker/1")))
        # It would have been taken many times over by somebody who looks.
        time.sleep(0.5)
        assert told.known("task", "worker/1") is None
        told.news(told._version, 20.0)
        assert told.known("task", "worker/1") is not None
    finally:
        told.close()


def test_of_another_cluster_of_the_same_name_pages_begin_anew(page: Page) -> None:
    cookie = page.login()
    first = page.stream("/api/stream", cookie)
    while not next(first)["events"]:
        pass
    with page.cluster.changed:
        page.cluster.is_down = True
        page.cluster.changed.notify_all()
    while not any(kind == "cluster" and value["away"] for news in first for kind, _, value in news["set"]):
        pass
    with page.cluster.changed:
        page.cluster.told = [Event(1, 9.0, "cluster.applied", "cluster")]
        page.cluster.state = replace(page.cluster.state, created=page.cluster.state.created + 1)
        page.cluster.version, page.cluster.is_down = 1, False
    # Its end: what it has told is no news of the new one.
    list(first)
    events: list[Any] = []
    second = page.stream("/api/stream", cookie)
    while not events:
        events += next(second)["events"]
    assert [event["kind"] for event in events] == ["cluster.applied"]


def test_output_comes_as_it_is(page: Page) -> None:
    cookie = page.login()
    first, last = page.stream("/api/logs?of=worker/0", cookie)
    assert first["lines"] == [["worker/0", "out", "</script>", 1.0, True]] and last == {"ended": True}
    assert page.ask("/api/logs?of=nobody", cookie=cookie).status == 409


def test_the_page_needs_nothing_from_elsewhere_and_little_script(page: Page) -> None:
    sizes: dict[str, tuple[int, int]] = {}
    folder = resources.files("dtfctl.dashboard").joinpath("static")
    for path, (kind, content) in page.dashboard.files.items():
        answer = page.ask(path)
        body = answer.read()
        assert answer.status == 200 and body == gzip.decompress(content) and answer.headers["Content-Type"] == kind
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        if path.endswith(".js"):
            sizes[path] = len(body), len(content)
        if "vendor" not in path:
            assert not re.findall(rb"https?://(?!www\.w3\.org)", body), path
            assert b"innerHTML" not in body and b"eval(" not in body
    html = folder.joinpath("index.html").read_text()
    assert "<script>" not in html and not re.search(r"<[^>]+\son\w+=", html)
    lazily = [f"/static/{name}.js" for name in ("graph", "timeline", "draw", "client", "studies", "vendor/dagre")]
    assert sum(raw for path, (raw, _) in sizes.items() if path not in lazily) <= 100_000
    assert sum(sent for _, sent in sizes.values()) <= 100_000
    licences = folder.joinpath("vendor").joinpath("LICENSES.txt").read_text()
    assert all(name in licences for name in ("preact", "htm", "uPlot", "dagre"))


def test_what_is_gone_is_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_GONE", 2)
    cluster = FakeCluster(status())
    told = feed.Feed(lambda: cast(Cluster, cluster))
    first = 0
    for number in range(9):
        told._take(status(task(f"worker/{number}")))
        first = first or told._version
    gone = [name for name, item in told._items.items() if item.value is None]
    assert gone == [("task", "worker/6"), ("task", "worker/7")]
    # A page that has slept since then is told to begin anew; another one gets what is new.
    late, recent = told.news(first, 0.0), told.news(told._version - 1, 0.0)
    assert late is not None and late["all"] and {name for _, name, _ in late["set"]} >= {"worker/8"}
    assert recent is not None and not recent["all"]
    assert [item for item in recent["set"] if item[2] is None] == [["task", "worker/7", None]]
