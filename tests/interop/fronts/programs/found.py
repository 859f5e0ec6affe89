"""What programs made at random (tests/interop/fuzz) found to differ."""

from __future__ import annotations

from typing import Any

import numpy as np


def branches_in_loops(tf: Any) -> Any:
    """Gradients through a condition inside a loop: what the branch that does not run would have saved is not there."""
    p = tf.placeholder(tf.bool, [], name="p")
    x = tf.Variable([0.3, 0.4, 0.5], name="x")
    s = tf.Variable(0.5, name="s")

    def body(i: Any, v: Any) -> Any:
        y = tf.cond(p, lambda: tf.tanh(v) * s + tf.reduce_sum(tf.sin(v)), lambda: tf.sqrt(v) + tf.reduce_max(v * s))
        return i + 1, tf.tanh(y)

    _, z = tf.while_loop(lambda i, _: i < 2, body, [0, x])
    _, w = tf.while_loop(
        lambda i, _: i < 2, lambda i, v: (i + 1, tf.case([(p, lambda: v * s)], default=lambda: tf.exp(-v))), [0, x]
    )
    grads = [*tf.gradients(z, [x, s]), *tf.gradients(w, [x, s])]
    return [([z, w, *grads], {p: True}), ([z, w, *grads], {p: False})]


def clipped_in_branches(tf: Any) -> Any:
    """What `clip_by_global_norm` gives has a name that may stand in a scope alone."""
    p = tf.placeholder(tf.bool, [], name="p")
    v = tf.Variable([1.0, -2.0, 3.0], name="v")
    loss = tf.reduce_sum(tf.square(v))
    clipped, norm = tf.clip_by_global_norm(tf.gradients(loss, [v]), 1.5)
    chosen = tf.cond(p, lambda: clipped[0] * 2.0, lambda: tf.zeros_like(clipped[0]))
    _, scaled = tf.while_loop(lambda i, _: i < 2, lambda i, g: (i + 1, g + clipped[0]), [0, chosen])
    train = v.assign_sub(0.1 * scaled)
    return [([chosen, scaled, norm], {p: True}), (train, {p: False}), (v, {})]


def gathered_twice(tf: Any) -> Any:
    """Gradients of arrays whose elements are gathered more than once, and of gathers of unknown rank."""
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    u = tf.placeholder(tf.float32, None, name="u")
    array = tf.TensorArray(tf.float32, 2, clear_after_read=False).unstack(x)
    twice = array.gather([1, 0, 1])
    cut = tf.boolean_mask(u, [True, False, True], axis=1)
    picked = tf.gather(u, [1, 1, 0], axis=1)
    weights = tf.constant([[1.0, 2.0, 3.0]])
    grads = [*tf.gradients(twice * weights, [x]), *tf.gradients([cut * 2.0, picked * weights], [u])]
    data = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    return [([twice, array.concat(), cut, picked, *grads], {x: data, u: data})]


def slices_of_variables(tf: Any) -> Any:
    """Parts of variables are assigned to."""
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="v", use_resource=True)
    w = tf.Variable([1.0, 2.0, 3.0], name="w", use_resource=False)
    rows, one = v[0].assign([9.0, 8.0]), w[1:].assign([7.0, 6.0])
    columns = v[:, 1].assign([0.5, 0.25])
    shapes = tf.constant([str(v[0].shape.as_list()), str(w[1:].shape.as_list())])
    return [(shapes, {}), (tf.group(rows, one), {}), ([v, w], {}), (tf.group(columns), {}), ([v, w, v[1:, ::-1]], {})]


def types_of_losses(tf: Any) -> Any:
    """Losses of float64 are reckoned in float32."""
    a = tf.placeholder(tf.float64, [2, 2], name="a")
    b = tf.constant([[0.1, 0.7], [0.2, 0.9]], tf.float64)
    made = [tf.losses.mean_squared_error(b, a), tf.losses.absolute_difference(b, a), tf.losses.huber_loss(b, a)]
    types = tf.constant([t.dtype.name for t in made])
    return [([types, *made], {a: [[0.3, 0.4], [0.8, 0.1]]})]


