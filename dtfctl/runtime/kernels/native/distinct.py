"""Which numbers of an array are different ones, as LLVM's instructions: a table with open addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

I32, I64 = ir.IntType(32), ir.IntType(64)
# The golden ratio's share of all numbers of 64 bits: products with it spread over their upper bits.
_SPREAD = 0x9E3779B97F4A7C15


def table_size(count: int) -> int:
    """Return how many places the table for so many numbers has: a power of two, at most half of them taken."""
    return 1 << max((2 * count - 1).bit_length(), 3)


def distinct(count: int, kind: Any) -> Callable[..., None]:
    """Make what writes the search for the different ones among `count` numbers of an LLVM type.

    It gets addresses: the numbers, a table of `table_size(count)` zeros (i32), and what is filled: for each number
    which of the different ones it is (i32), these in the order in which they come first, how many there are (i32).
    """
    size = table_size(count)
    shift = 64 - (size.bit_length() - 1)

    def write(b: Any, numbers: Any, table: Any, which: Any, chosen: Any, total: Any) -> None:
        function = b.function
        before = b.block
        turn, look, other, fresh, known, done, after = (function.append_basic_block() for _ in range(7))
        b.branch(turn)
        b.position_at_end(turn)
        at, found = b.phi(I64), b.phi(I32)
        at.add_incoming(I64(0), before)
        found.add_incoming(I32(0), before)
        number = b.load(b.gep(numbers, [at], source_etype=kind), typ=kind)
        wide = b.sext(number, I64) if kind.width < 64 else number
        first = b.lshr(b.mul(wide, I64(_SPREAD)), I64(shift))
        b.branch(look)

        b.position_at_end(look)
        place = b.phi(I64)
        place.add_incoming(first, turn)
        slot = b.gep(table, [place], source_etype=I32)
        held = b.load(slot, typ=I32)
        b.cbranch(b.icmp_unsigned("==", held, I32(0)), fresh, other)

        b.position_at_end(other)
        # What is in the table is one more than which it is.
        own = b.sub(held, I32(1))
        same = b.load(b.gep(chosen, [b.zext(own, I64)], source_etype=kind), typ=kind)
        following = b.and_(b.add(place, I64(1)), I64(size - 1))
        place.add_incoming(following, other)
        b.cbranch(b.icmp_unsigned("==", same, number), known, look)

        b.position_at_end(fresh)
        more = b.add(found, I32(1))
        b.store(more, slot)
        b.store(number, b.gep(chosen, [b.zext(found, I64)], source_etype=kind))
        b.branch(done)

        b.position_at_end(known)
        b.branch(done)

        b.position_at_end(done)
        is_which, so_far = b.phi(I32), b.phi(I32)
        is_which.add_incoming(found, fresh)
        is_which.add_incoming(own, known)
        so_far.add_incoming(more, fresh)
        so_far.add_incoming(found, known)
        b.store(is_which, b.gep(which, [at], source_etype=I32))
        after_this = b.add(at, I64(1))
        at.add_incoming(after_this, done)
        found.add_incoming(so_far, done)
        b.cbranch(b.icmp_signed("<", after_this, I64(count)), turn, after)

        b.position_at_end(after)
        b.store(so_far, total)

    return write
