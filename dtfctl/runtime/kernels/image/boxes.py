"""Bounding boxes: non-maximum suppression, drawing (non_max_suppression_op and its neighbours)."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.pieces import look
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_F = np.float32
_BOXES = (dtypes.float16, dtypes.float32)
Similarity = Callable[[int, Any], Any]


def _corners(boxes: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Ordered corners and areas of boxes [y1, x1, y2, x2] in any order."""
    boxes = boxes.astype(_F)
    y0, y1 = np.minimum(boxes[:, 0], boxes[:, 2]), np.maximum(boxes[:, 0], boxes[:, 2])
    x0, x1 = np.minimum(boxes[:, 1], boxes[:, 3]), np.maximum(boxes[:, 1], boxes[:, 3])
    return y0, x0, y1, x1, (y1 - y0) * (x1 - x0)


def _overlap(boxes: Any) -> Similarity:
    """Intersection over union of one box with several."""
    y0, x0, y1, x1, area = _corners(boxes)

    def similarity(i: int, others: Any) -> Any:
        height = np.minimum(y1[i], y1[others]) - np.maximum(y0[i], y0[others])
        width = np.minimum(x1[i], x1[others]) - np.maximum(x0[i], x0[others])
        common = np.maximum(height, 0) * np.maximum(width, 0)
        with np.errstate(all="ignore"):
            ratio = common / (area[i] + area[others] - common)
        return np.where((area[i] <= 0) | (area[others] <= 0), _F(0), ratio)

    return similarity


def suppress(
    scores: Any, limit: int, similarity: Similarity, threshold: float, least_score: float, sigma: float = 0.0
) -> tuple[list[int], list[float]]:
    """Greedy non-maximum suppression, soft when `sigma` > 0 (Bodla et al. 2017).

    Returns:
        indices chosen, best first, and their (possibly lowered) scores.
    """
    kind = scores.dtype.type
    heap = [(-float(s), i, 0) for i, s in enumerate(scores) if s > least_score]
    heapq.heapify(heap)
    scale = -0.5 / sigma if sigma > 0 else 0.0
    chosen: list[int] = []
    chosen_scores: list[float] = []
    while heap and len(chosen) < limit:
        look()
        negative, index, begin = heapq.heappop(heap)
        original = score = -negative
        if len(chosen) > begin:
            near = similarity(index, np.array(chosen[begin:]))
            if sigma <= 0:
                if (near.astype(scores.dtype) > threshold).any():
                    continue
            else:
                for value in near[::-1].tolist():
                    score = float(kind(score * float(kind(np.exp(scale * value * value)))))
                    if score <= least_score:
                        break
        if score == original:
            chosen.append(index)
            chosen_scores.append(score)
        elif score > least_score:
            heapq.heappush(heap, (-score, index, len(chosen)))
    return chosen, chosen_scores


def _check(boxes: Any, scores: Any, *scalars: tuple[str, Any]) -> None:
    if boxes.ndim != 2:
        raise InvalidArgumentError(f"boxes must be 2-D{shape_text(boxes.shape)}")
    if boxes.shape[1] != 4:
        raise InvalidArgumentError("boxes must have 4 columns")
    if scores.ndim != 1:
        raise InvalidArgumentError(f"scores must be 1-D{shape_text(scores.shape)}")
    if scores.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError("scores has incompatible shape")
    for name, value in scalars:
        if np.ndim(value):
            raise InvalidArgumentError(f"{name} must be 0-D, got shape {shape_text(np.shape(value))}")


