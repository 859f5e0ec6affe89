"""Operators that are convolutions: circulant ones in one to three dimensions, and Toeplitz ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.linear_operators import broadcasting
from dtfctl.runtime.ops.linear_operators.base import LinearOperator
from dtfctl.runtime.ops.linear_operators.described import Hints, arguments_of, checked_hint, leading
from dtfctl.runtime.ops.op_defs.elementwise import fft, fft2d, fft3d, ifft, ifft2d, ifft3d


class _Circulant(LinearOperator):
    """Square matrices F^-1 diag(spectrum) F, F a discrete Fourier transform of `block_depth` dimensions."""

    depth: ClassVar[int]
    forward: ClassVar[Callable[..., Tensor]]
    backward: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        spectrum: Any,
        input_output_dtype: Any = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        parameters = arguments_of(locals())
        checked_hint(is_square, True, "A [[nested] block] circulant operator is always square.")
        self._spectrum: Tensor = convert_to_tensor(spectrum, name="spectrum")
        known = self._spectrum.shape
        if known.ndims is not None and known.ndims < self.depth:
            raise ValueError(f"Argument spectrum must have at least {self.depth} dimensions.  Found: {self._spectrum}")
        if not self._spectrum.dtype.base_dtype.is_complex:
            message = "A real spectrum always corresponds to a self-adjoint operator."
            is_self_adjoint = checked_hint(is_self_adjoint, True, message)
        super().__init__(
            input_output_dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name, parameters
        )

    @property
    def ndims_of_parameters(self) -> dict[str, Any]:  # type: ignore[override]
        return {"spectrum": self.depth}

    @property
    def spectrum(self) -> Tensor:
        """The eigenvalues, [..., b0, .., bd]."""
        return self._spectrum

    @property
    def block_depth(self) -> int:
        """The number of dimensions of the convolution."""
        return self.depth

    @property
    def block_shape(self) -> TensorShape:
        """The static shape of the convolution's kernel."""
        dims = TensorShape(self._spectrum.shape).dims
        return TensorShape(None if dims is None else dims[-self.depth :])

    def block_shape_tensor(self) -> Tensor:
        """Return the shape of the convolution's kernel: int32."""
        return array_ops.shape(self._spectrum)[-self.depth :]

    def _shape(self) -> TensorShape:
        if self._spectrum.shape.ndims is None:
            return TensorShape(None)
        size = self.block_shape.num_elements()
        return leading(self._spectrum.shape, self.depth).concatenate([size, size])

    def _shape_tensor(self) -> Tensor:
        shape = array_ops.shape(self._spectrum)
        size = array_ops.reshape(math_ops.reduce_prod(shape[-self.depth :]), [1])
        return array_ops.concat([shape[: -self.depth], size, size], 0)

    @property
    def _complex(self) -> Any:
        wide = (dtypes.float64, dtypes.complex128)
        return dtypes.complex128 if self._dtype in wide else dtypes.complex64

    def _values(self) -> Tensor:
        return math_ops.cast(self._spectrum, self._complex)

    def _out(self, found: Tensor) -> Tensor:
        if not self._dtype.is_complex:
            found = math_ops.real(found)
        return math_ops.cast(found, self._dtype)

    def _filtered(self, x: Tensor, values: Tensor) -> Tensor:
        """Multiply the transform of the columns of `x` by `values`."""
        columns = array_ops.matrix_transpose(math_ops.cast(x, self._complex))
        shape = array_ops.shape(columns)
        blocks = array_ops.reshape(columns, array_ops.concat([shape[:-1], self.block_shape_tensor()], 0))
        wide = array_ops.expand_dims(values, -self.depth - 1)
        transformed = type(self).forward(blocks) * wide
        back = type(self).backward(transformed)
        outer = array_ops.shape(back)[: -self.depth]
        flat = array_ops.reshape(back, array_ops.concat([outer, shape[-1:]], 0))
        found: Tensor = array_ops.matrix_transpose(flat)
        known = TensorShape(x.shape)
        if known.ndims is not None and self.shape.ndims is not None:
            found.set_shape(broadcasting.static([self.batch_shape, known[:-2]]).concatenate(known[-2:]))
        return self._out(found)

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        values = self._values()
        return self._filtered(x, math_ops.conj(values) if adjoint else values)

    def _solve(self, rhs: Tensor, adjoint: bool) -> Tensor:
        values = self._values()
        return self._filtered(rhs, 1 / (math_ops.conj(values) if adjoint else values))

    def like(self, spectrum: Tensor, hints: Hints) -> LinearOperator:
        """Make an operator of the same kind with another spectrum."""
        return type(self)(spectrum, input_output_dtype=self._dtype, **hints)

    def _adjoint(self) -> LinearOperator:
        return self.like(math_ops.conj(self._spectrum), self._hints())

    def _inverse(self) -> LinearOperator:
        return self.like(1.0 / self._spectrum, self._hints_as_non_singular())

    def convolution_kernel(self, name: str = "convolution_kernel") -> Tensor:
        """Return the kernel, [..., b0, .., bd], of the operator's type: the first column of the matrix in blocks."""
        with self._scope(name):
            return self._out(type(self).backward(self._values()))

    def _flat(self) -> Tensor:
        shape = array_ops.shape(self._spectrum)
        found: Tensor = array_ops.reshape(self._spectrum, array_ops.concat([shape[: -self.depth], [-1]], 0))
        found.set_shape(self.shape[:-1])
        return found

    def _trace(self) -> Tensor:
        return self._out(math_ops.cast(math_ops.reduce_sum(self._flat(), axis=-1), self._complex))

    def _diag_part(self) -> Tensor:
        size = self.domain_dimension_tensor()
        mean = self._trace() / math_ops.cast(size, self._dtype)
        shape = array_ops.concat([self.batch_shape_tensor(), array_ops.reshape(size, [1])], 0)
        return array_ops.expand_dims(mean, -1) * array_ops.ones(shape, self._dtype)

    def _determinant(self) -> Tensor:
        return self._out(math_ops.cast(math_ops.reduce_prod(self._flat(), axis=-1), self._complex))

    def _log_abs_determinant(self) -> Tensor:
        found = math_ops.reduce_sum(math_ops.log(math_ops.abs(self._flat())), axis=-1)
        return math_ops.cast(found, self._dtype.real_dtype)

    def _eigvals(self) -> Tensor:
        return math_ops.cast(self._flat(), self._complex)

    def _cond(self) -> Tensor:
        sizes = math_ops.abs(self._flat())
        return math_ops.reduce_max(sizes, axis=-1) / math_ops.reduce_min(sizes, axis=-1)

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Operation:
        """Return an op that fails where the matrices are not real."""
        with self._scope(name):
            kernel = type(self).backward(self._values())
            imaginary = math_ops.abs(math_ops.imag(kernel))
            size = math_ops.cast(self.domain_dimension_tensor(), imaginary.dtype.base_dtype)
            scale = math_ops.reduce_max(math_ops.abs(self._spectrum))
            precision = 10 * 1.2e-7 if self._complex == dtypes.complex64 else 10 * 2.3e-16
            limit = precision * size * math_ops.cast(scale, imaginary.dtype.base_dtype)
            return check_ops.assert_less_equal(imaginary, limit, message="Spectrum was not Hermitian")

    def _assert_non_singular(self) -> Operation:
        sizes = math_ops.abs(self._spectrum)
        return check_ops.assert_positive(sizes, message="Singular:  Spectrum had 0 values.")

    def _assert_positive_definite(self) -> Operation:
        message = "Not positive definite:  Real part of spectrum was not all positive."
        return check_ops.assert_positive(math_ops.real(self._spectrum), message=message)

    def _assert_self_adjoint(self) -> Operation:
        imaginary = math_ops.imag(self._values())
        message = "Not self-adjoint:  The spectrum contained non-zero imaginary part."
        return check_ops.assert_equal(imaginary, array_ops.zeros_like(imaginary), message=message)


