"""Valid cases of every op there is one of, enlarged until their results cannot be.

`python -m tests.unit.kernels.enlarged FIRST STEP` runs every STEP-th case from FIRST on, a line before each and a line
after each.
"""

from __future__ import annotations

import base64
import copy
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.errors import InternalError, OpError
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.tensor_codec import decode_tensor
from tests.support.interpreter import Interpreter, run_op
from tests.unit.kernels import graph_cases, op_fuzz
from tests.unit.kernels.oracle_cases import cases_by_op, decode

OF_OPS = ("array", "edges", "linalg", "math", "ragged", "sparse")
OF_GRAPHS = ("image", "nn", "random", "state", "training")
SIDE = 1 << 20
"""An outer product of two such vectors has 2**40 elements."""
_SIZES = {4: 2**31 - 1, 8: 2**40}
_MOST_ITEMS = 8
_LONG = ("SobolSample input 2", "CTCBeamSearchDecoder beam_width")
"""What takes little memory, but the library some ten seconds."""

Run = Callable[[], Any]


def cases() -> list[tuple[str, Run]]:
    """What is run, each with its name; the same in each process."""
    out: list[tuple[str, Run]] = []
    for family in OF_OPS:
        for op, found in sorted(cases_by_op(family).items()):
            kinds: set[Any] = set()
            for case in found:
                kind = "error" in case, tuple(sorted(case["attrs"])), len(str(case["inputs"])) > 4000
                if kind[0] or kind[2] or kind in kinds:
                    continue
                kinds.add(kind)
                out += [(f"{op} {what}", run) for what, run in _of_op(case)]
    for family in OF_GRAPHS:
        ops: set[str] = set()
        for name, case in sorted(graph_cases.load(family).items()):
            graph = graph_pb2.GraphDef.FromString(base64.b64decode(case["graph"]))
            news = {node.op for node in graph.node} - ops
            if not news or any("error" in step for step in case["steps"]):
                continue
            ops |= news
            steps = [step["names"] for step in case["steps"]]
            out += [(f"{name} {what}", run) for what, run in _of_graph(graph, steps, news)]
    return [(name, run) for name, run in out if not any(long in name for long in _LONG)]


def _of_op(case: dict[str, Any]) -> Iterator[tuple[str, Run]]:
    attrs = {
        k: dtypes.as_dtype(v[3:]) if isinstance(v, str) and v.startswith("dt:") else v for k, v in case["attrs"].items()
    }
    op, signature = case["op"], get_signature(case["op"])
    for arg in signature.inputs:
        if arg.name in case.get("quantized", {}):
            attrs[arg.type_attr] = dtypes.as_dtype(case["quantized"][arg.name])
    inputs = [[decode(x) for x in i] if isinstance(i, list) else decode(i) for i in case["inputs"]]
    flat = [x for i in inputs for x in (i if isinstance(i, list) else [i])]

    def run(changed: dict[int, Any], more: dict[str, Any]) -> Any:
        values = iter([changed.get(n, x) for n, x in enumerate(flat)])
        given = [[next(values) for _ in i] if isinstance(i, list) else next(values) for i in inputs]
        return run_op(op, *given, **{**attrs, **more})

    for what, changed in _larger(flat):
        yield what, lambda changed=changed: run(changed, {})
    for attr in signature.attrs:
        if attr.name in attrs and attr.kind in ("int", "list(int)") and not isinstance(attrs[attr.name], np.ndarray):
            for large in _larger_attr(attrs[attr.name]):
                yield f"{attr.name}={large}", lambda name=attr.name, large=large: run({}, {name: large})


def _of_graph(graph: graph_pb2.GraphDef, steps: list[list[str]], ops: set[str]) -> Iterator[tuple[str, Run]]:
    constants = {n.name: decode_tensor(n.attr["value"].tensor) for n in graph.node if n.op == "Const"}
    used = {i.split(":")[0] for n in graph.node if n.op in ops for i in n.input}
    names = [name for name in constants if name in used or "Const" in ops]

    def run(changed: dict[int, Any], made: graph_pb2.GraphDef = graph) -> None:
        interpreter = Interpreter(made)
        feeds = {f"{names[n]}:0": value for n, value in changed.items()}
        for step in steps:
            interpreter.run([n for n in step if ":" in n], dict(feeds), [n for n in step if ":" not in n])

    for what, changed in _larger([constants[name] for name in names], pairs=False):
        yield f"{names[next(iter(changed))]} {what}", lambda changed=changed: run(changed)
    for i, node in enumerate(graph.node):
        if node.op not in ops:
            continue
        for attr in get_signature(node.op).attrs:
            if attr.kind != "int" or attr.name not in node.attr or attr.name in ("N", "seed", "seed2"):
                continue
            for large in (2**31 - 1, 2**40):
                changed_graph = copy.deepcopy(graph)
                changed_graph.node[i].attr[attr.name].CopyFrom(encode_attr("int", large))
                yield f"{node.name} {attr.name}={large}", lambda g=changed_graph: run({}, g)


def _larger(values: list[Any], pairs: bool = True) -> Iterator[tuple[str, dict[int, Any]]]:
    """Values to take instead, by their places."""
    for n, value in enumerate(values):
        large = _SIZES.get(value.dtype.itemsize) if value.dtype.kind in "iu" else None
        if large is None or value.size > _MOST_ITEMS:
            continue
        for at in range(value.size):
            changed = value.copy()
            changed.reshape(-1)[at] = large
            yield f"input {n}[{at}]={large}", {n: changed}
        if value.size > 1:
            yield f"input {n}={SIDE}", {n: np.full_like(value, SIDE)}
    floats = [n for n, value in enumerate(values) if value.dtype.kind in "fc"]
    if pairs and len(floats) >= 2:
        a, b = floats[:2]
        for first, second in (
            ((SIDE, 1), (1, SIDE)),
            ((1, SIDE), (SIDE, 1)),
            ((SIDE, 1), (SIDE, 1)),
            ((SIDE,), (SIDE,)),
        ):
            made = {}
            for n, shape in ((a, first), (b, second)):
                ones = (1,) * max(values[n].ndim - len(shape), 0)
                item = values[n].reshape(-1)[:1] if values[n].size else np.zeros(1, values[n].dtype)
                made[n] = np.broadcast_to(item.reshape(()), (*ones, *shape))
            yield f"inputs {a}, {b} of {list(first)}, {list(second)}", made


def _larger_attr(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for i in range(min(len(value), 5)):
            yield [*value[:i], 2**31 - 1, *value[i + 1 :]]
    elif isinstance(value, int):
        yield 2**31 - 1
        yield 2**40


def outcome(run: Run) -> str:
    """What came of it; `FAULT` first where it was not refused as it should be."""
    try:
        run()
    except MemoryError as error:
        where = [f for f in traceback.extract_tb(error.__traceback__) if "/dtfctl/" in f.filename][-1]
        return f"FAULT it was to be allocated: {where.filename}:{where.lineno} {error}".replace("\n", " ")
    except OpError:
        return "refused"
    except Exception as error:
        if isinstance(located(error, "op"), InternalError):
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"FAULT {type(error).__name__}: {error} ({where.filename}:{where.lineno})".replace("\n", " ")
        return "refused"
    return "value"


def main(first: int, step: int) -> None:
    np.seterr(all="ignore")
    found = cases()
    op_fuzz._bound_memory()
    report = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for number in range(first, len(found), step):
        name, run = found[number]
        print(f"{number} begins {name}", file=report)
        print(f"{number} ends {outcome(run)}", file=report)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
