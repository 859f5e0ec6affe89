"""Monotonic attention: mechanisms that never look back (Raffel et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.contrib.seq2seq.attention import BahdanauAttention, LuongAttention
from dtfctl.runtime import api as tf


def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Multiply numbers of [0, 1] up by the sum of their logarithms, which has a gradient at 0."""
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Any:
    """Return how much of each place is looked at, when the search goes on from where it stopped before.

    Args:
        p_choose_i: float [batch, places], how likely the search stops at a place that it comes to.
        previous_attention: float [batch, places], of the step before.
        mode: "recursive" (exact, slow), "parallel" (may lose digits) or "hard" (`p_choose_i` is 0 or 1).

    Raises:
        ValueError: there is no such mode.
    """
    p = tf.convert_to_tensor(p_choose_i, name="p_choose_i")
    before = tf.convert_to_tensor(previous_attention, name="previous_attention")
    if mode == "recursive":
        batch = p.shape[0].value or tf.shape(p)[0]
        passed = tf.concat([tf.ones((batch, 1), p.dtype), 1 - p[:, :-1]], 1)
        come_to = tf.scan(
            lambda x, step: tf.reshape(step[0] * x + step[1], (batch,)),
            [tf.transpose(passed), tf.transpose(before)],
            tf.zeros((batch,), p.dtype),
        )
        return p * tf.transpose(come_to)
    if mode == "parallel":
        passed = safe_cumprod(1 - p, axis=1, exclusive=True)
        return p * passed * tf.cumsum(before / tf.clip_by_value(passed, 1e-10, 1.0), axis=1)
    if mode == "hard":
        p *= tf.cumsum(before, axis=1)
        return p * tf.cumprod(1 - p, axis=1, exclusive=True)
    raise ValueError("mode must be 'recursive', 'parallel', or 'hard'.")


class _Monotonic:
    """What both mechanisms add to a score: a bias, noise, and the search."""

    _bias: float
    _noise: float
    _seed: Any
    _mode: str

    def _search(self, bias: float, noise: float, seed: Any, mode: str) -> None:
        self._bias, self._noise, self._seed, self._mode = bias, noise, seed, mode

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Return all attention at the first place."""
        places: Any = self.alignments_size  # type: ignore[attr-defined]
        return tf.one_hot(tf.zeros((batch_size,), tf.int32), places, dtype=dtype)

    def _biased(self, score: Any) -> Any:
        start = tf.constant_initializer(self._bias)
        return score + tf.get_variable("attention_score_bias", (), score.dtype, start)

    def _aligned(self, score: Any, state: Any) -> Any:
        if self._noise > 0:
            score += self._noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=self._seed)
        p = tf.cast(score > 0, score.dtype) if self._mode == "hard" else tf.sigmoid(score)
        return monotonic_attention(p, state, self._mode)


class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    """Monotonic attention by a small network of the query and a place's key.

    Args:
        sigmoid_noise: deviation of noise added to the scores, so that they become 0 or 1 in training.
        score_bias_init: what the trained bias of the scores begins with.
        mode: as `monotonic_attention` takes it.
    """

    _scope = "bahdanau_monotonic_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: Any = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:
        self._search(score_bias_init, sigmoid_noise, sigmoid_noise_seed, mode)
        super().__init__(
            *(num_units, memory, memory_sequence_length, normalize, None, score_mask_value, dtype),
            *(custom_key_value_fn, name),
        )

    def _score(self, query: Any) -> Any:
        return self._biased(super()._score(query))


class LuongMonotonicAttention(_Monotonic, LuongAttention):
    """Monotonic attention by the product of the query and a place's key; arguments as above.

    Args:
        scale: whether a trained factor scales the score.
    """

    _scope = "luong_monotonic_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: Any = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        custom_key_value_fn: Callable[[Any, Any], Any] | None = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:
        self._search(score_bias_init, sigmoid_noise, sigmoid_noise_seed, mode)
        super().__init__(
            *(num_units, memory, memory_sequence_length, scale, None, score_mask_value, dtype),
            *(custom_key_value_fn, name),
        )

    def _score(self, query: Any) -> Any:
        return self._biased(super()._score(query))
