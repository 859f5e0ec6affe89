"""Control flow and what it captures, the names it gives, and the shapes of what goes through it."""

from __future__ import annotations

from typing import Any

import numpy as np


def captured_by_while(tf: Any) -> Any:
    c = tf.constant(2.0)
    k = tf.constant([1.0, 3.0])
    _, y = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * c), [0, tf.constant(4.0)])
    _, z = tf.while_loop(lambda i, x: i < 2, lambda i, x: [tf.add(i, 1), x * k + c], [tf.constant(0), tf.zeros([2])])
    return [([y, z, *tf.gradients(y, [c]), *tf.gradients(z, [c, k])], {})]


def captured_by_cond(tf: Any) -> Any:
    p = tf.placeholder(tf.bool, [], name="p")
    c = tf.constant(3.0)
    d = tf.constant([1.0, 2.0])
    y = tf.cond(p, lambda: c * c, lambda: 5.0 * c)
    z = tf.cond(p, lambda: tf.reduce_sum(d * c), lambda: tf.reduce_sum(d))
    grads = [*tf.gradients(y, [c]), *tf.gradients(z, [d])]
    return [([y, z, *grads], {p: True}), ([y, z, *grads], {p: False})]


def captured_by_map(tf: Any) -> Any:
    c = tf.constant([1.0, 2.0])
    e = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    y = tf.map_fn(lambda v: tf.reduce_sum(v * c) + c, e)
    z = tf.scan(lambda a, v: a * v + c, e, tf.zeros([2]))
    w = tf.foldl(lambda a, v: a + v * c, e)
    return [([y, z, w, *tf.gradients(y, [c, e]), *tf.gradients(z, [c, e]), *tf.gradients(w, [c])], {})]


def captured_deep(tf: Any) -> Any:
    p = tf.placeholder(tf.bool, [], name="p")
    c = tf.constant(1.5)

    def body(i: Any, x: Any) -> Any:
        x = tf.cond(p, lambda: x * c, lambda: x + c)
        _, x = tf.while_loop(lambda j, _: j < 2, lambda j, u: (j + 1, u * c), [0, x])
        return i + 1, x

    _, y = tf.while_loop(lambda i, _: i < 2, body, [0, tf.constant(1.0)])
    g = tf.gradients(y, [c])
    return [([y, *g], {p: True}), ([y, *g], {p: False})]


def looked_up(tf: Any) -> Any:
    """Fetches by the names that TensorFlow gives."""
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    p = tf.placeholder(tf.bool, [], name="p")
    tf.add(x, 1.0)
    x + 1.0
    tf.multiply(x, 2.0)
    x * 2.0
    x - 1.0
    x / 2.0
    tf.reduce_mean(x)
    tf.nn.softmax(x)
    tf.concat([x, x], 0)
    tf.cond(p, lambda: x + 1.0, lambda: x - 1.0)
    tf.cond(p, lambda: (x, x * 2.0), lambda: (x - 1.0, x))
    tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * 2.0), [0, x])
    tf.layers.flatten(x)
    tf.layers.dense(x, 2, kernel_initializer=tf.ones_initializer(), name="fc")
    tf.summary.scalar("s", tf.reduce_sum(x))
    tf.summary.merge_all()
    tf.losses.mean_squared_error(x, x * 1.5)
    tf.map_fn(lambda v: v * 2.0, x)
    names = (
        "Add:0", "add_1:0", "Mul:0", "mul_1:0", "sub:0", "truediv:0", "Mean:0", "Softmax:0", "concat:0", "cond/Merge:0",
        "cond_1/Merge:0", "cond_1/Merge_1:0", "while/Exit:0", "while/Exit_1:0", "flatten/Reshape:0", "fc/BiasAdd:0",
        "fc/kernel:0", "mean_squared_error/value:0", "Merge/MergeSummary:0", "map/TensorArrayStack/TensorArrayGatherV3:0",
    )  # fmt: skip
    graph = tf.get_default_graph()
    return [([graph.get_tensor_by_name(n) for n in names], {x: [[1.0, 2.0], [3.0, 4.0]], p: True})]


def initialized(tf: Any) -> Any:
    w = tf.Variable([1.0, 2.0], name="w")
    copy = tf.Variable(w.initialized_value(), name="copy")
    twice = tf.Variable(w.initialized_value() * 2.0, name="twice")
    random = tf.Variable(tf.random_normal([2, 2], seed=3), name="random")
    same = tf.Variable(random.initialized_value(), name="same")
    assert copy.get_shape().as_list() == [2]
    return [([w, copy, twice, random, same], {})]


