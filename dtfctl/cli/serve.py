"""`serve`: a model answered for by tasks of the cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from dtfctl.cli import _complete as complete
from dtfctl.cli._command import Session, command
from dtfctl.cli._select import seconds

WILD = ("0.0.0.0", "::", "[::]")


@command(
    examples=[
        "dtfctl serve exported/mlp",
        "dtfctl serve --name ranker --port 8501 --grpc-port 8500 exported/mlp",
        "dtfctl serve --listen 0.0.0.0 --port 8501 exported/mlp",
        "dtfctl serve --versions latest:2 --workers 2 exported/mlp",
        "dtfctl serve --inputs x --outputs probabilities=softmax frozen.pb",
        "dtfctl serve --inputs x --outputs y checkpoints",
    ],
    exits=[0, 1, 2, 4, 7, 8],
)
def serve(
    session: Session,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A SavedModel, a frozen graph (.pb), a checkpoint, or a folder of versions 1, 2, ... of these.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="What clients call it; the path's last part by default.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="The port of REST; 0 for a free one.")
    ] = 0,
    grpc_port: Annotated[
        int, typer.Option("--grpc-port", metavar="N", min=0, max=65535, help="The port of gRPC; 0 for a free one.")
    ] = 0,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="ADDRESS", help="Listen there, by TLS, to clients with a certificate."),
    ] = "",
    versions: Annotated[
        str, typer.Option("--versions", metavar="WHICH", help="latest, latest:2, all, or numbers: 3,5.")
    ] = "latest",
    inputs: Annotated[
        list[str] | None,
        typer.Option("--inputs", metavar="TENSOR", help="Of a graph without signatures; NAME=TENSOR names it."),
    ] = None,
    outputs: Annotated[
        list[str] | None, typer.Option("--outputs", metavar="TENSOR", help="As --inputs; each may be repeated.")
    ] = None,
    tags: Annotated[
        str, typer.Option("--tags", metavar="TAGS", help="Of the graph of a SavedModel that is meant.")
    ] = "serve",
    max_batch: Annotated[
        int, typer.Option("--max-batch", metavar="N", min=1, help="Examples that are computed together at most.")
    ] = 64,
    request_timeout: Annotated[
        str, typer.Option("--request-timeout", metavar="TIME", help="The longest that a request may take.")
    ] = "30s",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Take N free workers instead of all tasks.")
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Option("--tasks", metavar="SEL", help="Take these: worker/0-3.", autocompletion=complete.tasks),
    ] = None,
    share: Annotated[bool, typer.Option("--share", help="Run on tasks that other jobs with --share have too.")] = False,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", help="Higher goes first; equals in the order of submission.")
    ] = 0,
) -> int:
    """Serve a model by TensorFlow Serving's REST and gRPC APIs; return when it answers.

    A job of the cluster has it in the memory of each of its tasks and answers from one of their hosts, until `dtfctl
    cancel`. What is asked of a task that dies is asked of another, or of itself when it is back. New versions that
    appear in MODEL are loaded, warmed up, and take over without a gap.

    It listens on loopback, to your own processes that say the token in the file that is printed. With --listen it
    listens on the network, by TLS, and asks for a certificate, which lies in the folder that is printed. MODEL is a
    path on this machine where all hosts are this one or share its folder, and else one that they have.

    See docs/serving.md.
    """
    from dtfctl.launcher.operator.serving import ServeRequest

    screen = session.screen
    cluster = session.open()
    request = ServeRequest(
        model=model,
        name=name,
        port=port,
        grpc_port=grpc_port,
        listen=listen,
        versions=versions,
        inputs=tuple(inputs or ()),
        outputs=tuple(outputs or ()),
        tags=tags,
        most_rows=max_batch,
        request_timeout_s=seconds(request_timeout, "--request-timeout"),
        workers=workers,
        tasks=tasks,
        share=share,
        priority=priority,
    )
    served = cluster.serve(request, screen.note)
    at = served.at
    where = "127.0.0.1" if not served.certificates else at.host if listen in WILD else listen
    url = f"{'https' if served.certificates else 'http'}://{where}:{at.rest}/v1/models/{at.model}"
    if screen.is_data:
        screen.data(
            "ServedModel",
            {
                "cluster": cluster.name,
                "job": served.job,
                "model": at.model,
                "url": url,
                "grpc": f"{where}:{at.grpc}",
                "host": at.host,
                "token_file": served.token_file or None,
                "certificates": served.certificates or None,
                "server_name": served.server_name or None,
                "versions": list(at.versions),
                "tasks": list(at.tasks),
            },
        )
        return 0
    numbers = ", ".join(map(str, at.versions))
    screen.print(f"{at.model} is served by {served.job} on {', '.join(at.tasks)}: version {numbers}")
    screen.print(f"  REST   {url}:predict")
    screen.print(f"  gRPC   {where}:{at.grpc}")
    if served.certificates:
        folder = served.certificates
        screen.print(f"  TLS    {folder}: ca.pem, serve-client.pem, serve-client.key; it is {served.server_name}")
        known = f"--cacert {folder}/ca.pem --cert {folder}/serve-client.pem --key {folder}/serve-client.key"
        named = f"https://{served.server_name}:{at.rest}/v1/models/{at.model}"
        screen.next(f"curl {known} --connect-to ::{where}:{at.rest} {named}/metadata")
        return 0
    screen.print(f"  token  {served.token_file}")
    screen.next(f'curl -H "Authorization: Bearer $(cat {served.token_file})" {url}/metadata')
    return 0
