"""`tensorflow.python.ops.linalg.linear_operator_util`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.linear_operators import broadcasting

__all__ = ["broadcast_matrix_batch_dims", "matrix_solve_with_broadcast"]


def broadcast_matrix_batch_dims(batch_matrices: Sequence[Any], name: str | None = None) -> list[Tensor]:
    """Give matrices [..., r, c] of any sizes one batch.

    Raises:
        ValueError: one is no matrix.
    """
    with tf.name_scope(name, "broadcast_matrix_batch_dims"):
        found = [tf.convert_to_tensor(item) for item in batch_matrices]
        for item in found:
            if item.shape.ndims is not None and item.shape.ndims < 2:
                raise ValueError(f"Argument must have at least two dimensions.  Found: {item}")
        return broadcasting.matrices(*found) if len(found) > 1 else found


def matrix_solve_with_broadcast(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solve systems of equations whose matrices [..., n, n] and right sides [..., n, k] have batches to broadcast."""
    with tf.name_scope(name, "MatrixSolveWithBroadcast"):
        left, right = broadcasting.matrices(tf.convert_to_tensor(matrix), tf.convert_to_tensor(rhs))
        found: Tensor = tf.linalg.solve(left, right, adjoint=adjoint)
        return found