def labels_of_another_rank(tf: Any) -> Any:
    """Labels with a dimension more than the logits: all but the last one count as rows."""
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.placeholder(tf.int32, [None], name="y")
    u = tf.placeholder(tf.float32, None, name="u")
    w = tf.Variable([[0.1, -0.2, 0.3], [0.4, 0.5, -0.6], [0.7, 0.8, 0.9]], name="w")
    logits = tf.matmul(x, w)
    own = tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=tf.stop_gradient([tf.one_hot(y, 3)]))
    older = tf.nn.softmax_cross_entropy_with_logits(logits=logits, labels=u)
    fetches = [own, older, *tf.gradients(own, [w]), *tf.gradients(older, [w])]
    feed = {x: [[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]], y: [2, 0], u: [[[0.0, 0.5, 0.5]], [[1.0, 0.0, 0.0]]]}
    return [(fetches, feed)]


def states_side_by_side(tf: Any) -> Any:
    """Cells whose states lie in one tensor, and cells on a device."""
    cell = tf.nn.rnn_cell
    x = tf.placeholder(tf.float32, [2, 3, 4], name="x")
    flat = [cell.LSTMCell(3, state_is_tuple=False), cell.GRUCell(2), cell.BasicLSTMCell(2, state_is_tuple=False)]
    stack = cell.MultiRNNCell(flat, state_is_tuple=False)
    on_device = cell.DeviceWrapper(cell.GRUCell(3), "/cpu:0")
    with tf.variable_scope("a", initializer=tf.constant_initializer(0.1)):
        outputs, state = tf.nn.dynamic_rnn(stack, x, dtype=tf.float32)
    with tf.variable_scope("b", initializer=tf.constant_initializer(0.2)):
        placed, last = tf.nn.static_rnn(on_device, tf.unstack(x, axis=1), on_device.zero_state(2, tf.float32))
    sizes = tf.constant(
        [str(stack.state_size), str(stack.output_size), placed[0].device.lower().replace("device:", "")]
    )
    grads = tf.gradients([outputs, *placed], [x])
    data = [[[0.1 * (i + j + k) for k in range(4)] for j in range(3)] for i in range(2)]
    return [([outputs, state, placed[-1], last, *grads, sizes], {x: data})]


def structures_in_recurrent_networks(tf: Any) -> Any:
    """A cell of two inputs, two outputs, a picture and a number as state; sequences end at their lengths."""

    class Pictures(tf.nn.rnn_cell.RNNCell):
        state_size: Any = (tf.TensorShape([2, 2]), 3, tf.TensorShape([]))
        output_size: Any = (tf.TensorShape([2, 2]), 3)

        def zero_state(self, batch: Any, dtype: Any) -> Any:
            return tf.zeros([batch, 2, 2], dtype), tf.ones([batch, 3], dtype), tf.constant(0.5)

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
            picture, row = inputs
            held, sums, count = state
            w = tf.get_variable("w", [3], initializer=tf.constant_initializer([0.5, 1.0, -1.0]))
            held, sums = held * 0.5 + picture, sums + tf.tanh(row * w)
            return (held * count, sums), (held, sums, count + 1.0)

    pictures = tf.placeholder(tf.float32, [2, 3, 2, 2], name="pictures")
    rows = tf.placeholder(tf.float32, [2, 3, 3], name="rows")
    lengths = tf.placeholder(tf.int32, [2], name="lengths")
    with tf.variable_scope("a"):
        (held, sums), last = tf.nn.dynamic_rnn(Pictures(), (pictures, rows), lengths, dtype=tf.float32)
    with tf.variable_scope("b"):
        steps = list(zip(tf.unstack(pictures, axis=1), tf.unstack(rows, axis=1)))
        each, end = tf.nn.static_rnn(Pictures(), steps, dtype=tf.float32, sequence_length=lengths)
    with tf.variable_scope("c"):
        (major, _), _ = tf.nn.dynamic_rnn(
            Pictures(),
            (tf.transpose(pictures, [1, 0, 2, 3]), tf.transpose(rows, [1, 0, 2])),
            initial_state=Pictures().zero_state(2, tf.float32),
            dtype=tf.float32,
            time_major=True,
        )
    grads = tf.gradients([tf.reduce_sum(held), tf.reduce_sum(sums)], [pictures, rows])
    shapes = tf.constant([str(held.shape), str(sums.shape), str(major.shape)])
    feed = {
        pictures: [[[[0.1 * (i + j), 0.2], [k, 0.4]] for k in range(3)] for i, j in ((0, 1), (2, 3))],
        rows: [[[0.1, 0.2, 0.3 * k] for k in range(3)], [[0.5, -0.2, 0.1 * k] for k in range(3)]],
        lengths: [2, 3],
    }
    return [([held, sums, *last[:2], each[-1], end[:2], major, *grads, shapes], feed)]


