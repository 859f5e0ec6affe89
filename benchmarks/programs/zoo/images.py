"""Models of images: convolutional networks, two residual ones, a GAN, and two kinds of autoencoders."""

from __future__ import annotations

from typing import Any

from benchmarks.programs.zoo import Model, dense, numbers, randomly, sizes, weights


def _convolved(tf: Any, x: Any, size: int, channels: int, stride: int, name: str) -> Any:
    with tf.variable_scope(name):
        kernel = weights(tf, "w", size, size, int(x.shape[-1]), channels)
    return tf.nn.conv2d(x, kernel, strides=[1, stride, stride, 1], padding="SAME")


def _batch_normalized(tf: Any, x: Any, name: str) -> Any:
    """Normalize by the batch, with moving averages that the training step keeps."""
    channels = int(x.shape[-1])
    with tf.variable_scope(name):
        scale, offset = weights(tf, "scale", channels), weights(tf, "offset", channels)
        y, mean, variance = tf.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3, is_training=True)
        for what, now in (("mean", mean), ("variance", variance)):
            average = tf.get_variable(f"moving_{what}", [channels], trainable=False, initializer=tf.zeros_initializer())
            update = tf.assign_sub(average, (average - now) * 0.1)
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
    return y


def _classified(tf: Any, x: Any, hidden: Any, batch: int, optimizer: Any, decay: float = 0.0) -> Model:
    logits = dense(tf, hidden, 10, "logits")
    labels = numbers("labels", 10, batch)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    if decay:
        loss += decay * tf.add_n([tf.nn.l2_loss(v) for v in tf.trainable_variables() if len(v.shape) > 1])
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = optimizer.minimize(loss)
    return Model(loss, [train], {x: randomly("images", *(int(n) for n in x.shape))}, forward=logits)


