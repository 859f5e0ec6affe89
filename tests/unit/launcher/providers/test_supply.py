"""Who brings layers to a host, and how much room for them it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.bundle import Bundle, Bundles, Layer, Platform
from dtfctl.launcher.providers.conversation import Conversation
from dtfctl.launcher.providers.packing import Archive
from dtfctl.launcher.providers.supply import Supply

MIB = 2**20
LAYER = Layer("core", "c1", ())
ARCHIVE = Archive(Path("core.layer"), "ab", 40 * MIB, 100 * MIB)


class Packed:
    """The archives of this machine: one of 40 MiB, 100 MiB unpacked."""

    def archive(self, platform: Platform, layer: Layer, tell: Callable[[str], None]) -> Archive:
        return ARCHIVE

    def layer(self, hash: str) -> Layer:
        return LAYER


class Host:
    """A host's end of the conversation, which does all it is asked and remembers what that was."""

    def __init__(self, free: int) -> None:
        self.is_open, self.offers = True, 0
        self.free = free
        self.asked: list[tuple[str, object]] = []

    async def facts(self) -> dict[str, Any]:
        return {"free_bytes": self.free, "base": "/home/me/.dtfctl", "address": "10.0.0.1"}

    async def ask(self, request: dict[str, Any], *_: object) -> dict[str, Any]:
        self.asked.append((request["do"], request.get("keep")))
        return {"port": 7, "archive": "incoming"}

    async def upload(self, path: Path, base: str, share: Callable[[float], None]) -> str:
        self.asked.append(("upload", None))
        return "incoming"


def bring(hosts: int, *receivers: Host) -> None:
    """Bring the layer to hosts of a cluster of so many, one after the other."""

    async def work() -> None:
        supply = Supply(cast(Bundles, Packed()))
        supply.hosts = hosts
        for number, host in enumerate(receivers):
            await supply.provide(
                f"h{number}",
                cast(Conversation, host),
                cast(Platform, None),
                cast(Bundle, Packed()),
                ["c1"],
                lambda _: None,
            )

    asyncio.run(work())


def test_who_keeps_no_archive_needs_no_room_for_one() -> None:
    first, tight = Host(10**12), Host(100 * MIB)
    bring(3, first, tight)
    assert [do for do, _ in first.asked] == ["upload", "offer", "unpack_layer"]
    assert tight.asked == [("take_layer", False)], "from the first, and unpacked on its way"


def test_an_archive_that_is_sent_from_here_counts() -> None:
    with pytest.raises(HostFailed, match=r"no space: core needs 140 MiB, 139 MiB are free below /home/me/.dtfctl"):
        bring(1, Host(139 * MIB))
    bring(1, Host(140 * MIB))


def test_where_the_layer_itself_has_no_room_nothing_is_sent() -> None:
    first, tight = Host(10**12), Host(99 * MIB)
    with pytest.raises(HostFailed, match="core needs 100 MiB, 99 MiB are free"):
        bring(3, first, tight)
    assert tight.asked == []
