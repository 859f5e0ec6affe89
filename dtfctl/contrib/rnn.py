"""`tf.contrib.rnn`: recurrent cells under their former names."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.raw_rnn import static_bidirectional_rnn
from dtfctl.runtime.ops.rnn import static_rnn
from dtfctl.runtime.ops.rnn_cell import (
    BasicLSTMCell,
    BasicRNNCell,
    DeviceWrapper,
    DropoutWrapper,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    ResidualWrapper,
    RNNCell,
    RNNCell as LayerRNNCell,
)

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "ConvLSTMCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "InputProjectionWrapper",
    "LSTMBlockCell",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormBasicLSTMCell",
    "LayerRNNCell",
    "MultiRNNCell",
    "NASCell",
    "OutputProjectionWrapper",
    "RNNCell",
    "ResidualWrapper",
    "stack_bidirectional_dynamic_rnn",
    "static_bidirectional_rnn",
    "static_rnn",
]


class LSTMBlockCell(LSTMCell):
    """An LSTM cell whose variables have the names that the block kernel's have, and the type of its inputs."""

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        cell_clip: float | None = None,
        use_peephole: bool = False,
        dtype: Any = None,
        reuse: Any = None,
        name: str = "lstm_cell",
    ) -> None:
        super().__init__(
            num_units, use_peepholes=use_peephole, cell_clip=cell_clip, forget_bias=forget_bias, reuse=reuse, name=name
        )


