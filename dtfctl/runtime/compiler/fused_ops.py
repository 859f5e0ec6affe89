"""`tf.register_fused`: a kernel of one's own for what several ops compute."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

from dtfctl.runtime.compiler.optimize import Rewrites, optimize
from dtfctl.runtime.compiler.passes.fuse import Pattern, add_pattern
from dtfctl.runtime.compiler.passes.rewrite import drop_unused, is_pure, type_attr
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.op_signature import OpSignature, parse_signature, register_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.kernels.registry import Factory, register_kernel

MOST_NODES = 64
_END = "end"


def register_fused(
    op: str,
    *,
    pattern: Callable[..., Any],
    kernel: Factory,
    devices: tuple[str, ...] = ("CPU",),
    types: Iterable[Any] = (dtypes.float32, dtypes.float64),
    **kernel_options: Any,
) -> str:
    """Let one kernel do what several ops do: graphs that compute the pattern run it instead.

    Where a step's graph has the pattern's ops, on one device, and nothing else takes what is computed on the way, the
    task that compiles the step puts the fused op in their place, as tasks do in the bodies of functions that they run.
    Fetched values, gradients (which are part of the graph already) and checkpoints are what they were, if the kernel
    computes what the pattern does. A graph without the pattern is left as it is, and all graphs are by
    `graph_options.rewrite_options.remapping = OFF`.

    Args:
        op: a name for the fused op, whose inputs are then the pattern's parameters, all of one type; or its signature
            ("Distances(a: T, b: T) -> (d: T); T: type in {float, double}").
        pattern: a function of tensors of unknown shape, which builds the ops to look for and returns one tensor, or
            several, the first of which is computed from all others. A constant of it is that constant, of that shape.
        kernel: makes the kernel, as the function that `tf.register_kernel` decorates does.
        devices: the types of devices that it is for.
        types: the types of inputs and outputs, where `op` is only a name.
        kernel_options: see `tf.register_kernel`: `promises`, `step`, ...

    Returns:
        The op's name.

    Raises:
        InvalidArgumentError: the signature does not fit the pattern, the pattern computes nothing, does not use a
            parameter, holds variables or random numbers, or is large; another op has the name; or there are no such
            devices.
    """
    unknown = set(devices) - {"CPU", "GPU"}
    if unknown or not devices:
        raise InvalidArgumentError(f"{op}: devices are 'CPU' and 'GPU', not {sorted(unknown)}")
    names = [*inspect.signature(pattern).parameters]
    kinds = tuple(as_dtype(kind) for kind in types)
    notation = op if "(" in op else _notation(op, names, pattern, kinds)
    signature = parse_signature(notation)
    if [arg.name for arg in signature.inputs] != names:
        raise InvalidArgumentError(
            f"{signature.name}: inputs {[a.name for a in signature.inputs]}, and parameters {names} of its pattern"
        )
    patterns = [found for chosen in _choices(signature) for found in _traced(signature, pattern, chosen)]
    register_op(notation)
    options: dict[str, Any] = {attr.name: attr.allowed for attr in signature.attrs} | kernel_options
    register_kernel(signature.name, devices=devices, **options)(kernel)
    for found in patterns:
        add_pattern(found)
    return signature.name


def _notation(op: str, names: list[str], pattern: Callable[..., Any], kinds: tuple[DType, ...]) -> str:
    """Write the signature of an op all of whose inputs and outputs have one type."""
    if not kinds:
        raise InvalidArgumentError(f"{op}: `types` is empty")
    with Graph().as_default():
        outputs = len(_outputs(op, pattern(*(apply_op("Placeholder", dtype=kinds[0], name=name) for name in names))))
    inputs = ", ".join(f"{name}: T" for name in names)
    given = ", ".join(f"output_{i}: T" for i in range(outputs))
    words = ", ".join(_WORDS.get(kind.name, kind.name) for kind in kinds)
    return f"{op}({inputs}) -> ({given}); T: type in {{{words}}}"


_WORDS = {"float32": "float", "float64": "double"}


def _outputs(op: str, found: Any) -> list[Any]:
    outputs = list(found) if isinstance(found, (list, tuple)) else [found]
    if not outputs or not all(isinstance(output, Tensor) for output in outputs):
        raise InvalidArgumentError(f"{op}: the pattern returns {found!r}, and is to return a tensor or several")
    return outputs


def _choices(signature: OpSignature) -> Iterator[dict[str, DType]]:
    """Yield the types that the op's type attributes may have."""
    for arg in (*signature.inputs, *signature.outputs):
        if arg.is_list or arg.is_ref:
            raise InvalidArgumentError(f"{signature.name}: '{arg.name}' of a fused op is to be one tensor")
    for attr in signature.attrs:
        if attr.kind != "type" or not attr.allowed:
            raise InvalidArgumentError(
                f"{signature.name}: attribute '{attr.name}' of a fused op is to be a type, with those that it may be: "
                "what else a pattern needs is a constant in it, or an input"
            )
    for chosen in product(*(attr.allowed for attr in signature.attrs)):
        yield {attr.name: kind for attr, kind in zip(signature.attrs, chosen)}


