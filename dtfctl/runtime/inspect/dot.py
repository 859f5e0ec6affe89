"""A stage in Graphviz's language: a box a task, boxes in it for name scopes, a red edge for what crosses."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from dtfctl.runtime.framework.structural_ops import RECVS, SENDS
from dtfctl.runtime.inspect.stages import ShownNode, Stage, transfers
from dtfctl.runtime.inspect.text import counted

_MOST = 150
"""Scopes are closed until there are at most so many boxes, where no depth is given."""
_DEEPEST = 50


def dot(stage: Stage, title: str, depth: int | None = None, scope: str = "") -> str:
    """Draw a stage.

    Args:
        depth: what lies below so many name scopes is one box; None: as deep as leaves `_MOST` boxes.
        scope: only what is below it.
    """
    nodes = [node for node in stage.nodes.values() if not scope or f"{node.name}/".startswith(f"{scope}/")]
    if depth is None:
        fitting = [d for d in range(1, _DEEPEST) if len({_box(node, d) for node in nodes}) <= _MOST]
        depth = max(fitting, default=1)
    return "\n".join(_lines(stage, nodes, title, depth)) + "\n"


def _box(node: ShownNode, depth: int) -> tuple[str, str]:
    """Find the box of a node: its task, and its own name or that of the scope that stands for it."""
    parts = node.name.split("/")
    return node.task, node.name if len(parts) <= depth else "/".join(parts[:depth]) + "/"


def _lines(stage: Stage, nodes: Sequence[ShownNode], title: str, depth: int) -> Iterator[str]:
    boxes: dict[tuple[str, str], list[ShownNode]] = {}
    for node in nodes:
        boxes.setdefault(_box(node, depth), []).append(node)
    ids = {box: f"n{number}" for number, box in enumerate(boxes)}
    of_node = {node.name: ids[box] for box, held in boxes.items() for node in held}
    yield "digraph {"
    yield f"  label={_text(title)}; labelloc=t; fontname=Helvetica; rankdir=TB; compound=true;"
    yield '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=Helvetica, fontsize=10];'
    yield '  edge [color="#666666", fontname=Helvetica, fontsize=8, arrowsize=0.6];'
    for number, task in enumerate(sorted({task for task, _ in boxes})):
        title = _text(task or "anywhere")
        yield f"  subgraph cluster_{number} {{"
        yield f'    label={title}; style="rounded,filled"; fillcolor="#f2f5fa"; color="#a0a8b8";'
        for box, held in boxes.items():
            if box[0] == task:
                yield f"    {ids[box]} [{_look(box[1], held)}];"
        yield "  }"
    drawn: Counter[tuple[str, str, bool]] = Counter()
    for node in nodes:
        for text in node.inputs:
            drawn[of_node.get(text.rpartition(":")[0], ""), of_node[node.name], False] += 1
        for before in node.controls:
            drawn[of_node.get(before, ""), of_node[node.name], True] += 1
    for (source, target, is_control), count in drawn.items():
        if source and source != target:
            style = "style=dashed" if is_control else f"penwidth={min(1 + count / 4, 4):.1f}"
            yield f"  {source} -> {target} [{style}];"
    for pair in transfers(stage):
        ends = of_node.get(pair.send), of_node.get(pair.receive)
        if all(ends):
            label = _text(f"{pair.tensor} {pair.types}".strip())
            yield f'  {ends[0]} -> {ends[1]} [color="#c62828", fontcolor="#c62828", penwidth=1.5, label={label}];'
    yield "}"


def _look(name: str, held: Sequence[ShownNode]) -> str:
    if name.endswith("/"):
        ops = Counter(node.op for node in held)
        most = ", ".join(f"{count} {op}" for op, count in ops.most_common(3))
        held_text = f"{counted(len(held), 'node')}: {most}"
        return f'label={_text(name, held_text)}, fillcolor="#dde6f5"'
    (node,) = held
    fill = ', fillcolor="#fde0dc"' if node.op in SENDS or node.op in RECVS else ""
    return f"label={_text(node.name, f'{node.op} {node.types}'.strip())}{fill}"


def _text(*lines: str) -> str:
    """Write a text of Graphviz's: JSON's escapes of quotes and backslashes are its own, too."""
    return json.dumps("\n".join(line.replace("\\", "\\\\") for line in lines), ensure_ascii=False)
