"""What feeds a decoder: the true sequence, or what it has said itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework import nest


class Helper:
    """What samples a decoder's outputs and makes its next inputs."""

    @property
    def batch_size(self) -> Any:
        raise NotImplementedError("batch_size has not been implemented")

    @property
    def sample_ids_shape(self) -> Any:
        return tf.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        return tf.int32

    def initialize(self, name: str | None = None) -> Any:
        """Return (finished, first inputs)."""
        raise NotImplementedError

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return the ids said."""
        raise NotImplementedError

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        """Return (finished, next inputs, next state)."""
        raise NotImplementedError


def transposed(tensor: Any) -> Any:
    """Exchange the axes of batch and time."""
    if tensor.shape.ndims is not None and tensor.shape.ndims < 2:
        return tensor
    rank = tensor.shape.ndims
    axes = tf.concat([[1, 0], tf.range(2, tf.rank(tensor))], 0) if rank is None else [1, 0, *range(2, rank)]
    made = tf.transpose(tensor, axes)
    if rank is not None:
        made.set_shape([tensor.shape[1], tensor.shape[0], *tensor.shape[2:]])
    return made


class CustomHelper(Helper):
    """Three functions as a helper."""

    def __init__(
        self,
        initialize_fn: Callable[[], Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize, self._sample, self._next = initialize_fn, sample_fn, next_inputs_fn
        self._batch_size: Any = None
        self._shape, self._dtype = tf.TensorShape(sample_ids_shape or []), sample_ids_dtype or tf.int32

    @property
    def batch_size(self) -> Any:
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._dtype

    def initialize(self, name: str | None = None) -> Any:
        with tf.name_scope(name, "CustomHelperInitialize"):
            finished, inputs = self._initialize()
            if self._batch_size is None:
                self._batch_size = tf.size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "CustomHelperSample"):
            return self._sample(time=time, outputs=outputs, state=state)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "CustomHelperNextInputs"):
            return self._next(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class TrainingHelper(Helper):
    """Feeds the true sequence.

    Args:
        inputs: [batch, time, ...], or [time, batch, ...] with `time_major`; may be nested.
        sequence_length: int32 [batch].
    """

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None) -> None:
        with tf.name_scope(name, "TrainingHelper", [inputs, sequence_length]):
            self.inputs = nest.map_structure(tf.convert_to_tensor, inputs)
            by_time = self.inputs if time_major else nest.map_structure(transposed, self.inputs)
            self._arrays = nest.map_structure(_unstacked, by_time)
            self.sequence_length = tf.convert_to_tensor(sequence_length, name="sequence_length")
            if self.sequence_length.shape.ndims != 1:
                raise ValueError(
                    f"Expected sequence_length to be a vector, but received shape: {self.sequence_length.shape}"
                )
            self._zeros = nest.map_structure(lambda inp: tf.zeros_like(inp[0, :]), by_time)
            self._batch_size = tf.size(self.sequence_length)

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    def initialize(self, name: str | None = None) -> Any:
        with tf.name_scope(name, "TrainingHelperInitialize"):
            finished = tf.equal(0, self.sequence_length)
            return finished, self._read(tf.reduce_all(finished), 0)

    def sample(self, time: Any, outputs: Any, state: Any = None, name: str | None = None) -> Any:
        with tf.name_scope(name, "TrainingHelperSample", [time, outputs]):
            return tf.cast(tf.argmax(outputs, axis=-1), tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None) -> Any:
        with tf.name_scope(name, "TrainingHelperNextInputs", [time, outputs, state]):
            finished = time + 1 >= self.sequence_length
            return finished, self._read(tf.reduce_all(finished), time + 1), state

    def _read(self, all_finished: Any, time: Any) -> Any:
        return tf.cond(
            all_finished, lambda: self._zeros, lambda: nest.map_structure(lambda a: a.read(time), self._arrays)
        )


def _unstacked(tensor: Any) -> Any:
    array = tf.TensorArray(
        tensor.dtype, size=tf.shape(tensor)[0], element_shape=tensor.shape[1:], clear_after_read=False
    )
    return array.unstack(tensor)


def lookup_of(embedding: Any) -> Callable[[Any], Any]:
    """Return a function from ids to inputs: the given one, or a look-up in a matrix."""
    return embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Feeds the true sequence, and now and then what the decoder has said.

    Args:
        sampling_probability: how likely an example's own word is fed.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        with tf.name_scope(name, "ScheduledEmbeddingSamplingWrapper", [embedding, sampling_probability]):
            self._lookup = lookup_of(embedding)
            self._probability = tf.convert_to_tensor(sampling_probability, name="sampling_probability")
            self._seed, self._scheduling_seed = seed, scheduling_seed
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time: Any, outputs: Any, state: Any = None, name: str | None = None) -> Any:
        with tf.name_scope(name, "ScheduledEmbeddingTrainingHelperSample", [time, outputs]):
            own = tf.random_uniform([self.batch_size], seed=self._scheduling_seed) < self._probability
            said = tf.reshape(tf.multinomial(outputs, 1, seed=self._seed, output_dtype=tf.int32), [-1])
            return tf.where(own, said, tf.fill([self.batch_size], -1))

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any = None, name: str | None = None) -> Any:
        finished, given, state = super().next_inputs(time, outputs, state, sample_ids, name)
        own = self._lookup(tf.maximum(sample_ids, 0))
        chosen = tf.where(sample_ids > -1, own, given)
        return finished, tf.cond(tf.reduce_all(finished), lambda: given, lambda: chosen), state


class GreedyEmbeddingHelper(Helper):
    """Feeds the likeliest word said.

    Args:
        embedding: a matrix, or a function from ids to inputs.
        start_tokens: int32 [batch].
        end_token: the id that ends a sequence.
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._lookup = lookup_of(embedding)
        self._start = tf.convert_to_tensor(start_tokens, dtype=tf.int32, name="start_tokens")
        self._end = tf.convert_to_tensor(end_token, dtype=tf.int32, name="end_token")
        if self._start.shape.ndims != 1:
            raise ValueError("start_tokens must be a vector")
        if self._end.shape.ndims != 0:
            raise ValueError("end_token must be a scalar")
        self._batch_size = tf.size(self._start)
        self._first = self._lookup(self._start)

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    def initialize(self, name: str | None = None) -> Any:
        return tf.tile([False], [self._batch_size]), self._first

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return tf.argmax(outputs, axis=-1, output_type=tf.int32)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        finished = tf.equal(sample_ids, self._end)
        return (
            finished,
            tf.cond(tf.reduce_all(finished), lambda: self._first, lambda: self._lookup(sample_ids)),
            state,
        )


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Feeds a word drawn by its probability; arguments as above."""

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._temperature, self._seed = softmax_temperature, seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        logits = outputs if self._temperature is None else outputs / self._temperature
        return tf.reshape(tf.multinomial(logits, 1, seed=self._seed, output_dtype=tf.int32), [-1])


class InferenceHelper(Helper):
    """Feeds what a function makes of the outputs, for outputs that are no words."""

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample_fn, self._end_fn, self._next_fn = sample_fn, end_fn, next_inputs_fn
        self._shape, self._dtype = tf.TensorShape(sample_shape), sample_dtype
        self._first = tf.convert_to_tensor(start_inputs, name="start_inputs")
        self._batch_size = tf.shape(self._first)[0]

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._dtype

    def initialize(self, name: str | None = None) -> Any:
        return tf.tile([False], [self._batch_size]), self._first

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._sample_fn(outputs)

    def next_inputs(self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None) -> Any:
        following = sample_ids if self._next_fn is None else self._next_fn(sample_ids)
        return self._end_fn(sample_ids), following, state
