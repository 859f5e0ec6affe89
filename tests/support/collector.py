"""A collector of OpenTelemetry traces for tests: takes what is sent by OTLP over HTTP, and keeps it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Told(NamedTuple):
    """A span, as it was sent."""

    name: str
    service: str
    trace: bytes
    id: bytes
    parent: bytes
    start: int
    end: int
    attributes: dict[str, Any]
    failed: bool


class Collector:
    """Listens on loopback; `content` is all that has come, as bytes."""

    def __init__(self) -> None:
        self.content: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                collector.paths.append(self.path)
                collector.headers.append(dict(self.headers))
                collector.content.append(
                    gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data
                )
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def spans(self) -> list[Told]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        found = []
        for data in list(self.content):
            for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
                named = {a.key: a.value.string_value for a in resource.resource.attributes}
                for span in (span for scope in resource.scope_spans for span in scope.spans):
                    values = {a.key: getattr(a.value, a.value.WhichOneof("value") or "") for a in span.attributes}
                    ids = span.trace_id, span.span_id, span.parent_span_id
                    times = span.start_time_unix_nano, span.end_time_unix_nano
                    found.append(Told(span.name, named["service.name"], *ids, *times, values, span.status.code == 2))
        return found


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    try:
        yield collector
    finally:
        collector.close()