def attributes_before_the_constructor(tf: Any) -> Any:
    """A layer whose attributes, lists and layers among them, are set before its base's constructor is called."""

    class Tower(tf.keras.layers.Layer):
        def __init__(self, units: Any, **kwargs: Any) -> None:
            self.units, self.more = units, []
            self.last = tf.keras.layers.Dense(1, kernel_initializer="ones", name="last")
            super().__init__(**kwargs)

        def build(self, shape: Any) -> None:
            self.more.extend(tf.keras.layers.Dense(n, kernel_initializer="ones", name=f"m{n}") for n in self.units)
            super().build(shape)

        def call(self, inputs: Any) -> Any:
            for layer in self.more:
                inputs = layer(inputs)
            return self.last(inputs)

    x = tf.placeholder(tf.float32, [2, 3], name="x")
    tower, bare = Tower([4, 2], name="tower"), Tower([], name="bare")
    y, z = tower(x), bare(x)
    counts = tf.constant([len(tower.weights), len(bare.weights), len(tower.trainable_weights)])
    return [([y, z, counts], {x: [[1.0, 2.0, 3.0], [0.5, 0.25, 0.0]]})]


def known_shapes(tf: Any) -> Any:
    """Static shapes of what has no known rank, and of what constants say."""
    u = tf.placeholder(tf.float32, None, name="u")
    array = tf.TensorArray(tf.float32, 0, dynamic_size=True).unstack(tf.zeros([3, 2]))
    every = [
        tf.reduce_sum(u), tf.reduce_logsumexp(u), tf.reduce_all(u > 0.0), tf.sequence_mask([1, 3, 2]), array.size(),
        tf.argmax(tf.zeros([3]), 0),
    ]  # fmt: skip
    return [(tf.constant([str(t.shape) for t in every]), {})]


def wrong_arguments(tf: Any) -> Any:
    """Kinds of errors of arguments that do not fit."""
    f, d, i = tf.ones([2, 4]), tf.ones([4, 2], tf.float64), tf.ones([2], tf.int32)
    variable = tf.Variable([1.0, 2.0], name="v", use_resource=True)
    calls = [
        lambda: tf.matmul(f, d), lambda: tf.multiply(variable, i), lambda: tf.stack([tf.ones([2]), i]),
        lambda: tf.cond(tf.ones([]), lambda: f, lambda: f), lambda: tf.cond(tf.constant(True), lambda: f, lambda: d),
        lambda: tf.slice(tf.ones([3]), [0, 0], [1, 3]), lambda: tf.tile(f, [2, -2]), lambda: tf.broadcast_to(f, [2, 3]),
        lambda: tf.tensordot(f, f, 1), lambda: tf.nn.top_k(f, -1), lambda: tf.pad(f, [[0, 1], [-1, 0]]),
        lambda: tf.convert_to_tensor(None), lambda: f + None, lambda: bool(variable),
    ]  # fmt: skip
    kinds = []
    for call in calls:
        try:
            call()
            kinds.append("")
        except Exception as e:
            # The errors of AutoGraph are kinds of TypeError.
            kinds.append(next(c.__name__ for c in type(e).__mro__ if c.__module__ == "builtins"))
    return [(tf.constant(kinds), {})]