def cnn(tf: Any, batch: int) -> Model:
    """Two convolutions of 5 x 5, pooled, and a dense layer with dropout, on 28 x 28; Adam."""
    x = tf.placeholder(tf.float32, [batch, 28, 28, 1])
    keep = tf.placeholder(tf.float32, [batch, 512])
    layer = x
    for n, channels in enumerate((32, 64)):
        layer = tf.nn.relu(
            tf.nn.bias_add(_convolved(tf, layer, 5, channels, 1, f"conv{n}"), weights(tf, f"b{n}", channels))
        )
        layer = tf.nn.max_pool(layer, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    hidden = dense(tf, tf.reshape(layer, [batch, 7 * 7 * 64]), 512, "hidden", tf.nn.relu)
    model = _classified(tf, x, hidden * keep, batch, tf.train.AdamOptimizer(1e-3))
    return Model(
        model.loss, model.train, {**model.feeds, keep: numbers("keep", 2, batch, 512) * 2.0}, forward=model.forward
    )


def batches(tf: Any, batch: int) -> Model:
    """Two convolutions of 3 x 3 with poolings and a dense layer, on 28 x 28; 30 batches of other sizes; Adam."""
    x, labels = tf.placeholder(tf.float32, [None, 28, 28, 1]), tf.placeholder(tf.int32, [None])
    layer = x
    for n, channels in enumerate((32, 64)):
        layer = tf.nn.relu(
            tf.nn.bias_add(_convolved(tf, layer, 3, channels, 1, f"conv{n}"), weights(tf, f"b{n}", channels))
        )
        layer = tf.nn.max_pool(layer, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    logits = dense(tf, tf.reshape(layer, [-1, 7 * 7 * 64]), 10, "logits")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    others = [
        {x: randomly(f"images{n}", n, 28, 28, 1), labels: numbers(f"labels{n}", 10, n)}
        for n in sizes(30, batch // 8, batch)
    ]
    return Model(loss, [tf.train.AdamOptimizer(1e-3).minimize(loss)], {}, others, logits)


def _residual(tf: Any, x: Any, channels: int, stride: int, name: str) -> Any:
    with tf.variable_scope(name):
        y = tf.nn.relu(_batch_normalized(tf, _convolved(tf, x, 3, channels, stride, "first"), "norm1"))
        y = _batch_normalized(tf, _convolved(tf, y, 3, channels, 1, "second"), "norm2")
        if stride > 1 or int(x.shape[-1]) != channels:
            x = _convolved(tf, x, 1, channels, stride, "shortcut")
        return tf.nn.relu(x + y)


def _resnet(tf: Any, batch: int, blocks: int) -> Model:
    x = tf.placeholder(tf.float32, [batch, 32, 32, 3])
    layer = tf.nn.relu(_batch_normalized(tf, _convolved(tf, x, 3, 16, 1, "stem"), "norm"))
    for stage, channels in enumerate((16, 32, 64)):
        for n in range(blocks):
            layer = _residual(tf, layer, channels, 2 if stage and not n else 1, f"block{stage}_{n}")
    return _classified(tf, x, tf.reduce_mean(layer, [1, 2]), batch, tf.train.MomentumOptimizer(0.05, 0.9), 1e-4)


def small_resnet(tf: Any, batch: int) -> Model:
    """A residual network of three blocks with batch norm on 32 x 32; momentum."""
    return _resnet(tf, batch, 1)


def resnet20(tf: Any, batch: int) -> Model:
    """ResNet-20 for CIFAR-10 with weight decay; momentum."""
    return _resnet(tf, batch, 3)


def dcgan(tf: Any, batch: int) -> Model:
    """A generator of transposed convolutions against a discriminator of convolutions, 28 x 28; Adam for each."""
    noise, real = tf.placeholder(tf.float32, [batch, 64]), tf.placeholder(tf.float32, [batch, 28, 28, 1])

    def normalized(x: Any, name: str) -> Any:
        with tf.variable_scope(name):
            mean, variance = tf.nn.moments(x, list(range(len(x.shape) - 1)))
            size = int(x.shape[-1])
            return tf.nn.batch_normalization(
                x, mean, variance, weights(tf, "offset", size), weights(tf, "scale", size), 1e-5
            )

    def wider(x: Any, channels: int, name: str) -> Any:
        side = 2 * int(x.shape[1])
        with tf.variable_scope(name):
            kernel = weights(tf, "w", 5, 5, channels, int(x.shape[-1]))
            made = tf.nn.conv2d_transpose(x, kernel, [batch, side, side, channels], [1, 2, 2, 1], "SAME")
            return tf.nn.bias_add(made, weights(tf, "b", channels))

    with tf.variable_scope("generator"):
        y = tf.reshape(dense(tf, noise, 7 * 7 * 64, "dense"), [batch, 7, 7, 64])
        y = wider(tf.nn.relu(normalized(y, "norm0")), 32, "wider0")
        fake = tf.tanh(wider(tf.nn.relu(normalized(y, "norm1")), 1, "wider1"))

    def judged(x: Any) -> Any:
        with tf.variable_scope("discriminator", reuse=tf.AUTO_REUSE):
            x = tf.nn.leaky_relu(_convolved(tf, x, 5, 32, 2, "conv0") + weights(tf, "b0", 32))
            x = tf.nn.leaky_relu(normalized(_convolved(tf, x, 5, 64, 2, "conv1"), "norm"))
            return dense(tf, tf.reshape(x, [batch, -1]), 1, "out")

    def crossed(logits: Any, truth: Any) -> Any:
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(logits=logits, labels=truth(logits)))

    of_real, of_fake = judged(real), judged(fake)
    judge_loss = crossed(of_real, tf.ones_like) + crossed(of_fake, tf.zeros_like)
    loss = crossed(of_fake, tf.ones_like)
    train = []
    for what, goal in (("discriminator", judge_loss), ("generator", loss)):
        variables = [v for v in tf.trainable_variables() if v.op.name.startswith(what)]
        train.append(tf.train.AdamOptimizer(2e-4, beta1=0.5).minimize(goal, var_list=variables))
    feeds = {noise: randomly("noise", batch, 64), real: randomly("real", batch, 28, 28, 1)}
    return Model(loss, train, feeds, forward=fake)


def vae(tf: Any, batch: int) -> Model:
    """A variational autoencoder of dense layers, 784-500-20; Adam."""
    x = tf.placeholder(tf.float32, [batch, 784])
    noise = tf.placeholder(tf.float32, [batch, 20])
    hidden = dense(tf, dense(tf, x, 500, "e1", tf.nn.softplus), 500, "e2", tf.nn.softplus)
    mean, log_variance = dense(tf, hidden, 20, "mean"), dense(tf, hidden, 20, "variance")
    code = mean + tf.sqrt(tf.exp(log_variance)) * noise
    decoded = dense(tf, dense(tf, code, 500, "d1", tf.nn.softplus), 500, "d2", tf.nn.softplus)
    image = tf.sigmoid(dense(tf, decoded, 784, "image"))
    off = -tf.reduce_sum(x * tf.log(1e-7 + image) + (1 - x) * tf.log(1e-7 + 1 - image), 1)
    apart = -0.5 * tf.reduce_sum(1 + log_variance - tf.square(mean) - tf.exp(log_variance), 1)
    loss = tf.reduce_mean(off + apart)
    train = tf.train.AdamOptimizer(1e-3).minimize(loss)
    feeds = {x: (randomly("images", batch, 784) > 0).astype("f4"), noise: randomly("noise", batch, 20)}
    return Model(loss, [train], feeds, forward=image)


def autoencoder(tf: Any, batch: int) -> Model:
    """A sigmoid autoencoder, 784-256-128 and back; RMSProp."""
    x = tf.placeholder(tf.float32, [batch, 784])
    layer = x
    for n, units in enumerate((256, 128, 256, 784)):
        layer = dense(tf, layer, units, f"layer{n}", tf.sigmoid)
    loss = tf.reduce_mean(tf.pow(x - layer, 2))
    train = tf.train.RMSPropOptimizer(0.01).minimize(loss)
    return Model(loss, [train], {x: abs(randomly("images", batch, 784)) % 1.0}, forward=layer)