def loop_variables(tf: Any) -> Any:
    n = tf.placeholder(tf.int32, [], name="n")
    with tf.variable_scope("net", reuse=tf.AUTO_REUSE):

        def body(i: Any, h: Any) -> Any:
            w = tf.get_variable("w", [2, 2], initializer=tf.constant_initializer(0.5))
            return i + 1, tf.tanh(tf.matmul(h, w) + 1.0)

        _, h = tf.while_loop(lambda i, _: tf.less(i, n), body, [tf.constant(0), tf.ones([1, 2])])
        w = tf.get_variable("w", [2, 2])
    loss = tf.reduce_sum(h)
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return [([train, loss], {n: 3}), ([w, h], {n: 2})]


def branches(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [], name="x")
    v = tf.Variable(1.0, name="v")
    y = tf.case([(x < 0.0, lambda: x * 2.0), (x > 5.0, lambda: x - 5.0)], default=lambda: v + x)
    up = tf.cond(x > 0.0, lambda: tf.assign_add(v, 1.0), lambda: tf.identity(v))
    return [(y, {x: -1.0}), (y, {x: 7.0}), (y, {x: 2.0}), (up, {x: 1.0}), (up, {x: -1.0}), (v, {})]


def arrays(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [4, 2], name="x")
    read = tf.TensorArray(tf.float32, size=4, name="inputs").unstack(x)
    write = tf.TensorArray(tf.float32, 4, name="outputs")

    def body(i: Any, total: Any, ta: Any) -> Any:
        total = total + read.read(i)
        return i + 1, total, ta.write(i, total)

    _, total, out = tf.while_loop(lambda i, *_: i < 4, body, (0, tf.zeros([2]), write))
    stacked = out.stack()
    return [([total, stacked, *tf.gradients(stacked, x)], {x: np.arange(8.0).reshape(4, 2)})]


