"""`hosts`: what the machines of a cluster are, and whether they can be used."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dtfctl.cli import _complete as complete, _data, _tables
from dtfctl.cli._command import Session, command
from dtfctl.cli._format import columns, named, plural
from dtfctl.cli._watch import repeat

if TYPE_CHECKING:
    from dtfctl.launcher.operator.check_hosts import HostCheck
    from dtfctl.launcher.spec.model import ClusterSpec

MIB = 1 << 20


@command(
    examples=[
        "dtfctl hosts",
        "dtfctl hosts --watch",
        "dtfctl hosts -o json",
        "dtfctl hosts check",
        "dtfctl hosts check cluster.yaml",
        "dtfctl hosts drain node3",
        "dtfctl hosts clean cluster.yaml",
        "dtfctl hosts clean cluster.yaml --all",
    ],
    exits=[0, 2, 3, 4, 5, 6, 7, 8],
)
def hosts(
    session: Session,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[check [FILE] | clean FILE | drain|undrain|release HOST...]",
            help="Nothing: list the hosts. HOST may be a pattern such as node[1-4].",
            autocompletion=complete.hosts_words,
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why a host is drained; shown by `hosts`.")
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="With `drain`: wait until its tasks run elsewhere.")
    ] = True,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="List them again every second until Ctrl-C.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="With `clean`: all clusters of the account, and dtfctl itself.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="With `clean`: also what is up, and what belongs to somebody else.")
    ] = False,
) -> int:
    """List the hosts of the cluster, check those of a spec file, or take hosts out of use and back.

    `check` logs in to every host of FILE (by default, of the running cluster) as `up` would, and says what it finds:
    whether the login works and the host key is the known one, Python, free disk, GPUs, the clock. It changes nothing,
    and it needs no more time than the slowest host. Exit code 5: some hosts cannot be used; 6: none lets us in.

    `drain` takes hosts out of use: their tasks move as far as there is room, and it waits for them. Exit code 5: some
    found none, and go on where they are. `undrain` puts hosts back. `release` ends the quarantine of hosts that failed
    too often.

    `clean` removes the cluster of FILE from its hosts: it ends every process of it, and deletes its files, logs and
    checkpoints too. What `sync` and `setup` brought, and the folder of `checkpoints.path`, stay. With --all that is
    done to all clusters in the account, and to what `up` has installed. It needs nothing but the right to log in, so
    it also ends what the machine that brought it up does not know any more. A cluster that is up from here, or
    belongs to somebody else, is left alone unless --force is given.
    """
    from dtfctl.launcher.errors import UsageError

    verb, *rest = words or [""]
    if watch and verb:
        raise UsageError(f"--watch does not go with `hosts {verb}`", "It is for the list: dtfctl hosts --watch")
    if verb == "":
        return _list(session, watch)
    if verb in ("drain", "undrain", "release") and rest:
        return _desire(session, verb, rest, reason, wait)
    if (everything or force) and verb != "clean":
        raise UsageError("--all and --force go with `hosts clean` only", "For example: dtfctl hosts clean FILE --all")
    if verb == "clean" and len(rest) == 1:
        return _clean(session, rest[0], everything, force)
    if verb == "check" and len(rest) <= 1:
        return _check(session, rest[0] if rest else None)
    raise UsageError(
        f"`hosts {' '.join(words or [])}` is not a command",
        "There are `hosts`, `hosts check [FILE]`, `hosts clean FILE` and `hosts drain|undrain|release HOST...`.",
    )


def _list(session: Session, watch: bool) -> int:
    screen = session.screen
    cluster = session.open()

    def show() -> list[str] | None:
        found = cluster.status()
        if screen.is_data:
            content = {"cluster": found.name, "hosts": [_data.plain(host) for host in found.hosts]}
            screen.record("HostList", content) if watch else screen.data("HostList", content)
            return None
        up = sum(host.state == "up" for host in found.hosts)
        return [
            f"{found.name}: {up}/{plural(len(found.hosts), 'host')} up",
            "",
            *_tables.host_table(found.hosts, screen),
        ]

    if watch:
        return repeat(screen, show, "`dtfctl hosts` shows all of them")
    for line in show() or ():
        screen.print(line)
    return 0


def _desire(session: Session, verb: str, patterns: Sequence[str], reason: str, wait: bool) -> int:
    """`drain`, `undrain` or `release` hosts."""
    from dtfctl.launcher.errors import UsageError
    from dtfctl.launcher.spec.hostlist import HostlistError, expand

    try:
        names = [host.name for host in expand(",".join(patterns))]
    except HostlistError as error:
        raise UsageError(f"{error} in `{','.join(patterns)}`", "For example: dtfctl hosts drain node[1-4]") from None
    cluster = session.open()
    screen = session.screen
    stay: tuple[str, ...] = ()
    if verb == "drain":
        tasks = [task.name for task in cluster.status().tasks if task.host in names] if wait else []
        changed = cluster.drain(names, reason=reason)
        if tasks and changed:
            stay = cluster.wait_drained(
                changed, tasks, on_wait=lambda tasks: screen.note(f"  waits for {named(tasks)} to run elsewhere")
            )
    else:
        changed = cluster.undrain(names) if verb == "undrain" else cluster.release(names)
    done = {"drain": "drained", "undrain": "back in use", "release": "released"}[verb]
    if screen.is_data:
        screen.data("Hosts", {"cluster": cluster.name, "done": verb, "hosts": list(changed), "stay": list(stay)})
    elif changed:
        screen.print(f"{done}: {', '.join(changed)}")
        if stay:
            screen.error(f"no other host has room for {named(stay)}", "they go on where they are")
    else:
        screen.print(f"nothing to do: {', '.join(names)}")
    return 5 if stay else 0


def _clean(session: Session, file: str, everything: bool, force: bool) -> int:
    """Remove a cluster, or all of dtfctl, from the hosts of a file."""
    from dtfctl.launcher.operator.clean_hosts import clean_hosts
    from dtfctl.launcher.providers.base import LOGIN_CAUSES
    from dtfctl.launcher.spec import load_spec
    from dtfctl.launcher.spec.grouping import grouped

    screen = session.screen
    spec = load_spec(file, os.environ, for_up=True)
    whole = "all of dtfctl, with every cluster," if everything else f"all of cluster {spec.cluster}"
    session.confirm(f"Delete {whole} on {plural(len(spec.hosts), 'host')}, logs and checkpoints too?")
    done = clean_hosts(spec, everything=everything, force=force)
    bad = [host for host in done if host.cause]
    if screen.is_data:
        shown = [_data.plain(host) for host in done]
        screen.data("HostClean", {"cluster": spec.cluster, "cleaned": len(done) - len(bad), "hosts": shown})
    else:
        what = "dtfctl" if everything else f"cluster {spec.cluster}"
        good, ended = plural(len(done) - len(bad), "host"), sum(host.ended for host in done)
        left = f"nothing of {what} is left on {good}; processes ended: {ended}"
        screen.print(left if len(bad) < len(done) else f"{what} was removed from none of {plural(len(done), 'host')}")
        for line in grouped([(host.name, host.problem, host.where) for host in bad]):
            screen.error(line, next((host.hint for host in bad if host.problem in line and host.hint), ""))
    if not bad:
        return 0
    return 6 if len(bad) == len(done) and all(host.cause in LOGIN_CAUSES for host in bad) else 5


def _check(session: Session, file: str | None) -> int:
    from dtfctl.launcher.operator.check_hosts import check_hosts
    from dtfctl.launcher.spec import load_spec

    screen = session.screen
    spec: ClusterSpec = load_spec(file, os.environ, for_up=True) if file else session.open().spec()
    done = 0

    def count(_: HostCheck) -> None:
        nonlocal done
        done += 1
        if screen.is_live and not screen.is_data:
            sys.stderr.write(f"\r  {done} of {plural(total, 'host')}\x1b[K")
            sys.stderr.flush()

    total = sum(not host.is_local for host in spec.hosts)
    checks = check_hosts(spec, count)
    if screen.is_live and not screen.is_data:
        sys.stderr.write("\r\x1b[K")
    bad = [check for check in checks if check.cause]
    if screen.is_data:
        shown = [{**_data.plain(check), "warnings": list(check.warnings)} for check in checks]
        screen.data("HostCheck", {"cluster": spec.cluster, "usable": len(checks) - len(bad), "hosts": shown})
    else:
        _show(session, spec, checks, bad)
    if not bad:
        return 0
    from dtfctl.launcher.providers.base import LOGIN_CAUSES

    return 6 if len(bad) == len(checks) and all(check.cause in LOGIN_CAUSES for check in bad) else 5


def _show(session: Session, spec: ClusterSpec, checks: Sequence[HostCheck], bad: Sequence[HostCheck]) -> None:
    from dtfctl.launcher.spec.grouping import grouped

    screen = session.screen
    if not checks:
        screen.print(f"{spec.cluster}: all on this machine, no host to check")
        return
    good = [check for check in checks if not check.cause]
    screen.print(f"{spec.cluster}: {len(good)}/{plural(len(checks), 'host')} can be used")
    if good:
        screen.print("")
        heads = ("HOST", "PYTHON", "MACHINE", "CORES", "GPUS", "FREE DISK", "DTFCTL", "NOTE")
        rows: list[tuple[Any, ...]] = [
            (
                check.name,
                check.python,
                check.machine,
                str(check.cores),
                str(check.gpus),
                f"{check.free_bytes / MIB / 1024:.1f}GiB",
                "there" if check.installed else "to install",
                "; ".join(check.warnings) or "-",
            )
            for check in good
        ]
        for line in columns(heads, rows, screen.style):
            screen.print(line)
    for line in grouped([(check.name, check.problem, check.where) for check in bad]):
        screen.error(line, next((c.hint for c in bad if c.problem in line and c.hint), ""))
    if good and not bad:
        screen.next("dtfctl up FILE")
