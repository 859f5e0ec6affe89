"""What no single key can tell: whether the parts of a spec fit together."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable

from dtfctl.launcher.spec.hostlist import MAX_HOSTS
from dtfctl.launcher.spec.model import LENDERS, LOCAL_NAMES, ClusterSpec, HostGroup, Ray, Slurm, Ssh, lent_hosts
from dtfctl.launcher.spec.parse import Reader
from dtfctl.launcher.spec.problems import did_you_mean


def check(spec: ClusterSpec, reader: Reader) -> None:
    """Add to `reader` every contradiction in `spec`, leaving alone the parts that are broken already."""
    for rule in _RULES:
        rule(spec, reader)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _tasks_exist(spec: ClusterSpec, reader: Reader) -> None:
    if reader.is_good("tasks") and not any(group.count for group in spec.tasks.values()):
        reader.problem(reader.mark("tasks"), "no task", "For example `tasks: {ps: 1, worker: 2}`.")


def _task_groups_make_sense(spec: ClusterSpec, reader: Reader) -> None:
    for job, group in spec.tasks.items():
        at = ("tasks", job)
        if not reader.is_good(*at, "min") or not reader.is_good(*at, "count"):
            continue
        if group.min is not None and group.min > group.count:
            reader.problem(
                reader.mark(*at, "min"),
                f"`min` is {group.min}, more than the {_count(group.count, 'task')} of `{job}`",
                f"Expected at most {group.count}.",
            )
        if job == "chief" and group.count > 1:
            reader.problem(reader.mark(*at, "count"), f"{group.count} chiefs: there can be one", "Expected 0 or 1.")


def _fewest_hosts_make_sense(spec: ClusterSpec, reader: Reader) -> None:
    lent = spec.provider if spec.provider in LENDERS else ""
    for name, group in spec.host_groups.items():
        at = (lent, "min") if lent else ("hosts", name, "min")
        if group.min is None or not reader.is_good(*at) or not reader.is_good("hosts"):
            continue
        if group.min > len(group.names):
            most = len(group.names)
            said = f"`min` is {group.min}, but there can be {_count(most, 'host')} at most"
            reader.problem(reader.mark(*at), said, f"Expected at most {most}.")
        elif group.spare:
            reader.problem(reader.mark(*at), "`min` of spare hosts, which need not be there", "Remove `min`.")


def _groups_exist(spec: ClusterSpec, reader: Reader) -> None:
    if not reader.is_good("hosts"):
        return
    for job, group in spec.tasks.items():
        for i, name in enumerate(group.hosts):
            if name not in spec.host_groups:
                groups = list(spec.host_groups)
                reader.problem(
                    reader.mark("tasks", job, "hosts", str(i)),
                    f"no host group `{name}`",
                    f"Groups are {', '.join(f'`{g}`' for g in groups)}.{did_you_mean(name, groups)}",
                )
                reader.bad.add(("tasks", job, "hosts"))


def _hosts_are_listed_once(spec: ClusterSpec, reader: Reader) -> None:
    seen: dict[str, str] = {}
    for group_name, group in spec.host_groups.items():
        at = ("hosts", group_name, "names")
        if not reader.is_good(*at):
            continue
        twice = []
        for item in group.names:
            if item.name in seen:
                twice.append(item.name)
            else:
                seen[item.name] = group_name
        if twice:
            where = f"in the group `{seen[twice[0]]}`" if seen[twice[0]] != group_name else "before it"
            more = f" and {len(twice) - 1} more" if len(twice) > 1 else ""
            reader.problem(
                reader.mark(*at), f"host {twice[0]} is listed twice{more}; first {where}", "List each host once."
            )
    if len(seen) > MAX_HOSTS:
        reader.problem(reader.mark("hosts"), f"{len(seen)} hosts; at most {MAX_HOSTS} are possible")
    local = [name for name in seen if name in LOCAL_NAMES]
    if len(local) > 1:
        reader.problem(reader.mark("hosts"), f"{' and '.join(local)} are the same machine", "Keep one of them.")


def _racks_are_known(spec: ClusterSpec, reader: Reader) -> None:
    for name, group in spec.host_groups.items():
        at = ("hosts", name, "rack")
        if group.rack is None or not reader.is_good("hosts", name):
            continue
        for reference in re.findall(r"\{([^}]*)\}", group.rack):
            brackets = min(len(item.brackets) for item in group.names)
            if not re.fullmatch(r"[1-9][0-9]?", reference) or int(reference) > brackets:
                reader.problem(
                    reader.mark(*at),
                    f"`{{{reference}}}` names no bracket of the host pattern",
                    f"The pattern has {_count(brackets, 'bracket')}; `{{1}}` is the first.",
                )
    if not reader.is_good("hosts"):
        return
    for job, tasks in spec.tasks.items():
        groups = [g for n, g in spec.host_groups.items() if not tasks.hosts or n in tasks.hosts]
        if tasks.spread == "rack" and reader.is_good("tasks", job) and all(g.rack is None for g in groups):
            reader.problem(
                reader.mark("tasks", job, "spread"), "no host has a rack to spread over", "Set `rack` in `hosts`."
            )


def _there_is_room(spec: ClusterSpec, reader: Reader) -> None:
    """Check that tasks fit the slots, and their GPUs the hosts': any set of jobs asks no more than its hosts have."""
    if not reader.is_good("hosts") or not reader.is_good("tasks"):
        return
    jobs = [job for job, group in spec.tasks.items() if group.count]
    if all(group.spare for group in spec.host_groups.values()):
        reader.problem(reader.mark("hosts"), "every host is a spare", "Leave at least one without `spare: true`.")
        return

    def hosts_of(names: Iterable[str]) -> list[tuple[str, HostGroup]]:
        wanted: set[str] = set()
        for job in names:
            wanted |= set(spec.tasks[job].hosts or spec.host_groups)
        return [(n, g) for n, g in spec.host_groups.items() if n in wanted and not g.spare]

    def asks(noun: str, need: Callable[[str], int], has: Callable[[HostGroup], int | None], key: str) -> None:
        full: list[frozenset[str]] = []
        for size in range(1, len(jobs) + 1):
            for names in itertools.combinations(jobs, size):
                if any(found <= set(names) for found in full):
                    continue
                amounts = [has(group) for _, group in hosts_of(names)]
                if any(amount is None for amount in amounts):
                    continue
                total = sum(amount or 0 for amount in amounts)
                wanted = sum(need(job) for job in names)
                if wanted > total:
                    full.append(frozenset(names))
                    groups = ", ".join(f"`{n}`" for n, _ in hosts_of(names)) or "none"
                    reader.problem(
                        reader.mark("tasks", names[-1], key),
                        f"{' and '.join(names)} need {_count(wanted, noun)}; their hosts have {total}",
                        f"Host groups without spares: {groups}.",
                    )

    asks(
        "slot",
        lambda job: spec.tasks[job].count,
        lambda group: None if group.slots is None else group.slots * len(group.names),
        "count",
    )
    asks(
        "GPU",
        lambda job: spec.tasks[job].count * spec.tasks[job].gpus,
        lambda group: None if group.gpus == "auto" else group.gpus * len(group.names),
        "gpus",
    )