def static_shapes(tf: Any) -> Any:
    n = 6
    x = tf.placeholder(tf.float32, [None, n, 3], name="x")
    left, right = x[:, : n // 2, :], x[:, n // 2 :, :]
    rows = tf.shape(x)[0]
    zeros = tf.zeros(tf.stack([rows, 5]))
    tiled = tf.tile(tf.expand_dims(x[:, 0], 1), [1, 4, 1])
    shaped = tf.reshape(x, [rows, n * 3])
    filled = tf.fill([rows, 2], 1.0)
    random = tf.random_normal([tf.shape(x)[0], 7])
    ones = tf.ones([rows, n])
    wide = tf.concat([left, right, zeros[:, None, :3]], axis=1)
    last = x[..., -1]
    half = x[:, : tf.shape(x)[1] // 2, :]
    cut = x[:, : tf.shape(x)[0], :]
    by_dimension = x[:, : x.shape[1] // 2, :]
    pieces = tf.split(x, 3, axis=2)
    moved = tf.transpose(x, [1, 0, 2])
    square = tf.matmul(x, x, transpose_b=True)
    every = [
        left,
        right,
        zeros,
        tiled,
        shaped,
        filled,
        random,
        ones,
        wide,
        last,
        pieces[0],
        moved,
        square,
        half,
        cut,
        by_dimension,
    ]
    shapes = tf.constant([str(t.get_shape().as_list()) for t in every])
    return [([shapes, left, tiled, wide, last], {x: np.arange(36.0).reshape(2, 6, 3)})]


def arithmetic(tf: Any) -> Any:
    a = tf.placeholder(tf.float32, [3], name="a")
    i = tf.constant([7, -7, 3])
    out = [
        a + a, a - 1, 2 * a, a / 2.0, a // 2.0, a % 2.0, a**2, -a, abs(a), 1 - a, 1 / a, i // 2, i % 3, i / 2,
        a < 1, a >= 1, tf.logical_not(a > 1), (a > 1) & (a < 3), (a > 1) | (a < 0), tf.equal(a, 1.0),
        tf.subtract(a, 1.0), tf.divide(a, 2.0), tf.div(i, 2), tf.floordiv(i, 2), tf.mod(i, 3), tf.truediv(i, 2),
        tf.maximum(a, 1.5), tf.minimum(a, 1.5), tf.pow(a, 2.0), tf.exp(a), tf.log(a + 1), tf.sqrt(a), tf.sign(a),
        tf.reduce_sum(a), tf.reduce_max(a), tf.reduce_prod(a), tf.reduce_any(a > 1), tf.argmax(a), tf.argmin(a, 0),
        tf.cast(a, tf.int32), tf.to_float(i), tf.to_int32(a), tf.where(a > 1, a, -a), tf.stack([a, a]),
        tf.reduce_logsumexp(a), tf.cumsum(a), tf.add_n([a, a]), tf.tensordot(a, a, 1), tf.norm(a), tf.zeros_like(a),
        tf.ones_like(a), tf.one_hot(i, 4), tf.range(3), tf.linspace(0.0, 1.0, 3), tf.squeeze(a[None]), tf.rank(a),
        tf.size(a), tf.gather(a, [0, 2]), tf.boolean_mask(a, [True, False, True]), tf.slice(a, [1], [2]), a[1:], a[0],
        tf.reverse(a, [0]), tf.pad(a, [[1, 0]]), tf.unstack(a)[0], tf.nn.relu(a), tf.sigmoid(a), tf.nn.softplus(a),
        tf.nn.moments(a, [0])[0], tf.nn.l2_normalize(a, 0), tf.nn.log_softmax(a), tf.nn.top_k(a, 2)[0],
        tf.clip_by_norm(a, 1.0), tf.squared_difference(a, 1.0), tf.round(a), tf.scalar_mul(2.0, a), tf.identity(a),
        tf.stop_gradient(a), tf.is_nan(a), tf.reduce_mean(a, keepdims=True), tf.math.reduce_std(a), tf.meshgrid(a, a)[0],
        tf.nn.in_top_k(tf.stack([a, a]), [0, 1], 1), tf.eye(2), tf.diag(a), tf.trace(tf.eye(2)),
        tf.sparse_to_dense([1], [3], 1.0), tf.scatter_nd([[1]], [2.0], [3]), tf.einsum("i,i->", a, a),
        tf.einsum("ij,jk->ik", tf.eye(3), a[:, None]), tf.invert_permutation([1, 0, 2]), tf.sequence_mask([1, 2]),
        tf.nn.elu(a), tf.nn.leaky_relu(a), tf.nn.selu(a), tf.nn.tanh(a), tf.nn.bias_add(tf.stack([a, a]), a),
        tf.nn.dropout(a, keep_prob=1.0), tf.string_join(["a", "b"]), tf.as_string(i), tf.count_nonzero(i),
        tf.broadcast_to(a, [2, 3]), tf.setdiff1d(i, [3])[0], tf.unique(i)[0], tf.fill([2], 1.0), tf.zeros([2]),
    ]  # fmt: skip
    return [(out, {a: [1.0, 2.0, 4.0]})]


def differentiated(tf: Any) -> Any:
    a = tf.constant([[1.0, 2.0], [3.0, 5.0]], name="a")
    b = tf.Variable([[0.5, 1.0], [2.0, 0.1]], name="b")
    v = tf.Variable([0.3, 0.7], name="v")
    y = [
        tf.matmul(a, b) + v, a * v, a / v, a - v, tf.pow(v, 2.0), tf.exp(v), tf.log(v), tf.sqrt(v), tf.reduce_mean(b, 1),
        tf.reduce_max(b, 0), tf.reduce_prod(v), tf.concat([a, b], 1), tf.reshape(b, [4]), tf.transpose(b),
        tf.gather(b, [1, 0]), b[:, 0], b[0:1], tf.stack([v, v]), tf.tile(v, [2]), tf.pad(v, [[1, 1]]), tf.maximum(v, 0.5),
        tf.where(v > 0.5, v, -v), tf.nn.softmax(b), tf.nn.log_softmax(b), tf.sigmoid(v), tf.tanh(v), tf.nn.relu(b - 0.6),
        tf.expand_dims(v, 0), tf.squeeze(v[None]), tf.cumsum(v), tf.square(v), tf.abs(v), -v, tf.add_n([v, v]),
        tf.squared_difference(v, 1.0), tf.clip_by_value(v, 0.4, 1.0), tf.nn.moments(b, [0])[1], tf.split(b, 2)[0],
        tf.unstack(b)[1], tf.rsqrt(v), tf.norm(v), tf.reduce_logsumexp(b), tf.nn.l2_loss(b), tf.cast(v, tf.float64),
        tf.sin(v), tf.cos(v), tf.fill([2], v[0]), tf.slice(b, [0, 1], [2, 1]), tf.nn.embedding_lookup(b, [1, 1]),
        tf.gather_nd(b, [[0, 1]]), tf.reverse(v, [0]), tf.nn.elu(b - 0.6), tf.nn.softplus(v), tf.nn.bias_add(b, v),
        tf.einsum("ij,jk->ik", a, b), tf.tensordot(a, b, 1), tf.broadcast_to(v, [2, 2]), tf.nn.top_k(v, 1)[0],
        tf.stop_gradient(v) * v, tf.identity(v), tf.minimum(b, 0.7), tf.sign(v) * v, tf.reduce_sum(b, [0, 1], keepdims=True),
    ]  # fmt: skip
    total = tf.add_n([tf.reduce_sum(tf.cast(t, tf.float32)) for t in y])
    grads = tf.gradients(total, [b, v])
    hessian = tf.gradients(tf.gradients(tf.reduce_sum(v * v * v), v), v)
    dense = [tf.convert_to_tensor(g) for g in grads]
    return [([total, *dense, *hessian], {})]
