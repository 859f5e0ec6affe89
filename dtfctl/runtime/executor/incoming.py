"""The shapes of what a step gets from outside, before it has run: arguments, and the next elements of iterators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dtfctl.runtime.compiler.passes.rewrite import is_pure
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import NOTHING
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import lookup

Shapes: TypeAlias = tuple[Any, ...]

_ITERATORS = ("Iterator", "IteratorV2", "OneShotIterator")
_GETS_NEXT = ("IteratorGetNext", "IteratorGetNextSync")
_VARIABLES = ("VarHandleOp", "Variable", "VariableV2")
_RANDOM = ("RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal", "Multinomial")
_NO_HINDRANCE = {"_Arg", "Const", "Placeholder", *_VARIABLES, *_ITERATORS, *_RANDOM, *NOTHING}


class Incoming:
    """What a partition gets from outside.

    Args:
        order: its nodes, in running order.
    """

    def __init__(self, order: Sequence[Node], env: Environment) -> None:
        # How to get the handles of iterators whose next element may be looked at.
        self._handles: list[Callable[[StepContext], Any]] = []
        for node in order:
            if node.op in _GETS_NEXT:
                source = node.inputs[0].node
                if source.op not in _ITERATORS or node.control_inputs or source.control_inputs:
                    break
                self._handles.append(env.bind(source).call)
            elif not _may_come_later(node):
                break

    @property
    def looks_ahead(self) -> bool:
        """Whether it is asked before a step has begun, as it does not know afterwards."""
        return bool(self._handles)

    def shapes(self, step: StepContext, args: Sequence[Any]) -> Shapes:
        """Tell the shapes of arguments, None for what is no array, and of what iterators give next."""
        found: list[Any] = [getattr(arg, "shape", None) for arg in args]
        for handle in self._handles:
            from dtfctl.runtime.kernels.dataset.iterator import Iterator

            found.append(lookup(step, handle(step), Iterator).next_shapes(step))
        return tuple(found)


def _may_come_later(node: Node) -> bool:
    """Tell whether the next element may be made before a node has run: nothing that makes it waits for that."""
    if node.op in _NO_HINDRANCE or is_pure(node):
        return True
    held = [e.node for e in node.inputs if e.dtype.is_ref or e.dtype in (dtypes.resource, dtypes.variant)]
    return bool(held) and all(maker.op in _VARIABLES for maker in held) and not node.signature.takes_functions
