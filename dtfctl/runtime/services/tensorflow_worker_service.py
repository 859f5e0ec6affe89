"""tensorflow.WorkerService, as far as groups of devices need it: what TensorFlow's servers and ours ask of each other.

TensorFlow's servers know no TLS, so it is spoken only where tasks have no certificates, between processes of one user.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import grpc

from dtfctl.protocol import tensorflow_worker_pb2
from dtfctl.runtime.collective.members import Collectives
from dtfctl.runtime.framework.errors import CancelledError, OpError, UnavailableError, UnimplementedError
from dtfctl.runtime.services.answer import Answer
from dtfctl.runtime.services.calls import Call, Handler
from dtfctl.runtime.services.grpc_tools import CHANNEL_OPTIONS, service, unary
from dtfctl.runtime.services.peers import Peers
from dtfctl.runtime.services.worker import Worker
from dtfctl.runtime.steps.threads import submit

NAME = "tensorflow.WorkerService"
# TensorFlow's servers take pings for an attack.
_OPTIONS = tuple(option for option in CHANNEL_OPTIONS if "keepalive" not in option[0] and "ping" not in option[0])
_Begin = Callable[[Any, Callable[[Any, OpError | None], None]], Callable[[], None]]


class TensorFlowTasks:
    """TensorFlow's servers in this task's cluster (collective.mixed.ForeignTasks)."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._lock = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}

    def _channel(self, task: str) -> grpc.Channel:
        with self._lock:
            found = self._channels.get(task)
            if found is None:
                found = grpc.insecure_channel(self._peers.address(task), options=_OPTIONS)
                self._channels[task] = found
            return found

    def close(self) -> None:
        """Give up all that is waited for."""
        with self._lock:
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def call(
        self, task: str, method: str, request: Any, answer: Any, done: Callable[[Any, OpError | None], None]
    ) -> Callable[[], None]:
        try:
            stub = self._channel(task).unary_unary(
                f"/{NAME}/{method}", type(request).SerializeToString, answer.FromString
            )
            # A leader may still be starting; who leaves something in a group was there, so it is gone if it is not.
            future = stub.future(request, wait_for_ready=method != "RecvBuf")
        except OpError as e:
            done(None, e)
            return lambda: None
        except ValueError:
            done(None, UnavailableError(f"{task}: the connection was closed"))
            return lambda: None
        came = Answer(future, task, method)

        def ended(_: Any) -> None:
            try:
                value = came.result()
            except OpError as e:
                error = e
                submit(lambda: done(None, error))
            else:
                submit(lambda: done(value, None))

        future.add_done_callback(ended)
        return lambda: _cancel(future)


def _cancel(future: Any) -> None:
    future.cancel()


class TensorFlowWorkerService:
    """The handlers of the methods."""

    def __init__(self, worker: Worker, life: int) -> None:
        self._worker = worker
        self._life = life

    def handlers(self) -> dict[str, Handler]:
        m = tensorflow_worker_pb2
        collectives: Collectives = self._worker.collectives
        mixed, leading = collectives.mixed, collectives.leading
        handlers: dict[str, Handler] = {
            "GetStatus": unary(m.GetStatusRequest, self._get_status),
            "GetStepSequence": unary(m.GetStepSequenceRequest, lambda request, call: mixed.step_sequence(request)),
            "MarkRecvFinished": unary(m.MarkRecvFinishedRequest, lambda request, call: m.MarkRecvFinishedResponse()),
            "CompleteGroup": unary(m.CompleteGroupRequest, _waiting(leading.complete_group)),
            "CompleteInstance": unary(m.CompleteInstanceRequest, _waiting(leading.complete_instance)),
            "RecvBuf": unary(m.RecvBufRequest, _waiting(mixed.receive)),
        }
        for method in ("CreateWorkerSession", "RegisterGraph", "RunGraph", "RecvTensor"):
            handlers[method] = unary(m.GetStatusRequest, self._no_worker)
        return service(NAME, handlers)

    def _get_status(self, request: Any, call: Call) -> tensorflow_worker_pb2.GetStatusResponse:
        found = [device.to_proto() for device in self._worker.devices]
        for device in found:
            # That of the task, as it is said to its groups.
            device.incarnation = self._life
        return tensorflow_worker_pb2.GetStatusResponse(device_attributes=found)

    def _no_worker(self, request: Any, call: Call) -> Any:
        raise UnimplementedError(
            f"{self._worker.task} is served by dtfctl: sessions of TensorFlow's servers compute in groups with it, but "
            "run nothing on it. Leave it out of the session by ConfigProto.device_filters"
        )


def _waiting(begin: _Begin) -> Callable[[Any, Call], Any]:
    """Make a handler that waits for what something begun calls back with, or until the caller is gone."""

    def handle(request: Any, call: Call) -> Any:
        over = threading.Event()
        found: list[tuple[Any, OpError | None]] = []

        def done(value: Any, error: OpError | None) -> None:
            found.append((value, error))
            over.set()

        if not call.on_gone(over.set):
            over.set()
        stop = begin(request, done)
        over.wait()
        if not found:
            stop()
            raise CancelledError("The caller is gone")
        value, error = found[0]
        if error is not None:
            raise error
        return value

    return handle
