"""What a cluster has by name, for words that a shell completes.

It starts nothing, changes nothing and logs in nowhere: it asks a controller that can be called from here as it is, for
a moment, and reads what is on this disk where none answers.
"""

from __future__ import annotations

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages import codec, controller_calls
from dtfctl.launcher.messages.controller import StatusRequest
from dtfctl.launcher.model import ClusterStatus
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.remote_controller import Place
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.rpc.client import Channel
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.values import value

WITHIN_S = 1.0


@value
class Names:
    """The names of one cluster."""

    tasks: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    """The newest first."""
    active: tuple[str, ...] = ()
    """The jobs that have not ended."""


def names_of(cluster: str | None) -> Names:
    """List the names in the cluster called so, or in the newest.

    Raises:
        NoSuchCluster: it is not up. OSError, ValueError: what is on the disk cannot be read.
    """
    paths = controller_client.resolve(cluster)
    status = status_of(paths)
    if status is not None:
        return Names(
            tasks=tuple(task.name for task in status.tasks),
            hosts=tuple(host.name for host in status.hosts),
            jobs=tuple(job.id for job in status.jobs),
            active=tuple(job.id for job in status.jobs if not job.is_final),
        )
    if paths.controller_place.exists():
        return Names(hosts=tuple(host.name for host in codec.decode(Place, paths.controller_place.read_bytes()).hosts))
    if paths.spec.exists():
        spec = codec.decode(ClusterSpec, paths.spec.read_bytes())
        return Names(tasks=tuple(spec.task_names), hosts=tuple(host.name for host in spec.hosts))
    return Names()


def status_of(paths: ClusterPaths) -> ClusterStatus | None:
    """Ask a controller that is at hand; None where there is none, or it does not answer at once."""
    controller = controller_client.controller_of(paths)
    try:
        address = controller.at_hand()
        if address is None:
            return None
        channel = Channel(address, TlsFiles.of(paths.certificates, "cli"), "controller", paths.name)
        try:
            return channel.call(controller_calls.STATUS, StatusRequest(), timeout_s=WITHIN_S).status
        finally:
            channel.close()
    except LauncherError:
        return None
    finally:
        controller.close()
