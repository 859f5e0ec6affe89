"""Kernels of others: what they give is looked at, as plans take what a kernel gives without asking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InternalError

if TYPE_CHECKING:
    from dtfctl.runtime.kernels.registry import KernelBuild


def looked_at(factory: Callable[[KernelBuild], Callable[..., Any]]) -> Callable[[KernelBuild], Callable[..., Any]]:
    """Make a factory's kernels fail where they give another number of outputs than their op has, or another type."""

    def make(build: KernelBuild) -> Callable[..., Any]:
        kernel, node = factory(build), build.node
        wanted = node.output_types
        if any(kind.is_ref for kind in wanted):
            return kernel
        only = wanted[0].np if len(wanted) == 1 else None

        def run(*args: Any) -> Any:
            found = kernel(*args)
            if only is None or getattr(found, "dtype", None) != only:
                _refuse(node.op, node.name, wanted, found)
            return found

        return run

    return make


def _refuse(op: str, node: str, wanted: Sequence[DType], found: Any) -> None:
    given = () if found is None else found if isinstance(found, (tuple, list)) else (found,)
    if len(given) != len(wanted):
        what = f"a tuple of {len(given)}" if isinstance(found, (tuple, list)) else type(found).__name__
        raise InternalError(f"The kernel of {op} gave {what}, and {op} has {len(wanted)} outputs", node)
    for number, (one, kind) in enumerate(zip(given, wanted)):
        is_what = getattr(one, "dtype", None) or type(one).__name__
        if is_what != kind.np and not kind.is_object:
            raise InternalError(f"The kernel of {op} gave {is_what} as output {number}, which is {kind.name}", node)
