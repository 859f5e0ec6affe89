"""A transformer encoder: its own Adam with weight decay, warmup, weights from a checkpoint by an assignment map."""

import collections
import math
import re

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def gelu(x):
    cdf = 0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3))))
    return x * cdf


def get_shape_list(tensor, expected_rank=None, name=None):
    if name is None:
        name = tensor.name
    shape = tensor.shape.as_list()
    non_static_indexes = [i for i, d in enumerate(shape) if d is None]
    if not non_static_indexes:
        return shape
    dyn_shape = tf.shape(tensor)
    for index in non_static_indexes:
        shape[index] = dyn_shape[index]
    return shape


def create_initializer(seed):
    return tf.truncated_normal_initializer(stddev=0.02, seed=seed)


def layer_norm(x, name):
    with tf.variable_scope(name):
        n = x.shape[-1].value
        beta = tf.get_variable("beta", [n], initializer=tf.zeros_initializer())
        gamma = tf.get_variable("gamma", [n], initializer=tf.ones_initializer())
        mean, variance = tf.nn.moments(x, [-1], keep_dims=True)
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)


def attention_layer(x, mask, heads, size, b, s, seed):
    def transpose_for_scores(t):
        return tf.transpose(tf.reshape(t, [b, s, heads, size]), [0, 2, 1, 3])

    flat = tf.reshape(x, [-1, x.shape[-1].value])
    made = [
        tf.layers.dense(flat, heads * size, name=n, kernel_initializer=create_initializer(seed + i))
        for i, n in enumerate(["query", "key", "value"])
    ]
    q, k, v = (transpose_for_scores(t) for t in made)
    scores = tf.multiply(tf.matmul(q, k, transpose_b=True), 1.0 / math.sqrt(float(size)))
    scores += (1.0 - tf.cast(tf.expand_dims(mask, [1]), tf.float32)) * -10000.0
    probs = tf.nn.softmax(scores)
    context = tf.transpose(tf.matmul(probs, v), [0, 2, 1, 3])
    return tf.reshape(context, [b * s, heads * size])


class BertModel:
    def __init__(self, input_ids, input_mask, token_type_ids, scope=None):
        b, s = get_shape_list(input_ids)
        with tf.variable_scope(scope, default_name="bert"):
            with tf.variable_scope("embeddings"):
                self.table = tf.get_variable("word_embeddings", [20, 8], initializer=create_initializer(1))
                out = tf.nn.embedding_lookup(self.table, input_ids)
                types = tf.get_variable("token_type_embeddings", [2, 8], initializer=create_initializer(2))
                one_hot = tf.one_hot(tf.reshape(token_type_ids, [-1]), depth=2)
                out += tf.reshape(tf.matmul(one_hot, types), [b, s, 8])
                with tf.control_dependencies([tf.assert_less_equal(s, 16)]):
                    full = tf.get_variable("position_embeddings", [16, 8], initializer=create_initializer(3))
                    out += tf.reshape(tf.slice(full, [0, 0], [s, -1]), [1, s, 8])
                out = layer_norm(out, "LayerNorm")
            with tf.variable_scope("encoder"):
                to_mask = tf.cast(tf.reshape(input_mask, [b, 1, s]), tf.float32)
                mask = tf.ones(shape=[b, s, 1], dtype=tf.float32) * to_mask
                prev = tf.reshape(out, [-1, 8])
                for i in range(2):
                    with tf.variable_scope("layer_%d" % i):
                        with tf.variable_scope("attention"):
                            with tf.variable_scope("self"):
                                att = attention_layer(tf.reshape(prev, [b, s, 8]), mask, 2, 4, b, s, 10 * i + 4)
                            with tf.variable_scope("output"):
                                att = tf.layers.dense(att, 8, kernel_initializer=create_initializer(8))
                                att = layer_norm(att + prev, "LayerNorm")
                        with tf.variable_scope("intermediate"):
                            mid = tf.layers.dense(att, 16, activation=gelu, kernel_initializer=create_initializer(9))
                        with tf.variable_scope("output"):
                            prev = tf.layers.dense(mid, 8, kernel_initializer=create_initializer(10))
                            prev = layer_norm(prev + att, "LayerNorm")
            self.sequence_output = tf.reshape(prev, [b, s, 8])
            with tf.variable_scope("pooler"):
                first = tf.squeeze(self.sequence_output[:, 0:1, :], axis=1)
                self.pooled_output = tf.layers.dense(
                    first, 8, activation=tf.tanh, kernel_initializer=create_initializer(11)
                )


