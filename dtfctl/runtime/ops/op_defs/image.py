"""Entries of the image family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.gradients.common import attrs_of
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import HALF_FIRST, INDEX

define = OpFamily("image")

define.op(
    "AdjustContrast(images: T, contrast_factor: float, min_value: float, "
    "max_value: float) -> (output: float); T: type in {uint8, int8, int16, int32, int64, float, double}",
    shape=lambda op: [op.inputs[0].shape.with_rank_at_least(3)],
)
define.op(
    "AdjustContrastv2(images: T, contrast_factor: float) -> (output: T); T: type in {half, float} = float",
    shape=lambda op: [op.inputs[0].shape.with_rank_at_least(3)],
)
define.op(
    "AdjustHue(images: T, delta: float) -> (output: T); T: type in {half, float} = float",
    shape=lambda op: [op.inputs[0].shape.with_rank_at_least(3)],
)
define.op(
    "AdjustSaturation(images: T, scale: float) -> (output: T); T: type in {half, float} = float",
    shape=lambda op: [op.inputs[0].shape.with_rank_at_least(3)],
)
define.op(
    "CombinedNonMaxSuppression(boxes: float, scores: float, max_output_size_per_class: int32, "
    "max_total_size: int32, iou_threshold: float, score_threshold: float) -> (nmsed_boxes: float, "
    "nmsed_scores: float, nmsed_classes: float, valid_detections: int32); pad_per_class: bool = false; "
    "clip_boxes: bool = true",
    gradient="none",
)
define.op(
    "CropAndResizeGradBoxes(grads: float, image: T, boxes: float, box_ind: int32) -> (output: float); "
    "T: type in {uint8, uint16, int8, int16, int32, int64, half, float, double}; "
    'method: string in {"bilinear"} = "bilinear"',
    shape=lambda op: [op.inputs[2].shape.with_rank(2)],
)


@define.op(
    "DecodeAndCropJpeg(contents: string, crop_window: int32) -> (image: uint8); channels: int = 0; "
    "ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; "
    'acceptable_fraction: float = 1.0; dct_method: string = ""',
    shape=lambda op: [(None, None, op.attr("channels") or None)],
    exports=("image.decode_and_crop_jpeg", "io.decode_and_crop_jpeg"),
)
def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode the pixels of a JPEG within a window: [y, x, height, width]."""


@define.op(
    "DecodeBmp(contents: string) -> (image: uint8); channels: int = 0",
    shape=lambda op: [(None, None, op.attr("channels") or None)],
    exports=("image.decode_bmp", "io.decode_bmp"),
)
def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """Decode the pixels of a BMP."""


@define.op(
    "DecodeGif(contents: string) -> (image: uint8)",
    shape=[(None, None, None, 3)],
    exports=("image.decode_gif", "io.decode_gif"),
)
def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """Decode the frames of a GIF."""


@define.op(
    "DecodeJpeg(contents: string) -> (image: uint8); channels: int = 0; ratio: int = 1; "
    "fancy_upscaling: bool = true; try_recover_truncated: bool = false; acceptable_fraction: float = 1.0; "
    'dct_method: string = ""',
    shape=lambda op: [(None, None, op.attr("channels") or None)],
    exports=("image.decode_jpeg", "io.decode_jpeg"),
)
def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Decode the pixels of a JPEG."""


@define.op(
    "DecodePng(contents: string) -> (image: dtype); channels: int = 0; dtype: type in {uint8, uint16} = uint8",
    shape=lambda op: [(None, None, op.attr("channels") or None)],
    exports=("image.decode_png", "io.decode_png"),
)
def decode_png(contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None) -> Tensor:
    """Decode the pixels of a PNG."""


define.op(
    "DecodeWebP(contents: string) -> (image: dtype); channels: int = 0; dtype: type in {uint8} = uint8",
    shape=lambda op: [(None, None, op.attr("channels") or None)],
)
define.op(
    "DrawBoundingBoxes(images: T, boxes: float) -> (output: T); T: type in {float, half} = float",
    shape="unchanged",
    gradient="none",
)
define.op(
    "DrawBoundingBoxesV2(images: T, boxes: float, colors: float) -> (output: T); T: type in {float, half} = float",
    shape="unchanged",
    gradient="none",
)
define.op(
    'EncodeJpeg(image: uint8) -> (contents: string); format: string in {"", "grayscale", "rgb"} = ""; '
    "quality: int = 95; progressive: bool = false; optimize_size: bool = false; "
    'chroma_downsampling: bool = true; density_unit: string in {"in", "cm"} = "in"; x_density: int = 300; '
    'y_density: int = 300; xmp_metadata: string = ""',
    shape=[()],
)
define.op("EncodeJpegVariableQuality(images: uint8, quality: int32) -> (contents: string)", shape=[()])


@define.op(
    "EncodePng(image: T) -> (contents: string); compression: int = -1; T: type in {uint8, uint16} = uint8",
    exports=("image.encode_png", "io.encode_png"),
)
def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """Encode pixels as a PNG."""


@define.op(
    "ExtractGlimpse(input: float, size: int32, offsets: float) -> (glimpse: float); centered: bool = true; "
    'normalized: bool = true; uniform_noise: bool = true; noise: string = "uniform"',
    gradient="none",
    exports=("image.extract_glimpse",),
)
def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """Cut windows out of images around offsets."""


@define.op(
    f"ExtractJpegShape(contents: string) -> (image_shape: output_type); output_type: {INDEX} = int32",
    shape=[(3,)],
    exports=("image.extract_jpeg_shape", "io.extract_jpeg_shape"),
)
def extract_jpeg_shape(contents: Any, output_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """Read [height, width, channels] of a JPEG, without decoding it."""


@define.op(f"HSVToRGB(images: T) -> (output: T); T: {HALF_FIRST} = float", exports=("image.hsv_to_rgb",))
def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Convert hue, saturation and value to RGB images."""


