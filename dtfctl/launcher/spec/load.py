"""A file, or its text, to a `ClusterSpec`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dtfctl.launcher.spec.available import unavailable
from dtfctl.launcher.spec.checks import check
from dtfctl.launcher.spec.kinds import Table
from dtfctl.launcher.spec.model import LENDERS, ClusterSpec, Ssh, is_default_hosts, lent_hosts
from dtfctl.launcher.spec.nodes import MAX_BYTES, NotYaml, compose
from dtfctl.launcher.spec.parse import Reader
from dtfctl.launcher.spec.problems import InvalidSpec, Problem
from dtfctl.launcher.spec.strict import look_closely

_SMALLEST = "The smallest spec is:\n          cluster: dev\n          tasks: {ps: 1, worker: 2}"


def load_spec(
    path: str | Path, environ: Mapping[str, str] | None = None, *, for_up: bool = False, strict: bool = False
) -> ClusterSpec:
    """Load the spec in the file at `path`. `environ` fills `${NAME}` in `env` and `ssh`;
    without it they stay as written.

    InvalidSpec, with every problem found, if the file cannot be read or is not valid; with `for_up` also if it asks
    for something this version cannot do, and with `strict` if anything in it looks like a mistake.
    """
    text, name = read_file(path), str(path)
    reader = Reader(environ)
    spec = read_spec(text, name, reader)
    if for_up:
        for missing in unavailable(spec):
            reader.problem(reader.mark(*missing.path), missing.message, "Remove the key, or use a later version.")
    if strict:
        look_closely(spec, reader, Path(path).absolute().parent)
    if for_up or strict:
        if reader.problems:
            raise InvalidSpec(name, reader.problems, text)
        spec = resolved(spec, Path(path).absolute().parent)
    return spec


def resolved(spec: ClusterSpec, folder: Path) -> ClusterSpec:
    """Make this machine's paths in `spec` absolute; relative ones start at `folder`, where its file is."""

    def at(path: str) -> str:
        return os.path.normpath(folder / Path(path).expanduser())

    ssh = spec.ssh
    if ssh.known_hosts != Ssh().known_hosts:
        ssh = replace(ssh, known_hosts=at(ssh.known_hosts))
    if ssh.key is not None:
        ssh = replace(ssh, key=at(ssh.key))
    return replace(spec, ssh=ssh, sync=tuple(replace(item, source=at(item.source)) for item in spec.sync))


def read_file(path: str | Path, where_from: str = "`dtfctl init` writes a starter spec.") -> str:
    """Read the text of the spec file at `path`; InvalidSpec, with the hint `where_from`, where it cannot be read."""
    name = str(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InvalidSpec(name, [Problem(0, 0, "no such file", where_from)]) from None
    except IsADirectoryError:
        raise InvalidSpec(
            name, [Problem(0, 0, "this is a folder", "Expected a spec file, such as cluster.yaml.")]
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidSpec(name, [Problem(0, 0, f"cannot be read: {reason}")]) from None
    return decode(data, name)


def decode(data: bytes, name: str) -> str:
    """Decode the text of a spec file; InvalidSpec where it is too long or not UTF-8."""
    if len(data) > MAX_BYTES:
        raise InvalidSpec(name, [Problem(0, 0, f"longer than {MAX_BYTES >> 20} MiB: not a spec file")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        raise InvalidSpec(
            name,
            [Problem(line, column, f"not UTF-8 text (byte 0x{data[error.start]:02x})", "Save the file as UTF-8.")],
            data.decode("utf-8", "replace"),
        ) from None


def parse_spec(text: str, name: str = "<spec>", environ: Mapping[str, str] | None = None) -> ClusterSpec:
    """Parse the spec in `text`; `name` stands for the file in messages. InvalidSpec with every problem if it is not
    valid."""
    return read_spec(text, name, Reader(environ))


def read_spec(text: str, name: str, reader: Reader) -> ClusterSpec:
    """Parse a spec as `parse_spec` does, leaving in `reader` where each key stands."""
    try:
        root = compose(text)
    except NotYaml as error:
        raise InvalidSpec(name, [error.problem], text) from None
    if root is None:
        raise InvalidSpec(name, [Problem(1, 1, "the file is empty", _SMALLEST)], text)
    spec = reader.read(Table(ClusterSpec), root, ())
    if isinstance(spec, ClusterSpec):
        spec = _with_lent_hosts(spec, reader.environ or {})
        check(spec, reader)
    if reader.problems:
        raise InvalidSpec(name, reader.problems, text)
    if not isinstance(spec, ClusterSpec):
        raise AssertionError(f"no spec and no problem from {name}")
    return spec


def _with_lent_hosts(spec: ClusterSpec, environ: Mapping[str, str]) -> ClusterSpec:
    """Name the hosts that are lent; how many, the file says or the allocation in which this runs."""
    if spec.provider not in LENDERS:
        return spec
    there = environ.get("SLURM_JOB_NUM_NODES", "")
    if spec.provider == "slurm" and spec.slurm.nodes is None:
        spec = replace(spec, slurm=replace(spec.slurm, nodes=max(1, int(there)) if there.isdecimal() else 1))
    return replace(spec, host_groups=lent_hosts(spec)) if is_default_hosts(spec.host_groups) else spec
