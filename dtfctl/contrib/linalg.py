"""`tf.contrib.linalg`: linear operators, three of them under their former names."""

from __future__ import annotations

from dtfctl.runtime.api.linalg import (
    LinearOperator,
    LinearOperatorComposition,
    LinearOperatorDiag,
    LinearOperatorFullMatrix,
    LinearOperatorIdentity,
    LinearOperatorLowerTriangular,
    LinearOperatorLowRankUpdate,
    LinearOperatorScaledIdentity,
)

LinearOperatorMatrix = LinearOperatorFullMatrix
LinearOperatorTriL = LinearOperatorLowerTriangular
LinearOperatorUDVHUpdate = LinearOperatorLowRankUpdate

__all__ = [
    "LinearOperator",
    "LinearOperatorComposition",
    "LinearOperatorDiag",
    "LinearOperatorFullMatrix",
    "LinearOperatorIdentity",
    "LinearOperatorLowRankUpdate",
    "LinearOperatorLowerTriangular",
    "LinearOperatorMatrix",
    "LinearOperatorScaledIdentity",
    "LinearOperatorTriL",
    "LinearOperatorUDVHUpdate",
]
