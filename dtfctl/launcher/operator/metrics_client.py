"""Reading the metrics page of a cluster, and telling Prometheus how to."""

from __future__ import annotations

import http.client
from typing import Any

from dtfctl.launcher.errors import Conflict, ControllerUnreachable
from dtfctl.launcher.identity.certificates import TlsFiles, server_name
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import Nothing
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.net.address import connect
from dtfctl.net.tls import Identity


def read(connection: Connection, spec: ClusterSpec, timeout_s: float) -> str:
    """Read the page's text.

    Raises:
        Conflict: the spec has none. ControllerUnreachable: it does not answer.
    """
    port = _port(spec)
    try:
        address = connection.controller.reach(f"{_host(connection)}:{port}")
        return read_page(address, connection.paths, timeout_s)
    except OSError as error:
        log = connection.paths.logs / "controller.log"
        raise ControllerUnreachable(f"the metrics page at port {port} does not answer: {error}", f"see {log}") from None


def _port(spec: ClusterSpec) -> int:
    """Return the page's port. Raises Conflict: there is no page."""
    if spec.metrics.port is None:
        raise Conflict(f"cluster {spec.cluster} has no metrics page", "add `metrics: {port: 9464}` to its spec")
    return spec.metrics.port


def _host(connection: Connection) -> str:
    """Find the machine of the metrics page, which is the controller's."""
    if not connection.controller.host:
        return "127.0.0.1"
    return connection.call(controller_calls.PING, Nothing()).address.rpartition(":")[0]


def read_page(address: str, paths: ClusterPaths, timeout_s: float) -> str:
    """Read the page's text.

    Args:
        address: `HOST:PORT`, or `unix:PATH`.

    Raises:
        OSError: it cannot be reached, is not the cluster's, or refuses.
    """
    reader = TlsFiles.of(paths.readers, "metrics")
    context = Identity(paths.certificates / "ca.pem", reader.cert, reader.key).client_context()
    name = server_name("controller", paths.name)
    with (
        connect(address, timeout_s) as raw,
        context.wrap_socket(raw, server_hostname=name) as secure,
    ):
        connection = http.client.HTTPConnection(name, timeout=timeout_s)
        connection.sock = secure
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read().decode()
        except http.client.HTTPException as error:
            raise OSError(f"no page came: {error}") from None
        if answer.status != 200:
            raise OSError(f"it answers {answer.status} {answer.reason}")
        return text


def scrape_config(connection: Connection, spec: ClusterSpec) -> dict[str, Any]:
    """Make one entry of Prometheus's `scrape_configs`. Raises Conflict: there is no page."""
    port, paths = _port(spec), connection.paths
    reader = TlsFiles.of(paths.readers, "metrics")
    return {
        "job_name": f"dtfctl-{paths.name}",
        "scheme": "https",
        "static_configs": [{"targets": [f"{_host(connection)}:{port}"]}],
        "tls_config": {
            "ca_file": str(paths.certificates / "ca.pem"),
            "cert_file": str(reader.cert),
            "key_file": str(reader.key),
            "server_name": server_name("controller", paths.name),
        },
    }
