"""A stage as a tree of text: tasks, name scopes, nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dtfctl.runtime.framework.structural_ops import SENDS
from dtfctl.runtime.inspect.stages import ShownNode, Stage, Transfer, change, transfers

_WHOLE = 80
"""A stage of at most so many nodes is shown with all of them where no depth is given."""
_DEPTH = 2
_MOST_NAMES = 3


@dataclass
class Scope:
    """Nodes below a prefix of their names."""

    name: str
    scopes: dict[str, Scope] = field(default_factory=dict)
    nodes: list[ShownNode] = field(default_factory=list)

    def all(self) -> Iterator[ShownNode]:
        """Give all nodes in it and below it."""
        yield from self.nodes
        for scope in self.scopes.values():
            yield from scope.all()


def scoped(nodes: Iterable[ShownNode]) -> Scope:
    """Sort nodes into their name scopes."""
    top = Scope("")
    for node in nodes:
        here = top
        for part in node.name.split("/")[:-1]:
            here = here.scopes.setdefault(part, Scope(part))
        here.nodes.append(node)
    return top


def overview(found: Sequence[Stage]) -> list[tuple[str, str, str, str]]:
    """Sum up each stage: its name, how many nodes by task, what it is for, and what it changed ("": nothing)."""
    rows = []
    for number, stage in enumerate(found):
        counts = Counter(node.task for node in stage.nodes.values())
        free = counts.pop("", 0)
        where = ", ".join(
            [*(f"{task} {n}" for task, n in sorted(counts.items())), *([f"anywhere {free}"] if free else [])]
        )
        total = str(len(stage.nodes))
        did = _changed(found[number - 1], stage) if number else ""
        rows.append((stage.name, f"{total}: {where}" if where else total, stage.why, did))
    return rows


def _changed(before: Stage, after: Stage) -> str:
    done = change(before, after)
    said = [
        f"{sign}{counted(len(names), 'node')} ({_some(names)})"
        for names, sign in ((done.removed, "-"), (done.added, "+"))
        if names
    ]
    if after.name not in ("placed", "partitioned"):
        said += _rewritten(before, after, done.changed)
    return "; ".join(said)


def _rewritten(before: Stage, after: Stage, names: Sequence[str]) -> list[str]:
    """Say which nodes have another op now, and which only other inputs."""
    ops = {name: (before.nodes[name].op, after.nodes[name].op) for name in names}
    others = [f"{name}: {old} -> {new}" for name, (old, new) in ops.items() if old != new]
    wired = [name for name, (old, new) in ops.items() if old == new]
    said = [f"{counted(len(others), 'node')} computed otherwise ({_some(others)})"] if others else []
    return [*said, f"{counted(len(wired), 'node')} with other inputs ({_some(wired)})"] if wired else said


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def counted(count: int, what: str) -> str:
    """Say how many there are of what ends with an s where there are several."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def tree(stage: Stage, depth: int | None = None, scope: str = "") -> list[str]:
    """Draw a stage.

    Args:
        depth: name scopes below it are summed up; None: `_DEPTH` where there are many nodes.
        scope: only what is below it.
    """
    wanted = [node for node in stage.nodes.values() if not scope or f"{node.name}/".startswith(f"{scope}/")]
    if depth is None:
        depth = 1000 if len(wanted) <= _WHOLE else _DEPTH
    lines = []
    for task in sorted({node.task for node in wanted}):
        nodes = [node for node in wanted if node.task == task]
        lines.append(f"{task or 'anywhere'}: {counted(len(nodes), 'node')}")
        lines += _branches(scoped(nodes), depth, "")
    names = {node.name for node in wanted}
    pairs = [pair for pair in transfers(stage) if pair.send in names or pair.receive in names]
    if pairs:
        lines += ["", f"{counted(len(pairs), 'Send/Receive pair')}, each an edge that crosses from task to task:"]
        rows = [_pair(pair) for pair in pairs]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return lines


def _pair(pair: Transfer) -> tuple[str, str, str, str]:
    """Say where a tensor goes, which one, what it is, and the nodes that send and receive it."""
    what = "no value: that it has run" if pair.is_control else pair.types
    return f"{pair.source} -> {pair.target}", pair.tensor, what, f"{pair.send} -> {pair.receive}"


def _branches(scope: Scope, depth: int, indent: str) -> Iterator[str]:
    items: list[Scope | ShownNode] = [*scope.scopes.values(), *scope.nodes]
    for place, item in enumerate(items):
        is_last = place == len(items) - 1
        stem, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
        if isinstance(item, ShownNode):
            yield f"{indent}{stem}{_line(item)}"
        elif depth <= 1:
            ops = Counter(node.op for node in item.all())
            total = sum(ops.values())
            most = ", ".join(f"{count} {op}" for op, count in ops.most_common(_MOST_NAMES))
            rest = total - sum(count for _, count in ops.most_common(_MOST_NAMES))
            yield f"{indent}{stem}{item.name}/  {counted(total, 'node')}: {most}" + (
                f" and {rest} more" if rest else ""
            )
        else:
            yield f"{indent}{stem}{item.name}/"
            yield from _branches(item, depth - 1, indent + below)


def _line(node: ShownNode) -> str:
    words = [node.name.rpartition("/")[2], node.op]
    if node.types:
        words.append(node.types)
    if node.other:
        words.append(f"to {node.other}" if node.op in SENDS else f"from {node.other}")
    sources = [*map(_edge, node.inputs), *(f"^{name}" for name in node.controls)]
    if sources:
        words.append("<- " + ", ".join(sources))
    return "  ".join(words)


def _edge(text: str) -> str:
    return text.removesuffix(":0")
