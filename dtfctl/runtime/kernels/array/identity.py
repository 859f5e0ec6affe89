"""Constants, placeholders and ops that hand their input on, some after a check."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.array.common import product, text
from dtfctl.runtime.kernels.promises import LIKE_FIRST, PASSES, Promises
from dtfctl.runtime.kernels.registry import CPU_GPU, FLOATS, Kernel, KernelBuild, register_kernel


@register_kernel(("Const", "HostConst"), devices=CPU_GPU, alike=True)
def _const(k: KernelBuild) -> Kernel:
    value, dtype = k.attr("value"), k.dtype("dtype")
    if not isinstance(value, np.ndarray):
        raise InvalidArgumentError("Const has no value", k.node.name)
    declared = k.node.raw_attrs["value"].tensor.dtype
    if declared != dtype.as_datatype_enum:
        raise InvalidArgumentError(
            f"Type mismatch between value ({dtypes.as_dtype(declared).name}) and dtype ({dtype.name})", k.node.name
        )
    if not dtype.is_object:
        value = np.ascontiguousarray(value).reshape(value.shape)
        if k.node.op == "Const":
            value = k.xp.asarray(value)
    return lambda: value


@register_kernel("ImmutableConst", promises=Promises(reads_outside=True))
def _immutable_const(k: KernelBuild) -> Kernel:
    """Map a tensor read-only from a file."""
    dtype, shape = k.dtype("dtype"), k.attr("shape")
    if dtype.is_object:
        raise InvalidArgumentError("Sorry, DT_STRING is not currently supported for ImmutableConstOp.")
    path = k.text_attr("memory_region_name").removeprefix("file://")

    def kernel() -> Any:
        if not os.path.isfile(path):
            raise NotFoundError(f"{path}; No such file or directory")
        return np.memmap(path, dtype.np, "r", shape=tuple(shape.dims_or_none))

    return kernel


def _same(x: Any) -> Any:
    return x


_IDENTITIES = ("Identity", "StopGradient", "PreventGradient", "Snapshot", "DebugGradientIdentity")


@register_kernel(_IDENTITIES, devices=CPU_GPU, promises=PASSES)
def _identity(k: KernelBuild) -> Kernel:
    return _same


@register_kernel("PlaceholderWithDefault", devices=CPU_GPU, promises=Promises(passes=True, reads_outside=True))
def _placeholder_with_default(k: KernelBuild) -> Kernel:
    return _same


@register_kernel("GuaranteeConst", devices=CPU_GPU)
def _guarantee_const(k: KernelBuild) -> Kernel:
    if k.dtype("T") is dtypes.resource:
        raise InvalidArgumentError("Input tensor cannot be a resource variable handle.", k.node.name)
    return _same


@register_kernel(("RefIdentity", "DebugGradientRefIdentity"), devices=CPU_GPU)
def _ref_identity(k: KernelBuild) -> Kernel:
    return _same


@register_kernel("DeepCopy", devices=CPU_GPU, promises=LIKE_FIRST)
def _deep_copy(k: KernelBuild) -> Kernel:
    return lambda x: x.copy()


@register_kernel("IdentityN", devices=CPU_GPU, promises=PASSES)
def _identity_n(k: KernelBuild) -> Kernel:
    return lambda *xs: xs


def _partial(shape: TensorShape) -> str:
    dims = shape.dims_or_none
    return "<unknown>" if dims is None else text("?" if d is None else d for d in dims)  # type: ignore[misc]


@register_kernel("EnsureShape", devices=CPU_GPU, promises=Promises(checks=True))
def _ensure_shape(k: KernelBuild) -> Kernel:
    want = k.attr("shape")

    def kernel(x: Any) -> Any:
        if not want.is_compatible_with(TensorShape(x.shape)):
            name = k.node.inputs[0].node.name if k.node.inputs else k.node.name
            raise InvalidArgumentError(
                f"Shape of tensor {name} {text(x.shape)} is not compatible with expected shape {_partial(want)}."
            )
        return x

    return kernel


@register_kernel(("Placeholder", "PlaceholderV2"), devices=CPU_GPU, promises=Promises(reads_outside=True))
def _placeholder(k: KernelBuild) -> Kernel:
    dtype, shape = dtypes.WIRE_NAME[k.dtype("dtype")], k.attr("shape")

    def kernel() -> Any:
        suffix = "" if shape is None or shape.rank is None else f" and shape {_partial(shape)}"
        raise InvalidArgumentError(
            f"You must feed a value for placeholder tensor '{k.node.name}' with dtype {dtype}{suffix}"
        )

    return kernel


@register_kernel(("CheckNumerics", "CheckNumericsV2"), devices=CPU_GPU, promises=Promises(checks=True), T=FLOATS)
def _check_numerics(k: KernelBuild) -> Kernel:
    message, xp, v2 = k.text_attr("message"), k.xp, k.node.op.endswith("V2")

    def kernel(x: Any) -> Any:
        if xp.isfinite(x).all():
            return x
        found = []
        if v2:
            found += ["-Inf"] if (x == -np.inf).any() else []
            found += ["+Inf"] if (x == np.inf).any() else []
        elif xp.isinf(x).any():
            found.append("Inf")
        if xp.isnan(x).any():
            found.append("NaN")
        listing = " and ".join(found) if len(found) < 3 else f"{found[0]}, {found[1]}, and {found[2]}"
        raise InvalidArgumentError(f"{message} : Tensor had {listing} values")

    return kernel


@register_kernel("Bitcast", devices=CPU_GPU)
def _bitcast(k: KernelBuild) -> Kernel:
    """Reinterpret bytes; a type of another size adds or takes an innermost dimension."""
    source, target = k.dtype("T").np, k.dtype("type").np
    if source.itemsize == target.itemsize:
        return lambda x: k.xp.asarray(x).view(target)
    if source.itemsize > target.itemsize:
        ratio = source.itemsize // target.itemsize

        def split(x: Any) -> Any:
            x = k.xp.ascontiguousarray(x).reshape(*x.shape, 1)
            return x.view(target).reshape(*x.shape[:-1], ratio)

        return split
    ratio = target.itemsize // source.itemsize

    def join(x: Any) -> Any:
        if x.ndim == 0 or x.shape[-1] != ratio:
            last = x.shape[-1] if x.ndim else 0
            raise InvalidArgumentError(
                f"Cannot bitcast from {dtypes.WIRE_NAME[k.dtype('T')]} to {dtypes.WIRE_NAME[k.dtype('type')]}: "
                f"last dimension {last} is not {ratio}, shape {text(x.shape)}"
            )
        return k.xp.ascontiguousarray(x).view(target).reshape(x.shape[:-1])

    return join


@register_kernel("IsResourceHandleRefCounting")
def _is_ref_counting(k: KernelBuild) -> Kernel:
    return lambda handle: np.array(False)


@register_kernel("Fingerprint")
def _fingerprint(k: KernelBuild) -> Kernel:
    """FarmHash64 of every row's bytes, as 8 bytes in little-endian order."""
    is_string = k.dtype("T") is dtypes.string

    def kernel(data: Any, method: Any) -> Any:
        if method.ndim:
            raise InvalidArgumentError(f"`method` should be a scalar string: {text(method.shape)}")
        if method.item() != b"farmhash64":
            raise InvalidArgumentError(f"Unsupported fingerprint method: {method.item().decode(errors='replace')}")
        if data.ndim < 1:
            raise InvalidArgumentError("`data` should have at least one dimension")
        from dtfctl.runtime.kernels.string.hashing import fingerprint64

        rows = data.reshape(data.shape[0], product(data.shape[1:]))
        if is_string and data.ndim == 1:
            hashes = [fingerprint64(s) for s in data.tolist()]
        elif is_string:
            inner = [[fingerprint64(s) for s in row] for row in rows.tolist()]
            hashes = [fingerprint64(np.array(h, "<u8").tobytes()) for h in inner]
        else:
            hashes = [fingerprint64(np.ascontiguousarray(row).tobytes()) for row in rows]
        return np.array(hashes, "<u8").view(np.uint8).reshape(data.shape[0], 8)

    return kernel
