"""Write arguments of datasets as their ops take them."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor

# How ops that work in parallel say whether they keep the order.
DETERMINISTIC = {None: "default", True: "true", False: "false"}


def int64(value: Any) -> Tensor:
    """Convert a count or a place: ops of datasets take them as int64."""
    return convert_to_tensor(value, dtypes.int64)
