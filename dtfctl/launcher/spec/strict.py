"""What is valid in a spec and still looks like a mistake, or would make `up` fail on this machine."""

from __future__ import annotations

from pathlib import Path

from dtfctl.launcher.spec.model import ClusterSpec, Ssh
from dtfctl.launcher.spec.parse import Reader


def look_closely(spec: ClusterSpec, reader: Reader, folder: Path) -> None:
    """Add to `reader` what `validate --strict` refuses. Relative paths start at `folder`, where the file is."""
    _files_are_there(spec, reader, folder)
    _groups_are_used(spec, reader)
    _failures_can_be_survived(spec, reader)


def _files_are_there(spec: ClusterSpec, reader: Reader, folder: Path) -> None:
    def look(path: tuple[str, ...], name: str, advice: str) -> None:
        if not (folder / Path(name).expanduser()).exists():
            reader.problem(reader.mark(*path), f"`{name}` is not on this machine", advice)

    for number, item in enumerate(spec.sync):
        look(("sync", str(number), "from"), item.source, "`up` would send it to the hosts.")
    if spec.is_local:
        return
    if spec.ssh.key is not None:
        look(("ssh", "key"), spec.ssh.key, "`up` would log in with it.")
    if spec.ssh.known_hosts != Ssh().known_hosts and spec.ssh.host_keys == "strict":
        look(("ssh", "known_hosts"), spec.ssh.known_hosts, "With `host_keys: strict` no host could be trusted.")


def _groups_are_used(spec: ClusterSpec, reader: Reader) -> None:
    """Find groups that no task may use, and which do nothing. Spares that none names are for all."""
    used = {name for group in spec.tasks.values() if group.count for name in group.hosts or spec.host_groups}
    for name, group in spec.host_groups.items():
        if name not in used and not group.spare:
            reader.problem(
                reader.mark("hosts", name),
                f"no task may run on the hosts of `{name}`",
                f"Add `{name}` to `hosts` of a task group, or leave the group out.",
            )


def _failures_can_be_survived(spec: ClusterSpec, reader: Reader) -> None:
    if spec.restart.when != "never" and spec.restart.attempts == 0:
        reader.problem(
            reader.mark("restart", "attempts"),
            "`attempts: 0` gives a task up when it fails for the first time",
            "Allow some, or say `when: never`.",
        )
