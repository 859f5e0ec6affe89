"""`tf.debugging`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.debugging import *
from dtfctl.runtime.api._shared.assertions import *
from dtfctl.runtime.api._shared.debugging import *
from dtfctl.runtime.ops.check_ops import assert_shapes, verify_tensor_all_finite as assert_all_finite
