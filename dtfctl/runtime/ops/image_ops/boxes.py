"""Boxes in images: drawn, chosen and sampled."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor


def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Tensor:
    """Draw the outlines of boxes on images."""
    if colors is not None:
        return apply_op("DrawBoundingBoxesV2", images=images, boxes=boxes, colors=colors, name=name)
    return apply_op("DrawBoundingBoxes", images=images, boxes=boxes, name=name)


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Find the indices of the best boxes that do not overlap better ones."""
    with name_scope(name, "non_max_suppression"):
        dtype = convert_to_tensor(boxes).dtype.base_dtype
        return apply_op(
            "NonMaxSuppressionV3",
            boxes=boxes,
            scores=scores,
            max_output_size=max_output_size,
            iou_threshold=constant(iou_threshold, dtype),
            score_threshold=constant(score_threshold, dtype),
        )


def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    soft_nms_sigma: float = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the indices of the best boxes, and their scores; with a sigma those of overlapping ones are lowered."""
    with name_scope(name, "non_max_suppression_with_scores"):
        dtype = convert_to_tensor(boxes).dtype.base_dtype
        indices, kept, _ = apply_op_outputs(
            "NonMaxSuppressionV5",
            boxes=boxes,
            scores=scores,
            max_output_size=max_output_size,
            iou_threshold=constant(iou_threshold, dtype),
            score_threshold=constant(score_threshold, dtype),
            soft_nms_sigma=constant(soft_nms_sigma, dtype),
        )
        return indices, kept


def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Tensor, Tensor]:
    """Find the indices of the best boxes, padded to one number if asked, and how many of them are valid.

    Raises:
        ValueError: boxes of a batch, or such as are sorted already.
    """
    if sorted_input or canonicalized_coordinates:
        raise ValueError(
            "non_max_suppression_padded takes the boxes of one image as they are: leave sorted_input and "
            "canonicalized_coordinates out, and use tf.map_fn for a batch"
        )
    with name_scope(name, "non_max_suppression_padded"):
        indices, valid = apply_op_outputs(
            "NonMaxSuppressionV4",
            boxes=boxes,
            scores=scores,
            max_output_size=max_output_size,
            iou_threshold=convert_to_tensor(iou_threshold, name="iou_threshold"),
            score_threshold=convert_to_tensor(score_threshold, name="score_threshold"),
            pad_to_max_output_size=pad_to_max_output_size,
        )
        return indices, valid


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Find the indices of the best boxes by a matrix that says how far each two overlap."""
    with name_scope(name, "non_max_suppression_overlaps"):
        return apply_op(
            "NonMaxSuppressionWithOverlaps",
            overlaps=overlaps,
            scores=scores,
            max_output_size=max_output_size,
            overlap_threshold=convert_to_tensor(overlap_threshold, name="overlap_threshold"),
            score_threshold=convert_to_tensor(score_threshold, name="score_threshold"),
        )


def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> Any:
    """Choose the best boxes of each class and image that do not overlap better ones."""
    return apply_op_outputs(
        "CombinedNonMaxSuppression",
        boxes=boxes,
        scores=scores,
        max_output_size_per_class=max_output_size_per_class,
        max_total_size=max_total_size,
        iou_threshold=constant(iou_threshold, dtypes.float32),
        score_threshold=constant(score_threshold, dtypes.float32),
        pad_per_class=pad_per_class,
        clip_boxes=clip_boxes,
        name=name,
    )


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> Any:
    """Choose a random part of an image that still shows enough of an object: begin, size, and the part as a box."""
    # The op's seeds are these: the graph's does not matter, and both 0 are drawn anew by each session.
    with name_scope(name, "sample_distorted_bounding_box"):
        return apply_op_outputs(
            "SampleDistortedBoundingBoxV2",
            image_size=image_size,
            bounding_boxes=bounding_boxes,
            min_object_covered=constant(min_object_covered, dtypes.float32, name="min_object_covered"),
            seed=seed,
            seed2=seed2,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            max_attempts=max_attempts,
            use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
            name=name,
        )
