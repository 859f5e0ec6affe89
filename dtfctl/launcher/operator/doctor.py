"""What may be wrong with a cluster or with this machine, each with what to do. Pure, except `look_here`."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dtfctl._version import VERSION
from dtfctl.launcher.identity.certificates import expiry
from dtfctl.launcher.messages.looks import Inspection, Rdma
from dtfctl.launcher.model import ClusterStatus
from dtfctl.launcher.paths import ClusterPaths, home
from dtfctl.net.ucx import INSTALL, finds_rdma_in

Level = Literal["ok", "warning", "error"]
LEAST_DISK = 2**30
LEAST_INODES = 10_000
LEAST_FILES = 4096
LEAST_PROCESSES = 4096
MOST_SKEW_S = 1.0
UNRENEWED = 0.3
"""The share of a certificate's lifetime that is left when renewing, which begins with a third, does not work."""
OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    check: str
    """`version`, `clock`, `keys`, `certificates`, `ports`, `disk`, `limits`, `python`, `controller`, `agent`, `ssh`,
    `rdma`."""
    subject: str
    """What the finding is about: `this machine`, `controller`, `host:NAME`."""
    level: Level
    message: str
    advice: str = ""
    """What to do; empty when all is well."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one host said to the question, or why it did not."""

    said: Inspection | None
    asked_at: float
    took_s: float
    problem: str = ""


def look_here() -> list[Finding]:
    """Examine this machine, whether or not a cluster is up."""
    where = "this machine"
    found = [_python(where, platform.python_version())]
    folder = home()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(existing, os.W_OK):
        advice = "set DTFCTL_HOME to a folder that you may write to"
        found.append(Finding("disk", where, "error", f"{existing} cannot be written to", advice))
    disk, inodes = shutil.disk_usage(existing), os.statvfs(existing)
    found.append(_disk(where, str(existing), disk.free, inodes.f_favail))
    files, processes = resource.getrlimit(resource.RLIMIT_NOFILE)[1], resource.getrlimit(resource.RLIMIT_NPROC)[0]
    found.append(_limits(where, files, processes))
    return found


