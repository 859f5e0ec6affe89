"""`tf.nn.rnn_cell`: cells of recurrent networks."""

from __future__ import annotations

from dtfctl.runtime.ops.rnn_cell.base import LSTMStateTuple, RNNCell
from dtfctl.runtime.ops.rnn_cell.cells import BasicLSTMCell, BasicRNNCell, GRUCell, LSTMCell
from dtfctl.runtime.ops.rnn_cell.wrappers import DeviceWrapper, DropoutWrapper, MultiRNNCell, ResidualWrapper

__all__ = [
    "BasicLSTMCell",
    "BasicRNNCell",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "LSTMCell",
    "LSTMStateTuple",
    "MultiRNNCell",
    "RNNCell",
    "ResidualWrapper",
]
