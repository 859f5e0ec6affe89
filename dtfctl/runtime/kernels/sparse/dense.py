"""Sparse tensors with dense ones: conversion, products, sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.array.common import check_size, ints, is_low_precision, product, text
from dtfctl.runtime.kernels.array.scatter import scatter_into
from dtfctl.runtime.kernels.math.binary import truncated_quotient
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.sparse import common


@register_kernel("SparseToDense")
def _sparse_to_dense(k: KernelBuild) -> Kernel:
    validate, is_object = bool(k.attr("validate_indices")), k.dtype("T").is_object

    def kernel(indices: Any, output_shape: Any, values: Any, default: Any) -> Any:
        if indices.ndim > 2:
            raise InvalidArgumentError(
                f"sparse_indices should be a scalar, vector, or matrix, got shape {text(indices.shape)}"
            )
        count = indices.shape[0] if indices.ndim else 1
        rank = indices.shape[1] if indices.ndim > 1 else 1
        if output_shape.ndim != 1:
            raise InvalidArgumentError(f"output_shape must be rank 1, got shape {text(output_shape.shape)}")
        if output_shape.shape[0] != rank:
            raise InvalidArgumentError(
                f"output_shape has incorrect number of elements: {output_shape.shape[0]} should be: {rank}"
            )
        if values.ndim and values.shape != (count,):
            raise InvalidArgumentError(
                f"sparse_values has incorrect shape {text(values.shape)}, should be [] or [{count}]"
            )
        if default.ndim != 0:
            raise InvalidArgumentError("default_value should be a scalar.")
        dims = ints(output_shape)
        if any(d < 0 for d in dims):
            raise InvalidArgumentError(f"Dimension {min(dims)} must be >= 0")
        check_size(dims)
        rows = indices.reshape(count, rank).astype(np.int64, copy=False)
        common.in_bounds(rows, dims)
        if validate:
            common.ordered(rows)
        if is_object:
            out = object_array([default.item()] * product(dims), (product(dims),))
        else:
            out = np.full(product(dims), default, values.dtype)
        out[common.linear(rows, dims)] = values.item() if is_object and values.ndim == 0 else values
        return out.reshape(dims)

    return kernel


@register_kernel("SparseTensorDenseMatMul")
def _sparse_dense_matmul(k: KernelBuild) -> Kernel:
    adjoint_a, adjoint_b = bool(k.attr("adjoint_a")), bool(k.attr("adjoint_b"))
    dtype = k.dtype("T").np

    def kernel(indices: Any, values: Any, shape: Any, b: Any) -> Any:
        if b.ndim != 2:
            raise InvalidArgumentError(f"Tensor 'b' is not a matrix but has shape {text(b.shape)}")
        if shape.ndim != 1:
            raise InvalidArgumentError("Tensor 'a_shape' is not a vector")
        if shape.shape[0] != 2:
            raise InvalidArgumentError("Tensor 'a_shape' must have 2 elements")
        if values.ndim != 1:
            raise InvalidArgumentError("Tensor 'a_values' is not a vector")
        if indices.ndim != 2:
            raise InvalidArgumentError("Tensor 'a_indices' is not a matrix")
        if indices.shape[0] != values.shape[0]:
            raise InvalidArgumentError("Number of rows of a_indices does not match number of entries in a_values")
        if indices.shape[1] != 2:
            raise InvalidArgumentError("Number of columns of a_indices does not match number of entries in a_shape")
        height, width = ints(shape)
        rows, columns = indices[:, 0], indices[:, 1]
        if adjoint_a:
            rows, columns, height, width = columns, rows, width, height
            values = values.conj() if dtype.kind == "c" else values
        if adjoint_b:
            b = b.T.conj() if dtype.kind == "c" else b.T
        if width != b.shape[0]:
            raise InvalidArgumentError(
                f"Cannot multiply A and B because inner dimension does not match: {width} vs. {b.shape[0]}.  Did you "
                "forget a transpose?  Dimensions of A: "
                f"[{ints(shape)[0]}, {ints(shape)[1]}).  Dimensions of B: {text(b.shape)}"
            )
        if indices.size:
            for name, part, limit in (("k", columns, width), ("m", rows, height)):
                if part.min() < 0 or part.max() >= limit:
                    i = int(np.flatnonzero((part < 0) | (part >= limit))[0])
                    raise InvalidArgumentError(
                        f"{name} ({int(part[i])}) from index[{i},{int((name == 'k') != adjoint_a)}] out of bounds "
                        f"(>={limit})"
                    )
        if dtype.kind in "fc" and dtype.itemsize >= 4:
            from scipy.sparse import csr_array

            if (rows[1:] < rows[:-1]).any():
                order = np.argsort(rows, kind="stable")
                rows, columns, values = rows[order], columns[order], values[order]
            # From places scipy would add up first what is at one twice, which can be infinite.
            starts = np.searchsorted(rows, np.arange(height + 1))
            return csr_array((values, columns, starts), shape=(height, width)) @ np.ascontiguousarray(b)
        work = np.dtype(np.float32) if is_low_precision(dtype) else dtype
        out = np.zeros((height, b.shape[1]), work)
        parts = values.astype(work)[:, None] * b.astype(work, copy=False)[columns]
        return scatter_into(out, rows, parts, np.add).astype(dtype, copy=False)

    return kernel


@register_kernel("SparseTensorDenseAdd")
def _sparse_dense_add(k: KernelBuild) -> Kernel:
    def kernel(indices: Any, values: Any, shape: Any, b: Any) -> Any:
        if indices.ndim == 2 and values.ndim == shape.ndim == 1:
            for p, q in zip(indices.shape, (values.shape[0], shape.shape[0]), strict=True):
                if p != q:
                    raise InvalidArgumentError(f"Dimensions {p} and {q} are not compatible")
        dims = common.check(indices, values, shape, "a")
        if len(dims) != b.ndim:
            raise InvalidArgumentError(f"Two operands have different ranks; received: {len(dims)} and {b.ndim}")
        for i, (p, q) in enumerate(zip(dims, b.shape)):
            if p != q:
                raise InvalidArgumentError(
                    f"Dimension {i} does not equal (no broadcasting is supported): sparse side {p} vs dense side {q}"
                )
        if indices.size:
            bad = (indices < 0) | (indices >= np.array(dims))
            if bad.any():
                z, d = (int(v) for v in np.argwhere(bad)[0])
                raise InvalidArgumentError(
                    f"Sparse tensor has an invalid index on dimension {d}: a_indices({z},{d}) = {int(indices[z, d])}, "
                    f"dense tensor shape: {list(dims)}"
                )
        out = np.array(b, order="C")
        scatter_into(out.reshape(-1), common.linear(indices, dims), values, np.add)
        return out

    return kernel


@register_kernel(("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv"))
def _sparse_dense_cwise(k: KernelBuild) -> Kernel:
    """Compute at the sparse indices only, the dense side broadcast to the sparse one."""
    op = k.node.op.removeprefix("SparseDenseCwise")
    is_integer = k.dtype("T").kind in ("int", "uint")

    def kernel(indices: Any, values: Any, shape: Any, dense: Any) -> Any:
        if indices.ndim != 2:
            raise InvalidArgumentError(f"Input sp_indices should be a matrix but received shape: {text(indices.shape)}")
        dims = common.check(indices, values, shape, "sp")
        if dense.ndim > len(dims) or any(q not in (1, p) for p, q in zip(dims[len(dims) - dense.ndim :], dense.shape)):
            raise InvalidArgumentError(
                "SparseDenseBinaryOpShared broadcasts dense to sparse only; got incompatible shapes: "
                f"[{','.join(map(str, dims))}] vs. [{','.join(map(str, dense.shape))}]"
            )
        common.in_bounds(indices, dims)
        lead = len(dims) - dense.ndim
        place = tuple(
            indices[:, lead + i] if d != 1 else np.zeros(len(indices), np.int64) for i, d in enumerate(dense.shape)
        )
        other = dense[place] if dense.ndim else np.broadcast_to(dense, values.shape)
        if op == "Add":
            return values + other
        if op == "Mul":
            return values * other
        if is_integer:
            if not np.all(other):
                raise InvalidArgumentError("Integer division by zero")
            return truncated_quotient(values, other)
        return values / other

    return kernel


@register_kernel("SparseSoftmax")
def _sparse_softmax(k: KernelBuild) -> Kernel:
    """Softmax over the stored values of each innermost row."""

    def kernel(indices: Any, values: Any, shape: Any) -> Any:
        dims = common.check(indices, values, shape, "sp")
        if len(dims) < 2:
            raise InvalidArgumentError(f"Input should have rank >= 2, but received shape: {text(dims)}")
        if len(values) == 0:
            return values
        rows = common.linear(indices[:, :-1], dims[:-1])
        _, groups = np.unique(rows, return_inverse=True)
        groups = groups.reshape(-1)
        n = int(groups.max()) + 1
        work = values.astype(np.float32) if is_low_precision(values.dtype) else values
        top = scatter_into(np.full(n, -np.inf, work.dtype), groups, work, np.maximum)
        e = np.exp(work - top[groups])
        total = scatter_into(np.zeros(n, work.dtype), groups, e, np.add)
        return (e / total[groups]).astype(values.dtype, copy=False)

    return kernel
