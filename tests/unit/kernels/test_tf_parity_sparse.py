"""Sparse kernels at the edges where TensorFlow's own tests look."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from tests.support.interpreter import run_op


def test_set_size_of_bad_indices_and_shapes() -> None:
    with pytest.raises(InternalError, match=r"indices\[0, 1\] expected < 390, got 7450"):
        run_op("SetSize", np.array([[804, 7450], [8, 7]]), [1, 1], np.array([812, 390]), validate_indices=False)
    with pytest.raises(InvalidArgumentError, match="Shape must be a 1D tensor"):
        run_op("SetSize", np.array(1), [1, 1], np.array(1), validate_indices=True)
