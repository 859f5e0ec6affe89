"""What goes with a job's script: found on this machine, and sent before the job is submitted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from dtfctl.launcher.errors import ConnectionLost, LauncherError, ScriptError
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import Nothing, StatusRequest
from dtfctl.launcher.messages.looks import Examination, ExamineRequest
from dtfctl.launcher.messages.orders import JobNeeds, Packages, Wheel
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.operator import requirements, wheels, workdir
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.operator.requirements import Wanted
from dtfctl.launcher.paths import home
from dtfctl.launcher.system.files import private_folder
from dtfctl.launcher.transfer.blobs import deliver, sha256_of
from dtfctl.launcher.transfer.packages import kind_of

ASK_AT_ONCE = 32
PIECE_S = 120.0
WHEELS_UNUSED_S = 14 * 86400.0
Tell = Callable[[str], None]


def pack(connection: Connection, request: JobRequest, script: Path, source: bytes, tell: Tell) -> JobNeeds:
    """Find what `request` names, send it to the controller, and say what it is.

    `tell` hears what takes its time, and what is left to the hosts.

    Raises:
        UsageError, ScriptError: something is missing or cannot be sent. TransferFailed.
    """
    is_python = request.framework != "command"
    wanted = requirements.wanted(script, source, request.requirements, request.extras, python=is_python)
    needs = JobNeeds()
    if request.working_dir is not None:
        needs = _send_folder(connection, Path(request.working_dir).expanduser().resolve(), script)
    if wanted.is_empty:
        return needs
    cache = _wheel_cache()
    try:
        made = tuple(wheels.built(path, cache) for path in wanted.projects)
    except wheels.CannotCollect as error:
        raise ScriptError(f"no wheel can be made of {wanted.projects[0]}: {error}") from None
    wanted += Wanted(wheels=made, lines=tuple("==".join(path.name.split("-")[:2]) for path in made))
    packages = Packages(
        lines=wanted.lines,
        constraints=wanted.constraints,
        options=wanted.options,
        requires_python=wanted.requires_python,
        wheels=tuple(Wheel(path.name, sha256_of(path), own=True) for path in wanted.wheels),
    )
    more = _more_wheels(connection, request, wanted, packages, cache, tell)
    for path, wheel in (*zip(wanted.wheels, packages.wheels), *more):
        _send(connection, path, wheel.sha256)
    if more:
        packages = replace(packages, wheels=(*packages.wheels, *(wheel for _, wheel in more)), complete=True)
    return replace(needs, packages=packages)


def _send_folder(connection: Connection, root: Path, script: Path) -> JobNeeds:
    with tempfile.TemporaryDirectory(dir=private_folder(home()), prefix=".submit-") as folder:
        archive = Path(folder) / "tree"
        workdir.pack(root, archive)
        name = sha256_of(archive)
        _send(connection, archive, name)
    script = script.resolve()
    inside = script.relative_to(root).as_posix() if script.is_relative_to(root) else ""
    return JobNeeds(tree_sha256=name, program=inside)


def _send(connection: Connection, path: Path, sha256: str) -> None:
    deliver(path, sha256, lambda piece: connection.call(controller_calls.PUT_BLOB, piece, timeout_s=PIECE_S))


# ---------------------------------------------------------------- wheels for hosts


def _more_wheels(
    connection: Connection, request: JobRequest, wanted: Wanted, packages: Packages, cache: Path, tell: Tell
) -> list[tuple[Path, Wheel]]:
    """Collect what hosts need that cannot fetch packages themselves, or shall not."""
    asked = _examine(connection, request, packages)
    lacking = [answer for answer in asked if not answer.ready]
    alone = request.packages == "fetch" or (
        request.packages == "auto" and all(answer.index and answer.installs for answer in lacking)
    )
    if not lacking or (alone and not (wanted.hashed or wanted.links)):
        return []
    tell(f"collecting packages for the hosts: {', '.join(wanted.lines[:6])}")
    found: dict[tuple[str, str], tuple[Path, Wheel]] = {}
    try:
        for target in _targets(lacking):
            kind = kind_of(target.facts)
            for path in wheels.collect(wanted, target, cache):
                found[path.name, kind] = path, Wheel(path.name, sha256_of(path), kind=kind)
    except wheels.CannotCollect as error:
        if request.packages == "ship" or wanted.hashed or wanted.links:
            raise ScriptError(f"the packages cannot be collected here: {error}") from None
        tell(f"they cannot be collected here ({error}); the hosts fetch them")
        return []
    if not all(answer.installs for answer in lacking) and (own := wheels.own_pip(cache)) is not None:
        found[own.name, ""] = own, Wheel(own.name, sha256_of(own))
    return list(found.values())


def _examine(connection: Connection, request: JobRequest, packages: Packages) -> list[Examination]:
    """Ask the hosts that can be asked now what they are and what they lack.

    Raises:
        ClusterFailed: a host's Python does not answer, or is not the one that the script wants.
    """
    spec = connection.call(controller_calls.READ_SPEC, Nothing()).spec
    hosts = [
        host.name
        for host in connection.call(controller_calls.STATUS, StatusRequest()).status.hosts
        if host.state == "up"
    ]
    python = request.python or spec.python or "" if request.framework != "command" else ""

    def ask(host: str) -> Examination | LauncherError:
        message = ExamineRequest(host, python, packages)
        try:
            return connection.call(controller_calls.EXAMINE, message, timeout_s=PIECE_S)
        except LauncherError as error:
            return error

    with ThreadPoolExecutor(max(1, min(ASK_AT_ONCE, len(hosts)))) as pool:
        answers = list(zip(hosts, pool.map(ask, hosts)))
    for host, answer in answers:
        if isinstance(answer, LauncherError) and not isinstance(answer, ConnectionLost):
            raise type(answer)(f"host {host}: {answer.message}", answer.hint)
    return [answer for _, answer in answers if isinstance(answer, Examination)]


def _targets(answers: Sequence[Examination]) -> Iterator[wheels.Target]:
    """Group the hosts by kind, each with what all of its kind have."""
    kinds: dict[str, list[Examination]] = {}
    for answer in answers:
        kinds.setdefault(kind_of(json.loads(answer.facts_json)), []).append(answer)
    for same in kinds.values():
        everywhere = set.intersection(*(set(answer.have) for answer in same))
        have = {str(canonicalize_name(name)): version for name, _, version in (h.partition("==") for h in everywhere)}
        yield wheels.Target(json.loads(same[0].facts_json), have)


def _wheel_cache() -> Path:
    """Make the folder where wheels are kept for the next job, without those that none has wanted for two weeks."""
    cache = private_folder(home() / "wheels")
    for folder in cache.iterdir():
        with contextlib.suppress(OSError):
            newest = max((path.stat().st_mtime for path in (folder, *folder.iterdir())), default=0.0)
            if time.time() - newest > WHEELS_UNUSED_S:
                shutil.rmtree(folder, ignore_errors=True)
    os.utime(cache)
    return cache