def sparse_placeholders(tf: Any) -> Any:
    """Sparse tensors to feed whose shape is a tensor, is known in part, or is fed; paddings known in part."""
    n, k = tf.placeholder(tf.int64, [2], name="n"), tf.placeholder(tf.int32, [], name="k")
    made = [
        tf.sparse_placeholder(tf.float32, shape=n),
        tf.sparse_placeholder(tf.float32, shape=tf.constant([3, 4], tf.int64), name="q"),
        tf.sparse_placeholder(tf.float32, shape=[None, 4], name="part"),
        tf.sparse_placeholder(tf.float32, shape=[3, 4]),
        tf.sparse_placeholder(tf.float32),
    ]
    dense = [tf.sparse_tensor_to_dense(s) for s in made]
    padded = tf.pad(tf.placeholder(tf.float32, [None, 8, 3], name="x"), [[0, 0], [1, 2], [0, k]])
    known = tf.constant([str(s.shape) for s in made] + [str(t.shape) for t in (dense[0], padded)])
    names = tf.constant([t.name for s in made for t in (s.indices, s.values, s.dense_shape)])
    value = tf.SparseTensorValue(np.array([[0, 1], [2, 3]]), np.array([1.0, 2.0]), np.array([3, 4]))
    runs = [(t, {s: value, n: [3, 4]} if i == 0 else {s: value}) for i, (s, t) in enumerate(zip(made, dense))]
    parts = {made[0].indices: value.indices, made[0].values: value.values, n: [3, 5]}
    return [([known, names], {}), *runs, (dense[0], parts)]


def saturated(tf: Any) -> Any:
    """What is cast with saturation is clamped to what both types have."""
    x = tf.constant([1e20, -1e20, 5e9, 254.6, -0.5, np.inf, -np.inf], tf.float32)
    whole = tf.constant([3_000_000_000, -3_000_000_000, 70_000, -1], tf.int64)
    small = tf.constant([255, 0, 128], tf.uint8)
    kinds = (tf.uint8, tf.int16, tf.int32, tf.float16)
    # Bounds of 64 bits overflow in TensorFlow.
    cast = [tf.saturate_cast(v, kind) for v in (x, whole, small) for kind in kinds]
    cast += [tf.saturate_cast(v, kind) for v in (x, small) for kind in (tf.float32, tf.float64)]
    both = tf.complex(tf.constant([1e39, -1.0], tf.float64), tf.constant([2.0, -1e39], tf.float64))
    cast += [tf.saturate_cast(both, tf.complex64), tf.saturate_cast(x, tf.complex64)]
    slope = tf.gradients(tf.saturate_cast(x, tf.float16), x)[0]
    parts = [[tf.real(c), tf.imag(c)] for c in cast[-2:]]
    return [([tf.cast(c, tf.float64) for c in cast[:-2]], {}), (slope, {}), (parts, {})]


def padded_structures(tf: Any) -> Any:
    """Shapes to pad to stand in structures, as lists, tuples and shapes."""

    def rows(i: Any) -> Any:
        return tf.fill([i + 1], i), {"y": tf.cast(i, tf.float32), "s": (tf.fill([i, 2], 0.5), tf.as_string(i))}

    data = tf.data.Dataset.range(4).map(rows)
    shapes = ([None], {"y": [], "s": (tf.TensorShape([None, 2]), tf.TensorShape([]))})
    first = data.padded_batch(2, shapes)
    second = data.padded_batch(
        2, ((5,), {"y": (), "s": ([4, 3], [])}), (tf.constant(-1, tf.int64), {"y": 0.0, "s": (9.0, "x")})
    )
    made = [tf.data.make_one_shot_iterator(d).get_next() for d in (first, second)]
    types, known = tf.data.get_output_types(first), tf.data.get_output_shapes(first)
    again = tf.data.Iterator.from_structure(types, known)
    made.append(again.get_next())
    tf.constant([str(v.shape) for part in made for v in (part[0], part[1]["y"], *part[1]["s"])], name="shapes")
    numbers = tf.data.Dataset.from_tensors(([1, 2], [3])).padded_batch(1, ([3], [2]), padding_values=7)
    start = again.make_initializer(first, name="start")
    third = tf.data.make_one_shot_iterator(numbers).get_next()
    return [(start, {}), (made, {}), (made, {}), (third, {}), ("shapes:0", {})]


