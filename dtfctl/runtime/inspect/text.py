"""A stage as a tree of text: tasks, name scopes, nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dtfctl.runtime.framework.structural_ops import SENDS
from dtfctl.runtime.inspect.stages import ShownNode, Stage, change, transfers

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


def overview(found: Sequence[Stage]) -> list[tuple[str, str, str]]:
    """Sum up each stage: its name, how many nodes by task, and what it changed."""
    rows = []
    for number, stage in enumerate(found):
        counts = Counter(node.task for node in stage.nodes.values())
        where = ", ".join(f"{task} {count}" for task, count in sorted(counts.items()) if task)
        total = str(len(stage.nodes))
        rows.append((stage.name, f"{total}: {where}" if where else total, _changed(found, number)))
    return rows


def _changed(found: Sequence[Stage], number: int) -> str:
    if not number:
        return found[0].why
    done = change(found[number - 1], found[number])
    said = []
    for names, sign in ((done.removed, "-"), (done.added, "+")):
        if names:
            more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
            said.append(f"{sign}{len(names)} ({', '.join(names[:_MOST_NAMES])}{more})")
    if not said and found[number].name == "placed":
        return found[number].why
    if done.changed and not said:
        said.append(f"{len(done.changed)} changed ({', '.join(done.changed[:_MOST_NAMES])})")
    return "; ".join(said) or "nothing to do"


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
        lines.append(f"{task or 'anywhere'}: {len(nodes)} nodes")
        lines += _branches(scoped(nodes), depth, "")
    pairs = transfers(stage)
    if pairs:
        lines += ["", f"{len(pairs)} tensors between tasks"]
        lines += [f"  {pair.source} -> {pair.target}  {pair.tensor}  {pair.types}".rstrip() for pair in pairs]
    return lines


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
            yield f"{indent}{stem}{item.name}/  {total} nodes: {most}" + (f" and {rest} more" if rest else "")
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
