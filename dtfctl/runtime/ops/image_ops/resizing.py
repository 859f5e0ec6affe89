"""Images in another size."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.image_ops.common import checked_image, size_of
from dtfctl.runtime.ops.image_ops.cutting import pad_to_bounding_box
from dtfctl.runtime.ops.nn_ops import reduce_over
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


class ResizeMethod:
    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


_RESIZE_OPS = {0: "ResizeBilinear", 1: "ResizeNearestNeighbor", 2: "ResizeBicubic", 3: "ResizeArea"}


def _resize(op: str, images: Any, size: Any, align: bool, half: bool, name: str | None) -> Tensor:
    extra = {} if op == "ResizeArea" else {"half_pixel_centers": half}
    size = convert_to_tensor(size, dtypes.int32, name="size")
    return apply_op(op, name, images=images, size=size, align_corners=align, **extra)


def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Resize images with bilinear interpolation."""
    return _resize("ResizeBilinear", images, size, align_corners, half_pixel_centers, name)


def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Resize images by taking the nearest pixel."""
    return _resize("ResizeNearestNeighbor", images, size, align_corners, half_pixel_centers, name)


def resize_bicubic(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Resize images with bicubic interpolation."""
    return _resize("ResizeBicubic", images, size, align_corners, half_pixel_centers, name)


def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Resize images by averaging areas."""
    return _resize("ResizeArea", images, size, align_corners, False, name)


def resize_images(
    images: Any,
    size: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resize a batch of images, or one.

    Raises:
        ValueError: images of another rank, a size that is no pair, or an unknown method.
    """
    with name_scope(name, "resize"):
        images = convert_to_tensor(images, name="images")
        if images.shape.rank not in (3, 4):
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        single = images.shape.rank == 3
        if single:
            images = apply_op("ExpandDims", input=images, dim=0)
        wanted = convert_to_tensor(size, dtypes.int32, name="size")
        if not wanted.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        if preserve_aspect_ratio:
            wanted = _kept_ratio(images, wanted)
        value = constant_value(wanted)
        if value is not None and images.shape[1].value == value[0] and images.shape[2].value == value[1]:
            out = images
        elif method in _RESIZE_OPS:
            out = _resize(_RESIZE_OPS[method], images, wanted, align_corners, False, None)
        else:
            raise ValueError(f"Resize method is not implemented: {method}")
        return apply_op("Squeeze", input=out, squeeze_dims=[0]) if single else out


resize = resize_images


def _kept_ratio(images: Tensor, size: Tensor) -> Tensor:
    """Compute the largest size within `size` that has the images' proportions."""
    known, wanted = [d.value for d in images.shape[1:3]], constant_value(size)
    if None not in known and wanted is not None:
        ratio = min(float(w) / float(n) for w, n in zip(wanted, known))
        return constant([round(ratio * n) for n in known], dtypes.int32)
    have = apply_op("StridedSlice", input=apply_op("Shape", input=images), begin=[1], end=[3], strides=[1])
    have, limit = (apply_op("Cast", x=v, DstT=dtypes.float32) for v in (have, size))
    scale = reduce_over("Min", apply_mixed("RealDiv", limit, have), [0])
    return apply_op("Cast", x=apply_op("Round", x=apply_mixed("Mul", have, scale)), DstT=dtypes.int32)


def resize_image_with_pad(
    image: Any,
    target_height: Any,
    target_width: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """Resize images within a size, with their proportions, and fill up around them.

    Raises:
        ValueError: a size is not positive.
    """
    with name_scope(None, "resize_image_with_pad"):
        image = checked_image(image)
        for n, side in ((target_height, "height"), (target_width, "width")):
            if not isinstance(n, Tensor) and n <= 0:
                raise ValueError(f"target_{side} must be > 0.")
        have, limits = (
            [cast_to(convert_to_tensor(n), dtypes.float64) for n in sizes]
            for sizes in (size_of(image), (target_height, target_width))
        )
        ratio = apply_op("Maximum", x=have[1] / limits[1], y=have[0] / limits[0])
        exact = [n / ratio for n in have]
        size = apply_op("Pack", values=[cast_to(apply_op("Floor", x=n), dtypes.int32) for n in exact])
        around = [
            apply_mixed("Maximum", cast_to(apply_op("Floor", x=(limit - n) / 2), dtypes.int32), 0)
            for limit, n in zip(limits, exact)
        ]
        resized = resize_images(image, size, method, align_corners)
        return pad_to_bounding_box(resized, around[0], around[1], target_height, target_width)


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: Any = None,
) -> Tensor:
    """Cut boxes out of images, each resized to one size."""
    return apply_op(
        "CropAndResize",
        image=image,
        boxes=boxes,
        box_ind=box_ind if box_indices is None else box_indices,
        crop_size=crop_size,
        method=method,
        extrapolation_value=extrapolation_value,
        name=name,
    )
