"""Parts of graphs of which one runs at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.grouping import group, tuple_
from dtfctl.runtime.ops.tensor_array_ops import TensorArray

CRITICAL_SECTIONS = "critical_sections"
CRITICAL_SECTION_EXECUTIONS = "critical_section_executions"


class Execution(NamedTuple):
    """One part of a graph that runs in a section: the op that locks it, and the resources that it uses."""

    op: Operation
    handle: Tensor
    resources: list[Tensor]
    exclusive_resource_access: bool


class CriticalSection:
    """A lock of parts of graphs: of all `execute`d in one section, or in sections of one `shared_name`, one runs.

    Raises:
        ValueError: a definition is given, which is not supported.
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if critical_section_def:
            raise ValueError("Argument `critical_section_def` is not supported.")
        with name_scope(name, "CriticalSection") as scope:
            whole = scope.rstrip("/")
            self._handle = apply_op("MutexV2", scope, shared_name=whole if shared_name is None else shared_name)
        context.get_default_graph().add_to_collection(CRITICAL_SECTIONS, self)

    @property
    def name(self) -> str:
        return self._handle.op.name

    def execute(self, fn: Callable[[], Any], exclusive_resource_access: bool = True, name: str | None = None) -> Any:
        """Run what `fn` builds while no other part of this section runs, and return what it returns.

        Args:
            exclusive_resource_access: no other section may use the same resources.

        Raises:
            ValueError: `fn` enters this section again, or uses resources of a part of another that must not be shared.
        """
        graph = context.get_default_graph()
        with name_scope(name, "critical_section_execute"):
            lock = apply_op("MutexLock", mutex=self._handle)
            before = len(graph.get_operations())
            with graph.control_dependencies([lock.op]):
                result = fn()
            made = graph.get_operations()[before:]
            self._wait_before_lock(made, lock.op)
            resources = list(
                {id(t): t for op in made for t in op.inputs if t.dtype.base_dtype == dtypes.resource}.values()
            )
            self._check(resources, exclusive_resource_access)
            flat = nest.flatten(result)
            with graph.control_dependencies([_run(x) for x in flat]):
                with graph.colocate_with(self._handle.op):
                    done = make_op("ConsumeMutexLock", mutex_lock=lock)
                flat = tuple_(flat) if flat else flat
            with graph.control_dependencies([done]):
                outputs = nest.pack_sequence_as(result, [_run(x) for x in flat])
        execution = Execution(lock.op, self._handle, resources, exclusive_resource_access)
        graph.add_to_collection(CRITICAL_SECTION_EXECUTIONS, execution)
        return outputs

    def _wait_before_lock(self, made: list[Operation], lock: Operation) -> None:
        """Let what the part takes from outside be there before the lock is taken."""
        inside = {*made, lock, *lock.control_inputs, *(t.op for t in lock.inputs)}
        outside = [t.op for op in made for t in op.inputs] + [c for op in made for c in op.control_inputs]
        needed = [op for op in dict.fromkeys(outside) if op not in inside]
        if needed:
            lock._add_control_input(group(*needed))

    def _is_this(self, handle: Tensor) -> bool:
        mine = self._handle.op
        return handle.op.type == "MutexV2" and (
            handle is self._handle
            or (
                bool(handle.op.attr("shared_name"))
                and handle.op.attr("shared_name") == mine.attr("shared_name")
                and handle.op.device == mine.device
            )
        )

    def _check(self, resources: list[Tensor], exclusive: bool) -> None:
        if any(self._is_this(t) for t in resources):
            raise ValueError(
                f"Attempting to lock a CriticalSection in which we are already running (signature={self.name}). "
                "This is illegal and may cause deadlocks."
            )
        for other in context.get_default_graph().get_collection(CRITICAL_SECTION_EXECUTIONS):
            if self._is_this(other.handle) or not (exclusive or other.exclusive_resource_access):
                continue
            both = [t for t in resources if any(t is o for o in other.resources)]
            if both:
                raise ValueError(
                    f"This execution would access resources: {both}. Either this lock (CriticalSection: {self._handle})"
                    f" or lock '{other}' (CriticalSection: {other.handle}) requested exclusive resource access of this"
                    " resource. Did you mean to call execute with keyword argument exclusive_resource_access=False?"
                )


def _run(x: Any) -> Any:
    if isinstance(x, TensorArray):
        return x.identity()
    return group(x) if isinstance(x, Operation) else array_ops.identity(x)