class OutputProjectionWrapper(RNNCell):
    """A cell whose output goes through a matrix."""

    def __init__(self, cell: RNNCell, output_size: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(reuse=reuse)
        self._cell, self._size, self._activation = cell, output_size, activation

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> int:
        return self._size

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        output, new = self._cell(inputs, state)
        width = int(output.shape[1].value or 0)
        kernel = self.add_variable("kernel", [width, self._size])
        projected = apply_op("MatMul", a=output, b=kernel)
        biased = apply_op("BiasAdd", value=projected, bias=self.add_variable("bias", [self._size]))
        return (biased if self._activation is None else self._activation(biased)), new


class InputProjectionWrapper(RNNCell):
    """A cell whose input goes through a matrix."""

    def __init__(self, cell: RNNCell, num_proj: int, activation: Any = None, reuse: Any = None) -> None:
        super().__init__(reuse=reuse)
        self._cell, self._size, self._activation = cell, num_proj, activation

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        width = int(inputs.shape[1].value or 0)
        kernel = self.add_variable("kernel", [width, self._size])
        product = tf.nn.bias_add(tf.matmul(inputs, kernel), self.add_variable("bias", [self._size]))
        return self._cell(product if self._activation is None else self._activation(product), state)


class LayerNormBasicLSTMCell(RNNCell):
    """An LSTM cell whose gates and state are normalized (Ba et al., 2016), and whose candidates are dropped at random.

    Args:
        num_units: how wide the state is.
        forget_bias: added to the forget gate.
        layer_norm: normalize; else the gates have a bias.
        norm_gain, norm_shift: where the factors and offsets begin.
        dropout_keep_prob: with which probability a candidate is kept (Semeniuta et al., 2016).
        dropout_prob_seed: of what is dropped.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        input_size: None = None,
        activation: Any = tf.tanh,
        layer_norm: bool = True,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        dropout_keep_prob: Any = 1.0,
        dropout_prob_seed: int | None = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(reuse=reuse)
        self._units, self._forget_bias, self._activation = num_units, forget_bias, activation
        self._layer_norm, self._gain, self._shift = layer_norm, norm_gain, norm_shift
        self._keep, self._seed = dropout_keep_prob, dropout_prob_seed

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._units, self._units)

    @property
    def output_size(self) -> int:
        return self._units

    def _norm(self, x: Tensor, scope: str) -> Tensor:
        from dtfctl.contrib.layers import layer_norm

        if not self._layer_norm:
            return x
        with tf.variable_scope(scope):
            gain, shift = tf.constant_initializer(self._gain), tf.constant_initializer(self._shift)
            # Made here for where they begin; the layer takes them up.
            tf.get_variable("gamma", [self._units], x.dtype, gain)
            tf.get_variable("beta", [self._units], x.dtype, shift)
        normal: Tensor = layer_norm(x, reuse=True, scope=scope)
        return normal

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        c, h = state
        joined = tf.concat([inputs, h], 1)
        width = int(joined.shape[1].value or 0)
        gates = tf.matmul(joined, tf.get_variable("kernel", [width, 4 * self._units], joined.dtype))
        if not self._layer_norm:
            gates = tf.nn.bias_add(gates, tf.get_variable("bias", [4 * self._units], joined.dtype))
        i, j, f, o = tf.split(gates, 4, axis=1)
        i, j, f, o = (self._norm(x, name) for x, name in ((i, "input"), (j, "transform"), (f, "forget"), (o, "output")))
        candidate = self._activation(j)
        if not isinstance(self._keep, float) or self._keep < 1:
            candidate = tf.nn.dropout(candidate, self._keep, seed=self._seed)
        new = self._norm(c * tf.sigmoid(f + self._forget_bias) + tf.sigmoid(i) * candidate, "state")
        out = self._activation(new) * tf.sigmoid(o)
        return out, LSTMStateTuple(new, out)


class NASCell(RNNCell):
    """The cell that a search over architectures found (Zoph and Le, 2016).

    Args:
        num_units: how wide the state is.
        num_proj: how wide the output is, by a matrix; as the state when None.
        use_bias: add a vector before the gates.
    """

    _is_layer = True

    def __init__(
        self,
        num_units: int,
        num_proj: int | None = None,
        use_bias: bool = False,
        reuse: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(reuse=reuse, **kwargs)
        self._units, self._width, self._use_bias = num_units, num_proj or num_units, use_bias
        self._projects = num_proj is not None

    @property
    def state_size(self) -> Any:
        return LSTMStateTuple(self._units, self._width)

    @property
    def output_size(self) -> int:
        return self._width

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        c, m = state
        width = inputs.shape.with_rank(2)[1].value
        if width is None:
            raise ValueError("Could not infer input size from inputs.get_shape()[-1]")
        before = tf.matmul(m, self.add_variable("recurrent_kernel", [self._width, 8 * self._units]))
        given = tf.matmul(inputs, self.add_variable("kernel", [width, 8 * self._units]))
        if self._use_bias:
            start = tf.zeros_initializer()
            before = tf.nn.bias_add(before, self.add_variable("bias", [8 * self._units], initializer=start))
        a, b = tf.split(before, 8, axis=1), tf.split(given, 8, axis=1)
        pairs = [y * x if i == 3 else y + x for i, (x, y) in enumerate(zip(a, b, strict=True))]
        gates = [tf.sigmoid, tf.nn.relu, tf.sigmoid, tf.nn.relu, tf.tanh, tf.sigmoid, tf.tanh, tf.sigmoid]
        first = [gate(x) for gate, x in zip(gates, pairs, strict=True)]
        memory = tf.tanh(tf.tanh(first[0] * first[1]) + c)
        new = memory * tf.tanh(first[2] + first[3])
        out = tf.tanh(new * tf.tanh(tf.tanh(first[4] * first[5]) + tf.sigmoid(first[6] + first[7])))
        if self._projects:
            out = tf.matmul(out, self.add_variable("projection_weights", [self._units, self._width]))
        return out, LSTMStateTuple(new, out)


class ConvLSTMCell(RNNCell):
    """An LSTM cell whose products are convolutions (Shi et al., 2015).

    Args:
        conv_ndims: how many dimensions are convolved, 1 to 3.
        input_shape: of an input without the batch; channels last.
        output_channels: of the output and the state.
        kernel_shape: of the kernels.
        use_bias: add a vector before the gates.
        skip_connection: put the input beside the output.
        forget_bias: added to the forget gate.
        initializers: not used, as in TensorFlow.
    """

    def __init__(
        self,
        conv_ndims: int,
        input_shape: Any,
        output_channels: int,
        kernel_shape: Any,
        use_bias: bool = True,
        skip_connection: bool = False,
        forget_bias: float = 1.0,
        initializers: None = None,
        name: str | None = "conv_lstm_cell",
    ) -> None:
        super().__init__(name=name)
        if conv_ndims != len(input_shape) - 1:
            raise ValueError(f"Invalid input_shape {input_shape} for conv_ndims={conv_ndims}.")
        self._dims, self._given, self._channels = conv_ndims, list(input_shape), output_channels
        self._kernel, self._use_bias, self._skips = list(kernel_shape), use_bias, skip_connection
        self._forget_bias = forget_bias

    @property
    def state_size(self) -> Any:
        size = tf.TensorShape([*self._given[:-1], self._channels])
        return LSTMStateTuple(size, size)

    @property
    def output_size(self) -> Any:
        across = self._channels + (self._given[-1] if self._skips else 0)
        return tf.TensorShape([*self._given[:-1], across])

    def call(self, inputs: Tensor, state: Any, scope: Any = None) -> tuple[Tensor, Any]:
        c, h = state
        joined = tf.concat([inputs, h], -1)
        depth = int(joined.shape[-1].value or 0)
        kernel = tf.get_variable("kernel", [*self._kernel, depth, 4 * self._channels], joined.dtype)
        gates = tf.nn.convolution(joined, kernel, "SAME")
        if self._use_bias:
            start = tf.zeros_initializer()
            gates = gates + tf.get_variable("biases", [4 * self._channels], joined.dtype, start)
        i, j, f, o = tf.split(gates, 4, axis=self._dims + 1)
        new = tf.sigmoid(f + self._forget_bias) * c + tf.sigmoid(i) * tf.tanh(j)
        out = tf.tanh(new) * tf.sigmoid(o)
        state = LSTMStateTuple(new, out)
        return (tf.concat([out, inputs], -1) if self._skips else out), state


class Conv1DLSTMCell(ConvLSTMCell):
    """An LSTM cell of convolutions along a line; arguments as those of `ConvLSTMCell`."""

    def __init__(self, name: str = "conv_1d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=1, name=name, **kwargs)


class Conv2DLSTMCell(ConvLSTMCell):
    """An LSTM cell of convolutions of pictures; arguments as those of `ConvLSTMCell`."""

    def __init__(self, name: str = "conv_2d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=2, name=name, **kwargs)


class Conv3DLSTMCell(ConvLSTMCell):
    """An LSTM cell of convolutions of volumes; arguments as those of `ConvLSTMCell`."""

    def __init__(self, name: str = "conv_3d_lstm_cell", **kwargs: Any) -> None:
        super().__init__(conv_ndims=3, name=name, **kwargs)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Any,
    cells_bw: Any,
    inputs: Any,
    initial_states_fw: Any = None,
    initial_states_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Tensor, tuple[Any, ...], tuple[Any, ...]]:
    """Run layers of cells forwards and backwards; each takes the outputs of both of the layer below.

    Returns:
        The last layer's outputs [batch, steps, n], and the last states of the layers: forwards, and backwards.

    Raises:
        ValueError: the lists are empty or not equally long.
    """
    if not cells_fw or len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth, and there must be at least one.")
    count = len(cells_fw)
    states: tuple[list[Any], list[Any]] = ([], [])
    given = inputs
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for i in range(count):
            with tf.variable_scope(f"cell_{i}"):
                outputs, last = tf.nn.bidirectional_dynamic_rnn(
                    cells_fw[i],
                    cells_bw[i],
                    given,
                    sequence_length=sequence_length,
                    initial_state_fw=None if initial_states_fw is None else initial_states_fw[i],
                    initial_state_bw=None if initial_states_bw is None else initial_states_bw[i],
                    dtype=dtype,
                    time_major=time_major,
                )
                given = tf.concat(outputs, 2)
            states[0].append(last[0])
            states[1].append(last[1])
    return given, tuple(states[0]), tuple(states[1])
