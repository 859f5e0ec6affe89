"""Reading and writing at indices: Gather*, ScatterNd*, TensorScatter*, Inplace*."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.array.common import as_array, check_indices, ints, product, text
from dtfctl.runtime.kernels.array.scatter import scatter_into
from dtfctl.runtime.kernels.promises import SHAPES, Promises, ShapeFrom
from dtfctl.runtime.kernels.registry import NUMBERS, Kernel, KernelBuild, register_kernel


def gather(params: Any, indices: Any, axis: int = 0, batch_dims: int = 0) -> Any:
    """TensorFlow's gather, bounds checked.

    Raises:
        InvalidArgumentError: an index, the axis or batch_dims is out of range.
    """
    if batch_dims == 0:
        check_indices(indices, params.shape[axis])
        return as_array(np.take(params, indices, axis=axis))
    batch, outer = params.shape[:batch_dims], params.shape[batch_dims:axis]
    inner, limit = params.shape[axis + 1 :], params.shape[axis]
    check_indices(indices, limit)
    b = product(batch)
    rest = indices.shape[batch_dims:]
    p = params.reshape(b, product(outer), limit, product(inner))
    i = indices.reshape(b, product(rest))
    picked = p[np.arange(b).reshape(b, 1), :, i]
    return picked.swapaxes(1, 2).reshape(*batch, *outer, *rest, *inner)


@register_kernel("Gather", promises=Promises(lets_go=True, shape_from=SHAPES, looks_up=True))
def _gather(k: KernelBuild) -> Kernel:
    def kernel(params: Any, indices: Any) -> Any:
        if params.ndim < 1:
            raise InvalidArgumentError("params must be at least 1 dimensional")
        return gather(params, indices)

    return kernel


@register_kernel("GatherV2", promises=Promises(lets_go=True, shape_from=ShapeFrom(("axis",)), looks_up=True))
def _gather_v2(k: KernelBuild) -> Kernel:
    batch_attr = int(k.attr("batch_dims", 0))

    def kernel(params: Any, indices: Any, axis: Any) -> Any:
        if params.ndim < 1:
            raise InvalidArgumentError("params must be at least 1 dimensional")
        if axis.ndim != 0:
            raise InvalidArgumentError("axis must be scalar")
        at, batch = int(axis), batch_attr
        if not -params.ndim <= at < params.ndim:
            raise InvalidArgumentError(f"Expected axis in the range [{-params.ndim}, {params.ndim}), but got {at}")
        at %= params.ndim
        if batch:
            if not -indices.ndim <= batch <= indices.ndim:
                raise InvalidArgumentError(
                    f"Expected batch_dims in the range [{-indices.ndim}, {indices.ndim}], but got {batch}"
                )
            batch = batch + indices.ndim if batch < 0 else batch
            if batch >= params.ndim:
                raise InvalidArgumentError(f"batch_dims ({batch}) must be less than rank(params) ({params.ndim}).")
            if at < batch:
                raise InvalidArgumentError(f"batch_dims ({batch}) must be less than or equal to axis ({at}).")
            for d in range(batch):
                if params.shape[d] != indices.shape[d]:
                    raise InvalidArgumentError(
                        f"params.shape[{d}]: {params.shape[d]} should be equal to indices.shape[{d}]: "
                        f"{indices.shape[d]}"
                    )
        return gather(params, indices, at, batch)

    return kernel


def indices_policy(k: KernelBuild) -> str:
    """Read what a kernel does with indices out of range.

    Raises:
        InvalidArgumentError: the attribute names no policy.
    """
    policy = k.text_attr("bad_indices_policy")
    if policy not in ("", "DEFAULT", "ERROR", "IGNORE"):
        raise InvalidArgumentError(f"Unknown bad indices handling attribute: {policy}", k.node.name)
    return policy


def nd_indices(indices: Any, shape: tuple[int, ...], policy: str = "", where: str = "shape") -> tuple[Any, Any]:
    """Flat positions over the first dimensions of `shape` named by the rows of `indices` [..., depth].

    Returns:
        positions [n], and a bool [n] of rows in range, or None when all are.

    Raises:
        InvalidArgumentError: a row is out of range, unless the policy is to ignore such rows.
    """
    depth = indices.shape[-1]
    rows = indices.reshape(-1, depth) if depth else np.zeros((product(indices.shape[:-1]), 0), np.int64)
    if depth == 0:
        return np.zeros(rows.shape[0], np.intp), None
    limits = np.array(shape[:depth])
    if rows.size:
        rows = rows.astype(np.int64, copy=False)
        bad: Any = (rows < 0) | (rows >= limits)
        if bad.any():
            wrong = bad.any(axis=1)
            if policy != "IGNORE":
                first = int(np.flatnonzero(wrong)[0])
                outer = indices.shape[:-1]
                at = ",".join(map(str, np.unravel_index(first, outer))) if outer else ""
                raise InvalidArgumentError(
                    f"indices[{at}] = {_row_text(rows[first])} does not index into {where} {text(shape)}"
                )
            rows = np.where(wrong[:, None], 0, rows)
            return _ravel(rows, limits), ~wrong
    return _ravel(rows, limits), None


def _row_text(row: Any) -> str:
    return f"[{', '.join(map(str, row.tolist()))}]"


def _ravel(rows: Any, limits: Any) -> Any:
    flat = rows[:, 0]
    for i in range(1, rows.shape[1]):
        flat = flat * limits[i] + rows[:, i]
    return flat


@register_kernel("GatherNd")
def _gather_nd(k: KernelBuild) -> Kernel:
    policy = indices_policy(k)

    def kernel(params: Any, indices: Any) -> Any:
        if params.ndim < 1:
            raise InvalidArgumentError("params must be at least a vector")
        if indices.ndim < 1:
            raise InvalidArgumentError("indices must be at least a vector")
        depth = indices.shape[-1]
        if depth > params.ndim:
            raise InvalidArgumentError(
                f"index innermost dimension length must be <= params rank; saw: {depth} vs. {params.ndim}"
            )
        inner = params.shape[depth:]
        lead = indices.shape[:-1]
        if product(params.shape[:depth]) == 0 and product(lead) and depth and product(inner):
            raise InvalidArgumentError(
                "Requested more than 0 entries, but params is empty.  Params shape: " + text(params.shape)
            )
        flat, valid = nd_indices(indices, params.shape, policy, "param shape")
        rows = params.reshape(product(params.shape[:depth]), *inner)
        if rows.shape[0] == 0 and len(flat) == 0:
            return np.zeros((*lead, *inner), params.dtype)
        out = rows[flat]
        if valid is not None:
            out[~valid] = b"" if params.dtype == object else 0
        return out.reshape((*lead, *inner))

    return kernel


def check_scatter(indices: Any, updates: Any, shape: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError unless updates fit what indices [..., depth] select in `shape`."""
    if indices.ndim < 1:
        raise InvalidArgumentError(f"Indices shape must have rank at least one. Found:{text(indices.shape)}")
    if updates.ndim < 1:
        raise InvalidArgumentError(f"Updates shape must have rank at least one. Found:{text(updates.shape)}")
    depth = indices.shape[-1]
    if depth > len(shape):
        raise InvalidArgumentError(
            f"index innermost dimension length must be <= tensor rank; saw: {depth} vs. {len(shape)}"
        )
    want = (*indices.shape[:-1], *shape[depth:])
    if updates.shape != want:
        if updates.shape[: indices.ndim - 1] != indices.shape[:-1]:
            raise InvalidArgumentError(
                "Outer dimensions of indices and update must match. Indices shape: "
                f"{text(indices.shape)}, updates shape:{text(updates.shape)}"
            )
        inner = len(shape) - depth
        raise InvalidArgumentError(
            f"The inner {inner} dimensions of output.shape={text(shape)} must match the inner "
            f"{updates.ndim - indices.ndim + 1} dimensions of updates.shape={text(updates.shape)}"
        )