def _traced(signature: OpSignature, pattern: Callable[..., Any], chosen: dict[str, DType]) -> list[Pattern]:
    """Build the pattern's ops for some types: in the form that rewrites leave a step's graph in, and as written.

    The second is what graphs have before, where folding would take apart what meets a constant, and what functions'
    bodies have, which are not rewritten.
    """
    name = signature.name
    front = Graph()
    with front.as_default():
        inputs = [
            apply_op("Placeholder", dtype=arg.dtype or chosen[arg.type_attr], name=f"input_{i}")
            for i, arg in enumerate(signature.inputs)
        ]
        outputs = _outputs(name, pattern(*inputs))
        if len(outputs) != len(signature.outputs):
            raise InvalidArgumentError(f"{name}: the pattern gives {len(outputs)} of {len(signature.outputs)} outputs")
        for output, arg in zip(outputs, signature.outputs):
            wanted = arg.dtype or chosen[arg.type_attr]
            if output.dtype.base_dtype is not wanted:
                raise InvalidArgumentError(f"{name}: '{arg.name}' is {output.dtype.name} and not {wanted.name}")
        make_op("IdentityN", input=outputs, name=_END)
    graph, written = (NodeGraph.from_graph_def(front.as_graph_def()) for _ in range(2))
    for node in graph:
        node.device = "/device:CPU:0"
    optimize(graph, [_END], Rewrites(fuse=False))
    drop_unused(written, [written.nodes[_END]])
    unused = [arg.name for i, arg in enumerate(signature.inputs) if f"input_{i}" not in graph.nodes]
    if unused:
        raise InvalidArgumentError(f"{name}: the pattern does not use {', '.join(unused)}")
    attrs = {key: type_attr(kind) for key, kind in chosen.items()}
    found = [
        Pattern(
            name, attrs, tuple(form.nodes[f"input_{i}"] for i in range(len(inputs))), tuple(form.nodes[_END].inputs)
        )
        for form in (graph, written)
    ]
    _check(found[0], graph)
    return found[: 1 + _is_another(found[1], found[0], written)]


def _is_another(written: Pattern, rewritten: Pattern, graph: NodeGraph) -> bool:
    """Tell whether what was written can be looked for, too: it differs, and holds nothing that rewrites took away."""
    whole = {*written.computing, *written.inputs, graph.nodes[_END]}
    return (
        written.size <= MOST_NODES
        and all(node in whole or node.op == "Const" for node in graph)
        and all(map(is_pure, written.computing))
        and _described(written) != _described(rewritten)
    )


def _described(pattern: Pattern) -> set[tuple[Any, ...]]:
    """Describe what a pattern looks for, by the names that both forms have of it."""
    return {
        (node.name, node.op, *(str((e.node.name, e.slot, e.node.raw_attrs.get("value"))) for e in node.inputs))
        for node in pattern.computing
    } | {(edge.node.name, edge.slot) for edge in pattern.outputs}


def _check(pattern: Pattern, graph: NodeGraph) -> None:
    if not pattern.computing:
        raise InvalidArgumentError(f"{pattern.op}: the pattern computes nothing")
    if pattern.size > MOST_NODES:
        raise InvalidArgumentError(f"{pattern.op}: the pattern has {pattern.size} ops, and may have {MOST_NODES}")
    for node in graph:
        if node.name == _END or node in pattern.inputs or node.op == "Const":
            continue
        if node not in pattern.computing:
            raise InvalidArgumentError(f"{pattern.op}: {node.op} of the pattern is not on the way to its first output")
        if not is_pure(node):
            raise InvalidArgumentError(
                f"{pattern.op}: {node.op} of the pattern has a state or draws numbers; only what always computes the "
                "same can be replaced"
            )
