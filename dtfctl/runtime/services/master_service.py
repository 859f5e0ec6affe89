"""TensorFlow's MasterService over a Master: parses, calls, encodes; nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.protocol import master_pb2, tensor_pb2
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import CancelledError, FailedPreconditionError, InvalidArgumentError, OpError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from dtfctl.runtime.services.calls import Call, Handler
from dtfctl.runtime.services.compiled_step import StepOptions
from dtfctl.runtime.services.grpc_tools import service, unary
from dtfctl.runtime.services.job_scope import JobScope
from dtfctl.runtime.services.master import Master
from dtfctl.runtime.services.master_session import MasterSession
from dtfctl.runtime.services.partial_run import PartialRuns
from dtfctl.runtime.services.session_users import SessionUsers

NAME = "tensorflow.MasterService"


class MasterService:
    """The ten methods.

    Args:
        users: is told which connections use which sessions.
    """

    def __init__(self, master: Master, users: SessionUsers) -> None:
        self._master = master
        self._users = users

    def handlers(self) -> dict[str, Handler]:
        m = master_pb2
        methods = {
            "CreateSession": (m.CreateSessionRequest, self.create_session),
            "ExtendSession": (m.ExtendSessionRequest, self.extend_session),
            "PartialRunSetup": (m.PartialRunSetupRequest, self.partial_run_setup),
            "RunStep": (m.RunStepRequest, self.run_step),
            "CloseSession": (m.CloseSessionRequest, self.close_session),
            "ListDevices": (m.ListDevicesRequest, self.list_devices),
            "Reset": (m.ResetRequest, self.reset),
            "MakeCallable": (m.MakeCallableRequest, self.make_callable),
            "RunCallable": (m.RunCallableRequest, self.run_callable),
            "ReleaseCallable": (m.ReleaseCallableRequest, self.release_callable),
        }
        return service(NAME, {name: unary(kind, self._counted(function)) for name, (kind, function) in methods.items()})

    def _counted(self, function: Any) -> Any:
        def counted(request: Any, call: Call) -> Any:
            self._master.requests += 1
            return function(request, call)

        return counted

    def _session(self, handle: str, call: Call) -> MasterSession:
        session = self._master.session(handle)
        self._users.called(call, session)
        return session

    def create_session(self, request: master_pb2.CreateSessionRequest, call: Call) -> master_pb2.CreateSessionResponse:
        scope = JobScope.of_metadata(call.metadata)
        session = self._master.create_session(request.graph_def, request.config, scope)
        self._users.called(call, session)
        return master_pb2.CreateSessionResponse(session_handle=session.handle)

    def extend_session(self, request: master_pb2.ExtendSessionRequest, call: Call) -> master_pb2.ExtendSessionResponse:
        session = self._session(request.session_handle, call)
        version = session.extend(request.graph_def, request.current_graph_version)
        return master_pb2.ExtendSessionResponse(new_graph_version=version)

    def partial_run_setup(
        self, request: master_pb2.PartialRunSetupRequest, call: Call
    ) -> master_pb2.PartialRunSetupResponse:
        self._master.request_ids.check(request.request_id, "PartialRunSetup (Master)")
        session = self._session(request.session_handle, call)
        handle = PartialRuns(session).setup(list(request.feed), list(request.fetch), list(request.target))
        return master_pb2.PartialRunSetupResponse(partial_run_handle=handle)

    def run_step(self, request: master_pb2.RunStepRequest, call: Call) -> master_pb2.RunStepResponse:
        self._master.request_ids.check(request.request_id, "RunStep (Master)")
        session = self._session(request.session_handle, call)
        response = master_pb2.RunStepResponse()
        try:
            self._run_step(session, request, response, call)
        except OpError as e:
            if not request.store_errors_in_response_body or _is_about_request(e):
                raise
            return master_pb2.RunStepResponse(status_code=e.error_code, status_error_message=e.text)
        return response

    def _run_step(
        self,
        session: MasterSession,
        request: master_pb2.RunStepRequest,
        response: master_pb2.RunStepResponse,
        call: Call,
    ) -> None:
        feeds: dict[str, np.ndarray[Any, Any]] = {}
        for feed in request.feed:
            if feed.name in feeds:
                raise InvalidArgumentError(f'Endpoint "{feed.name}" fed more than once.')
            feeds[feed.name] = decode_tensor(feed.tensor)
        options = request.options if request.HasField("options") else None
        how = StepOptions(options, response.metadata, _token(call))
        fetches = list(request.fetch)
        if request.partial_run_handle:
            values = PartialRuns(session).run(request.partial_run_handle, feeds, fetches, how)
        else:
            values = session.run(feeds, fetches, list(request.target), how)
        for name, value in zip(fetches, values):
            named = response.tensor.add(name=name)
            named.tensor.CopyFrom(_encode(value, session.tensor_type(name)))

    def close_session(self, request: master_pb2.CloseSessionRequest, call: Call) -> master_pb2.CloseSessionResponse:
        self._master.close_session(request.session_handle)
        return master_pb2.CloseSessionResponse()

    def list_devices(self, request: master_pb2.ListDevicesRequest, call: Call) -> master_pb2.ListDevicesResponse:
        local, remote = self._master.list_devices(request.session_handle)
        return master_pb2.ListDevicesResponse(local_device=local, remote_device=remote)

    def reset(self, request: master_pb2.ResetRequest, call: Call) -> master_pb2.ResetResponse:
        scope = JobScope.of_metadata(call.metadata)
        self._master.reset(list(request.container), list(request.device_filters), scope)
        return master_pb2.ResetResponse()

    def make_callable(self, request: master_pb2.MakeCallableRequest, call: Call) -> master_pb2.MakeCallableResponse:
        self._master.request_ids.check(request.request_id, "MakeCallable (Master)")
        session = self._session(request.session_handle, call)
        return master_pb2.MakeCallableResponse(handle=session.make_callable(request.options))

    def run_callable(self, request: master_pb2.RunCallableRequest, call: Call) -> master_pb2.RunCallableResponse:
        self._master.request_ids.check(request.request_id, "RunCallable (Master)")
        session = self._session(request.session_handle, call)
        response = master_pb2.RunCallableResponse()
        how = StepOptions(None, response.metadata, _token(call))
        values = [decode_tensor(t) for t in request.feed]
        names = session.callable_fetches(request.handle)
        for name, value in zip(names, session.run_callable(request.handle, values, how)):
            response.fetch.append(_encode(value, session.tensor_type(name)))
        return response

    def release_callable(
        self, request: master_pb2.ReleaseCallableRequest, call: Call
    ) -> master_pb2.ReleaseCallableResponse:
        self._session(request.session_handle, call).release_callable(request.handle)
        return master_pb2.ReleaseCallableResponse()


def _is_about_request(error: OpError) -> bool:
    """Tell errors that TensorFlow's master answers as a gRPC status although bodies may hold errors."""
    return isinstance(error, FailedPreconditionError) and error.message == "Session is closed."


def _token(call: Call) -> CancellationToken:
    """Make a token that is cancelled when the call is over, as when the client is gone or its deadline has passed."""
    token = CancellationToken()
    gone = CancelledError("The client gave up the step: it was cancelled, its deadline passed, or it is gone")
    if not call.on_gone(lambda: token.cancel(gone)):
        token.cancel(gone)
    return token


def _encode(value: Any, dtype: DType | None) -> tensor_pb2.TensorProto:
    array = value.get() if hasattr(value, "get") and not isinstance(value, np.ndarray) else value
    return encode_tensor(array, dtype)
