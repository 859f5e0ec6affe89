"""Building ops: each form of `apply_op` gives what it says, or fails at once."""

from __future__ import annotations

import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_nested, apply_op_outputs


@pytest.mark.parametrize(
    ("op_type", "arguments"),
    [("NoOp", {}), ("Unique", {"x": [1, 2]}), ("Split", {"value": [1, 2], "split_dim": 0, "num_split": 1})],
)
def test_one_output_is_asked_of_ops_that_have_one(op_type: str, arguments: dict[str, object]) -> None:
    with tf.Graph().as_default(), pytest.raises(TypeError, match=f"'{op_type}' does not have exactly one output"):
        apply_op(op_type, **arguments)


def test_the_forms_of_what_an_op_gives() -> None:
    with tf.Graph().as_default():
        assert isinstance(apply_op("Neg", x=[1.0]), tf.Tensor)
        assert [t.op.type for t in apply_op_outputs("Unique", x=[1, 2])] == ["Unique", "Unique"]
        assert len(apply_op_outputs("Split", value=[1, 2], split_dim=0, num_split=2)) == 2
        assert isinstance(apply_op_nested("NoOp"), tf.Operation)
        assert isinstance(tf.apply_op("Neg", x=[1.0]), tf.Tensor)
        assert len(tf.apply_op("Split", value=[1, 2], split_dim=0, num_split=1)) == 1
