"""The ranks an op's inputs may have, as TensorFlow's shape functions demand them: checked when a node is created.

`signatures/input_ranks.json` has them by op and input, as the lowest rank and the highest (null where there is none).
An input that is not there takes every rank, or its op's own shape function says which.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from dtfctl.runtime.framework.op_signature import Arg

if TYPE_CHECKING:
    from dtfctl.runtime.framework.operation import Operation


@cache
def _by_op() -> dict[str, dict[str, tuple[int, int | None]]]:
    text = resources.files("dtfctl.runtime.framework.signatures").joinpath("input_ranks.json").read_text()
    table: dict[str, dict[str, tuple[int, int | None]]] = json.loads(text)
    return table


def check_input_ranks(op: Operation) -> None:
    """Compare the static ranks of an op's inputs with those it takes.

    Raises:
        ValueError: an input has another rank.
    """
    rules = _by_op().get(op.type)
    if rules is None:
        return
    at = 0
    for arg in op.signature.inputs:
        count = _tensors(arg, op)
        if arg.name in rules:
            low, high = rules[arg.name]
            for tensor in op.inputs[at : at + count]:
                _check(op, arg, tensor.shape.rank, low, high)
        at += count


def _tensors(arg: Arg, op: Operation) -> int:
    if arg.number_attr:
        return op.attrs[arg.number_attr].i
    return len(op.attrs[arg.type_list_attr].list.type) if arg.type_list_attr else 1


def _check(op: Operation, arg: Arg, rank: int | None, low: int, high: int | None) -> None:
    if rank is None or (low <= rank and (high is None or rank <= high)):
        return
    bound = "" if low == high else "at least " if rank < low else "at most "
    want = low if rank < low else high
    raise ValueError(
        f"Shape must be {bound}rank {want} but is rank {rank} for '{op.name}' (op: '{op.type}'), input '{arg.name}'"
    )
