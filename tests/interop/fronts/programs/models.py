"""Whole models as repositories have them: a U-Net, a recurrent Q-network, style transfer, matrix factorization."""

from __future__ import annotations

from typing import Any

import numpy as np

SCANS = np.sin(np.arange(2 * 20 * 20) * 0.37).reshape(2, 20, 20, 1).astype(np.float32)
MASKS = (np.arange(2 * 20 * 20) % 5 < 2).reshape(2, 20, 20).astype(np.int32)


def unet(tf: Any) -> Any:
    """Halve twice, double twice with what was before cut and put beside, and say of each pixel what it is."""
    x = tf.placeholder(tf.float32, [None, None, None, 1], name="x")
    y = tf.placeholder(tf.float32, [None, None, None, 2], name="y")
    keep = tf.placeholder(tf.float32, name="dropout_probability")

    def weight(shape: Any, stddev: float, name: str) -> Any:
        return tf.Variable(tf.truncated_normal(shape, stddev=stddev), name=name)

    def bias(size: int, name: str) -> Any:
        return tf.Variable(tf.constant(0.1, shape=[size]), name=name)

    def conv(h: Any, w: Any, b: Any) -> Any:
        with tf.name_scope("conv2d"):
            h = tf.nn.bias_add(tf.nn.conv2d(h, w, strides=[1, 1, 1, 1], padding="VALID"), b)
            return tf.nn.dropout(h, keep)

    def deconv(h: Any, w: Any, stride: int) -> Any:
        with tf.name_scope("deconv2d"):
            size = tf.shape(h)
            output = tf.stack([size[0], size[1] * 2, size[2] * 2, size[3] // 2])
            strides = [1, stride, stride, 1]
            return tf.nn.conv2d_transpose(h, w, output, strides=strides, padding="VALID", name="conv2d_transpose")

    def crop_and_concat(a: Any, b: Any) -> Any:
        with tf.name_scope("crop_and_concat"):
            large, small = tf.shape(a), tf.shape(b)
            offsets = [0, (large[1] - small[1]) // 2, (large[2] - small[2]) // 2, 0]
            return tf.concat([tf.slice(a, offsets, [-1, small[1], small[2], -1]), b], 3)

    def image(h: Any, index: int = 0) -> Any:
        v = tf.slice(h, (0, 0, 0, index), (1, -1, -1, 1))
        v = (v - tf.reduce_min(v)) / tf.reduce_max(v) * 255.0
        size = tf.shape(h)
        return tf.transpose(tf.reshape(v, tf.stack((size[1], size[2], 1, 1))), (2, 0, 1, 3))

    down, weights, shown = [], [], []
    with tf.name_scope("preprocessing"):
        h = tf.reshape(x, tf.stack([-1, tf.shape(x)[1], tf.shape(x)[2], 1]))
    channels = 1
    for layer in range(2):
        with tf.name_scope(f"down_conv_{layer}"):
            features = 4 * 2**layer
            w1 = weight([3, 3, channels, features], np.sqrt(2 / (9 * features)), "w1")
            b1 = bias(features, "b1")
            h = tf.nn.relu(conv(h, w1, b1))
            down.append(h)
            weights.append(w1)
            shown.append((w1, h))
            if layer == 0:
                h = tf.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
            channels = features
    with tf.name_scope("up_conv_0"):
        wd = weight([2, 2, 4, 8], 0.3, "wd")
        up = tf.nn.relu(deconv(h, wd, 2) + bias(4, "bd"))
        h = crop_and_concat(down[0], up)
        w2 = weight([3, 3, 8, 4], 0.2, "w2")
        h = tf.nn.relu(conv(h, w2, bias(4, "b2")))
        weights += [wd, w2]
        shown.append((wd, h))
    with tf.name_scope("output_map"):
        out = tf.nn.relu(conv(h, weight([1, 1, 4, 2], 0.3, "weight"), bias(2, "bias")))
    with tf.name_scope("cost"):
        flat, labels = tf.reshape(out, [-1, 2]), tf.reshape(y, [-1, 2])
        per_pixel = tf.nn.softmax_cross_entropy_with_logits_v2(logits=flat, labels=labels)
        weighed = tf.multiply(per_pixel, tf.reduce_sum(tf.constant([0.3, 0.7]) * labels, axis=1))
        cost = tf.reduce_mean(weighed) + 1e-3 * sum(tf.nn.l2_loss(w) for w in weights)
        predicted = tf.nn.softmax(out)
        both = tf.reduce_sum(predicted * y)
        dice = -(2 * both / (1e-5 + tf.reduce_sum(predicted) + tf.reduce_sum(y)))
    with tf.name_scope("results"):
        right = tf.equal(tf.argmax(predicted, 3), tf.argmax(y, 3))
        accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    gradients = tf.gradients(cost, tf.trainable_variables())
    for i, (w, h) in enumerate(shown):
        tf.summary.histogram(f"layer_{i}/weights", w)
        tf.summary.histogram(f"layer_{i}/activations", h)
        tf.summary.image(f"summary_conv_{i:02d}", image(h))
    tf.summary.image("predicted", image(predicted, 1), max_outputs=1)
    norms = tf.Variable(tf.constant(0.0, shape=[len(gradients)]), name="norm_gradients")
    step = tf.Variable(0, name="global_step")
    rate = tf.train.exponential_decay(0.2, step, decay_steps=2, decay_rate=0.95, staircase=True)
    train = tf.train.MomentumOptimizer(rate, momentum=0.2).minimize(cost, global_step=step)
    tf.summary.histogram("norm_grads", norms)
    for tag, value in (("loss", cost), ("dice", dice), ("accuracy", accuracy), ("learning_rate", rate)):
        tf.summary.scalar(tag, value)
    merged = tf.summary.merge_all()
    slope = norms.assign([tf.norm(g) for g in gradients])
    one_hot = np.eye(2, dtype=np.float32)[MASKS]
    feed = {x: SCANS, y: one_hot[:, 4:16, 4:16], keep: 1.0}
    steps: list[Any] = [([train, cost, rate], feed), (slope, feed), ([merged, accuracy, dice], feed)]
    return [(tf.shape(predicted), feed), *steps, *steps]


def recurrent_q_network(tf: Any) -> Any:
    """Advantage and value over an LSTM of what was seen; half of a trace is masked; the target follows slowly."""
    frames = tf.placeholder(tf.float32, [None, 36 * 3], name="frames")
    length = tf.placeholder(tf.int32, name="length")
    batch = tf.placeholder(tf.int32, [], name="batch")
    target = tf.placeholder(tf.float32, [None], name="target")
    taken = tf.placeholder(tf.int32, [None], name="taken")

    def network(scope: str) -> Any:
        cell = tf.nn.rnn_cell.LSTMCell(num_units=8, state_is_tuple=True)
        image = tf.reshape(frames, [-1, 6, 6, 3])
        xavier = tf.glorot_uniform_initializer()
        h = image
        for i, (filters, size, stride) in enumerate(((4, 3, 2), (6, 2, 1), (8, 1, 1))):
            h = tf.layers.conv2d(
                h, filters, size, stride, "valid", activation=tf.nn.relu, name=f"{scope}_conv{i}",
                kernel_initializer=xavier, bias_initializer=None,
            )  # fmt: skip
        h = tf.reshape(tf.layers.flatten(h), [batch, length, 8])
        start = cell.zero_state(batch, tf.float32)
        h, state = tf.nn.dynamic_rnn(inputs=h, cell=cell, dtype=tf.float32, initial_state=start, scope=f"{scope}_rnn")
        h = tf.reshape(h, shape=[-1, 8])
        left, right = tf.split(h, 2, 1)
        advantage = tf.matmul(left, tf.Variable(tf.random_normal([4, 4])))
        value = tf.matmul(right, tf.Variable(tf.random_normal([4, 1])))
        q = value + tf.subtract(advantage, tf.reduce_mean(advantage, axis=1, keep_dims=True))
        return q, tf.argmax(q, 1), state, start, tf.gradients(advantage, image)[0]

    q, action, state, start, salience = network("main")
    other, other_action, *_ = network("target")
    chosen = tf.reduce_sum(tf.multiply(q, tf.one_hot(taken, 4, dtype=tf.float32)), axis=1)
    errors = tf.square(target - chosen)
    dropped, kept = tf.zeros([batch, length // 2]), tf.ones([batch, length // 2])
    mask = tf.reshape(tf.concat([dropped, kept], 1), [-1])
    loss = tf.reduce_mean(errors * mask)
    trainer = tf.train.AdamOptimizer(learning_rate=0.01)
    train = trainer.minimize(loss)

    variables = tf.trainable_variables()
    half = len(variables) // 2
    follow = [
        variables[half + i].assign(v.value() * 0.1 + 0.9 * variables[half + i].value())
        for i, v in enumerate(variables[:half])
    ]
    moving = np.random.RandomState(3)
    seen = [
        (moving.rand(108), moving.randint(4), float(moving.randn()), moving.rand(108), i % 3 == 2) for i in range(12)
    ]
    steps = []
    carried = (np.zeros([1, 8], np.float32), np.zeros([1, 8], np.float32))
    steps.append(([action, state], {frames: [seen[0][0]], length: 1, batch: 1, start: carried}))
    for first in range(3):
        episode = [seen[first + i] for i in (0, 1, 2, 3, 5, 6, 7, 8)]
        feed = {frames: np.stack([s[0] for s in episode]), length: 4, batch: 2}
        feed[start] = (np.zeros([2, 8]), np.zeros([2, 8]))
        wanted = [s[2] + 0.9 * (1 - s[4]) for s in episode]
        feed |= {target: wanted, taken: [s[1] for s in episode]}
        steps.append(([train, loss, q], feed))
        steps.append(([*follow, salience], feed))
        steps.append(([other, other_action, action, mask], feed))
    return steps


def style_transfer(tf: Any) -> Any:
    """Optimise a picture: its Gram matrices are a style's, its features a content's, and it is smooth."""
    random = np.random.RandomState(1)
    kernels = {
        "conv1_1": random.randn(3, 3, 3, 6) * 0.2, "conv2_1": random.randn(3, 3, 6, 8) * 0.2,
        "conv3_1": random.randn(3, 3, 8, 8) * 0.2,
    }  # fmt: skip
    content = random.rand(1, 12, 12, 3).astype(np.float32) * 255
    style = random.rand(1, 12, 12, 3).astype(np.float32) * 255
    mean = np.array([123.68, 116.779, 103.939], np.float32)

    def features(image: Any) -> Any:
        h, found = image, {}
        for name, kernel in kernels.items():
            h = tf.nn.conv2d(h, tf.constant(kernel.astype(np.float32)), strides=(1, 1, 1, 1), padding="SAME")
            found[name] = h = tf.nn.relu(tf.nn.bias_add(h, np.full(kernel.shape[-1], 0.05, np.float32)))
            h = tf.nn.avg_pool(h, ksize=(1, 2, 2, 1), strides=(1, 2, 2, 1), padding="SAME")
        return found

    def gram(layer: Any) -> Any:
        _, height, width, number = (i.value if hasattr(i, "value") else i for i in layer.get_shape())
        flat = tf.reshape(layer, (-1, number))
        return tf.matmul(tf.transpose(flat), flat) / (height * width * number)

    content_layer = features(tf.constant(content - mean))["conv3_1"]
    style_grams = {name: gram(layer) for name, layer in features(tf.constant(style - mean)).items()}
    image = tf.Variable(tf.random_normal((1, 12, 12, 3)) * 0.256, name="image")
    found = features(image)
    content_loss = 5.0 * (2 * tf.nn.l2_loss(found["conv3_1"] - content_layer) / (3 * 3 * 8))
    style_loss = 0.0
    for name, wanted in style_grams.items():
        style_loss += 100.0 / 3 * 2 * tf.nn.l2_loss(gram(found[name]) - wanted) / wanted.get_shape().num_elements()
    rows = 2 * tf.nn.l2_loss(image[:, 1:, :, :] - image[:, :11, :, :]) / (11 * 12 * 3)
    smooth = 100.0 * (rows + 2 * tf.nn.l2_loss(image[:, :, 1:, :] - image[:, :, :11, :]) / (11 * 12 * 3))
    total = tf.image.total_variation(image)
    loss = content_loss + style_loss + smooth
    train = tf.train.AdamOptimizer(1e1, 0.9, 0.999, 1e-8).minimize(loss)
    clipped = tf.assign(image, tf.clip_by_value(image, -mean, 255.0 - mean))
    gray = tf.image.rgb_to_grayscale(tf.saturate_cast(clipped + mean, tf.uint8))
    fed = tf.placeholder(tf.float32, image.get_shape())
    slope = tf.gradients(loss, [image])[0]
    steps: list[Any] = [([train, loss, content_loss, style_loss, smooth], {}) for _ in range(4)]
    steps += [([clipped, gray, total], {}), (image.assign(fed), {fed: content - mean}), ([loss, slope], {})]
    return steps


def matrix_factorization(tf: Any) -> Any:
    """Ratings from what users and items are and how they are biased, clipped to what can be rated."""
    user_batch = tf.placeholder(tf.int32, shape=[None], name="id_user")
    item_batch = tf.placeholder(tf.int32, shape=[None], name="id_item")
    rate_batch = tf.placeholder(tf.float32, shape=[None])
    with tf.device("/cpu:0"):
        bias_global = tf.get_variable("bias_global", shape=[])
        bias_user = tf.nn.embedding_lookup(tf.get_variable("embd_bias_user", shape=[7]), user_batch, name="bias_user")
        bias_item = tf.nn.embedding_lookup(tf.get_variable("embd_bias_item", shape=[5]), item_batch, name="bias_item")
        narrow = tf.truncated_normal_initializer(stddev=0.02)
        users = tf.get_variable("embd_user", shape=[7, 3], initializer=narrow)
        items = tf.get_variable("embd_item", shape=[5, 3], initializer=narrow)
        user = tf.nn.embedding_lookup(users, user_batch, name="embedding_user")
        item = tf.nn.embedding_lookup(items, item_batch, name="embedding_item")
        infer = tf.reduce_sum(tf.multiply(user, item), 1)
        infer = tf.add(infer, bias_global)
        infer = tf.add(infer, bias_user)
        infer = tf.add(infer, bias_item, name="svd_inference")
        regularizer = tf.add(tf.nn.l2_loss(user), tf.nn.l2_loss(item), name="svd_regularizer")
    step = tf.train.get_or_create_global_step()
    with tf.device("/cpu:0"):
        cost = tf.add(tf.nn.l2_loss(tf.subtract(infer, rate_batch)), tf.multiply(regularizer, 0.05))
        ftrl = tf.train.FtrlOptimizer(0.05).minimize(cost, global_step=step, var_list=[bias_global, users])
        with tf.control_dependencies([ftrl]):
            train = tf.train.AdamOptimizer(0.01).minimize(cost, global_step=step)
    predicted = tf.clip_by_value(infer, 1.0, 5.0, name="clipped")
    error, update = tf.metrics.root_mean_squared_error(rate_batch, predicted, name="rmse")
    tf.summary.scalar("training_error", tf.sqrt(tf.reduce_mean(tf.squared_difference(infer, rate_batch))))
    for variable in tf.trainable_variables():
        tf.summary.histogram(variable.op.name, variable)
    merged = tf.summary.merge_all()
    train_users, train_items = [0, 1, 2, 3, 4, 5, 6, 0, 3], [0, 1, 2, 3, 4, 0, 1, 2, 3]
    feed = {user_batch: train_users, item_batch: train_items, rate_batch: [5, 3, 1, 4, 2, 5, 3, 1, 4]}
    held = {user_batch: [6, 5, 1], item_batch: [4, 3, 0], rate_batch: [4.5, 0.5, 3.0]}
    return [([train, infer, cost], feed), (merged, feed)] * 3 + [([predicted, update], held), (error, {}), (step, {})]


def language_model(tf: Any) -> Any:
    """Cells stacked and called by hand, twice with the same weights; states are carried from step to step."""

    def model(training: bool) -> Any:
        words, wanted = (tf.placeholder(tf.int32, [2, 4], name=name) for name in ("words", "wanted"))
        cells = [tf.nn.rnn_cell.BasicLSTMCell(5, forget_bias=0.0), tf.nn.rnn_cell.GRUCell(4)]
        stack = tf.nn.rnn_cell.MultiRNNCell(cells)
        start = stack.zero_state(2, tf.float32)
        inputs = tf.nn.embedding_lookup(tf.get_variable("embedding", [9, 5]), words)
        if training:
            inputs = tf.nn.dropout(inputs, keep_prob=1.0)
        state, outputs = start, []
        with tf.variable_scope("RNN"):
            for i in range(4):
                if i > 0:
                    tf.get_variable_scope().reuse_variables()
                output, state = stack(inputs[:, i, :], state)
                outputs.append(output)
        flat = tf.reshape(tf.concat(outputs, 1), [-1, 4])
        logits = tf.nn.xw_plus_b(flat, tf.get_variable("softmax_w", [4, 9]), tf.get_variable("softmax_b", [9]))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(wanted, [-1]), logits=logits)
        return words, wanted, start, state, tf.reduce_sum(losses) / 2.0

    narrow = tf.random_uniform_initializer(-0.1, 0.1)
    with tf.name_scope("Train"), tf.variable_scope("Model", reuse=None, initializer=narrow):
        words, wanted, start, state, cost = model(True)
        rate = tf.Variable(0.0, trainable=False, name="rate")
        slopes, norm = tf.clip_by_global_norm(tf.gradients(cost, tf.trainable_variables()), 1.0)
        step = tf.train.get_or_create_global_step()
        trainer = tf.train.GradientDescentOptimizer(rate)
        train = trainer.apply_gradients(zip(slopes, tf.trainable_variables()), global_step=step)
    with tf.name_scope("Valid"), tf.variable_scope("Model", reuse=True, initializer=narrow):
        words_too, wanted_too, start_too, _, held = model(False)
    sizes = tf.placeholder(tf.int32, [], name="sizes")
    empty = tf.nn.rnn_cell.LSTMCell(3).zero_state(sizes, tf.float32)
    data = {words: [[1, 2, 3, 4], [8, 7, 6, 5]], wanted: [[2, 3, 4, 5], [7, 6, 5, 4]]}
    tf.constant([state[0].c.name, state[1].name, cost.name, empty.c.name, start[0].h.name], name="named")
    carried = {start[0]: (np.full([2, 5], 0.1), np.full([2, 5], -0.2)), start[1]: np.full([2, 4], 0.3)}
    steps: list[Any] = [("named:0", {}), (empty, {sizes: 2}), (rate.assign(0.5), {}), ([train, cost, norm], data)]
    steps += [([cost, state], data | carried), ([train, cost], data | carried), (step, {})]
    return [*steps, ([held, start_too], {words_too: data[words], wanted_too: data[wanted]})]
