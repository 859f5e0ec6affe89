"""What a page may have done, and what it asks for that takes a while."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import Conflict, UsageError
from dtfctl.launcher.operator.graphs import GraphView

PROFILE_STEPS, PROFILE_S = 20, 15.0
MOST_BARS = 20_000
MOST_NODES = 20_000
REASON = "asked for in the dashboard"

_VERBS: dict[str, Callable[[Cluster, str], object]] = {
    "cancel": lambda cluster, what: cluster.cancel([what]),
    "restart": lambda cluster, what: cluster.restart(what, wait_s=0.0),
    "stop": lambda cluster, what: cluster.stop(what),
    "start": lambda cluster, what: cluster.start(what, wait_s=0.0),
    "drain": lambda cluster, what: cluster.drain([what], reason=REASON),
    "undrain": lambda cluster, what: cluster.undrain([what]),
    "release": lambda cluster, what: cluster.release([what]),
}


def act(cluster: Cluster, verb: str, what: str) -> None:
    """Do what was asked for. Raises UsageError: no such verb. LauncherError: see `Cluster`."""
    if verb not in _VERBS or not what:
        raise UsageError(f"`{verb}` is nothing that can be done to `{what}`", f"one of: {', '.join(_VERBS)}")
    _VERBS[verb](cluster, what)


def graph(cluster: Cluster, job: str, stage: str) -> dict[str, Any]:
    """Show a stage of a job's graph.

    Raises:
        Conflict: there is none, or it is too large for a page. UsageError: no such stage.
    """
    if stage == "all":
        raise UsageError("a page shows one stage of a graph", "name it, such as: partitioned")
    found = cluster.graph(job, GraphView(stage=stage, form="nodes"))
    (nodes,) = found["nodes"].values()
    if len(nodes) > MOST_NODES:
        raise Conflict(
            f"the graph has {len(nodes)} nodes, more than a page shows", f"look with: dtfctl graph {job} --scope NAME"
        )
    return {**found, "nodes": nodes, "transfers": found["transfers"][stage]}


def picture(cluster: Cluster, job: str) -> dict[str, Any]:
    """Give what of a job takes a picture: the graph that a client in the page asks, its input and output.

    Raises:
        Conflict: it takes none, or no task has its graph. UsageError: no job is named.
    """
    if not job:
        raise UsageError("a picture is shown to the model of one job", "name it")
    found: dict[str, Any] = cluster.graph(job, GraphView(form="picture"))["picture"]
    return found


_RECORDING = threading.Lock()


def profile(cluster: Cluster, job: str) -> dict[str, Any]:
    """Record some steps: the summary, and bars for a timeline. Raises Conflict: see `Cluster.profile`."""
    if not _RECORDING.acquire(blocking=False):
        raise Conflict("another timeline is being recorded", "wait for its end")
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "steps.json"
            summary = cluster.profile(job, file=file, steps=PROFILE_STEPS, seconds=PROFILE_S, format="chrome")
            lines = json.loads(file.read_text())["traceEvents"]
    finally:
        _RECORDING.release()
    bars = [line for line in lines if line["ph"] == "X"]
    # The longest say most, where there is not room for all.
    bars.sort(key=lambda bar: -bar["dur"])
    kept = sorted(bars[:MOST_BARS], key=lambda bar: bar["ts"])
    return {
        "summary": summary,
        "tasks": {line["pid"]: line["args"]["name"] for line in lines if line["ph"] == "M"},
        "bars": [
            [
                b["pid"],
                b["tid"],
                b["ts"],
                b["dur"],
                b["cat"],
                b["name"],
                b["args"].get("about", ""),
                b["args"].get("bytes", 0),
            ]
            for b in kept
        ],
        "left_out": len(bars) - len(kept),
    }
