"""Whether all hosts see one and the same folder where the spec says so (`checkpoints.path`).

Nothing copies checkpoints where a shared folder is named. Were it not shared, a job that moves would begin anew
without a word, so hosts are believed only once each has found there what another one has left, and until then no job
begins.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from dtfctl import guard
from dtfctl.launcher.controller.hosts.agent_link import AgentLink
from dtfctl.launcher.controller.hosts.host import Host
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.errors import LauncherError, NoSpace
from dtfctl.launcher.messages.agent import SharedStep
from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.system.mailbox import Mailbox

log = logging.getLogger(__name__)

AGAIN_S = 30.0
"""A host on which it is not shared is asked again: somebody may have mounted it."""
MOST_AT_ONCE = 64
ADVICE = "mount the shared disk there, or leave checkpoints.path out: checkpoints are then copied between hosts"


class SharedFolder:
    """Owned by the controller's loop."""

    def __init__(self, desired_state: DesiredState, mailbox: Mailbox, hosts: Mapping[str, Host]) -> None:
        self._desired_state = desired_state
        self._mailbox = mailbox
        self._hosts = hosts
        self._folder = ""
        self._known: dict[str, str] = {}
        """Hosts that were asked, and the lives of their agents: a machine that was rebooted may not have mounted it."""
        self._round = 0
        self._is_asking = False
        self._again_at = 0.0

    def again(self) -> None:
        """Have all hosts asked once more."""
        self._known = {}
        self._round += 1

    def _asked(self) -> dict[str, Host]:
        """List the hosts that can be asked; none where there is nothing to ask."""
        spec = self._desired_state.spec
        if spec is None or not spec.checkpoints.path or spec.is_local:
            return {}
        wanted = {host.name for host in spec.hosts}
        found = {
            name: host
            for name, host in sorted(self._hosts.items())
            if name in wanted and host.state == "up" and host.report is not None and not host.is_leaving
        }
        return found if len(found) > 1 else {}

    def _unknown(self, asked: Mapping[str, Host]) -> set[str]:
        return {name for name, host in asked.items() if host.report and self._known.get(name) != host.report.boot}

    @property
    def is_due(self) -> bool:
        """Whether it is still to be found out about a host that is up."""
        return bool(self._unknown(self._asked()))

    @property
    def problem(self) -> str:
        """Why no job is to begin now, as what it saves might not be where it is looked for; empty: all is well."""
        asked = self._asked()
        for name, host in asked.items():
            if host.unshared is not None:
                return f"{name}: {host.unshared.message}"
        spec = self._desired_state.spec
        if spec is None or not self._unknown(asked):
            return ""
        return f"it is not known yet whether all hosts share {spec.checkpoints.path}"

    def look(self, now: float) -> None:
        """Ask where it is not known."""
        spec = self._desired_state.spec
        folder = (spec.checkpoints.path or "") if spec is not None else ""
        if folder != self._folder:
            self._folder = folder
            self.again()
            for host in self._hosts.values():
                host.unshared = None
        asked = self._asked()
        unknown = self._unknown(asked)
        bad = {name for name, host in asked.items() if host.unshared is not None}
        if self._is_asking or not (unknown or (bad and now >= self._again_at)):
            return
        # The token is best left by a host that is known to see what others see.
        order = sorted(asked, key=lambda name: (name in unknown, name in bad, name))
        links = [(name, asked[name].link) for name in order]
        lives = {name: host.report.boot for name, host in asked.items() if host.report is not None}
        self._is_asking, number = True, self._round

        def work() -> None:
            found: dict[str, str] = {}
            try:
                found = ask(folder, links)
            finally:
                self._mailbox.post(lambda: self._found(number, lives, found))

        guard.once(work, name="sharing").start()

    def _found(self, number: int, lives: Mapping[str, str], found: Mapping[str, str]) -> None:
        self._is_asking = False
        self._again_at = time.monotonic() + AGAIN_S
        if number != self._round:
            return
        self._known.update({name: life for name, life in lives.items() if name in found})
        try:
            with self._desired_state.store.transaction():
                for name, problem in found.items():
                    self._note(name, problem)
        except NoSpace as error:
            log.error("%s", error.message)
            self._known = {}

    def _note(self, name: str, problem: str) -> None:
        host = self._hosts.get(name)
        if host is None:
            return
        old, host.unshared = host.unshared, HostFailed("shared", problem) if problem else None
        if problem and (old is None or old.message != problem):
            self._desired_state.store.add_event("host.not-shared", f"host:{name}", problem)
        elif old is not None and not problem:
            self._desired_state.store.add_event("host.shared", f"host:{name}", f"{self._folder} is shared")


def ask(folder: str, links: Sequence[tuple[str, AgentLink]]) -> dict[str, str]:
    """Find what is wrong on each host; empty: nothing. The first that can leaves a token, all others look for it."""
    token = secrets.token_hex(16)
    found: dict[str, str] = {}
    for first, link in links:
        problem = _ask_one(link, folder, token, "leave")
        found[first] = f"checkpoints.path: {folder} {problem}; {ADVICE}" if problem else ""
        if not problem:
            break
    else:
        return found
    others = [item for item in links if item[0] not in found]
    try:
        with ThreadPoolExecutor(max(1, min(MOST_AT_ONCE, len(others)))) as pool:
            told = list(pool.map(lambda item: _ask_one(item[1], folder, token, "find"), others))
    finally:
        _ask_one(link, folder, token, "take")
    for (name, _), problem in zip(others, told, strict=True):
        text = f"is not the same folder as on {first}" if problem == "not shared" else problem
        found[name] = f"checkpoints.path: {folder} {text}; {ADVICE}" if problem else ""
    return found


def _ask_one(link: AgentLink, folder: str, token: str, step: SharedStep) -> str:
    try:
        return link.prove_shared(folder, token, step)
    except LauncherError as error:
        return f"could not be looked at: {error.message}"
