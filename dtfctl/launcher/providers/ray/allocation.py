"""The placement group of a cluster: asked for, noted in the cluster's folder, given back.

Its name is noted before Ray is asked, so that it is found where the answer was lost.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages import codec
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.ray.client import Bridge
from dtfctl.launcher.spec.lent import Ray
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.values import value

T = TypeVar("T")


@value
class Group:
    """Which placement group lends the hosts."""

    name: str
    ray: Ray
    """What was asked for, and where Ray is."""


def bundle_of(ray: Ray) -> dict[str, float]:
    """Write what a host asks for, as Ray counts it.

    >>> bundle_of(Ray(cpus=2.0, gpus=1))
    {'CPU': 2.0, 'GPU': 1.0}
    """
    asked = {"CPU": ray.cpus, "GPU": float(ray.gpus), "memory": float(ray.memory or 0), **ray.resources}
    return {name: much for name, much in asked.items() if much} or {"CPU": 0.001}


def read(paths: ClusterPaths) -> Group | None:
    """Read which one it is; None: there is none."""
    try:
        return codec.decode(Group, paths.allocation.read_bytes())
    except FileNotFoundError:
        return None


def acquire(paths: ClusterPaths, ray: Ray) -> None:
    """Keep the placement group that there is, or ask for one.

    Raises:
        ClusterFailed, RaySilent: there is no Ray, or it refuses.
    """
    known = read(paths)

    async def ask(bridge: Bridge) -> None:
        nonlocal known
        if known is not None:
            found = await bridge.ask("look", name=known.name, count=0, least=0, bundle=bundle_of(ray))
            if found["state"] != "REMOVED":
                return
        known = Group(f"dtfctl-{paths.name}-{secrets.token_hex(4)}", ray)
        private_folder(paths.folder)
        write_whole(paths.allocation, codec.encode(known).encode())
        await bridge.ask("acquire", name=known.name, count=ray.min or ray.hosts, bundle=bundle_of(ray))

    try:
        _once(ray, ask)
    except LauncherError:
        if known is not None and not paths.database.exists():
            paths.allocation.unlink(missing_ok=True)
        raise


def release(paths: ClusterPaths) -> bool:
    """Give the hosts back, with all that runs there, and forget it; whether there were any.

    Raises:
        ClusterFailed, RaySilent: Ray cannot be asked; it is still noted.
    """
    known = read(paths)
    if known is None:
        return False
    group = known

    async def ask(bridge: Bridge) -> None:
        await bridge.ask("release", name=group.name, count=group.ray.hosts)

    _once(group.ray, ask)
    paths.allocation.unlink(missing_ok=True)
    return True


def _once(ray: Ray, ask: Callable[[Bridge], Awaitable[T]]) -> T:
    """Speak with Ray once."""

    async def speak() -> T:
        bridge = await Bridge.begin(ray)
        try:
            return await ask(bridge)
        finally:
            await bridge.end()

    return asyncio.run(speak())
