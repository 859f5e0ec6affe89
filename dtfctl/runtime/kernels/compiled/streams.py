"""Writing past the caches, for compiled loops whose results are larger than those.

A plain store to a line that is in no cache reads it first: a third of the traffic of what reads one array and writes
one. Loops fill a tile, which stays in the first cache, and its whole lines go to memory from there. What is written is
the tile, bit for bit.

Imports numba: only compiled loops that use it import this.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# Bytes that go to memory at once.
LINE = 64


@intrinsic
def ahead(typing: Any, array: Any) -> Any:
    """Count the elements of a contiguous vector before its first whole line; it may have fewer."""
    if not _is_vector(array):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        start = _address(builder, _struct(context, builder, array, args[0]).data)
        bytes_ahead = builder.and_(builder.neg(start), ir.Constant(start.type, LINE - 1))
        return builder.udiv(bytes_ahead, ir.Constant(start.type, array.dtype.bitwidth // 8))

    return types.intp(array), codegen


@intrinsic
def stream(typing: Any, tile: Any, out: Any) -> Any:
    """out[:] = tile[: out.size], past the caches where `out` starts with a line; follow the last one by `fence`."""
    if not (_is_vector(tile) and _is_vector(out) and tile.dtype == out.dtype):
        return None
    lanes = LINE * 8 // out.dtype.bitwidth

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source = _struct(context, builder, tile, args[0]).data
        into = _struct(context, builder, out, args[1])
        size, target = builder.extract_value(into.shape, 0), into.data
        zero, one, width = (ir.Constant(size.type, n) for n in (0, 1, lanes))
        offset = builder.and_(_address(builder, target), ir.Constant(size.type, LINE - 1))
        lines = builder.and_(size, ir.Constant(size.type, -lanes))
        whole = builder.select(builder.icmp_unsigned("==", offset, zero), lines, zero)
        line = ir.VectorType(context.get_data_type(out.dtype), lanes).as_pointer()
        hint = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        with cgutils.for_range_slice(builder, zero, whole, width) as (i, _):
            value = builder.load(builder.bitcast(builder.gep(source, [i]), line), align=out.dtype.bitwidth // 8)
            stored = builder.store(value, builder.bitcast(builder.gep(target, [i]), line), align=LINE)
            stored.set_metadata("nontemporal", hint)
        with cgutils.for_range_slice(builder, whole, size, one) as (i, _):
            builder.store(builder.load(builder.gep(source, [i])), builder.gep(target, [i]))
        return context.get_dummy_value()

    return types.void(tile, out), codegen


@intrinsic
def fence(typing: Any) -> Any:
    """Let all who see what this thread stores from here on see what it has streamed."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


def _is_vector(array: Any) -> bool:
    return isinstance(array, types.Array) and array.ndim == 1 and array.layout == "C"


def _struct(context: Any, builder: Any, array: Any, value: Any) -> Any:
    return context.make_array(array)(context, builder, value)


def _address(builder: Any, pointer: Any) -> Any:
    return builder.ptrtoint(pointer, cgutils.intp_t)