define.op(
    "NonMaxSuppression(boxes: float, scores: float, max_output_size: int32) -> (selected_indices: int32); "
    "iou_threshold: float = 0.5",
    shape=[(None,)],
    gradient="none",
)
define.op(
    "NonMaxSuppressionV2(boxes: T, scores: T, max_output_size: int32, "
    "iou_threshold: T_threshold) -> (selected_indices: int32); T: type in {half, float} = float; "
    "T_threshold: type in {half, float} = float",
    shape=[(None,)],
    gradient="none",
)
define.op(
    "NonMaxSuppressionV3(boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, "
    "score_threshold: T_threshold) -> (selected_indices: int32); T: type in {half, float} = float; "
    "T_threshold: type in {half, float} = float",
    shape=[(None,)],
    gradient="none",
)
define.op(
    "NonMaxSuppressionV4(boxes: T, scores: T, max_output_size: int32, iou_threshold: T_threshold, "
    "score_threshold: T_threshold) -> (selected_indices: int32, valid_outputs: int32); T: type in {half, "
    "float} = float; T_threshold: type in {half, float} = float; pad_to_max_output_size: bool = false",
    gradient="none",
)
define.op(
    "NonMaxSuppressionWithOverlaps(overlaps: float, scores: float, max_output_size: int32, "
    "overlap_threshold: float, score_threshold: float) -> (selected_indices: int32)",
    shape=[(None,)],
    gradient="none",
)


@define.op(f"RGBToHSV(images: T) -> (output: T); T: {HALF_FIRST} = float", exports=("image.rgb_to_hsv",))
def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Convert RGB images to hue, saturation and value."""


define.op(
    "ResizeArea(images: T, size: int32) -> (resized_images: float); T: type in {int8, uint8, int16, uint16, "
    "int32, int64, half, float, double, bfloat16}; align_corners: bool = false",
    gradient="none",
)
define.op(
    "ResizeBicubicGrad(grads: float, original_image: T) -> (output: T); T: type in {float, double}; "
    "align_corners: bool = false; half_pixel_centers: bool = false",
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    "ResizeBilinear(images: T, size: int32) -> (resized_images: float); T: type in {int8, uint8, int16, "
    "uint16, int32, int64, bfloat16, half, float, double, bfloat16}; align_corners: bool = false; "
    "half_pixel_centers: bool = false; !precision(bfloat16: clear)",
    gradient=lambda op, grad: [
        apply_op(
            "ResizeBilinearGrad",
            grads=grad,
            original_image=op.inputs[0],
            **attrs_of(op, "align_corners", "half_pixel_centers"),
        ),
        None,
    ],
)
define.op(
    "ResizeBilinearGrad(grads: float, original_image: T) -> (output: T); T: type in {float, bfloat16, half, "
    "double}; align_corners: bool = false; half_pixel_centers: bool = false",
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    "SampleDistortedBoundingBox(image_size: T, bounding_boxes: float) -> (begin: T, size: T, bboxes: float); "
    "T: type in {uint8, int8, int16, int32, int64}; seed: int = 0; seed2: int = 0; "
    "min_object_covered: float = 0.10000000149011612; aspect_ratio_range: list(float) = [0.75, "
    "1.3300000429153442]; area_range: list(float) = [0.05000000074505806, 1.0]; max_attempts: int = 100; "
    "use_image_if_no_bounding_boxes: bool = false; !stateful",
    shape=[(3,), (3,), (1, 1, 4)],
    gradient="none",
)
define.op(
    "SampleDistortedBoundingBoxV2(image_size: T, bounding_boxes: float, "
    "min_object_covered: float) -> (begin: T, size: T, bboxes: float); T: type in {uint8, int8, int16, int32, "
    "int64}; seed: int = 0; seed2: int = 0; aspect_ratio_range: list(float) = [0.75, 1.3300000429153442]; "
    "area_range: list(float) = [0.05000000074505806, 1.0]; max_attempts: int = 100; "
    "use_image_if_no_bounding_boxes: bool = false; !stateful",
    shape=[(3,), (3,), (1, 1, 4)],
    gradient="none",
)
define.op(
    "ScaleAndTranslateGrad(grads: T, original_image: T, scale: float, translation: float) -> (output: T); "
    'T: type in {float}; kernel_type: string = "lanczos3"; antialias: bool = true',
    shape=lambda op: [op.inputs[1].shape],
)
define.op(
    "StatelessSampleDistortedBoundingBox(image_size: T, bounding_boxes: float, min_object_covered: float, "
    "seed: Tseed) -> (begin: T, size: T, bboxes: float); T: type in {uint8, int8, int16, int32, int64}; "
    f"Tseed: {INDEX}; aspect_ratio_range: list(float) = [0.75, 1.3300000429153442]; "
    "area_range: list(float) = [0.05000000074505806, 1.0]; max_attempts: int = 100; "
    "use_image_if_no_bounding_boxes: bool = false",
    shape=[(3,), (3,), (1, 1, 4)],
    gradient="none",
)
