"""The files of jobs (folders, wheels) lie on two hosts beside the controller's machine, which may be lost.

A controller that has not got them, because it begins anew or on another machine, takes them back from where they are.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from dtfctl import guard
from dtfctl.launcher.controller.hosts.agent_link import AgentLink
from dtfctl.launcher.controller.hosts.host import Host
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.errors import LauncherError, NotFound
from dtfctl.launcher.messages.agent_calls import GET_BLOB, PUT_BLOB
from dtfctl.launcher.messages.files import BlobPiece
from dtfctl.launcher.system.mailbox import Mailbox
from dtfctl.launcher.transfer.blobs import Blobs, deliver

log = logging.getLogger(__name__)

COPIES = 2
PIECE_S = 60.0
AGAIN_S = 2.0
LOOK_S = 600.0
"""A host may have deleted what an idle job needs."""


class JobFiles:
    """Owned by the controller's loop."""

    def __init__(self, desired_state: DesiredState, mailbox: Mailbox, hosts: Mapping[str, Host], blobs: Blobs) -> None:
        self._desired_state = desired_state
        self._mailbox = mailbox
        self._hosts = hosts
        self._blobs = blobs
        self._works = False
        self._known: object = None
        self._due_at = 0.0
        self._away: frozenset[str] = frozenset()
        """Of those that are needed, what is not here."""
        self._lost: frozenset[str] = frozenset()
        """What none of the hosts has either."""

    def is_away(self, names: Sequence[str]) -> bool:
        """Tell whether some of these are still to be taken back."""
        return not self._away.isdisjoint(names)

    def are_lost(self, names: Sequence[str]) -> bool:
        """Tell whether some of these are nowhere any more."""
        return not self._lost.isdisjoint(names)

    def look(self, now: float) -> None:
        """See to it that every file is here and on two hosts, in a thread."""
        spec = self._desired_state.spec
        if spec is None or spec.is_local or self._works:
            return
        needed = frozenset(name for job in self._desired_state.jobs if not job.is_final for name in job.needs.files)
        up = {
            name: host
            for name, host in sorted(self._hosts.items())
            if host.state == "up" and host.report is not None and not host.is_leaving
        }
        known = (needed, tuple((name, host.report.boot) for name, host in up.items() if host.report is not None))
        if known != self._known:
            self._away = frozenset(name for name in needed if not self._blobs.has(name))
        elif now < self._due_at:
            return
        self._known, self._due_at = known, now + LOOK_S
        if not needed:
            self._lost = frozenset()
            return
        all_heard = all(host.state in ("up", "down") for host in self._hosts.values())
        links = [host.link for host in up.values()]
        self._works, away = True, self._away

        def work() -> None:
            missing, failed = away, True
            try:
                missing, failed = fetch(self._blobs, away, links), False
                failed = not spread(self._blobs, needed - missing, links[:COPIES])
            finally:
                self._mailbox.post(lambda: self._done(missing, all_heard and not failed, failed))

        guard.once(work, name="job-files").start()

    def _done(self, missing: frozenset[str], all_heard: bool, failed: bool) -> None:
        self._works = False
        self._away = missing
        self._lost = missing if all_heard else frozenset()
        if failed or missing:
            self._due_at = time.monotonic() + AGAIN_S
        self._desired_state.changed = True


def fetch(blobs: Blobs, names: frozenset[str], links: Sequence[AgentLink]) -> frozenset[str]:
    """Take files back from hosts that have them; those that none of these has.

    Raises:
        LauncherError: a host that may have one could not be asked.
    """
    missing = set(names)
    trouble: LauncherError | None = None
    for link in links:
        for name in sorted(missing):
            try:
                _take(blobs, name, link)
                missing.discard(name)
            except NotFound:
                continue
            except LauncherError as error:
                log.warning("%s is not asked for the files of jobs: %s", link.host, error.message)
                trouble = error
                break
    if missing and trouble is not None:
        raise trouble
    return frozenset(missing)


def _take(blobs: Blobs, name: str, link: AgentLink) -> None:
    held, size = 0, -1
    while held != size:
        piece = link.channel().call(GET_BLOB, BlobPiece(sha256=name, offset=held), timeout_s=PIECE_S)
        size, held = piece.size, blobs.take(piece).bytes
    log.info("a file of a job was taken back from %s", link.host)


def spread(blobs: Blobs, names: frozenset[str], links: Sequence[AgentLink]) -> bool:
    """Let hosts have files; whether all of them do."""
    done = True
    for link in links:
        for name in sorted(names):
            try:
                channel = link.channel()
                deliver(blobs.path(name), name, lambda piece, to=channel: to.call(PUT_BLOB, piece, timeout_s=PIECE_S))  # type: ignore[misc]
            except LauncherError as error:
                log.warning("%s does not keep the files of jobs: %s", link.host, error.message)
                done = False
                break
    return done
