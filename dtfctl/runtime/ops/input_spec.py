"""What a layer expects of its inputs, and the check of that."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.dtypes import as_dtype


class InputSpec:
    """What a layer expects of one input: type, rank, sizes of axes."""

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: dict[int, int] | None = None,
    ) -> None:
        self.dtype, self.max_ndim, self.min_ndim = dtype, max_ndim, min_ndim
        self.shape = None if shape is None else tuple(shape)
        self.ndim = len(self.shape) if self.shape is not None else ndim
        self.axes = {int(axis): size for axis, size in (axes or {}).items()}

    def __repr__(self) -> str:
        said = {k: v for k, v in vars(self).items() if v}
        return f"InputSpec({', '.join(f'{k}={v}' for k, v in said.items())})"


def assert_input_compatibility(spec: Any, inputs: Any, layer_name: str) -> None:
    """Check the inputs of a layer.

    Raises:
        ValueError: there are more or fewer than it expects, or one has another rank, size or type.
    """
    if not spec:
        return
    specs, tensors = nest.flatten([spec]), nest.flatten(inputs)
    if len(specs) != len(tensors):
        raise ValueError(
            f"Layer {layer_name} expects {len(specs)} inputs, but it received {len(tensors)} input tensors. "
            f"Inputs received: {inputs}"
        )
    for index, (tensor, one) in enumerate(zip(tensors, specs)):
        if one is None:
            continue
        begin = f"Input {index} of layer {layer_name} is incompatible with the layer: "
        rank = tensor.shape.rank
        if rank is None:
            if any(v is not None for v in (one.ndim, one.max_ndim, one.min_ndim)):
                raise ValueError(f"{begin}its rank is undefined, but the layer requires a defined rank.")
            continue
        shape = tensor.shape.as_list()
        if one.ndim is not None and rank != one.ndim:
            raise ValueError(f"{begin}expected ndim={one.ndim}, found ndim={rank}. Full shape received: {shape}")
        if one.max_ndim is not None and rank > one.max_ndim:
            raise ValueError(f"{begin}expected max_ndim={one.max_ndim}, found ndim={rank}")
        if one.min_ndim is not None and rank < one.min_ndim:
            raise ValueError(f"{begin}expected min_ndim={one.min_ndim}, found ndim={rank}. Full shape: {shape}")
        if one.dtype is not None and tensor.dtype.base_dtype is not as_dtype(one.dtype).base_dtype:
            raise ValueError(f"{begin}expected dtype={one.dtype}, found dtype={tensor.dtype.name}")
        for axis, size in one.axes.items():
            if size is not None and shape[axis] not in (size, None):
                raise ValueError(
                    f"{begin}expected axis {axis} of input shape to have value {size} but received input with shape "
                    f"{shape}"
                )
        if one.shape is not None and any(a is not None and b is not None and a != b for a, b in zip(one.shape, shape)):
            raise ValueError(f"{begin}expected shape={one.shape}, found shape={shape}")
