"""Cells that compute: plain, gated, and with long memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.operands import apply_mixed
from dtfctl.runtime.ops.rnn_cell.base import Activation, LSTMStateTuple, RNNCell
from dtfctl.runtime.ops.variable_scope import get_variable, variable_scope


def _weights(inputs: Sequence[Tensor], size: int, bias: Any, prefix: str = "", initializer: Any = None) -> Any:
    """Get kernel and bias for inputs side by side; a cell gets all of its weights before it computes."""
    if any(t.shape[1].value is None for t in inputs):
        raise ValueError("Expected inputs of known size to a recurrent cell")
    width, dtype = sum(int(t.shape[1].value or 0) for t in inputs), inputs[0].dtype.base_dtype
    kernel = get_variable(f"{prefix}kernel", [width, size], dtype, initializer=initializer)
    return kernel, get_variable(f"{prefix}bias", [size], dtype, initializer=bias)


def _linear(inputs: Sequence[Tensor], weights: Any) -> Tensor:
    """Compute [inputs] . kernel + bias."""
    kernel, bias = weights
    joined = inputs[0] if len(inputs) == 1 else apply_op("ConcatV2", values=list(inputs), axis=1)
    return apply_op("BiasAdd", value=apply_op("MatMul", a=joined, b=kernel), bias=bias)


class BasicRNNCell(RNNCell):
    """h = tanh([x, h] . W + b)."""

    _is_layer = True

    def __init__(
        self,
        num_units: int,
        activation: Activation | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(name=name, reuse=reuse)
        self._type = dtype
        self._num_units = num_units
        self._activation = activation or (lambda x: apply_mixed("Tanh", x))

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        _of_type(inputs, self._type)
        both = [inputs, state]
        output = self._activation(_linear(both, _weights(both, self._num_units, init_ops.Zeros())))
        return output, output


class GRUCell(RNNCell):
    """Gated recurrent unit (Cho et al., 2014)."""

    _is_layer = True

    def __init__(
        self,
        num_units: int,
        activation: Activation | None = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reuse=reuse)
        self._num_units = num_units
        self._activation = activation or (lambda x: apply_mixed("Tanh", x))
        self._kernel_initializer, self._bias, self._type = kernel_initializer, bias_initializer, dtype

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        _of_type(inputs, self._type)
        both, initializer = [inputs, state], self._kernel_initializer
        of_gates = _weights(both, 2 * self._num_units, self._bias or init_ops.Ones(), "gates/", initializer)
        of_candidate = _weights(both, self._num_units, self._bias or init_ops.Zeros(), "candidate/", initializer)
        gates = apply_mixed("Sigmoid", _linear(both, of_gates))
        reset, update = apply_op_outputs("Split", "split", value=gates, split_dim=1, num_split=2)
        held = apply_mixed("Mul", reset, state)
        candidate = self._activation(_linear([inputs, held], of_candidate))
        one = constant(1, update.dtype)
        new = apply_mixed(
            "AddV2", apply_mixed("Mul", update, state), apply_mixed("Mul", apply_mixed("Sub", one, update), candidate)
        )
        return new, new


class LSTMCell(RNNCell):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997), with peepholes and a projection where asked."""

    _is_layer = True

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, reuse=reuse)
        if num_unit_shards is not None or num_proj_shards is not None:
            raise ValueError("the cell's matrices are cut by the partitioner of its variable_scope, not by shards")
        self._type = dtype
        self._num_units, self._peepholes, self._cell_clip = num_units, use_peepholes, cell_clip
        self._initializer, self._num_proj, self._proj_clip = initializer, num_proj, proj_clip
        self._forget_bias, self._tuple = forget_bias, state_is_tuple
        self._activation = activation or (lambda x: apply_mixed("Tanh", x))

    @property
    def state_size(self) -> Any:
        h = self._num_proj or self._num_units
        return LSTMStateTuple(self._num_units, h) if self._tuple else self._num_units + h

    @property
    def output_size(self) -> int:
        return self._num_proj or self._num_units

    def _split_state(self, state: Any) -> tuple[Tensor, Tensor]:
        if self._tuple:
            c, h = state
            return c, h
        sizes = [self._num_units, self.output_size]
        c, h = apply_op_outputs("SplitV", value=state, size_splits=constant(sizes), split_dim=1, num_split=2)
        return c, h

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        _of_type(inputs, self._type)
        c, h = self._split_state(state)
        peeps: Any = {}
        with variable_scope(_current(), initializer=self._initializer, auxiliary_name_scope=False):
            weights = _weights([inputs, h], 4 * self._num_units, init_ops.Zeros())
            if self._peepholes:
                for gate in "fio":
                    peeps[gate] = get_variable(f"w_{gate}_diag", [self._num_units], c.dtype.base_dtype)
            if self._num_proj is not None:
                shape = [self._num_units, self._num_proj]
                projection = get_variable("projection/kernel", shape, inputs.dtype.base_dtype)
        gates = _linear([inputs, h], weights)
        i, j, f, o = apply_op_outputs("Split", "split", value=gates, split_dim=1, num_split=4)
        forget = self._add(f, constant(self._forget_bias, f.dtype))
        if peeps:
            forget, i = self._add(forget, _peep(peeps["f"], c)), self._add(i, _peep(peeps["i"], c))
        kept = self._multiply(apply_mixed("Sigmoid", forget), c)
        new_c = self._add(kept, self._multiply(apply_mixed("Sigmoid", i), self._activation(j)))
        new_c = _clipped(new_c, self._cell_clip)
        if peeps:
            o = self._add(o, _peep(peeps["o"], new_c))
        new_h = self._multiply(apply_mixed("Sigmoid", o), self._activation(new_c))
        if self._num_proj is not None:
            new_h = _clipped(apply_op("MatMul", a=new_h, b=projection), self._proj_clip)
        if self._tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, apply_op("ConcatV2", values=[new_c, new_h], axis=1)

    def _add(self, x: Tensor, y: Any) -> Tensor:
        return apply_mixed("AddV2", x, y)

    def _multiply(self, x: Tensor, y: Tensor) -> Tensor:
        return apply_mixed("Mul", x, y)


def _peep(weight: Any, c: Tensor) -> Tensor:
    return apply_mixed("Mul", weight.value(), c)


def _of_type(inputs: Tensor, dtype: Any) -> None:
    if dtype is not None and inputs.dtype.base_dtype is not as_dtype(dtype).base_dtype:
        raise ValueError(f"a cell of dtype {as_dtype(dtype).name} takes no inputs of {inputs.dtype.name}: cast them")


def _current() -> Any:
    from dtfctl.runtime.ops.variable_scope import get_variable_scope

    return get_variable_scope()


def _clipped(t: Tensor, limit: float | None) -> Tensor:
    if limit is None:
        return t
    low = apply_mixed("Maximum", t, constant(-limit, t.dtype))
    return apply_mixed("Minimum", low, constant(limit, t.dtype))


class BasicLSTMCell(LSTMCell):
    """LSTMCell without options."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | None = None,
        reuse: Any = None,
        name: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_units,
            forget_bias=forget_bias,
            state_is_tuple=state_is_tuple,
            activation=activation,
            reuse=reuse,
            name=name,
            dtype=dtype,
        )

    # This cell's ops have the functions' names in TensorFlow, the other's those of operators.
    def _add(self, x: Tensor, y: Any) -> Tensor:
        return apply_mixed("AddV2", x, y, "Add")

    def _multiply(self, x: Tensor, y: Tensor) -> Tensor:
        return apply_mixed("Mul", x, y, "Mul")
