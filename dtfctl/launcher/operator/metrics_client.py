"""Reading the metrics page of a cluster, and telling Prometheus how to."""

from __future__ import annotations

import http.client
from typing import Any

from dtfctl.launcher.identity.certificates import TlsFiles, server_name
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.net.address import connect
from dtfctl.net.tls import Identity


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


def scrape_config(paths: ClusterPaths, target: str) -> dict[str, Any]:
    """Make one entry of Prometheus's `scrape_configs`."""
    reader = TlsFiles.of(paths.readers, "metrics")
    return {
        "job_name": f"dtfctl-{paths.name}",
        "scheme": "https",
        "static_configs": [{"targets": [target]}],
        "tls_config": {
            "ca_file": str(paths.certificates / "ca.pem"),
            "cert_file": str(reader.cert),
            "key_file": str(reader.key),
            "server_name": server_name("controller", paths.name),
        },
    }
