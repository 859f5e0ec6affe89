"""Updates of variables by optimizers as loops: one pass over a variable, its slots and its gradient.

Formulas, and the order of what is done, are those of kernels/into/updates.py, so values are the same to the last bit.
Inputs are the gradient, the rates in one array, and what is changed where it is: the variable, then its slots.

    _Adam      gradient, rates, variable, slots...                      all of them of one shape, flat
    _RowsAdam  indices, rows of the gradient, rates, variable, slots... rows of the same index are added up first
    _AddRows   indices, rows, a factor, variable                        rows times the factor are added, in their order
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from dtfctl.runtime.kernels.native.distinct import distinct, table_size
from dtfctl.runtime.kernels.native.lowering import ELEMENTS, Op, lowers, view_of
from dtfctl.runtime.kernels.native.nests import Choice, Value, View


def _root(b: Any, x: Any) -> Any:
    return b.call(b.module.declare_intrinsic("llvm.sqrt", [x.type], ir.FunctionType(x.type, [x.type])), [x])


class _Update:
    """What an update takes and changes.

    Args:
        rows: how many rows of the gradient there are; None for all.
    """

    def __init__(self, op: Op, grad: View, rates: View, changed: list[View], rows: View | None = None) -> None:
        self.op, self.grad, self._rates, self.changed, self._rows = op, grad, rates, changed, rows
        for view in changed:
            op.loops.buffers[view.buffer].role = "updated"

    def rate(self, n: int) -> View:
        return View(self._rates.buffer, self.grad.shape, (0,) * len(self.grad.shape), n)

    def put(self, target: View, emit: Callable[..., Any], *sources: View) -> None:
        self.op.loops.put(emit, sources, target, self._rows)


def _of_rows(op: Op) -> _Update:
    """Add up the rows of each index, and let the update change the rows of variables that the indices choose."""
    loops = op.loops
    index, grad, rates, *changed = (view_of(v) for v in op.inputs)
    count, width = grad.shape
    which, chosen, total = loops.room("i4", (count,)), loops.room(loops.kind(index), (count,)), loops.room("i4", (1,))
    table = loops.map(lambda b: ir.Constant(ir.IntType(32), 0), [], "i4", (table_size(count),))
    loops.routine(distinct(count, ELEMENTS[loops.kind(index)]), [index, table], which, chosen, total)
    sums = loops.map(lambda b: ir.Constant(ELEMENTS[op.kind], 0.0), [], op.kind, grad.shape)
    to = View(which.buffer, grad.shape, (1, 0))
    target = View(sums.buffer, grad.shape, (0, 1), 0, (Choice(to, width, count, is_made=True),))
    loops.put(lambda b, x, y: b.fadd(x, y), [target, grad], target)
    # What is chosen are some of the indices.
    loops.checks.append(Choice(index, width, changed[0].shape[0]))
    place = Choice(View(chosen.buffer, grad.shape, (1, 0)), width, changed[0].shape[0], is_made=True)
    tables = [View(table.buffer, grad.shape, (0, 1), table.offset, (place,)) for table in changed]
    return _Update(op, sums, rates, tables, total)


@lowers("_AddRows")
def _add_rows(op: Op) -> list[Value]:
    index, rows, factor, table = (view_of(v) for v in op.inputs)
    op.loops.buffers[table.buffer].role = "updated"
    place = Choice(View(index.buffer, rows.shape, (1, 0)), rows.shape[1], table.shape[0])
    target = View(table.buffer, rows.shape, (0, 1), table.offset, (place,))
    everywhere = View(factor.buffer, rows.shape, (0, 0))
    op.loops.put(lambda b, old, x, times: b.fadd(old, b.fmul(x, times)), [target, rows, everywhere], target)
    return [table]


def _updates(name: str) -> Callable[[Callable[[_Update, bool], None]], Callable[[_Update, bool], None]]:
    def add(rule: Callable[[_Update, bool], None]) -> Callable[[_Update, bool], None]:
        @lowers(name)
        def _lower(op: Op) -> list[Value]:
            grad, rates, *changed = (view_of(v) for v in op.inputs)
            rule(_Update(op, grad, rates, changed), bool(op.attr("flag")))
            return [*changed]

        @lowers(f"_Rows{name[1:]}")
        def _lower_rows(op: Op) -> list[Value]:
            rule(_of_rows(op), bool(op.attr("flag")))
            return [view_of(v) for v in op.inputs[3:]]

        return rule

    return add


def _towards(b: Any, old: Any, new: Any, share: Any) -> Any:
    """Go a part of the way from one number to another."""
    return b.fadd(old, b.fmul(b.fsub(new, old), share))


@_updates("_Adam")
def _adam(update: _Update, nesterov: bool) -> None:
    """Rates: alpha, beta1, 1 - beta1, 1 - beta2, epsilon."""
    var, m, v = update.changed
    g, alpha, beta1, rest1, rest2, epsilon = update.grad, *map(update.rate, range(5))
    update.put(m, _towards, m, g, rest1)
    update.put(v, lambda b, v, g, share: _towards(b, v, b.fmul(g, g), share), v, g, rest2)
    if nesterov:

        def look_ahead(b: Any, x: Any, m: Any, v: Any, g: Any, alpha: Any, e: Any, beta: Any, rest: Any) -> Any:
            slope = b.fadd(b.fmul(g, rest), b.fmul(m, beta))
            return b.fsub(x, b.fmul(slope, b.fdiv(alpha, b.fadd(_root(b, v), e))))

        update.put(var, look_ahead, var, m, v, g, alpha, epsilon, beta1, rest1)
        return

    def step(b: Any, x: Any, m: Any, v: Any, alpha: Any, e: Any) -> Any:
        return b.fsub(x, b.fmul(b.fdiv(m, b.fadd(_root(b, v), e)), alpha))

    update.put(var, step, var, m, v, alpha, epsilon)


@_updates("_Momentum")
def _momentum(update: _Update, nesterov: bool) -> None:
    """Rates: the learning rate, the momentum, their product."""
    var, accum = update.changed
    g, lr, rate, both = update.grad, *map(update.rate, range(3))
    update.put(accum, lambda b, a, g, rate: b.fadd(b.fmul(a, rate), g), accum, g, rate)
    if nesterov:

        def look_ahead(b: Any, x: Any, a: Any, g: Any, lr: Any, both: Any) -> Any:
            return b.fsub(b.fsub(x, b.fmul(a, both)), b.fmul(g, lr))

        update.put(var, look_ahead, var, accum, g, lr, both)
        return
    update.put(var, lambda b, x, a, lr: b.fsub(x, b.fmul(a, lr)), var, accum, lr)


@_updates("_RMSProp")
def _rms_prop(update: _Update, flag: bool) -> None:
    """Rates: the learning rate, 1 - rho, the momentum, epsilon."""
    var, ms, mom = update.changed
    g, lr, rest, rate, epsilon = update.grad, *map(update.rate, range(4))
    update.put(ms, lambda b, ms, g, share: _towards(b, ms, b.fmul(g, g), share), ms, g, rest)

    def roll(b: Any, mom: Any, g: Any, ms: Any, lr: Any, rate: Any, e: Any) -> Any:
        return b.fadd(b.fmul(mom, rate), b.fmul(b.fdiv(g, _root(b, b.fadd(ms, e))), lr))

    update.put(mom, roll, mom, g, ms, lr, rate, epsilon)
    update.put(var, lambda b, x, mom: b.fsub(x, mom), var, mom)


@_updates("_Adagrad")
def _adagrad(update: _Update, updates: bool) -> None:
    """Rates: the learning rate."""
    var, accum = update.changed
    g, lr = update.grad, update.rate(0)
    if updates:
        update.put(accum, lambda b, a, g: b.fadd(a, b.fmul(g, g)), accum, g)
    update.put(var, lambda b, x, g, a, lr: b.fsub(x, b.fmul(b.fdiv(g, _root(b, a)), lr)), var, g, accum, lr)


@_updates("_Ftrl")
def _ftrl(update: _Update, flag: bool) -> None:
    """Rates: the learning rate, the limit, twice what quadratic terms cost; powers are square roots."""
    var, accum, linear = update.changed
    g, lr, limit, square = update.grad, *map(update.rate, range(3))

    def turn(b: Any, n: Any, x: Any, a: Any, g: Any, lr: Any) -> Any:
        grown = b.fdiv(b.fsub(_root(b, b.fadd(a, b.fmul(g, g))), _root(b, a)), lr)
        return b.fadd(n, b.fsub(g, b.fmul(grown, x)))

    update.put(linear, turn, linear, var, accum, g, lr)
    update.put(accum, lambda b, a, g: b.fadd(a, b.fmul(g, g)), accum, g)

    def shrink(b: Any, n: Any, a: Any, lr: Any, limit: Any, square: Any) -> Any:
        least = b.fneg(limit)
        held = b.select(b.fcmp_ordered("<", n, least), least, n)
        held = b.select(b.fcmp_ordered(">", held, limit), limit, held)
        return b.fdiv(b.fsub(held, n), b.fadd(b.fdiv(_root(b, a), lr), square))

    update.put(var, shrink, linear, accum, lr, limit, square)
