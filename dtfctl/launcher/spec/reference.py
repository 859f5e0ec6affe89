"""The spec's reference page in Markdown, made from the same kinds as the parser."""

from __future__ import annotations

from dtfctl.launcher.spec.document import plain
from dtfctl.launcher.spec.kinds import (
    MISSING,
    HostBlock,
    Kind,
    ListOf,
    MapOf,
    Table,
    TableKey,
    keys_of,
)
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.spec.words import words

_HEAD = """\
<!-- Made by `make docs` from dtfctl/launcher/spec/model.py; do not edit. -->
# The cluster spec

A cluster is described by one YAML file. Two keys are enough for a cluster on this machine:

```yaml
cluster: demo
tasks: {ps: 1, worker: 2}
```

`dtfctl validate FILE` checks a file and lists everything that is wrong with it, each with its line, column and the
nearest valid key. `dtfctl schema` prints the JSON Schema; with the YAML extension of an editor, this first line of a
spec completes and checks it while you type:

```yaml
# yaml-language-server: $schema=./dtfctl/launcher/spec/schema.json
```

Files are read as YAML 1.2: `1:30` is text, and so would be `no` and `on`, which are refused without quotes because some
tools read them as false and true. A key cannot be set twice, and there are no tags and no merges. Durations carry units
(`500ms`, `2s`, `10m`, `1h`), so do sizes (`512MiB`, `1.5GB`) and rates (`10MiB/s`).

Host names are written as in other cluster tools: `r[1-4]g[01-24]` is 96 hosts, commas join names, `!r2g07` leaves one
out, `[1-9/2]` has a step, `alice@` sets the login. Zeros in front are kept, and all numbers of such a bracket must be
equally wide.
"""


def reference() -> str:
    """Write the whole page."""
    out = [_HEAD]
    seen: set[type] = set()
    _section(ClusterSpec, "Keys", out, seen, level=2)
    return "\n".join(out)


def _section(cls: type, title: str, out: list[str], seen: set[type], level: int) -> None:
    seen.add(cls)
    items = keys_of(cls)
    out.append(f"{'#' * level} {title}\n")
    if level > 2:
        out.append(f"{(cls.__doc__ or '').strip()}\n")
    out.append("| key | holds | default | what it does | example |\n|---|---|---|---|---|")
    out += [_row(item) for item in items]
    out.append("")
    for item in items:
        inner = _table_in(item.key.kind)
        if inner is not None and inner not in seen:
            name = item.name if level == 2 else f"{title.strip('`')}.{item.name}"
            _section(inner, f"`{name}`", out, seen, level=3)


def _row(item: TableKey) -> str:
    cells = [f"`{item.name}`", words(item.key.kind), _default(item), item.key.help, f"`{item.key.example}`"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(item: TableKey) -> str:
    if item.required:
        return "required"
    if item.key.default_text is not None:
        return item.key.default_text
    if item.default in (None, (), {}) or item.default is MISSING:
        return "none"
    value = plain(item.key.kind, item.default, defaults=False)
    if isinstance(value, dict):
        inside = ", ".join(f"{name}: {part}" for name, part in value.items())
        return f"`{{{inside}}}`" if inside else "see below"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


def _table_in(kind: Kind) -> type | None:
    match kind:
        case Table(cls):
            return cls
        case MapOf(value=part) | ListOf(item=part):
            return _table_in(part)
        case HostBlock(group):
            return group.cls
    return None
