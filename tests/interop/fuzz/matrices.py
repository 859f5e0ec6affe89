"""Products, solutions and parts of matrices."""

from __future__ import annotations

from tests.interop.fuzz.program import FLOATS, Program, Skip


def matrices(p: Program) -> None:
    a = p.pick(FLOATS, 2)
    if 0 in a.shape:
        raise Skip
    tf = p.tf
    kind = p.rng.randrange(8)
    rows, columns = a.shape[-2:]
    if kind == 0:
        p.keep("matrix_transpose", tf.matrix_transpose(a.tensor), (*a.shape[:-2], columns, rows), a.dtype)
    elif kind == 1:
        lower, upper = p.some(-1, 0, 1), p.some(-1, 0, 1)
        p.keep("band_part", tf.matrix_band_part(a.tensor, min(lower, rows), min(upper, columns)), a.shape, a.dtype)
    elif kind == 2:
        p.keep("matrix_diag_part", tf.matrix_diag_part(a.tensor), (*a.shape[:-2], min(rows, columns)), a.dtype)
    elif kind == 3:
        p.keep("matrix_diag", tf.matrix_diag(a.tensor[..., 0, :]), (*a.shape[:-2], columns, columns), a.dtype)
    elif kind == 4:
        diagonal = p.constant((*a.shape[:-2], min(rows, columns)), a.dtype)
        p.keep("matrix_set_diag", tf.matrix_set_diag(a.tensor, diagonal.tensor), a.shape, a.dtype)
    elif kind == 5:
        p.keep("trace", tf.trace(a.tensor), a.shape[:-2], a.dtype)
    elif kind == 6 and a.rank == 4:
        p.keep(
            "depth_to_space",
            tf.depth_to_space(tf.concat([a.tensor] * 4, 3), 2),
            (a.shape[0], a.shape[1] * 2, a.shape[2] * 2, a.shape[3]),
            a.dtype,
        )
    else:
        square = tf.matmul(a.tensor, a.tensor, transpose_b=True) + tf.eye(rows, dtype=a.dtype) * 3.0
        name = p.some(
            "cholesky",
            "matrix_inverse",
            "matrix_determinant",
            "matrix_solve",
            "linalg.slogdet",
            "cholesky_solve",
            "linalg.expm",
        )
        if name == "matrix_solve":
            p.keep(name, tf.matrix_solve(square, a.tensor), a.shape, a.dtype)
        elif name == "cholesky_solve":
            p.keep(name, tf.cholesky_solve(tf.cholesky(square), a.tensor), a.shape, a.dtype)
        elif name == "matrix_determinant":
            p.keep(name, tf.log(tf.matrix_determinant(square)), a.shape[:-2], a.dtype)
        elif name == "linalg.slogdet":
            p.keep(name, tf.linalg.slogdet(square)[1], a.shape[:-2], a.dtype)
        elif name == "linalg.expm":
            p.keep(name, tf.linalg.expm(tf.tanh(square) * 0.3), (*a.shape[:-1], rows), a.dtype)
        else:
            p.keep(name, getattr(tf, name)(square), (*a.shape[:-1], rows), a.dtype)


def multiplied(p: Program) -> None:
    a = p.pick(FLOATS, 2)
    tf = p.tf
    kind = p.rng.randrange(6)
    k = a.shape[-1]
    if kind <= 2:
        n = p.rng.randint(1, 3)
        turned = p.rng.random() < 0.4
        batch = a.shape[:-2]
        shape = (*batch, n, k) if turned else (*batch, k, n)
        b = p.constant(shape, a.dtype)
        if p.rng.random() < 0.4:
            made = tf.matmul(a.tensor, a.tensor, transpose_a=True)
            p.keep("matmul transpose_a", made, (*batch, k, k), a.dtype)
        elif not turned and p.rng.random() < 0.3:
            p.keep("@", a.tensor @ b.tensor, (*batch, a.shape[-2], n), a.dtype)
        else:
            p.keep(
                f"matmul {a.shape} {shape} {turned}",
                tf.matmul(a.tensor, b.tensor, transpose_b=turned),
                (*batch, a.shape[-2], n),
                a.dtype,
            )
    elif kind == 3:
        b = p.constant((k, 2), a.dtype)
        axes = p.some(1, [[a.rank - 1], [0]])
        p.keep(f"tensordot {axes}", tf.tensordot(a.tensor, b.tensor, axes), (*a.shape[:-1], 2), a.dtype)
    elif kind == 4 and a.rank == 2:
        b = p.constant((k, 3), a.dtype)
        equation = p.some("ij,jk->ik", "ij,jk->ki", "ij,jk->i", "ij,jk")
        shape = {"ik": (a.shape[0], 3), "ki": (3, a.shape[0]), "i": a.shape[:1]}[(equation + "->ik").split("->")[1]]
        p.keep(f"einsum {equation}", tf.einsum(equation, a.tensor, b.tensor), shape, a.dtype)
    elif kind == 5:
        b = p.constant((k,), a.dtype)
        p.keep("matvec", tf.linalg.matvec(a.tensor, b.tensor), a.shape[:-1], a.dtype)
    else:
        p.keep("l2_normalize", tf.nn.l2_normalize(a.tensor, p.axis(a)), a.shape, a.dtype)
