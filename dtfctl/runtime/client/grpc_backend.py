"""A session of a master behind gRPC: TensorFlow's MasterService."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import grpc

from dtfctl.protocol import config_pb2, device_pb2, graph_pb2, master_pb2, worker_pb2
from dtfctl.runtime.client.backend import Prepared, graph_key_alone, own_values
from dtfctl.runtime.client.local_steps import LocalSteps
from dtfctl.runtime.framework.errors import (
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    UnavailableError,
    error_from_code,
)
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from dtfctl.runtime.services.answer import is_cut_off
from dtfctl.runtime.services.client_service import MAX_SIGNATURES, NAME
from dtfctl.runtime.services.grpc_tools import CHANNEL_OPTIONS
from dtfctl.runtime.services.job_scope import METADATA_KEY
from dtfctl.runtime.steps.path import StepFacts, StepPath, choose_path, tell

OPEN = f"/{NAME}/Open"
_SERVICE = "/tensorflow.MasterService/"
# How long a session waits for a master that does not answer; TensorFlow's waits for ever.
CONNECT_TIMEOUT_S = float(os.environ.get("DTF_CONNECT_TIMEOUT_S", "60"))


def _channel(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)


class _Stub:
    """Calls by method name, with errors as OpErrors."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channel = _channel(address)
        self._methods: dict[str, Any] = {}

    def call(
        self, method: str, request: Any, response: Any, timeout_s: float | None, wait: bool = False, job: str = ""
    ) -> Any:
        """Send one request and wait for its answer; `job` says for whom, where that matters (services/job_scope.py).

        Raises:
            OpError: what the master answered; UnavailableError when it cannot be reached.
        """
        stub = self._methods.get(method)
        if stub is None:
            stub = self._methods[method] = self.channel.unary_unary(
                method if method.startswith("/") else _SERVICE + method,
                type(request).SerializeToString,
                response.FromString,
            )
        try:
            metadata = ((METADATA_KEY, job),) if job else None
            return stub(request, timeout=timeout_s, wait_for_ready=wait, metadata=metadata)
        except grpc.RpcError as e:
            error: Any = e
            code, details = error.code(), error.details() or ""
            if code is grpc.StatusCode.UNAVAILABLE or is_cut_off(code, details):
                raise UnavailableError(f"The master at {self.address} cannot be reached: {details}") from None
            if code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise DeadlineExceededError(f"Deadline Exceeded: {method} of the master at {self.address}") from None
            raise error_from_code(code.value[0], details) from None
        except ValueError as e:
            # grpc's way to say that the channel is closed.
            raise UnavailableError(f"The connection to {self.address} was closed: {e}") from None


