"""The base of all optimizers: gradients of a loss, and the ops that apply them to variables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.func_graph import init_scope
from dtfctl.runtime.framework.gradients import gradients
from dtfctl.runtime.framework.graph_keys import GraphKeys, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.partitioned_variables import PartitionedVariable
from dtfctl.runtime.ops.transfer_compression import compressed_gradient
from dtfctl.runtime.ops.variable_collections import trainable_variables
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.loss_scaling import loss_of_replica
from dtfctl.runtime.replication.values import value_container
from dtfctl.runtime.train import slot_creator
from dtfctl.runtime.train.minimized import note_loss

GradAndVar = tuple[Any, Any]


class Optimizer:
    """Subclasses say how one variable is updated, in the methods that TensorFlow's override: `_create_slots`,
    `_prepare`, `_apply_dense`, `_apply_sparse`, their `_resource_` forms, `_finish`.

    Args:
        use_locking: hold the variable's lock during updates.
        name: prefix of the ops and slots made.

    Attributes:
        may_have_momentum: an update may depend on gradients of earlier steps, so none of them may be kept elsewhere.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2
    may_have_momentum = True

    def __init__(self, use_locking: bool, name: str, use_own_namescope_for_non_slot_vars: bool = False) -> None:
        if use_own_namescope_for_non_slot_vars:
            raise ValueError("variables that are of no slot have no name scope of their own here: leave it False")
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[Any, Any]] = {}
        self._non_slots: dict[tuple[str, Any], Any] = {}

    def get_name(self) -> str:
        return self._name

    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Make an op that does one step towards a smaller `loss`; it also adds one to `global_step`.

        Raises:
            ValueError: the loss depends on none of the variables.
        """
        grads_and_vars = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if not any(g is not None for g, _ in grads_and_vars):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {[str(v) for _, v in grads_and_vars]} and loss {loss}."
            )
        return self.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[GradAndVar]:
        """(gradient, variable) pairs; the gradient is a Tensor, IndexedSlices or None.

        Args:
            var_list: variables to train; all trainable ones when None.
            gate_gradients: GATE_NONE lets updates overlap the backward pass, GATE_OP waits for all gradients of an op,
                GATE_GRAPH for all gradients.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                f"gate_gradients must be one of: Optimizer.GATE_NONE, GATE_OP, GATE_GRAPH. Not {gate_gradients}"
            )
        graph: Any = context.get_default_graph()
        if graph.executes:
            if not callable(loss):
                raise RuntimeError(
                    "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled."
                )
            return list(zip(*graph.loss_gradients(loss, var_list, grad_loss)))
        tensor = convert_to_tensor(loss() if callable(loss) else loss)
        _check_type(tensor)
        note_loss(graph, tensor)
        tensor = loss_of_replica(tensor)
        variables = trainable_variables() if var_list is None else list(var_list)
        variables += context.get_default_graph().get_collection(GraphKeys.TRAINABLE_RESOURCE_VARIABLES)
        flat: list[Any] = []
        for v in variables:
            flat += list(v) if isinstance(v, PartitionedVariable) else [v]
        if not flat:
            raise ValueError("No variables to optimize.")
        grads = gradients(
            tensor,
            flat,
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == self.GATE_GRAPH:
            from dtfctl.runtime.ops.grouping import tuple_

            grads = tuple_(grads)
        for v, g in zip(flat, grads):
            if g is not None:
                _check_type(v)
        return list(zip(grads, flat))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[GradAndVar],
        global_step: Any = None,
        name: str | None = None,
        skip_gradients_aggregation: bool = False,
    ) -> Any:
        """Make an op that applies gradients; pairs whose gradient is None are left out.

        Raises:
            ValueError: every gradient is None, or a strategy is to leave them as they are.
            TypeError: a pair is not a gradient and a variable.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("No variables provided.")
        if contexts.has_strategy():
            if skip_gradients_aggregation:
                raise ValueError("a strategy adds up the replicas' gradients: apply sums of your own outside its scope")
            return self._apply_in_replica(pairs, global_step, name)
        for g, v in pairs:
            if isinstance(v, Tensor):
                raise NotImplementedError(f"Trying to update a Tensor {v!r}: only variables change")
            if not isinstance(v, Variable):
                raise TypeError(f"Variable must be a tf.Variable: {v!r}")
            if g is not None and not isinstance(g, (Tensor, IndexedSlices)):
                raise TypeError(f"Gradient must be a Tensor, IndexedSlices, or None: {g!r}")
        used = [(g, v) for g, v in pairs if g is not None]
        if not used:
            raise ValueError(f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.")
        graph = context.get_default_graph()
        with init_scope():
            self._create_slots([v for _, v in used])
        updates: list[Operation] = []
        with name_scope(name, self._name) as scope:
            self._prepare()
            for grad, variable in used:
                if isinstance(grad, Tensor):
                    grad = compressed_gradient(variable, grad, self)
                with graph.name_scope(f"update_{_base_name(variable)}"), graph.colocate_with(variable.op):
                    updates.append(self._update(grad, variable))
            if global_step is None:
                train_op = self._finish(updates, scope)
            else:
                finished = self._finish(updates, "update")
                with graph.control_dependencies([finished]), graph.colocate_with(global_step.op):
                    one = convert_to_tensor(1, global_step.dtype.base_dtype)
                    train_op = global_step.assign_add(one, name=scope, read_value=False)
        graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if train_op not in graph.get_collection(GraphKeys.TRAIN_OP):
            graph.add_to_collection(GraphKeys.TRAIN_OP, train_op)
        return train_op

    def _apply_in_replica(self, pairs: list[GradAndVar], global_step: Any, name: str | None) -> Any:
        """Apply the sum of all replicas' gradients to every copy of the variables."""
        if contexts.in_cross_replica_context():
            raise RuntimeError(
                "apply_gradients is called within a replica: in a function given to `strategy.run`, not across them"
            )
        used = [(g, v) for g, v in pairs if g is not None]
        if not used:
            raise ValueError(f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.")
        return contexts.get_replica_context().merge_call(self._distributed_apply, args=(used, global_step, name))

    def _distributed_apply(
        self, distribution: Any, grads_and_vars: Iterable[GradAndVar], global_step: Any = None, name: str | None = None
    ) -> Any:
        pairs = list(grads_and_vars)
        extended, graph = distribution.extended, context.get_default_graph()
        variables = [v for _, v in pairs]
        summed = extended.reduce_gradients(pairs)
        with init_scope():
            self._create_slots(variables)

        def update(copy: Any, grad: Any) -> Operation:
            with graph.name_scope(f"update_{_base_name(copy)}"), graph.colocate_with(copy.op):
                return self._update(grad, copy)

        with name_scope(name, self._name) as scope:
            self._prepare()
            updates = [
                op
                for grad, v in zip(summed, variables, strict=True)
                for op in extended.update_by_gradient(v, update, grad)
            ]
            devices = extended.non_slot_devices(variables)
            finished = extended.update_non_slot(devices, lambda: self._finish(updates, "update"), group=False)
            if global_step is None:
                train_op: Any = group(*finished, name=scope)
            else:
                with graph.control_dependencies(finished):
                    one = convert_to_tensor(1, global_step.dtype.base_dtype)
                    counted = extended.update(global_step, lambda v: v.assign_add(one, read_value=False), group=False)
                train_op = group(*counted, name=scope)
        if train_op not in graph.get_collection_ref(GraphKeys.TRAIN_OP):
            graph.add_to_collection(GraphKeys.TRAIN_OP, train_op)
        return train_op

    def _update(self, grad: Any, variable: Any) -> Operation:
        if isinstance(grad, IndexedSlices):
            if variable._is_resource:
                op = self._resource_apply_sparse_duplicate_indices(grad.values, variable, grad.indices)
            else:
                op = self._apply_sparse_duplicate_indices(grad, variable)
        else:
            op = (self._resource_apply_dense if variable._is_resource else self._apply_dense)(grad, variable)
        result = op.op if isinstance(op, Tensor) else op
        if variable.constraint is not None:
            with context.get_default_graph().control_dependencies([result]):
                result = variable.assign(variable.constraint(variable.read_value()), read_value=False)
        return result

    def get_slot(self, var: Any, name: str) -> Any:
        """Return the slot of this name kept for `var`, or None."""
        return self._slots.get(name, {}).get(value_container(var))

    def get_slot_names(self) -> list[str]:
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """Return all variables of the optimizer's own, by name."""
        graph = _outer_graph()
        slots = [s for by_var in self._slots.values() for s in by_var.values()]
        others = [v for (_, g), v in self._non_slots.items() if g is graph]
        return sorted([*slots, *others], key=lambda v: str(v.name))

    # For subclasses.

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Make the slots these variables need."""

    def _prepare(self) -> None:
        """Make tensors of the hyperparameters."""

    def _apply_dense(self, grad: Tensor, var: Any) -> Any:
        """Update a reference variable."""
        raise NotImplementedError(f"{type(self).__name__} has no _apply_dense for {var.name}")

    def _resource_apply_dense(self, grad: Tensor, handle: Any) -> Any:
        """Update a resource variable."""
        raise NotImplementedError(f"{type(self).__name__} has no _resource_apply_dense for {handle.name}")

    def _apply_sparse(self, grad: IndexedSlices, var: Any) -> Any:
        """Update rows of a reference variable, each named once."""
        raise NotImplementedError(f"{type(self).__name__} cannot apply sparse gradients to {var.name}")

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        """Update rows of a reference variable that may be named several times."""
        values, indices = _summed_duplicates(grad)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    def _resource_apply_sparse(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        """Update rows of a resource variable, each named once."""
        raise NotImplementedError(f"{type(self).__name__} cannot apply sparse gradients to {handle.name}")

    def _resource_apply_sparse_duplicate_indices(self, grad: Tensor, handle: Any, indices: Tensor) -> Any:
        """Update rows of a resource variable that may be named several times."""
        values, unique = _summed_duplicates(IndexedSlices(grad, indices))
        return self._resource_apply_sparse(values, handle, unique)

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Any:
        return group(*update_ops, name=name_scope)

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        return self._slot(var, slot_name, lambda: slot_creator.create_zeros_slot(var, op_name))

    def _get_or_make_slot(self, var: Any, value: Tensor, slot_name: str, op_name: str) -> Any:
        return self._slot(var, slot_name, lambda: slot_creator.create_slot(var, value, op_name))

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Any:
        return self._slot(
            var, slot_name, lambda: slot_creator.create_slot_with_initializer(var, initializer, shape, dtype, op_name)
        )

    def _slot(self, var: Any, slot_name: str, create: Callable[[], Any]) -> Any:
        held = self._slots.setdefault(slot_name, {})
        key = value_container(var)
        if key not in held:
            with self._slots_beside(var):
                held[key] = create()
        return held[key]

    @staticmethod
    def _slots_beside(var: Any) -> contextlib.AbstractContextManager[None]:
        """Make the slots of `var` in a block, where its strategy keeps them."""
        if not contexts.has_strategy():
            return contextlib.nullcontext()
        beside: contextlib.AbstractContextManager[None] = contexts.get_strategy().extended.slots_beside(var)
        return beside

    @staticmethod
    def _beside(var: Any) -> contextlib.AbstractContextManager[None]:
        """Make the variables of a block where `var` has its copies."""
        if not contexts.has_strategy():
            return contextlib.nullcontext()
        beside: contextlib.AbstractContextManager[None] = contexts.get_strategy().extended.colocate_vars_with(var)
        return beside

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Any) -> Any:
        graph: Any = _outer_graph()
        key = (name, graph)
        if key not in self._non_slots:
            with graph.colocate_with(colocate_with.op), self._beside(colocate_with):
                self._non_slots[key] = Variable(
                    initial_value,
                    name=name,
                    trainable=False,
                    use_resource=getattr(colocate_with, "_is_resource", False),
                )
        return self._non_slots[key]

    def _get_non_slot_variable(self, name: str, graph: Any = None) -> Any:
        return self._non_slots.get((name, graph or _outer_graph()))

    def _call_if_callable(self, value: Any) -> Any:
        return value() if callable(value) else value


def _outer_graph() -> Any:
    """Return the graph that variables are in, also while a branch of a condition is being built."""
    with init_scope():
        return context.get_default_graph()


def _check_type(tensor: Any) -> None:
    dtype = tensor.dtype.base_dtype
    if not (dtype.is_floating or dtype.is_complex):
        raise ValueError(f"Invalid type {dtype.name} for {tensor.name}, expected a floating point type.")


def _base_name(variable: Any) -> str:
    return str(variable.op.name)


def _summed_duplicates(grad: IndexedSlices) -> tuple[Tensor, Tensor]:
    """Values and indices with every index once."""
    unique, positions = apply_op_outputs("Unique", x=grad.indices, out_idx=dtypes.int32)
    shape = apply_op("Shape", input=unique)
    count = apply_op("StridedSlice", input=shape, begin=[0], end=[1], strides=[1], shrink_axis_mask=1)
    return apply_op("UnsortedSegmentSum", data=grad.values, segment_ids=positions, num_segments=count), unique
