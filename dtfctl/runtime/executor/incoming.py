"""The shapes of what a step gets from outside, before it has run: arguments, and the next elements of iterators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dtfctl.runtime.compiler.passes.rewrite import is_pure
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import NOTHING
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import lookup

Shapes: TypeAlias = tuple[Any, ...]

_ITERATORS = ("Iterator", "IteratorV2", "OneShotIterator")
_CHOSEN = ("IteratorFromStringHandle", "IteratorFromStringHandleV2")
_GETS_NEXT = ("IteratorGetNext", "IteratorGetNextSync")
_VARIABLES = ("VarHandleOp", "Variable", "VariableV2")
_RANDOM = ("RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal", "Multinomial")
_NO_HINDRANCE = {"Const", *_VARIABLES, *_ITERATORS, *_CHOSEN, *_RANDOM, *NOTHING}


class Incoming:
    """What a partition gets from outside.

    Args:
        order: its nodes, in running order.
    """

    def __init__(self, order: Sequence[Node], env: Environment) -> None:
        # How to get the handles of iterators whose next element may be looked at.
        self._handles: list[Callable[[StepContext, Sequence[Any]], Any]] = []
        for node in order:
            if node.op in _GETS_NEXT:
                source = node.inputs[0].node
                handle = None if node.control_inputs or source.control_inputs else _handle(source, env)
                if handle is None:
                    break
                self._handles.append(handle)
            elif env.ends.argument(node) is None and not _may_come_later(node):
                break

    @property
    def looks_ahead(self) -> bool:
        """Whether it is asked before a step has begun, as it does not know afterwards."""
        return bool(self._handles)

    def shapes(self, step: StepContext, args: Sequence[Any]) -> Shapes:
        """Tell the shapes of arguments, and of what iterators give next; None for what is no array, or for nothing."""
        found: list[Any] = [getattr(arg, "shape", None) for arg in args]
        for handle in self._handles:
            from dtfctl.runtime.kernels.dataset.iterator import Iterator

            try:
                found.append(lookup(step, handle(step, args), Iterator).next_shapes(step))
            except OpError:
                # The step fails at the node that has this error.
                found.append(None)
        return tuple(found)


def _handle(source: Node, env: Environment) -> Callable[[StepContext, Sequence[Any]], Any] | None:
    """Make what gives an iterator's handle before its node has run; None where only that can."""
    if source.op in _ITERATORS:
        known = env.bind(source).call
        return lambda step, args: known(step)
    if source.op in _CHOSEN:
        # By a string that is fed.
        argument = env.ends.argument(source.inputs[0].node)
        chosen = env.bind(source).call
        return None if argument is None else lambda step, args: chosen(step, args[argument])
    return None


def _may_come_later(node: Node) -> bool:
    """Tell whether the next element may be made before a node has run: nothing that makes it waits for that."""
    if node.op in _NO_HINDRANCE or is_pure(node):
        return True
    held = [e.node for e in node.inputs if e.dtype.is_ref or e.dtype in (dtypes.resource, dtypes.variant)]
    return bool(held) and all(maker.op in _VARIABLES for maker in held) and not node.signature.takes_functions
