"""Random ops on random values, each case made from a seed and its number alone.

`python -m tests.unit.kernels.op_fuzz SEED NUMBER` runs one case again and shows it; with a third argument all cases
from NUMBER up to it, a line before each and a line after each.
"""

from __future__ import annotations

import os
import random
import resource
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.attrs import check_attr, encode_attr
from dtfctl.runtime.framework.errors import InternalError, OpError
from dtfctl.runtime.framework.op_signature import Arg, Attr, OpSignature, get_signature, op_names
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels import admission
from dtfctl.runtime.kernels.registry import kernels_of
from tests.support.interpreter import graph_of_op

FAMILIES = ("array", "image", "linalg", "math", "nn", "ragged", "random", "sparse", "string")
MOST_BYTES = 3 << 30
"""Of address space, beyond what the process has when it begins."""
FREE_BYTES = 1 << 30
"""What admission is told to be free."""
HOSTILE = (0, 1, -1, 2**31 - 1, 2**31, 2**32 + 1, 2**62, 2**63 - 1, -(2**31), -(2**63))

_HOLDS = ("resource", "variant")


def ops() -> list[str]:
    """The ops that are functions of plain tensors and have a kernel."""
    from dtfctl.runtime.framework.op_signature import op_family

    return [
        name
        for name in op_names()
        if op_family(name) in FAMILIES and kernels_of(name) and _is_plain(get_signature(name))
    ]


def _is_plain(signature: OpSignature) -> bool:
    fixed = [a.dtype.name for a in (*signature.inputs, *signature.outputs) if a.dtype is not None]
    return not (signature.has_ref_input or signature.takes_functions or any(name in _HOLDS for name in fixed))


