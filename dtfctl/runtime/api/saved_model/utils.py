"""`tf.saved_model.utils`: tensors in signatures."""

from __future__ import annotations

from dtfctl.runtime.export.signatures import build_tensor_info, get_tensor_from_tensor_info
