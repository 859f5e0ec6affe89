"""Which hosts are set aside: drained by a user, quarantined for their failures; stored, so that it outlives us."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dtfctl.health import quarantine
from dtfctl.health.quarantine import QuarantinePolicy
from dtfctl.launcher.controller.decisions.moves import Standing
from dtfctl.launcher.controller.hosts.host import Host
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.errors import NoSuchHost, UsageError

PROBE_AGAIN_S = 10.0


class SetAside:
    """Decisions about hosts. Owned by the controller's loop; changes are made within one of its transactions."""

    def __init__(self, desired_state: DesiredState) -> None:
        self._desired_state = desired_state

    def _policy(self) -> QuarantinePolicy:
        assert self._desired_state.spec is not None
        rules = self._desired_state.spec.quarantine
        return QuarantinePolicy(rules.failures, rules.within, rules.lasts, rules.max)

    def standing(self, name: str, host: Host, wanted: bool) -> Standing:
        """Judge what may be done with a host, by all that is known of it."""
        row = self._desired_state.host(name)
        if host.state == "down":
            return Standing(is_down=True, takes_new=False, why=f"lost ({host.last_error or 'its agent is silent'})")
        if not wanted:
            return Standing(takes_new=False, keeps_running=False, why="not in the spec any more")
        if row.drained:
            return Standing(takes_new=False, keeps_running=False, why="drained" + (f" ({row.why})" if row.why else ""))
        if row.quarantined_until is not None:
            return Standing(takes_new=False, why=f"quarantined ({row.why})")
        return Standing()

    # ------------------------------------------------------------------ quarantine

    def task_failed(self, name: str, hosts: Mapping[str, Host], now: float) -> None:
        """Note that a task has failed on a host, which may be at fault."""
        policy, row = self._policy(), self._desired_state.host(name)
        row = replace(row, failures=(*quarantine.recent(policy, row.failures, now), now))
        self._desired_state.put_host(row)
        others = [
            self._desired_state.host(other).failures for other, host in hosts.items() if other != name and _works(host)
        ]
        if row.quarantined_until is None and quarantine.stands_out(policy, row.failures, others, now):
            count = len(row.failures)
            self.quarantine(name, f"{count} failures of tasks on it within {now - row.failures[0]:.0f} s", now)

    def quarantine(self, name: str, why: str, now: float) -> None:
        policy, row = self._policy(), self._desired_state.host(name)
        if row.quarantined_until is not None:
            return
        did_well = row.released_at and now - row.released_at > policy.within_s
        before = 0 if did_well else row.quarantines
        length = quarantine.length_s(policy, before)
        self._desired_state.put_host(replace(row, quarantined_until=now + length, quarantines=before + 1, why=why))
        self._desired_state.store.add_event("host.quarantined", f"host:{name}", f"for {length:.0f} s: {why}")

    def to_probe(self, hosts: Mapping[str, Host], now: float) -> list[str]:
        """List the hosts whose time is over and whose agent is there to be asked."""
        return [
            name
            for name, row in self._desired_state.hosts.items()
            if row.quarantined_until is not None
            and row.quarantined_until <= now
            and (host := hosts.get(name)) is not None
            and host.state == "up"
            and not host.is_probed
        ]

    def probed(self, name: str, problem: str, now: float) -> None:
        """Note what a probe of a quarantined host came to."""
        row = self._desired_state.host(name)
        if row.quarantined_until is None:
            return
        if problem:
            self._desired_state.put_host(replace(row, quarantined_until=now + PROBE_AGAIN_S))
            self._desired_state.store.add_event("host.probe-failed", f"host:{name}", problem)
            return
        self._release(name, now, "its time is over and a probe of it succeeded")

    def _release(self, name: str, now: float, why: str) -> None:
        row = self._desired_state.host(name)
        self._desired_state.put_host(replace(row, quarantined_until=None, failures=(), released_at=now, why=""))
        self._desired_state.store.add_event("host.released", f"host:{name}", why)

    # ------------------------------------------------------------------ commands

    def desire(self, names: Sequence[str], verb: str, reason: str, hosts: Mapping[str, Host], now: float) -> list[str]:
        """Drain, undrain or release hosts; return those that were changed. Raises NoSuchHost, UsageError."""
        for name in names:
            if name not in hosts:
                raise NoSuchHost(f"the cluster has no host {name!r}", f"it has: {', '.join(sorted(hosts))}")
        if verb not in ("drain", "undrain", "release"):
            raise UsageError(f"{verb!r} is nothing to do with hosts", "one of: drain, undrain, release")
        changed = []
        for name in names:
            row = self._desired_state.host(name)
            if verb == "drain" and not row.drained:
                self._desired_state.put_host(replace(row, drained=True, why=reason))
                self._desired_state.store.add_event("host.drained", f"host:{name}", reason or "by the user")
            elif verb == "undrain" and row.drained:
                self._desired_state.put_host(replace(row, drained=False, why=""))
                self._desired_state.store.add_event("host.undrained", f"host:{name}", "by the user")
            elif verb == "release" and row.quarantined_until is not None:
                self._desired_state.put_host(replace(row, quarantines=0))
                self._release(name, now, "by the user")
            else:
                continue
            changed.append(name)
        return changed


def _works(host: Host) -> bool:
    return host.state in ("up", "suspect")
