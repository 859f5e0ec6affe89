"""Layers: dense, convolutional, normalised, recurrent; embeddings; attention."""

from __future__ import annotations

from typing import Any

import numpy as np

X = np.linspace(-1.0, 1.0, 24).reshape(6, 4).astype(np.float32)
Y = np.array([0, 1, 2, 0, 1, 2], np.int32)
PICTURES = (np.arange(2 * 8 * 8) % 7 / 7.0).reshape(2, 64).astype(np.float32)
SEQUENCES = np.sin(np.arange(3 * 5 * 2)).reshape(3, 5, 2).astype(np.float32)
WORDS = np.array([[1, 2, 3, 0], [4, 1, 0, 0], [2, 2, 5, 1]], np.int32)


def dense_layers(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 4])
    h = tf.layers.dense(x, 8, activation=tf.nn.relu)
    h = tf.layers.dense(h, 8, tf.nn.relu, kernel_initializer=tf.truncated_normal_initializer(stddev=0.2), name="second")
    h = tf.layers.batch_normalization(h, training=True)
    h = tf.layers.dropout(h, rate=0.3, training=tf.constant(False))
    logits = tf.layers.dense(h, 3, use_bias=False, kernel_regularizer=lambda w: 0.01 * tf.reduce_sum(w * w))
    loss = (
        tf.losses.sparse_softmax_cross_entropy(labels=tf.constant(Y), logits=logits)
        + tf.losses.get_regularization_loss()
    )
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(updates):
        train = tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, tf.train.get_or_create_global_step())
    return [([train, loss], {x: X})] * 3 + [(logits, {x: X})]


def mnist_like(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    y = tf.placeholder(tf.int64, [None], name="y")
    keep = tf.placeholder(tf.float32, name="keep")

    def weight(shape: Any) -> Any:
        return tf.Variable(tf.truncated_normal(shape, stddev=0.1))

    def bias(shape: Any) -> Any:
        return tf.Variable(tf.constant(0.1, shape=shape))

    with tf.name_scope("conv1"):
        image = tf.reshape(x, [-1, 8, 8, 1])
        h = tf.nn.relu(tf.nn.conv2d(image, weight([3, 3, 1, 4]), strides=[1, 1, 1, 1], padding="SAME") + bias([4]))
        h = tf.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    with tf.name_scope("fc1"):
        flat = tf.reshape(h, [-1, 4 * 4 * 4])
        h = tf.nn.relu(tf.matmul(flat, weight([64, 6])) + bias([6]))
    with tf.name_scope("dropout"):
        h = tf.nn.dropout(h, keep)
    with tf.name_scope("fc2"):
        logits = tf.matmul(h, weight([6, 3])) + bias([3])
    with tf.name_scope("loss"):
        loss = tf.reduce_mean(tf.losses.sparse_softmax_cross_entropy(labels=y, logits=logits))
    with tf.name_scope("adam"):
        train = tf.train.AdamOptimizer(1e-2).minimize(loss)
    with tf.name_scope("accuracy"):
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
    feed = {x: PICTURES, y: [0, 2], keep: 1.0}
    return [([train, loss, accuracy], feed)] * 3


def conv_layers(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    h = tf.reshape(x, [-1, 8, 8, 1])
    h = tf.layers.conv2d(h, 4, [3, 3], padding="same", activation=tf.nn.relu)
    h = tf.layers.max_pooling2d(h, [2, 2], 2)
    with tf.variable_scope("block"):
        h = tf.layers.conv2d(h, 4, 3, name="inner")
        h = tf.layers.average_pooling2d(h, 2, 1)
    h = tf.layers.flatten(h)
    y = tf.layers.dense(h, 2)
    loss = tf.reduce_mean(tf.square(y))
    train = tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True).minimize(loss)
    return [([train, loss], {x: PICTURES})] * 2 + [(y, {x: PICTURES})]


def residual(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [2, 64], name="x")
    training = tf.placeholder(tf.bool, [], name="training")
    h = tf.reshape(x, [-1, 8, 8, 1])

    def block(h: Any, filters: int, stride: int) -> Any:
        short = tf.layers.conv2d(h, filters, 1, stride, use_bias=False)
        h = tf.nn.relu(tf.layers.batch_normalization(h, training=training, fused=True))
        h = tf.pad(h, [[0, 0], [1, 1], [1, 1], [0, 0]])
        h = tf.layers.conv2d(h, filters, 3, stride, "valid", kernel_initializer=tf.variance_scaling_initializer())
        return h + short

    with tf.variable_scope("stage"):
        h = block(block(h, 3, 1), 4, 2)
    h = tf.reduce_mean(h, [1, 2])
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.one_hot([0, 3], 4), logits=h))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    feed = {x: PICTURES, training: True}
    return [([train, loss], feed)] * 2 + [(h, {x: PICTURES, training: False})]


