"""The function a one-shot iterator makes its dataset with: the ops the dataset depends on, copied into a body."""

from __future__ import annotations

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.data.structure import AnyDataset
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import VARIABLES
from dtfctl.runtime.ops.bodies import register_body

_FORBIDDEN = VARIABLES | {"Placeholder", "PlaceholderWithDefault", "HashTableV2"}


def dataset_factory(dataset: AnyDataset) -> graph_pb2.NameAttrList:
    """Make the function without inputs that returns `dataset`.

    Raises:
        ValueError: it depends on state or on what a run feeds.
    """
    body = FuncGraph("dataset_factory")
    copies: dict[Operation, Operation] = {}

    def copy(op: Operation) -> Operation:
        known = copies.get(op)
        if known is not None:
            return known
        if op.type in _FORBIDDEN:
            raise ValueError(
                f"Failed to create a one-shot iterator for a dataset: it captures {op.type} '{op.name}'. Use "
                "`Dataset.make_initializable_iterator()` if the dataset captures stateful or fed objects."
            )
        inputs: list[Tensor] = [copy(t.op).outputs[t.value_index] for t in op.inputs]
        attrs = {k: v for k, v in op.attrs.items() if k != "_class"}
        made = body.add_op(op.signature, inputs, attrs, name=op.name.split("/")[-1])
        copies[op] = made
        return made

    with body.as_default():
        source = dataset.variant
        body.outputs = [copy(source.op).outputs[source.value_index]]
    return register_body(body, body.outer_graph)
