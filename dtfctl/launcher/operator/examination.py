"""Ask a cluster for what `doctor` judges: its files here, its controller, all hosts at once, and the ways between."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.looks import InspectRequest, MeasureRequest
from dtfctl.launcher.model import ClusterStatus, LinkStatus
from dtfctl.launcher.operator import doctor, metrics_client
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.operator.pairs import rounds
from dtfctl.launcher.spec.model import ClusterSpec

ASK_AT_ONCE = 32
METRICS_S = 10.0
MEASURE_S = 60.0


def inspect(connection: Connection, host: str) -> doctor.Answer:
    """Ask a host's agent for its version, clock, limits, disk and GPUs; with why not, where it does not answer."""
    asked, begun = time.time(), time.monotonic()
    try:
        said = connection.call(controller_calls.INSPECT, InspectRequest(host=host, now=asked))
    except LauncherError as error:
        return doctor.Answer(None, asked, time.monotonic() - begun, error.message)
    return doctor.Answer(said, asked, time.monotonic() - begun)


def examine(connection: Connection, status: ClusterStatus, spec: ClusterSpec) -> list[doctor.Finding]:
    """Examine a cluster."""
    names = [host.name for host in status.hosts]
    with ThreadPoolExecutor(max(1, min(ASK_AT_ONCE, len(names)))) as pool:
        answers = dict(zip(names, pool.map(lambda name: inspect(connection, name), names)))
    found = doctor.look_at_files(connection.paths, time.time(), spec.security.lifetime)
    found += doctor.judge(status, answers, not spec.is_local, spec.security.lifetime)
    if spec.metrics.port is not None:
        try:
            metrics_client.read(connection, spec, METRICS_S)
            problem = ""
        except LauncherError as error:
            problem = error.message
        found.append(doctor.port_finding(spec.metrics.port, problem))
    return found


def measure_links(connection: Connection, status: ClusterStatus) -> list[LinkStatus]:
    """Have all hosts that are `up` measure the way to each other, both ways and no host two at a time."""

    def measure(pair: tuple[str, str]) -> LinkStatus:
        source, target = pair
        request = MeasureRequest(host=target, source=source)
        return connection.call(controller_calls.MEASURE, request, timeout_s=MEASURE_S)

    names = [host.name for host in status.hosts if host.state == "up"]
    found: list[LinkStatus] = []
    with ThreadPoolExecutor(max(1, len(names) // 2)) as pool:
        for pairs in rounds(names):
            for turn in (pairs, [(b, a) for a, b in pairs]):
                found += pool.map(measure, turn)
    return sorted(found, key=lambda link: (link.source, link.target))
