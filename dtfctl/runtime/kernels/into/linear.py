"""Matrix products and sums over rows, into given arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.into.elementwise import is_float
from dtfctl.runtime.kernels.into.fusions import Around, Fusion, Line, fuses, may_use_onednn, rows_and_bias
from dtfctl.runtime.kernels.into.products import (
    is_large,
    product,
    product_by_factor,
    product_by_onednn,
    product_of_stacks,
)
from dtfctl.runtime.kernels.into.registry import Into, Spec, makes
from dtfctl.runtime.kernels.registry import KernelBuild

_add_up: Any = np.add.reduce
# Elements that BLAS adds up without waking threads.
MOST_ALONE = 9000
# Products of more rows each gain nothing by being one, which takes memory.
_MOST_STACKED = 256
# Rows shorter than this are added up several at a time, side by side,
_WIDE = 1024
# unless there are few that are not short.
_FEW_ROWS, _NOT_SHORT = 64, 128


@makes("MatMul")
def _matmul(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    a, b = inputs
    return product(a, b, *_transposed(k.node)) if _are_matrices(a, b) else None


@makes("_MatMulByFactor")
def _by_factor(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    return product_by_factor(*_factors(k, inputs, outputs)) if _are_matrices(inputs[0], outputs[0]) else None


def _factors(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> tuple[Spec, Spec, bool]:
    """Return what both factors are, of which the plan does not see the second, and whether that is transposed."""
    (_, inner), (_, columns) = inputs[0].shape, outputs[0].shape
    tb = bool(k.attr("transpose_b"))
    return inputs[0], Spec((columns, inner) if tb else (inner, columns), outputs[0].dtype), tb


@makes("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    a, b = inputs
    if not is_float(a) or not is_float(b) or not a.dtype == b.dtype == outputs[0].dtype:
        return None
    if min(len(a.shape), len(b.shape)) < 2:
        return None
    return product_of_stacks(a, b, bool(k.attr("adj_x")), bool(k.attr("adj_y")))


def _are_matrices(a: Spec | None, b: Spec | None) -> bool:
    return all(is_float(s) and s is not None and len(s.shape) == 2 for s in (a, b))


def _transposed(product: Node) -> tuple[bool, bool]:
    return bool(product.attr("transpose_a")), bool(product.attr("transpose_b"))


@may_use_onednn("MatMul")
def _is_onednns(k: KernelBuild, inputs: list[Any], outputs: list[Any]) -> bool:
    a, b = inputs
    return _are_matrices(a, b) and is_large(a, b, *_transposed(k.node))


@may_use_onednn("_MatMulByFactor")
def _is_onednns_by_factor(k: KernelBuild, inputs: list[Any], outputs: list[Any]) -> bool:
    if not _are_matrices(inputs[0], outputs[0]):
        return False
    a, b, tb = _factors(k, inputs, outputs)
    return is_large(a, b, False, tb)


@fuses("BiasAdd", "Add", "AddV2")
def _multiply_with_bias(node: Node, around: Around) -> Iterator[Fusion]:
    """Let a product add the bias that is all its result is for."""
    for edge, bias, _ in rows_and_bias(node, around):
        made, spec = around.only_made_by(edge, "MatMul"), around.spec((node, 0))
        if made is None or spec is None or not around.has_onednn:
            continue
        factors = [around.root(e) for e in made.inputs]
        a, b = (around.spec(factor) for factor in factors)
        if a is None or b is None:
            continue
        into = product_by_onednn(a, b, *_transposed(made), True)
        if into is not None:
            yield [Line(node, into, [*factors, bias], [((node, 0), spec)], (made,))]


@fuses("AddN")
def _sum_of_products(node: Node, around: Around) -> Iterator[Fusion]:
    """Let one product of all rows add up the products of a few rows each, as gradients of weights used often are."""
    made = [around.only_made_by(e, "MatMul") for e in node.inputs]
    products = [m for m in made if m is not None]
    spec = around.spec((node, 0))
    if len(products) < 2 or len(products) != len(made) or spec is None:
        return
    factors = [[around.root(e) for e in m.inputs] for m in products]
    specs = [[around.spec(f) for f in pair] for pair in factors]
    if any(_transposed(m) != (True, False) or not _are_matrices(*pair) for m, pair in zip(products, specs)):
        return
    rows = [a.shape[0] for a, _ in specs if a is not None]
    if max(rows) > _MOST_STACKED:
        return
    a, b = (Spec((sum(rows), size), spec.dtype) for size in spec.shape)
    into = product(a, b, True, False)
    if around.has_onednn and into.beside_onednn is not None:
        into = into.beside_onednn()
    ends = list(accumulate(rows))
    parts = [slice(end - count, end) for end, count in zip(ends, rows)]

    def call(*values: Any) -> None:
        *given, out, x, y = values
        for n, part in enumerate(parts):
            x[part] = given[2 * n]
            y[part] = given[2 * n + 1]
        into.call(x, y, out)

    operands = [f for pair in factors for f in pair]
    yield [Line(node, Into(call, scratch=(a, b)), operands, [((node, 0), spec)], tuple(products))]


@makes("BiasAddGrad", widened=True)
def _bias_add_grad(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    g = inputs[0]
    if not is_float(g) or k.text_attr("data_format", "NHWC") != "NHWC" or len(g.shape) < 2 or 0 in g.shape:
        return None
    return _sum_of_rows(g)


@makes("Sum", widened=True)
def _sum(k: KernelBuild, inputs: list[Any], outputs: list[Spec]) -> Into | None:
    x = inputs[0]
    lead = len(x.shape) - 1 if is_float(x) else 0
    if lead < 1 or outputs[0].shape != x.shape[-1:] or 0 in x.shape:
        return None
    # All axes but the last, which the shapes alone tell apart only where no other gives the same.
    if any(size == x.shape[-1] for size in x.shape[:-1]):
        return None
    return _sum_of_rows(x)


def _sum_of_rows(x: Spec) -> Into:
    """Make a call that adds up all rows; in several places first, which also rounds less."""
    rows, columns = prod(x.shape[:-1]), x.shape[-1]
    if rows * columns <= MOST_ALONE:
        # One row of ones times the matrix is what BLAS does fastest.
        return Into(_by_ones(len(x.shape) == 2, columns), extras=(np.ones(rows, x.dtype),))
    if rows <= _FEW_ROWS and columns >= _NOT_SHORT:
        return Into(_add_rows if len(x.shape) == 2 else partial(_add_rows_of, columns))
    beside = max(min(_WIDE // columns, rows), 1)
    whole = rows - rows % beside

    def add_up(x: Any, *rest: Any) -> None:
        # A sum has its axes as an input besides.
        *_, out, wide, narrow = rest
        flat = np.ascontiguousarray(x).reshape(rows, columns)
        _add_up(flat[:whole].reshape(-1, beside * columns), 0, None, wide)
        _add_up(wide.reshape(beside, columns), 0, None, out)
        if whole < rows:
            _add_up(flat[whole:], 0, None, narrow)
            np.add(out, narrow, out)

    return Into(add_up, scratch=(Spec((beside * columns,), x.dtype), Spec((columns,), x.dtype)))


def _add_rows(x: Any, *rest: Any) -> None:
    _add_up(x, 0, None, rest[-1])


def _add_rows_of(columns: int, x: Any, *rest: Any) -> None:
    _add_up(x.reshape(-1, columns), 0, None, rest[-1])


def _by_ones(is_matrix: bool, columns: int) -> Callable[..., None]:
    def call(x: Any, *rest: Any) -> None:
        ones, out = rest[-2:]
        np.dot(ones, x if is_matrix else x.reshape(-1, columns), out)

    return call
