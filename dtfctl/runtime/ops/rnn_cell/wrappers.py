"""Cells made of cells: on top of each other, with dropout, with what goes in added to what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.context import get_default_graph
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import nn_ops
from dtfctl.runtime.ops.operands import apply_mixed
from dtfctl.runtime.ops.random_ops import random_uniform
from dtfctl.runtime.ops.rnn_cell.base import LSTMStateTuple, RNNCell
from dtfctl.runtime.ops.variable_scope import variable_scope


class MultiRNNCell(RNNCell):
    """Cells on top of each other.

    Args:
        cells: the lowest first.
        state_is_tuple: whether the state is a tuple of the cells' states; else these lie side by side in one tensor.

    Raises:
        ValueError: there are none, or states that are tuples should lie in one tensor.
    """

    def __init__(self, cells: Sequence[RNNCell], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for MultiRNNCell.")
        if not state_is_tuple and any(nest.is_nested(c.state_size) for c in cells):
            raise ValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set.  State sizes are: "
                f"{[c.state_size for c in cells]}"
            )
        self._cells, self._tuple = list(cells), state_is_tuple

    @property
    def state_size(self) -> Any:
        sizes = tuple(c.state_size for c in self._cells)
        return sizes if self._tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        if not self._tuple:
            return super().zero_state(batch_size, dtype)
        with name_scope(f"{type(self).__name__}ZeroState"):
            # What a cell begins with is its own affair: one with attention has more than zeros.
            return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def _held(self, state: Any) -> Any:
        """Return the state of each cell."""
        if self._tuple:
            return state
        sizes = [c.state_size for c in self._cells]
        return apply_op_outputs("SplitV", value=state, size_splits=constant(sizes), split_dim=1, num_split=len(sizes))

    def call(self, inputs: Tensor, state: Any) -> tuple[Tensor, Any]:
        states = []
        current = inputs
        for i, (cell, held) in enumerate(zip(self._cells, self._held(state))):
            with variable_scope(f"cell_{i}"):
                current, new = cell(current, held)
            states.append(new)
        return current, tuple(states) if self._tuple else apply_op("ConcatV2", values=states, axis=1)


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
    """A cell whose input is added to its output, or joined to it by `residual_fn(inputs, outputs)`."""

    def __init__(self, cell: RNNCell, residual_fn: Callable[[Any, Any], Any] | None = None) -> None:
        super().__init__()
        self._cell, self._residual = cell, residual_fn

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Tensor, Any]:
        output, new = self._cell(inputs, state, scope)
        if self._residual is not None:
            return self._residual(inputs, output), new
        return apply_mixed("AddV2", output, convert_to_tensor(inputs)), new


class DeviceWrapper(RNNCell):
    """A cell that computes, and begins, on a device."""

    def __init__(self, cell: RNNCell, device: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._cell, self._device = cell, device

    @property
    def state_size(self) -> Any:
        return self._cell.state_size

    @property
    def output_size(self) -> Any:
        return self._cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with name_scope(f"{type(self).__name__}ZeroState"), get_default_graph().device(self._device):
            return self._cell.zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Tensor, Any]:
        with get_default_graph().device(self._device):
            return self._cell(inputs, state, scope)


def _is_one(keep: Any) -> bool:
    return isinstance(keep, (int, float)) and keep == 1