def _threshold(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= 1:
        raise InvalidArgumentError("iou_threshold must be in [0, 1]")
    return number


def _limit(value: Any) -> int:
    if int(value) < 0:
        raise InvalidArgumentError("output size must be non-negative")
    return int(value)


_NO_SCORE = float(np.finfo(np.float32).min)


@register_kernel("NonMaxSuppression", pieces=True)
def non_max_suppression(k: KernelBuild) -> Kernel:
    threshold = k.attr("iou_threshold", 0.5)
    if not 0 <= threshold <= 1:
        raise InvalidArgumentError("iou_threshold must be in [0, 1]", k.node.name)

    def kernel(boxes: Any, scores: Any, max_output_size: Any) -> Any:
        _check(boxes, scores, ("max_output_size", max_output_size))
        chosen, _ = suppress(scores, _limit(max_output_size), _overlap(boxes), threshold, _NO_SCORE)
        return np.array(chosen, np.int32)

    return kernel


@register_kernel(("NonMaxSuppressionV2", "NonMaxSuppressionV3"), pieces=True, T=_BOXES)
def non_max_suppression_v2(k: KernelBuild) -> Kernel:
    def kernel(boxes: Any, scores: Any, max_output_size: Any, iou: Any, least: Any = None) -> Any:
        _check(boxes, scores, ("max_output_size", max_output_size), ("iou_threshold", iou))
        floor = float(np.finfo(scores.dtype).min) if least is None else float(least)
        chosen, _ = suppress(scores, _limit(max_output_size), _overlap(boxes), _threshold(iou), floor)
        return np.array(chosen, np.int32)

    return kernel


def _padded(chosen: list[Any], limit: int, pad: bool, dtype: Any) -> Any:
    return np.array(chosen + [0] * (limit - len(chosen) if pad else 0), dtype)


@register_kernel("NonMaxSuppressionV4", pieces=True, T=_BOXES)
def non_max_suppression_v4(k: KernelBuild) -> Kernel:
    pad = k.attr("pad_to_max_output_size", False)

    def kernel(boxes: Any, scores: Any, max_output_size: Any, iou: Any, least: Any) -> tuple[Any, Any]:
        _check(boxes, scores, ("max_output_size", max_output_size), ("iou_threshold", iou))
        limit = _limit(max_output_size)
        chosen, _ = suppress(scores, limit, _overlap(boxes), _threshold(iou), float(least))
        return _padded(chosen, limit, pad, np.int32), np.int32(len(chosen))

    return kernel


@register_kernel("NonMaxSuppressionV5", pieces=True, T=_BOXES)
def non_max_suppression_v5(k: KernelBuild) -> Kernel:
    pad = k.attr("pad_to_max_output_size", False)

    def kernel(boxes: Any, scores: Any, max_output_size: Any, iou: Any, least: Any, sigma: Any) -> tuple[Any, Any, Any]:
        _check(boxes, scores, ("max_output_size", max_output_size), ("iou_threshold", iou))
        if float(sigma) < 0:
            raise InvalidArgumentError("soft_nms_sigma_val must be in [0, inf)")
        limit = _limit(max_output_size)
        chosen, values = suppress(scores, limit, _overlap(boxes), _threshold(iou), float(least), float(sigma))
        return (
            _padded(chosen, limit, pad, np.int32),
            _padded(values, limit, pad, scores.dtype),
            np.int32(len(chosen)),
        )

    return kernel


@register_kernel("NonMaxSuppressionWithOverlaps", pieces=True)
def non_max_suppression_with_overlaps(k: KernelBuild) -> Kernel:
    def kernel(overlaps: Any, scores: Any, max_output_size: Any, threshold: Any, least: Any) -> Any:
        if overlaps.ndim != 2 or overlaps.shape[0] != overlaps.shape[1]:
            raise InvalidArgumentError(f"overlaps must be square, got shape {shape_text(overlaps.shape)}")
        if scores.shape != overlaps.shape[:1]:
            raise InvalidArgumentError("scores has incompatible shape")
        chosen, _ = suppress(
            scores, _limit(max_output_size), lambda i, others: overlaps[i, others], float(threshold), float(least)
        )
        return np.array(chosen, np.int32)

    return kernel


@register_kernel("CombinedNonMaxSuppression", pieces=True)
def combined_non_max_suppression(k: KernelBuild) -> Kernel:
    pad_per_class, clip = k.attr("pad_per_class", False), k.attr("clip_boxes", True)

    def kernel(boxes: Any, scores: Any, per_class: Any, total: Any, iou: Any, least: Any) -> tuple[Any, Any, Any, Any]:
        if boxes.ndim != 4 or scores.ndim != 3 or boxes.shape[:2] != scores.shape[:2]:
            raise InvalidArgumentError("boxes and scores must have same batch size")
        if boxes.shape[2] not in (1, scores.shape[2]):
            raise InvalidArgumentError("third dimension of boxes must be either 1 or equal to the third of scores")
        each, all_classes = int(per_class), int(total)
        if each <= 0:
            raise InvalidArgumentError("max_size_per_class must be positive")
        if all_classes <= 0:
            raise InvalidArgumentError("max_total_size must be > 0")
        threshold = _threshold(iou)
        batch, anchors, classes = scores.shape
        width = min(all_classes, each * classes) if pad_per_class else all_classes
        out_boxes = np.zeros((batch, width, 4), _F)
        out_scores, out_classes = np.zeros((batch, width), _F), np.zeros((batch, width), _F)
        valid = np.zeros(batch, np.int32)
        for b in range(batch):
            found: list[tuple[float, int, int, Any]] = []
            for c in range(classes):
                own = boxes[b, :, c if boxes.shape[2] > 1 else 0]
                chosen, values = suppress(scores[b, :, c], min(each, anchors), _overlap(own), threshold, float(least))
                found += [(value, c, i, own[i]) for value, i in zip(values, chosen)]
            found.sort(key=lambda item: -item[0])
            found = found[:width]
            valid[b] = len(found)
            for j, (value, c, _, box) in enumerate(found):
                out_boxes[b, j] = np.clip(box, 0, 1) if clip else box
                out_scores[b, j], out_classes[b, j] = value, c
        return out_boxes, out_scores, out_classes, valid

    return kernel


_COLORS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    _F,
)


def _draw(images: Any, boxes: Any, colors: Any) -> Any:
    if images.ndim != 4:
        raise InvalidArgumentError("The rank of the images should be 4")
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise InvalidArgumentError("The rank of the boxes tensor should be 3")
    if images.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError("The batch sizes should be the same")
    depth = images.shape[3]
    if depth not in (1, 3, 4):
        raise InvalidArgumentError("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA)")
    table = _COLORS if colors is None or not colors.size else colors.astype(_F)
    if depth == 1:
        table = np.ones_like(table)
    out = images.copy()
    height, width = images.shape[1:3]
    for b in range(images.shape[0]):
        for j, box in enumerate(boxes[b]):
            color = table[j % len(table), :depth]
            top, bottom = int(_F(box[0]) * (height - 1)), int(_F(box[2]) * (height - 1))
            left, right = int(_F(box[1]) * (width - 1)), int(_F(box[3]) * (width - 1))
            if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
                continue
            t, m = max(top, 0), min(bottom, height - 1)
            lo, hi = max(left, 0), min(right, width - 1)
            if top >= 0:
                out[b, t, lo : hi + 1] = color
            if bottom < height:
                out[b, m, lo : hi + 1] = color
            if left >= 0:
                out[b, t : m + 1, lo] = color
            if right < width:
                out[b, t : m + 1, hi] = color
    return out


@register_kernel("DrawBoundingBoxes", T=_BOXES)
def draw_bounding_boxes(k: KernelBuild) -> Kernel:
    return lambda images, boxes: _draw(images, boxes, None)


@register_kernel("DrawBoundingBoxesV2", T=_BOXES)
def draw_bounding_boxes_v2(k: KernelBuild) -> Kernel:
    return _draw
