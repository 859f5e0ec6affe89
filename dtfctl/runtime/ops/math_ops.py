"""Mathematical functions with TF1's names and argument orders, and the operators of Tensor."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import (
    IndexedSlices,
    SparseTensor,
    constant,
    convert_to_tensor,
    register_tensor_conversion_function,
)
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor

Unary = Callable[..., Tensor]


def _dense(value: IndexedSlices, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    """An IndexedSlices where a tensor is wanted: its rows, summed into zeros."""
    from dtfctl.runtime.framework.gradients import as_dense

    if dtype is not None and as_dtype(dtype).base_dtype is not value.dtype.base_dtype:
        raise ValueError(f"Tensor conversion requested dtype {dtype} for IndexedSlices with dtype {value.dtype.name}")
    return as_dense(value)


register_tensor_conversion_function(IndexedSlices, _dense)


def _unary(op_type: str, argument: str = "x") -> Unary:
    def function(x: Any, name: str | None = None) -> Tensor:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, function(x.values, name=name), x.dense_shape)  # type: ignore[return-value]
        return apply_op(op_type, name, **{argument: x})  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = op_type.lower()
    function.__doc__ = f"The {op_type} op, element by element (a SparseTensor's values)."
    return function


acos, acosh, asin, asinh = _unary("Acos"), _unary("Acosh"), _unary("Asin"), _unary("Asinh")
atan, atanh, cos, cosh = _unary("Atan"), _unary("Atanh"), _unary("Cos"), _unary("Cosh")
sin, sinh, tan, tanh = _unary("Sin"), _unary("Sinh"), _unary("Tan"), _unary("Tanh")
exp, expm1, log, log1p = _unary("Exp"), _unary("Expm1"), _unary("Log"), _unary("Log1p")
ceil, floor, rint = _unary("Ceil"), _unary("Floor"), _unary("Rint")
sqrt, rsqrt, square, sigmoid = _unary("Sqrt"), _unary("Rsqrt"), _unary("Square"), _unary("Sigmoid")
negative, sign, reciprocal = _unary("Neg"), _unary("Sign"), _unary("Reciprocal")
erf, erfc, erfinv, ndtri = _unary("Erf"), _unary("Erfc"), _unary("Erfinv"), _unary("Ndtri")
lgamma, digamma, dawsn, expint, spence = (
    _unary("Lgamma"),
    _unary("Digamma"),
    _unary("Dawsn"),
    _unary("Expint"),
    _unary("Spence"),
)
fresnel_cos, fresnel_sin = _unary("FresnelCos"), _unary("FresnelSin")
bessel_i0, bessel_i0e, bessel_i1, bessel_i1e = (
    _unary("BesselI0"),
    _unary("BesselI0e"),
    _unary("BesselI1"),
    _unary("BesselI1e"),
)
bessel_j0, bessel_j1, bessel_y0, bessel_y1 = (
    _unary("BesselJ0"),
    _unary("BesselJ1"),
    _unary("BesselY0"),
    _unary("BesselY1"),
)
bessel_k0, bessel_k0e, bessel_k1, bessel_k1e = (
    _unary("BesselK0"),
    _unary("BesselK0e"),
    _unary("BesselK1"),
    _unary("BesselK1e"),
)
is_finite, is_inf, is_nan = _unary("IsFinite"), _unary("IsInf"), _unary("IsNan")
logical_not = _unary("LogicalNot")
invert, population_count = _unary("Invert"), _unary("PopulationCount")
neg = negative


def abs(x: Any, name: str | None = None) -> Any:
    """Absolute value; of complex numbers the magnitude."""
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, abs(x.values, name=name), x.dense_shape)
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return apply_op("ComplexAbs", name or "Abs", x=x, Tout=x.dtype.real_dtype)
    return apply_op("Abs", name, x=x)


def round(x: Any, name: str | None = None) -> Tensor:
    """To the nearest integer, halves to the even one."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else apply_op("Round", name, x=x)  # type: ignore[no-any-return]


def _like(x: Any, y: Any) -> tuple[Any, Any]:
    """Both as tensors, where the one that has a type gives it to the other."""
    if isinstance(x, Tensor) or not _has_dtype(y):
        x = convert_to_tensor(x, name="x")
        return x, y
    y = convert_to_tensor(y, name="y")
    return convert_to_tensor(x, y.dtype.base_dtype, name="x"), y


