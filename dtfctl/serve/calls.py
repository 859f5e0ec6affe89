"""The gRPC API: TensorFlow Serving's PredictionService and ModelService, and gRPC's health check."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import grpc

from dtfctl.protocol import serving_pb2 as messages
from dtfctl.runtime.framework.errors import (
    Code,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    UnauthenticatedError,
    UnimplementedError,
)
from dtfctl.runtime.framework.tensor_codec import encode_tensor
from dtfctl.runtime.services.calls import Call, Handler
from dtfctl.runtime.services.grpc_tools import listen_tcp, new_server, service, unary
from dtfctl.serve import questions
from dtfctl.serve.door import Door
from dtfctl.serve.figures import Figures
from dtfctl.serve.model import Asked, Model
from dtfctl.serve.signatures import CLASSIFY, REGRESS, Signature
from dtfctl.serve.versions import Version

PREDICTION = "tensorflow.serving.PredictionService"
MODEL = "tensorflow.serving.ModelService"
HEALTH = "grpc.health.v1.Health"
METADATA = "signature_def"
MOST_TASKS = 64
_PACKED = "type.googleapis.com/tensorflow.serving.SignatureDefMap"


def _credentials(door: Door) -> grpc.ServerCredentials | None:
    if door.identity is None:
        return None
    pem = door.identity.pem()
    return grpc.ssl_server_credentials([(pem.key, pem.cert)], pem.ca, require_client_auth=True)


class GrpcServer:
    """Serves from `start` until `stop`.

    Args:
        door: where it listens, and to whom.
        port: 0: a free one, which `port` tells.
    """

    def __init__(self, model: Model, figures: Figures, door: Door, patience_s: float, port: int = 0) -> None:
        """Listen. Raises OSError: the port is taken."""
        self._model = model
        self._figures = figures
        self._patience_s = patience_s
        self._door = door
        made: dict[str, Handler] = {
            **service(
                PREDICTION,
                {
                    "Predict": self._handler(messages.PredictRequest, self._predict, "Predict"),
                    "Classify": self._handler(messages.ClassificationRequest, self._classify, "Classify"),
                    "Regress": self._handler(messages.RegressionRequest, self._regress, "Regress"),
                    "MultiInference": self._handler(messages.MultiInferenceRequest, self._several, "MultiInference"),
                    "GetModelMetadata": self._handler(messages.GetModelMetadataRequest, self._metadata),
                },
            ),
            **service(MODEL, {"GetModelStatus": self._handler(messages.GetModelStatusRequest, self._status)}),
            **service(HEALTH, {"Check": self._handler(messages.HealthCheckRequest, self._health)}),
        }
        self._server = new_server(made.get)
        self.port = listen_tcp(self._server, f"{door.address}:{port}", _credentials(door))

    def start(self) -> None:
        self._server.start()

    def stop(self, grace_s: float) -> None:
        """Take no more calls, and give those that run some time."""
        self._server.stop(grace_s).wait(grace_s + 1.0)

    def _handler(self, kind: Any, function: Callable[[Any, Call], Any], verb: str = "") -> Handler:
        def handle(request: Any, call: Call) -> Any:
            began = time.perf_counter()
            given = dict(call.metadata).get("authorization", "")
            if not self._door.knows(given.encode() if isinstance(given, str) else given):
                raise UnauthenticatedError(
                    "say `authorization: Bearer TOKEN` in the metadata, with this cluster's token"
                )
            code = "INTERNAL"
            try:
                made = function(request, call)
                code = "OK"
                return made
            except OpError as error:
                code = Code(error.error_code).name
                raise
            finally:
                if verb:
                    self._figures.note(verb, code, time.perf_counter() - began)

        return unary(kind, handle)

    def _asked(self, spec: Any, call: Call, outputs: tuple[str, ...] = ()) -> Asked:
        left = call.time_left()
        patience = self._patience_s if left is None else min(left, self._patience_s)
        number, label = self._which(spec)
        return Asked(number, spec.signature_name, outputs, time.monotonic() + patience, label)

    def _which(self, spec: Any) -> tuple[int | None, str]:
        """Read the number or the label of the version that is meant; neither: the newest.

        Raises:
            NotFoundError: it is another model.
        """
        if spec.name != self._model.name:
            raise NotFoundError(f"Servable not found for request: Latest({spec.name})")
        return int(spec.version.value) if spec.HasField("version") else None, str(spec.version_label)

    def _fill(self, spec: Any, version: Version, signature: Signature | None) -> None:
        spec.name = self._model.name
        spec.version.value = version.source.version
        spec.signature_name = signature.name if signature is not None else ""

    def _predict(self, request: Any, call: Call) -> Any:
        asked = self._asked(request.model_spec, call, tuple(request.output_filter))
        version, signature, found = self._model.ask(asked, lambda _signature: questions.tensors(request.inputs))
        made = messages.PredictResponse()
        self._fill(made.model_spec, version, signature)
        types = {port.alias: port.dtype for port in signature.outputs}
        for name, value in found.items():
            made.outputs[name].CopyFrom(encode_tensor(value, types[name]))
        return made

    def _examples(self, spec: Any, given: Any, call: Call, method: str) -> tuple[Version, Signature, Any, int]:
        rows = 0

        def read(signature: Signature) -> Any:
            nonlocal rows
            questions.check_method(signature, method)
            found = questions.examples(signature, given)
            rows = len(next(iter(found.values())))
            return found

        version, signature, found = self._model.ask(self._asked(spec, call), read)
        return version, signature, found, rows

    def _classify(self, request: Any, call: Call) -> Any:
        return self._classified(request.model_spec, request.input, call)

    def _classified(self, spec: Any, given: Any, call: Call) -> Any:
        version, signature, found, rows = self._examples(spec, given, call, CLASSIFY)
        made = messages.ClassificationResponse()
        self._fill(made.model_spec, version, signature)
        for pairs in questions.classes(found, rows):
            one = made.result.classifications.add()
            for label, score in pairs:
                one.classes.add(label=label, score=score)
        return made

    def _regress(self, request: Any, call: Call) -> Any:
        return self._regressed(request.model_spec, request.input, call)

    def _regressed(self, spec: Any, given: Any, call: Call) -> Any:
        version, signature, found, rows = self._examples(spec, given, call, REGRESS)
        made = messages.RegressionResponse()
        self._fill(made.model_spec, version, signature)
        for number in questions.regressions(found, rows):
            made.result.regressions.add(value=number)
        return made

    def _several(self, request: Any, call: Call) -> Any:
        """Ask several signatures of the same Examples: of one version, whatever comes meanwhile."""
        self._check_tasks(request.tasks)
        which = self._which(request.tasks[0].model_spec)
        while True:
            number = self._model.find(*which).source.version
            try:
                return self._of_one_version(request, call, number)
            except NotFoundError:
                # It was replaced between one task and another: all ask its successor.
                if self._model.find(*which).source.version == number:
                    raise

    def _of_one_version(self, request: Any, call: Call, number: int) -> Any:
        made = messages.MultiInferenceResponse()
        for task in request.tasks:
            spec = messages.ModelSpec()
            spec.CopyFrom(task.model_spec)
            spec.version.value = number
            one = made.results.add()
            if task.method_name == CLASSIFY:
                classified = self._classified(spec, request.input, call)
                one.classification_result.CopyFrom(classified.result)
                one.model_spec.CopyFrom(classified.model_spec)
            else:
                regressed = self._regressed(spec, request.input, call)
                one.regression_result.CopyFrom(regressed.result)
                one.model_spec.CopyFrom(regressed.model_spec)
        return made

    def _check_tasks(self, tasks: Any) -> None:
        if not 0 < len(tasks) <= MOST_TASKS:
            raise InvalidArgumentError(f"a multi-inference request has 1 to {MOST_TASKS} tasks, not {len(tasks)}")
        first = self._which(tasks[0].model_spec)
        names = set()
        for task in tasks:
            if task.method_name not in (CLASSIFY, REGRESS):
                raise UnimplementedError(f"method {task.method_name!r} is none of {CLASSIFY} and {REGRESS}")
            if self._which(task.model_spec) != first:
                raise InvalidArgumentError("the tasks of a multi-inference request have to ask one version of a model")
            names.add(task.model_spec.signature_name)
        if len(names) != len(tasks):
            raise InvalidArgumentError("the tasks of a multi-inference request have to ask different signatures")

    def _metadata(self, request: Any, _call: Call) -> Any:
        strange = sorted(set(request.metadata_field) - {METADATA})
        if strange or not request.metadata_field:
            raise InvalidArgumentError(
                f"Metadata field {', '.join(strange) or '(none)'} is not supported; ask for {METADATA}"
            )
        version = self._model.find(*self._which(request.model_spec))
        made = messages.GetModelMetadataResponse()
        self._fill(made.model_spec, version, None)
        held = made.metadata[METADATA]
        held.type_url = _PACKED
        held.value = messages.SignatureDefMap(signature_def=version.definitions).SerializeToString()
        return made

    def _status(self, request: Any, _call: Call) -> Any:
        made = messages.GetModelStatusResponse()
        wanted, label = self._which(request.model_spec)
        wanted = self._model.number(label) if label else wanted
        for number, state in sorted(self._model.states(wanted).items(), reverse=True):
            one = made.model_version_status.add(version=number, state=state.state)
            one.status.error_code = state.code
            one.status.error_message = state.message
        return made

    def _health(self, request: Any, _call: Call) -> Any:
        if request.service not in ("", PREDICTION, MODEL):
            raise NotFoundError(f"there is no service {request.service}")
        made = messages.HealthCheckResponse
        return made(status=made.SERVING if self._model.ready else made.NOT_SERVING)
