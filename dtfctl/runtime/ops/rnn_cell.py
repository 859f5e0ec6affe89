"""`tf.nn.rnn_cell`: cells of recurrent networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import init_ops, nn_ops
from dtfctl.runtime.ops.array_ops.creation import zeros
from dtfctl.runtime.ops.layer_arguments import snake_case
from dtfctl.runtime.ops.operands import apply_mixed
from dtfctl.runtime.ops.random_ops import random_uniform
from dtfctl.runtime.ops.variable_scope import get_variable, variable_scope

Activation = Callable[[Tensor], Tensor]


class LSTMStateTuple(NamedTuple):
    """Cell state and output."""

    c: Any
    h: Any

    @property
    def dtype(self) -> Any:
        return self.c.dtype


class RNNCell:
    """One step: `output, new_state = cell(inputs [batch, n], state)`. Variables are made on the first call.

    Subclasses define `state_size`, `output_size` and `call`.
    """

    # For cells that do not call this constructor from theirs.
    _name: str | None = None
    _trainable, built = True, False
    _reuse: Any = None
    _dtype: Any = None
    _built_scope: Any = None
    variables: Sequence[Any] = ()

    def __init__(self, trainable: bool = True, name: str | None = None, dtype: Any = None, reuse: Any = None) -> None:
        self._name, self._reuse, self._trainable = name, reuse, trainable
        self._dtype = None if dtype is None else as_dtype(dtype)
        self.variables = []

    @property
    def state_size(self) -> Any:
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        raise NotImplementedError

    @property
    def name(self) -> str:
        return self._name or snake_case(type(self).__name__)

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def scope_name(self) -> str:
        if self._built_scope is None:
            raise ValueError(f"No name available for layer scope: {self.name} has not been called yet")
        return str(self._built_scope.name)

    @property
    def trainable_variables(self) -> list[Any]:
        return [v for v in self.variables if v.trainable]

    weights = property(lambda self: self.variables)
    trainable_weights = property(lambda self: self.trainable_variables)

    def build(self, inputs_shape: Any) -> None:
        """Make variables with `add_variable`, for subclasses that do so before they are called."""

    def add_variable(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool = True,
        constraint: Any = None,
        partitioner: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Get a variable of this cell, under its scope."""
        variable = get_variable(
            name,
            shape,
            dtype or self._dtype or dtypes.float32,
            initializer,
            regularizer,
            trainable and self._trainable,
            constraint=constraint,
            partitioner=partitioner,
            **kwargs,
        )
        self.variables = [*self.variables, variable]
        return variable

    add_weight = add_variable

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        raise NotImplementedError

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Tensor, Any]:
        tensor = nest.map_structure(convert_to_tensor, inputs)
        if self._built_scope is not None:
            inside = variable_scope(self._built_scope, reuse=True, auxiliary_name_scope=False)
            with inside, name_scope(self._built_scope.original_name_scope or None):
                return self.call(tensor, state)
        reuse, name = self._reuse, self.name
        # A name of its own in the scope around, unless it is to be shared, as TensorFlow's layers have.
        with variable_scope(scope or name if reuse else scope, name, reuse=reuse) as opened:
            if not self.built:
                self.build(nest.map_structure(lambda t: t.shape, tensor))
                self.built = True
            known = len(_made(opened))
            result = self.call(tensor, state)
            if not self.variables:
                self.variables = _made(opened)[known:]
            self._built_scope = opened
            return result

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Make zeros for a batch of these inputs, or of this size and type; ValueError where neither is given."""
        if inputs is not None:
            inputs = convert_to_tensor(inputs)
            known = inputs.shape.as_list()[0]
            sizes = apply_op("Shape", input=inputs, out_type=dtypes.int32) if known is None else None
            batch_size = known if sizes is None else apply_op("GatherV2", params=sizes, indices=0, axis=constant(0))
            dtype = inputs.dtype if dtype is None else dtype
        if batch_size is None or dtype is None:
            raise ValueError("batch_size and dtype must be given where inputs are not")
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Make zeros in the structure of the state, [batch_size, size] each."""
        with name_scope(f"{type(self).__name__}ZeroState"):
            return nest.map_structure(lambda size: _zeros(batch_size, size, as_dtype(dtype)), self.state_size)


def _made(scope: Any) -> list[Any]:
    return list(scope.global_variables())


def _zeros(batch_size: Any, size: Any, dtype: Any) -> Tensor:
    batch = convert_to_tensor(batch_size, dtypes.int32)
    dims = list(TensorShape(size).known())
    shape = apply_op(
        "ConcatV2", values=[apply_op("ExpandDims", input=batch, dim=0), constant(dims, dtypes.int32)], axis=0
    )
    out: Tensor = zeros(shape, dtype)
    out.set_shape([batch_size if isinstance(batch_size, int) else None, *dims])
    return out


