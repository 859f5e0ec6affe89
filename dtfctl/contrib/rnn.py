"""`tf.contrib.rnn`: recurrent cells under their former names."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.raw_rnn import static_bidirectional_rnn
from dtfctl.runtime.ops.rnn import static_rnn
from dtfctl.runtime.ops.rnn_cell import (
    BasicLSTMCell,
    BasicRNNCell,
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
    "DropoutWrapper",
    "GRUCell",
    "LSTMBlockCell",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerRNNCell",
    "MultiRNNCell",
    "OutputProjectionWrapper",
    "RNNCell",
    "ResidualWrapper",
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
