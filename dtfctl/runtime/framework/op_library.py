"""The library of ops that graphs are made of, which is loaded piece by piece as graphs ask for ops.

The framework knows how ops are described, built, shaped and differentiated; which ops there are is said from above
(`dtfctl/runtime/__init__.py` names `dtfctl.runtime.ops`). A library is a package with

    op_defs          importing it enters each op's signature, and what of its facts is short
    shapes.FAMILY    importing it registers shape functions of a family of ops; may be missing
    gradients.FAMILY importing it registers their gradients; may be missing
    math_ops         importing it gives Tensors their operators

A module above the kernels computes what static shapes need: `compute(graph_def, name)`.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

    from dtfctl.protocol import graph_pb2

_package: list[str] = []
_computer: list[str] = []


def use_op_library(package: str, computer: str) -> None:
    """Say which package has the ops, and which module computes graphs of constants."""
    _package[:] = [package]
    _computer[:] = [computer]


def compute_constant(graph_def: graph_pb2.GraphDef, name: str) -> np.ndarray[Any, Any] | None:
    """Compute the only output of a node of a graph of constants; None where that takes a step, is large or fails."""
    for computer in _computer:
        value: np.ndarray[Any, Any] | None = importlib.import_module(computer).compute(graph_def, name)
        return value
    return None


def load_entries() -> None:
    """Enter the signatures of all ops."""
    for package in _package:
        importlib.import_module(f"{package}.op_defs")


def load_operators() -> None:
    """Give Tensors their operators: gradients compute with them."""
    for package in _package:
        importlib.import_module(f"{package}.math_ops")


@cache
def load_family(kind: Literal["shapes", "gradients"], family: str) -> None:
    """Register the shape functions or the gradients of a family of ops, if there are any."""
    for package in _package:
        name = f"{package}.{kind}.{family}"
        if importlib.util.find_spec(f"{package}.{kind}") is not None and importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
