"""`tf.contrib.util`: tensors as values and protos."""

from __future__ import annotations

from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.tensor_util import make_ndarray, make_tensor_proto

__all__ = ["constant_value", "make_ndarray", "make_tensor_proto"]
