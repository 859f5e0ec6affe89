"""What a collector of OpenTelemetry traces is told of the launcher's operations."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.cluster.conftest import wait_until
from tests.support.collector import Told, collecting

pytest.importorskip("opentelemetry.sdk")
pytestmark = pytest.mark.slow

SPEC = """
cluster: t
tasks: {worker: 1}
env: {PASSWORD: hunter-of-the-spec}
"""
SCRIPT = "import sys; print('hunter-of-the-output'); sys.exit(int(sys.argv[1]))"


def dtfctl(*words: str, expected: int = 0, **environment: str) -> None:
    command = [sys.executable, "-m", "dtfctl", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=200)
    assert done.returncode == expected, done.stderr
    assert "traces" not in done.stderr


def test_operations_are_told_with_their_causes_and_without_secrets(home: Path, tmp_path: Path) -> None:
    spec, script = tmp_path / "t.yaml", tmp_path / "job.py"
    spec.write_text(SPEC)
    script.write_text(SCRIPT)
    with collecting() as collector:
        on = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=hunter-of-the-header",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        dtfctl("up", str(spec), TRACEPARENT="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", **on)
        dtfctl("submit", str(script), "0", **on)
        dtfctl("submit", str(script), "3", "--password", "hunter-of-the-words", expected=3, **on)
        dtfctl("restart", "worker/0", **on)
        dtfctl("down", **on)

        def by_command() -> dict[str, list[Told]]:
            traces = defaultdict(list)
            for span in collector.spans():
                traces[span.trace].append(span)
            named: dict[str, list[Told]] = defaultdict(list)
            for spans in traces.values():
                (root,) = [span for span in spans if span.name.startswith("dtfctl ")] or [None]
                if root is not None:
                    named[root.name] += spans
            return named

        wait_until(lambda: "dtfctl down" in by_command(), "the last command is told")
        found = by_command()
        told = collector.spans()
        content = b"".join(collector.content)
        assert set(collector.paths) == {"/v1/traces"}
        assert {headers["api-key"] for headers in collector.headers} == {"hunter-of-the-header"}
    assert b"hunter" not in content and str(tmp_path).encode() not in content

    def chain(spans: list[Told], name: str, **attributes: str) -> list[str]:
        """Name a span and all that it is within, innermost first."""
        wanted = {f"dtfctl.{key}": value for key, value in attributes.items()}
        at = next(span for span in spans if span.name == name and wanted.items() <= span.attributes.items())
        names = [at.name]
        while (outer := next((span for span in told if span.id == at.parent), None)) is not None:
            assert outer.trace == at.trace
            names.append(outer.name)
            at = outer
        return names

    up = found["dtfctl up"]
    assert chain(up, "task: starting", task="worker/0", cluster="t") == [
        "task: starting",
        "start task",
        "Apply",
        "Apply",
        "dtfctl up",
    ]
    root = next(span for span in up if span.name == "dtfctl up")
    assert (root.trace.hex(), root.parent.hex()) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert {span.service for span in up} == {"dtfctl", "dtfctl-controller"}
    assert chain(found["dtfctl restart"], "restart task", task="worker/0")[1:] == ["Desire", "Desire", "dtfctl restart"]
    submitted = found["dtfctl submit"]
    assert chain(submitted, "job: running")[1:] == ["job", "Submit", "Submit", "dtfctl submit"]
    jobs = [span for span in submitted if span.name == "job"]
    assert sorted((span.attributes["dtfctl.job"], span.failed) for span in jobs) == [("job-1", False), ("job-2", True)]
    codes = {span.attributes["dtfctl.exit_code"]: span.failed for span in submitted if span.name == "dtfctl submit"}
    assert codes == {0: False, 3: True}
    assert chain(found["dtfctl down"], "Down") == ["Down", "Down", "dtfctl down"] or chain(
        found["dtfctl down"], "Down"
    ) == ["Down", "dtfctl down"]
    assert all(span.start <= span.end for span in told)


def test_a_collector_that_is_away_costs_a_line(home: Path) -> None:
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    command = [sys.executable, "-m", "dtfctl", "clusters"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0
    (line,) = [line for line in done.stderr.splitlines() if "traces" in line]
    assert line.startswith("not all traces were sent: ")


def test_nothing_of_it_is_imported_while_it_is_off() -> None:
    look = "import sys, dtfctl.tracing as t, dtfctl.cli.app, dtfctl.launcher.api\n"
    look += "with t.span('a') as a: a.fail('b'); a.end(1.0)\n"
    look += "assert t.start('x') == '' and not t.is_on() and t.traceparent() == a.traceparent == ''\n"
    look += "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("variable", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_a_way_that_is_not_spoken_is_refused_in_words(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dtfctl import tracing

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv(variable, "grpc")
    assert "grpc" in tracing.start("x") and not tracing.is_on()