class Case:
    """One op with its attributes and inputs."""

    def __init__(self, names: list[str], seed: int, number: int) -> None:
        self._draw = random.Random(f"{seed}/{number}")
        self.op = self._draw.choice(names)
        self.signature = get_signature(self.op)
        self._spec = self._draw.choice([s for s in kernels_of(self.op) if "CPU" in s.devices] or kernels_of(self.op))
        self._hostile = self._draw.random() < 0.5
        self._common = self._shape()
        counts = {a.number_attr for a in self.signature.inputs} - {""}
        self.attrs: dict[str, Any] = {}
        for attr in self.signature.attrs:
            value = self._draw.choice((1, 2, 2, 3)) if attr.name in counts else self._attr(attr)
            if value is not None:
                self.attrs[attr.name] = value
        self.inputs = [self._input(arg) for arg in self.signature.inputs]

    def __str__(self) -> str:
        shown = [
            f"{v.dtype}{list(v.shape)} {v.reshape(-1)[:8].tolist()}"
            for given in self.inputs
            for v in (given if isinstance(given, list) else [given])
        ]
        return f"{self.op} {self.attrs} on {shown}"

    def run(self) -> str:
        """What came of it; `FAULT` first where that is neither a value nor an error that an op may end with."""
        try:
            for name, value in self.attrs.items():
                attr = self.signature.attr_by_name[name]
                check_attr(self.signature, attr, encode_attr(attr.kind, value))
            graph, fetches, feeds = graph_of_op(self.op, *self.inputs, **self.attrs)
            graph.run(fetches, feeds, [] if fetches else ["op"])
        except OpError:
            return "refused"
        except Exception as error:
            answer = located(error, self.op)
            if isinstance(answer, InternalError):
                where = traceback.extract_tb(error.__traceback__)[-1]
                return f"FAULT {type(error).__name__}: {error} ({where.filename}:{where.lineno})".replace("\n", " ")
            return "refused"
        return "value"

    def _number(self) -> int:
        if self._hostile and self._draw.random() < 0.25:
            return self._draw.choice(HOSTILE)
        return self._draw.choice((-1, 0, 1, 1, 1, 2, 2, 3, 4))

    def _shape(self) -> tuple[int, ...]:
        rank = self._draw.choice((0, 1, 1, 2, 2, 3, 4, 4, 5))
        return tuple(self._draw.choice((0, 1, 1, 2, 2, 3, 4, 5)) for _ in range(rank))

    def _type(self, attr: Attr) -> dtypes.DType:
        known = self._spec.types.get(attr.name)
        allowed = [t for t in (known or attr.allowed or _ALL) if t.name not in _HOLDS]
        return self._draw.choice(sorted(allowed or _ALL, key=lambda t: t.name))

    def _attr(self, attr: Attr) -> Any:
        kind = attr.kind.removeprefix("list(").removesuffix(")")
        if attr.default is not None and kind != "type" and self._draw.random() < 0.6:
            return None
        if not attr.is_list:
            return self._one(attr, kind)
        return [self._one(attr, kind) for _ in range(self._draw.choice((1, 2, 3, 4, 4, 4, 5, 0)))]

    def _one(self, attr: Attr, kind: str) -> Any:
        draw = self._draw
        if kind == "type":
            return self._type(attr)
        if kind == "int":
            return self._number()
        if kind == "float":
            return draw.choice((0.0, 0.5, 1.0, -1.0, 1e30, float("inf"), float("nan")))
        if kind == "bool":
            return draw.random() < 0.5
        if kind == "string":
            return (
                draw.choice(attr.allowed) if attr.allowed else draw.choice(("", "a", "SAME", "VALID", "UTF-8", "\xe9"))
            )
        if kind == "shape":
            return TensorShape(draw.choice((None, [], [2], [None, 2], list(self._common))))
        return None

    def _input(self, arg: Arg) -> Any:
        if arg.type_list_attr:
            return [self._array(t, arg) for t in self.attrs.get(arg.type_list_attr, ())]
        dtype = arg.dtype or self.attrs[arg.type_attr]
        if arg.number_attr:
            return [self._array(dtype, arg) for _ in range(self.attrs[arg.number_attr])]
        return self._array(dtype, arg)

    def _array(self, dtype: dtypes.DType, arg: Arg) -> np.ndarray[Any, Any]:
        draw = self._draw
        shape = self._common if draw.random() < 0.5 else self._shape()
        if dtype.is_integer and draw.random() < 0.5:
            # Most whole numbers that are an input of their own say how large something is to be.
            shape = draw.choice(((), (len(self._common),), (1,), (2,), (4,)))
        size = int(np.prod(shape))
        if dtype.is_object:
            values = [
                draw.choice((b"", b"a", b"12", b"-1e400", b"\xff\xfe", b"a b,c", b"\x00" * 9)) for _ in range(size)
            ]
            out = np.empty(size, object)
            out[:] = values
            return out.reshape(shape)
        numbers = [self._number() for _ in range(size)]
        with np.errstate(all="ignore"):
            if dtype.is_integer or dtype.is_quantized:
                return np.array([n & 2**64 - 1 for n in numbers], np.uint64).astype(dtype.np).reshape(shape)
            special = [draw.choice((float("nan"), float("inf"), -0.0)) if draw.random() < 0.03 else n for n in numbers]
            return np.array(special, np.float64).astype(dtype.np).reshape(shape)


_ALL = (
    dtypes.float32,
    dtypes.float64,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint8,
    dtypes.int8,
    dtypes.bool_,
    dtypes.complex64,
    dtypes.string,
)


def _bound_memory() -> None:
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MOST_BYTES, held + MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    admission.free_bytes = lambda: FREE_BYTES


def main(seed: int, first: int, end: int | None) -> None:
    names = ops()
    np.seterr(all="ignore")
    _bound_memory()
    # What a kernel prints is not to be taken for a report.
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for number in range(first, first + 1 if end is None else end):
        case = Case(names, seed, number)
        print(f"{number} begins {case}" if end is None else f"{number} begins {case.op}", file=report)
        print(f"{number} ends {case.run()}", file=report)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)
