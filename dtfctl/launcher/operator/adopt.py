"""Taking over a cluster that another machine brought up: with the right to log in to its hosts, and nothing else.

The authority of the cluster stays with who made it: its key is on no host, so that none can command the others. Who
takes over makes a new one. Agents get certificates of it, and listen to no other from then on; their tasks go on
meanwhile. Tasks know each other by the certificates that they have, and keep them until they are renewed; they trust
both authorities from then on. What is wanted of the cluster, and its jobs, the hosts keep.
"""

from __future__ import annotations

import re
from typing import Any

from dtfctl.launcher import connect
from dtfctl.launcher.certificates import FORMER
from dtfctl.launcher.controller import rebuild
from dtfctl.launcher.controller.rebuild import Recalled
from dtfctl.launcher.errors import Conflict, LoginError, NoSuchCluster, UsageError
from dtfctl.launcher.files import write_whole
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import LOGIN_CAUSES, HostFailed, OnStage
from dtfctl.launcher.seat import LocalSeat, end_controller, find_controller
from dtfctl.launcher.spec.model import ClusterSpec

CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
Adopted = dict[str, Any]
"""What a host answers; see `adopt` in providers/host_side.py."""


def take_over(paths: ClusterPaths, spec: ClusterSpec, on_stage: OnStage) -> None:
    """Make the cluster of that name on the spec's hosts this user's, and its state this machine's.

    Hosts that are this user's already stay as they are, so it can be done again when more of them can be reached.

    Raises:
        UsageError: it has no hosts to log in to. Conflict: its controller runs on one of its hosts, or a host refuses.
        NoSuchCluster: there is none. LoginError: no host lets us in.
    """
    if spec.is_local:
        raise UsageError("--adopt is for clusters on other hosts", "this one is on this machine alone")
    if spec.controller.place == "host" or paths.seat.exists():
        raise Conflict(
            "--adopt takes over clusters whose controller runs on the operator's machine",
            f"log in to the controller's host and use it there: its folder is {spec.home or '~/.dtfctl'}/controllers",
        )
    is_new = connect.read_created(paths) is None
    connect.prepare(paths)
    try:
        found, failed = _ask(paths, spec, on_stage)
    except BaseException:
        if is_new:
            LocalSeat(paths).forget(keep_logs=False)
        raise
    ours = paths.database.exists() and all(item["ours"] for item in found.values())
    if ours:
        return
    running = find_controller(paths)
    if running is not None:
        end_controller(running[0])
    LocalSeat(paths).wait_gone()
    _trust_both(paths, found)
    recalled = [Recalled.of(host, item["copy"].encode(), item["state"].encode()) for host, item in found.items()]
    former = {item["former"] for item in found.values() if item["former"]}
    rebuild.write(paths, recalled, sorted(failed), f"taken over from {', '.join(sorted(former)) or 'nobody'}")


def _ask(paths: ClusterPaths, spec: ClusterSpec, on_stage: OnStage) -> tuple[dict[str, Adopted], dict[str, HostFailed]]:
    """Put this user's name on every host that can be reached; what those answer that have something of the cluster."""
    from dtfctl.launcher.providers.far_controller import Operator

    operator = Operator(paths)
    try:
        operator.on_stage = on_stage
        operator.configure(spec)
        names = [host.name for host in spec.hosts if not host.is_local]
        answers = operator.adopt(names)
        failed = {host: answer for host, answer in answers.items() if isinstance(answer, HostFailed)}
        found = {host: answer for host, answer in answers.items() if isinstance(answer, dict) and answer["found"]}
        if len(failed) == len(names) and all(error.cause in LOGIN_CAUSES for error in failed.values()):
            host, error = next(iter(failed.items()))
            raise LoginError(f"no host lets us in: {host}: {error.message}", error.hint)
        refused = next((item for item in failed.items() if item[1].cause not in LOGIN_CAUSES), None)
        if refused is not None:
            raise Conflict(f"{refused[0]}: {refused[1].message}", refused[1].hint)
        if not found:
            raise NoSuchCluster(f"no host of it has a cluster {paths.name}", "bring it up: dtfctl up FILE")
        for host in found:
            operator.expect(host)
        return found, failed
    finally:
        operator.close()


def _trust_both(paths: ClusterPaths, found: dict[str, Adopted]) -> None:
    """The authorities by which tasks know each other already; they are trusted beside this one."""
    own = CERTIFICATE.findall((paths.certificates / "ca.pem").read_text())
    every = dict.fromkeys(part for item in found.values() for part in CERTIFICATE.findall(item["trusted"]))
    former = "".join(f"{part}\n" for part in every if part not in own)
    write_whole(paths.certificates / FORMER, former.encode())
