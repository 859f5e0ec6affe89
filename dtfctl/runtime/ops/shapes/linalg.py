"""Static shapes of the linalg family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, broadcast_static


@register_shape(
    "Cholesky",
    "BatchCholesky",
    "CholeskyGrad",
    "BatchCholeskyGrad",
    "MatrixInverse",
    "BatchMatrixInverse",
    "MatrixExponential",
    "MatrixLogarithm",
    "MatrixSquareRoot",
)
def _square(op: Operation) -> Any:
    shape = op.inputs[0].shape.with_rank_at_least(2)
    dims = shape.dims_or_none
    if dims is not None and None not in dims[-2:] and dims[-1] != dims[-2]:
        raise ValueError(
            f"Dimensions must be equal, but are {dims[-2]} and {dims[-1]} for '{op.name}' (op: '{op.type}')"
        )
    if dims is None:
        return [shape]
    # One side tells the other.
    size = dims[-1] if dims[-2] is None else dims[-2]
    return [[*dims[:-2], size, size]]


@register_shape("MatrixDeterminant", "BatchMatrixDeterminant")
def _determinant(op: Operation) -> Any:
    dims = op.inputs[0].shape.with_rank_at_least(2).dims_or_none
    return [TensorShape(None) if dims is None else dims[:-2]]


@register_shape("LogMatrixDeterminant")
def _log_determinant(op: Operation) -> Any:
    return _determinant(op) * 2


@register_shape("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def _triangular(op: Operation) -> Any:
    a, b = (t.shape.with_rank_at_least(2).dims_or_none for t in op.inputs)
    if a is None or b is None:
        return [TensorShape(None)]
    batch = broadcast_static(TensorShape(a[:-2]), TensorShape(b[:-2]))
    return [batch.concatenate([_rows(a, b), b[-1]])]


def _rows(a: tuple[int | None, ...], b: tuple[int | None, ...]) -> int | None:
    """Return how many rows a square matrix and what it is multiplied with have; ValueError where they differ."""
    side = TensorShape(a[-2:-1]).merge_with(a[-1:])
    return side.merge_with(b[-2:-1]).as_list()[0]


@register_shape("BandedTriangularSolve")
def _banded(op: Operation) -> Any:
    a, b = (t.shape.dims_or_none for t in op.inputs)
    if a is None or b is None:
        return [TensorShape(None)]
    return [broadcast_static(TensorShape(a[:-2]), TensorShape(b[:-2])).concatenate(b[-2:])]


@register_shape("MatrixSolve", "BatchMatrixSolve")
def _solved(op: Operation) -> Any:
    a, b = (t.shape.with_rank_at_least(2).dims_or_none for t in op.inputs)
    if a is None:
        return [op.inputs[1].shape]
    if b is None:
        b = (*a[:-1], None)
    return [TensorShape(a[:-2]).merge_with(b[:-2]).concatenate([_rows(a, b), b[-1]])]


@register_shape("MatrixSolveLs", "BatchMatrixSolveLs")
def _solve_ls(op: Operation) -> Any:
    a, b = op.inputs[0].shape.dims_or_none, op.inputs[1].shape.dims_or_none
    return [TensorShape(None) if a is None or b is None else [*a[:-2], a[-1], b[-1]]]


@register_shape("Qr")
def _qr(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    if dims is None:
        return [TensorShape(None)] * 2
    m, n = dims[-2:]
    p = m if op.attr("full_matrices") else None if m is None or n is None else min(m, n)
    return [[*dims[:-2], m, p], [*dims[:-2], p, n]]


@register_shape("Svd", "BatchSvd")
def _svd(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    if dims is None:
        return [TensorShape(None)] * 3
    m, n = dims[-2:]
    p = None if m is None or n is None else min(m, n)
    if not op.attr("compute_uv"):
        return [[*dims[:-2], p], TensorShape(None), TensorShape(None)]
    full = op.attr("full_matrices")
    return [[*dims[:-2], p], [*dims[:-2], m, m if full else p], [*dims[:-2], n, n if full else p]]


@register_shape("SelfAdjointEigV2", "BatchSelfAdjointEigV2", "Eig")
def _eig(op: Operation) -> Any:
    shape = op.inputs[0].shape
    dims = shape.dims_or_none
    if dims is None:
        return [TensorShape(None)] * 2
    return [dims[:-1], shape if op.attr("compute_v") else TensorShape(None)]


@register_shape("SelfAdjointEig", "BatchSelfAdjointEig")
def _eig_v1(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    if dims is None:
        return [TensorShape(None)]
    return [[*dims[:-2], None if dims[-2] is None else dims[-2] + 1, dims[-1]]]


@register_shape("Lu")
def _lu(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [op.inputs[0].shape, TensorShape(None) if dims is None else dims[:-1]]


@register_shape("Einsum")
def _einsum(op: Operation) -> Any:
    left, _, right = op.attr("equation").decode().replace(" ", "").partition("->")
    sizes: dict[str, int | None] = {}
    lead = TensorShape([])
    for labels, tensor in zip(left.split(","), op.inputs):
        dims = tensor.shape.dims_or_none
        before, dots, after = labels.partition("...")
        if dims is None:
            if dots:
                lead = TensorShape(None)
            continue
        named = len(before) + len(after)
        if len(dims) < named or (not dots and len(dims) != named):
            raise ValueError(f"Shape must be rank {named} but is rank {len(dims)} for '{op.name}' (op: 'Einsum')")
        end = len(dims) - len(after)
        if dots:
            lead = broadcast_static(lead, TensorShape(dims[len(before) : end]))
        for label, d in [*zip(before, dims), *zip(after, dims[end:])]:
            known = sizes.get(label)
            if known is not None and d is not None and known != d:
                raise ValueError(f"Dimensions must be equal, but are {known} and {d} for '{op.name}' (op: 'Einsum')")
            sizes[label] = d if known is None else known
    before, dots, after = right.partition("...")
    first, last = ([sizes.get(label) for label in part] for part in (before, after))
    if not dots:
        return [first]
    return [TensorShape(first).concatenate(lead).concatenate(last)]
