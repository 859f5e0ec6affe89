"""Gradients of the array family agree with numeric ones."""

from typing import Any

import pytest

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops import array_ops as a
from tests.unit.ops.gradient_check import check_gradient, real

CASES: dict[str, tuple[Any, ...]] = {
    "reshape": (lambda x: a.reshape(x, [3, -1]), real(2, 3)),
    "squeeze": (a.squeeze, real(1, 3, 1)),
    "expand_dims": (lambda x: a.expand_dims(x, 1), real(2, 3)),
    "fill": (lambda x: a.fill([2, 3], x), real()),
    "broadcast_to": (lambda x: a.broadcast_to(x, [4, 2, 3]), real(2, 1)),
    "concat": (lambda x, y: a.concat([x, y], 1), real(2, 3), real(2, 1)),
    "concat_negative_axis": (lambda x, y: a.concat([x, y], -2), real(2, 3), real(1, 3)),
    "stack": (lambda x, y: a.stack([x, y], 1), real(2, 3), real(2, 3, seed=1)),
    "slice": (lambda x: a.slice(x, [0, 1], [2, -1]), real(3, 4)),
    "strided": (lambda x: x[1:, ::2], real(3, 4)),
    "newaxis": (lambda x: x[..., None, -1], real(3, 4)),
    "index": (lambda x: x[2], real(3, 4)),
    "pad": (lambda x: a.pad(x, [[1, 0], [0, 2]]), real(2, 3)),
    "pad_reflect": (lambda x: a.pad(x, [[1, 0], [0, 2]], "REFLECT"), real(2, 3)),
    "pad_symmetric": (lambda x: a.pad(x, [[1, 0], [0, 2]], "SYMMETRIC"), real(2, 3)),
    "pad_value": (lambda x, c: a.pad(x, [[1, 0], [0, 2]], constant_values=c), real(2, 3), real()),
    "tile": (lambda x: a.tile(x, [2, 3]), real(2, 3)),
    "transpose": (lambda x: a.transpose(x, [1, 2, 0]), real(2, 3, 4)),
    "gather": (lambda x: a.gather(x, [[0, 2], [2, 1]]), real(3, 2)),
}
STATIC_CASES: dict[str, tuple[Any, ...]] = {
    "unstack": (lambda x: a.unstack(x, axis=1), real(2, 3)),
    "split": (lambda x: a.split(x, 3, 1), real(2, 3)),
    "split_sizes": (lambda x: a.split(x, [1, 2], 1), real(2, 3)),
    "gather_axis": (lambda x: a.gather(x, [[0, 2], [2, 1]], axis=1), real(2, 3, 2)),
    "gather_batch": (lambda x: a.gather(x, [[0, 2], [2, 1]], axis=1, batch_dims=1), real(2, 3, 2)),
    "gather_batch_axis": (lambda x: a.gather(x, [[0, 1], [1, 1]], axis=2, batch_dims=1), real(2, 3, 2)),
    "gather_nd": (lambda x: a.gather_nd(x, [[0, 1], [1, 1]]), real(2, 3, 2)),
    "gather_nd_rows": (lambda x: a.gather_nd(x, [[0], [1], [0]]), real(2, 3)),
    "scatter_nd": (lambda x: a.scatter_nd([[0], [2]], x, [4, 3]), real(2, 3)),
    "scatter_update": (lambda x, y: a.tensor_scatter_update(x, [[0], [2]], y), real(4, 3), real(2, 3)),
    "scatter_add": (lambda x, y: a.tensor_scatter_add(x, [[0], [2]], y), real(4, 3), real(2, 3)),
    "scatter_sub": (lambda x, y: a.tensor_scatter_sub(x, [[0], [2]], y), real(4, 3), real(2, 3)),
    "scatter_max": (lambda x, y: a.tensor_scatter_max(x, [[0], [2]], y), real(4, 3), real(2, 3)),
    "scatter_min": (lambda x, y: a.tensor_scatter_min(x, [[0], [2]], y), real(4, 3), real(2, 3)),
    "reverse": (lambda x: a.reverse(x, [1]), real(2, 3)),
    "reverse_sequence": (lambda x: a.reverse_sequence(x, [1, 2], 1, 0), real(2, 3)),
    "roll": (lambda x: a.roll(x, 1, 1), real(2, 3)),
    "space_to_depth": (lambda x: a.space_to_depth(x, 2), real(1, 2, 4, 3)),
    "depth_to_space": (lambda x: a.depth_to_space(x, 2), real(1, 1, 2, 4)),
    "space_to_batch": (lambda x: a.space_to_batch_nd(x, [2, 1], [[1, 1], [0, 0]]), real(1, 2, 3, 1)),
    "batch_to_space": (lambda x: a.batch_to_space_nd(x, [2, 1], [[1, 0], [0, 0]]), real(2, 2, 3, 1)),
    "diag": (a.diag, real(3)),
    "diag_part": (a.diag_part, real(3, 3)),
    "matrix_diag": (lambda x: a.matrix_diag(x, k=(-1, 0)), real(2, 3)),
    "matrix_diag_part": (lambda x: a.matrix_diag_part(x, k=(0, 1)), real(3, 4)),
    "matrix_set_diag": (a.matrix_set_diag, real(2, 3, 3), real(2, 3)),
    "matrix_band_part": (lambda x: a.matrix_band_part(x, 1, 0), real(3, 3)),
    "boolean_mask": (lambda x: a.boolean_mask(x, [True, False, True]), real(3, 2)),
    "patches": (
        lambda x: a.extract_image_patches(x, [1, 2, 2, 1], [1, 1, 2, 1], [1, 1, 1, 1], "SAME"),
        real(2, 3, 4, 2),
    ),
    "repeat": (lambda x: a.repeat(x, [1, 2], axis=0), real(2, 3)),
    "meshgrid": (a.meshgrid, real(2), real(3)),
    "strided_slice_grad": (
        lambda x: apply_op("StridedSliceGrad", shape=[4], begin=[0], end=[4], strides=[2], dy=x),
        real(2),
    ),
    "strided_slice_update": (
        lambda x, v: apply_op("TensorStridedSliceUpdate", input=x, begin=[0], end=[4], strides=[2], value=v),
        real(4),
        real(2),
    ),
}


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_gradient(name: str, static: bool) -> None:
    function, *arrays = CASES[name]
    check_gradient(function, *arrays, static=static)


@pytest.mark.parametrize("name", STATIC_CASES)
def test_gradient_with_static_shapes(name: str) -> None:
    function, *arrays = STATIC_CASES[name]
    check_gradient(function, *arrays)