class GrpcBackend:
    """A Backend; the channel is opened with the first request."""

    def __init__(self, address: str, config: config_pb2.ConfigProto, job: str = "") -> None:
        self._address = address
        self._job = job
        self._config = config
        self._timeout_s = config.operation_timeout_in_ms / 1000 or None
        self._stub: _Stub | None = None
        self._handle = ""
        self._version = 0
        # The short way to a master on this host; None until it is wanted, and where there is none.
        self._local_steps: LocalSteps | None = None
        asks_for_rpc = config.rpc_options.use_rpc_for_inprocess_master
        self._only_rpc = "the session's rpc_options ask for it" if asks_for_rpc else ""
        self._prepared: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], int], Prepared] = {}

    def _call(self, method: str, request: Any, response: Any, timeout_s: float | None = None) -> Any:
        if self._stub is None or not self._handle:
            raise InvalidArgumentError("A session is not created yet....")
        return self._stub.call(method, request, response, timeout_s or self._timeout_s)

    def create(self, graph_def: graph_pb2.GraphDef) -> None:
        if self._stub is None:
            self._stub = _Stub(self._address)
        request = master_pb2.CreateSessionRequest(graph_def=graph_def, config=self._config, target=self._address)
        timeout = self._timeout_s or CONNECT_TIMEOUT_S
        try:
            answer = self._stub.call(
                "CreateSession", request, master_pb2.CreateSessionResponse, timeout, wait=True, job=self._job
            )
        except DeadlineExceededError:
            raise DeadlineExceededError(
                f"The master at {self._address} did not make a session within {timeout:g} s: is it up?"
            ) from None
        self._handle, self._version = answer.session_handle, answer.graph_version

    def extend(self, graph_def: graph_pb2.GraphDef) -> None:
        request = master_pb2.ExtendSessionRequest(
            session_handle=self._handle, graph_def=graph_def, current_graph_version=self._version
        )
        self._version = self._call("ExtendSession", request, master_pb2.ExtendSessionResponse).new_graph_version

    def run(
        self,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: config_pb2.RunOptions | None = None,
        metadata: config_pb2.RunMetadata | None = None,
    ) -> list[Any]:
        graph_key = 0 if metadata is not None else graph_key_alone(options)
        if graph_key or (options is None and metadata is None):
            return self.prepare(list(feeds), fetches, targets, graph_key)(list(feeds.values()))
        tell(choose_path(StepFacts(has_options=True)), list(feeds), fetches, targets)
        return self._run_step(feeds, fetches, targets, options, metadata, "")

    def _run_step(
        self,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str],
        options: config_pb2.RunOptions | None,
        metadata: config_pb2.RunMetadata | None,
        partial_run: str,
    ) -> list[Any]:
        request = master_pb2.RunStepRequest(
            session_handle=self._handle,
            fetch=fetches,
            target=targets,
            partial_run_handle=partial_run,
            store_errors_in_response_body=True,
            request_id=_request_id(),
        )
        for name, value in feeds.items():
            request.feed.add(name=name).tensor.CopyFrom(encode_tensor(value))
        timeout = None
        if options is not None:
            request.options.CopyFrom(options)
            timeout = options.timeout_in_ms / 1000 or None
        answer: master_pb2.RunStepResponse = self._call("RunStep", request, master_pb2.RunStepResponse, timeout)
        if answer.status_code:
            raise error_from_code(answer.status_code, answer.status_error_message)
        if metadata is not None:
            metadata.CopyFrom(answer.metadata)
        values = own_values([decode_tensor(named.tensor) for named in answer.tensor])
        got = {named.name: value for named, value in zip(answer.tensor, values)}
        missing = [name for name in fetches if name not in got]
        if missing:
            raise InternalError(f"The master's answer lacks fetched tensors: {missing}")
        return [got[name] for name in fetches]

    def prepare(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], graph_key: int = 0
    ) -> Prepared:
        if self._stub is None or not self._handle:
            raise InvalidArgumentError("A session is not created yet....")
        key = tuple(feeds), tuple(fetches), tuple(targets), graph_key
        found = self._prepared.get(key)
        if found is not None:
            return found
        is_full = len(self._prepared) >= MAX_SIGNATURES
        only_rpc = f"the session has run {MAX_SIGNATURES} other signatures" if is_full else self._why_only_rpc()
        choice = choose_path(StepFacts(has_timeout=self._timeout_s is not None, only_rpc=only_rpc))
        if choice.path is StepPath.RPC or self._local_steps is None:
            tell(choice, *key[:3])
            found = partial(self._run_plain, *key)
        else:
            # What only the master knows of it, it says when the first step is run.
            found = self._local_steps.function(*key)
        if not is_full:
            self._prepared[key] = found
        return found

    def _why_only_rpc(self) -> str:
        """Say why this session runs no steps over sockets of its host; "" where it does now, or does not want to."""
        if self._local_steps is None and not self._only_rpc and self._timeout_s is None:
            local = LocalSteps(self._handle, self._address, self._ask_for_connection)
            if local.open():
                self._local_steps = local
            else:
                self._only_rpc = f"the master at {self._address} takes no other connection from here"
        return self._only_rpc

    def _run_plain(
        self,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        graph_key: int,
        values: Sequence[Any],
    ) -> list[Any]:
        options: config_pb2.RunOptions | None = None
        if graph_key:
            options = config_pb2.RunOptions()
            options.experimental.collective_graph_key = graph_key
        return self._run_step(dict(zip(feeds, values)), fetches, targets, options, None, "")

    def _ask_for_connection(self, request: worker_pb2.OpenClientRequest) -> worker_pb2.OpenLinkResponse:
        if self._stub is None:
            raise UnavailableError(f"The session with the master at {self._address} is closed")
        answer: worker_pb2.OpenLinkResponse = self._stub.call(
            OPEN, request, worker_pb2.OpenLinkResponse, CONNECT_TIMEOUT_S
        )
        return answer

    def partial_run_setup(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> str:
        request = master_pb2.PartialRunSetupRequest(
            session_handle=self._handle, feed=feeds, fetch=fetches, target=targets, request_id=_request_id()
        )
        return str(self._call("PartialRunSetup", request, master_pb2.PartialRunSetupResponse).partial_run_handle)

    def partial_run(self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str]) -> list[Any]:
        return self._run_step(feeds, fetches, (), None, None, handle)

    def make_callable(self, options: config_pb2.CallableOptions) -> int:
        request = master_pb2.MakeCallableRequest(session_handle=self._handle, options=options, request_id=_request_id())
        return int(self._call("MakeCallable", request, master_pb2.MakeCallableResponse).handle)

    def run_callable(
        self, handle: int, values: Sequence[Any], metadata: config_pb2.RunMetadata | None = None
    ) -> list[Any]:
        request = master_pb2.RunCallableRequest(
            session_handle=self._handle,
            handle=handle,
            feed=[encode_tensor(v) for v in values],
            request_id=_request_id(),
        )
        answer = self._call("RunCallable", request, master_pb2.RunCallableResponse)
        if metadata is not None:
            metadata.CopyFrom(answer.metadata)
        return own_values([decode_tensor(t) for t in answer.fetch])

    def release_callable(self, handle: int) -> None:
        request = master_pb2.ReleaseCallableRequest(session_handle=self._handle, handle=handle)
        self._call("ReleaseCallable", request, master_pb2.ReleaseCallableResponse)

    def list_devices(self) -> list[device_pb2.DeviceAttributes]:
        request = master_pb2.ListDevicesRequest(session_handle=self._handle)
        answer = self._call("ListDevices", request, master_pb2.ListDevicesResponse)
        return [*answer.local_device, *answer.remote_device]

    def close(self) -> None:
        stub, self._stub = self._stub, None
        handle, self._handle = self._handle, ""
        if self._local_steps is not None:
            self._local_steps.close()
        if stub is None:
            return
        try:
            if handle:
                request = master_pb2.CloseSessionRequest(session_handle=handle)
                stub.call("CloseSession", request, master_pb2.CloseSessionResponse, self._timeout_s or 30.0)
        finally:
            stub.channel.close()


def reset(address: str, containers: Sequence[str], config: config_pb2.ConfigProto, job: str = "") -> None:
    """Do what Session.reset does, at a remote master."""
    stub = _Stub(address)
    try:
        request = master_pb2.ResetRequest(container=containers, device_filters=config.device_filters)
        timeout = config.operation_timeout_in_ms / 1000 or CONNECT_TIMEOUT_S
        stub.call("Reset", request, master_pb2.ResetResponse, timeout, wait=True, job=job)
    finally:
        stub.channel.close()


def _request_id() -> int:
    return secrets.randbits(63) | 1
