"""What changes shapes: reductions, slices, joins, gathers, permutations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.fuzz.matrices import matrices, multiplied
from tests.interop.fuzz.program import FLOATS, INTS, Program, Skip

NUMBERS = (*FLOATS, *INTS)


def reduced(p: Program) -> None:
    a = p.pick(FLOATS, 0)
    name = p.some("sum", "mean", "max", "min", "prod", "logsumexp", "std", "variance", "euclidean_norm")
    axis: Any = None
    if a.rank and p.rng.random() < 0.8:
        axis = p.axis(a)
        if p.rng.random() < 0.3:
            axis = sorted({axis % a.rank, p.rng.randrange(a.rank)})
    keep = p.rng.random() < 0.4
    words: dict[str, Any] = {
        p.some("axis", "reduction_indices") if name in ("sum", "mean", "max", "min") else "axis": axis
    }
    if keep:
        words[
            "keep_dims"
            if "reduction_indices" in words or (name in ("sum", "mean") and p.rng.random() < 0.3)
            else "keepdims"
        ] = True
    x = p.off(a) if name in ("max", "min") else p.calm(a.tensor)
    place = p.tf.math if name in ("std", "variance", "euclidean_norm") else p.tf
    made = getattr(place, f"reduce_{name}")(x, **words)
    shape = np.sum(a.zeros, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keep).shape
    p.keep(f"reduce_{name} {a.dtype}{list(a.shape)} {words}", made, shape, a.dtype)


def reduced_others(p: Program) -> None:
    """Reductions of integers and conditions, and places of the largest."""
    name = p.some("any", "all", "sum", "max", "prod", "count_nonzero", "argmax", "argmin", "moments", "mean")
    if name in ("any", "all"):
        a = p.pick(("bool",))
    else:
        a = p.pick(
            FLOATS if name == "moments" else NUMBERS if name in ("argmax", "argmin", "count_nonzero") else INTS, 1
        )
    axis = p.axis(a) if a.rank else None
    keep = p.rng.random() < 0.3
    shape = np.sum(a.zeros, axis=axis, keepdims=keep).shape
    if name.startswith("arg"):
        n = int(np.prod(a.shape))
        ramp = np.arange(n).reshape(a.shape)
        x = p.off(a) if a.dtype in FLOATS else a.tensor * 0 + ((ramp * 7) % 11).astype(a.dtype)
        out = p.some("int64", "int32")
        words = {} if out == "int64" else {"output_type": p.tf.int32}
        p.keep(f"{name} {axis}", getattr(p.tf, name)(x, axis, **words), np.argmax(a.zeros, axis).shape, out)
    elif name == "count_nonzero":
        p.keep(name, p.tf.count_nonzero(a.tensor, axis=axis, keepdims=keep), shape, "int64")
    elif name == "moments":
        mean, variance = p.tf.nn.moments(a.tensor, [axis], keep_dims=keep)
        p.keep(name, mean, shape, a.dtype)
        p.keep(name, variance, shape, a.dtype)
    else:
        x = a.tensor if a.dtype == "bool" else p.tf.floormod(a.tensor, 5)
        p.keep(
            f"reduce_{name} {a.dtype} {axis}", getattr(p.tf, f"reduce_{name}")(x, axis, keepdims=keep), shape, a.dtype
        )


def cumulated(p: Program) -> None:
    a = p.pick(FLOATS, 1)
    axis = p.axis(a)
    words = {"exclusive": p.rng.random() < 0.4, "reverse": p.rng.random() < 0.4}
    name = p.some("cumsum", "cumprod", "math.cumulative_logsumexp")
    call = p.tf.math.cumulative_logsumexp if "." in name else getattr(p.tf, name)
    p.keep(f"{name} {axis} {words}", call(p.calm(a.tensor), axis, **words), a.shape, a.dtype)


def reshaped(p: Program) -> None:
    a = p.pick(NUMBERS)
    n = int(np.prod(a.shape))
    shape: list[Any] = []
    rest = n
    while rest > 1 and len(shape) < 3:
        d = p.some(*[k for k in range(1, rest + 1) if rest % k == 0])
        shape.append(d)
        rest //= d
    if rest != 1 or not shape:
        shape.append(rest)
    actual = tuple(shape)
    how = p.rng.randrange(5)
    given: Any = shape
    if how == 0:
        given = list(shape)
        given[p.rng.randrange(len(given))] = -1
    elif how == 1 and a.rank:
        given, actual = [p.tf.shape(a.tensor)[0], -1], (a.shape[0], n // a.shape[0])
    elif how == 2:
        given, actual = [-1], (n,)
    elif how == 3:
        given, actual = p.tf.concat([p.tf.shape(a.tensor), [1]], 0), (*a.shape, 1)
    p.keep(f"reshape {a.shape} to {actual} as {how}", p.tf.reshape(a.tensor, given), actual, a.dtype)


def moved(p: Program) -> None:
    a = p.pick((*NUMBERS, "bool"), 1)
    kind = p.rng.randrange(7)
    axis = p.axis(a)
    if kind == 0:
        order = p.rng.sample(range(a.rank), a.rank)
        p.keep(f"transpose {order}", p.tf.transpose(a.tensor, order), np.transpose(a.zeros, order).shape, a.dtype)
    elif kind == 1:
        p.keep("transpose", p.tf.transpose(a.tensor), a.shape[::-1], a.dtype)
    elif kind == 2:
        axis = p.rng.randint(-a.rank - 1, a.rank)
        p.keep(f"expand_dims {axis}", p.tf.expand_dims(a.tensor, axis), np.expand_dims(a.zeros, axis).shape, a.dtype)
    elif kind == 3:
        ones = [i for i, n in enumerate(a.shape) if n == 1]
        chosen = [i - p.some(0, a.rank) for i in ones[: p.rng.randint(0, len(ones))]] or None
        shape = np.squeeze(a.zeros, tuple(chosen) if chosen else None).shape
        p.keep(f"squeeze {chosen} of {a.shape}", p.tf.squeeze(a.tensor, chosen), shape, a.dtype)
    elif kind == 4:
        axes = sorted({axis % a.rank, p.rng.randrange(a.rank)})
        p.keep(f"reverse {axes}", p.tf.reverse(a.tensor, axes), a.shape, a.dtype)
    elif kind == 5:
        p.keep(f"roll {axis}", p.tf.roll(a.tensor, p.rng.randint(-2, 3), axis), a.shape, a.dtype)
    else:
        to = [p.some(2, 3), *a.shape]
        given = p.tf.stack([to[0], *p.tf.unstack(p.tf.shape(a.tensor))]) if p.rng.random() < 0.4 else to
        if int(np.prod(to)) > 400:
            raise Skip
        p.keep(f"broadcast_to {to}", p.tf.broadcast_to(a.tensor, given), tuple(to), a.dtype)


def sliced(p: Program) -> None:
    """`a[...]` in all its forms."""
    a = p.pick((*NUMBERS, "bool"), 1)
    index: list[Any] = []
    said: list[Any] = []
    dims = list(a.shape)
    ellipsis = False
    while dims:
        kind = p.rng.randrange(9)
        n = dims[0]
        if kind == 0 and len(index) < 5:
            index.append(p.some(None, p.tf.newaxis))
            said.append(None)
            continue
        if kind == 1 and not ellipsis:
            ellipsis = True
            index.append(Ellipsis)
            said.append(Ellipsis)
            drop = p.rng.randint(0, len(dims))
            dims = dims[drop:]
            # What follows is counted from the end.
            if p.rng.random() < 0.5:
                break
            continue
        dims.pop(0)
        if kind <= 3:
            i = p.rng.randrange(n) if n else 0
            i = i - n if p.rng.random() < 0.4 else i
            if not n:
                raise Skip
            index.append(p.tf.constant(i) if p.rng.random() < 0.15 else i)
            said.append(i)
        else:
            start = p.some(None, p.rng.randint(-n, n - 1) if n else 0)
            stop = p.some(None, p.rng.randint(-n, n + 1))
            step = p.some(None, None, None, 2, -1)
            said.append(slice(start, stop, step))
            if kind == 8 and step is None and stop is not None and stop > 0:
                index.append(slice(start, p.tf.constant(stop), step))
            else:
                index.append(slice(start, stop, step))
        if p.rng.random() < 0.15:
            break
    try:
        shape = a.zeros[tuple(said)].shape
    except IndexError:
        raise Skip from None
    given = tuple(index) if len(index) != 1 else index[0]
    p.keep(f"{a.shape}[{said}]", a.tensor[given], shape, a.dtype)


def cut(p: Program) -> None:
    """Slices, splits and unstacks."""
    a = p.pick(NUMBERS, 1)
    kind = p.rng.randrange(5)
    axis = p.axis(a)
    n = a.shape[axis]
    if not n:
        raise Skip
    if kind == 0:
        begin = [p.rng.randrange(m) if m else 0 for m in a.shape]
        size = [p.some(-1, p.rng.randint(0, m - b)) for m, b in zip(a.shape, begin)]
        shape = tuple(m - b if s == -1 else s for m, b, s in zip(a.shape, begin, size))
        p.keep(f"slice {begin} {size}", p.tf.slice(a.tensor, begin, size), shape, a.dtype)
    elif kind == 1:
        parts = p.some(*[k for k in range(1, n + 1) if n % k == 0])
        made = p.tf.split(a.tensor, parts, axis)
        shape = list(a.shape)
        shape[axis] = n // parts
        p.keep(f"split {parts} {axis}", made[p.rng.randrange(parts)], tuple(shape), a.dtype)
    elif kind == 2:
        first = p.rng.randint(0, n)
        sizes = p.some([first, n - first], [first, -1])
        shape = list(a.shape)
        shape[axis] = n - first
        p.keep(f"split {sizes} {axis}", p.tf.split(a.tensor, sizes, axis)[1], tuple(shape), a.dtype)
    elif kind == 3:
        made = p.tf.unstack(a.tensor, num=p.some(n, n), axis=axis)
        p.keep(f"unstack {axis}", made[-1], np.take(a.zeros, 0, axis).shape, a.dtype)
    else:
        shape = tuple(-(-m // 2) for m in a.shape)
        p.keep("strided_slice", p.tf.strided_slice(a.tensor, [0] * a.rank, list(a.shape), [2] * a.rank), shape, a.dtype)


def joined(p: Program) -> None:
    a = p.pick((*NUMBERS, "bool"), 0)
    same = [v for v in p.values if v.dtype == a.dtype and v.shape == a.shape]
    others = [p.some(*same) if same else p.constant(a.shape, a.dtype) for _ in range(p.rng.randint(1, 3))]
    tensors = [a.tensor, *[v.tensor for v in others]]
    if not a.rank or p.rng.random() < 0.4:
        axis = p.rng.randint(-a.rank - 1, a.rank)
        shape = np.stack([a.zeros] * len(tensors), axis).shape
        if int(np.prod(shape)) > 400:
            raise Skip
        p.keep(f"stack {axis}", p.tf.stack(tensors, axis=axis), shape, a.dtype)
        return
    axis = p.axis(a)
    shape = list(a.shape)
    total = shape[axis] * len(tensors)
    if p.rng.random() < 0.4:
        shape[axis] = p.rng.randint(1, 3)
        tensors.append(p.constant(tuple(shape), a.dtype).tensor)
        total += shape[axis]
    shape[axis] = total
    p.keep(f"concat {axis}", p.tf.concat(tensors, axis), tuple(shape), a.dtype)


def repeated(p: Program) -> None:
    a = p.pick(NUMBERS, 1, 3, 60)
    kind = p.rng.randrange(4)
    if kind == 0:
        times = [p.some(1, 2) for _ in a.shape]
        p.keep(f"tile {times}", p.tf.tile(a.tensor, times), np.tile(a.zeros, times).shape, a.dtype)
    elif kind == 1:
        mode = p.some("CONSTANT", "REFLECT", "SYMMETRIC")
        most = 2 if mode == "CONSTANT" else 0
        wide = [
            [p.rng.randint(0, max(most, min(1, n - 1))), p.rng.randint(0, max(most, min(1, n - 1)))] for n in a.shape
        ]
        words = {"constant_values": p.some(0, 1)} if mode == "CONSTANT" else {}
        p.keep(f"pad {wide} {mode}", p.tf.pad(a.tensor, wide, mode, **words), np.pad(a.zeros, wide).shape, a.dtype)
    elif kind == 2:
        times, axis = p.rng.randint(1, 3), p.axis(a)
        p.keep(
            f"repeat {times} {axis}", p.tf.repeat(a.tensor, times, axis), np.repeat(a.zeros, times, axis).shape, a.dtype
        )
    else:
        axis = p.axis(a)
        times = [p.rng.randint(0, 2) for _ in range(a.shape[axis])]
        p.keep(
            f"repeat {times} {axis}", p.tf.repeat(a.tensor, times, axis), np.repeat(a.zeros, times, axis).shape, a.dtype
        )


def gathered(p: Program) -> None:
    a = p.pick(NUMBERS, 1)
    if 0 in a.shape:
        raise Skip
    kind = p.rng.randrange(6)
    axis = p.axis(a)
    if kind == 0:
        index = np.array([p.rng.randrange(a.shape[0]) for _ in range(p.rng.randint(1, 4))])
        p.keep(f"gather {index}", p.tf.gather(a.tensor, index), np.take(a.zeros, index, 0).shape, a.dtype)
    elif kind == 1:
        index = np.array(
            [[p.rng.randrange(a.shape[axis]) for _ in range(2)] for _ in range(p.rng.randint(1, 2))], p.some(*INTS)
        )
        p.keep(
            f"gather {index.tolist()} {axis}",
            p.tf.gather(a.tensor, index, axis=axis),
            np.take(a.zeros, index, axis).shape,
            a.dtype,
        )
    elif kind == 2:
        depth = p.rng.randint(1, a.rank)
        index = [[p.rng.randrange(n) for n in a.shape[:depth]] for _ in range(3)]
        p.keep(f"gather_nd {index}", p.tf.gather_nd(a.tensor, index), (3, *a.shape[depth:]), a.dtype)
    elif kind == 3:
        mask = np.array([p.rng.random() < 0.6 for _ in range(a.shape[axis])])
        shape = np.compress(mask, a.zeros, axis).shape
        p.keep(f"boolean_mask {mask} {axis}", p.tf.boolean_mask(a.tensor, mask, axis=axis % a.rank), shape, a.dtype)
    elif kind == 4 and a.rank > 1:
        index = np.array([[p.rng.randrange(a.shape[1]) for _ in range(2)] for _ in range(a.shape[0])])
        shape = (a.shape[0], 2, *a.shape[2:])
        p.keep("gather batch_dims=1", p.tf.gather(a.tensor, index, batch_dims=1, axis=1), shape, a.dtype)
    else:
        index = np.array([p.rng.randrange(a.shape[0]) for _ in range(3)])
        p.keep("embedding_lookup", p.tf.nn.embedding_lookup(a.tensor, index), (3, *a.shape[1:]), a.dtype)


def scattered(p: Program) -> None:
    a = p.pick(FLOATS, 1)
    n = a.shape[0]
    if not n:
        raise Skip
    kind = p.rng.randrange(8)
    ids = np.array(sorted(p.rng.randrange(3) for _ in range(n)), p.some(*INTS))
    if kind == 0:
        name = p.some("sum", "mean", "max", "min", "prod")
        made = getattr(p.tf, f"segment_{name}")(p.off(a), ids)
        p.keep(f"segment_{name} {ids}", made, (int(ids[-1]) + 1, *a.shape[1:]), a.dtype)
    elif kind == 1:
        name = p.some("sum", "mean", "prod", "sqrt_n", "max", "min")
        made = getattr(p.tf, f"unsorted_segment_{name}")(p.calm(p.off(a)), ids, 3)
        (p.note if name in ("max", "min") else lambda w, t: p.keep(w, t, (3, *a.shape[1:]), a.dtype))(
            f"unsorted_segment_{name} {ids}", made
        )
    elif kind == 2:
        index = np.array(p.rng.sample(range(n + 1), n))[:, None]
        p.keep(
            f"scatter_nd {index.ravel()}",
            p.tf.scatter_nd(index, a.tensor, [n + 1, *a.shape[1:]]),
            (n + 1, *a.shape[1:]),
            a.dtype,
        )
    elif kind == 3:
        name = p.some("update", "add", "sub", "max", "min")
        other = p.constant((1, *a.shape[1:]), a.dtype)
        call = getattr(p.tf, f"tensor_scatter_nd_{name}")
        p.keep(f"tensor_scatter_nd_{name}", call(p.off(a), [[p.rng.randrange(n)]], other.tensor), a.shape, a.dtype)
    elif kind == 4:
        parts = p.tf.dynamic_partition(a.tensor, ids % 2, 2)
        where = p.tf.dynamic_partition(p.tf.range(n), ids % 2, 2)
        p.keep("dynamic_stitch", p.tf.dynamic_stitch(where, [t * 2.0 for t in parts]), a.shape, a.dtype)
        p.note("dynamic_partition", *parts)
    elif kind == 5:
        lengths = np.array([p.rng.randint(1, a.shape[1]) for _ in range(n)]) if a.rank > 1 and a.shape[1] else None
        if lengths is None:
            raise Skip
        p.keep(
            f"reverse_sequence {lengths}", p.tf.reverse_sequence(a.tensor, lengths, 1, batch_axis=0), a.shape, a.dtype
        )
    elif kind == 6:
        k = p.rng.randint(1, a.shape[-1]) if a.shape[-1] else 0
        if 0 in a.shape:
            raise Skip
        values, index = p.tf.nn.top_k(p.off(a), k)
        p.keep(f"top_k {k}", values, (*a.shape[:-1], k), a.dtype)
        p.keep(f"top_k {k}", index, (*a.shape[:-1], k), "int32")
    else:
        name = p.some("sort", "argsort")
        direction = p.some("ASCENDING", "DESCENDING")
        made = getattr(p.tf, name)(p.off(a), p.axis(a), direction)
        p.keep(f"{name} {direction}", made, a.shape, "int32" if name == "argsort" else a.dtype)


def made_of_shapes(p: Program) -> None:
    """Tensors made of shapes and numbers."""
    a = p.pick(FLOATS, 1)
    tf = p.tf
    kind = p.rng.randrange(12)
    if kind == 0:
        p.keep("zeros(shape)", tf.zeros(tf.shape(a.tensor)) + 0.5, a.shape, "float32")
    elif kind == 1:
        p.keep("fill", tf.fill(tf.stack([tf.shape(a.tensor)[0], 2]), 0.3), (a.shape[0], 2), "float32")
    elif kind == 2:
        out = p.some("int32", "int64")
        p.keep("shape", tf.shape(a.tensor, out_type=getattr(tf, out)), (a.rank,), out)
    elif kind == 3:
        p.keep("size", tf.size(a.tensor) + tf.rank(a.tensor), (), "int32")
    elif kind == 4:
        n = a.shape[0]
        p.keep("range", tf.cast(tf.range(tf.shape(a.tensor)[0]), "float32") * 0.1, (n,), "float32")
    elif kind == 5:
        index = tf.floormod(p.pick(INTS, 0, 2).tensor, 4)
        p.note("one_hot", tf.one_hot(index, 3, on_value=2.0, off_value=-1.0, axis=p.some(-1, 0)))
    elif kind == 6:
        p.keep("eye", tf.eye(p.some(2, 3), num_columns=p.some(None, 4), batch_shape=None)[:2, :2], (2, 2), "float32")
    elif kind == 7:
        p.note("sequence_mask", tf.sequence_mask([1, 3, 0], p.some(None, 4), p.some(tf.bool, tf.float32)))
    elif kind == 8:
        p.note("meshgrid", *tf.meshgrid(tf.range(2), [1, 2, 3], indexing=p.some("xy", "ij")))
    elif kind == 9:
        p.note("where", tf.where(a.tensor > 0.0371))
    elif kind == 10:
        p.note("unique", *tf.unique(tf.reshape(tf.floormod(p.pick(INTS).tensor, 4), [-1])))
    else:
        p.keep("linspace", tf.lin_space(0.0, 1.0, 4), (4,), "float32")


MAKERS = [
    reduced,
    reduced,
    reduced,
    reduced_others,
    cumulated,
    reshaped,
    reshaped,
    moved,
    moved,
    sliced,
    sliced,
    sliced,
    cut,
    joined,
    joined,
    repeated,
    gathered,
    gathered,
    scattered,
    scattered,
    made_of_shapes,
    matrices,
    multiplied,
    multiplied,
]
