"""Taking over a cluster that another machine brought up: with the right to log in to its hosts, and nothing else.

The authority of the cluster stays with who made it: its key is on no host, so that none can command the others. Who
takes over makes a new one. Agents get certificates of it, and listen to no other from then on; their tasks go on
meanwhile. Tasks know each other by the certificates that they have, and keep them until they are renewed; they trust
both authorities from then on. What is wanted of the cluster, and its jobs, the hosts keep.

A controller that runs on a host ends, with the key by which it logs in to the others. With `controller: host`
the new one is put on the host that the spec says, or on the first that lets us in, and begins with what the hosts keep.
That is also how the controller of one's own cluster comes to another host when its own is lost.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from typing import Any

from dtfctl.launcher.controller import rebuild
from dtfctl.launcher.controller.rebuild import Recalled
from dtfctl.launcher.errors import Conflict, ControllerUnreachable, LoginError, NoSuchCluster, UsageError
from dtfctl.launcher.identity.certificates import FORMER
from dtfctl.launcher.messages import codec
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.operator.local_controller import LocalController, end_controller, end_page, find_controller
from dtfctl.launcher.operator.remote_controller import Place, RemoteController, settle_on
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import LOGIN_CAUSES, HostFailed, OnStage
from dtfctl.launcher.spec.available import require_login
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.files import write_whole

CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
Adopted = dict[str, Any]
"""What a host answers; see `adopt` in providers/host_side.py."""


def take_over(paths: ClusterPaths, spec: ClusterSpec, on_stage: OnStage) -> None:
    """Make the cluster of that name on the spec's hosts this user's, and its state this machine's.

    Hosts that are this user's already stay as they are, so it can be done again when more of them can be reached.

    Raises:
        UsageError: it has no hosts to log in to. Conflict: a host refuses. NoSuchCluster: there is none.
        LoginError: no host lets us in, or not that on which the controller is to run.
    """
    require_login(spec, "--adopt")
    if spec.is_local:
        raise UsageError("--adopt is for clusters on other hosts", "this one is on this machine alone")
    if paths.controller_place.exists() and _is_there(paths):
        return
    is_new = controller_client.read_created(paths) is None
    created = controller_client.prepare(paths, spec.security.lifetime)
    try:
        found, failed = _ask(paths, spec, on_stage)
    except BaseException:
        if is_new:
            LocalController(paths).forget(keep_logs=False)
        raise
    ours = paths.database.exists() and all(item["ours"] for item in found.values())
    if ours and not paths.controller_place.exists():
        return
    end_page(paths)
    running = find_controller(paths)
    if running is not None:
        end_controller(running[0])
    LocalController(paths).wait_gone()
    _trust_both(paths, found)
    recalled = [Recalled.of(host, item["copy"].encode(), item["state"].encode()) for host, item in found.items()]
    former = {item["former"] for item in found.values() if item["former"]}
    lost = codec.decode(Place, paths.controller_place.read_bytes()).host if paths.controller_place.exists() else ""
    why = f"taken over from {', '.join(sorted(former)) or f'the controller on {lost}' * bool(lost) or 'nobody'}"
    if spec.controller.place == "host":
        rebuild.hand_over(paths, recalled, sorted(failed), why, spec.controller)
        settle_on(paths, spec, created, _place_of(spec, found))
        return
    paths.controller_place.unlink(missing_ok=True)
    shutil.rmtree(paths.login, ignore_errors=True)
    paths.controller_info.unlink(missing_ok=True)
    rebuild.write(paths, recalled, sorted(failed), why, spec.controller)


def _is_there(paths: ClusterPaths) -> bool:
    """Tell whether this user's controller runs on its host, or starts there again: nothing is to be taken over."""
    controller = RemoteController(paths)
    try:
        return (controller.find() or controller.start()) != ""
    except (LoginError, ControllerUnreachable, NoSuchCluster):
        return False
    finally:
        controller.close()


def _place_of(spec: ClusterSpec, found: Collection[str]) -> str:
    """Choose where the new controller goes.

    Raises:
        LoginError: the host that the spec says does not let us in.
    """
    wanted = spec.controller.host
    if wanted is None:
        return next(host.name for host in spec.hosts if host.name in found)
    if wanted not in found:
        raise LoginError(
            f"{wanted}, where the spec puts the controller, cannot be used",
            "name another one in FILE: controller: {place: host, host: NAME}",
        )
    return wanted


def _ask(paths: ClusterPaths, spec: ClusterSpec, on_stage: OnStage) -> tuple[dict[str, Adopted], dict[str, HostFailed]]:
    """Put this user's name on every host that can be reached; what those answer that have something of the cluster."""
    from dtfctl.launcher.operator.controller_over_ssh import Operator

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
        operator.end_controllers([*found], force=True)
        for host in found if spec.controller.place == "local" else ():
            operator.expect(host)
        return found, failed
    finally:
        operator.close()


def _trust_both(paths: ClusterPaths, found: dict[str, Adopted]) -> None:
    """Trust the authorities by which tasks know each other already, beside the cluster's own."""
    own = CERTIFICATE.findall((paths.certificates / "ca.pem").read_text())
    every = dict.fromkeys(part for item in found.values() for part in CERTIFICATE.findall(item["trusted"]))
    former = "".join(f"{part}\n" for part in every if part not in own)
    write_whole(paths.certificates / FORMER, former.encode())
