"""Registering the kernel of a dataset op: `make(k, step, inputs...)` returns a Dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import Dataset, Function, Origin
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

Make = Callable[..., Dataset]


def register_dataset(*ops: str) -> Callable[[Make], Make]:
    """Decorator: the function makes the dataset of `ops` from the KernelBuild, the step and the inputs."""

    def add(make: Make) -> Make:
        def factory(k: KernelBuild) -> Kernel:
            types = k.attr("output_types") or k.attr("Toutput_types") or ()
            shapes = k.attr("output_shapes") or ()

            def run(step: StepContext, *inputs: Any) -> Any:
                dataset = make(k, step, *inputs)
                dataset.options = b"".join(map(_options, inputs)) + (k.attr("serialized_options") or b"")
                dataset.origin = Origin(k.node.op, k.node.raw_attrs, k.library, inputs)
                if types:
                    dataset.types = tuple(types)
                if shapes:
                    dataset.shapes = tuple(shapes)
                return dataset.scalar()

            return run

        register_kernel(ops, step=True)(factory)
        return make

    return add


def _options(value: Any) -> bytes:
    """Join the options of the datasets in an input, if it holds any."""
    if not isinstance(value, np.ndarray) or value.dtype.kind != "O":
        return b""
    return b"".join(item.options for item in value.reshape(-1) if isinstance(item, Dataset))


def function_of(k: KernelBuild, step: StepContext, inputs: tuple[Any, ...], attr: str = "f") -> Function:
    """Bind the function in an attribute to the inputs it captured."""
    return Function(step, k.attr(attr), inputs)
