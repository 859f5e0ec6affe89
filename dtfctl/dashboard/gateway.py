"""Calls of clients in pages to the masters of a job's tasks: Connect's unary ones come in, gRPC's go out.

    POST /rpc/train-1/worker/0/tensorflow.MasterService/RunStep
    Content-Type: application/proto
    Connect-Timeout-Ms: 5000

leads to worker/0's master, with the message as it is, by the port that `dtfctl connect` opens; the answer is a message,
or {"code": "not_found", "message": ...} with a status that is an error. A call is about one job that runs: its
sessions see that job's state on that job's tasks, and nothing of it can be reset.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Protocol

import grpc

from dtfctl import guard
from dtfctl.errors import Signal
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages.orders import job_scope
from dtfctl.values import value

SERVICE = "tensorflow.MasterService"
METHODS = frozenset(
    {
        *("CreateSession", "ExtendSession", "PartialRunSetup", "RunStep", "CloseSession", "ListDevices"),
        *("MakeCallable", "RunCallable", "ReleaseCallable"),
    }
)
MOST_WAYS = 8
"""Tasks that are talked to at a time; the way that was used longest ago is closed for another one."""
MOST_CALLS = 16
MOST_QUESTION = 1 << 24
"""Bytes of a message to a master: so many times as much as there are calls may be held at a time."""
MOST_ANSWER = 1 << 26
IDLE_S = 300.0
LOOK_S = 0.2
"""How often to look whether a browser has given a call up."""
LONGEST_MS = 3_600_000
_PATH = re.compile(
    r"/rpc/(?P<job>[A-Za-z0-9][A-Za-z0-9_.-]{0,199})/(?P<task>[A-Za-z_]\w{0,99}/\d{1,9})"
    r"/(?P<service>[A-Za-z.]{1,60})/(?P<method>[A-Za-z]{1,60})"
)
_STATUS = {
    "canceled": 499,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "unavailable": 503,
    "unauthenticated": 401,
}
"""Statuses of HTTP by Connect's names of errors; all others are 500."""


