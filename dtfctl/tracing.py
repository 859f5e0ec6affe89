"""Tell an OpenTelemetry collector what the launcher does, where the environment names one (extra `otel`).

On where OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set; OpenTelemetry's other variables
count, too. Off, which is two looks at the environment a process, nothing of it is imported, and spans are nothing. What
is told of an operation: its name, its times, whether it failed and by which kind of error, the names of cluster, host,
task and job. No command lines, environments, messages or addresses: these may hold what is nobody's business.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

Kind = Literal["internal", "client", "server"]
EXPORT_S = 3.0
"""How long a collector may take, unless OTEL_EXPORTER_OTLP_TIMEOUT says otherwise: who gave a command waits for it."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"
_OWN = "OTEL_"

_tracer: Tracer | None = None
_provider: TracerProvider | None = None
_failed = ""


def is_wanted() -> bool:
    """Tell whether the environment names a collector for traces."""
    named = any(os.environ.get(name) for name in _ENDPOINTS)
    return named and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true" and _exporter() == "otlp"


def _exporter() -> str:
    return os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"


def environment() -> dict[str, str]:
    """Gather what says where traces go, for a process on another machine; nothing where they are off."""
    return {name: text for name, text in os.environ.items() if name.startswith(_OWN)} if is_wanted() else {}


def start(service: str) -> str:
    """Tell of this process's operations from now on, if that is wanted.

    Args:
        service: what it is called, unless OTEL_SERVICE_NAME says otherwise.

    Returns:
        Why nothing is told though it is wanted; else nothing.
    """
    global _tracer, _provider
    if not is_wanted() or _tracer is not None:
        return ""
    if importlib.util.find_spec("opentelemetry") is None:
        return "no traces are sent: pip install 'dtfctl[otel]', or unset OTEL_EXPORTER_OTLP_ENDPOINT"
    protocol = next((text for name in _PROTOCOLS if (text := os.environ.get(name))), _PROTOCOL)
    if protocol != _PROTOCOL:
        return f"no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, and dtfctl speaks {_PROTOCOL}"
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from dtfctl._version import VERSION

        timeout = None if any(os.environ.get(name) for name in _TIMEOUTS) else EXPORT_S
        name = os.environ.get("OTEL_SERVICE_NAME") or service
        _provider = TracerProvider(resource=Resource.create({SERVICE_NAME: name}), shutdown_on_exit=False)
        _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout)))
    except (ImportError, ValueError) as error:
        _provider = None
        return f"no traces are sent: {error}"
    # What a collector does not take is no matter of who gave the command; `finish` says it in a line.
    heard = logging.getLogger("opentelemetry")
    heard.addHandler(_Heard())
    heard.propagate = False
    _tracer = _provider.get_tracer("dtfctl", VERSION)
    return ""


def finish() -> str:
    """Send what has ended so far, and tell no more; why it was not sent, if it was not."""
    global _tracer, _provider
    provider, _provider, _tracer = _provider, None, None
    if provider is not None:
        provider.shutdown()
    return _failed


class _Heard(logging.Handler):
    """Keeps what the exporter complains of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        global _failed
        _failed = f"not all traces were sent: {record.getMessage()}"[:300]


def is_on() -> bool:
    return _tracer is not None


def span(name: str, kind: Kind = "internal", parent: str = "", **attributes: Any) -> AbstractContextManager[Operation]:
    """Tell of a `with` block, which is within the block around it.

    Args:
        parent: another process's span that it belongs to (a W3C traceparent).
        attributes: names, numbers; their names get "dtfctl." before them.
    """
    return _block(_tracer, name, kind, parent, attributes) if _tracer is not None else _NOTHING


def begin(name: str, at: float, parent: str = "", **attributes: Any) -> Operation:
    """Tell of something that has begun `at` (seconds since the epoch), until its `end` is called."""
    if _tracer is None:
        return Operation()
    return Operation(_tracer.start_span(name, _context(parent), start_time=_ns(at), attributes=_named(attributes)))


class Operation:
    """Something that is told of."""

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        """What another process is told, so that its spans are within this one; empty where nothing is told."""
        if self._span is None:
            return ""
        from opentelemetry import trace

        return _injected(trace.set_span_in_context(self._span))

    def note(self, **attributes: Any) -> None:
        if self._span is not None:
            self._span.set_attributes(_named(attributes))

    def fail(self, kind: str) -> None:
        """Tell that it has failed, and how: a name, not a message."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR)
            self._span.set_attribute("error.type", kind)

    def end(self, at: float) -> None:
        if self._span is not None:
            self._span.end(_ns(at))


class _Nothing(contextlib.AbstractContextManager[Operation]):
    _operation = Operation()

    def __enter__(self) -> Operation:
        return self._operation

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


_NOTHING = _Nothing()


def traceparent() -> str:
    """Name the span that this thread is in for another process; empty: none."""
    if _tracer is None:
        return ""
    from opentelemetry import context

    return _injected(context.get_current())


def _injected(context: Context) -> str:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier, context)
    return carrier.get("traceparent", "")


def _context(parent: str) -> Context | None:
    if not parent:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


@contextlib.contextmanager
def _block(tracer: Tracer, name: str, kind: Kind, parent: str, attributes: Mapping[str, Any]) -> Iterator[Operation]:
    from opentelemetry.trace import SpanKind

    with tracer.start_as_current_span(
        name,
        _context(parent),
        SpanKind[kind.upper()],
        _named(attributes),
        # Their messages may hold anything.
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        operation = Operation(current)
        try:
            yield operation
        except BaseException as error:
            operation.fail(type(error).__name__)
            raise


def _named(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {f"dtfctl.{name}": value for name, value in attributes.items() if value not in ("", None)}


def _ns(at: float) -> int:
    return int(at * 1e9)