def _ports_do_not_clash(spec: ClusterSpec, reader: Reader) -> None:
    ports = spec.ports
    page = spec.dashboard.port
    if page is not None and page == spec.metrics.port and reader.is_good("metrics") and reader.is_good("dashboard"):
        reader.problem(
            reader.mark("dashboard", "port"), f"port clash: {page} is the port of `metrics` too", "Choose another one."
        )
    if ports.first is None or ports.last is None or not reader.is_good("ports"):
        return
    at = reader.mark("ports")
    size = ports.last - ports.first + 1
    said = str(ports.first) if size == 1 else f"{ports.first}-{ports.last}"
    if reader.is_good("hosts") and reader.is_good("tasks"):
        hosts = sum(len(group.names) for group in spec.host_groups.values() if not group.spare)
        tasks = sum(group.count for group in spec.tasks.values())
        if hosts and tasks > hosts * size:
            per_host = -(-tasks // hosts)
            reader.problem(
                at,
                f"port clash: {_count(tasks, 'task')} on {_count(hosts, 'host')}, but `{said}` is "
                f"{_count(size, 'port')} a host",
                f"Expected `auto` or at least {per_host}, such as {_range(ports.first, per_host)}.",
            )
    for name, port in (("metrics", spec.metrics.port), ("dashboard", spec.dashboard.port)):
        if port is not None and reader.is_good(name) and ports.first <= port <= ports.last:
            reader.problem(
                reader.mark(name, "port"),
                f"port clash: {port} is in `ports: {said}` too",
                "Choose one outside that range.",
            )
    if reader.is_good("hosts") and reader.is_good("ssh") and not spec.is_local:
        _ssh_is_outside(spec.ssh, said, ports.first, ports.last, reader)


def _ssh_is_outside(ssh: Ssh, said: str, first: int, last: int, reader: Reader) -> None:
    if first <= ssh.port <= last:
        reader.problem(
            reader.mark("ports"),
            f"port clash: `{said}` includes {ssh.port}, where the hosts' SSH listens",
            "Choose ports without it.",
        )


def _range(first: int, size: int) -> str:
    start = min(first, 65536 - size)
    return f"{start}-{start + size - 1}"


def _tls_is_off_only_here(spec: ClusterSpec, reader: Reader) -> None:
    if spec.security.tls == "none" and reader.is_good("hosts") and not spec.is_local:
        reader.problem(
            reader.mark("security", "tls"),
            "`tls: none` would let anyone on the network run code on these hosts",
            "Expected `auto`; `none` is for localhost only.",
        )


def _limits_are_in_order(spec: ClusterSpec, reader: Reader) -> None:
    health, delay, quarantine = spec.health, spec.restart.delay, spec.quarantine
    rules = (
        (health.suspect_phi <= health.down_phi, ("health", "suspect_phi"), "`suspect_phi` is above `down_phi`"),
        (health.beat < health.down_after, ("health", "beat"), "`beat` is not shorter than `down_after`"),
        (health.pause <= health.down_after, ("health", "pause"), "`pause` is longer than `down_after`"),
        (health.down_after <= health.lease, ("health", "lease"), "`lease` is shorter than `down_after`"),
        (delay.first <= delay.max, ("restart", "delay", "first"), "`first` is longer than `max`"),
        (delay.then <= delay.max, ("restart", "delay", "then"), "`then` is longer than `max`"),
        (quarantine.lasts <= quarantine.max, ("quarantine", "for"), "`for` is longer than `max`"),
    )
    for holds, path, message in rules:
        if not holds and reader.is_good(*path[:-1]):
            reader.problem(reader.mark(*path), message, "Change one of the two.")
    every = spec.checkpoints.every
    if every.seconds is not None and every.steps is not None:
        reader.problem(
            reader.mark("checkpoints", "every"), "`every` has both `seconds` and `steps`", "Keep one of them."
        )


def _the_controllers_host_is_one(spec: ClusterSpec, reader: Reader) -> None:
    place, at = spec.controller, ("controller", "host")
    if place.host is None or not reader.is_good("controller") or not reader.is_good("hosts"):
        return
    names = [item.name for group in spec.host_groups.values() for item in group.names]
    if place.place != "host":
        reader.problem(
            reader.mark(*at), "`host` says on which host, but `place` is `local`", "Write `place: host`, or no `host`."
        )
    elif place.host not in names:
        shown = ", ".join(f"`{name}`" for name in names[:4]) + (", ..." if len(names) > 4 else "")
        reader.problem(
            reader.mark(*at), f"no host `{place.host}`", f"Hosts are {shown}.{did_you_mean(place.host, names)}"
        )


def _hosts_are_named_or_lent(spec: ClusterSpec, reader: Reader) -> None:
    provider = spec.provider
    for name, has_any in (("slurm", spec.slurm != Slurm()), ("ray", spec.ray != Ray())):
        if provider != name and has_any and reader.is_good(name):
            reader.problem(
                reader.mark(name), f"`{name}` without `provider: {name}`", f"Write `provider: {name}`, or remove it."
            )
    if provider not in LENDERS or not reader.is_good(provider):
        return
    if reader.is_good("hosts") and spec.host_groups != lent_hosts(spec):
        count = "nodes" if provider == "slurm" else "hosts"
        reader.problem(
            reader.mark("hosts"),
            f"`hosts` with `provider: {provider}`, which names the hosts itself",
            f"Remove `hosts`; say how many with `{provider}: {{{count}: N}}`.",
        )
    if spec.ssh != Ssh() and reader.is_good("ssh"):
        reader.problem(reader.mark("ssh"), f"`ssh` with `provider: {provider}`, which does not log in", "Remove `ssh`.")
    if spec.controller.place == "host" and reader.is_good("controller"):
        reader.problem(
            reader.mark("controller"),
            f"a controller on a host that {provider.capitalize()} lends would end with it",
            "Remove `controller`; where no machine stays up, run `up` inside an allocation, or a `ray job`.",
        )
    if provider == "slurm":
        _what_slurm_is_asked(spec, reader)


def _what_slurm_is_asked(spec: ClusterSpec, reader: Reader) -> None:
    if reader.is_good("slurm", "extra"):
        for number, word in enumerate(spec.slurm.extra):
            name = word.partition("=")[0]
            if name in OWN_OPTIONS:
                reader.problem(
                    reader.mark("slurm", "extra", str(number)),
                    f"`{name}` is dtfctl's own",
                    f"Expected {OWN_OPTIONS[name]}.",
                )
    limit, margin = spec.slurm.time, spec.slurm.margin
    if limit is not None and margin >= limit:
        reader.problem(reader.mark("slurm", "margin"), "`margin` is not shorter than `time`", "Change one of the two.")


OWN_OPTIONS = {
    "--nodes": "`slurm: {nodes: N}`",
    "--time": "`slurm: {time: 8h}`",
    "--partition": "`slurm: {partition: NAME}`",
    "--array": "one cluster a file",
    "--parsable": "nothing: it is set",
    "--job-name": "nothing: it is the cluster's",
    "--comment": "nothing: by it a lost job is found again",
    "--wrap": "nothing: what runs is dtfctl's agents",
    "--no-requeue": "nothing: a preempted cluster goes on",
    "--wait": "nothing: `up` waits",
}
"""Options of sbatch that `extra` may not have, and what to write."""


_RULES: tuple[Callable[[ClusterSpec, Reader], None], ...] = (
    _tasks_exist,
    _task_groups_make_sense,
    _fewest_hosts_make_sense,
    _groups_exist,
    _hosts_are_listed_once,
    _racks_are_known,
    _there_is_room,
    _ports_do_not_clash,
    _tls_is_off_only_here,
    _limits_are_in_order,
    _the_controllers_host_is_one,
    _hosts_are_named_or_lent,
)