class AdamWeightDecayOptimizer(tf.train.Optimizer):
    def __init__(self, learning_rate, weight_decay_rate=0.0, exclude=None, name="AdamWeightDecayOptimizer"):
        super().__init__(False, name)
        self.learning_rate, self.weight_decay_rate, self.exclude = learning_rate, weight_decay_rate, exclude

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for grad, param in grads_and_vars:
            if grad is None or param is None:
                continue
            m_ = re.match("^(.*):\\d+$", param.name)
            param_name = m_.group(1) if m_ is not None else param.name
            m, v = (
                tf.get_variable(
                    name=param_name + k,
                    shape=param.shape.as_list(),
                    dtype=tf.float32,
                    trainable=False,
                    initializer=tf.zeros_initializer(),
                )
                for k in ("/adam_m", "/adam_v")
            )
            next_m = tf.multiply(0.9, m) + tf.multiply(1.0 - 0.9, grad)
            next_v = tf.multiply(0.999, v) + tf.multiply(1.0 - 0.999, tf.square(grad))
            update = next_m / (tf.sqrt(next_v) + 1e-6)
            if not any(re.search(r, param_name) for r in self.exclude or []):
                update += self.weight_decay_rate * param
            next_param = param - self.learning_rate * update
            assignments.extend([param.assign(next_param), m.assign(next_m), v.assign(next_v)])
        return tf.group(*assignments, name=name)


def create_optimizer(loss, init_lr, num_train_steps, num_warmup_steps):
    global_step = tf.train.get_or_create_global_step()
    lr = tf.constant(value=init_lr, shape=[], dtype=tf.float32)
    lr = tf.train.polynomial_decay(lr, global_step, num_train_steps, end_learning_rate=0.0, power=1.0, cycle=False)
    steps = tf.cast(global_step, tf.int32)
    warmup = init_lr * tf.cast(steps, tf.float32) / tf.cast(tf.constant(num_warmup_steps, tf.int32), tf.float32)
    is_warmup = tf.cast(steps < num_warmup_steps, tf.float32)
    lr = (1.0 - is_warmup) * lr + is_warmup * warmup
    optimizer = AdamWeightDecayOptimizer(lr, 0.01, exclude=["LayerNorm", "layer_norm", "bias"])
    tvars = tf.trainable_variables()
    grads = tf.gradients(loss, tvars)
    (grads, norm) = tf.clip_by_global_norm(grads, clip_norm=1.0)
    train_op = optimizer.apply_gradients(zip(grads, tvars), global_step=global_step)
    # Counted when the rate has been read: without it TensorFlow's own order changes from run to run.
    with tf.control_dependencies([train_op]):
        counted = global_step.assign(global_step + 1)
    return tf.group(train_op, [counted]), lr, norm


def get_assignment_map_from_checkpoint(tvars, init_checkpoint):
    initialized = {}
    names = collections.OrderedDict()
    for var in tvars:
        m = re.match("^(.*):\\d+$", var.name)
        names[m.group(1)] = var
    assignment_map = collections.OrderedDict()
    for name, _ in tf.train.list_variables(init_checkpoint):
        if name not in names:
            continue
        assignment_map[name] = name
        initialized[name] = initialized[name + ":0"] = 1
    return assignment_map, initialized


def build():
    ids = tf.placeholder(tf.int32, [None, None], "input_ids")
    mask = tf.placeholder_with_default(tf.ones_like(ids), [None, None], "input_mask")
    model = BertModel(ids, mask, tf.zeros_like(ids))
    labels = tf.placeholder(tf.int32, [None], "labels")
    w = tf.get_variable("output_weights", [2, 8], initializer=create_initializer(12))
    bias = tf.get_variable("output_bias", [2], initializer=tf.zeros_initializer())
    with tf.variable_scope("loss"):
        logits = tf.nn.bias_add(tf.matmul(model.pooled_output, w, transpose_b=True), bias)
        log_probs = tf.nn.log_softmax(logits, axis=-1)
        per_example = -tf.reduce_sum(tf.one_hot(labels, depth=2, dtype=tf.float32) * log_probs, axis=-1)
        return ids, mask, labels, tf.reduce_mean(per_example), model


rng = np.random.RandomState(0)
x, y = rng.randint(0, 20, [6, 7]), rng.randint(0, 2, 6)
m = (np.arange(7) < rng.randint(3, 8, [6, 1])).astype(int)
with tf.Graph().as_default(), tf.Session() as sess:
    ids, mask, labels, loss, model = build()
    train_op, lr, norm = create_optimizer(loss, 1e-2, 20, 4)
    sess.run(tf.global_variables_initializer())
    for _i in range(6):
        _, l, r, n, step = sess.run(
            [train_op, loss, lr, norm, tf.train.get_global_step()], {ids: x, mask: m, labels: y}
        )
        print("loss %.5f norm %.4f" % (l, n))
    print(sess.run(model.pooled_output, {ids: x, mask: m})[0])
    print(tf.train.Saver().save(sess, "out/model.ckpt", tf.train.get_global_step()))
with tf.Graph().as_default(), tf.Session() as sess:
    ids, mask, labels, loss, model = build()
    tvars = tf.trainable_variables()
    amap, names = get_assignment_map_from_checkpoint(tvars, tf.train.latest_checkpoint("out"))
    tf.train.init_from_checkpoint(tf.train.latest_checkpoint("out"), amap)
    for var in tvars:
        print("  name = %s, shape = %s%s" % (var.name, var.shape, ", *INIT_FROM_CKPT*" if var.name in names else ""))
    sess.run(tf.global_variables_initializer())
    print("%.5f" % sess.run(loss, {ids: x, mask: m, labels: y}), model.sequence_output.shape)
