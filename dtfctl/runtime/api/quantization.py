"""`tf.quantization`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.quantization import *
from dtfctl.runtime.api._shared.quantization import *
from dtfctl.runtime.ops.array_ops import quantize_and_dequantize