def look_at_files(paths: ClusterPaths, now: float, lifetime_s: float) -> list[Finding]:
    """Examine the cluster's own files on this machine: modes and certificates."""
    folders = (paths.folder, paths.certificates, paths.readers)
    loose = [path for path in folders if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    loose += [path for path in paths.certificates.rglob("*.key") if stat.S_IMODE(path.stat().st_mode) & 0o077]
    ends = {path.stem: expiry(path) for path in paths.certificates.rglob("*.pem")}
    first = min(ends, key=lambda name: ends[name], default="")
    found = [_loose("this machine", [str(path) for path in loose])]
    if first:
        found.append(_certificate("this machine", first, ends[first], now, lifetime_s))
    return found


def judge(status: ClusterStatus, answers: Mapping[str, Answer], needs_ssh: bool, lifetime_s: float) -> list[Finding]:
    """Judge the controller and every host."""
    version = status.controller.version
    found = [Finding("controller", "controller", "ok", f"answers, pid {status.controller.pid}")]
    if version != VERSION:
        advice = "`dtfctl down` and `up` with one version, when the jobs have ended"
        message = f"runs dtfctl {version}, this command is {VERSION}"
        found.append(Finding("version", "controller", "warning", message, advice))
    if needs_ssh and shutil.which("ssh") is None:
        message = "there is no `ssh` program; `up` does not need it, `dtfctl ssh` does"
        found.append(Finding("ssh", "this machine", "warning", message, "install OpenSSH's client"))
    for host in status.hosts:
        found += _host(f"host:{host.name}", host.state, answers.get(host.name), host.last_error, version, lifetime_s)
    return found


def _host(
    subject: str, state: str, answer: Answer | None, last_error: str, version: str, lifetime_s: float
) -> list[Finding]:
    name = subject.removeprefix("host:")
    if answer is None or answer.said is None:
        why = (answer.problem if answer is not None else "") or last_error or f"it is {state}"
        advice = f"dtfctl hosts check; dtfctl ssh {name}"
        return [Finding("agent", subject, "error", f"its agent does not answer: {why}", advice)]
    said = answer.said
    found = [Finding("agent", subject, "ok", f"answers in {answer.took_s * 1000:.0f} ms, {said.system}")]
    if said.version != version:
        advice = "`dtfctl up FILE` installs the controller's version there"
        found.append(
            Finding("version", subject, "warning", f"runs dtfctl {said.version}, the controller {version}", advice)
        )
    # The answer was written some time between the question and its arrival.
    ahead = said.time - (answer.asked_at + answer.took_s)
    behind = answer.asked_at - said.time
    skew = max(ahead, behind, 0.0)
    if skew > MOST_SKEW_S:
        word = "ahead of" if ahead > behind else "behind"
        message = f"its clock is at least {skew:.1f} s {word} this machine's"
        advice = "nothing breaks, but times in logs mislead: switch on NTP there (timedatectl set-ntp true)"
        found.append(Finding("clock", subject, "warning", message, advice))
    else:
        found.append(Finding("clock", subject, "ok", f"within {max(skew, answer.took_s):.2f} s of this machine's"))
    found.append(_python(subject, said.python))
    found.append(_disk(subject, "the agent's folder", said.disk_free_bytes, said.inodes_free))
    found.append(_limits(subject, said.open_files, said.processes))
    found.append(_loose(subject, said.loose_files))
    found.append(_certificate(subject, "agent", said.certificate_until, answer.asked_at, lifetime_s))
    found.append(_rdma(subject, said.rdma))
    return found


def _rdma(subject: str, rdma: Rdma) -> Finding:
    what = f"UCX {rdma.ucx}" if rdma.ucx else "UCX"
    devices = ", ".join(rdma.devices)
    if not devices:
        idle = f"; {what} is installed, and tensors go over TCP" if rdma.ucx else ""
        return Finding("rdma", subject, "ok", f"no InfiniBand or RoCE{idle}")
    if finds_rdma_in(rdma.ways):
        return Finding("rdma", subject, "ok", f"{devices}: tensors go through {what} by {', '.join(rdma.ways)}")
    if rdma.problem:
        return Finding("rdma", subject, "warning", f"{devices}, and tensors go over TCP", rdma.problem)
    return Finding("rdma", subject, "warning", f"{devices}, and tensors go over TCP: there is no UCX", INSTALL)


def _python(subject: str, version: str) -> Finding:
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if parts < OLDEST_PYTHON:
        return Finding("python", subject, "error", f"Python {version} is too old", "dtfctl needs 3.11 or newer")
    return Finding(
        "python", subject, "ok", f"Python {version}" + (f" ({sys.executable})" if ":" not in subject else "")
    )


def _disk(subject: str, where: str, free: int, inodes: int) -> Finding:
    text = f"{free / 2**30:.1f} GiB free at {where}"
    if free < LEAST_DISK:
        return Finding("disk", subject, "warning", text, "free some space, before logs and checkpoints have none")
    if 0 < inodes < LEAST_INODES:
        return Finding("disk", subject, "warning", f"{inodes} files can still be made at {where}", "delete small files")
    return Finding("disk", subject, "ok", text)


def _limits(subject: str, files: int, processes: int) -> Finding:
    small = []
    if 0 <= files < LEAST_FILES:
        small.append(f"open files {files} (ulimit -n)")
    if 0 <= processes < LEAST_PROCESSES:
        small.append(f"processes {processes} (ulimit -u)")
    if small:
        advice = "raise them in /etc/security/limits.conf, log in again, then `dtfctl down` and `up`"
        return Finding("limits", subject, "warning", f"low limits: {', '.join(small)}", advice)
    return Finding("limits", subject, "ok", f"open files {_number(files)}, processes {_number(processes)}")


def _number(limit: int) -> str:
    return "unlimited" if limit < 0 else str(limit)


def _loose(subject: str, files: Sequence[str]) -> Finding:
    if not files:
        return Finding("keys", subject, "ok", "keys are readable by their owner only")
    shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    advice = "chmod go= on them; if others may have read a key, `dtfctl down` and `up` make new ones"
    return Finding("keys", subject, "error", f"others may use {shown}", advice)


def _certificate(subject: str, name: str, until: float, now: float, lifetime_s: float) -> Finding:
    left = until - now
    if left <= 0:
        advice = "`dtfctl down` and `up` make new ones"
        return Finding("certificates", subject, "error", f"the certificate {name} is no longer valid", advice)
    days = f"{left / 86400:.0f} days"
    if left < lifetime_s * UNRENEWED:
        advice = "it should have been renewed by itself; `dtfctl certificates renew` makes new ones at once"
        return Finding("certificates", subject, "warning", f"the certificate {name} ends in {days}", advice)
    return Finding("certificates", subject, "ok", f"valid for {days} at least")


def port_finding(port: int, problem: str) -> Finding:
    """Judge the metrics page, which is the one port that a spec fixes for the controller."""
    if problem:
        return Finding(
            "ports", "controller", "error", f"the metrics page at {port}: {problem}", "dtfctl logs controller"
        )
    return Finding("ports", "controller", "ok", f"the metrics page answers at {port}")