class Refusal(Signal):
    """A call that ends with an error.

    Attributes:
        code: by Connect's name.
        status: of HTTP.
    """

    def __init__(self, code: str, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.status = status or _STATUS.get(code, int(HTTPStatus.INTERNAL_SERVER_ERROR))


class Headers(Protocol):
    """What a request says besides its content."""

    def get(self, name: str, default: str) -> str: ...


@value
class Question:
    """A call to a master."""

    job: str
    task: str
    method: str
    timeout_s: float | None

    @classmethod
    def of(cls, path: str, headers: Headers) -> Question:
        """Read what stands before the message. Raises Refusal: it is no call that is taken here."""
        found = _PATH.fullmatch(path)
        if found is None or found["service"] != SERVICE or found["method"] not in METHODS:
            raise Refusal("unimplemented", "there is no such method")
        if headers.get("Content-Type", "").strip().lower() != "application/proto":
            kind = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
            raise Refusal("unimplemented", "messages are of the kind application/proto", kind)
        if headers.get("Content-Encoding", "identity") != "identity":
            raise Refusal("unimplemented", "messages are not compressed")
        if headers.get("Connect-Protocol-Version", "1") != "1":
            raise Refusal("invalid_argument", "only version 1 of Connect's protocol is spoken")
        timeout = headers.get("Connect-Timeout-Ms", "")
        if timeout and not re.fullmatch(r"[0-9]{1,10}", timeout):
            raise Refusal("invalid_argument", "Connect-Timeout-Ms is no number of milliseconds")
        timeout_s = min(int(timeout), LONGEST_MS) / 1e3 if timeout else None
        return cls(found["job"], found["task"], found["method"], timeout_s)


class Gateway:
    """Keeps ways to tasks open while they are used, until `close`.

    Args:
        open_cluster: gives a cluster for one thread alone.
        known: gives what is known of a job by its id, as the page is told it.
        tasks: lists the cluster's tasks.
    """

    def __init__(
        self,
        open_cluster: Callable[[], Cluster],
        known: Callable[[str], Mapping[str, Any] | None],
        tasks: Callable[[], frozenset[str]],
    ) -> None:
        self._open = open_cluster
        self._known = known
        self._tasks = tasks
        self._lock = threading.Lock()
        self._ways: dict[str, _Way] = {}
        self._places = threading.BoundedSemaphore(MOST_CALLS)
        self._closed = False

    def ask(self, question: Question, read: Callable[[int], bytes], is_gone: Callable[[], bool]) -> bytes:
        """Make a call, which is cancelled when `is_gone`; its message is read if there is a place for it.

        Args:
            read: gives the message; it is told how many bytes are taken.

        Raises:
            Refusal: the master refuses, there is no way to it, or the job does not have that task.
        """
        scope = self._scope(question)
        if not self._places.acquire(blocking=False):
            raise Refusal("resource_exhausted", f"{MOST_CALLS} calls of pages run already")
        try:
            request = read(MOST_QUESTION)
            way = self._way(question.task)
            try:
                return way.ask(question, request, scope, is_gone)
            finally:
                way.leave()
        finally:
            self._places.release()

    def _scope(self, question: Question) -> str:
        """Say whose state it is about, and on which tasks (`runtime.services.job_scope`)."""
        job = self._known(question.job)
        if job is None or job["final"]:
            raise Refusal("not_found", f"no job {question.job} runs")
        tasks = frozenset(job["tasks"])
        if question.task not in tasks:
            raise Refusal("permission_denied", f"{question.task} is no task of {question.job}")
        known = self._tasks()
        # Every ps keeps variables of any job, each job's apart.
        seen = tasks | {name for name in known if name.startswith("ps/")}
        return job_scope(question.job, {} if seen >= known else {name: name for name in seen})

    def _way(self, task: str) -> _Way:
        with self._lock:
            if self._closed:
                raise Refusal("unavailable", "the dashboard ends")
            found = self._ways.get(task)
            if found is None or not found.enter():
                self._make_room()
                found = self._ways[task] = _Way(task)
                found.enter()
        try:
            found.open(self._open)
        except BaseException:
            found.leave()
            raise
        return found

    def _make_room(self) -> None:
        for name, way in list(self._ways.items()):
            if way.is_over():
                del self._ways[name]
        while len(self._ways) >= MOST_WAYS:
            oldest = min(self._ways, key=lambda name: self._ways[name].used)
            self._ways.pop(oldest).close()

    def close(self) -> None:
        """Cancel all calls and close the ways."""
        with self._lock:
            self._closed = True
            ways, self._ways = self._ways, {}
        for way in ways.values():
            way.close()


class _Way:
    """A port that leads to a task, and calls through it."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._calls = 0
        self._wanted = True
        self.used = time.monotonic()

    def enter(self) -> bool:
        """Begin a call; False where it leads nowhere any more."""
        with self._lock:
            self._calls += self._wanted
            return self._wanted

    def leave(self) -> None:
        with self._lock:
            self._calls -= 1
            self.used = time.monotonic()

    def close(self) -> None:
        """Close it soon; calls that run are cancelled."""
        with self._lock:
            self._wanted = False
            channel = self._channel
        if channel is not None:
            channel.close()

    def is_over(self) -> bool:
        """Tell whether it leads nowhere any more; nobody has used it for long, or it was closed."""
        with self._lock:
            if not self._calls and time.monotonic() - self.used > IDLE_S:
                self._wanted = False
            return not self._wanted

    def open(self, open_cluster: Callable[[], Cluster]) -> None:
        """Open it, unless it is. Raises Refusal: it cannot be opened."""
        with self._opening:
            if self._channel is not None:
                return
            try:
                tunnel = open_cluster().connect(self._task)
            except LauncherError as error:
                self.close()
                raise Refusal("unavailable", error.message) from None
            sizes = [("grpc.max_receive_message_length", MOST_ANSWER), ("grpc.max_send_message_length", MOST_QUESTION)]
            # A pool of its own: what was closed is not met again.
            options = [*sizes, ("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.insecure_channel(tunnel.target.removeprefix("grpc://"), options)
            with self._lock:
                self._channel = channel
            guard.once(lambda: self._serve(tunnel), name="dashboard-way").start()

    def _serve(self, tunnel: Any) -> None:
        try:
            # Where the task moves, the tunnel follows it.
            tunnel.serve(self.is_over)
        except LauncherError:
            return  # the cluster is down; who calls is told that nobody answers
        finally:
            self.close()
            tunnel.close()

    def ask(self, question: Question, request: bytes, scope: str, is_gone: Callable[[], bool]) -> bytes:
        """Make a call. Raises Refusal."""
        assert self._channel is not None
        try:
            call = self._channel.unary_unary(f"/{SERVICE}/{question.method}")
            answer = call.future(request, timeout=question.timeout_s, metadata=(("dtf-job", scope),))
        except ValueError:  # closed meanwhile
            raise Refusal("unavailable", f"the way to {self._task} was closed") from None
        while True:
            try:
                return bytes(answer.result(LOOK_S))
            except grpc.FutureTimeoutError:
                if is_gone():
                    answer.cancel()
            except grpc.FutureCancelledError:
                raise Refusal("canceled", "the call was given up") from None
            except grpc.RpcError as error:
                raise _refusal(error) from None


def _refusal(error: Any) -> Refusal:
    name = error.code().name.lower()
    return Refusal("canceled" if name == "cancelled" else name, error.details() or name)
