"""Gradients of the linalg family (Giles, "Collected matrix derivative results"; Murray for Cholesky)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, linalg_ops, math_ops
from dtfctl.runtime.ops.gradients.common import number_like, reduce_to
from dtfctl.runtime.ops.op_defs import linalg


def _h(x: Tensor) -> Tensor:
    return linalg_ops.adjoint(x)


def _mm(a: Tensor, b: Tensor, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    return math_ops.matmul(a, b, adjoint_a=adjoint_a, adjoint_b=adjoint_b)


def _lower(x: Tensor) -> Tensor:
    return array_ops.matrix_band_part(x, -1, 0)


def _reduced_batch(x: Tensor, like: Tensor) -> Tensor:
    """Sum away batch dimensions that broadcasting added."""
    if x.shape.is_fully_defined() and like.shape.is_fully_defined() and x.shape == like.shape:
        return x
    return reduce_to(like, x, x, None)[0]  # type: ignore[return-value]


@register_gradient("MatrixInverse")
def _inverse(op: Operation, grad: Tensor) -> Any:
    inverse = op.outputs[0]
    adjoint = op.attr("adjoint")
    if adjoint:
        # d(A^-H): conjugate transposes of the plain rule.
        return -_mm(inverse, _mm(grad, inverse, adjoint_a=True))
    return -_mm(inverse, _mm(grad, inverse, adjoint_b=True), adjoint_a=True)


@register_gradient("MatrixDeterminant")
def _determinant(op: Operation, grad: Tensor) -> Any:
    a, c = op.inputs[0], op.outputs[0]
    inverse = linalg.matrix_inverse(a, adjoint=True)
    scale = array_ops.expand_dims(array_ops.expand_dims(grad * math_ops.conj(c), -1), -1)
    return scale * inverse


@register_gradient("LogMatrixDeterminant")
def _log_determinant(op: Operation, _: Tensor, grad: Tensor) -> Any:
    inverse = linalg.matrix_inverse(op.inputs[0], adjoint=True)
    return array_ops.expand_dims(array_ops.expand_dims(grad, -1), -1) * inverse


@register_gradient("Cholesky")
def _cholesky(op: Operation, grad: Tensor) -> Any:
    l = op.outputs[0]  # noqa: E741
    n = array_ops.shape(l)[-1]
    inverse = linalg.matrix_triangular_solve(l, array_ops.eye(n, dtype=l.dtype.base_dtype))
    middle = _mm(l, grad, adjoint_a=True)
    diagonal = number_like(0.5, middle) * apply_op("MatrixDiagPart", input=middle)
    middle = _lower(array_ops.matrix_set_diag(middle, diagonal))
    out = _mm(_mm(inverse, middle, adjoint_a=True), inverse)
    return (out + _h(out)) * number_like(0.5, out)


@register_gradient("MatrixSolve")
def _solve(op: Operation, grad: Tensor) -> Any:
    a, x = op.inputs[0], op.outputs[0]
    adjoint = op.attr("adjoint")
    gb = linalg.matrix_solve(a, grad, adjoint=not adjoint)
    ga = -_mm(x, gb, adjoint_b=True) if adjoint else -_mm(gb, x, adjoint_b=True)
    return [ga, gb]


@register_gradient("MatrixTriangularSolve")
def _triangular_solve(op: Operation, grad: Tensor) -> Any:
    a, b, x = op.inputs[0], op.inputs[1], op.outputs[0]
    adjoint, lower = op.attr("adjoint"), op.attr("lower")
    gb = linalg.matrix_triangular_solve(a, grad, lower=lower, adjoint=not adjoint)
    ga = -_mm(x, gb, adjoint_b=True) if adjoint else -_mm(gb, x, adjoint_b=True)
    ga = array_ops.matrix_band_part(ga, -1, 0) if lower else array_ops.matrix_band_part(ga, 0, -1)
    return [_reduced_batch(ga, a), _reduced_batch(gb, b)]


@register_gradient("MatrixSolveLs")
def _solve_ls(op: Operation, grad: Tensor) -> Any:
    a, b, l2 = op.inputs
    dims = a.shape.dims_or_none
    if dims is None or dims[-1] is None or dims[-2] is None:
        raise ValueError("The gradient of matrix_solve_ls needs matrices of known size")
    x = op.outputs[0]
    n = min(dims[-2:], key=int)  # type: ignore[arg-type]
    over = dims[-2] >= dims[-1]
    gram = _mm(a, a, adjoint_a=over, adjoint_b=not over)
    regular = gram + math_ops.cast(l2, a.dtype) * array_ops.eye(n, dtype=a.dtype.base_dtype)
    factor = linalg.cholesky(regular)
    if over:
        z = linalg_ops.cholesky_solve(factor, grad)
        xz = _mm(x, z, adjoint_b=True)
        ga = _mm(a, -(xz + _h(xz))) + _mm(b, z, adjoint_b=True)
        return [ga, _mm(a, z), None]
    gb = linalg_ops.cholesky_solve(factor, _mm(a, grad))
    first = grad - _mm(a, gb, adjoint_a=True)
    z = linalg_ops.cholesky_solve(factor, b)
    ga = _mm(z, first, adjoint_b=True) - _mm(gb, _mm(a, z, adjoint_a=True), adjoint_b=True)
    return [ga, gb, None]


@register_gradient("SelfAdjointEigV2")
def _self_adjoint_eig(op: Operation, grad_e: Tensor, grad_v: Tensor) -> Any:
    a, e, v = op.inputs[0], op.outputs[0], op.outputs[1]
    if op.attr("compute_v"):
        gap = array_ops.expand_dims(e, -2) - array_ops.expand_dims(e, -1)
        zero = array_ops.zeros_like(e)
        f = array_ops.matrix_set_diag(_safe_reciprocal(gap), zero)
        inner = array_ops.matrix_diag(grad_e) + f * _mm(v, grad_v, adjoint_a=True)
        ga = _mm(v, _mm(inner, v, adjoint_b=True))
    else:
        _, v = linalg_ops.self_adjoint_eig(a)
        ga = _mm(v, _mm(array_ops.matrix_diag(grad_e), v, adjoint_b=True))
    # Only the lower triangle is an input.
    ga = _lower(ga + _h(ga))
    return array_ops.matrix_set_diag(ga, number_like(0.5, ga) * apply_op("MatrixDiagPart", input=ga))


def _safe_reciprocal(x: Tensor) -> Tensor:
    return math_ops.div_no_nan(array_ops.ones_like(x), x)


@register_gradient("Qr")
def _qr(op: Operation, dq: Tensor, dr: Tensor) -> Any:
    """Differentiate QR; of matrices that are wide, through the square part of r.

    Raises:
        NotImplementedError: shapes that are not known, or all of q of a tall matrix.
    """
    q, r = op.outputs
    dims = op.inputs[0].shape.dims_or_none
    if dims is None or dims[-1] is None or dims[-2] is None:
        raise NotImplementedError(f"QrGrad not implemented with dynamic shapes. Received r.shape: {r.shape}")
    rows, columns = int(dims[-2]), int(dims[-1])
    if op.attr("full_matrices") and rows > columns:
        raise NotImplementedError(
            f"QrGrad not implemented when nrows > ncols and full_matrices is true. Received r.shape={r.shape} with "
            f"nrows={rows} and ncols={columns}."
        )
    if rows >= columns:
        return _tall_qr(q, r, dq, dr)
    rest, d_rest = op.inputs[0][..., rows:], dr[..., rows:]
    square = _tall_qr(q, r[..., :rows], dq + _mm(rest, d_rest, adjoint_b=True), dr[..., :rows])
    return array_ops.concat([square, _mm(q, d_rest)], axis=-1)


def _tall_qr(q: Tensor, r: Tensor, dq: Tensor, dr: Tensor) -> Tensor:
    def right(x: Tensor) -> Tensor:
        return _h(linalg.matrix_triangular_solve(r, _h(x), lower=False, adjoint=False))

    qdq = _mm(q, dq, adjoint_a=True)
    rdr = _mm(r, dr, adjoint_b=True)
    tril = _lower(qdq - _h(qdq) + rdr - _h(rdr))
    grad = _mm(q, dr + right(tril)) + right(dq - _mm(q, qdq))
    if not q.dtype.is_complex:
        return grad
    diagonal = array_ops.matrix_diag_part(rdr - _h(qdq))
    turned = array_ops.matrix_diag(diagonal - math_ops.cast(math_ops.real(diagonal), q.dtype))
    return grad + right(_mm(q, _h(turned)))


@register_gradient("Eig")
def _eig(op: Operation, grad_e: Tensor, grad_v: Tensor) -> Any:
    """Differentiate eigenvalues and eigenvectors of unit length (Boeddeker et al., 2017, 4.77)."""
    if not op.attr("compute_v"):
        _, v = linalg_ops.eig(op.inputs[0])
        middle = array_ops.matrix_diag(grad_e)
    else:
        e, v = op.outputs
        apart = array_ops.expand_dims(e, -2) - array_ops.expand_dims(e, -1)
        inverse = apply_op("DivNoNan", x=array_ops.ones_like(apart), y=apart)
        inverse = math_ops.conj(array_ops.matrix_set_diag(inverse, array_ops.zeros_like(e)))
        change = _mm(v, grad_v, adjoint_a=True)
        own = math_ops.cast(math_ops.real(array_ops.matrix_diag_part(change)), change.dtype)
        along = _mm(_mm(v, v, adjoint_a=True), array_ops.matrix_diag(own))
        middle = array_ops.matrix_diag(grad_e) + inverse * (change - along)
    vt = _h(v)
    return math_ops.cast(linalg.matrix_solve(vt, _mm(middle, vt)), op.inputs[0].dtype)


@register_gradient("BandedTriangularSolve")
def _banded_triangular_solve(op: Operation, grad: Tensor) -> Any:
    bands, rhs = op.inputs
    adjoint, lower = bool(op.attr("adjoint")), bool(op.attr("lower"))
    count = array_ops.shape(bands)[-2]
    grad_rhs = apply_op("BandedTriangularSolve", matrix=bands, rhs=grad, lower=lower, adjoint=not adjoint)
    solved = op.outputs[0]
    whole = -_mm(solved, grad_rhs, adjoint_b=True) if adjoint else -_mm(grad_rhs, solved, adjoint_b=True)
    span = array_ops.stack([1 - count, 0] if lower else [0, count - 1])
    grad_bands = apply_op(
        "MatrixDiagPartV3", input=whole, k=span, padding_value=number_like(0, whole), align="LEFT_RIGHT"
    )
    return [_reduced_batch(grad_bands, bands), _reduced_batch(grad_rhs, rhs)]


@register_gradient("Svd")
def _svd(op: Operation, grad_s: Tensor, grad_u: Tensor, grad_v: Tensor) -> Any:
    """Differentiate SVD of real matrices (of known shape when u and v matter)."""
    a = op.inputs[0]
    if a.dtype.is_complex:
        raise NotImplementedError("The gradient of svd is implemented for real matrices")
    if not op.attr("compute_uv"):
        s, u, v = apply_op_outputs("Svd", input=a, compute_uv=True)
        return _mm(u, _mm(array_ops.matrix_diag(grad_s), v, adjoint_b=True))
    s, u, v = op.outputs
    dims = a.shape.dims_or_none
    if dims is None or dims[-1] is None or dims[-2] is None:
        raise NotImplementedError("SVD gradient has not been implemented for input with unknown inner matrix shape.")
    if op.attr("full_matrices") and dims[-1] != dims[-2]:
        raise NotImplementedError("svd gradient is not implemented for full_matrices of matrices that are not square")
    s2 = math_ops.square(s)
    gap = array_ops.expand_dims(s2, -2) - array_ops.expand_dims(s2, -1)
    f = array_ops.matrix_set_diag(_safe_reciprocal(gap), array_ops.zeros_like(s))
    s_matrix = array_ops.matrix_diag(s)
    u_gu, v_gv = _mm(u, grad_u, adjoint_a=True), _mm(v, grad_v, adjoint_a=True)
    f_u, f_v = f * u_gu, f * v_gv
    inner = array_ops.matrix_diag(grad_s) + _mm(f_u + _h(f_u), s_matrix) + _mm(s_matrix, f_v + _h(f_v))
    grad = _mm(u, _mm(inner, v, adjoint_b=True))
    s_inverse = array_ops.matrix_diag(_safe_reciprocal(s))
    if dims[-2] > dims[-1]:
        rest = grad_u - _mm(u, u_gu)
        grad = grad + _mm(_mm(rest, s_inverse), v, adjoint_b=True)
    elif dims[-1] > dims[-2]:
        rest = grad_v - _mm(v, v_gv)
        grad = grad + _mm(u, _mm(rest, s_inverse), adjoint_b=True)
    return grad


@register_gradient("MatrixSquareRoot")
def _square_root(op: Operation, grad: Tensor) -> Any:
    """Solve the Sylvester equation R^H X + X R^H = grad as one linear system."""
    root = op.outputs[0]
    n = root.shape[-1].value
    if n is None:
        raise ValueError("The gradient of a matrix square root needs matrices of known size")
    eye = array_ops.eye(n, dtype=root.dtype.base_dtype)
    conj_t = math_ops.conj(root)
    # vec by rows: vec(A X B) = (A (x) B^T) vec(X)
    left = _kronecker(array_ops.matrix_transpose(conj_t), eye)
    right = _kronecker(eye, conj_t)
    flat = apply_op("Reshape", tensor=grad, shape=array_ops.concat([array_ops.shape(grad)[:-2], [n * n, 1]], 0))
    solved = linalg.matrix_solve(left + right, flat)
    return apply_op("Reshape", tensor=solved, shape=array_ops.shape(grad))


def _kronecker(a: Tensor, b: Tensor) -> Tensor:
    """Compute the Kronecker product of (batches of) square matrices of one known size."""
    n = a.shape[-1].value
    assert n is not None
    lead_a = a[..., :, None, :, None]
    lead_b = b[..., None, :, None, :]
    product = lead_a * lead_b
    shape = array_ops.shape(product)
    return apply_op("Reshape", tensor=product, shape=array_ops.concat([shape[:-4], [n * n, n * n]], 0))


@register_gradient("TridiagonalMatMul")
def _tridiagonal_matmul(op: Operation, grad: Tensor) -> Any:
    upper, main, lower, rhs = (math_ops.conj(t) for t in op.inputs)

    def row_sum(x: Tensor) -> Tensor:
        return array_ops.expand_dims(math_ops.reduce_sum(x, axis=-1), -2)

    def up(x: Tensor) -> Tensor:
        return array_ops.concat([x[..., 1:, :], array_ops.zeros_like(x[..., :1, :])], -2)

    def down(x: Tensor) -> Tensor:
        return array_ops.concat([array_ops.zeros_like(x[..., :1, :]), x[..., :-1, :]], -2)

    column = array_ops.matrix_transpose
    g_rhs = column(main) * grad + down(column(upper) * grad) + up(column(lower) * grad)
    return [row_sum(up(rhs) * grad), row_sum(rhs * grad), row_sum(down(rhs) * grad), g_rhs]


@register_gradient("TridiagonalSolve")
def _tridiagonal_solve(op: Operation, grad: Tensor) -> Any:
    diagonals, x = op.inputs[0], op.outputs[0]
    upper, main, lower = (diagonals[..., i, :] for i in range(3))
    zero = array_ops.zeros_like(upper[..., :1])
    transposed = array_ops.stack(
        [
            array_ops.concat([math_ops.conj(lower[..., 1:]), zero], -1),
            math_ops.conj(main),
            array_ops.concat([zero, math_ops.conj(upper[..., :-1])], -1),
        ],
        axis=-2,
    )
    pivoting = bool(op.attr("partial_pivoting"))
    g_rhs = apply_op("TridiagonalSolve", diagonals=transposed, rhs=grad, partial_pivoting=pivoting)
    cx = math_ops.conj(x)
    row_zero = array_ops.zeros_like(cx[..., :1, :])
    up = array_ops.concat([cx[..., 1:, :], row_zero], -2)
    down = array_ops.concat([row_zero, cx[..., :-1, :]], -2)
    parts = [-math_ops.reduce_sum(g_rhs * t, axis=-1) for t in (up, cx, down)]
    return [array_ops.stack(parts, axis=-2), g_rhs]


# --- einsum ---


@register_gradient("Einsum")
def _einsum(op: Operation, grad: Tensor) -> Any:
    equation = op.text_attr("equation").replace(" ", "")
    left, _, right = equation.partition("->")
    labels = left.split(",")
    out: list[Any] = []
    for i, x in enumerate(op.inputs):
        others = [(labels[j], op.inputs[j]) for j in range(len(op.inputs)) if j != i]
        out.append(_einsum_one(labels[i], x, others, right, grad))
    return out


def _einsum_one(mine: str, x: Tensor, others: list[tuple[str, Tensor]], right: str, grad: Tensor) -> Tensor:
    """Differentiate by one operand: the einsum of the others with the output's gradient."""
    letters = "".join(dict.fromkeys(c for c in mine if c.isalpha()))
    dots = "..." if "..." in mine else ""
    known = set(right) | {c for label, _ in others for c in label}
    missing = [c for c in letters if c not in known]
    found = dots + "".join(c for c in letters if c in known)
    spare = next((label for label, _ in others if "..." in label), "")
    needs_sum = not dots and ("..." in right or spare)
    target = ("..." + found) if needs_sum else found
    inputs = [grad, *(math_ops.conj(t) for _, t in others)]
    terms = ",".join([right, *(label for label, _ in others)])
    result = apply_op("Einsum", inputs=inputs, equation=f"{terms}->{target}")
    if needs_sum:
        lead = array_ops.rank(result) - len(found)
        result = apply_op("Sum", input=result, reduction_indices=math_ops.range(lead))
    sizes = dict(zip(mine, array_ops.unstack(array_ops.shape(x), num=len(mine)))) if not dots else {}
    if missing:
        if dots:
            raise NotImplementedError("The gradient of an einsum that sums a label of an operand with '...' alone")
        # Labels summed within this operand: the gradient is the same along them.
        shape = array_ops.concat([array_ops.shape(result), array_ops.stack([sizes[c] for c in missing])], 0)
        ones = [1] * len(missing)
        result = apply_op("Reshape", tensor=result, shape=array_ops.concat([array_ops.shape(result), ones], 0))
        result = apply_op("BroadcastTo", input=result, shape=shape)
    have = found + "".join(missing)
    if have != mine:
        result = apply_op("Einsum", inputs=[result], equation=f"{have}->{mine}")
    if dots:
        return _fold_broadcast(result, x, len(mine.split("...")[0]), len(mine.split("...")[1]))
    return result