class LinearOperatorCirculant(_Circulant):
    """Circulant matrices by their spectrum [..., n]: products with them are convolutions, by Fourier transforms."""

    depth, forward, backward = 1, staticmethod(fft), staticmethod(ifft)


class LinearOperatorCirculant2D(_Circulant):
    """Block circulant matrices by their spectrum [..., n0, n1]."""

    depth, forward, backward = 2, staticmethod(fft2d), staticmethod(ifft2d)


class LinearOperatorCirculant3D(_Circulant):
    """Nested block circulant matrices by their spectrum [..., n0, n1, n2]."""

    depth, forward, backward = 3, staticmethod(fft3d), staticmethod(ifft3d)


class LinearOperatorToeplitz(LinearOperator):
    """Square matrices with equal elements along each diagonal, by the first column and row, [..., n] each.

    The column's first element is the diagonal's; the row's is not read.
    """

    ndims_of_parameters = {"col": 1, "row": 1}

    def __init__(
        self,
        col: Any,
        row: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorToeplitz",
    ) -> None:
        parameters = arguments_of(locals())
        self._col: Tensor = convert_to_tensor(col, name="col")
        self._row: Tensor = convert_to_tensor(row, name="row")
        for which, item in (("col", self._col), ("row", self._row)):
            if item.shape.ndims == 0:
                raise ValueError(f"Argument {which} must have at least 1 dimension.  Found: {item}")
        if self._row.shape.ndims is not None and self._col.shape.ndims is not None:
            sizes = self._row.shape.as_list()[-1], self._col.shape.as_list()[-1]
            if None not in sizes and sizes[0] != sizes[1]:
                raise ValueError("Expected square matrix, got row and col with mismatched dimensions.")
        checked_hint(is_square, True, "Only square Toeplitz operators currently supported.")
        super().__init__(
            self._col.dtype, None, is_non_singular, is_self_adjoint, is_positive_definite, True, name, parameters
        )

    @property
    def col(self) -> Tensor:
        """The first columns."""
        return self._col

    @property
    def row(self) -> Tensor:
        """The first rows."""
        return self._row

    def _shape(self) -> TensorShape:
        known = broadcasting.static([self._row.shape, self._col.shape])
        return TensorShape(None) if known.ndims is None else known.concatenate(known[-1:])

    def _shape_tensor(self) -> Tensor:
        shape = broadcasting.dynamic([array_ops.shape(self._row), array_ops.shape(self._col)])
        return array_ops.concat([shape, shape[-1:]], 0)

    def _pair(self) -> list[Tensor]:
        shape = broadcasting.dynamic([array_ops.shape(self._col), array_ops.shape(self._row)])
        return [array_ops.broadcast_to(item, shape) for item in (self._col, self._row)]

    def _matmul(self, x: Tensor, adjoint: bool) -> Tensor:
        """Multiply by the circulant matrix of 2 n - 1 rows that this one is a corner of."""
        col, row = self._pair()
        if adjoint:
            first = math_ops.conj(col[..., :1])
            col, row = (
                array_ops.concat([first, math_ops.conj(row[..., 1:])], -1),
                math_ops.conj(col),
            )
        wide = dtypes.complex128 if self._dtype in (dtypes.float64, dtypes.complex128) else dtypes.complex64
        kernel = math_ops.cast(array_ops.concat([col, array_ops.reverse(row[..., 1:], [-1])], -1), wide)
        operator = LinearOperatorCirculant(fft(kernel), input_output_dtype=self._dtype)
        longer = array_ops.concat([x, array_ops.zeros_like(x)[..., 1:, :]], -2)
        found: Tensor = operator.matmul(longer)[..., : array_ops.shape(x)[-2], :]
        known = TensorShape(x.shape)
        if known.ndims is not None and self.shape.ndims is not None:
            found.set_shape(broadcasting.static([self.batch_shape, known[:-2]]).concatenate(known[-2:]))
        return found

    def _to_dense(self) -> Tensor:
        col, row = self._pair()
        size = array_ops.shape(col)[-1]
        place = math_ops.range(size)
        distance = array_ops.expand_dims(place, -1) - array_ops.expand_dims(place, 0)
        both = array_ops.concat([array_ops.reverse(row[..., 1:], [-1]), col], -1)
        found: Tensor = array_ops.gather(both, distance + size - 1, axis=-1)
        return found

    def _diag_part(self) -> Tensor:
        col, _ = self._pair()
        return col[..., :1] * array_ops.ones_like(col)

    def _trace(self) -> Tensor:
        col, _ = self._pair()
        return math_ops.cast(self.domain_dimension_tensor(), self._dtype) * col[..., 0]

    def _assert_self_adjoint(self) -> Operation:
        message = "row and col are not the same, and so this operator is not self-adjoint."
        return check_ops.assert_equal(self._row, math_ops.conj(self._col), message=message)
