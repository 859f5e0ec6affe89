"""Exponential moving averages of variables and tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.func_graph import init_scope
from dtfctl.runtime.framework.graph_keys import GraphKeys, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.structural_ops import VARIABLES
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.variable_collections import moving_average_variables, trainable_variables
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train import slot_creator


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """variable -= (1 - decay) * (variable - value).

    Args:
        zero_debias: correct for a start at zero by dividing by 1 - decay^steps; two more variables keep the count.
    """
    graph = context.get_default_graph()
    with name_scope(name, "AssignMovingAvg") as scope, graph.colocate_with(variable.op):
        dtype = variable.dtype.base_dtype
        target = convert_to_tensor(value, dtype)
        rest = convert_to_tensor(1, dtype) - apply_op("Cast", x=convert_to_tensor(decay), DstT=dtype)
        if not zero_debias:
            return variable.assign_sub((variable.value() - target) * rest, name=scope)
        biased = slot_creator.create_zeros_slot(variable, "biased")
        steps = slot_creator.create_zeros_slot(variable, "local_step")
        moved = _op(biased.assign_sub((biased.value() - target) * rest))
        with graph.control_dependencies([moved]):
            counted = _op(steps.assign_add(_ones_like(steps)))
        with graph.control_dependencies([counted]):
            one = convert_to_tensor(1, dtype)
            correction = one - apply_op("Pow", x=one - rest, y=steps.read_value())
            return variable.assign(biased.read_value() / correction, name=scope)


def _op(item: Any) -> Operation:
    return item if isinstance(item, Operation) else item.op


def _ones_like(variable: Any) -> Tensor:
    return apply_op("OnesLike", x=variable.value())


class ExponentialMovingAverage:
    """Keeps shadow variables that follow others slowly.

    Args:
        decay: close to 1; with `num_updates` it is min(decay, (1 + num_updates) / (10 + num_updates)).
        zero_debias: correct averages of tensors for their start at zero.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay, self._num_updates, self._zero_debias, self._name = decay, num_updates, zero_debias, name
        self._averages: dict[Any, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Operation:
        """Make an op that updates the averages of these (trainable variables when None).

        Raises:
            TypeError: one is not of a floating type; ValueError: an average of it is kept already.
        """
        items = trainable_variables() if var_list is None else list(var_list)
        graph = context.get_default_graph()
        for item in items:
            if not item.dtype.base_dtype.is_floating:
                raise TypeError(f"The variables must be half, float, or double: {item.name}")
            if item not in self._averages:
                with init_scope():
                    self._averages[item] = self._shadow(item)
        with name_scope(self._name) as scope:
            decay = convert_to_tensor(self._decay, name="decay")
            if self._num_updates is not None:
                updates = apply_op("Cast", x=convert_to_tensor(self._num_updates), DstT=decay.dtype)
                decay = apply_op("Minimum", x=decay, y=(updates + 1.0) / (updates + 10.0))
            ops = []
            for item in items:
                debias = self._zero_debias and not isinstance(item, Variable)
                # Under control dependencies it is the value after them that is followed.
                value = item.read_value() if isinstance(item, Variable) and graph._waits_for_ops else item
                ops.append(_op(assign_moving_average(self._averages[item], value, decay, debias)))
            return group(*ops, name=scope)

    def _shadow(self, item: Any) -> Any:
        graph = context.get_default_graph()
        if isinstance(item, Variable):
            with graph.device(item.device):
                value = item.initialized_value()
            value.set_shape(item.shape)
            shadow = slot_creator.create_slot(item, value, self._name)
            graph.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, item)
        else:
            held = item.op.type in VARIABLES
            shadow = slot_creator.create_zeros_slot(item, self._name, colocate_with_primary=held)
        return shadow

    def average(self, var: Any) -> Any:
        """Return the variable that holds the average, or None."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        if var in self._averages:
            return str(self._averages[var].op.name)
        name: str = context.get_default_graph().unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)
        return name

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        """Return for a Saver: names in the checkpoint to variables, averages taking the place of what they average."""
        averaged = (
            list(moving_avg_variables)
            if moving_avg_variables is not None
            else [
                *trainable_variables(),
                *moving_average_variables(),
            ]
        )
        names = {self.average_name(v): v for v in dict.fromkeys(averaged)}
        taken = {v.op.name for v in names.values()}
        for v in context.get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES):
            if v.op.name not in taken and v.op.name not in names:
                names[v.op.name] = v
        return names