def _linear(inputs: Sequence[Tensor], size: int, bias: Any, prefix: str = "") -> Tensor:
    """Compute [inputs] . kernel + bias."""
    joined = inputs[0] if len(inputs) == 1 else apply_op("ConcatV2", values=list(inputs), axis=1)
    width = sum(int(t.shape[1].value or 0) for t in inputs)
    if any(t.shape[1].value is None for t in inputs):
        raise ValueError("Expected inputs of known size to a recurrent cell")
    dtype = joined.dtype.base_dtype
    kernel = get_variable(f"{prefix}kernel", [width, size], dtype)
    product = apply_op("MatMul", a=joined, b=kernel)
    offset = get_variable(f"{prefix}bias", [size], dtype, initializer=bias)
    return apply_op("BiasAdd", value=product, bias=offset)


class BasicRNNCell(RNNCell):
    """h = tanh([x, h] . W + b)."""

    def __init__(
        self, num_units: int, activation: Activation | None = None, reuse: Any = None, name: str | None = None
    ):
        super().__init__(name=name, reuse=reuse)
        self._num_units = num_units
        self._activation = activation or (lambda x: apply_mixed("Tanh", x))

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        output = self._activation(_linear([inputs, state], self._num_units, init_ops.Zeros()))
        return output, output


class GRUCell(RNNCell):
    """Gated recurrent unit (Cho et al., 2014)."""

    def __init__(
        self,
        num_units: int,
        activation: Activation | None = None,
        reuse: Any = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name, reuse=reuse)
        self._num_units = num_units
        self._activation = activation or (lambda x: apply_mixed("Tanh", x))
        self._bias = bias_initializer

    @property
    def state_size(self) -> int:
        return self._num_units

    @property
    def output_size(self) -> int:
        return self._num_units

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        gates = _linear([inputs, state], 2 * self._num_units, self._bias or init_ops.Ones(), "gates/")
        reset, update = apply_op_outputs("Split", value=apply_mixed("Sigmoid", gates), split_dim=1, num_split=2)
        held = apply_mixed("Mul", reset, state)
        bias = self._bias or init_ops.Zeros()
        candidate = self._activation(_linear([inputs, held], self._num_units, bias, "candidate/"))
        one = constant(1, update.dtype)
        new = apply_mixed(
            "AddV2", apply_mixed("Mul", update, state), apply_mixed("Mul", apply_mixed("Sub", one, update), candidate)
        )
        return new, new


class LSTMCell(RNNCell):
    """Long short-term memory (Hochreiter & Schmidhuber, 1997), with peepholes and a projection where asked."""

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Activation | None = None,
        reuse: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name, reuse=reuse)
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
        c, h = self._split_state(state)
        with variable_scope(_current(), initializer=self._initializer, auxiliary_name_scope=False):
            gates = _linear([inputs, h], 4 * self._num_units, init_ops.Zeros())
            i, j, f, o = apply_op_outputs("Split", value=gates, split_dim=1, num_split=4)
            forget = self._add(f, constant(self._forget_bias, f.dtype))
            if self._peepholes:
                forget, i = (
                    self._add(forget, self._peep("w_f_diag", c)),
                    self._add(i, self._peep("w_i_diag", c)),
                )
            kept = self._multiply(apply_mixed("Sigmoid", forget), c)
            new_c = self._add(kept, self._multiply(apply_mixed("Sigmoid", i), self._activation(j)))
            new_c = _clipped(new_c, self._cell_clip)
            if self._peepholes:
                o = self._add(o, self._peep("w_o_diag", new_c))
            new_h = self._multiply(apply_mixed("Sigmoid", o), self._activation(new_c))
            if self._num_proj is not None:
                shape = [self._num_units, self._num_proj]
                projection = get_variable("projection/kernel", shape, inputs.dtype.base_dtype)
                new_h = _clipped(apply_op("MatMul", a=new_h, b=projection), self._proj_clip)
        if self._tuple:
            return new_h, LSTMStateTuple(new_c, new_h)
        return new_h, apply_op("ConcatV2", values=[new_c, new_h], axis=1)

    def _add(self, x: Tensor, y: Any) -> Tensor:
        return apply_mixed("AddV2", x, y)

    def _multiply(self, x: Tensor, y: Tensor) -> Tensor:
        return apply_mixed("Mul", x, y)

    def _peep(self, name: str, c: Tensor) -> Tensor:
        return apply_mixed("Mul", get_variable(name, [self._num_units], c.dtype.base_dtype).value(), c)


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
    ) -> None:
        super().__init__(
            num_units,
            forget_bias=forget_bias,
            state_is_tuple=state_is_tuple,
            activation=activation,
            reuse=reuse,
            name=name,
        )

    # This cell's ops have the functions' names in TensorFlow, the other's those of operators.
    def _add(self, x: Tensor, y: Any) -> Tensor:
        return apply_mixed("AddV2", x, y, "Add")

    def _multiply(self, x: Tensor, y: Tensor) -> Tensor:
        return apply_mixed("Mul", x, y, "Mul")


