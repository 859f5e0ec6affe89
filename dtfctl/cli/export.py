"""`export`: what other systems need to run a cluster of a spec file."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from dtfctl.cli._command import Session, command

TARGETS = ("k8s",)


@command(
    examples=[
        "dtfctl export k8s cluster.yaml --image registry.example.org/dtfctl:1 | kubectl apply -f -",
        "dtfctl export k8s cluster.yaml --image dtfctl:1 --hosts 4 --namespace vision",
    ],
    exits=[0, 2],
)
def export(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="k8s: manifests for Kubernetes.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The spec file.")],
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="Has dtfctl, sshd, and a user dtfctl with the id 1000.")
    ],
    hosts: Annotated[
        int | None, typer.Option("--hosts", min=1, metavar="N", help="Pods that are hosts; as many as FILE has.")
    ] = None,
    namespace: Annotated[str | None, typer.Option("--namespace", metavar="NAME", help="Where they go.")] = None,
    secret: Annotated[
        str | None, typer.Option("--secret", metavar="NAME", help="The Secret of the keys; CLUSTER-ssh by default.")
    ] = None,
    disk: Annotated[str, typer.Option("--disk", metavar="SIZE", help="Disk of each pod.")] = "20Gi",
) -> None:
    """Write manifests with which the cluster of a spec file runs on Kubernetes, to stdout; nothing is started.

    Pods of a StatefulSet are the hosts, one more runs the controller, which logs in to them. Keys come from a Secret
    that the manifests only name; the head of what is written says how it is made.
    """
    from dtfctl.launcher.errors import UsageError
    from dtfctl.launcher.operator.kubernetes import Wanted, as_text, manifests
    from dtfctl.launcher.spec import load_spec

    if target not in TARGETS:
        raise UsageError(f"`{target}` is nothing to export to", f"Expected {' or '.join(TARGETS)}.")
    spec = load_spec(file, os.environ, for_up=True)
    wanted = Wanted(image, namespace, secret, disk, hosts)
    if session.screen.is_data:
        session.screen.data("Manifests", {"manifests": manifests(spec, wanted)})
    else:
        session.screen.print(as_text(spec, wanted))
