"""Attention: mechanisms over a memory, and a cell that looks with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework import nest
from dtfctl.runtime.ops.rnn_cell import RNNCell


class AttentionMechanism:
    """What says how much of each place of a memory a query looks at."""

    alignments_size: Any
    state_size: Any
    batch_size: Any
    values: Any
    dtype: Any

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """Return how much of each place is looked at, and the next state."""
        raise NotImplementedError

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return zeros."""
        return tf.zeros(tf.stack([batch_size, self.alignments_size]), dtype)

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the first state."""
        return self.initial_alignments(batch_size, dtype)


class _Scoring(AttentionMechanism):
    """A memory, its keys, and a score of each for a query."""

    _scope: str

    def __init__(
        self,
        memory: Any,
        memory_layer: Any,
        query_layer: Any,
        memory_sequence_length: Any,
        probability_fn: Callable[[Any], Any] | None,
        score_mask_value: Any,
        custom_key_value_fn: Any,
        dtype: Any,
        name: str,
    ) -> None:
        self.memory_layer, self.query_layer = memory_layer, query_layer
        self.dtype = tf.as_dtype(dtype or tf.float32)
        self._lengths, self._probability = memory_sequence_length, probability_fn or tf.nn.softmax
        self._masked = self.dtype.as_numpy_dtype(-np.inf) if score_mask_value is None else score_mask_value
        with tf.name_scope(name, "BaseAttentionMechanismInit", [memory]):
            memory = tf.convert_to_tensor(memory, name="memory")
            if not memory.shape[2:].is_fully_defined():
                raise ValueError(
                    f"Expected memory {memory.name} to have fully defined inner dims, but saw shape: {memory.shape}"
                )
            if memory_sequence_length is not None:
                self._lengths = tf.convert_to_tensor(memory_sequence_length, name="memory_sequence_length")
                mask = tf.sequence_mask(self._lengths, maxlen=tf.shape(memory)[1], dtype=memory.dtype)
                memory = memory * tf.reshape(mask, tf.concat([tf.shape(mask), [1] * (memory.shape.ndims - 2)], 0))
            self.values = memory
            self.keys = memory_layer(memory)
            if custom_key_value_fn is not None:
                self.keys, self.values = custom_key_value_fn(self.keys, self.values)
            self.batch_size = self.keys.shape[0].value or tf.shape(self.keys)[0]
            self.alignments_size = self.state_size = self.keys.shape[1].value or tf.shape(self.keys)[1]

    def _score(self, query: Any) -> Any:
        raise NotImplementedError

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        with tf.variable_scope(None, self._scope, [query]):
            score = self._score(query)
        if self._lengths is not None:
            message = "All values in memory_sequence_length must be greater than zero."
            with tf.control_dependencies([tf.assert_positive(self._lengths, message=message)]):
                mask = tf.sequence_mask(self._lengths, maxlen=tf.shape(score)[1])
            score = tf.where(mask, score, self._masked * tf.ones_like(score))
        alignments = self._aligned(score, state)
        return alignments, alignments

    def _aligned(self, score: Any, state: Any) -> Any:
        """Return how much of each place is looked at, by scores and what was looked at before."""
        return self._probability(score)


def _dense(units: int, name: str, dtype: Any) -> Any:
    return tf.layers.Dense(units, name=name, use_bias=False, dtype=dtype)


class LuongAttention(_Scoring):
    """The product of the query and a place's key.

    Args:
        num_units: of the keys; the query must have as many.
        memory: float [batch, places, n].
        memory_sequence_length: int [batch].
        scale: whether a trained factor scales the score.
    """

    _scope = "luong_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Any = None,
        name: str = "LuongAttention",
    ) -> None:
        self._scale = scale
        layer = _dense(num_units, "memory_layer", dtype or tf.float32)
        super().__init__(
            memory,
            layer,
            None,
            memory_sequence_length,
            probability_fn,
            score_mask_value,
            custom_key_value_fn,
            dtype,
            name,
        )

    def _score(self, query: Any) -> Any:
        if query.shape[-1].value != self.keys.shape[-1].value:
            raise ValueError(
                "Incompatible or unknown inner dimensions between query and keys. "
                f"Query ({query}) has units: {query.shape[-1]}. Keys ({self.keys}) have units: {self.keys.shape[-1]}. "
                "Perhaps you need to set num_units to the query's dimension?"
            )
        factor = None
        if self._scale:
            factor = tf.get_variable("attention_g", dtype=query.dtype, initializer=tf.ones_initializer(), shape=())
        score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), self.keys, transpose_b=True), [1])
        return score if factor is None else factor * score


class BahdanauAttention(_Scoring):
    """A small network of the query and a place's key; arguments as above.

    Args:
        normalize: whether the network's weights are normalized.
    """

    _scope = "bahdanau_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Any = None,
        name: str = "BahdanauAttention",
    ) -> None:
        self._units, self._normalize = num_units, normalize
        kind = dtype or tf.float32
        super().__init__(
            memory,
            _dense(num_units, "memory_layer", kind),
            _dense(num_units, "query_layer", kind),
            memory_sequence_length,
            probability_fn,
            score_mask_value,
            custom_key_value_fn,
            dtype,
            name,
        )

    def _score(self, query: Any) -> Any:
        asked = tf.expand_dims(self.query_layer(query), 1)
        v = tf.get_variable("attention_v", [self._units], dtype=query.dtype)
        if not self._normalize:
            return tf.reduce_sum(v * tf.tanh(self.keys + asked), [2])
        start = tf.constant_initializer(math.sqrt(1.0 / self._units))
        g = tf.get_variable("attention_g", dtype=query.dtype, initializer=start, shape=())
        b = tf.get_variable("attention_b", [self._units], dtype=query.dtype, initializer=tf.zeros_initializer())
        normed = g * v * tf.rsqrt(tf.reduce_sum(tf.square(v)))
        return tf.reduce_sum(normed * tf.tanh(self.keys + asked + b), [2])


def hardmax(logits: Any, name: str | None = None) -> Any:
    """Return one-hot vectors of the largest logits."""
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits, name="logits")
        depth = logits.shape[-1].value or tf.shape(logits)[-1]
        return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)


class _State(NamedTuple):
    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any


class AttentionWrapperState(_State):
    """The state of an AttentionWrapper."""

    def clone(self, **kwargs: Any) -> AttentionWrapperState:
        """Make a copy with other values, which get the old ones' shapes."""
        made = self._replace(**kwargs)
        for old, new in zip(nest.flatten(self), nest.flatten(made), strict=True):
            if tf.is_tensor(old) and tf.is_tensor(new) and not isinstance(new, tf.TensorArray):
                new.set_shape(old.shape)
        return made


