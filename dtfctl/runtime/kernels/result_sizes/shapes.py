"""Results that are larger than their inputs by the shapes of these, and parts of what is sparse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.registry import KernelBuild
from dtfctl.runtime.kernels.result_sizes.table import FEW, SLOT_BYTES, grows, ints, item_bytes_of


def _outer(a: Any, b: Any, *_: Any) -> bool:
    # A product over nothing is as large as any.
    return bool(a.size * b.size > FEW or not a.size or not b.size)


def _product(a: Any, b: Any, turn_a: bool, turn_b: bool) -> list[int]:
    rows, columns = a.shape[-1 if turn_a else -2], b.shape[-2 if turn_b else -1]
    return [*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns]


@grows("MatMul", "SparseMatMul", only_if=_outer)
def _mat_mul(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    a, b = inputs[:2]
    return _product(a, b, bool(k.attr("transpose_a")), bool(k.attr("transpose_b"))), item_bytes_of(a)


@grows("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", only_if=_outer)
def _batch_mat_mul(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    a, b = inputs
    return _product(a, b, bool(k.attr("adj_x")), bool(k.attr("adj_y"))), max(item_bytes_of(a), item_bytes_of(b))


@grows("Einsum", only_if=lambda *xs: math.prod(x.size or FEW for x in xs) >= FEW)
def _einsum(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    terms, result = k.text_attr("equation").replace(" ", "").split("->")
    sizes: dict[str, int] = {}
    around: list[tuple[int, ...]] = []
    for term, x in zip(terms.split(","), inputs, strict=True):
        first, dots, last = term.partition("...")
        many = x.ndim - len(first) - len(last)
        sizes.update(zip(first, x.shape))
        sizes.update(zip(last, x.shape[x.ndim - len(last) :]))
        around.append(x.shape[len(first) : len(first) + many] if dots else ())
    letters = [sizes[letter] for letter in result.replace("...", "")]
    return [*(np.broadcast_shapes(*around) if "..." in result else ()), *letters], item_bytes_of(inputs[0])


@grows("MatrixSolveLs", only_if=_outer)
def _matrix_solve_ls(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    a, b = inputs[:2]
    return [*a.shape[:-2], a.shape[-1], b.shape[-1]], item_bytes_of(a)


@grows("BandedTriangularSolve")
def _banded_solve(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    bands = inputs[0]
    return [*bands.shape[:-2], bands.shape[-1], bands.shape[-1]], item_bytes_of(bands)


@grows("Diag")
def _diag(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [*inputs[0].shape, *inputs[0].shape], item_bytes_of(inputs[0])


@grows("MatrixDiag")
def _matrix_diag_square(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [*inputs[0].shape, inputs[0].shape[-1]], item_bytes_of(inputs[0])


@grows("StridedSliceGrad", "InplaceEmpty")
def _strided_slice_grad(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[0]), item_bytes_of(inputs[-1])


@grows("ExtractImagePatches", "ExtractVolumePatches")
def _patches(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    x, same = inputs[0], k.text_attr("padding") == "SAME"
    rates = k.attr("rates", None) or (1,) * x.ndim
    padded, found = [x.shape[0], x.shape[-1]], [x.shape[0], x.shape[-1]]
    for d, size, stride, rate in list(zip(x.shape, k.attr("ksizes"), k.attr("strides"), rates))[1:-1]:
        extent = (size - 1) * rate + 1
        outs = -(-d // stride) if same else -(-(d - extent + 1) // stride)
        padded.append(max(d, (outs - 1) * stride + extent) if same else d)
        found.append(max(outs, 0) * size)
    return max(padded, found, key=math.prod), item_bytes_of(x)


@grows("EditDistance")
def _edit_distance(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [max(a, b) for a, b in zip(ints(inputs[2])[:-1], ints(inputs[5])[:-1], strict=True)], 4


@grows("SparseReduceSum", "SparseReduceMax")
def _sparse_reduce(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    dims = ints(inputs[2])
    axes = {axis % len(dims) for axis in ints(inputs[3])}
    return [dim for i, dim in enumerate(dims) if i not in axes], item_bytes_of(inputs[1])


@grows("SparseTensorDenseMatMul")
def _sparse_dense_product(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    a_shape, b = ints(inputs[2]), inputs[3]
    rows = a_shape[1 if k.attr("adjoint_a") else 0]
    return [rows, b.shape[0 if k.attr("adjoint_b") else 1]], item_bytes_of(b)


@grows("SetSize")
def _set_size(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[2])[:-1], 4


@grows("SparseCross", "SparseCrossV2", "SparseCrossHashed")
def _sparse_cross(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    many = k.attr("N")
    first = many + len(k.attr("sparse_types"))
    return [max(ints(shape)[0] for shape in inputs[first : first + many])], SLOT_BYTES


@grows("RaggedCross")
def _ragged_cross(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    many = k.attr("Nsparse")
    first = len(k.attr("ragged_values_types")) + len(k.attr("ragged_splits_types"))
    first += many + len(k.attr("sparse_values_types"))
    return [max(ints(shape)[0] for shape in inputs[first : first + many])], SLOT_BYTES


@grows("Gather", only_if=lambda params, ids: ids.size * params.size > FEW * params.shape[0])
def _gather(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    params, ids = inputs
    return [*ids.shape, *params.shape[1:]], item_bytes_of(params)


@grows("GatherV2", only_if=lambda params, ids, axis: ids.size * params.size > FEW * params.shape[int(axis)])
def _gather_v2(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    params, ids, axis = inputs[0], inputs[1], inputs[2].item() % inputs[0].ndim
    batch = k.attr("batch_dims", 0) % (ids.ndim + 1)
    return [*params.shape[:axis], *ids.shape[batch:], *params.shape[axis + 1 :]], item_bytes_of(params)


@grows("GatherNd", only_if=lambda params, ids: ids.size * params.size > FEW)
def _gather_nd(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    params, ids = inputs
    return [*ids.shape[:-1], *params.shape[ids.shape[-1] :]], item_bytes_of(params)


@grows("DynamicStitch", "ParallelDynamicStitch")
def _dynamic_stitch(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    many = len(inputs) // 2
    ids, data = inputs[:many], inputs[many:]
    rows = max((int(i.max()) + 1 for i in ids if i.size), default=0)
    return [rows, *data[0].shape[ids[0].ndim :]], item_bytes_of(data[0])


@grows("SparseFillEmptyRows", "RaggedFillEmptyRows")
def _empty_rows(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[2])[:1], 8
