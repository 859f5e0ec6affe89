"""A process that has numba compile loops, for the one that started it (jit.py).

numba takes 100 MB and most of a second to import, each time, so no process that runs steps does. What it makes of a
loop is LLVM's text, of which an image is made as of a region (kernels/native/compile.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Literal

import numba
import numpy as np
from llvmlite import binding
from numba import types

import dtfctl.runtime.kernels.compiled.prefetch  # noqa: F401 - tells numba what `loops.soon` is
from dtfctl.runtime.kernels.compiled import loops, streams
from dtfctl.runtime.kernels.compiled.jit import ENTRY
from dtfctl.runtime.kernels.native.compile import answer, image_of_text
from dtfctl.runtime.kernels.native.image import Image
from dtfctl.runtime.kernels.native.kept import Compiled

# What loops may call, of the C library.
_OUTSIDE = ("memset", "memcpy", "memmove", "log", "logf", "sqrt", "sqrtf")
# numba counts who holds an array. Nobody holds what loops get, and they make none.
_COUNTS = ("NRT_incref", "NRT_decref")
# What numba makes for Python to call.
_WRAPPERS = ("_ZN7cpython", "cfunc.")


def compiled(line: str) -> Compiled:
    """Compile a loop, as ordered in a line of JSON.

    Raises:
        RuntimeError: it cannot be compiled.
    """
    order = json.loads(line)
    try:
        function = function_of(order)
        text = llvm_text(function, [_type(*kind) for kind in order["kinds"]])
    except numba.core.errors.NumbaError as e:
        raise RuntimeError(str(e).strip().splitlines()[0]) from None
    return Compiled([], 0, [], _image(text, function.__name__), ())


def llvm_text(function: Callable[..., None], kinds: list[Any]) -> str:
    """Have numba write LLVM's text of a function of arguments of such types."""
    made = numba.njit(nogil=True, error_model="numpy")(function)
    made.compile(tuple(kinds))
    return str(made.inspect_llvm(tuple(kinds)))


def function_of(order: dict[str, Any]) -> Callable[..., None]:
    """Return the Python function of an order: one of `loops`, or of a source."""
    if "loop" in order:
        return getattr(loops, order["loop"])  # type: ignore[no-any-return]
    names: dict[str, Any] = {"ahead": streams.ahead, "stream": streams.stream, "fence": streams.fence, "np": np}
    known = set(names)
    exec(compile(order["source"], "<loop>", "exec"), names)
    (function,) = (v for name, v in names.items() if name not in known and name != "__builtins__")
    return function  # type: ignore[no-any-return]


def _type(char: str, rank: int, layout: Literal["C", "A", ""]) -> Any:
    number = numba.from_dtype(np.dtype(char))
    return types.Array(number, rank, layout) if layout else number


def _image(text: str, name_of_loop: str) -> Image:
    """Make an image of what numba wrote: a function that takes its arguments out of memory, one after the other."""
    mangled = f"{len(name_of_loop)}{name_of_loop}"
    for name in _COUNTS:
        text = re.sub(rf"^define [^\n]*@{name}\(.*?^}}\n", "", text, flags=re.M | re.S)
        text = re.sub(rf"^declare [^\n]*@{name}\([^\n]*\n", "", text, flags=re.M)
        text += f"\ndefine internal void @{name}(ptr %held) alwaysinline {{\n  ret void\n}}\n"
    module = binding.parse_assembly(text)
    own = [f for f in module.functions if not f.is_declaration]
    (loop,) = (f for f in own if mangled in f.name and not f.name.startswith(_WRAPPERS))
    lines = []
    arguments = ["ptr %result", "ptr %excuse"]
    for n, argument in enumerate(list(loop.arguments)[2:]):
        lines += [f"%at{n} = getelementptr i64, ptr %given, i64 {n}", f"%v{n} = load {argument.type}, ptr %at{n}"]
        arguments.append(f"{argument.type} %v{n}")
    called = f'%said = call i32 @"{loop.name}"({", ".join(arguments)})'
    body = ["%result = alloca ptr", "%excuse = alloca ptr", *lines, called, "ret i32 %said"]
    for function in own:
        function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    entry = "\n  ".join([f"define i32 @{ENTRY}(ptr %given) {{", *body])
    return image_of_text(f"{module}\n{entry}\n}}\n", _OUTSIDE)


def main() -> None:
    """Answer until there is nobody to answer, then end the process."""
    answer(compiled)