def scatter_nd_into(out: Any, indices: Any, updates: Any, ufunc: Any | None, policy: str = "") -> Any:
    """Combine updates into `out` (owned by the caller, C-contiguous) at indices [..., depth]; returns `out`."""
    shape = out.shape
    check_scatter(indices, updates, shape)
    depth = indices.shape[-1]
    flat, valid = nd_indices(indices, shape, policy)
    if updates.size == 0:
        return out
    rows = updates.reshape(len(flat), *shape[depth:])
    if valid is not None:
        flat, rows = flat[valid], rows[valid]
    scatter_into(out.reshape(product(shape[:depth]), *shape[depth:]), flat, rows, ufunc)
    return out


@register_kernel("ScatterNd")
def _scatter_nd(k: KernelBuild) -> Kernel:
    policy, dtype = indices_policy(k), k.dtype("T")

    def kernel(indices: Any, updates: Any, shape: Any) -> Any:
        if shape.ndim != 1:
            raise InvalidArgumentError("Shape must be a vector")
        dims = ints(shape)
        if any(d < 0 for d in dims):
            raise InvalidArgumentError(f"Shape must be non-negative, got {text(dims)}")
        if product(dims) == 0 and (indices.size or updates.size):
            raise InvalidArgumentError(
                f"Indices and updates specified for empty output.  indices shape: {text(indices.shape)}"
            )
        if dtype.is_object:
            out = object_array([b""] * product(dims), dims)
            return scatter_nd_into(out, indices, updates, np.add, policy)
        ufunc = np.logical_or if dtype.is_bool else np.add
        return scatter_nd_into(np.zeros(dims, dtype.np), indices, updates, ufunc, policy)

    return kernel


