"""Who lends hosts, as `up` and `down` need it: to ask for them, and to give them back where no controller can."""

from __future__ import annotations

import json

from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import LENDERS, ClusterSpec


def acquire(paths: ClusterPaths, spec: ClusterSpec) -> None:
    """See to it that somebody lends the hosts, where the spec says who.

    Raises:
        LauncherError: they refuse, or cannot be asked.
    """
    if spec.provider not in LENDERS:
        return
    if spec.provider == "ray":
        from dtfctl.launcher.providers.ray import allocation as group

        group.acquire(paths, spec.ray)
    else:
        from dtfctl.launcher.providers.slurm import allocation

        allocation.acquire(paths, spec)


def release(paths: ClusterPaths) -> None:
    """Give back what lends the hosts, as the cluster's folder has it noted.

    Raises:
        LauncherError: who lends them cannot be asked; it is still noted.
    """
    if not paths.allocation.exists():
        return
    if "ray" in json.loads(paths.allocation.read_bytes()):
        from dtfctl.launcher.providers.ray import allocation as group

        group.release(paths)
    else:
        from dtfctl.launcher.providers.slurm import allocation

        allocation.release(paths)