def lstm(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 5, 2], name="x")
    cell = tf.nn.rnn_cell.BasicLSTMCell(4, forget_bias=1.0)
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    y = tf.layers.dense(outputs[:, -1, :], 1)
    loss = tf.reduce_mean(tf.square(y - 1.0))
    train = tf.train.RMSPropOptimizer(0.01).minimize(loss)
    return [([train, loss, state.h], {x: SEQUENCES})] * 2 + [(y, {x: SEQUENCES})]


def stacked_lstm(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [3, 5, 2], name="x")
    lengths = tf.placeholder(tf.int32, [3], name="lengths")

    def make(size: int) -> Any:
        return tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.LSTMCell(size, num_proj=2), output_keep_prob=1.0)

    cell = tf.nn.rnn_cell.MultiRNNCell([make(3), make(4)])
    start = cell.zero_state(3, tf.float32)
    with tf.variable_scope("lm"):
        outputs, state = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, initial_state=start)
    loss = tf.reduce_sum(outputs * outputs)
    grads = tf.gradients(loss, tf.trainable_variables())
    norm = tf.global_norm(grads)
    train = tf.train.AdagradOptimizer(0.1).apply_gradients(zip(grads, tf.trainable_variables()))
    feed = {x: SEQUENCES, lengths: [5, 3, 4]}
    return [([train, loss, norm], feed)] * 2 + [(state[-1].c, feed)]


def unrolled(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [3, 5, 2], name="x")
    parts = tf.unstack(x, axis=1)
    outputs, state = tf.nn.static_rnn(tf.nn.rnn_cell.GRUCell(3), parts, dtype=tf.float32)
    with tf.variable_scope("basic"):
        cell = tf.nn.rnn_cell.BasicRNNCell(2)
        h = cell.zero_state(3, tf.float32)
        for i in range(3):
            if i:
                tf.get_variable_scope().reuse_variables()
            _, h = cell(parts[i], h)
    return [([outputs[-1], state, h], {x: SEQUENCES})]


def bidirectional(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [3, 5, 2], name="x")
    cells = [tf.nn.rnn_cell.LSTMCell(2), tf.nn.rnn_cell.GRUCell(2)]
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(*cells, x, dtype=tf.float32, sequence_length=[5, 2, 3])
    joined = tf.concat(outputs, 2)
    return [([joined, tf.reduce_sum(joined)], {x: SEQUENCES})]


def own_cells(tf: Any) -> Any:
    class Leaky(tf.nn.rnn_cell.RNNCell):
        @property
        def state_size(self) -> int:
            return 3

        @property
        def output_size(self) -> int:
            return 3

        def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
            with tf.variable_scope(scope or type(self).__name__):
                w = tf.get_variable("w", [2, 3], initializer=tf.constant_initializer(0.2))
                u = tf.get_variable("u", [3, 3], initializer=tf.constant_initializer(0.1))
            new = 0.5 * state + tf.tanh(tf.matmul(inputs, w) + tf.matmul(state, u))
            return new, new

    class Called(tf.nn.rnn_cell.RNNCell):
        def __init__(self, size: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._size = size

        @property
        def state_size(self) -> int:
            return self._size

        @property
        def output_size(self) -> int:
            return self._size

        def call(self, inputs: Any, state: Any) -> Any:
            w = tf.get_variable("w", [2, self._size], initializer=tf.constant_initializer(0.3))
            new = state + tf.matmul(inputs, w)
            return new, new

    x = tf.placeholder(tf.float32, [3, 5, 2], name="x")
    parts = tf.unstack(x, axis=1)
    one, _ = tf.nn.dynamic_rnn(Leaky(), x, dtype=tf.float32)
    with tf.variable_scope("static"):
        two, _ = tf.nn.static_rnn(Leaky(), parts, dtype=tf.float32)
    three, _ = tf.nn.dynamic_rnn(Called(2), x, dtype=tf.float32, scope="called")
    four, _ = tf.nn.static_rnn(Called(2, name="named"), parts, dtype=tf.float32)
    return [([one, two[-1], three, four[-1]], {x: SEQUENCES})]


def embeddings(tf: Any) -> Any:
    words = tf.placeholder(tf.int32, [None, 4], name="words")
    table = tf.get_variable("embedding", [6, 3], initializer=tf.random_uniform_initializer(-1, 1))
    found = tf.nn.embedding_lookup(table, words)
    mask = tf.expand_dims(tf.cast(tf.not_equal(words, 0), tf.float32), -1)
    mean = tf.reduce_sum(found * mask, axis=1) / tf.reduce_sum(mask, axis=1)
    loss = tf.reduce_mean(tf.square(mean))
    train = tf.train.AdamOptimizer(0.05).minimize(loss)
    slow = tf.train.AdagradOptimizer(0.05).minimize(loss)
    return [([train, loss], {words: WORDS}), ([slow, loss], {words: WORDS}), (table, {})]


def word2vec(tf: Any) -> Any:
    inputs = tf.placeholder(tf.int32, shape=[4])
    labels = tf.placeholder(tf.int32, shape=[4, 1])
    with tf.device("/cpu:0"):
        table = tf.Variable(tf.random_uniform([8, 3], -1.0, 1.0))
        embed = tf.nn.embedding_lookup(table, inputs)
        weights = tf.Variable(tf.truncated_normal([8, 3], stddev=0.5))
        biases = tf.Variable(tf.zeros([8]))
    sampled = (tf.constant([1, 5], tf.int64), tf.constant([[0.3]] * 4), tf.constant([0.3, 0.1]))
    loss = tf.reduce_mean(
        tf.nn.nce_loss(
            weights=weights, biases=biases, labels=labels, inputs=embed, num_sampled=2, num_classes=8,
            sampled_values=sampled,
        )
    )  # fmt: skip
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(table), 1, keepdims=True))
    normalized = table / norm
    feed = {inputs: [1, 2, 3, 7], labels: [[2], [3], [1], [0]]}
    return [([train, loss], feed)] * 2 + [(normalized, {})]


