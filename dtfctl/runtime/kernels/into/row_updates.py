"""Updates of rows of variables by gradients whose indices may repeat, as one call.

Optimizers add up the rows of an index before they apply them, by four nodes whose results differ in size from step to
step. One pass of machine code does all of it; what it takes and what it changes has the same shapes in every step.

    indices ─► Unique ─► Shape ─► StridedSlice ┐
    rows ────────────────► UnsortedSegmentSum ◄┘──► SparseApplyAdagrad
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.into.elementwise import is_float
from dtfctl.runtime.kernels.into.fusions import Around, Fusion, Line, fuses
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit
from dtfctl.runtime.kernels.into.rows import check_rows, is_vector
from dtfctl.runtime.kernels.into.updates import factors_of, finder
from dtfctl.runtime.kernels.native import updating
from dtfctl.runtime.kernels.registry import KernelBuild
from dtfctl.runtime.memory.held_value import change_all

# op core -> (how many variables, flag)
_RULES: dict[str, tuple[int, str | None]] = {
    "Momentum": (2, "use_nesterov"),
    "RMSProp": (3, None),
    "Adagrad": (2, "update_slots"),
    "Ftrl": (3, None),
}
_OPS = [f"{prefix}SparseApply{core}" for core in _RULES for prefix in ("", "Resource")]


@fuses(*_OPS)
def _add_up_and_apply(node: Node, around: Around) -> Iterator[Fusion]:
    """Let updates of rows find out themselves which indices are alike, all that do so of the same indices."""
    _, indices = _given(node)
    unique, slot = around.root(node.inputs[indices])
    if unique.op != "Unique" or slot:
        return
    updates = [taker for taker in around.taken_by((unique, 0)) if taker.op in _OPS]
    if not updates or node is not updates[-1]:
        return
    numbers = around.root(unique.inputs[0])
    shared: list[Node] = [unique]
    lines: list[Line] = []
    for update in updates:
        total = around.only_made_by(update.inputs[_given(update)[0]], "UnsortedSegmentSum")
        if total is None or around.root(total.inputs[1]) != (unique, 1):
            return
        size = around.root(total.inputs[2])[0]
        shape = around.root(size.inputs[0])[0] if size.op == "StridedSlice" else size
        if shape.op != "Shape" or around.root(shape.inputs[0]) != (unique, 0):
            return
        shared += [n for n in (size, shape) if n not in shared]
        rows = around.root(total.inputs[0])
        made = _update(around.build(update), _rows_of(update, around), around.spec(numbers), around.spec(rows))
        if made is None:
            return
        count, others = _rates(update)
        operands = [around.root(update.inputs[n]) for n in (*range(count), *others)]
        lines.append(Line(update, made, [*operands, numbers, rows], replaces=(total,)))
    last = lines.pop()
    yield [*lines, Line(last.node, last.into, last.operands, replaces=(*last.replaces, *shared))]


def _core(node: Node) -> str:
    return node.op.rpartition("Apply")[2]


def _given(node: Node) -> tuple[int, int]:
    """Find the positions of the gradient and of the indices."""
    names = [arg.name for arg in node.signature.inputs]
    return names.index("grad"), names.index("indices")


def _rates(node: Node) -> tuple[int, list[int]]:
    """Find how many variables there are, and the positions of what is neither these nor the gradient."""
    count = _RULES[_core(node)][0]
    return count, [n for n in range(count, len(node.inputs)) if n not in _given(node)]


def _rows_of(node: Node, around: Around) -> int:
    """Return how many rows the variable is declared to have; 0 where that is not said."""
    made = around.root(node.inputs[0])[0]
    shape = made.attr("shape")
    dims = shape.dims if isinstance(shape, TensorShape) else None
    return (dims[0].value or 0) if dims else 0


def _update(k: KernelBuild, rows: int, indices: Spec | None, grad: Spec | None) -> Into | None:
    """Make the update; None where there is none as machine code, and one that is yet to be compiled with `wants`."""
    if not is_vector(indices) or not is_float(grad) or k.attr("use_locking") or k.attr("multiply_linear_by_lr"):
        return None
    assert indices is not None and grad is not None
    if len(indices.shape) != 1 or grad.shape[:1] != indices.shape or len(grad.shape) < 2:
        return None
    core = _core(k.node)
    count, flag = _RULES[core]
    flags = () if flag is None else (bool(k.attr(flag)),)
    sketch = updating.sketch_of_rows(core, any(flags), rows, indices, grad)
    if sketch is None:
        return None
    try:
        found = updating.rows_by(sketch)
    except KeyError:
        return Into(_not_there, fills=False, wants=(sketch,))
    if found is None:
        return None
    call, room = found
    shape, width = (rows, *grad.shape[1:]), prod(grad.shape[1:])
    finders = [finder(k) for _ in range(count)]
    by_handle = k.node.op.startswith("Resource")

    def update(*args: Any) -> Any:
        variables = [find(a) for find, a in zip(finders, args)]
        *rest, chosen, values, scratch = args[count:]
        rates = factors_of(core, (*(r[()] for r in rest), *flags), grad.dtype)
        held = sorted(set(variables), key=id)
        if len(held) != count:
            raise Unfit
        for variable in held:
            variable.lock.acquire()
        try:
            for variable in variables:
                table = variable.peek()
                if table is None or table.shape != shape or not table.flags.c_contiguous:
                    raise Unfit
            del table
            # A snapshot keeps rows before they are changed.
            check_rows(chosen, rows)
            given = values.reshape(-1, width)
            change_all(
                variables,
                lambda *tables: call(chosen, given, rates, *(t.reshape(rows, width) for t in tables), scratch),
                chosen,
            )
        finally:
            for variable in held:
                variable.lock.release()
        return None if by_handle else variables[0]

    return Into(update, scratch=(room,), fills=False)


def _not_there(*args: Any) -> Any:
    raise Unfit
