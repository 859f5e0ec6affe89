"""Static shapes of image ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape


def _two(size: Tensor) -> tuple[int | None, int | None]:
    value = computed_value(size)
    return (None, None) if value is None else (int(value[0]), int(value[1]))


@register_shape(
    "ResizeBilinear",
    "ResizeBicubic",
    "ResizeArea",
    "ResizeNearestNeighbor",
    "ResizeNearestNeighborGrad",
    "ScaleAndTranslate",
)
def _resize(op: Operation) -> list[Any]:
    images = op.inputs[0].shape.with_rank(4)
    return [(images[0].value, *_two(op.inputs[1]), images[3].value)]


@register_shape("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _projective(op: Operation) -> list[Any]:
    images = op.inputs[0].shape.with_rank(4)
    return [(images[0].value, *_two(op.inputs[2]), images[3].value)]


@register_shape("CropAndResize")
def _crop_and_resize(op: Operation) -> list[Any]:
    boxes = op.inputs[1].shape.with_rank(2)
    return [(boxes[0].value, *_two(op.inputs[3]), op.inputs[0].shape.with_rank(4)[3].value)]


@register_shape("CropAndResizeGradImage")
def _crop_grad_image(op: Operation) -> list[Any]:
    size = computed_value(op.inputs[3])
    return [[None] * 4 if size is None else [int(v) for v in size]]


@register_shape("RGBToHSV", "HSVToRGB")
def _colors(op: Operation) -> list[Any]:
    shape = op.inputs[0].shape.with_rank_at_least(1)
    return [shape if shape.rank is None else shape[:-1].concatenate(shape[-1:].merge_with([3]))]


@register_shape("ExtractGlimpse", "ExtractGlimpseV2")
def _glimpse(op: Operation) -> list[Any]:
    images = op.inputs[0].shape.with_rank(4)
    return [(images[0].value, *_two(op.inputs[1]), images[3].value)]


@register_shape("RandomCrop")
def _random_crop(op: Operation) -> list[Any]:
    return [(*_two(op.inputs[1]), op.inputs[0].shape.with_rank(3)[2].value)]


def _padded(op: Operation) -> int | None:
    limit = computed_value(op.inputs[2]) if op.attr("pad_to_max_output_size", False) else None
    return None if limit is None else int(limit)


@register_shape("NonMaxSuppressionV4")
def _selected_v4(op: Operation) -> list[Any]:
    return [(_padded(op),), ()]


@register_shape("NonMaxSuppressionV5")
def _selected_v5(op: Operation) -> list[Any]:
    size = _padded(op)
    return [(size,), (size,), ()]


@register_shape("CombinedNonMaxSuppression")
def _combined(op: Operation) -> list[Any]:
    batch = op.inputs[0].shape[0].value
    each, total = computed_value(op.inputs[2]), computed_value(op.inputs[3])
    classes = op.inputs[1].shape[2].value if op.inputs[1].shape.rank == 3 else None
    size = None if total is None else int(total)
    if op.attr("pad_per_class", False):
        size = None if size is None or each is None or classes is None else min(size, int(each) * classes)
    return [(batch, size, 4), (batch, size), (batch, size), (batch,)]


@register_shape("DecodeImage")
def _decoded_any(op: Operation) -> list[Any]:
    if op.attr("expand_animations", True):
        return [TensorShape(None)]
    return [(None, None, op.attr("channels") or None)]


@register_shape("EncodePng")
def _encoded_png(op: Operation) -> list[Any]:
    shape = op.inputs[0].shape
    return [TensorShape(None) if shape.rank is None else shape[:-3]]
