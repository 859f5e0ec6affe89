"""Attention: weights over values by how well keys fit queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras.backend.phase import in_train_phase
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.ops import array_ops, math_ops, nn_ops
from dtfctl.runtime.ops.array_ops.diagonals import matrix_band_part
from dtfctl.runtime.ops.linalg_ops import einsum


def causal_mask(scores: Any) -> Any:
    """Make what lets a position see itself and those before: booleans in the shape of scores' last two axes."""
    sizes = array_ops.shape(scores)[-2:]
    ones = array_ops.ones(sizes, dtypes.int32)
    return math_ops.cast(matrix_band_part(ones, -1, 0), dtypes.bool_)


def _hidden(seen: Any, scores: Any) -> Any:
    """Make what takes so much off the scores that are not seen that nothing of them is left; finite in their dtype."""
    most = 65504.0 if scores.dtype.base_dtype is dtypes.float16 else 1.0e9
    return most * (1.0 - math_ops.cast(seen, scores.dtype))


class _Attention(Layer):
    """Base of attention over [query, value] or [query, value, key], each [batch, steps, size].

    Args:
        causal: no position sees those after it.
        dropout: the fraction of weights that are zero while training.
    """

    def __init__(self, causal: bool = False, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.causal, self.dropout, self.supports_masking = causal, dropout, True
        self.scale: Any = None

    def _scores(self, query: Any, key: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say how keys fit queries")

    def call(
        self,
        inputs: Any,
        mask: Any = None,
        training: Any = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> Any:
        """Compute the outputs for inputs, [batch, query steps, value size], and the weights where asked.

        Raises:
            ValueError: the inputs are no list of two or three.
        """
        if not isinstance(inputs, list) or len(inputs) not in (2, 3):
            raise ValueError(
                f"{type(self).__name__} layer must be called on a list of inputs, namely [query, value] or "
                f"[query, value, key]. Received: {inputs}."
            )
        query, value = inputs[:2]
        scores = self._scores(query, inputs[2] if len(inputs) > 2 else value)
        masks = list(mask) if mask is not None else [None, None]
        seen = None if masks[1] is None else array_ops.expand_dims(masks[1], -2)
        if self.causal or use_causal_mask:
            before = causal_mask(scores)
            seen = before if seen is None else math_ops.logical_and(seen, before)
        if seen is not None:
            scores -= _hidden(seen, scores)
        weights = nn_ops.softmax(scores)
        if self.dropout:
            whole = weights
            weights = in_train_phase(lambda: nn_ops.dropout(whole, rate=self.dropout), whole, training=training)
        result = math_ops.matmul(weights, value)
        if masks[0] is not None:
            result *= math_ops.cast(array_ops.expand_dims(masks[0], -1), result.dtype)
        return (result, weights) if return_attention_scores else result

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs: that of the queries."""
        return mask[0] if mask else None

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs."""
        query, value = TensorShape(input_shape[0]), TensorShape(input_shape[1])
        return query[:-1].concatenate(value[-1:])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "causal": self.causal, "dropout": self.dropout}


class Attention(_Attention):
    """Attention by products of queries and keys (Luong et al., 2015).

    Args:
        use_scale: multiply the products by a variable.
    """

    def __init__(self, use_scale: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, input_shape: Any) -> None:
        """Make the scale."""
        if self.use_scale:
            self.scale = self.add_weight("scale", [], initializer="ones", trainable=True)
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        scores = math_ops.matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "use_scale": self.use_scale}


class AdditiveAttention(_Attention):
    """Attention by tanh of the sums of queries and keys (Bahdanau et al., 2014)."""

    def __init__(self, use_scale: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_scale = use_scale

    def build(self, input_shape: Any) -> None:
        """Make the scale."""
        if self.use_scale:
            size = TensorShape(input_shape[1])[-1].value
            self.scale = self.add_weight("scale", [size], initializer="glorot_uniform", trainable=True)
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        sums = math_ops.tanh(array_ops.expand_dims(query, -2) + array_ops.expand_dims(key, -3))
        return math_ops.reduce_sum(sums if self.scale is None else self.scale * sums, axis=-1)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        return {**super().get_config(), "use_scale": self.use_scale}


class MultiHeadAttention(Layer):
    """Attention by several heads (Vaswani et al., 2017) over axis 1 of [batch, steps, size].

    Args:
        num_heads: how many. key_dim, value_dim: the size of each one's queries and keys, and values.
        dropout: the fraction of weights that are zero while training.
        output_shape: the size of the outputs; the queries' when None.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: int | Sequence[int] | None = None,
        attention_axes: Any = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        if attention_axes not in (None, 1, (1,), [1]):
            raise NotImplementedError(
                "MultiHeadAttention: attention goes over axis 1 here; fold other axes into the batch"
            )
        if not (output_shape is None or isinstance(output_shape, int) or len(output_shape) == 1):
            raise NotImplementedError(f"MultiHeadAttention: outputs have one size here, not {list(output_shape)}")
        super().__init__(**kwargs)
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, value_dim or key_dim
        self.dropout, self.use_bias, self.supports_masking = dropout, use_bias, True
        self.size = output_shape if output_shape is None or isinstance(output_shape, int) else int(output_shape[-1])
        self.kernel_initializer, self.bias_initializer = kernel_initializer, bias_initializer
        self._parts: dict[str, tuple[Any, Any]] = {}

    def call(
        self,
        query: Any,
        value: Any = None,
        key: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: Any = None,
        use_causal_mask: bool = False,
    ) -> Any:
        """Compute the outputs, [batch, query steps, size], and [batch, heads, query steps, key steps] where asked.

        Raises:
            ValueError: there are no values.
        """
        if value is None:
            raise ValueError("MultiHeadAttention is called with a query and a value")
        key = value if key is None else key
        q = self._projected("query", query, self.key_dim)
        k = self._projected("key", key, self.key_dim)
        v = self._projected("value", value, self.value_dim)
        q *= 1.0 / float(self.key_dim) ** 0.5
        scores = einsum("aecd,abcd->acbe", k, q)
        seen = None if attention_mask is None else math_ops.cast(attention_mask, dtypes.bool_)
        if use_causal_mask:
            before = causal_mask(scores)
            seen = before if seen is None else math_ops.logical_and(seen, before)
        if seen is not None:
            while (seen.shape.rank or 0) < 4:
                seen = array_ops.expand_dims(seen, -3)
            scores -= _hidden(seen, scores)
        weights = nn_ops.softmax(scores)
        kept = weights
        if self.dropout:
            kept = in_train_phase(lambda: nn_ops.dropout(weights, rate=self.dropout), weights, training=training)
        heads = einsum("acbe,aecd->abcd", kept, v)
        size = self.size or query.shape[-1].value
        shape = [self.num_heads, self.value_dim, size]
        kernel, bias = self._variables("attention_output", shape, [size])
        result = einsum("abcd,cde->abe", heads, kernel)
        result = result if bias is None else result + bias
        return (result, weights) if return_attention_scores else result

    def _projected(self, name: str, x: Any, size: int) -> Any:
        kernel, bias = self._variables(name, [x.shape[-1].value, self.num_heads, size], [self.num_heads, size])
        out = einsum("abc,cde->abde", x, kernel)
        return out if bias is None else out + bias

    def _variables(self, name: str, shape: list[Any], bias_shape: list[Any]) -> tuple[Any, Any]:
        if name not in self._parts:
            kernel = self.add_weight(f"{name}/kernel", shape, initializer=self.kernel_initializer, trainable=True)
            bias = None
            if self.use_bias:
                bias = self.add_weight(f"{name}/bias", bias_shape, initializer=self.bias_initializer, trainable=True)
            self._parts[name] = kernel, bias
        return self._parts[name]

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again."""
        names = ("num_heads", "key_dim", "value_dim", "dropout", "use_bias", "kernel_initializer", "bias_initializer")
        return {**super().get_config(), **{n: getattr(self, n) for n in names}, "output_shape": self.size}