def _has_dtype(value: Any) -> bool:
    return isinstance(value, Tensor) or (hasattr(value, "dtype") and not isinstance(value, (np.ndarray, np.generic)))


def _binary(op_type: str) -> Callable[..., Tensor]:
    def function(x: Any, y: Any, name: str | None = None) -> Tensor:
        x, y = _like(x, y)
        return apply_op(op_type, name, x=x, y=y)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = op_type.lower()
    function.__doc__ = f"The {op_type} op on broadcast arguments."
    return function


add, subtract, div_no_nan = _binary("AddV2"), _binary("Sub"), _binary("DivNoNan")
maximum, minimum, pow_, mod_ = _binary("Maximum"), _binary("Minimum"), _binary("Pow"), _binary("FloorMod")
floormod = floor_mod = mod = mod_
squared_difference, truncatediv, truncatemod = (
    _binary("SquaredDifference"),
    _binary("TruncateDiv"),
    _binary("TruncateMod"),
)
floor_div, realdiv, multiply_no_nan = _binary("FloorDiv"), _binary("RealDiv"), _binary("MulNoNan")
greater, greater_equal, less, less_equal = (
    _binary("Greater"),
    _binary("GreaterEqual"),
    _binary("Less"),
    _binary("LessEqual"),
)
logical_and, logical_or = _binary("LogicalAnd"), _binary("LogicalOr")
xdivy, xlogy, xlog1py = _binary("Xdivy"), _binary("Xlogy"), _binary("Xlog1py")
bitwise_and, bitwise_or, bitwise_xor = _binary("BitwiseAnd"), _binary("BitwiseOr"), _binary("BitwiseXor")
left_shift, right_shift = _binary("LeftShift"), _binary("RightShift")
sub = subtract


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x to the power of y."""
    return pow_(x, y, name)


def multiply(x: Any, y: Any, name: str | None = None) -> Any:
    """x * y; a SparseTensor times a dense tensor stays sparse."""
    if isinstance(x, (SparseTensor, IndexedSlices)) or isinstance(y, SparseTensor):
        return x * y
    x, y = _like(x, y)
    return apply_op("Mul", name, x=x, y=y)


mul = multiply


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A scalar times a tensor, or times the values of an IndexedSlices."""
    scalar = convert_to_tensor(scalar, x.dtype.base_dtype, name="scalar")
    if scalar.shape.rank not in (None, 0):
        raise ValueError("Only scalar multiply works, got shape " + str(scalar.shape))
    if isinstance(x, IndexedSlices):
        return IndexedSlices(apply_op("Mul", name, x=scalar, y=x.values), x.indices, x.dense_shape)
    return apply_op("Mul", name, x=scalar, y=x)


def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    return apply_op("Atan2", name, y=y, x=x)  # type: ignore[no-any-return]


def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    return apply_op("NextAfter", name, x1=x1, x2=x2)  # type: ignore[no-any-return]


def equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    x, y = _like(x, y)
    return apply_op("Equal", name, x=x, y=y)  # type: ignore[no-any-return]


def not_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    x, y = _like(x, y)
    return apply_op("NotEqual", name, x=x, y=y)  # type: ignore[no-any-return]


def approximate_equal(x: Any, y: Any, tolerance: float = 1e-5, name: str | None = None) -> Tensor:
    x, y = _like(x, y)
    return apply_op("ApproximateEqual", name, x=x, y=y, tolerance=tolerance)  # type: ignore[no-any-return]


def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Tensor:
    return logical_and(logical_or(x, y), logical_not(logical_and(x, y)), name=name)


def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    return apply_op("Igamma", name, a=a, x=x)  # type: ignore[no-any-return]


def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    return apply_op("Igammac", name, a=a, x=x)  # type: ignore[no-any-return]


def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    return apply_op("Zeta", name, x=x, q=q)  # type: ignore[no-any-return]


def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    return apply_op("Polygamma", name, a=a, x=x)  # type: ignore[no-any-return]


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    return apply_op("Betainc", name, a=a, b=b, x=x)  # type: ignore[no-any-return]


def lbeta(x: Any, name: str | None = None) -> Tensor:
    """log|Beta(x)| over the last dimension."""
    with name_scope(name, "lbeta"):
        x = convert_to_tensor(x, name="x")
        return reduce_sum(lgamma(x), axis=[-1]) - lgamma(reduce_sum(x, axis=[-1]))


