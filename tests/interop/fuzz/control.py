"""Conditions, loops and maps, in each other, and what they capture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.interop.fuzz import elementwise, shapes
from tests.interop.fuzz.program import FLOATS, Item, Program, Skip, Value

SMALL = [elementwise.unary, elementwise.binary, elementwise.binary, elementwise.operators, shapes.reduced, shapes.moved,
         shapes.multiplied, shapes.joined]  # fmt: skip


def inner(p: Program, given: list[Value], like: Value) -> Any:
    """Grow a few ops of the given values and those outside, and give a tensor like one."""
    outside, items = p.values, p.items
    p.depth += 1
    p.values, p.items = [*outside[-6:], *given, *given], []
    try:
        for _ in range(p.rng.randint(1, 3)):
            p.grow(SMALL if p.depth > 2 or p.rng.random() < 0.8 else MAKERS)
        fit = [v for v in p.values if v.dtype == like.dtype and v.shape == like.shape and v not in outside]
        made = fit[-1].tensor if fit else like.tensor
        rest = [v for v in p.values[len(outside[-6:]) + 2 * len(given) :] if v.dtype == like.dtype]
        said = [
            f"{item.what} {item.error}" + "".join(f" {t.dtype.name}{t.shape}" for t in item.tensors) for item in p.items
        ]
        extra = p.tf.add_n([p.tf.reduce_mean(p.tf.tanh(v.tensor)) for v in rest if 0 not in v.shape]) if rest else None
    finally:
        p.values, p.items = outside, items
        p.depth -= 1
    p.items += [Item(f"inner {what}", []) for what in said]
    made = p.tf.tanh(made)
    if extra is not None:
        made = made + extra * 0.1
    # The shapes of values in loops may be known less well than those they start with.
    return p.tf.reshape(made, like.shape) if p.depth == 0 and p.rng.random() < 0.3 else made


def condition(p: Program) -> Any:
    """A condition that is the same for sums taken in another order."""
    a = p.pick(FLOATS, 0, 3)
    if 0 in a.shape:
        raise Skip
    kind = p.rng.randrange(3)
    if kind == 0:
        return p.tf.reduce_max(p.tf.tanh(p.off(a))) > p.some(-2.0, 0.0371, 2.0)
    if kind == 1:
        return p.tf.equal(p.tf.shape(a.tensor)[0] if a.rank else p.tf.rank(a.tensor), p.rng.randint(0, 3))
    return p.tf.constant(p.some(True, False))


def conditional(p: Program) -> None:
    a = p.pick(FLOATS, 0, 3)
    if 0 in a.shape:
        raise Skip
    kind = p.rng.randrange(4)
    if kind <= 1:
        made = p.tf.cond(condition(p), lambda: inner(p, [a], a), lambda: inner(p, [a], a))
        p.keep(f"cond {a.shape}", made, a.shape, a.dtype)
    elif kind == 2:
        made = p.tf.cond(
            condition(p),
            lambda: (inner(p, [a], a), p.tf.constant(1)),
            lambda: (p.tf.identity(a.tensor), p.tf.constant(2)),
            name=p.some(None, "branch"),
        )
        p.keep("cond of two", made[0], a.shape, a.dtype)
        p.note("cond of two", made[1])
    else:
        pairs = [(condition(p), _branch(p, a)) for _ in range(2)]
        made = p.tf.case(pairs, default=lambda: p.tf.identity(a.tensor), exclusive=False)
        p.keep("case", made, a.shape, a.dtype)


def _branch(p: Program, a: Value) -> Callable[[], Any]:
    return lambda: inner(p, [a], a)


def loop(p: Program) -> None:
    tf = p.tf
    a = p.pick(FLOATS, 0, 3, 60)
    if 0 in a.shape:
        raise Skip
    n = p.rng.randint(0, 3)
    words: dict[str, Any] = {}
    if p.rng.random() < 0.2:
        words["maximum_iterations"] = 2
    if p.rng.random() < 0.2:
        words["parallel_iterations"] = 1
    kind = p.rng.randrange(4)
    bound = tf.constant(n) if p.rng.random() < 0.5 else n

    def body(i: Any, x: Any) -> Any:
        made = inner(p, [Value(x, a.shape, a.dtype)], Value(x, a.shape, a.dtype))
        made.set_shape(x.shape)
        return [i + 1, made]

    if kind == 0:
        # A loop that grows.
        def longer(i: Any, x: Any) -> Any:
            return i + 1, tf.concat([x, tf.tanh(x[-1:] + 0.1)], 0)

        if not a.rank:
            raise Skip
        first = tf.identity(a.tensor)
        unknown = (
            tf.TensorShape([None, *first.shape.as_list()[1:]]) if first.shape.rank is not None else tf.TensorShape(None)
        )
        _, made = tf.while_loop(lambda i, _: i < n, longer, [0, first], shape_invariants=[tf.TensorShape([]), unknown])
        p.keep("while_loop that grows", made, (a.shape[0] + n, *a.shape[1:]), a.dtype)
        return
    if kind == 1:
        state = {"i": tf.constant(0), "x": a.tensor}

        def both(s: Any) -> Any:
            made = inner(p, [Value(s["x"], a.shape, a.dtype)], Value(s["x"], a.shape, a.dtype))
            made.set_shape(s["x"].shape)
            return [{"i": s["i"] + 1, "x": made}]

        made = tf.while_loop(lambda s: s["i"] < bound, both, [state])
        made = made[0] if isinstance(made, (list, tuple)) else made
        p.keep("while_loop of a dict", made["x"], a.shape, a.dtype)
        return
    i, made = tf.while_loop(lambda i, _: tf.less(i, bound), body, [tf.constant(0), a.tensor], **words)
    p.keep(f"while_loop {n} {sorted(words)}", made, a.shape, a.dtype)
    p.note("while_loop count", i)


def mapped(p: Program) -> None:
    tf = p.tf
    a = p.pick(FLOATS, 1, 3, 60)
    if 0 in a.shape:
        raise Skip
    kind = p.rng.randrange(6)
    row = a.shape[1:]

    def each(x: Any) -> Any:
        return inner(p, [Value(x, row, a.dtype)], Value(x, row, a.dtype))

    if kind <= 1:
        p.keep("map_fn", tf.map_fn(each, a.tensor), a.shape, a.dtype)
    elif kind == 2:
        made = tf.map_fn(
            lambda x: (tf.tanh(x[0]), tf.reduce_sum(x[1])), (a.tensor, a.tensor), dtype=(tf.as_dtype(a.dtype),) * 2
        )
        p.keep("map_fn of two", made[0], a.shape, a.dtype)
        p.keep("map_fn of two", made[1], a.shape[:1], a.dtype)
    elif kind == 3:
        words = {"reverse": True} if p.rng.random() < 0.4 else {}
        p.keep(f"scan {words}", tf.scan(lambda s, x: tf.tanh(s + each(x)), a.tensor, **words), a.shape, a.dtype)
    elif kind == 4:
        name = p.some("foldl", "foldr")
        p.keep(name, getattr(tf, name)(lambda s, x: tf.tanh(s * 0.5 + each(x)), a.tensor), row, a.dtype)
    else:
        start = tf.zeros(row, a.dtype)
        p.keep("scan from", tf.scan(lambda s, x: tf.tanh(s + each(x)), a.tensor, start), a.shape, a.dtype)


def arrays(p: Program) -> None:
    tf = p.tf
    a = p.pick(FLOATS, 1, 3, 60)
    if 0 in a.shape:
        raise Skip
    n = a.shape[0]
    array = tf.TensorArray(tf.as_dtype(a.dtype), n, clear_after_read=False).unstack(a.tensor)
    kind = p.rng.randrange(4)
    if kind == 0:
        p.keep("TensorArray.gather", array.gather([n - 1, 0]), (2, *a.shape[1:]), a.dtype)
    elif kind == 1:
        p.keep(
            "TensorArray.concat", array.concat(), (a.shape[0] * a.shape[1], *a.shape[2:]), a.dtype
        ) if a.rank > 1 else p.note("size", array.size())
    elif kind == 2:
        out = tf.TensorArray(tf.as_dtype(a.dtype), 0, dynamic_size=True)

        def body(i: Any, out: Any) -> Any:
            return i + 1, out.write(i, tf.tanh(array.read(i)) * 2.0)

        _, out = tf.while_loop(lambda i, _: i < n, body, [0, out])
        p.keep("TensorArray written", out.stack(), a.shape, a.dtype)
    else:
        p.keep("TensorArray.read", array.read(p.rng.randrange(n)) + array.read(0), a.shape[1:], a.dtype)


def ordered(p: Program) -> None:
    """After others, by control dependencies and groups."""
    tf = p.tf
    a, b = p.pick(FLOATS), p.pick(FLOATS)
    if 0 in b.shape:
        raise Skip
    kind = p.rng.randrange(4)
    if kind == 0 and p.depth:
        # In a branch TensorFlow's assert, itself a condition, leaves the branch without a value.
        raise Skip
    if kind == 0:
        with tf.control_dependencies([tf.assert_less(tf.reduce_max(tf.tanh(b.tensor)), tf.cast(1.5, b.dtype))]):
            p.keep("after an assert", tf.identity(a.tensor), a.shape, a.dtype)
    elif kind == 1:
        with tf.control_dependencies([b.tensor, tf.no_op()]):
            p.keep("after", a.tensor * 2.0, a.shape, a.dtype)
    elif kind == 2:
        made = tf.tuple([a.tensor, b.tensor])
        p.keep("tuple", made[0], a.shape, a.dtype)
    else:

        @tf.custom_gradient
        def halved(x: Any) -> Any:
            return tf.tanh(x), lambda dy: tf.convert_to_tensor(dy) * 0.5

        p.keep("custom_gradient", halved(a.tensor), a.shape, a.dtype)


MAKERS = [conditional, conditional, loop, loop, mapped, mapped, arrays, ordered]