class MultiRNNCell(RNNCell):
    """Cells on top of each other.

    Raises:
        ValueError: there are none.
    """

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not state_is_tuple:
            raise NotImplementedError("MultiRNNCell: only state_is_tuple=True; states of several cells are a tuple")
        self._cells = list(cells)

    @property
    def state_size(self) -> Any:
        return tuple(c.state_size for c in self._cells)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        states = []
        current = inputs
        for i, (cell, held) in enumerate(zip(self._cells, state)):
            with variable_scope(f"cell_{i}"):
                current, new = cell(current, held)
            states.append(new)
        return current, tuple(states)


class DropoutWrapper(RNNCell):
    """Dropout on a cell's input, output and state."""

    def __init__(
        self,
        cell: RNNCell,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Callable[[Any], Any] | None = None,
    ) -> None:
        """Wrap a cell; each probability is that of keeping an element.

        Args:
            variational_recurrent: drop the same elements at each step of a run; needs dtype, and input_size where
                input_keep_prob is less than 1.
            input_size: of the inputs, without the batch.
            dropout_state_filter_visitor: tells of a state, or of each of its parts, whether elements of it are dropped;
                by default of all but an LSTM's cell state c.

        Raises:
            ValueError: dtype or input_size is missing.
        """
        super().__init__()
        self._cell, self._seed = cell, seed
        self._input_keep, self._output_keep, self._state_keep = input_keep_prob, output_keep_prob, state_keep_prob
        self._drops_state = dropout_state_filter_visitor or _all_but_cell_state
        self._noise: dict[str, Any] | None = None
        if variational_recurrent:
            if dtype is None:
                raise ValueError("When variational_recurrent=True, dtype must be provided")
            if input_size is None and not _is_one(input_keep_prob):
                raise ValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0, input_size must be provided"
                )
            sizes = {"input": input_size, "state": cell.state_size, "output": cell.output_size}
            self._noise = {
                what: nest.map_structure(
                    partial(_batch_noise, as_dtype(dtype), None if seed is None else seed + i), size
                )
                for i, (what, size) in enumerate(sizes.items())
                if size is not None
            }

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Tensor, Any]:
        output, new = self._cell(self._drop("input", inputs, self._input_keep), state, scope)
        if not _is_one(self._state_keep):
            new = self._drop("state", new, self._state_keep, self._drops_state(new))
        return self._drop("output", output, self._output_keep), new

    def _drop(self, what: str, value: Any, keep: Any, chosen: Any = True) -> Any:
        """Drop elements of a structure, where `chosen` (one truth value, or one for each part) says so."""
        if _is_one(keep):
            return value
        noise = None if self._noise is None else self._noise[what]
        return self._drop_parts(value, keep, chosen, noise)

    def _drop_parts(self, value: Any, keep: Any, chosen: Any, noise: Any) -> Any:
        if nest.is_nested(value):
            each = chosen if nest.is_nested(chosen) else [chosen] * len(value)
            noises = [None] * len(value) if noise is None else noise
            dropped = [self._drop_parts(v, keep, c, n) for v, c, n in zip(value, each, noises)]
            return nest.pack_sequence_as(value, nest.flatten(dropped))
        if not chosen:
            return value
        tensor = convert_to_tensor(value)
        if noise is not None:
            kept = apply_op("Floor", x=apply_mixed("AddV2", noise, keep))
            return apply_op("Mul", x=apply_mixed("RealDiv", tensor, keep), y=kept)
        rate = 1 - keep if isinstance(keep, (int, float)) else apply_mixed("Sub", constant(1.0, keep.dtype), keep)
        return nn_ops.dropout(tensor, rate=rate, seed=self._seed)


def _all_but_cell_state(state: Any) -> Any:
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return [_all_but_cell_state(part) for part in state] if nest.is_nested(state) else True


def _batch_noise(dtype: Any, seed: int | None, size: Any) -> Tensor:
    """Draw numbers of [0, 1) for all rows of a batch."""
    return random_uniform([1, *TensorShape(size).known()], dtype=dtype, seed=seed)


class ResidualWrapper(RNNCell):
    """A cell whose input is added to its output."""

    def __init__(self, cell: RNNCell) -> None:
        super().__init__()
        self._cell = cell

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Tensor, Any]:
        output, new = self._cell(inputs, state, scope)
        return apply_mixed("AddV2", output, convert_to_tensor(inputs)), new


def _is_one(keep: Any) -> bool:
    return isinstance(keep, (int, float)) and keep == 1
