"""The command `connect`: a port for TensorFlow's own client."""

from __future__ import annotations

import sys
from typing import Annotated, Optional

import typer

from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command


@command(
    examples=[
        "dtfctl connect",
        "dtfctl connect demo --task worker/1 --port 2222",
        "dtfctl connect -o json",
    ],
    exits=[0, 2, 4, 7, 8],
)
def connect(
    session: Session,
    which: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[CLUSTER]", help="The cluster; as -c.", autocompletion=complete.cluster),
    ] = None,
    task: Annotated[
        str,
        typer.Option("--task", metavar="TASK", help="The task whose master to reach.", autocompletion=complete.task),
    ] = "worker/0",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port to open; 0 for a free one.")
    ] = 0,
) -> int:
    """Open a port on this machine through which TensorFlow's own client uses the cluster.

    Prints its target, `grpc://127.0.0.1:PORT`, as the first line, for `tf.compat.v1.Session(target)`, and serves until
    Ctrl-C. Only your own processes (and root's) are served there; what goes on from there is encrypted and
    authenticated. When the task is started again, the port leads to it again; when the cluster is taken down, the
    command ends.
    """
    screen = session.screen
    opened = session.api.Cluster.open(which or session.cluster_name)
    with opened.connect(task, port=port) as tunnel:
        if screen.is_data:
            screen.record("Connection", {"target": tunnel.target})
        else:
            screen.print(tunnel.target)
            sys.stdout.flush()
            screen.note(f"leads to {tunnel.task} of {opened.name} until Ctrl-C")
        try:
            tunnel.serve()
        except KeyboardInterrupt:
            return 0
    return 0
