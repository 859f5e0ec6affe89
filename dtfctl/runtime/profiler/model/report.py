"""Print a view of `tf.profiler.profile`, as TensorFlow does."""

from __future__ import annotations

from collections.abc import Iterator

from dtfctl.runtime.profiler.model.nodes import Figures
from dtfctl.runtime.profiler.model.options import Options
from dtfctl.runtime.profiler.model.views import ROOT, Place

_HEADS = {
    "bytes": "requested bytes",
    "peak_bytes": "peak bytes",
    "residual_bytes": "residual bytes",
    "output_bytes": "output bytes",
    "micros": "total execution time | accelerator execution time | cpu execution time",
    "accelerator_micros": "accelerator execution time",
    "cpu_micros": "cpu execution time",
    "params": "# parameters",
    "float_ops": "# float_ops",
    "occurrence": "op occurrence (run|defined)",
    "device": "assigned devices",
    "op_types": "op types",
    "input_shapes": "input shapes",
}
_WORDS = {
    "scope": "The nodes in the model graph are organized by their names, which is hierarchical like filesystem.",
    "graph": "The nodes in the model graph are organized by their inputs.",
    "op": "The nodes are operation kernel type, such as MatMul, Conv2D. Nodes of a type are aggregated.",
    "code": "The nodes are lines of the program, organized by its calls.",
}
_WIDTH = 25


def report(cmd: str, root: Place, options: Options) -> str:
    """Write a view as text: a line each of what is shown, with what was selected."""
    selected = [name for name in _HEADS if name in options["select"]]
    lines = ["", "=========================Options============================="]
    lines += [f"-{name:<26}{_option(value)}" for name, value in options.items()]
    lines += ["", "==================Model Analysis Report======================", "", "Doc:"]
    lines += [f"{cmd}: {_WORDS[cmd]}", "", "Profile:", " | ".join(["node name", *(_HEADS[name] for name in selected)])]
    lines += _list(root, selected) if cmd == "op" else _tree(root, selected)
    lines += ["", "======================End of Report=========================="]
    return "\n".join(lines) + "\n"


def _option(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tree(root: Place, selected: list[str]) -> Iterator[str]:
    stack = [(root, 0)]
    while stack:
        place, depth = stack.pop()
        facts = [text for name in selected for text in _pair(place, name)]
        yield "  " * depth + f"{place.name} ({', '.join(facts)})"
        stack.extend((child, depth + 1) for child in reversed(place.children))


def _pair(place: Place, name: str) -> Iterator[str]:
    """Write a figure of a line: its own, and with what is below it."""
    if name == "micros":
        for part in ("micros", "accelerator_micros", "cpu_micros"):
            yield _both(place, part)
    elif name == "params":
        total = f"{_number(place.total.params)} params"
        yield f"{_shape(place)}, {_number(place.own.params)}/{total}" if place.own.params else f"--/{total}"
    elif name == "float_ops":
        own = _number(place.own.float_ops) if place.nodes else "--"
        yield f"{own}/{_number(place.total.float_ops)} flops"
    elif name == "occurrence":
        yield f"{place.total.run_count}|{place.total.occurrence}"
    elif name in ("device", "op_types", "input_shapes"):
        yield _words(place, name)
    else:
        yield _both(place, name)


def _shape(place: Place) -> str:
    shapes = [node.variable_shape for node in place.nodes if node.figures.params]
    return "|".join("x".join(map(str, shape)) if shape else "1" for shape in shapes)


def _words(place: Place, name: str) -> str:
    found: list[str] = []
    for node in place.nodes:
        if name == "device":
            found += node.devices
        elif name == "op_types":
            found += sorted(node.types - set(node.devices))
        else:
            found += [f"{number}:{shape}" for number, shape in enumerate(node.input_shapes)]
    return "|".join(dict.fromkeys(found)) or "--"


def _both(place: Place, name: str) -> str:
    own = "--" if place.name == ROOT else _amount(place.own, name)
    return f"{own}/{_amount(place.total, name)}"


def _amount(figures: Figures, name: str) -> str:
    value = getattr(figures, name)
    if name.endswith("micros"):
        return time_of(value)
    if name.endswith("bytes"):
        for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
            if value >= size:
                return f"{value / size:.2f}{unit}"
        return f"{value}B"
    if name == "float_ops":
        return f"{_number(value)} float_ops"
    return _number(value)


def time_of(micros: int) -> str:
    """Write a time as TensorFlow does."""
    return f"{micros}us" if micros < 1000 else f"{micros / 1e3:.2f}ms" if micros < 1e6 else f"{micros / 1e6:.2f}sec"


def _number(value: int) -> str:
    for unit, size in (("b", 1e9), ("m", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.2f}{unit}"
    return str(value)


def _list(root: Place, selected: list[str]) -> Iterator[str]:
    whole, place = root.total, root
    while place.children:
        place = place.children[0]
        facts = []
        for name in selected:
            for part in ("micros", "accelerator_micros", "cpu_micros") if name == "micros" else (name,):
                if part in ("device", "op_types", "input_shapes"):
                    facts.append(_words(place, part))
                elif part == "occurrence":
                    facts.append(f"{place.own.run_count}|{place.own.occurrence}")
                else:
                    shares = [_share(figures, whole, part) for figures in (place.total, place.own)]
                    facts.append(f"{_amount(place.own, part)} ({', '.join(shares)})")
        yield f"{place.name:<{_WIDTH}}" + ", ".join(f"{fact:>30}" for fact in facts)


def _share(part: Figures, whole: Figures, name: str) -> str:
    total = getattr(whole, name)
    return f"{getattr(part, name) / total:.2%}" if total else "0.00%"
