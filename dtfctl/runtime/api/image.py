"""`tf.image`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.image import *
from dtfctl.runtime.api._shared.cropping import *
from dtfctl.runtime.api._shared.image_files import *
from dtfctl.runtime.ops.array_ops import (
    extract_image_patches,
    extract_patches,
)
from dtfctl.runtime.ops.image_ops.boxes import (
    combined_non_max_suppression,
    draw_bounding_boxes,
    non_max_suppression,
    non_max_suppression_overlaps,
    non_max_suppression_padded,
    non_max_suppression_with_scores,
    sample_distorted_bounding_box,
)
from dtfctl.runtime.ops.image_ops.colors import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    convert_image_dtype,
    grayscale_to_rgb,
    random_brightness,
    random_contrast,
    random_hue,
    random_saturation,
    rgb_to_grayscale,
)
from dtfctl.runtime.ops.image_ops.comparing import (
    image_gradients,
    rgb_to_yiq,
    rgb_to_yuv,
    sobel_edges,
    yiq_to_rgb,
    yuv_to_rgb,
)
from dtfctl.runtime.ops.image_ops.cutting import (
    central_crop,
    crop_to_bounding_box,
    flip_left_right,
    flip_up_down,
    pad_to_bounding_box,
    random_flip_left_right,
    random_flip_up_down,
    resize_image_with_crop_or_pad,
    resize_with_crop_or_pad,
    rot90,
    transpose,
    transpose_image,
)
from dtfctl.runtime.ops.image_ops.files import adjust_jpeg_quality, random_jpeg_quality
from dtfctl.runtime.ops.image_ops.resizing import (
    ResizeMethod,
    crop_and_resize,
    resize,
    resize_area,
    resize_bicubic,
    resize_bilinear,
    resize_image_with_pad,
    resize_images,
    resize_nearest_neighbor,
)
from dtfctl.runtime.ops.image_ops.similarity import ssim, ssim_multiscale
from dtfctl.runtime.ops.image_ops.statistics import per_image_standardization, psnr, total_variation
