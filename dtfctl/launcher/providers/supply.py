"""How layers get to hosts: over SSH to the first ones, which hand them on to the others.

This machine's line is the narrow place, so few uploads go over it at a time, and each host that has the layers offers
them to a few more (`host_offers.py`). A host that reaches no other, or waits for a slow one, gets them from here. Once
enough hosts hand layers on, the others unpack them as they come and keep no archive.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.providers.bundle import Bundle, Bundles, Layer, Platform
from dtfctl.launcher.providers.conversation import ASK_S, Conversation
from dtfctl.launcher.providers.packing import Archive

log = logging.getLogger(__name__)

OWN_UPLOADS = 2
"""The most uploads from this machine at a time, but where those are slow."""
MOST_UPLOADS = 4
PATIENCE_S = 3.0
"""Who has waited for so long looks whether it is worth it, and is uploaded to beside the others where none of them will
have finished within `SLOW_S`."""
SLOW_S = 20.0
OFFERS = 4
"""Hosts that one host hands layers on to."""
REFUSALS = 2
"""The refusals after which a host asks no other: so many could not be reached from it."""
UNPACK_S = 900.0
TAKE_S = 900.0


@dataclass(slots=True)
class _Offer:
    host: str
    conversation: Conversation
    address: str
    port: int
    layers: frozenset[str]
    tokens: list[str] = field(default_factory=list)

    def serves(self, layers: Collection[str]) -> bool:
        return self.conversation.is_open and self.layers.issuperset(layers) and len(self.tokens) >= len(layers)


@dataclass(slots=True)
class _Upload:
    begun: float
    share: float = 0.0

    def left_s(self, now: float) -> float:
        """Estimate the seconds until the upload ends, as far as it has got."""
        return (now - self.begun) * (1 - self.share) / self.share if self.share else float("inf")


class _Spoilt(Exception):
    """What a host has handed on is not what it should be."""

    def __init__(self, giver: str, why: str) -> None:
        super().__init__(why)
        self.giver = giver


@contextmanager
def _spoils(giver: str) -> Iterator[None]:
    """Raise `_Spoilt` for what came from another host and cannot be unpacked."""
    try:
        yield
    except HostFailed as error:
        if giver and error.cause == "install":
            raise _Spoilt(giver, error.message) from None
        raise


class Supply:
    """The supply of all hosts of a cluster; runs in one event loop."""

    def __init__(self, bundles: Bundles) -> None:
        self._bundles = bundles
        self._offers: list[_Offer] = []
        self._uploads: list[_Upload] = []
        self._news = asyncio.Condition()
        self._begun: dict[frozenset[str], set[str]] = {}
        """By what is brought, the hosts to which that has begun."""
        self._growing: dict[str, frozenset[str]] = {}
        """By host, what it will hand on when it has got it."""
        self.hosts = 1
        """How many there are in the cluster."""

    async def provide(
        self,
        host: str,
        conversation: Conversation,
        platform: Platform,
        bundle: Bundle,
        wanted: Sequence[str],
        tell: Callable[[str], None],
    ) -> None:
        """Bring layers to a host.

        Raises:
            HostFailed: they cannot be packed, sent or unpacked.
        """
        layers = [bundle.layer(hash) for hash in wanted]
        archives = await self._packed(platform, layers, tell)
        facts = await conversation.facts()
        total = sum(archive.size for archive in archives.values())
        what = " and ".join(layer.name for layer in layers)
        _look_for_space(what, archives, facts, kept=False)
        tell(f"{what} ({mib(total)})")
        alone, left = False, dict(archives)
        while left:
            try:
                await self._bring(host, conversation, left, facts, alone, f"{what} ({mib(total)})", tell)
            except _Spoilt as spoilt:
                log.warning("%s: %s; it came from %s and is sent again from here", host, spoilt, spoilt.giver)
                self._offers = [offer for offer in self._offers if offer.host not in (host, spoilt.giver)]
                alone = True

    async def _packed(
        self, platform: Platform, layers: Sequence[Layer], tell: Callable[[str], None]
    ) -> dict[str, Archive]:
        loop = asyncio.get_running_loop()

        def told(text: str) -> None:
            loop.call_soon_threadsafe(tell, text)

        made = await asyncio.gather(
            *(asyncio.to_thread(self._bundles.archive, platform, layer, told) for layer in layers)
        )
        return {layer.hash: archive for layer, archive in zip(layers, made, strict=True)}

    async def _bring(
        self,
        host: str,
        conversation: Conversation,
        left: dict[str, Archive],
        facts: dict[str, Any],
        alone: bool,
        what: str,
        tell: Callable[[str], None],
    ) -> None:
        """Bring archives to a host, from another one or from here; what is unpacked there is no longer `left`.

        Args:
            alone: from here only.

        Raises:
            _Spoilt: what another host has handed on is not what it should be.
        """
        refused: set[str] = set()
        hands_on = self._is_to_hand_on(host, left) and _needed(left, kept=True) <= facts["free_bytes"]
        if hands_on:
            self._growing[host] = frozenset(left)
        try:
            while True:
                only_here = alone or len(refused) >= REFUSALS
                async with self._source(
                    left, refused, only_here, lambda: tell(f"{what}: waits until another host has it")
                ) as (offer, tokens):
                    if isinstance(offer, _Upload):
                        giver = ""
                        _look_for_space(what.partition(" (")[0], left, facts, kept=True)
                        paths = await self._upload(conversation, left, facts["base"], offer, what, tell)
                    else:
                        giver = offer.host
                        paths = await self._take(conversation, offer, tokens, left, hands_on, what, tell)
                    # Settled before the next is sent to, which would else be from here.
                    keep = hands_on and paths.keys() == left.keys()
                    keep = keep and await self._offer(host, conversation, paths, facts["address"])
                    self._growing.pop(host, None)
                await self._unpack(conversation, giver, paths, left, keep)
                if not left:
                    return
                refused.add(giver)
        finally:
            self._growing.pop(host, None)

    async def _unpack(
        self, conversation: Conversation, giver: str, paths: dict[str, str], left: dict[str, Archive], keep: bool
    ) -> None:
        """Unpack what lies on a host."""
        for hash, path in paths.items():
            asked = {"do": "unpack_layer", "archive": path, "name": hash, "keep": keep}
            with _spoils(giver):
                await conversation.ask({**asked, "sha256": left[hash].sha256}, UNPACK_S)
            del left[hash]

    async def _take(
        self,
        conversation: Conversation,
        offer: _Offer,
        tokens: list[str],
        left: dict[str, Archive],
        keep: bool,
        what: str,
        tell: Callable[[str], None],
    ) -> dict[str, str]:
        """Take from another host what it has for one, until it refuses: where that lies.

        Args:
            keep: to hand it on. Else it is unpacked on its way, and no longer `left`.
        """
        tell(f"{what} from {offer.host}")
        taken: dict[str, str] = {}
        for token, (hash, archive) in zip(tokens, list(left.items()), strict=True):
            asked = {"do": "take_layer", "name": hash, "size": archive.size, "token": token, "sha256": archive.sha256}
            with _spoils(offer.host):
                reply = await conversation.ask(
                    {**asked, "address": offer.address, "port": offer.port, "keep": keep},
                    TAKE_S,
                    lambda _, detail: tell(f"{what} from {offer.host}, {detail}"),
                )
            if "refused" in reply:
                log.info("nothing comes from %s: %s", offer.host, reply["refused"])
                break
            if keep:
                taken[hash] = reply["archive"]
            else:
                del left[hash]
        return taken

    async def _upload(
        self,
        conversation: Conversation,
        archives: dict[str, Archive],
        base: str,
        upload: _Upload,
        what: str,
        tell: Callable[[str], None],
    ) -> dict[str, str]:
        total, before, told = sum(archive.size for archive in archives.values()), 0, 0
        paths = {}
        for hash, archive in archives.items():

            def share(part: float, at: int = before, size: int = archive.size) -> None:
                nonlocal told
                upload.share = (at + part * size) / total
                percent = int(100 * upload.share)
                if percent >= told + 5:
                    told = percent
                    tell(f"{what.removesuffix(')')}, {percent}%)")

            paths[hash] = await conversation.upload(archive.path, base, share)
            before += archive.size
        return paths

    @asynccontextmanager
    async def _source(
        self, wanted: Collection[str], refused: set[str], only_here: bool, on_wait: Callable[[], None]
    ) -> AsyncIterator[tuple[_Offer | _Upload, list[str]]]:
        """Choose who it comes from, when that has time: another host, with tokens for it, or this machine."""
        loop = asyncio.get_running_loop()
        begun, has_waited, tokens = loop.time(), False, []
        async with self._news:
            while True:
                now = loop.time()
                offer = None if only_here else self._best(wanted, refused)
                may = OWN_UPLOADS
                if now - begun >= PATIENCE_S and all(upload.left_s(now) > SLOW_S for upload in self._uploads):
                    may = MOST_UPLOADS
                if offer is None and len(self._uploads) < may:
                    self._uploads.append(upload := _Upload(now))
                    break
                if offer is not None:
                    offer.conversation.offers += 1
                    tokens = [offer.tokens.pop() for _ in wanted]
                    break
                if not has_waited:
                    has_waited = True
                    on_wait()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), PATIENCE_S)
        try:
            yield offer or upload, tokens
        finally:
            if offer is None:
                self._uploads.remove(upload)
            else:
                offer.conversation.offers -= 1
            async with self._news:
                self._news.notify_all()

    def _is_to_hand_on(self, host: str, wanted: Collection[str]) -> bool:
        """Tell whether those that hand layers on are too few, with one to spare, for the hosts that still need them."""
        if self.hosts <= OWN_UPLOADS:
            return False
        begun = self._begun.setdefault(frozenset(wanted), set())
        begun.add(host)
        self._offers = [offer for offer in self._offers if offer.conversation.is_open and offer.tokens]
        places = sum(len(offer.tokens) // len(wanted) for offer in self._offers if offer.layers.issuperset(wanted))
        places += OFFERS * sum(layers.issuperset(wanted) for layers in self._growing.values())
        return self.hosts - len(begun) > max(0, places - OFFERS)

    def _best(self, wanted: Collection[str], refused: set[str]) -> _Offer | None:
        self._offers = [offer for offer in self._offers if offer.conversation.is_open and offer.tokens]
        able = [offer for offer in self._offers if offer.serves(wanted) and offer.host not in refused]
        return min(able, key=lambda offer: offer.conversation.offers, default=None)

    async def _offer(self, host: str, conversation: Conversation, paths: dict[str, str], address: str) -> bool:
        """Let a host hand on what it has got; whether it does."""
        if not address:
            return False
        tokens = [secrets.token_hex(32) for _ in range(OFFERS * len(paths))]
        try:
            reply = await conversation.ask({"do": "offer", "files": paths, "tokens": tokens, "address": address}, ASK_S)
        except HostFailed as error:
            log.info("%s hands nothing on: %s", host, error.message)
            if not conversation.is_open:
                raise
            return False
        if "refused" in reply:
            log.info("%s hands nothing on: %s", host, reply["refused"])
            return False
        async with self._news:
            self._offers.append(_Offer(host, conversation, address, reply["port"], frozenset(paths), tokens))
            self._news.notify_all()
        return True


def _needed(archives: Mapping[str, Archive], *, kept: bool) -> int:
    """Count the bytes that archives take on a host, with the archives themselves if these lie there, too."""
    return sum(archive.unpacked + (archive.size if kept else 0) for archive in archives.values())


def _look_for_space(what: str, archives: Mapping[str, Archive], facts: Mapping[str, Any], *, kept: bool) -> None:
    """Raise HostFailed where there is too little of it."""
    needed, free = _needed(archives, kept=kept), facts["free_bytes"]
    if needed > free:
        raise HostFailed("disk", f"no space: {what} needs {mib(needed)}, {mib(free)} are free below {facts['base']}")


def mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"
