"""Results whose size is a value that the op is given, or an attribute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.registry import KernelBuild
from dtfctl.runtime.kernels.result_sizes.table import OBJECT_BYTES, SLOT_BYTES, grows, ints, item_bytes_of, of_type

# Of a Sobol sequence: how many numbers it gives at once, and which its last point may be.
SOBOL_MOST = (1 << 31) - 1


@grows("Fill")
def _fill(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[0]), item_bytes_of(inputs[1])


@grows("Empty")
def _empty(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[0]), of_type(k, "dtype")


@grows("BroadcastTo")
def _broadcast_to(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[1]), item_bytes_of(inputs[0])


@grows("Range")
def _range(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    start, limit, delta = (value.item() for value in inputs)
    return [max(0, math.ceil((limit - start) / delta))], item_bytes_of(inputs[0])


@grows("LinSpace")
def _lin_space(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[2].item()], item_bytes_of(inputs[0])


@grows("Tile")
def _tile(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    value, times = inputs[0], ints(inputs[1])
    return [dim * many for dim, many in zip(value.shape, times, strict=True)], item_bytes_of(value)


@grows("OneHot")
def _one_hot(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [*inputs[0].shape, inputs[1].item()], item_bytes_of(inputs[2])


@grows("Pad", "PadV2", "MirrorPad")
def _pad(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    value, pads = inputs[0], inputs[1].tolist()
    return [dim + before + after for dim, (before, after) in zip(value.shape, pads, strict=True)], item_bytes_of(value)


@grows("SpaceToBatchND", "SpaceToBatch")
def _space_to_batch(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    value, pads = inputs[0], inputs[-1].tolist()
    shape = list(value.shape)
    for i, (before, after) in enumerate(pads, 1):
        shape[i] += before + after
    return shape, item_bytes_of(value)


@grows(
    "RandomUniform",
    "RandomStandardNormal",
    "TruncatedNormal",
    "StatelessRandomUniform",
    "StatelessRandomNormal",
    "StatelessTruncatedNormal",
    "StatelessRandomUniformFullInt",
    "StatelessRandomUniformV2",
    "StatelessRandomNormalV2",
    "StatelessTruncatedNormalV2",
    "StatelessRandomUniformFullIntV2",
)
def _random(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[0]), of_type(k, "dtype")


@grows("StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "RandomUniformInt", "ParameterizedTruncatedNormal")
def _random_between(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[0]), item_bytes_of(inputs[-1])


@grows("RandomGamma", "RandomPoisson", "RandomPoissonV2")
def _random_each(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [*ints(inputs[0]), *inputs[1].shape], item_bytes_of(inputs[1])


@grows("Multinomial", "StatelessMultinomial")
def _multinomial(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[0].shape[0], inputs[1].item()], 8


@grows("ResizeBilinear", "ResizeNearestNeighbor", "ResizeArea", "ResizeBicubic")
def _resize(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    images, size = inputs[0], ints(inputs[1])
    return [images.shape[0], *size, images.shape[3]], item_bytes_of(
        images
    ) if k.node.op == "ResizeNearestNeighbor" else 4


@grows("CropAndResize")
def _crop_and_resize(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[1].shape[0], *ints(inputs[3]), inputs[0].shape[3]], 4


@grows("ScatterNd")
def _scatter_nd(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[2]), item_bytes_of(inputs[1])


@grows("SparseToDense")
def _sparse_to_dense(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[1]), item_bytes_of(inputs[2])


@grows("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_segment(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    data, ids, count = inputs
    return [count.item(), *data.shape[ids.ndim :]], item_bytes_of(data)


@grows("SparseSegmentSumWithNumSegments", "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments")
def _sparse_segment(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[3].item(), *inputs[0].shape[1:]], item_bytes_of(inputs[0])


@grows("Bincount", "DenseBincount")
def _bincount(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    rows = inputs[0].shape[:1] if k.node.op == "DenseBincount" and inputs[0].ndim == 2 else ()
    return [*rows, inputs[1].item()], max(item_bytes_of(inputs[2]), 4)


@grows("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")
def _input_sizes(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[0]), item_bytes_of(inputs[1])


@grows("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    diagonal, which, rows, columns = inputs[:4]
    longest = diagonal.shape[-1]
    batch = diagonal.shape[:-1] if len(set(ints(which))) == 1 else diagonal.shape[:-2]
    return [*batch, max(longest, rows.item()), max(longest, columns.item())], item_bytes_of(diagonal)


@grows("TensorArray", "TensorArrayV2", "TensorArrayV3")
def _tensor_array(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[0].item()], SLOT_BYTES


@grows("TensorListReserve", "TensorListResize")
def _tensor_list(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[1].item()], SLOT_BYTES


@grows("AsString")
def _as_string(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    # Each number is text twice for a moment, once as characters and once as bytes.
    return [*inputs[0].shape, 2], max(64, k.attr("width"), k.attr("precision"))


@grows("StringNGrams")
def _string_ngrams(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    tokens, rows, pad = inputs[0].size, max(1, inputs[1].size - 1), k.attr("pad_width")
    edges = max(len(k.attr("left_pad")), len(k.attr("right_pad"))) + len(k.attr("separator"))
    size = 0
    for width in k.attr("ngram_widths"):
        padding = min(width - 1 if pad < 0 else pad, width - 1)
        grams = max(0, tokens + rows * (2 * padding - width + 1))
        size += rows * 2 * padding * 8 + grams * (OBJECT_BYTES + width * edges)
    return [size], 1


@grows("StringFormat")
def _string_format(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    ends, size = k.attr("summarize"), 0
    for value in inputs:
        shown = value.size if ends < 0 else math.prod(min(dim, 2 * ends) for dim in value.shape)
        size += shown * (2 * OBJECT_BYTES)
        if value.dtype == object and shown == value.size:
            # A byte is up to four characters, which are there as parts and as a whole.
            size += 8 * sum(len(item) for item in value.flat)
    return [size], 1


@grows("RaggedRange")
def _ragged_range(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    starts, limits, deltas = (np.asarray(value, np.float64) for value in inputs)
    with np.errstate(all="ignore"):
        counts = np.ceil(np.maximum((limits - starts) / deltas, 0))
    return [float(counts.sum())], item_bytes_of(inputs[0])


@grows("HistogramFixedWidth")
def _histogram(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[2].item()], 8


@grows("RaggedBincount")
def _ragged_bincount(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [max(1, inputs[0].size - 1), inputs[2].item()], 8


@grows("SparseBincount")
def _sparse_bincount(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [*ints(inputs[2])[:-1], inputs[3].item()], 8


@grows("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMin", "SegmentMax", "SegmentSumV2", "SegmentProdV2")
def _segment(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    data, ids = inputs[:2]
    return [int(ids[-1]) + 1 if ids.size else 0, *data.shape[1:]], max(item_bytes_of(data), 8)


@grows("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")
def _sparse_segments(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    data, ids = inputs[0], inputs[2]
    return [int(ids[-1]) + 1 if ids.size else 0, *data.shape[1:]], max(item_bytes_of(data), 8)


@grows("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def _sparse_segment_grad(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[3].item(), *inputs[0].shape[1:]], item_bytes_of(inputs[0])


@grows("SobolSample")
def _sobol(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    dims, points = inputs[0].item(), inputs[1].item()
    # More than that is no question of memory: the kernel refuses it.
    if dims * points >= SOBOL_MOST:
        return [], 8
    # The generator has 31 numbers of its own for each dimension.
    return [max(31, points), dims], 8


@grows("RaggedTensorToTensor")
def _ragged_to_tensor(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    shape, values = ints(inputs[0]) if inputs[0].ndim else [], inputs[1]
    kinds = k.attr("row_partition_types")
    rows = inputs[3].item() if kinds and kinds[0] in (b"FIRST_DIM_SIZE", "FIRST_DIM_SIZE") else 1
    asked = [max(1, dim) for dim in shape] or [1]
    return [max(rows, asked[0]), *asked[1:]], max(item_bytes_of(values), 8)


@grows("ResizeNearestNeighborGrad")
def _nearest_grad(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    grads = inputs[0]
    return [grads.shape[0], *ints(inputs[1]), grads.shape[3]], max(item_bytes_of(grads), 4)


@grows("ScaleAndTranslate", "ExtractGlimpse", "ExtractGlimpseV2")
def _scaled(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    images = inputs[0]
    return [images.shape[0], *ints(inputs[1]), images.shape[3]], 4


@grows("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _projected(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    images = inputs[0]
    return [images.shape[0], *ints(inputs[2]), max(images.shape[3], 4)], max(item_bytes_of(images), 4)


@grows("CropAndResizeGradImage")
def _crop_grad(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[3]), 4


@grows("NonMaxSuppressionV4", "NonMaxSuppressionV5")
def _suppressed(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    most = inputs[2].item()
    return [most if k.attr("pad_to_max_output_size", False) else min(most, inputs[1].size)], 8


@grows("CombinedNonMaxSuppression")
def _combined_suppressed(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    scores, each, most = inputs[1], inputs[2].item(), inputs[3].item()
    width = min(most, each * scores.shape[2]) if k.attr("pad_per_class", False) else most
    return [scores.shape[0], width, 6], 4


@grows("RFFTND", "IRFFTND", "FFTND", "IFFTND")
def _fourier(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    sizes = ints(inputs[1])
    return [*inputs[0].shape[: -len(sizes)], *(max(size, 1) for size in sizes)], 8


@grows(
    "AllCandidateSampler",
    "FixedUnigramCandidateSampler",
    "LearnedUnigramCandidateSampler",
    "LogUniformCandidateSampler",
    "ThreadUnsafeUnigramCandidateSampler",
    "UniformCandidateSampler",
)
def _candidates(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [k.attr("num_sampled")], SLOT_BYTES


@grows(
    "NonDeterministicInts",
    "StatelessParameterizedTruncatedNormal",
    "StatelessRandomBinomial",
    "StatelessRandomGammaV2",
    "StatelessRandomGammaV3",
    "StatelessRandomPoisson",
)
def _stateless_from(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[0]), 8


@grows(
    "StatefulRandomBinomial",
    "StatefulStandardNormalV2",
    "StatefulTruncatedNormal",
    "StatefulUniform",
    "StatefulUniformFullInt",
    "StatefulUniformInt",
)
def _stateful_random(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return ints(inputs[2]), 8


@grows("UnsortedSegmentJoin")
def _segment_join(k: KernelBuild, inputs: Sequence[Any]) -> tuple[Iterable[Any], int]:
    return [inputs[2].item()], OBJECT_BYTES
