"""What a step takes at the least: its matrix products and convolutions alone, each by oneDNN on its own.

The ops of our runtime say what they are given in one step; the same sizes are then made as primitives of oneDNN and
timed one by one, by one thread and by all, of which the faster counts. What lies between them, and moving anything,
is left out.
"""

from __future__ import annotations

import ctypes
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from benchmarks.programs import Program
from dtfctl.runtime.executor.planner import Planner
from dtfctl.runtime.kernels.nn.common import Geometry, window_of
from dtfctl.runtime.kernels.nn.conv import full_input_shape, is_pointwise
from dtfctl.runtime.kernels.onednn.convolution import FILTER_GRADIENT, FORWARD, INPUT_GRADIENT, Convolution
from dtfctl.runtime.kernels.onednn.find import find_library
from dtfctl.runtime.kernels.onednn.library import QUERY_DST, QUERY_SRC, QUERY_WEIGHTS, Library
from dtfctl.runtime.kernels.onednn.passes import Pass
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, KernelSpec, kernels_of
from dtfctl.runtime.services import worker

_ADJOINT = ("adj_x", "adj_y")
PRODUCTS = {"MatMul": ("transpose_a", "transpose_b"), "BatchMatMul": _ADJOINT, "BatchMatMulV2": _ADJOINT}
CONVOLUTIONS = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter")
_REPEATS, _MOST_S = 30, 0.2
Shape = tuple[int, ...]
# A product: both shapes, and which of them are transposed. A convolution: op, image, filter, geometry.
Work = tuple[Any, ...]


class Recorder:
    """Hears of what the ops are given from now on, once its process has run no step yet."""

    def __init__(self) -> None:
        self.works: Counter[Work] = Counter()
        # Plans for known shapes, which a loop's body has from its fifth iteration on, do without these kernels.
        Planner.tuned = lambda self, general, use, is_function=False: general  # type: ignore[method-assign]
        # And each product is one of its own, as the program wrote it.
        worker.share_products = lambda graph: None  # type: ignore[attr-defined]
        for op in (*PRODUCTS, *CONVOLUTIONS):
            specs = kernels_of(op)
            specs[:] = [replace(spec, factory=self._heard(spec)) for spec in specs]

    def _heard(self, spec: KernelSpec) -> Callable[[KernelBuild], Kernel]:
        def factory(k: KernelBuild) -> Kernel:
            kernel = spec.factory(k)
            describe = _product if k.node.op in PRODUCTS else _convolution

            def run(*args: Any) -> Any:
                work = describe(k, args)
                if work is not None:
                    self.works[work] += 1
                return kernel(*args)

            return run

        return factory


def _product(k: KernelBuild, args: Sequence[Any]) -> Work:
    a, b = args
    ta, tb = (bool(k.attr(name)) for name in PRODUCTS[k.node.op])
    return ("product", a.shape, b.shape, ta, tb)


def _convolution(k: KernelBuild, args: Sequence[Any]) -> Work:
    window = window_of(k, 2)
    if k.node.op == "Conv2D":
        image, kernel = args[0].shape, args[1].shape
    elif k.node.op == "Conv2DBackpropInput":
        image, kernel = full_input_shape(args[0], args[2], args[1], window), args[1].shape
    else:
        image, kernel = args[0].shape, tuple(int(n) for n in args[1])
    if window.channels_first:
        raise NotImplementedError("the zoo has no convolution with channels first")
    return (k.node.op, image, kernel, window.geometry(image[1:-1], kernel[:-2]))


def limit_of(program: Program, recorder: Recorder) -> float:
    """Measure the products and convolutions of the program's next step, which is its first; seconds.

    Raises:
        RuntimeError: oneDNN is not installed.
    """
    library = find_library()
    if library is None:
        raise RuntimeError("oneDNN is not installed")
    recorder.works.clear()
    program.step()
    return sum(count * _fastest(library, work) for work, count in dict(recorder.works).items())


def _fastest(library: Library, work: Work) -> float:
    threads = library.threads()
    found = []
    for count in {1, threads}:
        library.set_threads(count)
        try:
            found.append(_median(_made(library, work)))
        finally:
            library.set_threads(threads)
    return min(found)


def _median(call: Callable[[], None]) -> float:
    times: list[float] = []
    end = time.perf_counter() + _MOST_S
    while len(times) < _REPEATS and (len(times) < 3 or time.perf_counter() < end):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _made(library: Library, work: Work) -> Callable[[], None]:
    """Make a call of oneDNN's for work of that kind, on arrays of its own."""
    kind, *sizes = work
    if kind == "product":
        return _made_product(library, *sizes)
    image, kernel, g = sizes
    if is_pointwise(g):
        rows, inner, columns = prod(image[:-1]), image[-1], kernel[-1]
        if kind == "Conv2D":
            return _made_product(library, (rows, inner), (inner, columns), False, False)
        if kind == "Conv2DBackpropInput":
            return _made_product(library, (rows, columns), (inner, columns), False, True)
        return _made_product(library, (rows, inner), (rows, columns), True, False)
    return _made_convolution(library, kind, image, kernel, g)


def _made_convolution(library: Library, op: str, image: Shape, kernel: Shape, g: Geometry) -> Callable[[], None]:
    made = Convolution(library, image, kernel, g.output, g.strides, g.dilations, g.pads)
    x, w, y = _numbers(image), _numbers(kernel), _numbers((image[0], *g.output, kernel[-1]))
    kind, arrays = {
        "Conv2D": (FORWARD, (x, w, y)),
        "Conv2DBackpropInput": (INPUT_GRADIENT, (y, w, x)),
        "Conv2DBackpropFilter": (FILTER_GRADIENT, (x, y, w)),
    }[op]
    run = made.made(kind).run
    return lambda: run(*arrays)


def _made_product(library: Library, a: Shape, b: Shape, ta: bool, tb: bool) -> Callable[[], None]:
    sizes_a, strides_a = _matrices(a, ta)
    sizes_b, strides_b = _matrices(b, tb)
    # What is broadcast has stacks of one.
    out = tuple(max(m, n) for m, n in zip(sizes_a[:-2], sizes_b[:-2], strict=True)) + (sizes_a[-2], sizes_b[-1])
    descriptions = [
        library.strided(sizes_a, strides_a),
        library.strided(sizes_b, strides_b),
        library.strided(*_matrices(out, False)),
    ]
    pd = ctypes.c_void_p()
    operands = (descriptions[0], descriptions[1], None, descriptions[2])
    library.call("matmul_primitive_desc_create", ctypes.byref(pd), library.engine, *operands, None)
    made = Pass(
        library,
        pd,
        1,
        src=(descriptions[0], QUERY_SRC, 0),
        weights=(descriptions[1], QUERY_WEIGHTS, 0),
        dst=(descriptions[2], QUERY_DST, 0),
    )
    arrays = _numbers(a), _numbers(b), _numbers(out)
    return lambda: made.run(*arrays)


def _matrices(shape: Shape, transposed: bool) -> tuple[Shape, Shape]:
    """Return sizes and strides, in elements, of a contiguous stack of matrices, as it is read."""
    strides = tuple(prod(shape[n + 1 :]) for n in range(len(shape)))
    if transposed:
        return (*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2])
    return shape, strides


def _numbers(shape: Shape) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)
