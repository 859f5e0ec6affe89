"""The program of the job that serves: it loads the model onto the job's tasks and answers clients."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtfctl.durable import whole_file
from dtfctl.errors import DtfctlError
from dtfctl.net.descriptors import raise_limit
from dtfctl.runtime.train.progress import report
from dtfctl.runtime.train.server_lib import TARGET_VARIABLE
from dtfctl.serve.batching import LOST
from dtfctl.serve.calls import GrpcServer
from dtfctl.serve.door import Door, identity_of
from dtfctl.serve.figures import Figures
from dtfctl.serve.loading import Names
from dtfctl.serve.model import Model
from dtfctl.serve.routes import Routes
from dtfctl.serve.sources import Policy, Source
from dtfctl.serve.versions import Version
from dtfctl.serve.web import WebServer
from dtfctl.serving import CERTIFICATES, TOKEN, Announcement

log = logging.getLogger("dtfctl.serve")

PORTS_FILE = "ports.json"
REPORT_S = 2.0
GRACE_S = 5.0
LOADS = 30
LOAD_S = 1.0
"""How often, and after how long, loading is tried again at the start where tasks go away meanwhile."""


def main(arguments: Sequence[str]) -> int:
    """Serve until SIGTERM; 1 where there is nothing that could be served."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s", stream=sys.stderr)
    logging.getLogger("dtfctl.serve").setLevel(logging.INFO)
    raise_limit()
    token, certificates = os.environ.pop(TOKEN, ""), os.environ.pop(CERTIFICATES, "")
    if len(token) < 16 and not certificates:
        print(f"no token to ask of clients: {TOKEN} has to be set, to 16 characters or more", file=sys.stderr)
        return 2
    if bool(options.listen) != bool(certificates):
        print(f"--listen and {CERTIFICATES} go together", file=sys.stderr)
        return 2
    door = Door(options.listen, identity=identity_of(certificates)) if certificates else Door(token=token)
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    try:
        return _serve(options, door, stopped)
    except (DtfctlError, OSError, ValueError, KeyError) as error:  # the last two of a graph that cannot be read
        print(f"{options.model} is not served: {error}", file=sys.stderr)
        return 1


def _parse(arguments: Sequence[str]) -> Any:
    parser = argparse.ArgumentParser(prog="serve_model", description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--name", required=True)
    parser.add_argument("--listen", default="")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--grpc-port", type=int, default=0)
    parser.add_argument("--versions", default="latest")
    parser.add_argument("--inputs", action="append", default=[])
    parser.add_argument("--outputs", action="append", default=[])
    parser.add_argument("--tags", default="serve")
    parser.add_argument("--max-batch", type=int, default=64)
    parser.add_argument("--request-timeout", type=float, default=30.0)
    return parser.parse_args(arguments)


def _tasks() -> list[str]:
    """Name the devices of the tasks that compute; this process where there is no cluster."""
    cluster = json.loads(os.environ.get("DTF_CLUSTER", "{}"))
    return [
        f"/job:{job}/task:{index}" for job in ("chief", "worker") for index in range(len(cluster.get(job, [])))
    ] or [""]


def _serve(options: Any, door: Door, stopped: threading.Event) -> int:
    target, tasks = os.environ.get(TARGET_VARIABLE, ""), _tasks()
    names = Names(tuple(options.inputs), tuple(options.outputs), tuple(options.tags.split(",")))

    def load(source: Source) -> Version:
        return Version(source, names, target, tasks, options.max_batch)

    model = Model(options.name, options.model, Policy.parse(options.versions), load, _settle)
    figures = Figures()
    with contextlib.ExitStack() as stack:
        stack.callback(model.close)
        _start(model, stopped)
        if stopped.is_set():
            return 0
        former = _former_ports()
        web = _listen(
            lambda port: WebServer(Routes(model, figures, options.request_timeout).answer, door, port),
            options.port,
            former[0],
        )
        stack.callback(web.close)
        grpc = _listen(
            lambda port: GrpcServer(model, figures, door, options.request_timeout, port), options.grpc_port, former[1]
        )
        stack.callback(grpc.stop, GRACE_S)
        _note_ports(web.port, grpc.port)
        web.start()
        grpc.start()
        said = Announcement(
            options.name,
            socket.gethostname(),
            web.port,
            grpc.port,
            tuple(sorted(model.versions)),
            tuple(task.strip("/").replace("job:", "").replace("task:", "") for task in tasks),
        )
        print(said.line(), flush=True)
        said_before: tuple[int, int] | None = None
        while not stopped.wait(REPORT_S):
            done = work_done(model, figures)
            if done != said_before:
                said_before = done
                report(*done)
    return 0


def _settle() -> None:
    """Keep what is there now from the cycle collector.

    The lists of requests that are read at once get old as the collector counts, and Python walks all of a runtime and
    its graphs for them every few dozen requests: 40 ms, for which all others wait.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def work_done(model: Model, figures: Figures) -> tuple[int, int]:
    """Count the requests that were answered, and with them those that wait for a task.

    Who has answered all is done, and not taken for a job that gets no further, however long nobody asks.
    """
    answered = figures.answered
    return answered, answered + sum(version.waiting for version in model.versions.values())


def _start(model: Model, stopped: threading.Event) -> None:
    for left in reversed(range(LOADS)):
        try:
            model.start()
            return
        except LOST as error:
            if not left or stopped.wait(LOAD_S):
                raise
            log.warning("the model cannot be loaded yet: %s", error)


def _listen(make: Any, wanted: int, former: int) -> Any:
    """Listen at the port that was asked for; else where this job listened before it was started again."""
    if wanted or not former:
        return make(wanted)
    try:
        return make(former)
    except OSError:
        return make(0)


def _ports_path() -> Path | None:
    folder = os.environ.get("DTF_CHECKPOINT_DIR")
    return Path(folder, PORTS_FILE) if folder else None


def _former_ports() -> tuple[int, int]:
    path = _ports_path()
    try:
        found = json.loads(path.read_text()) if path is not None else {}
        return int(found.get("rest", 0)), int(found.get("grpc", 0))
    except (OSError, ValueError):
        return 0, 0


def _note_ports(rest: int, grpc: int) -> None:
    path = _ports_path()
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as out:
            out.write(json.dumps({"rest": rest, "grpc": grpc}).encode())