class AttentionWrapper(RNNCell):
    """A cell that looks at a memory after each step, and sees at the next what it found.

    Args:
        cell: an RNNCell.
        attention_mechanism: an AttentionMechanism, or several.
        attention_layer_size: units of the layer over the output and what was found; none when None.
        alignment_history: whether the state keeps all alignments, as a TensorArray.
        cell_input_fn: of the inputs and what was found; puts them side by side when None.
        output_attention: whether the output is what was found, or the cell's.
        initial_cell_state: what `zero_state` begins with.
        attention_layer: a layer instead of a size.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: Callable[..., Any] | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._mechanisms = tuple(attention_mechanism) if self._is_multi else (attention_mechanism,)
        for mechanism in self._mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                raise TypeError(f"attention_mechanism must be an AttentionMechanism, saw: {type(mechanism).__name__}")
        if attention_layer_size is not None and attention_layer is not None:
            raise ValueError("Only one of attention_layer_size and attention_layer should be set")
        self._layers: tuple[Any, ...] | None = None
        if attention_layer_size is not None:
            sizes = _as_tuple(attention_layer_size)
            self._layers = tuple(
                _dense(size, "attention_layer", m.dtype) for size, m in zip(sizes, self._mechanisms, strict=False)
            )
        elif attention_layer is not None:
            self._layers = _as_tuple(attention_layer)
            sizes = tuple(layer.units for layer in self._layers)
        else:
            sizes = tuple(m.values.shape[-1].value for m in self._mechanisms)
        if len(sizes) != len(self._mechanisms):
            raise ValueError(
                "If provided, attention_layer_size must contain exactly one integer per attention_mechanism, saw: "
                f"{len(sizes)} vs {len(self._mechanisms)}"
            )
        self._size = sum(sizes)
        self._cell, self._history, self._output_attention = cell, alignment_history, output_attention
        self._input_fn = cell_input_fn or (lambda inputs, attention: tf.concat([inputs, attention], -1))
        self._attention_fn = attention_fn or _looked_up
        self._initial: Any = None
        with tf.name_scope(name, "AttentionWrapperInit"):
            if initial_cell_state is not None:
                last = nest.flatten(initial_cell_state)[-1]
                with tf.control_dependencies(self._batch_checks(last.shape[0].value or tf.shape(last)[0])):
                    self._initial = nest.map_structure(
                        lambda s: tf.identity(s, name="check_initial_cell_state"), initial_cell_state
                    )

    def _batch_checks(self, batch_size: Any) -> list[Any]:
        message = (
            f"Non-matching batch sizes between the memory (encoder output) and the states of {self.name}. Are you "
            "using the BeamSearchDecoder? You may need to tile your memory and states via the "
            "tf.contrib.seq2seq.tile_batch function with argument multiple=beam_width."
        )
        return [tf.assert_equal(batch_size, m.batch_size, message=message) for m in self._mechanisms]

    def _one_or_all(self, values: Any) -> Any:
        found = tuple(values)
        return found if self._is_multi else found[0]

    @property
    def output_size(self) -> Any:
        return self._size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=tf.TensorShape([]),
            attention=self._size,
            alignments=self._one_or_all(m.alignments_size for m in self._mechanisms),
            attention_state=self._one_or_all(m.state_size for m in self._mechanisms),
            alignment_history=self._one_or_all(m.alignments_size if self._history else () for m in self._mechanisms),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        with tf.name_scope(f"{type(self).__name__}ZeroState", values=[batch_size]):
            cell_state = self._cell.zero_state(batch_size, dtype) if self._initial is None else self._initial
            with tf.control_dependencies(self._batch_checks(batch_size)):
                cell_state = nest.map_structure(lambda s: tf.identity(s, name="checked_cell_state"), cell_state)
            alignments = [m.initial_alignments(batch_size, dtype) for m in self._mechanisms]
            histories = [tf.TensorArray(dtype, size=0, dynamic_size=True) if self._history else () for _ in alignments]
            return AttentionWrapperState(
                cell_state=cell_state,
                time=tf.zeros([], dtype=tf.int32),
                attention=tf.zeros(tf.stack([batch_size, self._size]), dtype),
                alignments=self._one_or_all(alignments),
                attention_state=self._one_or_all(m.initial_state(batch_size, dtype) for m in self._mechanisms),
                alignment_history=self._one_or_all(histories),
            )

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(f"Expected state to be instance of AttentionWrapperState. Received {type(state)} instead.")
        output, cell_state = self._cell(self._input_fn(inputs, state.attention), state.cell_state)
        with tf.control_dependencies(self._batch_checks(output.shape[0].value or tf.shape(output)[0])):
            output = tf.identity(output, name="checked_cell_output")
        before = state.attention_state if self._is_multi else [state.attention_state]
        histories = state.alignment_history if self._is_multi else [state.alignment_history]
        found, alignments, after, written = [], [], [], []
        for i, mechanism in enumerate(self._mechanisms):
            layer = self._layers[i] if self._layers else None
            attention, aligned, following = self._attention_fn(mechanism, output, before[i], layer)
            found.append(attention)
            alignments.append(aligned)
            after.append(following)
            written.append(histories[i].write(state.time, aligned) if self._history else ())
        attention = tf.concat(found, 1)
        following = AttentionWrapperState(
            time=state.time + 1,
            cell_state=cell_state,
            attention=attention,
            attention_state=self._one_or_all(after),
            alignments=self._one_or_all(alignments),
            alignment_history=self._one_or_all(written),
        )
        return (attention if self._output_attention else output), following


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _looked_up(mechanism: AttentionMechanism, output: Any, state: Any, layer: Any) -> tuple[Any, Any, Any]:
    """Look at a memory with a cell's output."""
    alignments, following = mechanism(output, state)
    context = tf.squeeze(tf.matmul(tf.expand_dims(alignments, 1), mechanism.values), [1])
    return (context if layer is None else layer(tf.concat([output, context], 1))), alignments, following