def imported_control_flow(tf: Any) -> Any:
    """A graph that was written down and read again is trained: gradients go through its conditions and loops."""
    with tf.Graph().as_default() as written:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        p = tf.placeholder(tf.bool, [], name="p")
        w = tf.get_variable("w", initializer=[[0.5, -0.25], [0.75, 1.0]], use_resource=False)
        b = tf.get_variable("b", initializer=[0.1, 0.2], use_resource=True)
        chosen = tf.cond(p, lambda: tf.tanh(tf.matmul(x, w)) + b, lambda: tf.square(x) * b, name="chosen")

        def body(i: Any, v: Any) -> Any:
            return i + 1, tf.cond(
                p, lambda: tf.matmul(v, w) + tf.sin(v), lambda: tf.cond(i < 1, lambda: v * b, lambda: v)
            )

        _, looped = tf.while_loop(lambda i, _: i < 3, body, [0, chosen], shape_invariants=[tf.TensorShape([]), x.shape])
        tf.reduce_sum(looped, name="looped")
        tf.reduce_sum(chosen * chosen, name="squared")
        meta = tf.train.export_meta_graph(graph=written)
    tf.train.import_meta_graph(meta)
    graph = tf.get_default_graph()
    looped, squared, x = (graph.get_tensor_by_name(f"{name}:0") for name in ("looped", "squared", "x"))
    slopes = tf.gradients(squared, [x, *tf.trainable_variables()]) + tf.gradients(
        looped, [x, *tf.trainable_variables()]
    )
    train = tf.train.GradientDescentOptimizer(0.1).minimize(squared)
    slopes = [tf.convert_to_tensor(s) for s in slopes]
    data = [[1.0, 2.0], [-0.5, 0.25]]
    return [
        ([looped, squared, slopes], {x: data, "p:0": True}),
        ([looped, squared, slopes], {x: data, "p:0": False}),
        (train, {x: data, "p:0": True}),
        (squared, {x: data, "p:0": True}),
    ]


def switched(tf: Any) -> Any:
    """Gradients of conditions that are made of Switch and Merge, as graphs that TensorFlow has written have them."""
    p, q = tf.placeholder(tf.bool, [], name="p"), tf.placeholder(tf.bool, [], name="q")
    w = tf.get_variable("w", initializer=[1.0, -2.0, 3.0], use_resource=True)
    x = tf.identity(w)
    no, yes = tf.raw_ops.Switch(data=x, pred=p)
    first, second = tf.raw_ops.Switch(data=yes, pred=tf.raw_ops.Switch(data=q, pred=p)[1])
    inner = tf.raw_ops.Merge(inputs=[tf.sin(first), second * second])[0]
    outer, index = tf.raw_ops.Merge(inputs=[tf.exp(no) + no, inner])
    # One branch has nothing to do with x.
    only = tf.raw_ops.Merge(inputs=[tf.raw_ops.Switch(data=tf.ones([3]), pred=p)[0], tf.sqrt(tf.abs(yes))])[0]
    slopes = [tf.gradients(t, x)[0] for t in (outer * x, only, outer + only)]
    train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(outer * only))
    feeds = [{p: a, q: b} for a, b in ((True, True), (True, False), (False, True))]
    return [([outer, index, only, slopes], feed) for feed in feeds] + [(train, feed) for feed in feeds] + [(w, {})]


def queued_batches(tf: Any) -> Any:
    """Queues of names, slices and batches, of sparse tensors too; their summaries say how full they are."""
    names = tf.train.string_input_producer(["a b", "c", "d e f", ""], shuffle=False, num_epochs=2)
    key = names.dequeue(name="key")
    words = tf.string_split([key])
    vector = tf.SparseTensor(words.indices[:, 1:], tf.strings.length(words.values), words.dense_shape[1:])
    fed = tf.placeholder_with_default([[1.0, 2.0], [3.0, 4.0]], [None, 2])
    batched = tf.train.batch([key, vector, words], 3, num_threads=2, capacity=20)
    kept = tf.train.maybe_batch({"key": key, "words": vector}, tf.not_equal(key, "c"), 2, name="kept")
    many = tf.SparseTensor([[0, 1], [2, 0]], [7, 8], [3, 2])
    joined = tf.train.batch_join(
        [[many, [1, 2, 3]], [many, [4, 5, 6]]], 4, enqueue_many=True, allow_smaller_final_batch=True
    )
    shuffled = tf.train.shuffle_batch([fed], 2, 10, 2, enqueue_many=True)
    sliced = tf.train.slice_input_producer([[[1, 2], [3, 4]], ["x", "y"]], shuffle=False, capacity=6)
    runners = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
    parts = [batched[0], *batched[1:], kept["key"], kept["words"], *joined, shuffled, *sliced]
    dense = [p for p in parts if isinstance(p, tf.Tensor)]
    sparse = [p.indices.shape for p in parts if not isinstance(p, tf.Tensor)]
    known = [str(shape) for shape in [*(t.shape for t in dense), *sparse]]
    tf.constant([*known, *(r.name for r in runners), *(t.name for t in dense)], name="known")
    fill = [tf.group(runner.enqueue_ops[0]) for runner in runners]
    full = tf.summary.merge_all()
    steps: list[Any] = [
        ("known:0", {}),
        (full, {}),
        (fill[0], {}),
        *[(fill[1], {})] * 3,
        (fill[0], {}),
        *[(fill[2], {})] * 3,
    ]
    steps += [
        (fill[3], {}),
        (tf.group(runners[3].enqueue_ops[1]), {}),
        (fill[4], {}),
        (fill[4], {}),
        (fill[5], {}),
        (full, {}),
    ]
    steps += [(batched, {}), ([kept["key"], kept["words"]], {}), (joined, {}), (sliced, {}), (sliced, {})]
    return [*steps, (tf.shape(shuffled), {}), (full, {})]


