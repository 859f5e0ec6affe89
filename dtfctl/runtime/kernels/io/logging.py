"""Assert, Print, PrintV2 and Timestamp."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.arguments import text_of
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.string.summarize import summarize


@register_kernel("Assert")
def assert_kernel(k: KernelBuild) -> Kernel:
    types, limit = k.attr("T"), k.attr("summarize")

    def run(condition: Any, *data: Any) -> None:
        if condition.shape != ():
            raise InvalidArgumentError(
                f"In[0] should be a scalar: {shape_text(condition.shape)}",
            )
        if not condition:
            shown = " ".join(f"[{summarize(v, t, limit, False)}]" for v, t in zip(data, types))
            raise InvalidArgumentError(f"assertion failed: {shown}")

    return run


@register_kernel("Print")
def print_kernel(k: KernelBuild) -> Kernel:
    message, first, limit = k.text_attr("message"), k.attr("first_n"), k.attr("summarize")
    types, lock, calls = k.attr("U"), threading.Lock(), 0

    def run(value: Any, *data: Any) -> Any:
        nonlocal calls
        with lock:
            calls += 1
            if 0 <= first < calls:
                return value
        text = "".join(f"[{summarize(v, t, limit, False)}]" for v, t in zip(data, types))
        sys.stderr.write(f"{message}{text}\n")
        sys.stderr.flush()
        return value

    return run


@register_kernel("PrintV2")
def print_v2(k: KernelBuild) -> Kernel:
    target, end = k.text_attr("output_stream"), k.text_attr("end")
    known = ("stderr", "stdout", "log(info)", "log(warning)", "log(error)", "log(trace)")
    if target not in known and not target.startswith("file://"):
        raise InvalidArgumentError(
            f"Unknown output stream: {target}, Valid streams are: {', '.join(known)}, file://", k.node.name
        )

    def run(value: Any) -> None:
        if value.shape != ():
            raise InvalidArgumentError(f"Input is expected to be scalar, but got {shape_text(value.shape)}")
        text = text_of(value, "replace") + end
        if target.startswith("file://"):
            with Path(target[7:]).open("a") as file:
                file.write(text)
            return
        stream = sys.stdout if target == "stdout" else sys.stderr
        stream.write(text)
        stream.flush()

    return run


@register_kernel("Timestamp")
def timestamp(k: KernelBuild) -> Kernel:
    return lambda: np.float64(time.time())
