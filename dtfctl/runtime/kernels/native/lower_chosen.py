"""Ops that take or add up rows by number, as loops: look-ups, sums by number, sparse matrices.

The numbers are operands of a region, which looks at all of them before anything is read or written by them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from dtfctl.runtime.kernels.compiled.jit import LEAST_BYTES
from dtfctl.runtime.kernels.native import scalars
from dtfctl.runtime.kernels.native.lower_elements import SINGLE, div, sub
from dtfctl.runtime.kernels.native.lowering import ELEMENTS, NUMBERS, Op, kind_of, lowers, need, view_of
from dtfctl.runtime.kernels.native.nests import Choice, Unsupported, Value, View, strides_of

_INDICES = frozenset(["i4", "i8"])
_MINUS_ZERO = -0.0


def _numbers(op: Op, n: int) -> View:
    """Return input `n`, which chooses rows.

    Raises:
        Unsupported: the region computes it itself, so that nobody can look at it before it begins.
    """
    index = view_of(op.inputs[n])
    if op.loops.buffers[index.buffer].role != "operand" or kind_of(op.specs[n]) not in _INDICES:
        raise Unsupported
    return index


def _along(index: View, shape: tuple[int, ...], before: int) -> View:
    """Let an index be the same along all dimensions of a shape but its own, which `before` others precede."""
    after = len(shape) - before - len(index.shape)
    return View(index.buffer, shape, (0,) * before + index.strides + (0,) * after, index.offset)


def _column(index: View, n: int) -> View:
    """Return one of the numbers of each place of a sparse value."""
    return View(index.buffer, index.shape[:-1], index.strides[:-1], index.offset + n * index.strides[-1])


@lowers("Gather", "GatherV2")
def _gather(op: Op) -> list[Value]:
    need(op.kind, NUMBERS)
    table, index = view_of(op.inputs[0]), _numbers(op, 1)
    if op.attr("batch_dims") or op.outputs[0].nbytes >= LEAST_BYTES:
        # What is past the caches has a loop that asks for rows ahead of time.
        raise Unsupported
    axis = int(op.fixed(2).item()) % len(table.shape) if op.name == "GatherV2" else 0
    rest = table.strides[axis + 1 :]
    choice = Choice(_along(index, op.shape, axis), table.strides[axis], table.shape[axis])
    strides = table.strides[:axis] + (0,) * len(index.shape) + rest
    return [op.map(_itself, View(table.buffer, op.shape, strides, table.offset, (choice,)))]


@lowers("GatherNd")
def _gather_nd(op: Op) -> list[Value]:
    need(op.kind, NUMBERS)
    table, index = view_of(op.inputs[0]), _numbers(op, 1)
    depth = index.shape[-1]
    choices = tuple(
        Choice(_along(_column(index, n), op.shape, 0), table.strides[n], table.shape[n]) for n in range(depth)
    )
    strides = (0,) * (len(index.shape) - 1) + table.strides[depth:]
    return [op.map(_itself, View(table.buffer, op.shape, strides, table.offset, choices))]


def _itself(b: Any, x: Any) -> Any:
    return x


def _add(b: Any, total: Any, x: Any) -> Any:
    return b.add(total, x) if isinstance(x.type, ir.IntType) else b.fadd(total, x)


def _scattered(
    op: Op,
    rows: tuple[int, ...],
    begin: Any,
    emit: Callable[..., Any],
    sources: Sequence[Value],
    shape: tuple[int, ...],
    choices: Sequence[Choice],
    inner: int,
) -> View:
    """Begin with one number everywhere, and then change what is chosen, one after the other.

    Args:
        rows: the shape of what is made; emit: of what is there and what the sources have.
        shape: of what is gone through; the last `inner` dimensions are as in `rows`.
    """
    kind = op.kind
    made = op.loops.room(kind, rows)
    op.loops.put(lambda b: ir.Constant(ELEMENTS[kind], begin), [], made)
    own = strides_of(rows)[len(rows) - inner :]
    target = View(made.buffer, shape, (0,) * (len(shape) - inner) + own, 0, tuple(choices))
    op.loops.put(emit, [target, *sources], target)
    return made


@lowers("UnsortedSegmentSum", heavy=True)
def _unsorted_segment_sum(op: Op) -> list[Value]:
    need(op.kind, NUMBERS)
    index, shape = _numbers(op, 1), op.specs[0].shape
    count = int(op.fixed(2).item())
    if op.shape[:1] != (count,) or shape[: len(index.shape)] != index.shape:
        raise Unsupported
    inner = len(shape) - len(index.shape)
    along = _along(index, shape, 0)
    stride = strides_of(op.shape)[0]

    def emit(b: Any, total: Any, x: Any, number: Any) -> Any:
        # What is below zero is nobody's: what is added to the first row changes nothing.
        nothing = ir.Constant(x.type, 0 if isinstance(x.type, ir.IntType) else _MINUS_ZERO)
        return _add(b, total, b.select(b.icmp_signed("<", number, number.type(0)), nothing, x))

    begin = 0 if op.kind in _INDICES else 0.0
    choice = Choice(along, stride, count, skips=True)
    return [_scattered(op, op.shape, begin, emit, [op.inputs[0], along], shape, [choice], inner)]


def _sparse(op: Op, shape_at: int) -> tuple[View, tuple[int, ...]]:
    """Return the places of a sparse value, and its shape."""
    index = _numbers(op, 0)
    shape = tuple(int(n) for n in op.fixed(shape_at).reshape(-1))
    if len(index.shape) != 2 or index.shape[1] != len(shape) or not all(shape) or len(op.specs[1].shape) != 1:
        raise Unsupported
    return index, shape


@lowers("SparseTensorDenseMatMul", heavy=True)
def _sparse_product(op: Op) -> list[Value]:
    need(op.kind)
    index, shape = _sparse(op, 2)
    dense = view_of(op.inputs[3])
    if len(shape) != 2 or len(dense.shape) != 2:
        raise Unsupported
    to, of = (1, 0) if op.attr("adjoint_a") else (0, 1)
    down, across = dense.strides[::-1] if op.attr("adjoint_b") else dense.strides
    inner = dense.shape[1 if op.attr("adjoint_b") else 0]
    if inner != shape[of] or op.shape[0] != shape[to]:
        raise Unsupported
    over = (index.shape[0], op.shape[1])
    rows = View(
        dense.buffer, over, (0, across), dense.offset, (Choice(_along(_column(index, of), over, 0), down, inner),)
    )
    values = view_of(op.inputs[1])
    factors = View(values.buffer, over, (values.strides[0], 0), values.offset)
    choice = Choice(_along(_column(index, to), over, 0), op.shape[1], shape[to])
    return [
        _scattered(op, op.shape, 0.0, lambda b, t, x, y: b.fadd(t, b.fmul(x, y)), [factors, rows], over, [choice], 1)
    ]


@lowers("SparseReduceSum", heavy=True)
def _sparse_reduce_sum(op: Op) -> list[Value]:
    need(op.kind, NUMBERS)
    index, shape = _sparse(op, 2)
    axes = op.axes(3, len(shape))
    kept = [n for n in range(len(shape)) if n not in axes]
    rows = tuple(shape[n] for n in kept)
    strides = dict(zip(kept, strides_of(rows)))
    # Numbers along what is added up choose nothing, but have to be right.
    choices = [Choice(_column(index, n), strides.get(n, 0), shape[n]) for n in range(len(shape))]
    begin = 0 if op.kind in _INDICES else 0.0
    made = _scattered(op, rows or (1,), begin, _add, [op.inputs[1]], index.shape[:1], choices, 0)
    return [op.loops.reshape(made, op.shape)]


@lowers("SparseSoftmax", heavy=True)
def _sparse_softmax(op: Op) -> list[Value]:
    need(op.kind, SINGLE)
    index, shape = _sparse(op, 2)
    if len(shape) != 2:
        raise Unsupported
    values, over = op.inputs[1], index.shape[:1]
    choice = Choice(_column(index, 0), 1, shape[0])

    def of(rows: View) -> View:
        return View(rows.buffer, over, (0,), 0, (choice,))

    def larger(b: Any, x: Any, y: Any) -> Any:
        function = b.module.declare_intrinsic("llvm.maximum", [x.type], ir.FunctionType(x.type, [x.type, x.type]))
        return b.call(function, [x, y])

    most = _scattered(op, shape[:1], float("-inf"), larger, [values], over, [choice], 0)
    powers = op.loops.map(lambda b, x, m: scalars.exp(b, b.fsub(x, m)), [values, of(most)], op.kind, over)
    total = _scattered(op, shape[:1], 0.0, _add, [powers], over, [choice], 0)
    return [op.map(div, powers, of(total))]


@lowers("SparseSoftmaxCrossEntropyWithLogits", heavy=True)
def _cross_entropy_by_label(op: Op) -> list[Value]:
    need(op.kind, SINGLE)
    logits, labels = view_of(op.inputs[0]), _numbers(op, 1)
    if len(logits.shape) != 2 or labels.shape != logits.shape[:1]:
        raise Unsupported
    (rows, classes), kind = logits.shape, op.kind
    most = op.loops.reduce("max", _itself, [logits], logits.shape, [1])
    powers = op.loops.map(lambda b, x, m: scalars.exp(b, b.fsub(x, m)), [logits, most], kind, logits.shape)
    total = op.loops.reduce("sum", _itself, [powers], logits.shape, [1])
    picked = View(
        logits.buffer, (rows,), logits.strides[:1], logits.offset, (Choice(labels, logits.strides[1], classes),)
    )
    flat = [op.loops.reshape(v, (rows,)) for v in (total, most)]
    loss = op.loops.map(
        lambda b, t, x, m: b.fsub(scalars.log(b, t), b.fsub(x, m)), [flat[0], picked, flat[1]], kind, (rows,)
    )
    grad = op.loops.map(div, [powers, total], kind, logits.shape)
    right = View(grad.buffer, (rows,), (classes,), 0, (Choice(labels, 1, classes),))
    op.loops.put(lambda b, x: sub(b, x, ir.Constant(x.type, 1.0)), [right], right)
    return [loss, grad]
