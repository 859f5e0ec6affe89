"""What numba makes of `loops.soon`: an instruction that asks memory for an address and does not wait. Imports numba."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dtfctl.runtime.kernels.compiled import loops

# Without types: what generates code has none.
_ir: Any = import_module("llvmlite.ir")
_cgutils: Any = import_module("numba.core.cgutils")
_types: Any = import_module("numba.core.types")
_extending: Any = import_module("numba.extending")


def _prefetch(typing: Any, table: Any, row: Any, column: Any) -> Any:
    return _types.void(table, row, column), _generate


def _generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    kind, *types = signature.args
    array = context.make_array(kind)(context, builder, args[0])
    at = [context.cast(builder, i, t, _types.intp) for i, t in zip(args[1:], types)]
    place = _cgutils.get_item_pointer(context, builder, kind, array, at, wraparound=False)
    byte, number = _ir.IntType(8).as_pointer(), _ir.IntType(32)
    form = _ir.FunctionType(_ir.VoidType(), [byte, number, number, number])
    call = builder.module.declare_intrinsic("llvm.prefetch", [byte], form)
    # To be read, to be kept in all caches, and data.
    builder.call(call, [builder.bitcast(place, byte), number(0), number(3), number(1)])
    return context.get_dummy_value()


prefetch = _extending.intrinsic(_prefetch)


def _soon(table: Any, row: Any, column: Any) -> Any:
    def ask(table: Any, row: Any, column: Any) -> Any:
        return prefetch(table, row, column)

    return ask


def teach() -> None:
    """Have loops that are compiled from now on ask in advance. Call once."""
    _extending.overload(loops.soon)(_soon)
