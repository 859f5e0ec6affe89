"""The REST API: addresses and what is done at them.

POST /v1/models/NAME[/versions/N | /labels/L]:predict | :classify | :regress
GET  /v1/models/NAME[/versions/N | /labels/L]             how the versions are
GET  /v1/models/NAME[/versions/N | /labels/L]/metadata    the signatures
GET  /healthz                                 200 where requests are answered, else 503
GET  /monitoring/prometheus/metrics           counts and latencies
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from google.protobuf.json_format import MessageToDict

from dtfctl.protocol.serving_pb2 import ModelVersionStatus, SignatureDefMap
from dtfctl.runtime.framework.errors import Code, NotFoundError, OpError
from dtfctl.serve import questions, rest
from dtfctl.serve.figures import Figures
from dtfctl.serve.model import Asked, Model
from dtfctl.serve.signatures import CLASSIFY, REGRESS, Signature
from dtfctl.serve.web import Answer, failure

log = logging.getLogger(__name__)

METHODS = {"classify": CLASSIFY, "regress": REGRESS}
_PATH = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d{1,18})|/labels/([^/:]+))?(?::(\w+)|/(metadata))?")
Which: TypeAlias = tuple[int | None, str]
"""A version's number, or its label, as in an address; neither: the newest."""
_STATUS: dict[int, int] = {
    Code.INVALID_ARGUMENT: 400,
    Code.OUT_OF_RANGE: 400,
    Code.FAILED_PRECONDITION: 412,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.RESOURCE_EXHAUSTED: 503,
    Code.UNIMPLEMENTED: 501,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
}


class Routes:
    """Answers requests for one model. Any thread."""

    def __init__(self, model: Model, figures: Figures, patience_s: float) -> None:
        self._model = model
        self._figures = figures
        self._patience_s = patience_s

    def answer(self, method: str, address: str, body: bytes) -> Answer:
        """Answer one request; what goes wrong is an answer, too."""
        began = time.perf_counter()
        verb = "other"
        try:
            path = unquote(urlsplit(address).path)
            if method == "GET" and path == "/healthz":
                return self._health()
            if method == "GET" and path == "/monitoring/prometheus/metrics":
                return Answer(self._figures.text(self._model), kind="text/plain; version=0.0.4")
            found = _PATH.fullmatch(path)
            if found is None:
                return failure(f"Malformed request: {method} {path}", 404)
            if found[1] != self._model.name:
                raise NotFoundError(f"Servable not found for request: Latest({found[1]})")
            which = (None if found[2] is None else int(found[2]), found[3] or "")
            if method == "GET" and found[4] is None:
                return self._metadata(which) if found[5] else self._status(which)
            if method == "POST" and found[4] in self._verbs:
                verb = found[4]
                made = Answer(self._verbs[verb](which, body))
                self._figures.note(verb, "OK", time.perf_counter() - began)
                return made
            return failure(f"Malformed request: {method} {path}", 404)
        except OpError as error:
            self._figures.note(verb, Code(error.error_code).name, time.perf_counter() - began)
            return failure(error.message, _STATUS.get(error.error_code, 500))
        except Exception as error:
            log.exception("%s %s failed", method, address[:200])
            self._figures.note(verb, "INTERNAL", time.perf_counter() - began)
            return failure(f"{type(error).__name__}: {error}", 500)

    @property
    def _verbs(self) -> dict[str, Callable[[Which, bytes], bytes]]:
        return {"predict": self._predict, "classify": self._classify, "regress": self._regress}

    def _asked(self, which: Which, request: dict[str, Any]) -> Asked:
        until = time.monotonic() + self._patience_s
        return Asked(which[0], rest.signature_name(request), until=until, label=which[1])

    def _predict(self, which: Which, body: bytes) -> bytes:
        request, bools = rest.parse(body), rest.holds_bools(body)
        by_rows = "instances" in request

        def read(signature: Signature) -> Any:
            return rest.inputs(request, signature, bools)[0]

        _, _, found = self._model.ask(self._asked(which, request), read)
        return rest.predictions(found, by_rows)

    def _classify(self, which: Which, body: bytes) -> bytes:
        found, rows = self._of_examples(which, rest.parse(body), CLASSIFY)
        return rest.results(questions.classes(found, rows))

    def _regress(self, which: Which, body: bytes) -> bytes:
        found, rows = self._of_examples(which, rest.parse(body), REGRESS)
        return rest.results(questions.regressions(found, rows))

    def _of_examples(self, which: Which, request: dict[str, Any], method: str) -> tuple[dict[str, Any], int]:
        sent = rest.examples(request)

        def read(signature: Signature) -> Any:
            questions.check_method(signature, method)
            return questions.examples(signature, sent)

        return self._model.ask(self._asked(which, request), read)[2], len(request["examples"])

    def _status(self, which: Which) -> Answer:
        number = self._model.number(which[1]) if which[1] else which[0]
        states = self._model.states(number)
        content = [
            {
                "version": str(version),
                "state": ModelVersionStatus.State.Name(state.state),
                "status": {"error_code": Code(state.code).name, "error_message": state.message},
            }
            for version, state in sorted(states.items(), reverse=True)
        ]
        return Answer(json.dumps({"model_version_status": content}, indent=1).encode())

    def _metadata(self, which: Which) -> Answer:
        version = self._model.find(*which)
        described = MessageToDict(
            SignatureDefMap(signature_def=version.definitions),
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
        )
        spec = {"name": self._model.name, "signature_name": "", "version": str(version.source.version)}
        content = {"model_spec": spec, "metadata": {"signature_def": described}}
        return Answer(json.dumps(content, indent=1).encode())

    def _health(self) -> Answer:
        ready = self._model.ready
        versions = [
            {"version": str(number), "tasks": list(version.tasks), "waiting": version.waiting}
            for number, version in sorted(self._model.versions.items())
        ]
        content = {"ready": ready, "model": self._model.name, "versions": versions}
        return Answer(json.dumps(content).encode(), 200 if ready else 503)
