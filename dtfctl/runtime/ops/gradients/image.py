"""Gradients of image ops, as TensorFlow's image_grad builds them."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import static_shape

_ALLOWED = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


def _size(image: Tensor) -> Tensor:
    """Get the [height, width] of an image batch."""
    dims = image.shape.dims_or_none
    if dims is not None and len(dims) == 4 and dims[1] is not None and dims[2] is not None:
        return constant([dims[1], dims[2]], dtypes.int32)
    shape = apply_op("Shape", input=image)
    return apply_op("StridedSlice", input=shape, begin=[1], end=[3], strides=[1])


def _flags(op: Operation) -> dict[str, Any]:
    return {"align_corners": op.attr("align_corners"), "half_pixel_centers": op.attr("half_pixel_centers")}


@register_gradient("ResizeNearestNeighbor")
def _nearest(op: Operation, grad: Tensor) -> Any:
    return apply_op("ResizeNearestNeighborGrad", grads=grad, size=_size(op.inputs[0]), **_flags(op)), None


@register_gradient("ResizeBicubic")
def _bicubic(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    if x.dtype.base_dtype not in (dtypes.float32, dtypes.float64):
        return None, None
    return apply_op("ResizeBicubicGrad", grads=grad, original_image=x, **_flags(op)), None


@register_gradient("ScaleAndTranslate")
def _scale_and_translate(op: Operation, grad: Tensor) -> Any:
    x, _, scale, translation = op.inputs
    dx = apply_op(
        "ScaleAndTranslateGrad",
        grads=grad,
        original_image=x,
        scale=scale,
        translation=translation,
        kernel_type=op.attr("kernel_type"),
        antialias=op.attr("antialias"),
    )
    return dx, None, None, None


@register_gradient("CropAndResize")
def _crop_and_resize(op: Operation, grad: Tensor) -> Any:
    image, boxes, box_ind, _ = op.inputs
    dtype = image.dtype.base_dtype
    d_image = None
    if dtype in (dtypes.float16, dtypes.float32, dtypes.float64):
        d_image = apply_op(
            "CropAndResizeGradImage",
            grads=grad,
            boxes=boxes,
            box_ind=box_ind,
            image_size=static_shape(image),
            T=dtype,
            method=op.attr("method"),
        )
    # The gradient by the boxes is that of bilinear sampling, whatever the method.
    d_boxes = apply_op("CropAndResizeGradBoxes", grads=grad, image=image, boxes=boxes, box_ind=box_ind)
    return d_image, d_boxes, None, None


@register_gradient("ImageProjectiveTransformV2")
def _projective(op: Operation, grad: Tensor) -> Any:
    return _projective_grad(op, grad, ())


@register_gradient("ImageProjectiveTransformV3")
def _projective_v3(op: Operation, grad: Tensor) -> Any:
    return _projective_grad(op, grad, (None,))


def _projective_grad(op: Operation, grad: Tensor, rest: tuple[None, ...]) -> Any:
    """Transform the gradient image by the inverse transform."""
    images, transforms = op.inputs[0], op.inputs[1]
    if images.dtype.base_dtype not in _ALLOWED:
        return (None, None, None, *rest)
    ones = apply_op("OnesLike", x=_columns(transforms, 0, 1))
    matrices = apply_op(
        "Reshape", tensor=apply_op("ConcatV2", values=[transforms, ones], axis=1), shape=constant([-1, 3, 3])
    )
    inverse = apply_op("Reshape", tensor=apply_op("MatrixInverse", input=matrices), shape=constant([-1, 9]))
    flat = apply_op("RealDiv", x=_columns(inverse, 0, 8), y=_columns(inverse, 8, 9))
    d_images = apply_op(
        "ImageProjectiveTransformV2",
        images=grad,
        transforms=flat,
        output_shape=_size(images),
        interpolation=op.attr("interpolation"),
        fill_mode=op.attr("fill_mode"),
    )
    return (d_images, None, None, *rest)


def _columns(matrix: Tensor, begin: int, end: int) -> Tensor:
    return apply_op(
        "StridedSlice", input=matrix, begin=[0, begin], end=[0, end], strides=[1, 1], begin_mask=1, end_mask=1
    )
