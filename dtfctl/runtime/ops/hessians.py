"""Second derivatives, and checks put on every op."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.gradients import as_dense, gradients
from dtfctl.runtime.framework.graph_keys import control_dependencies
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import WITH_BODIES
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.grouping import group


def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
) -> list[Tensor]:
    """Compute for each x the second derivatives of the sum of `ys`, of shape x.shape + x.shape.

    The graph grows by a gradient for each element of each x.

    Raises:
        ValueError: the shape of an x is not fully known, or ys does not depend on it.
    """
    items = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    out: list[Tensor] = []
    graph = context.get_default_graph()
    with graph.name_scope(name):
        options: dict[str, Any] = {
            "colocate_gradients_with_ops": colocate_gradients_with_ops,
            "gate_gradients": gate_gradients,
            "aggregation_method": aggregation_method,
        }
        for x in items:
            if not x.shape.is_fully_defined():
                raise ValueError(f"hessians needs an x of known shape: {x.name} is {x.shape}")
            first = as_dense(gradients(ys, x, **options)[0])
            if first is None:
                raise ValueError(f"ys does not depend on {x.name}")
            rows = array_ops.unstack(array_ops.reshape(first, [-1]), num=x.shape.num_elements())
            zero = array_ops.zeros(x.shape, first.dtype.base_dtype)
            found = [as_dense(gradients(row, x, **options)[0]) for row in rows]
            stacked = array_ops.stack([zero if row is None else row for row in found])
            out.append(array_ops.reshape(stacked, [*x.shape.known(), *x.shape.known()]))
    return out


def add_check_numerics_ops() -> Operation:
    """Make an op that fails with InvalidArgumentError when a floating tensor made so far holds an infinity or NaN.

    Raises:
        ValueError: the graph has loops or conditions: their bodies would stay unchecked.
    """
    checks: list[Any] = []
    for op in list(context.get_default_graph().get_operations()):
        if op.type in WITH_BODIES:
            raise ValueError(f"add_check_numerics_ops does not see into {op.name} ({op.type}): use tf.check_numerics")
        for tensor in op.outputs:
            if not tensor.dtype.is_floating:
                continue
            with control_dependencies(checks[-1:]):
                checks.append(array_ops.check_numerics(tensor, f"{op.name}:{tensor.value_index}"))
    return group(*checks)