# --- division ---


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Python 3's x / y: integers are divided as floats."""
    with name_scope(name, "truediv") as scope:
        x, y = _like(x, y)
        y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
        kind = x.dtype.base_dtype
        wide = _TRUEDIV_TYPE.get(kind)
        if wide is not None:
            x, y = cast(x, wide), cast(y, wide)
        return apply_op("RealDiv", scope, x=x, y=y)  # type: ignore[no-any-return]


_TRUEDIV_TYPE = {
    dtypes.uint8: dtypes.float32,
    dtypes.int8: dtypes.float32,
    dtypes.uint16: dtypes.float32,
    dtypes.int16: dtypes.float32,
    dtypes.uint32: dtypes.float64,
    dtypes.uint64: dtypes.float64,
    dtypes.int32: dtypes.float64,
    dtypes.int64: dtypes.float64,
}
divide = truediv


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Python 2's x / y: integers are divided with floor."""
    x, y = _like(x, y)
    op_type = "RealDiv" if x.dtype.is_floating or x.dtype.is_complex else "FloorDiv"
    return apply_op(op_type, name or "div", x=x, y=y)  # type: ignore[no-any-return]


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    x, y = _like(x, y)
    return apply_op("FloorDiv", name or "floordiv", x=x, y=y)  # type: ignore[no-any-return]


# --- types ---


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """x as another type; sparse values stay sparse."""
    wanted = as_dtype(dtype).base_dtype
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, cast(x.values, wanted, name), x.dense_shape)
    if isinstance(x, IndexedSlices):
        return IndexedSlices(cast(x.values, wanted, name), x.indices, x.dense_shape)
    x = convert_to_tensor(x, name="x")
    if x.dtype.base_dtype is wanted:
        return x
    return apply_op("Cast", name, x=x, DstT=wanted)


def _caster(dtype: DType, python_name: str) -> Callable[..., Any]:
    def function(x: Any, name: str = python_name) -> Any:
        return cast(x, dtype, name)

    function.__name__ = function.__qualname__ = python_name
    return function


to_float, to_double = _caster(dtypes.float32, "ToFloat"), _caster(dtypes.float64, "ToDouble")
to_int32, to_int64 = _caster(dtypes.int32, "ToInt32"), _caster(dtypes.int64, "ToInt64")
to_bfloat16 = _caster(dtypes.bfloat16, "ToBFloat16")
to_complex64, to_complex128 = (
    _caster(dtypes.complex64, "ToComplex64"),
    _caster(dtypes.complex128, "ToComplex128"),
)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """Cast with values outside the target's range clamped to it."""
    with name_scope(name, "saturate_cast") as scope:
        value = convert_to_tensor(value, name="value")
        wanted = as_dtype(dtype).base_dtype
        have = value.dtype.base_dtype
        low, high = max(have.min, wanted.min), min(have.max, wanted.max)
        if have.min < wanted.min:
            value = maximum(value, constant(have.np.type(low), have))
        if have.max > wanted.max:
            value = minimum(value, constant(have.np.type(high), have))
        return cast(value, wanted, scope)


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """A complex tensor of its parts."""
    real = convert_to_tensor(real, name="real")
    imag = convert_to_tensor(imag, real.dtype.base_dtype, name="imag")
    out = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}.get(real.dtype.base_dtype)
    if out is None:
        raise TypeError(f"The `real` and `imag` components have incorrect types: {real.dtype.name} {imag.dtype.name}.")
    return apply_op("Complex", name, real=real, imag=imag, Tout=out)  # type: ignore[no-any-return]


def _part(op_type: str) -> Callable[..., Tensor]:
    def function(input: Any, name: str | None = None) -> Tensor:
        x = convert_to_tensor(input, name="input")
        if not x.dtype.is_complex:
            if op_type == "Real":
                return x
            from dtfctl.runtime.ops.array_ops import zeros_like

            if op_type == "Imag":
                return zeros_like(x)
            return where_negative_pi(x)
        return apply_op(op_type, name, input=x, Tout=x.dtype.real_dtype)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = op_type.lower()
    return function


def where_negative_pi(x: Tensor) -> Tensor:
    """The angle of real numbers: pi where negative, else 0."""
    return apply_op(  # type: ignore[no-any-return]
        "SelectV2", condition=less(x, 0), t=constant(np.pi, x.dtype.base_dtype), e=constant(0, x.dtype.base_dtype)
    )


real, imag, angle = _part("Real"), _part("Imag"), _part("Angle")


