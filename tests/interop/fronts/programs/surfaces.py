"""What programs met that had not worked, variables and scopes, input, and state."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.linspace(-1.0, 1.0, 24).reshape(6, 4).astype(np.float32)


def many_nodes(tf: Any) -> Any:
    h = x = tf.placeholder(tf.float32, [2, 3], name="x")
    for i in range(120):
        w = tf.Variable(tf.eye(3) * (0.9 + i % 3 * 0.1), name="w")
        b = tf.Variable(tf.zeros([3]), name="b")
        h = tf.nn.relu(tf.matmul(h, w) + b)
    loss = tf.reduce_mean(tf.square(h))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return [(train, {x: np.ones((2, 3))})] * 8 + [([loss, w, b], {x: np.ones((2, 3))})]


def other_ranks(tf: Any) -> Any:
    """Labels and logits of ranks that differ from two, and from each other."""
    logits = tf.constant(np.linspace(-1, 1, 24).reshape(2, 3, 4), tf.float32)
    labels = tf.nn.softmax(tf.constant(np.linspace(1, -1, 24).reshape(2, 3, 4), tf.float32))
    flat = tf.reshape(labels, [6, 4])
    one = tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    two = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits, axis=1)
    three = tf.nn.softmax_cross_entropy_with_logits(labels=flat, logits=logits)
    four = tf.nn.softmax_cross_entropy_with_logits(labels=labels[0, 0], logits=logits[0, 0])
    five = tf.nn.softmax_cross_entropy_with_logits(labels=labels[0, :1], logits=logits[0])
    six = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.argmax(labels, -1), logits=logits)
    return [([one, two, three, four, five, six, *tf.gradients([one, three, four], [logits])], {})]


def sparse_inputs(tf: Any) -> Any:
    size = tf.placeholder(tf.int64, [2], name="size")
    given = tf.sparse_placeholder(tf.float32, name="given")
    shaped = tf.sparse_placeholder(tf.float32, shape=[2, 3], name="shaped")
    dynamic = tf.sparse_placeholder(tf.float32, shape=size, name="dynamic")
    loose = tf.sparse_placeholder(tf.float32, shape=[None, 3], name="loose")
    w = tf.ones([3, 2])
    values = tf.SparseTensorValue([[0, 1], [1, 2]], np.array([2.0, 3.0], np.float32), [2, 3])
    out = [tf.sparse_tensor_dense_matmul(s, w) for s in (given, shaped, dynamic, loose)]
    feed = {given: values, shaped: values, loose: values, dynamic: values, size: [2, 3]}
    return [(out[:2] + out[3:], {k: v for k, v in feed.items() if k is not dynamic and k is not size})]


def own_optimizers(tf: Any) -> Any:
    class Scaled(tf.train.Optimizer):
        def __init__(self, rate: float, use_locking: bool = False, name: str = "Scaled") -> None:
            super().__init__(use_locking, name)
            self._rate = rate

        def _prepare(self) -> None:
            self._rate_t = tf.convert_to_tensor(self._rate, name="rate")

        def _create_slots(self, var_list: Any) -> None:
            for v in var_list:
                self._zeros_slot(v, "total", self._name)

        def _apply_dense(self, grad: Any, var: Any) -> Any:
            total = self.get_slot(var, "total")
            total_t = total.assign(0.9 * total + grad)
            return tf.group(tf.assign_sub(var, self._rate_t * total_t), total_t)

        def _apply_sparse(self, grad: Any, var: Any) -> Any:
            return tf.scatter_sub(var, grad.indices, self._rate_t * grad.values)

    class Wrapped(tf.train.Optimizer):
        def __init__(self, inner: Any) -> None:
            super().__init__(False, "Wrapped")
            self._inner = inner

        def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
            return [(tf.clip_by_value(g, -0.1, 0.1), v) for g, v in self._inner.compute_gradients(*args, **kwargs)]

        def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
            return self._inner.apply_gradients(*args, **kwargs)

    class Noisy(tf.train.GradientDescentOptimizer):
        def compute_gradients(self, loss: Any, var_list: Any = None, **kwargs: Any) -> Any:
            return [(g * 2.0, v) for g, v in super().compute_gradients(loss, var_list, **kwargs)]

        def _apply_dense(self, grad: Any, var: Any) -> Any:
            return super()._apply_dense(grad * 0.5, var)

    w = tf.Variable([1.0, 2.0], name="w")
    e = tf.Variable(tf.ones([3, 2]), name="e")
    loss = tf.reduce_sum(w * w) + tf.reduce_sum(tf.gather(e, [0, 2]))
    steps = [
        Scaled(0.1).minimize(loss),
        Wrapped(tf.train.AdamOptimizer(0.1)).minimize(loss, var_list=[w]),
        Noisy(0.1).minimize(loss, var_list=[w]),
    ]
    return [([s, loss], {}) for s in steps * 2] + [([w, e], {})]


def scopes(tf: Any) -> Any:
    with tf.variable_scope("a") as a:
        tf.get_variable("v", [1], initializer=tf.zeros_initializer())
        with tf.variable_scope("b"):
            tf.get_variable("v", [2], initializer=tf.ones_initializer())
            tf.Variable(1.0, name="plain")
    with tf.variable_scope(a, reuse=True):
        v = tf.get_variable("v", [1])
        w = v + 1.0
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE), tf.name_scope("inner"):
        u = tf.get_variable("u", [1], initializer=tf.constant_initializer(3))
        plain = tf.Variable(2.0, name="plain")
        s = u * 2.0
    with tf.variable_scope(None, default_name="auto"):
        tf.get_variable("v", [], initializer=tf.zeros_initializer())
    with tf.variable_scope(None, default_name="auto"):
        tf.get_variable("v", [], initializer=tf.zeros_initializer())
    with tf.variable_scope("a", auxiliary_name_scope=False):
        t = tf.identity(s, name="t")
    with tf.name_scope("x"), tf.variable_scope("y"):
        tf.get_variable("z", [2], initializer=tf.glorot_uniform_initializer(seed=1))
        q = tf.identity(t, name="q")

    def network(x: Any) -> Any:
        k = tf.get_variable("k", [1], initializer=tf.ones_initializer())
        return x * k

    shared = tf.make_template("shared", network)
    both = shared(w) + shared(s)
    with tf.variable_scope("parts", partitioner=tf.fixed_size_partitioner(2)):
        p = tf.get_variable("p", [4, 2], initializer=tf.ones_initializer())
    joined = tf.convert_to_tensor(p)
    return [([w, s, t, q, both, joined, plain], {})]


def initializers(tf: Any) -> Any:
    made = []
    for name, make in (
        ("zeros", tf.zeros_initializer()), ("ones", tf.ones_initializer()), ("constant", tf.constant_initializer(0.5)),
        ("list", tf.constant_initializer([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), ("uniform", tf.random_uniform_initializer(-1, 1)),
        ("normal", tf.random_normal_initializer()), ("truncated", tf.truncated_normal_initializer(stddev=0.1)),
        ("glorot_u", tf.glorot_uniform_initializer()), ("glorot_n", tf.glorot_normal_initializer()),
        ("he", tf.variance_scaling_initializer()), ("orthogonal", tf.orthogonal_initializer(seed=1)),
        ("lecun", tf.initializers.lecun_normal()), ("he_u", tf.initializers.he_uniform()),
        ("identity", tf.initializers.identity()), ("default", None), ("xavier", tf.uniform_unit_scaling_initializer()),
    ):  # fmt: skip
        made.append(tf.get_variable(name, [2, 3], initializer=make))
    made.append(tf.Variable(tf.random_uniform([3], -1, 1), name="raw"))
    made.append(tf.Variable(tf.random_normal([3], 1.0, 2.0), name="raw_normal"))
    made.append(tf.get_variable("integers", [2], tf.int32, tf.zeros_initializer()))
    made.append(tf.get_variable("given", initializer=np.array([1.0, 2.0], np.float32)))
    noise = tf.random_uniform([2], 0, 10, tf.int32)
    shuffled = tf.random_shuffle(tf.range(5))
    chosen = tf.multinomial(tf.zeros([1, 4]), 3)
    return [(made[:10] + made[11:], {}), ([noise, shuffled, chosen], {}), (tf.random_normal([2]), {})]


def input_pipeline(tf: Any) -> Any:
    data = tf.data.Dataset.from_tensor_slices((X, np.arange(6, dtype=np.int32)))
    data = data.map(lambda x, y: (x * 2.0, y + 1)).filter(lambda _, y: tf.not_equal(y, 3)).repeat(2).batch(4)
    x, y = data.make_one_shot_iterator().get_next()
    w = tf.get_variable("w", [4, 1], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.matmul(x, w) * tf.cast(y, tf.float32)[:, None])
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    other = tf.data.Dataset.range(5).shuffle(10, seed=3).prefetch(1)
    iterator = tf.data.Iterator.from_structure(other.output_types, other.output_shapes)
    start = iterator.make_initializer(other)
    element = iterator.get_next()
    return [([train, loss], {}), ([train, loss], {}), (start, {}), (element, {}), (w, {})]


def queues(tf: Any) -> Any:
    queue = tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[2], []], name="q")
    put = queue.enqueue_many([[[1.0, 2.0], [3.0, 4.0]], [5, 6]])
    a, b = queue.dequeue()
    return [(put, {}), ([a, b], {}), (queue.close(), {})]


def state(tf: Any) -> Any:
    v = tf.Variable([1.0, 2.0, 3.0], name="v")
    count = tf.Variable(0, name="count", trainable=False)
    runs = [
        tf.assign(v, [3.0, 2.0, 1.0]), tf.assign_add(v, [1.0, 1.0, 1.0]), tf.assign_sub(v, [0.5, 0.5, 0.5]),
        v.assign(v * 2.0), v.assign_add(tf.ones([3])), tf.scatter_update(v, [0], [9.0]), tf.scatter_add(v, [1, 1], [1.0, 2.0]),
        tf.count_up_to(count, 5), tf.assign(count, 3), tf.is_variable_initialized(v), tf.report_uninitialized_variables(),
    ]  # fmt: skip
    local = tf.local_variables_initializer()
    everything = tf.group(local, tf.tables_initializer())
    return [(r, {}) for r in runs] + [(everything, {}), ([v, count], {})]


def resources(tf: Any) -> Any:
    with tf.variable_scope("r", use_resource=True):
        w = tf.get_variable("w", [2, 2], initializer=tf.ones_initializer())
        b = tf.Variable([1.0, 2.0], name="b", use_resource=True)
    y = tf.matmul(w, w) + b
    loss = tf.reduce_sum(y)
    train = tf.train.AdamOptimizer(0.1).minimize(loss)
    up = w.assign_add(tf.ones([2, 2]))
    return [(loss, {}), (train, {}), (up, {}), ([w, b, y], {})]


def functions(tf: Any) -> Any:
    def host(a: Any) -> Any:
        return (a * 2.0).astype(np.float32)

    x = tf.placeholder(tf.float32, [3], name="x")
    y = tf.py_func(host, [x], tf.float32)
    y.set_shape([3])

    @tf.custom_gradient
    def doubled(v: Any) -> Any:
        return v * 2.0, lambda g: g * 7.0

    z = doubled(x)
    return [([y, z, *tf.gradients(z, [x])], {x: [1.0, 2.0, 3.0]})]


def images(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [4, 4, 3], name="x")
    out = [
        tf.image.resize_images(x, [2, 2]), tf.image.rgb_to_grayscale(x), tf.image.flip_left_right(x),
        tf.image.adjust_brightness(x, 0.1), tf.image.per_image_standardization(x), tf.image.central_crop(x, 0.5),
        tf.image.resize_image_with_crop_or_pad(x, 6, 2), tf.image.transpose_image(x), tf.image.rot90(x),
    ]  # fmt: skip
    return [(out, {x: np.arange(48.0).reshape(4, 4, 3) / 48.0})]


def policy(tf: Any) -> Any:
    """A policy gradient: chosen actions by index, discounted rewards, an entropy bonus."""
    states = tf.placeholder(tf.float32, [None, 4], name="states")
    actions = tf.placeholder(tf.int32, [None], name="actions")
    rewards = tf.placeholder(tf.float32, [None], name="rewards")
    with tf.variable_scope("policy"):
        h = tf.layers.dense(states, 5, tf.nn.elu, kernel_initializer=tf.random_normal_initializer(0.0, 0.1))
        logits = tf.layers.dense(h, 2, name="logits")
        value = tf.squeeze(tf.layers.dense(h, 1), axis=1)
    probabilities = tf.nn.softmax(logits)
    picked = tf.reduce_sum(tf.one_hot(actions, 2) * tf.log(probabilities), axis=1)
    indexed = tf.gather(tf.reshape(probabilities, [-1]), tf.range(0, tf.shape(probabilities)[0]) * 2 + actions)
    entropy = -tf.reduce_mean(tf.reduce_sum(probabilities * tf.log(probabilities), axis=1))
    advantage = rewards - tf.stop_gradient(value)
    loss = -tf.reduce_mean(picked * advantage) + 0.5 * tf.reduce_mean(tf.square(value - rewards)) - 0.01 * entropy
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.variable_scope("target"):
        tf.layers.dense(states, 5, name="dense")
    pairs = zip(
        tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "target"),
        tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "policy/dense/"),
    )
    copy = [t.assign(0.9 * t + 0.1 * s) for t, s in pairs]
    feed = {states: X, actions: [0, 1, 1, 0, 1, 0], rewards: [1.0, 0.5, -1.0, 0.0, 1.0, 0.2]}
    return [([train, loss, indexed], feed)] * 2 + [(copy, {})]


def generators(tf: Any) -> Any:
    def pairs(count: int, offset: float = 0.0) -> Any:
        for i in range(count):
            yield np.array([i, i + offset], np.float32), i * i

    data = tf.data.Dataset.from_generator(
        lambda: pairs(5), (tf.float32, tf.int64), (tf.TensorShape([2]), tf.TensorShape([]))
    )
    options = tf.data.Options()
    options.experimental_deterministic = True
    x, y = data.with_options(options).repeat(2).batch(3).make_one_shot_iterator().get_next()
    words = tf.data.Dataset.from_generator(lambda: iter(["a", "bc"]), tf.string, [])
    given = tf.data.Dataset.from_generator(pairs, (tf.float32, tf.int64), args=(2, 0.5))
    iterator = given.make_initializable_iterator()
    word = words.make_one_shot_iterator().get_next()
    doubled = tf.py_function(lambda a: a.numpy() * 2.0, [tf.constant([1.0, 2.0])], tf.float32)
    shapes = tf.constant([str(t.shape) for t in (x, y, word)])
    element = iterator.get_next()
    return [
        (shapes, {}), ([x, y], {}), ([x, y], {}), (word, {}), (word, {}), (iterator.initializer, {}), (element, {}),
        (element, {}), (doubled, {}),
    ]  # fmt: skip


def tables_counts_and_pictures(tf: Any) -> Any:
    """Names of ops of tables, counts and special functions; the range of pictures of integers."""
    words, counts = tf.constant(["a", "b", "z"]), tf.placeholder(tf.int32, [None], name="counts")
    source = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([7, 8], tf.int64))
    table = tf.lookup.StaticHashTable(source, -1)
    vocabulary = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([0, 1], tf.int64)), 2
    )
    found = [table.lookup(words), table.size(), vocabulary.lookup(words), tf.reduce_sum(table.export()[1])]
    counted = [
        tf.bincount(counts),
        tf.math.bincount(counts, minlength=3, maxlength=4),
        tf.math.bincount(counts, weights=tf.cast(counts, tf.float32) * 0.5),
    ]
    a = (np.arange(2 * 4 * 4 * 3) % 251).astype("uint8").reshape(2, 4, 4, 3)
    b = (np.arange(2 * 4 * 4 * 3) * 7 % 251).astype("uint8").reshape(2, 4, 4, 3)
    noise = [
        tf.image.psnr(tf.constant(a), tf.constant(b), 255),
        tf.image.psnr(a / 255.0, b / 255.0, tf.constant(1.0)),
        tf.image.psnr(tf.constant(a, tf.float32), tf.constant(b, tf.float32), max_val=255),
    ]
    x = tf.constant([0.1, 0.5, 0.9])
    special = [
        tf.math.xdivy(x, 2.0), tf.math.xlog1py(x, 2.0), tf.math.divide_no_nan(x, 2.0), tf.math.erfinv(x),
        tf.math.ndtri(x), tf.math.bessel_i0(x), tf.math.bessel_i1e(x), tf.accumulate_n([x, x]),
        tf.trace(tf.eye(2) * 3.0), tf.train.natural_exp_decay(0.1, 3, 5, 0.5),
    ]  # fmt: skip
    checked = tf.Assert(tf.less(tf.size(counts), 9), [counts])
    return [(tf.tables_initializer(), {}), ([*found, *counted, *noise, *special], {counts: [1, 2, 2, 5]}),
            (checked, {counts: [1]})]  # fmt: skip
