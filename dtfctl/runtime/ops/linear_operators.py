"""`tf.linalg.LinearOperator*`: matrices of a known form, [..., rows, columns], with what is quick for their form."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, math_ops


class LinearOperator:
    """A batch of matrices. Subclasses say how the whole matrix is made; what is quicker for them they do otherwise."""

    def __init__(self, dtype: Any, name: str) -> None:
        self._dtype, self._name = as_dtype(dtype).base_dtype, name

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def name(self) -> str:
        return self._name

    @property
    def shape(self) -> TensorShape:
        """The static shape, [..., rows, columns]."""
        return TensorShape(self.to_dense().shape)

    @property
    def batch_shape(self) -> TensorShape:
        return TensorShape(self.shape.as_list()[:-2])

    @property
    def domain_dimension(self) -> Any:
        return self.shape[-1]

    @property
    def range_dimension(self) -> Any:
        return self.shape[-2]

    def shape_tensor(self, name: str = "shape_tensor") -> Tensor:
        """Return the shape while the graph runs: int32."""
        return array_ops.shape(self.to_dense(), name=name)

    def to_dense(self, name: str = "to_dense") -> Tensor:
        """Return the whole matrices."""
        raise NotImplementedError

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Tensor:
        """Multiply matrices from the left: [..., columns, n] -> [..., rows, n]."""
        right = convert_to_tensor(x, self._dtype)
        product: Tensor = math_ops.matmul(self.to_dense(), right, adjoint_a=adjoint, adjoint_b=adjoint_arg, name=name)
        return product

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Tensor:
        """Multiply vectors from the left: [..., columns] -> [..., rows]."""
        wide = array_ops.expand_dims(convert_to_tensor(x, self._dtype), -1)
        return array_ops.squeeze(self.matmul(wide, adjoint), axis=[-1], name=name)

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Tensor:
        """Return what is multiplied to `rhs` [..., rows, n]."""
        right = convert_to_tensor(rhs, self._dtype)
        right = array_ops.matrix_transpose(right) if adjoint_arg else right
        found: Tensor = apply_op("MatrixSolve", name, matrix=self.to_dense(), rhs=right, adjoint=adjoint)
        return found

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solvevec") -> Tensor:
        """Return the vectors that are multiplied to `rhs` [..., rows]."""
        wide = array_ops.expand_dims(convert_to_tensor(rhs, self._dtype), -1)
        return array_ops.squeeze(self.solve(wide, adjoint), axis=[-1], name=name)

    def diag_part(self, name: str = "diag_part") -> Tensor:
        """Return the diagonals."""
        found: Tensor = array_ops.matrix_diag_part(self.to_dense(), name=name)
        return found

    def trace(self, name: str = "trace") -> Tensor:
        """Return the sums of the diagonals."""
        return math_ops.reduce_sum(self.diag_part(), axis=-1, name=name)

    def determinant(self, name: str = "det") -> Tensor:
        """Return the determinants."""
        found: Tensor = apply_op("MatrixDeterminant", name, input=self.to_dense())
        return found

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        """Return the logarithms of the determinants' magnitudes."""
        return math_ops.log(math_ops.abs(self.determinant()), name=name)

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Tensor:
        """Add a matrix."""
        return math_ops.add(self.to_dense(), convert_to_tensor(x, self._dtype), name=name)


class LinearOperatorFullMatrix(LinearOperator):
    """Matrices of any form."""

    def __init__(self, matrix: Any, *hints: Any, name: str = "LinearOperatorFullMatrix", **more: Any) -> None:
        self._matrix = convert_to_tensor(matrix)
        super().__init__(self._matrix.dtype, name)

    def to_dense(self, name: str = "to_dense") -> Tensor:
        return self._matrix


class LinearOperatorDiag(LinearOperator):
    """Square matrices that are 0 but for their diagonals [..., n]."""

    def __init__(self, diag: Any, *hints: Any, name: str = "LinearOperatorDiag", **more: Any) -> None:
        self._diag = convert_to_tensor(diag)
        super().__init__(self._diag.dtype, name)

    @property
    def diag(self) -> Tensor:
        return self._diag

    def to_dense(self, name: str = "to_dense") -> Tensor:
        made: Tensor = array_ops.matrix_diag(self._diag, name=name)
        return made

    def diag_part(self, name: str = "diag_part") -> Tensor:
        return self._diag

    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Tensor:
        right = convert_to_tensor(x, self._dtype)
        right = array_ops.matrix_transpose(right) if adjoint_arg else right
        return math_ops.multiply(array_ops.expand_dims(self._diag, -1), right, name=name)

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Tensor:
        right = convert_to_tensor(rhs, self._dtype)
        right = array_ops.matrix_transpose(right) if adjoint_arg else right
        return math_ops.divide(right, array_ops.expand_dims(self._diag, -1), name=name)

    def determinant(self, name: str = "det") -> Tensor:
        return math_ops.reduce_prod(self._diag, axis=-1, name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return math_ops.reduce_sum(math_ops.log(math_ops.abs(self._diag)), axis=-1, name=name)


class LinearOperatorLowerTriangular(LinearOperator):
    """Square matrices that are 0 above their diagonals; what `tril` has there is not read."""

    def __init__(self, tril: Any, *hints: Any, name: str = "LinearOperatorLowerTriangular", **more: Any) -> None:
        self._tril = array_ops.matrix_band_part(convert_to_tensor(tril), -1, 0)
        super().__init__(self._tril.dtype, name)

    def to_dense(self, name: str = "to_dense") -> Tensor:
        return self._tril

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Tensor:
        right = convert_to_tensor(rhs, self._dtype)
        right = array_ops.matrix_transpose(right) if adjoint_arg else right
        found: Tensor = apply_op(
            "MatrixTriangularSolve", name, matrix=self._tril, rhs=right, lower=True, adjoint=adjoint
        )
        return found

    def determinant(self, name: str = "det") -> Tensor:
        return math_ops.reduce_prod(self.diag_part(), axis=-1, name=name)

    def log_abs_determinant(self, name: str = "log_abs_det") -> Tensor:
        return math_ops.reduce_sum(math_ops.log(math_ops.abs(self.diag_part())), axis=-1, name=name)