def attention(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 5, 2], name="x")

    def norm(v: Any, scope: str) -> Any:
        with tf.variable_scope(scope):
            n = v.shape[-1]
            g = tf.get_variable("g", [n], initializer=tf.constant_initializer(1))
            b = tf.get_variable("b", [n], initializer=tf.constant_initializer(0))
            u = tf.reduce_mean(v, axis=-1, keepdims=True)
            s = tf.reduce_mean(tf.square(v - u), axis=-1, keepdims=True)
            return (v - u) * tf.rsqrt(s + 1e-5) * g + b

    def conv1d(v: Any, scope: str, nf: int) -> Any:
        with tf.variable_scope(scope):
            shape = tf.shape(v)
            *start, nx = [shape[i] if d is None else d for i, d in enumerate(v.shape.as_list())]
            w = tf.get_variable("w", [1, nx, nf], initializer=tf.random_normal_initializer(stddev=0.02))
            b = tf.get_variable("b", [nf], initializer=tf.constant_initializer(0))
            return tf.reshape(tf.matmul(tf.reshape(v, [-1, nx]), tf.reshape(w, [-1, nf])) + b, [*start, nf])

    with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
        h = conv1d(norm(x, "ln_1"), "c_attn", 12)
        q, k, v = tf.split(h, 3, axis=2)
        weights = tf.matmul(q, k, transpose_b=True) * tf.rsqrt(tf.cast(v.shape[-1], tf.float32))
        i, j = tf.range(5)[:, None], tf.range(5)
        mask = tf.cast(i >= j, tf.float32)
        weights = weights * mask - 1e10 * (1 - mask)
        a = tf.matmul(tf.nn.softmax(weights), v)
        h = x + conv1d(a, "c_proj", 2)
    loss = tf.reduce_mean(tf.square(h))
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    return [([train, loss], {x: SEQUENCES})] * 2 + [(h, {x: SEQUENCES})]


def autoencoder(tf: Any) -> Any:
    x = tf.placeholder("float", [None, 4])
    weights = {"e": tf.Variable(tf.random_normal([4, 2], seed=1)), "d": tf.Variable(tf.random_normal([2, 4], seed=2))}
    biases = {"e": tf.Variable(tf.random_normal([2], seed=3)), "d": tf.Variable(tf.random_normal([4], seed=4))}
    code = tf.nn.sigmoid(tf.add(tf.matmul(x, weights["e"]), biases["e"]))
    mean, deviation = code, tf.layers.dense(code, 2)
    noise = tf.random_normal(tf.shape(mean), seed=5)
    sample = mean + tf.exp(deviation / 2) * noise
    y = tf.nn.sigmoid(tf.add(tf.matmul(sample, weights["d"]), biases["d"]))
    kl = -0.5 * tf.reduce_sum(1 + deviation - tf.square(mean) - tf.exp(deviation), 1)
    loss = tf.reduce_mean(tf.pow(x - y, 2)) + tf.reduce_mean(kl)
    train = tf.train.RMSPropOptimizer(0.01).minimize(loss)
    return [([train, loss], {x: X})] * 2 + [(weights["e"], {})]


