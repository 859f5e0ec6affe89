"""The shapes of what a step gets from outside, before it has run: arguments, and the next elements of iterators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dtfctl.runtime.compiler.passes.rewrite import is_pure
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import OpError
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.spans import clock
from dtfctl.runtime.framework.structural_ops import NOTHING
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.noted import note_input
from dtfctl.runtime.kernels.registry import op_promises

Shapes: TypeAlias = tuple[Any, ...]


class Incoming:
    """What a partition gets from outside.

    Args:
        order: its nodes, in running order.
    """

    def __init__(self, order: Sequence[Node], env: Environment) -> None:
        # The nodes that take an element which may be looked at before, and how to get the handles of their iterators.
        self._handles: list[tuple[str, Callable[[StepContext, Sequence[Any]], Any]]] = []
        for node in order:
            if op_promises(node.op, "takes_next"):
                source = node.inputs[0].node
                handle = None if node.control_inputs or source.control_inputs else _handle(source, env)
                if handle is None:
                    break
                self._handles.append((node.name, handle))
            elif env.ends.argument(node) is None and not _may_come_later(node):
                break

    @property
    def looks_ahead(self) -> bool:
        """Whether it is asked before a step has begun, as it does not know afterwards."""
        return bool(self._handles)

    def shapes(self, step: StepContext, args: Sequence[Any]) -> Shapes:
        """Tell the shapes of arguments, and of what iterators give next; None for what is no array, or for nothing."""
        found: list[Any] = [getattr(arg, "shape", None) for arg in args]
        if self._handles:
            found += self._ahead(step, args)
        return tuple(found)

    def _ahead(self, step: StepContext, args: Sequence[Any]) -> list[Any]:
        # Whoever has no iterator does not import them.
        from dtfctl.runtime.kernels.data_flow.handles import lookup
        from dtfctl.runtime.kernels.dataset import iterator

        found: list[Any] = []
        for name, handle in self._handles:
            began = clock()
            try:
                found.append(lookup(step, handle(step, args), iterator.Iterator).next_shapes(step))
            except OpError:
                # The step fails at the node that has this error.
                found.append(None)
            finally:
                note_input(name, began, step)
        return found


def _handle(source: Node, env: Environment) -> Callable[[StepContext, Sequence[Any]], Any] | None:
    """Make what gives an iterator's handle before its node has run; None where only that can."""
    if not op_promises(source.op, "gives_iterator"):
        return None
    call = env.bind(source).call
    if not source.inputs:
        return lambda step, args: call(step)
    # By a string that is fed.
    argument = env.ends.argument(source.inputs[0].node)
    return None if argument is None else lambda step, args: call(step, args[argument])


def _may_come_later(node: Node) -> bool:
    """Tell whether the next element may be made before a node has run: nothing that makes it waits for that."""
    if node.op == "Const" or node.op in NOTHING or is_pure(node):
        return True
    if op_promises(node.op, "leaves_state") or op_promises(node.op, "gives_iterator"):
        return True
    # References to numbers are to variables; those to text may be to queues.
    types = [t for t in (*(e.dtype for e in node.inputs), *node.output_types) if t.is_ref]
    return bool(types) and dtypes.string not in [t.base_dtype for t in types]
