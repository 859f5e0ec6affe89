"""Static shapes of what calls make, kinds of errors of those that are refused, and names of what losses are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

A, B = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.arange(12, dtype=np.float32).reshape(4, 3) * 0.1


def _shape(tensor: Any) -> Any:
    return [None if tensor.shape.rank is None else tensor.shape.as_list()]


def _at_once(found: list[Any]) -> list[Any]:
    """What is fetched, as one item: each by itself is a graph of its own to TensorFlow; then the shapes."""
    return [[t for t in found if not isinstance(t, list)], [t for t in found if isinstance(t, list)]]


def tensordots(tf: Any) -> Any:
    """Operands of any rank that is known or not, axes from either end, none, and all."""
    found: list[Any] = []
    for left in ([2, 3, 4], [None, 3, 4], [None, None, None], None):
        for right in ([4, 3], [None, 3], None):
            a, b = tf.placeholder_with_default(A, left), tf.placeholder_with_default(B, right)
            for axes in (1, [[2], [0]], [[-1], [-2]], [[1, 2], [1, 0]], [1, 1], [[2, 1], [0, 1]]):
                made = tf.tensordot(a, b, axes)
                found += [_shape(made), made, *tf.gradients(tf.reduce_sum(made * made), [a, b])]
    return _at_once([*found, tf.tensordot(tf.ones([2]), tf.ones([3]), 0)])


def repeats(tf: Any) -> Any:
    """As often, or each by its own number."""
    found: list[Any] = []
    for known in ([2, 3], [None, 3], [None, None]):
        x = tf.placeholder_with_default(B[:2], known)
        for often in (2, [2], tf.placeholder_with_default([3], [1]), tf.placeholder_with_default(2, [])):
            for axis in (0, 1, -1, -2, None):
                made = tf.repeat(x, often, axis)
                found += [_shape(made), made, tf.gradients(made * made, x)[0]]
    return _at_once([*found, tf.repeat(tf.constant(3.0), 2), tf.repeat(tf.constant(3.0), [2])])


def sliced(tf: Any) -> Any:
    """Static shapes of slices of sizes that are not known: counted from both ends they may be of any length."""
    x = tf.placeholder_with_default(A, [None, 3, None])
    made = [x[-1:1], x[:, -4:3], x[..., -1:2], x[..., 2:-3:-1], x[:0], x[-3:0], x[:, 2:1], x[..., -1:-3]]
    gathered = tf.placeholder_with_default(B, [None, 3])
    rows = tf.gradients(tf.gather(gathered, [0, 2]), gathered)[0]
    negated = tf.gradients(tf.gather(-gathered, [0, 2, 0]), gathered)[0]
    return _at_once(
        [*(_shape(t) for t in made), *made, _shape(rows), tf.convert_to_tensor(rows), tf.convert_to_tensor(negated)]
    )


def _kinds(tf: Any, resource: bool) -> Any:
    found: list[Any] = []
    v = tf.get_variable(f"v{resource}", [2], use_resource=resource)
    b, d, m = tf.constant([True, False]), tf.constant([1.0, 2.0], tf.float64), tf.ones([2, 2], tf.float64)
    calls: dict[str, Callable[[], Any]] = {
        "multiply": lambda: tf.multiply(d, v), "by": lambda: tf.multiply(v, d), "*": lambda: d * v,
        "<": lambda: d < v, "stack": lambda: tf.stack([d, v]), "first": lambda: tf.stack([v, d]),
        "concat": lambda: tf.concat([d, v], 0), "where": lambda: tf.where(v, v, v),
        "einsum": lambda: tf.einsum("ij,j->i", m, v), "add_n": lambda: tf.add_n([d, v]),
        "matmul": lambda: tf.matmul(m, v[None]), "and": lambda: tf.logical_and(v, b),
        "equal": lambda: tf.equal(d, v), "convert": lambda: tf.convert_to_tensor(v, tf.float64),
        "assign": lambda: tf.assign(v, d), "method": lambda: v.assign(d), "add": lambda: tf.assign_add(v, d),
        "tensordot": lambda: tf.tensordot(m, v, 1), "minimum": lambda: tf.minimum(d, v),
        "solve": lambda: tf.matrix_solve(m, v[:, None]), "clip": lambda: tf.clip_by_value(d, v, v),
        "not": lambda: tf.logical_not(v), "dense": lambda: tf.layers.dense(b[None], 2),
        "bool": lambda: tf.multiply(b, 1.5), "times bool": lambda: 1.5 * b,
    }  # fmt: skip
    for name, call in calls.items():
        try:
            call()
            found.append([name, "made"])
        except (TypeError, ValueError) as e:
            found.append([name, type(e).__name__])
    return found


def batches(tf: Any) -> Any:
    """Static shapes of what takes its batch from either argument."""
    x, known = tf.placeholder_with_default(A, [None, None, 4]), tf.constant(A[:, :, 0])
    made = [
        tf.reverse_sequence(x, [1, 3], seq_axis=1, batch_axis=0), tf.reverse_sequence(x, [1, 2, 4], 2, batch_axis=1),
        tf.matrix_set_diag(x, known), tf.matrix_set_diag(x, known[:, :2], k=2),
    ]  # fmt: skip
    return _at_once([*(_shape(t) for t in made), *made])


def refused(tf: Any) -> Any:
    """The kinds of errors of calls with a variable, of either kind, of another type."""
    b = tf.constant([True, False])
    return [
        *_kinds(tf, False), *_kinds(tf, True), b * b, b * True, b * 1.5, tf.constant([0.5, 2.0]) * b, tf.ones([0, 2]),
        _shape(tf.layers.dense(tf.zeros([1, 0]), 2)),
    ]  # fmt: skip


def captured(tf: Any) -> Any:
    """Gradients of a variable that is read in a loop in a branch have its shape."""
    v = tf.get_variable("v", [4, 3], initializer=tf.ones_initializer(), use_resource=True)
    x = tf.constant([0.1, 0.2])
    taken = tf.placeholder_with_default(True, [])

    def looped() -> Any:
        return tf.reduce_sum(tf.scan(lambda s, e: tf.tanh(s + e + tf.reduce_mean(tf.tanh(v))), x))

    inner = tf.cond(taken, looped, lambda: tf.reduce_sum(x))
    outer = tf.cond(taken, looped, looped)
    grads = [*tf.gradients(inner, [v, x]), *tf.gradients(outer + tf.reduce_sum(tf.matmul(v, v, True)), [v, x])]
    read = v.gather_nd([[0, 1], [2, 2]])
    return _at_once([*grads, *map(_shape, grads), read, [read.op.type, read.name]])


def losses(tf: Any) -> Any:
    """Names and values of losses, and of what programs look up of them."""
    y, x = tf.constant([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), tf.constant([[0.2, 0.7, 0.1], [0.3, 0.5, 0.9]])
    made = [
        tf.losses.mean_pairwise_squared_error(y, x, [[0.5], [2.0]]), tf.losses.mean_squared_error(y, x, [[0.0], [2.0]]),
        tf.losses.softmax_cross_entropy(y, x, label_smoothing=0.1), tf.losses.log_loss(y, x),
        tf.losses.sparse_softmax_cross_entropy([0, 2], x), tf.losses.sigmoid_cross_entropy(y, x, [[0.0], [1.0]]),
        tf.losses.hinge_loss(y, x), tf.losses.cosine_distance(y, x, axis=1), tf.losses.huber_loss(y, x),
        tf.losses.mean_squared_error(y, x, [[0.5], [2.0]], reduction="weighted_mean"), tf.losses.get_total_loss(),
    ]  # fmt: skip
    graph = tf.get_default_graph()
    looked_up = ["softmax_cross_entropy_loss/xentropy:0", "sparse_softmax_cross_entropy_loss/xentropy/xentropy:0"]
    looked_up += ["mean_squared_error/num_present:0", "sigmoid_cross_entropy_loss/num_present/broadcast_weights:0"]
    looked_up += ["mean_pairwise_squared_error/value_1:0", "log_loss/sub_2:0", "hinge_loss/Sub:0"]
    flat = [tf.layers.flatten(x), tf.layers.flatten(x), tf.layers.dense(tf.zeros([2, 3, 4]), 2, use_bias=False)]
    found = [[t.name for t in (*made, *flat)], *made]
    found += [graph.get_tensor_by_name(name) for name in looked_up if not name.startswith("softmax")]
    found += [[graph.get_tensor_by_name(name).op.type for name in looked_up]]
    return _at_once([*found, *tf.gradients(made[-1], [x, y])])


def inner_names(tf: Any) -> Any:
    """Names and values of what each reduction of a loss is made of, of known ranks and not."""
    found: list[Any] = []
    for reduction in (
        "weighted_sum",
        "weighted_mean",
        "weighted_sum_over_batch_size",
        "weighted_sum_by_nonzero_weights",
    ):
        for rank in (2, None, 0):
            of = B if rank != 0 else np.float32(0.7)
            x = tf.placeholder_with_default(of, None if rank is None else np.shape(of))
            with tf.name_scope(f"{reduction}_{rank}") as scope:
                made = tf.losses.mean_squared_error(x * 0.5, x, weights=0.5, reduction=reduction)
            kinds = ("Sum", "Range", "Cast", "Mul", "DivNoNan")
            ops = [o for o in tf.get_default_graph().get_operations() if o.name.startswith(scope) and o.type in kinds]
            found += [made, tf.gradients(made, x)[0], [o.name for o in ops if "assert" not in o.name]]
    return _at_once(found)


def sizes_refused(tf: Any) -> Any:
    """Sizes that are none are refused while the graph is built."""
    x, grid = tf.ones([2, 2]), tf.placeholder_with_default(np.ones((2, 2), np.int32), [2, 2])
    calls: list[Callable[[], Any]] = [
        lambda: tf.reshape(x, [2, -2]), lambda: tf.reshape(x, grid), lambda: tf.fill([-3], 1.0),
        lambda: tf.fill(grid, 1.0), lambda: tf.stack([x, x], 4), lambda: tf.stack([x, x], -4),
        lambda: tf.repeat(tf.placeholder(tf.float32), 2, -1),
    ]  # fmt: skip
    found: list[Any] = []
    for call in calls:
        try:
            found.append(str(call().shape))
        except (TypeError, ValueError) as e:
            found.append(type(e).__name__)
    return [found]


def distorted_boxes(tf: Any) -> Any:
    """The seeds of the call are the op's own, and the graph's does not count."""
    tf.set_random_seed(7)
    boxes = tf.constant([[[0.1, 0.2, 0.6, 0.7], [0.3, 0.1, 0.9, 0.5]]])
    ways: list[dict[str, Any]] = [
        {"seed": 3}, {"seed": 3, "seed2": 4}, {"seed2": 4, "min_object_covered": 0.5}, {"seed": 9, "max_attempts": 2},
        {"seed": 1, "aspect_ratio_range": [0.5, 2.0], "area_range": [0.2, 0.9], "name": "cut"},
    ]  # fmt: skip
    found: list[Any] = []
    for way in ways:
        begin, size, box = tf.image.sample_distorted_bounding_box([40, 60, 3], boxes, **way)
        found += [begin, size, box, [begin.name, begin.op.get_attr("seed"), begin.op.get_attr("seed2")]]
    return _at_once(found)


def _tried(calls: list[Callable[[], Any]]) -> list[Any]:
    """The static shape of what each gives, or the kind of its error."""
    found: list[Any] = []
    for call in calls:
        try:
            found.append(_shape(call())[0])
        except (TypeError, ValueError, IndexError) as e:
            found.append(type(e).__name__)
    return found


def asked_shapes(tf: Any) -> Any:
    """Sizes that must be what is left, and slices and fills that are refused while the graph is built or not."""
    x, rows, sizes = tf.ones([2, 1]), tf.placeholder(tf.float32, [2, None, 3]), tf.placeholder(tf.int32, [2])
    grid, part = tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [])
    calls: list[Callable[[], Any]] = [
        lambda: tf.gradients(tf.reshape(rows, [1, 2, 1, 3]) * 2.0, rows)[0], lambda: tf.reshape(rows, [5, 5]),
        lambda: tf.reshape(tf.ones([6]), tf.stack([part, 2])), lambda: tf.reshape(tf.ones([6]), tf.stack([part, 4])),
        lambda: tf.reshape(tf.ones([6]), tf.stack([part, part])), lambda: tf.reshape(rows, [12]),
        lambda: tf.zeros(tf.ones([2, 2], tf.int32)), lambda: tf.ones(tf.ones([2, 2], tf.int32)),
        lambda: tf.zeros(np.ones((2, 2), np.int32)), lambda: tf.zeros(grid), lambda: tf.zeros(tf.constant(3)),
        lambda: tf.ones(tf.placeholder(tf.int32)), lambda: tf.zeros(tf.ones([1, 0], tf.int32)),
    ]  # fmt: skip
    for begin in ([0, 0], [0, 2], [3, 0], sizes):
        for size in ([1, 3], [1, -1], [3, 1], [-1, -1], [1, -2]):
            calls.append(lambda begin=begin, size=size: tf.slice(x, begin, size))  # type: ignore[misc]
    return [_tried(calls)]


def entropies_refused(tf: Any) -> Any:
    """Labels and logits of other ranks and sizes, along any axis, and logits whose rank is not known."""
    scalar, unknown = tf.constant(1.0), tf.placeholder(tf.float32)
    calls: list[Callable[[], Any]] = []
    both = [
        (scalar, tf.ones([4, 1, 2])), (scalar, tf.ones([4, 2])), (scalar, scalar), (tf.ones([2]), scalar),
        (unknown, scalar), (scalar, unknown), (tf.ones([2]), tf.ones([4, 2])), (tf.ones([2]), tf.ones([2])),
        (tf.ones([2]), tf.ones([1, 1, 2])), (unknown, tf.ones([1, 1, 2])), (tf.ones([3, 1, 2]), tf.ones([3, 2])),
    ]  # fmt: skip
    for labels, logits in both:
        for axis in (-1, 0, 1):
            calls.append(
                lambda labels=labels, logits=logits, axis=axis: tf.nn.softmax_cross_entropy_with_logits_v2(  # type: ignore[misc]
                    labels=labels, logits=logits, axis=axis
                )
            )
    sparse = [
        (tf.ones([3, 3]), tf.ones([1, 3, 1], tf.int64)), (tf.ones([3, 3], tf.int32), tf.ones([1, 3, 1])),
        (tf.ones([3], tf.int32), tf.ones([4, 3])), (tf.ones([3], tf.int32), tf.ones([4, 3], tf.int32)),
        (tf.ones([3]), tf.ones([3, 3])), (unknown, tf.ones([3, 3], tf.int32)),
        (tf.placeholder(tf.int32), tf.ones([3, 3, 3])), (tf.placeholder(tf.int32, [3, None]), tf.ones([3, 4, 3])),
    ]  # fmt: skip
    for labels, logits in sparse:
        calls.append(
            lambda labels=labels, logits=logits: tf.nn.sparse_softmax_cross_entropy_with_logits(  # type: ignore[misc]
                labels=labels, logits=logits
            )
        )
    y, x = (tf.placeholder_with_default(A * scale, None) for scale in (0.1, 0.3))
    made = [tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x, axis=axis) for axis in (0, 1, 2, -1)]
    return _at_once([_tried(calls), *made, *tf.gradients(made, [y, x])])


def of_unknown_rank(tf: Any) -> Any:
    """Sorting along any axis, and gradients of gathering in batches, where the rank is not known."""
    found: list[Any] = []
    for known in (None, [None, 3, None]):
        x = tf.placeholder_with_default(np.sin(A * 3), known)
        for axis in (0, 1, -1, -2):
            for direction in ("ASCENDING", "DESCENDING"):
                made = [tf.sort(x, axis, direction), tf.argsort(x, axis, direction)]
                found += [*made, [t.name for t in made], *map(_shape, made)]
            found += [tf.sort(tf.cast(x * 100.0, tf.int32), axis), tf.gradients(tf.sort(x, axis) * A, x)[0]]
        for batch, axis, rows in ((1, 1, [[2, 0, 2], [1, 1, 0]]), (1, 2, [[3, 0], [1, 1]]), (0, 1, [2, 2, 0])):
            picked = tf.gather(x, rows, axis=axis, batch_dims=batch)
            found += [_shape(picked), picked, tf.gradients(picked * picked, x)[0]]
        index = tf.placeholder_with_default(np.ones((2, 3, 2), np.int32), None)
        picked = tf.gather(x, index, axis=2, batch_dims=2)
        found += [picked, tf.gradients(picked * picked, x)[0]]
    return _at_once(found)


def scanned(tf: Any) -> Any:
    """What a scan or a map writes says the shape of an element, too."""
    found: list[Any] = []
    for known in (None, [None, None], [None, 2], [3, None]):
        x = tf.placeholder_with_default(B[:3, :2], known)
        for made in (
            tf.scan(lambda s, e: tf.tanh(s + e + tf.ones([2])), x),
            tf.scan(lambda s, e: tf.reshape(s + e, [2]), x, tf.zeros([2])),
            tf.scan(lambda s, e: tf.tanh(s + e + tf.ones([2])), x, reverse=True),
            tf.map_fn(lambda e: e + tf.ones([2]), x),
        ):  # fmt: skip
            found += [_shape(made), made, *tf.gradients(made, x)]
    return _at_once(found)


CASES = {
    f.__name__: f
    for f in (
        tensordots, repeats, sliced, batches, refused, captured, losses, sizes_refused, distorted_boxes, asked_shapes,
        entropies_refused, of_unknown_rank, scanned, inner_names,
    )
}  # fmt: skip