def layer_functions(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    s = tf.placeholder(tf.float32, [None, 5, 2], name="s")
    picture = tf.reshape(x, [-1, 8, 8, 1])
    volume = tf.reshape(x, [-1, 4, 4, 4, 1])
    up = tf.layers.conv2d_transpose(picture, 2, 3, strides=2, padding="same", activation=tf.nn.relu)
    valid = tf.layers.conv2d_transpose(picture, 2, [4, 4], strides=(2, 2), name="valid")
    apart = tf.layers.separable_conv2d(picture, 3, 3, depth_multiplier=2)
    deep = tf.layers.conv3d(volume, 2, 2)
    deeper = tf.layers.conv3d_transpose(volume, 2, 2, 2)
    pools = [
        tf.layers.max_pooling1d(s, 2, 1), tf.layers.average_pooling1d(s, 2, 2),
        tf.layers.max_pooling3d(volume, 2, 2), tf.layers.average_pooling3d(volume, 2, 2),
    ]  # fmt: skip
    line = tf.layers.conv1d(s, 3, 2)
    thin = tf.layers.separable_conv1d(s, 3, 2)
    out = [up, valid, apart, deep, deeper, *pools, line, thin]
    shapes = tf.constant([str(t.shape.as_list()) for t in out])
    loss = tf.add_n([tf.reduce_sum(t) for t in out])
    train = tf.train.GradientDescentOptimizer(0.001).minimize(loss)
    feed = {x: PICTURES, s: SEQUENCES}
    return [(shapes, {}), (out, feed), (train, feed), (loss, feed)]


def layer_classes(tf: Any) -> Any:
    class Scale(tf.layers.Layer):
        def build(self, shape: Any) -> None:
            self.factor = self.add_variable("factor", [shape[-1]], initializer=tf.ones_initializer())
            super().build(shape)

        def call(self, inputs: Any) -> Any:
            return inputs * self.factor

    x = tf.placeholder(tf.float32, [6, 4], name="x")
    pictures = tf.placeholder(tf.float32, [None, 64], name="pictures")
    dense = tf.layers.Dense(3, activation=tf.nn.relu)
    one = dense(x)
    two = dense.apply(x + 1.0)
    with tf.variable_scope("block"):
        named = tf.layers.Dense(2, use_bias=False, name="named")
        three = named(one)
        scaled = Scale()(three)
        again = Scale(name="own")(scaled)
    norm = tf.layers.BatchNormalization()
    four = norm(one, training=True)
    picture = tf.reshape(pictures, [-1, 8, 8, 1])
    conv = tf.layers.Conv2D(2, 3, padding="same")
    five = tf.layers.Flatten()(tf.layers.MaxPooling2D(2, 2)(conv(picture)))
    six = tf.layers.Dropout(0.5)(five)
    count = tf.constant([len(dense.variables), len(named.trainable_variables), len(norm.variables)])
    kernels = [dense.kernel, dense.bias, conv.kernel]
    feed = {x: X, pictures: PICTURES}
    return [([one, two, three, scaled, again, four, five, six, count], feed), (kernels, {})]


def raw_loops(tf: Any) -> Any:
    x = tf.placeholder(tf.float32, [5, 3, 2], name="x")
    lengths = tf.constant([5, 2, 4])
    source = tf.TensorArray(tf.float32, 5).unstack(x)
    cell = tf.nn.rnn_cell.LSTMCell(3)

    def loop(time: Any, output: Any, state: Any, _: Any) -> Any:
        next_state = cell.zero_state(3, tf.float32) if output is None else state
        finished = time >= lengths
        following = tf.cond(tf.reduce_all(finished), lambda: tf.zeros([3, 2], tf.float32), lambda: source.read(time))
        following.set_shape([3, 2])
        return finished, following, next_state, output, None

    emitted, state, _ = tf.nn.raw_rnn(cell, loop)
    stacked = emitted.stack()
    parts = tf.unstack(x)
    cells = [tf.nn.rnn_cell.BasicLSTMCell(2), tf.nn.rnn_cell.GRUCell(2)]
    both, ahead, behind = tf.nn.static_bidirectional_rnn(*cells, parts, dtype=tf.float32)
    cut, _, _ = tf.nn.static_bidirectional_rnn(
        *[tf.nn.rnn_cell.BasicRNNCell(2), tf.nn.rnn_cell.BasicRNNCell(3)], parts, dtype=tf.float32,
        sequence_length=lengths, scope="cut",
    )  # fmt: skip
    feed = {x: SEQUENCES.transpose(1, 0, 2)}
    return [([stacked, state.c, both[0], both[-1], ahead.h, behind, cut[1], cut[4]], feed)]