def _fold_broadcast(result: Tensor, x: Tensor, before: int, after: int) -> Tensor:
    """Sum the broadcast dimensions that x has as 1 or not at all."""
    rank, want = result.shape.rank, x.shape.rank
    if rank is None or want is None:
        raise ValueError("The gradient of an einsum with '...' needs operands of known rank")
    extra = rank - want
    axes = list(range(before, before + extra))
    dims, have = x.shape.dims_or_none or (), result.shape.dims_or_none or ()
    ones = [i for i in range(before, want - after) if dims[i] == 1 and have[i + extra] != 1]
    if axes or ones:
        result = math_ops.reduce_sum(result, axis=np.array(axes + [i + extra for i in ones], np.int32))
    return apply_op("Reshape", tensor=result, shape=array_ops.shape(x))


@register_gradient("MatrixExponential")
def _matrix_exponential(op: Operation, grad: Tensor) -> Any:
    # The derivative of the exponential of a in the direction of g is the upper right block of that of [[a, g], [0, a]].
    a = array_ops.matrix_transpose(op.inputs[0], conjugate=True)
    n = array_ops.shape(a)[-1]
    above = array_ops.concat([a, grad], -1)
    below = array_ops.concat([array_ops.zeros_like(a), a], -1)
    whole = apply_op("MatrixExponential", input=array_ops.concat([above, below], -2))
    return whole[..., :n, n:]
