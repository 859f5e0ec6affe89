"""The gRPC API: TensorFlow Serving's PredictionService and ModelService, and gRPC's health check."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from typing import Any

from dtfctl.protocol import serving_pb2 as messages
from dtfctl.runtime.framework.errors import Code, InvalidArgumentError, NotFoundError, OpError, UnauthenticatedError
from dtfctl.runtime.framework.tensor_codec import encode_tensor
from dtfctl.runtime.services.calls import Call, Handler
from dtfctl.runtime.services.grpc_tools import listen_tcp, new_server, service, unary
from dtfctl.serve import questions
from dtfctl.serve.figures import Figures
from dtfctl.serve.model import Asked, Model
from dtfctl.serve.signatures import CLASSIFY, REGRESS, Signature
from dtfctl.serve.versions import Version

PREDICTION = "tensorflow.serving.PredictionService"
MODEL = "tensorflow.serving.ModelService"
HEALTH = "grpc.health.v1.Health"
METADATA = "signature_def"
_PACKED = "type.googleapis.com/tensorflow.serving.SignatureDefMap"


class GrpcServer:
    """Serves from `start` until `stop`.

    Args:
        token: what clients say in the metadata `authorization`: `Bearer TOKEN`.
        port: of loopback; 0: a free one, which `port` tells.
    """

    def __init__(self, model: Model, figures: Figures, token: str, patience_s: float, port: int = 0) -> None:
        """Listen. Raises OSError: the port is taken."""
        self._model = model
        self._figures = figures
        self._patience_s = patience_s
        self._authorization = f"Bearer {token}".encode()
        made: dict[str, Handler] = {
            **service(
                PREDICTION,
                {
                    "Predict": self._handler(messages.PredictRequest, self._predict, "Predict"),
                    "Classify": self._handler(messages.ClassificationRequest, self._classify, "Classify"),
                    "Regress": self._handler(messages.RegressionRequest, self._regress, "Regress"),
                    "GetModelMetadata": self._handler(messages.GetModelMetadataRequest, self._metadata),
                },
            ),
            **service(MODEL, {"GetModelStatus": self._handler(messages.GetModelStatusRequest, self._status)}),
            **service(HEALTH, {"Check": self._handler(messages.HealthCheckRequest, self._health)}),
        }
        self._server = new_server(made.get)
        self.port = listen_tcp(self._server, f"127.0.0.1:{port}", None)

    def start(self) -> None:
        self._server.start()

    def stop(self, grace_s: float) -> None:
        """Take no more calls, and give those that run some time."""
        self._server.stop(grace_s).wait(grace_s + 1.0)

    def _handler(self, kind: Any, function: Callable[[Any, Call], Any], verb: str = "") -> Handler:
        def handle(request: Any, call: Call) -> Any:
            began = time.perf_counter()
            given = dict(call.metadata).get("authorization", "")
            if not hmac.compare_digest(given.encode() if isinstance(given, str) else given, self._authorization):
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
        return Asked(self._number(spec), spec.signature_name, outputs, time.monotonic() + patience)

    def _number(self, spec: Any) -> int | None:
        """Read which version is meant.

        Raises:
            NotFoundError: it is another model. InvalidArgumentError: it is named by a label.
        """
        if spec.name != self._model.name:
            raise NotFoundError(f"Servable not found for request: Latest({spec.name})")
        if spec.WhichOneof("version_choice") == "version_label":
            raise InvalidArgumentError("versions have no labels here: name one by its number")
        return int(spec.version.value) if spec.HasField("version") else None

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

    def _examples(self, request: Any, call: Call, method: str) -> tuple[Version, Signature, Any, int]:
        rows = 0

        def read(signature: Signature) -> Any:
            nonlocal rows
            questions.check_method(signature, method)
            found = questions.examples(signature, request.input)
            rows = len(next(iter(found.values())))
            return found

        version, signature, found = self._model.ask(self._asked(request.model_spec, call), read)
        return version, signature, found, rows

    def _classify(self, request: Any, call: Call) -> Any:
        version, signature, found, rows = self._examples(request, call, CLASSIFY)
        made = messages.ClassificationResponse()
        self._fill(made.model_spec, version, signature)
        for pairs in questions.classes(found, rows):
            one = made.result.classifications.add()
            for label, score in pairs:
                one.classes.add(label=label, score=score)
        return made

    def _regress(self, request: Any, call: Call) -> Any:
        version, signature, found, rows = self._examples(request, call, REGRESS)
        made = messages.RegressionResponse()
        self._fill(made.model_spec, version, signature)
        for number in questions.regressions(found, rows):
            made.result.regressions.add(value=number)
        return made

    def _metadata(self, request: Any, _call: Call) -> Any:
        strange = sorted(set(request.metadata_field) - {METADATA})
        if strange or not request.metadata_field:
            raise InvalidArgumentError(
                f"Metadata field {', '.join(strange) or '(none)'} is not supported; ask for {METADATA}"
            )
        version = self._model.find(self._number(request.model_spec))
        made = messages.GetModelMetadataResponse()
        self._fill(made.model_spec, version, None)
        held = made.metadata[METADATA]
        held.type_url = _PACKED
        held.value = messages.SignatureDefMap(signature_def=version.definitions).SerializeToString()
        return made

    def _status(self, request: Any, _call: Call) -> Any:
        made = messages.GetModelStatusResponse()
        for number, state in sorted(self._model.states(self._number(request.model_spec)).items(), reverse=True):
            one = made.model_version_status.add(version=number, state=state.state)
            one.status.error_code = state.code
            one.status.error_message = state.message
        return made

    def _health(self, request: Any, _call: Call) -> Any:
        if request.service not in ("", PREDICTION, MODEL):
            raise NotFoundError(f"there is no service {request.service}")
        made = messages.HealthCheckResponse
        return made(status=made.SERVING if self._model.ready else made.NOT_SERVING)
