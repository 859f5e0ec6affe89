"""What numba makes of `loops.soon`: instructions that ask memory for addresses and do not wait. Imports numba."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from dtfctl.runtime.kernels.compiled import loops

# How many rows ahead of the one that is worked on memory is asked for one, and for at most how many bytes of it: the
# rest of a long row comes by itself.
ROWS_AHEAD = 16
_LINE, _MOST_AHEAD = 64, 512


@intrinsic
def _prefetch(typing: Any, table: Any, row: Any, column: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind, *kinds = signature.args
        array = context.make_array(kind)(context, builder, args[0])
        at = [context.cast(builder, i, t, types.intp) for i, t in zip(args[1:], kinds)]
        place = cgutils.get_item_pointer(context, builder, kind, array, at, wraparound=False)  # type: ignore[no-untyped-call]
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        call = builder.module.declare_intrinsic("llvm.prefetch", [byte], form)
        # To be read, to be kept in all caches, and data.
        builder.call(call, [builder.bitcast(place, byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(table, row, column), codegen


@overload(loops.soon)
def _soon(table: Any, indices: Any, i: Any) -> Any:
    def ask(table: Any, indices: Any, i: Any) -> None:
        if i + ROWS_AHEAD < indices.size:
            j = 0
            # A range of a step that is not known may be an error, which an image has no words for.
            while j < min(table.shape[1], _MOST_AHEAD // table.itemsize):
                _prefetch(table, indices[i + ROWS_AHEAD], j)  # type: ignore[call-arg]
                j += _LINE // table.itemsize

    return ask