def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate; real tensors as they are."""
    tensor = convert_to_tensor(x, name="x")
    if tensor.dtype.is_complex or tensor.dtype.base_dtype is dtypes.variant:
        return apply_op("Conj", name, input=tensor)  # type: ignore[no-any-return]
    return tensor


# --- reductions ---


def _axes(x: Tensor, axis: Any) -> Any:
    if axis is not None:
        return axis
    rank = x.shape.rank
    if rank is not None:
        return constant(np.arange(rank, dtype=np.int32))
    return apply_op("Range", start=0, limit=apply_op("Rank", input=x), delta=1)


def _reduction(op_type: str) -> Callable[..., Tensor]:
    def function(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        axis = reduction_indices if axis is None else axis
        keep = bool(keep_dims if keepdims is None else keepdims)
        wanted = dtypes.bool_ if op_type in ("All", "Any") else None
        x = convert_to_tensor(input_tensor, wanted, name="input")
        return apply_op(op_type, name, input=x, reduction_indices=_axes(x, axis), keep_dims=keep)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = f"reduce_{op_type.lower()}"
    function.__doc__ = f"The {op_type} over axes (all when None)."
    return function


reduce_sum, reduce_prod, reduce_mean = _reduction("Sum"), _reduction("Prod"), _reduction("Mean")
reduce_max, reduce_min = _reduction("Max"), _reduction("Min")
reduce_all, reduce_any = _reduction("All"), _reduction("Any")
reduce_euclidean_norm = _reduction("EuclideanNorm")


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
    input: Any = None,
) -> Tensor:
    """How many elements are not zero (not empty, for strings)."""
    axis = reduction_indices if axis is None else axis
    keep = keep_dims if keepdims is None else keepdims
    with name_scope(name, "count_nonzero"):
        x = convert_to_tensor(input if input_tensor is None else input_tensor, name="input")
        zero = constant("" if x.dtype.base_dtype is dtypes.string else x.dtype.as_numpy_dtype(0), x.dtype.base_dtype)
        counted = cast(not_equal(x, zero), dtypes.int64)
        return cast(reduce_sum(counted, axis=axis, keepdims=keep), dtype)  # type: ignore[no-any-return]


def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """log(sum(exp(x))), safe for large x."""
    from dtfctl.runtime.ops import array_ops

    axis = reduction_indices if axis is None else axis
    keep = bool(keep_dims if keepdims is None else keepdims)
    with name_scope(name, "ReduceLogSumExp"):
        x = convert_to_tensor(input_tensor, name="input")
        top = reduce_max(x, axis=axis, keepdims=True)
        shift = array_ops.stop_gradient(
            apply_op("SelectV2", condition=is_finite(top), t=top, e=array_ops.zeros_like(top))
        )
        result = log(reduce_sum(exp(subtract(x, shift)), axis=axis, keepdims=keep))
        if not keep:
            shift = apply_op("Reshape", tensor=shift, shape=apply_op("Shape", input=result))
        return add(result, shift)


def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    with name_scope(name, "reduce_variance"):
        x = convert_to_tensor(input_tensor)
        spread = square(abs(subtract(x, reduce_mean(x, axis=axis, keepdims=True))))
        return reduce_mean(spread, axis=axis, keepdims=keepdims)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    with name_scope(name, "reduce_std"):
        return sqrt(reduce_variance(input_tensor, axis=axis, keepdims=keepdims))


def _arg(op_type: str) -> Callable[..., Tensor]:
    def function(
        input: Any,
        axis: Any = None,
        name: str | None = None,
        dimension: Any = None,
        output_type: Any = dtypes.int64,
    ) -> Tensor:
        axis = dimension if axis is None else axis
        return apply_op(  # type: ignore[no-any-return]
            op_type, name, input=input, dimension=0 if axis is None else axis, output_type=output_type
        )

    function.__name__ = function.__qualname__ = op_type.lower()
    return function


argmax, argmin = _arg("ArgMax"), _arg("ArgMin")
arg_max, arg_min = argmax, argmin


def _scan(op_type: str) -> Callable[..., Tensor]:
    def function(
        x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
    ) -> Tensor:
        return apply_op(op_type, name, x=x, axis=axis, exclusive=exclusive, reverse=reverse)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = op_type.lower()
    return function


cumsum, cumprod, cumulative_logsumexp = _scan("Cumsum"), _scan("Cumprod"), _scan("CumulativeLogsumexp")


# --- sums and products of matrices ---


def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """The sum of tensors of one shape."""
    from dtfctl.runtime.framework.gradients import as_dense

    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError(
            "Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape."
        )
    tensors = [as_dense(t) if isinstance(t, IndexedSlices) else convert_to_tensor(t) for t in inputs]
    if len(tensors) == 1:
        return apply_op("Identity", name, input=tensors[0]) if name else tensors[0]
    return apply_op("AddN", name, inputs=tensors)  # type: ignore[no-any-return]


def accumulate_n(inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """The sum of tensors, like `add_n`."""
    tensors = [convert_to_tensor(t, tensor_dtype) for t in inputs]
    if len(tensors) == 1 and name is None:
        return tensors[0]
    return add_n(tensors, name=name or "AccumulateNV2")


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
    output_type: Any = None,
) -> Tensor:
    """The product of matrices, or of batches of them."""
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("Only one of `transpose` and `adjoint` can be True.")
    a, b = _like(a, b)
    b = convert_to_tensor(b, a.dtype.base_dtype, name="b")
    rank_a, rank_b = a.shape.rank, b.shape.rank
    if (rank_a is None or rank_a > 2) or (rank_b is None or rank_b > 2):
        if transpose_a:
            a, adjoint_a = conj(a), True
        if transpose_b:
            b, adjoint_b = conj(b), True
        return apply_op("BatchMatMulV2", name, x=a, y=b, adj_x=adjoint_a, adj_y=adjoint_b)  # type: ignore[no-any-return]
    if adjoint_a:
        a, transpose_a = conj(a), True
    if adjoint_b:
        b, transpose_b = conj(b), True
    sparse_types = (dtypes.bfloat16, dtypes.float32)
    if (a_is_sparse or b_is_sparse) and a.dtype.base_dtype in sparse_types:
        return apply_op(  # type: ignore[no-any-return]
            "SparseMatMul",
            name,
            a=a,
            b=b,
            transpose_a=transpose_a,
            transpose_b=transpose_b,
            a_is_sparse=a_is_sparse,
            b_is_sparse=b_is_sparse,
        )
    return apply_op("MatMul", name, a=a, b=b, transpose_a=transpose_a, transpose_b=transpose_b)  # type: ignore[no-any-return]


def sparse_matmul(a: Any, b: Any, **options: Any) -> Tensor:
    return apply_op("SparseMatMul", options.pop("name", None), a=a, b=b, **options)  # type: ignore[no-any-return]


batch_matmul = matmul


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Matrices times vectors."""
    with name_scope(name, "MatVec"):
        column = apply_op("ExpandDims", input=b, dim=-1)
        out = matmul(a, column, transpose_a, False, adjoint_a, False, a_is_sparse, b_is_sparse)
        return apply_op("Squeeze", input=out, squeeze_dims=[-1])  # type: ignore[no-any-return]


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Contraction of a and b over axes: a number, or a pair of (lists of) axes."""
    from dtfctl.runtime.ops import array_ops

    with name_scope(name, "Tensordot") as scope:
        a, b = _like(a, b)
        b = convert_to_tensor(b, a.dtype.base_dtype, name="b")
        a_axes, b_axes = _tensordot_axes(a, axes)
        a_rank, b_rank = a.shape.rank, b.shape.rank
        if a_rank is None or b_rank is None:
            raise ValueError("tensordot needs arguments of known rank")
        a_axes, b_axes = [i % a_rank for i in a_axes], [i % b_rank for i in b_axes]
        if len(a_axes) != len(b_axes):
            raise ValueError(f"Different number of contraction axes `a` and `b`, {len(a_axes)} != {len(b_axes)}.")
        a_free = [i for i in builtins.range(a_rank) if i not in a_axes]
        b_free = [i for i in builtins.range(b_rank) if i not in b_axes]
        a_shape, b_shape = array_ops.shape(a), array_ops.shape(b)
        left = array_ops.transpose(a, a_free + a_axes)
        right = array_ops.transpose(b, b_axes + b_free)
        inner = reduce_prod(array_ops.gather(a_shape, a_axes)) if a_axes else constant(1)
        left = array_ops.reshape(left, array_ops.stack([-1, inner]))
        right = array_ops.reshape(right, array_ops.stack([inner, -1]))
        parts = [array_ops.gather(a_shape, a_free)] if a_free else []
        parts += [array_ops.gather(b_shape, b_free)] if b_free else []
        product = matmul(left, right)
        wanted = array_ops.concat(parts, 0) if parts else constant([], dtypes.int32)
        out = apply_op("Reshape", scope, tensor=product, shape=wanted)
        a_dims, b_dims = a.shape.dims_or_none, b.shape.dims_or_none
        if a_dims is not None and b_dims is not None:
            out.set_shape([a_dims[i] for i in a_free] + [b_dims[i] for i in b_free])
        return out  # type: ignore[no-any-return]


def _tensordot_axes(a: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    if isinstance(axes, (int, np.integer)):
        n, rank = int(axes), a.shape.rank
        if n < 0 or rank is None or n > rank:
            raise ValueError(f"`axes` must be between 0 and the rank of `a`, got {axes}")
        return list(builtins.range(rank - n, rank)), list(builtins.range(n))
    first, second = axes
    return (
        [int(first)] if isinstance(first, (int, np.integer)) else [int(i) for i in first],
        [int(second)] if isinstance(second, (int, np.integer)) else [int(i) for i in second],
    )


def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    return apply_op("Cross", name, a=a, b=b)  # type: ignore[no-any-return]


def trace(x: Any, name: str | None = None) -> Tensor:
    """The sum of the diagonal of (each) matrix."""
    with name_scope(name, "Trace"):
        return reduce_sum(apply_op("MatrixDiagPart", input=x), axis=[-1])


# --- sequences and bins ---


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = "range") -> Tensor:
    """start, start + delta, ... below limit; range(n) counts from 0."""
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range") as scope:
        values = [v if isinstance(v, Tensor) else convert_to_tensor(v, dtype) for v in (start, limit, delta)]
        if dtype is None:
            order = [dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.bfloat16, dtypes.float16]
            order += [dtypes.float32, dtypes.float64]
            widest = max((v.dtype.base_dtype for v in values), key=order.index)
        else:
            widest = as_dtype(dtype)
        first, last, step = (cast(v, widest) for v in values)
        return apply_op("Range", scope, start=first, limit=last, delta=step)  # type: ignore[no-any-return]


def linspace(start: Any, stop: Any, num: Any, name: str | None = None) -> Tensor:
    start = convert_to_tensor(start, name="start")
    return apply_op("LinSpace", name, start=start, stop=stop, num=num)  # type: ignore[no-any-return]


lin_space = linspace


def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """How often each integer occurs in arr."""
    with name_scope(name, "bincount"):
        arr = convert_to_tensor(arr, dtypes.int32, name="arr")
        some = greater(reduce_prod(apply_op("Shape", input=arr)), 0)
        size = cast(some, dtypes.int32) * (reduce_max(arr) + 1)
        if minlength is not None:
            size = maximum(convert_to_tensor(minlength, dtypes.int32), size)
        if maxlength is not None:
            size = minimum(convert_to_tensor(maxlength, dtypes.int32), size)
        if weights is None:
            w: Any = constant([], dtype)
        else:
            w = convert_to_tensor(weights, name="weights")
        return apply_op("Bincount", arr=arr, size=size, weights=w)  # type: ignore[no-any-return]


def bucketize(input: Any, boundaries: Sequence[float], name: str | None = None) -> Tensor:
    return apply_op("Bucketize", name, input=input, boundaries=list(boundaries))  # type: ignore[no-any-return]


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    values = convert_to_tensor(values, name="values")
    return apply_op(  # type: ignore[no-any-return]
        "HistogramFixedWidth",
        name,
        values=values,
        value_range=convert_to_tensor(value_range, values.dtype.base_dtype),
        nbins=nbins,
        dtype=dtype,
    )


# --- segments ---


def _segment(op_type: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, name, data=data, segment_ids=segment_ids)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = op_type
    return function


def _unsorted(op_type: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
        return apply_op(  # type: ignore[no-any-return]
            op_type, name, data=data, segment_ids=segment_ids, num_segments=num_segments
        )

    function.__name__ = function.__qualname__ = op_type
    return function


segment_sum, segment_mean, segment_prod = _segment("SegmentSum"), _segment("SegmentMean"), _segment("SegmentProd")
segment_max, segment_min = _segment("SegmentMax"), _segment("SegmentMin")
unsorted_segment_sum, unsorted_segment_prod = _unsorted("UnsortedSegmentSum"), _unsorted("UnsortedSegmentProd")
unsorted_segment_max, unsorted_segment_min = _unsorted("UnsortedSegmentMax"), _unsorted("UnsortedSegmentMin")


def _segment_counts(data: Tensor, ids: Any, num_segments: Any) -> Tensor:
    """Sizes of segments, at least 1, shaped to divide the sums."""
    ids = convert_to_tensor(ids)
    flat = apply_op("Reshape", tensor=ids, shape=[-1])
    ones = apply_op("Fill", dims=apply_op("Shape", input=flat), value=constant(1, data.dtype.base_dtype))
    counts = unsorted_segment_sum(ones, flat, num_segments)
    rank, ids_rank = data.shape.rank, ids.shape.rank
    if rank is None or ids_rank is None:
        raise ValueError("segment means need arguments of known rank")
    counts = maximum(counts, constant(1, data.dtype.base_dtype))
    return apply_op("Reshape", tensor=counts, shape=[-1] + [1] * (rank - ids_rank))  # type: ignore[no-any-return]


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "UnsortedSegmentMean"):
        data = convert_to_tensor(data)
        total = unsorted_segment_sum(data, segment_ids, num_segments)
        return total / _segment_counts(data, segment_ids, num_segments)


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    with name_scope(name, "UnsortedSegmentSqrtN"):
        data = convert_to_tensor(data)
        total = unsorted_segment_sum(data, segment_ids, num_segments)
        return total / sqrt(_segment_counts(data, segment_ids, num_segments))


def _sparse_segment(op_type: str) -> Callable[..., Tensor]:
    def function(
        data: Any, indices: Any, segment_ids: Any, name: str | None = None, num_segments: Any = None
    ) -> Tensor:
        common = {"data": data, "indices": indices, "segment_ids": segment_ids}
        if num_segments is not None:
            return apply_op(f"{op_type}WithNumSegments", name, num_segments=num_segments, **common)  # type: ignore[no-any-return]
        return apply_op(op_type, name, **common)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = op_type
    return function


sparse_segment_sum = _sparse_segment("SparseSegmentSum")
sparse_segment_mean = _sparse_segment("SparseSegmentMean")
sparse_segment_sqrt_n = _sparse_segment("SparseSegmentSqrtN")


# --- Fourier transforms ---

fft, fft2d, fft3d = _unary("FFT", "input"), _unary("FFT2D", "input"), _unary("FFT3D", "input")
ifft, ifft2d, ifft3d = _unary("IFFT", "input"), _unary("IFFT2D", "input"), _unary("IFFT3D", "input")


def _real_fft(op_type: str, rank: int) -> Callable[..., Tensor]:
    inverse = op_type.startswith("I")

    def function(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = convert_to_tensor(input_tensor, preferred_dtype=dtypes.complex64 if inverse else dtypes.float32)
        if fft_length is None:
            dims = apply_op("Shape", input=x)
            size = apply_op("StridedSlice", input=dims, begin=[-rank], end=[0], strides=[1], end_mask=1)
            if inverse:
                last = apply_op("StridedSlice", input=size, begin=[-1], end=[0], strides=[1], end_mask=1)
                front = apply_op("StridedSlice", input=size, begin=[0], end=[-1], strides=[1], begin_mask=1)
                size = apply_op("ConcatV2", values=[front, maximum(2 * (last - 1), 0)], axis=0)
            fft_length = size
        if inverse:
            return apply_op(op_type, name, input=x, fft_length=fft_length, Treal=x.dtype.real_dtype)  # type: ignore[no-any-return]
        out = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}[x.dtype.base_dtype]
        return apply_op(op_type, name, input=x, fft_length=fft_length, Tcomplex=out)  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = op_type.lower()
    return function


rfft, rfft2d, rfft3d = _real_fft("RFFT", 1), _real_fft("RFFT2D", 2), _real_fft("RFFT3D", 3)
irfft, irfft2d, irfft3d = _real_fft("IRFFT", 1), _real_fft("IRFFT2D", 2), _real_fft("IRFFT3D", 3)


# --- operators of tensors ---


def _operator(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def binary(self: Any, other: Any) -> Any:
        return _with_operands(function, name, self, other, False)

    return binary


def _reflected(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def binary(self: Any, other: Any) -> Any:
        return _with_operands(function, name, self, other, True)

    return binary


def _with_operands(function: Callable[..., Any], name: str, self: Any, other: Any, swap: bool) -> Any:
    if isinstance(other, (SparseTensor,)):
        return NotImplemented
    with context.get_default_graph().name_scope(name) as scope:
        x = self if isinstance(self, Tensor) else convert_to_tensor(self)
        try:
            y = convert_to_tensor(other, x.dtype.base_dtype, name="y" if not swap else "x")
        except (TypeError, ValueError):
            if hasattr(type(other), "__r" + name + "__"):
                return NotImplemented
            raise
        return function(y, x, scope) if swap else function(x, y, scope)


def _add_operator(x: Tensor, y: Tensor, name: str) -> Tensor:
    op_type = "Add" if x.dtype.base_dtype is dtypes.string else "AddV2"
    return apply_op(op_type, name, x=x, y=y)  # type: ignore[no-any-return]


def _logical(bitwise: str, boolean: str) -> Callable[..., Tensor]:
    def function(x: Tensor, y: Tensor, name: str) -> Tensor:
        op_type = boolean if x.dtype.base_dtype is dtypes.bool_ else bitwise
        return apply_op(op_type, name, x=x, y=y)  # type: ignore[no-any-return]

    return function


def _xor(x: Tensor, y: Tensor, name: str) -> Tensor:
    if x.dtype.base_dtype is dtypes.bool_:
        return logical_xor(x, y, name)
    return bitwise_xor(x, y, name)


def _simple(op_type: str) -> Callable[..., Tensor]:
    return lambda x, y, name: apply_op(op_type, name, x=x, y=y)


_BINARY_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": _add_operator,
    "sub": _simple("Sub"),
    "mul": _simple("Mul"),
    "truediv": truediv,
    "div": div,
    "floordiv": floordiv,
    "mod": _simple("FloorMod"),
    "pow": _simple("Pow"),
    "and": _logical("BitwiseAnd", "LogicalAnd"),
    "or": _logical("BitwiseOr", "LogicalOr"),
    "xor": _xor,
}
OPERATORS: dict[str, Callable[..., Any]] = {
    "__matmul__": lambda self, other: matmul(self, other),
    "__rmatmul__": lambda self, other: matmul(other, self),
    "__neg__": lambda self: negative(self),
    "__abs__": lambda self: abs(self),
}
for _name, _function in _BINARY_OPERATORS.items():
    OPERATORS[f"__{_name}__"] = _operator(_function, _name)
    OPERATORS[f"__r{_name}__"] = _reflected(_function, _name)
for _name, _op in {"lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual"}.items():
    OPERATORS[f"__{_name}__"] = _operator(_simple(_op), _op)


def _invert(self: Any) -> Tensor:
    x = convert_to_tensor(self)
    return logical_not(x) if x.dtype.base_dtype is dtypes.bool_ else invert(x)


OPERATORS["__invert__"] = _invert
for _name, _function in OPERATORS.items():
    Tensor._override_operator(_name, _function)


divide_no_nan = div_no_nan


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    with name_scope(name, "reciprocal_no_nan") as scope:
        tensor = convert_to_tensor(x)
        return apply_op("DivNoNan", scope, x=constant(1, tensor.dtype.base_dtype), y=tensor)  # type: ignore[no-any-return]


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Tensor:
    """The polynomial with these coefficients, highest power first."""
    if not isinstance(coeffs, (list, tuple)):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with name_scope(name, "polyval"):
        tensor = convert_to_tensor(x)
        if not coeffs:
            return apply_op("ZerosLike", x=tensor)  # type: ignore[no-any-return]
        total = convert_to_tensor(coeffs[0], tensor.dtype.base_dtype)
        for c in coeffs[1:]:
            total = convert_to_tensor(c, tensor.dtype.base_dtype) + total * tensor
        return total


def sobol_sample(
    dim: Any, num_results: Any, skip: Any = 0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    return apply_op("SobolSample", name, dim=dim, num_results=num_results, skip=skip, dtype=dtype)  # type: ignore[no-any-return]


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """The bin each value falls into."""
    with name_scope(name, "histogram_fixed_width_bins"):
        tensor = convert_to_tensor(values)
        flat = apply_op("Reshape", tensor=tensor, shape=[-1])
        ends = convert_to_tensor(value_range, tensor.dtype.base_dtype)
        count = convert_to_tensor(nbins, dtypes.int32)
        scaled = truediv(flat - ends[0], ends[1] - ends[0])
        places = floor(cast(count, scaled.dtype) * scaled)
        last = cast(count - 1, scaled.dtype)
        clipped = maximum(minimum(places, last), constant(0, scaled.dtype.base_dtype))
        return apply_op("Reshape", tensor=cast(clipped, dtype), shape=apply_op("Shape", input=tensor))  # type: ignore[no-any-return]
