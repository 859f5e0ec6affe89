"""Valid keys whose behaviour this version does not have yet.

A key that is accepted and does nothing is worse than an error, so `up` refuses a spec that relies on one. `validate`
takes it: the file is right, only this version is not enough.
"""

from __future__ import annotations

from dataclasses import dataclass

from dtfctl.launcher.errors import SpecError, UsageError
from dtfctl.launcher.spec.model import ClusterSpec, Ssh


@dataclass(frozen=True, slots=True)
class Missing:
    """A key this version cannot honour: where it is in the spec, and what to say."""

    path: tuple[str, ...]
    message: str


def unavailable(spec: ClusterSpec) -> list[Missing]:
    """Return everything `spec` asks for that this version cannot do, in the order of the file's keys."""
    found: list[Missing] = []

    def refuse(condition: bool, path: tuple[str, ...], what: str) -> None:
        if condition:
            found.append(Missing(path, f"{what} not available in this version"))

    local = any(host.is_local for host in spec.hosts)
    refuse(spec.is_local and spec.ssh != Ssh(), ("ssh",), "SSH settings without a host over SSH are")
    mixed = local and not spec.is_local and spec.controller.place == "host"
    refuse(mixed, ("controller",), "a controller on a host beside `localhost`, which is another machine for it, is")
    return found


def require_login(spec: ClusterSpec, what: str) -> None:
    """Raise a UsageError where the hosts are not ones that one logs in to, as `what` does."""
    if spec.provider != "ssh":
        raise UsageError(
            f"{what} is for hosts that one logs in to, and `provider: {spec.provider}` lends these",
            f"how they are: dtfctl hosts -c {spec.cluster}; to end all that is there: dtfctl down -c {spec.cluster}",
        )


def require_available(spec: ClusterSpec) -> None:
    """Raise a SpecError that names everything `spec` asks for and this version cannot do, if there is anything."""
    missing = unavailable(spec)
    if missing:
        raise SpecError("; ".join(item.message for item in missing), "Remove the keys, or use a later version.")