_TENSOR_SCATTER: dict[str, Any] = {
    "TensorScatterAdd": np.add,
    "TensorScatterSub": np.subtract,
    "TensorScatterMax": np.maximum,
    "TensorScatterMin": np.minimum,
    "TensorScatterUpdate": None,
    "ScatterNdNonAliasingAdd": np.add,
}


@register_kernel(tuple(_TENSOR_SCATTER))
def _tensor_scatter(k: KernelBuild) -> Kernel:
    ufunc, policy = _TENSOR_SCATTER[k.node.op], indices_policy(k)
    if ufunc is np.add and k.dtype("T").is_bool:
        ufunc = np.logical_or

    def kernel(tensor: Any, indices: Any, updates: Any) -> Any:
        if tensor.ndim < 1:
            raise InvalidArgumentError("Output must be at least 1-D, got shape: []")
        if tensor.size == 0 and (indices.size or updates.size) and indices.shape[:-1] != (0,):
            raise InvalidArgumentError(
                f"Indices and updates specified for empty output.  indices shape: {text(indices.shape)}"
            )
        return scatter_nd_into(np.array(tensor, order="C"), indices, updates, ufunc, policy)

    return kernel


@register_kernel("InplaceUpdate")
@register_kernel(("InplaceAdd", "InplaceSub"), T=NUMBERS)
def _inplace(k: KernelBuild) -> Kernel:
    """Rows i of x changed by v. Values here never change, so the answer is a new array."""
    ufunc = {"InplaceAdd": np.add, "InplaceSub": np.subtract, "InplaceUpdate": None}[k.node.op]

    def kernel(x: Any, i: Any, v: Any) -> Any:
        if i.ndim != 1:
            raise InvalidArgumentError(f"i must be a vector. {text(i.shape)}")
        if x.ndim != v.ndim:
            raise InvalidArgumentError(
                f"x and v shape doesn't match (ranks differ): {text(x.shape)} vs. {text(v.shape)}"
            )
        for axis in range(1, x.ndim):
            if x.shape[axis] != v.shape[axis]:
                raise InvalidArgumentError(
                    f"x and v shape doesn't match at index {axis} : {text(x.shape)} vs. {text(v.shape)}"
                )
        if i.shape[0] != v.shape[0]:
            raise InvalidArgumentError(f"i and x shape doesn't match at index 0: {text(i.shape)} vs. {text(v.shape)}")
        return scatter_into(np.array(x), np.mod(i, x.shape[0]), v, ufunc)

    return kernel