def names_of_states(tf: Any) -> Any:
    """What programs look up in frozen graphs: outputs and last states of recurrent networks by their names."""
    x = tf.constant(np.cos(np.arange(30)).reshape(2, 3, 5), tf.float32)
    cell = tf.nn.rnn_cell
    made = [
        tf.nn.dynamic_rnn(cell.LSTMCell(3), x, dtype=tf.float32),
        tf.nn.dynamic_rnn(cell.GRUCell(3), x, [1, 2, 2], dtype=tf.float32, time_major=True, scope="major"),
        tf.nn.bidirectional_dynamic_rnn(cell.GRUCell(3), cell.LSTMCell(2), x, dtype=tf.float32),
        tf.nn.bidirectional_dynamic_rnn(cell.GRUCell(2), cell.GRUCell(3), x, [3, 1], dtype=tf.float32, scope="both"),
        tf.nn.static_rnn(cell.BasicLSTMCell(3), tf.unstack(x, axis=1), dtype=tf.float32),
    ]
    with tf.variable_scope("outer"):
        stack = cell.MultiRNNCell([cell.GRUCell(3), cell.LSTMCell(2, num_proj=4)])
        made.append(tf.nn.dynamic_rnn(stack, x, dtype=tf.float32))

    def leaves(value: Any) -> Any:
        return [leaf for part in value for leaf in leaves(part)] if isinstance(value, (list, tuple)) else [value]

    found = leaves(made)
    return [(tf.constant([t.name for t in found]), {}), (found, {})]


def sizes_of_arrays(tf: Any) -> Any:
    """An array that goes through writes, loops and branches still has the size that it was made with."""
    p = tf.placeholder_with_default(True, [], name="p")
    n = tf.placeholder_with_default(3, [], name="n")
    made = []
    for size in (3, n):
        array = tf.TensorArray(tf.float32, size, element_shape=[2], clear_after_read=False)
        _, looped = tf.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, a.write(i, tf.ones([2]) * tf.cast(i, tf.float32))), (0, array)
        )
        unstacked = tf.TensorArray(tf.float32, size, clear_after_read=False).unstack(tf.constant([[1.0], [2.0], [3.0]]))
        chosen = tf.cond(p, lambda a=unstacked: a.stack() * 2.0, lambda a=unstacked: a.stack())
        made += [looped.stack(), unstacked.stack(), unstacked.size(), looped.size(), chosen, looped.read(1)]
    grows = tf.TensorArray(tf.float32, 0, True, False).write(0, 1.0).write(1, 2.0)
    made += [grows.stack(), grows.size()]
    return [(tf.constant([str(t.shape) for t in made]), {}), (made, {}), (made, {p: False})]


def names_of_results(tf: Any) -> Any:
    """Results whose ops are called otherwise than their types."""
    x = tf.constant([[0.5, 1.0, -2.0, 4.0], [1.5, 0.0, 2.0, 3.0]])
    made = [tf.spectral.rfft(x), tf.spectral.rfft(x, [2], name="named"), tf.spectral.rfft2d(x)]
    made += [tf.spectral.irfft(made[0]), tf.spectral.irfft2d(made[2]), tf.histogram_fixed_width(x, [0.0, 4.0], 3)]
    return [(tf.constant([t.name for t in made]), {}), ([tf.real(t) if t.dtype.is_complex else t for t in made], {})]
