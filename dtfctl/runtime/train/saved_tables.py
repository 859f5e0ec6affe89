"""Tables that steps write to, kept in checkpoints: `tf.lookup.experimental`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import lookup_ops
from dtfctl.runtime.train.saveables import SaveableObject


class SaveableTable(SaveableObject):
    """What a checkpoint holds of a table: NAME-keys and NAME-values."""

    def __init__(self, table: Any, name: str) -> None:
        keys, values = table.export()
        super().__init__(table, [(keys, "", f"{name}-keys"), (values, "", f"{name}-values")], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        with context.get_default_graph().colocate_with(self.op.resource_handle.op):
            return self.op.import_values(*restored_tensors)


def _keep(table: Any, name: str, checkpoint: bool) -> None:
    if checkpoint:
        context.get_default_graph().add_to_collection(GraphKeys.SAVEABLE_OBJECTS, SaveableTable(table, name))


class MutableHashTable(lookup_ops.MutableHashTable):
    """A table that steps write to; values have the shape of the default."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
        *,
        shared_name: str | None = None,
    ) -> None:
        lookup_ops.require_shared(experimental_is_anonymous)
        super().__init__(key_dtype, value_dtype, default_value, shared_name, name)
        _keep(self, name, checkpoint)

    def lookup(  # type: ignore[override]  # as in TensorFlow
        self, keys: Any, dynamic_default_values: Any = None, name: str | None = None
    ) -> Any:
        """Look up the values of keys; where there is none the default, or a row of `dynamic_default_values`."""
        if dynamic_default_values is None:
            return super().lookup(keys, name)
        source = keys.values if isinstance(keys, SparseTensor) else convert_to_tensor(keys, self.key_dtype)
        with name_scope(name, f"{self.name}_lookup_table_find"):
            values = apply_op(
                "LookupTableFindV2",
                table_handle=self.resource_handle,
                keys=source,
                default_value=convert_to_tensor(dynamic_default_values, self.value_dtype),
            )
        return SparseTensor(keys.indices, values, keys.dense_shape) if isinstance(keys, SparseTensor) else values


class DenseHashTable(lookup_ops.DenseHashTable):
    """A table that steps write to, with two keys set aside."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        experimental_is_anonymous: bool = False,
        *,
        shared_name: str | None = None,
    ) -> None:
        lookup_ops.require_shared(experimental_is_anonymous)
        given = (key_dtype, value_dtype, default_value, empty_key, deleted_key, initial_num_buckets)
        super().__init__(*given, shared_name, name)
        _keep(self, name, checkpoint)

    def insert_or_assign(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Make an op that writes values, those of keys that are there too."""
        return self.insert(keys, values, name)

    def erase(self, keys: Any, name: str | None = None) -> Operation:
        """Make an op that removes keys."""
        return self.remove(keys, name)
