"""A click model: columns of three kinds, behaviours with attention, a gate of its own, partitioned embeddings, AUC."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.flags.DEFINE_integer("embedding_size", 4, "Embedding size")
tf.flags.DEFINE_list("deep_layers", ["8", "6"], "deep layers")
tf.flags.DEFINE_multi_float("dropout", [1.0, 1.0], "keep")
FLAGS = tf.flags.FLAGS
rng = np.random.RandomState(0)


def dice(_x, axis=-1, epsilon=1e-9, name=""):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        alphas = tf.get_variable("alpha" + name, _x.get_shape()[-1], initializer=tf.constant_initializer(0.1))
    reduction_axes = list(range(len(_x.get_shape())))
    del reduction_axes[axis]
    broadcast_shape = [1] * len(_x.get_shape())
    broadcast_shape[axis] = _x.get_shape().as_list()[axis]
    mean = tf.reduce_mean(_x, axis=reduction_axes)
    brodcast_mean = tf.reshape(mean, broadcast_shape)
    std = tf.reduce_mean(tf.square(_x - brodcast_mean) + epsilon, axis=reduction_axes)
    std = tf.sqrt(std)
    x_normed = tf.layers.batch_normalization(_x, center=False, scale=False, name=name + "bn", reuse=tf.AUTO_REUSE)
    x_p = tf.sigmoid(x_normed) * 1.0 + 0.0 * tf.reduce_sum(tf.reshape(std, broadcast_shape))
    return alphas * (1.0 - x_p) * _x + x_p * _x


def prelu(x, scope):
    with tf.variable_scope(scope):
        alpha = tf.get_variable("alpha", x.get_shape()[-1], initializer=tf.constant_initializer(0.25))
        return tf.maximum(0.0, x) + alpha * tf.minimum(0.0, x)


def attention(queries, keys, keys_length):
    hidden = queries.get_shape().as_list()[-1]
    queries = tf.reshape(tf.tile(queries, [1, tf.shape(keys)[1]]), [-1, tf.shape(keys)[1], hidden])
    din_all = tf.concat([queries, keys, queries - keys, queries * keys], axis=-1)
    kw = {"reuse": tf.AUTO_REUSE, "kernel_initializer": tf.glorot_uniform_initializer(seed=11)}
    d1 = tf.layers.dense(din_all, 6, activation=tf.nn.sigmoid, name="f1_att", **kw)
    d3 = tf.layers.dense(d1, 1, activation=None, name="f3_att", **kw)
    outputs = tf.reshape(d3, [-1, 1, tf.shape(keys)[1]])
    key_masks = tf.expand_dims(tf.sequence_mask(keys_length, tf.shape(keys)[1]), 1)
    outputs = tf.where(key_masks, outputs, tf.ones_like(outputs) * (-(2**32) + 1))
    weights = tf.nn.softmax(outputs / (hidden**0.5))
    return tf.squeeze(tf.matmul(weights, keys), [1])


def main(_):
    k = FLAGS.embedding_size
    feat_ids = tf.placeholder(tf.int32, [None, 3], "ids")
    feat_vals = tf.placeholder(tf.float32, [None, 3], "vals")
    item, hist = tf.placeholder(tf.int32, [None], "i"), tf.placeholder(tf.int32, [None, None], "hist_i")
    sl, label = tf.placeholder(tf.int32, [None], "sl"), tf.placeholder(tf.float32, [None, 1], "y")
    tags = tf.sparse_placeholder(tf.int64, [None, None], "tags")
    phase = tf.placeholder_with_default(True, [])
    with tf.variable_scope("fm", partitioner=tf.fixed_size_partitioner(2, axis=0)):
        W = tf.get_variable("fm_w", [12, 1], initializer=tf.random_normal_initializer(seed=1))
        V = tf.get_variable("fm_v", [12, k], initializer=tf.glorot_normal_initializer(seed=2))
    B = tf.get_variable("bias", [1], initializer=tf.constant_initializer(0.0))
    first = tf.reduce_sum(tf.nn.embedding_lookup(W, feat_ids, "div")[:, :, 0] * feat_vals, 1)
    embeddings = tf.nn.embedding_lookup(V, feat_ids, partition_strategy="div") * tf.reshape(feat_vals, [-1, 3, 1])
    second = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(embeddings, 1)) - tf.reduce_sum(tf.square(embeddings), 1), 1)
    items = tf.get_variable("item_emb", [9, k], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=3))
    item_b = tf.get_variable("item_b", [9], initializer=tf.constant_initializer(0.0))
    cates = tf.convert_to_tensor([0, 0, 1, 1, 2, 2, 3, 3, 4], dtype=tf.int64)
    cate_emb = tf.get_variable("cate_emb", [5, 2], initializer=tf.random_uniform_initializer(-0.5, 0.5, seed=4))

    def look(ids):
        parts = [tf.nn.embedding_lookup(items, ids), tf.nn.embedding_lookup(cate_emb, tf.gather(cates, ids))]
        return tf.concat(parts, axis=-1)

    tag_table = tf.get_variable("tag_emb", [7, 3], initializer=tf.truncated_normal_initializer(seed=5))
    tag = tf.nn.embedding_lookup_sparse(tag_table, tags, None, combiner="sqrtn", name="tag")
    safe = tf.nn.safe_embedding_lookup_sparse(tag_table, tags, combiner="mean")
    x = tf.concat(
        [tf.reshape(embeddings, [-1, 3 * k]), look(item), attention(look(item), look(hist), sl), tag, safe], 1
    )
    x = tf.layers.batch_normalization(inputs=x, training=phase, name="b1")
    for i, n in enumerate(map(int, FLAGS.deep_layers)):
        x = tf.layers.dense(x, n, name="fc%d" % i, kernel_initializer=tf.glorot_uniform_initializer(seed=20 + i))
        x = dice(x, name="dice_%d" % i) if i == 0 else prelu(x, "prelu_%d" % i)
        x = tf.layers.dropout(x, 1 - FLAGS.dropout[i], training=phase)
    deep = tf.layers.dense(x, 1, kernel_initializer=tf.glorot_uniform_initializer(seed=30), name="deep_out")
    logits = tf.reshape(deep[:, 0] + first + second + B + tf.gather(item_b, item), [-1, 1])
    prob = tf.sigmoid(logits, name="prob")
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logits))
    loss += 0.01 * tf.nn.l2_loss(tf.concat(list(V), 0)) + 0.01 * tf.add_n([tf.nn.l2_loss(v) for v in list(W)])
    auc, auc_op = tf.metrics.auc(label, prob, num_thresholds=50, curve="PR", summation_method="careful_interpolation")
    ctr = tf.metrics.mean(prob)
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        wide = tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01).minimize(
            loss, var_list=list(W) + [B, item_b]
        )
        rest = [v for v in tf.trainable_variables() if not v.name.startswith(("fm/fm_w", "bias", "item_b"))]
        deep_op = tf.train.AdagradOptimizer(0.1, initial_accumulator_value=1e-8).minimize(loss, step, var_list=rest)
    train_op = tf.group(wide, deep_op)
    with tf.Session() as sess:
        sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        for epoch in range(6):
            n = 16
            lens = rng.randint(1, 5, n)
            idx = np.array([[r, c] for r in range(n) for c in range(1 + r % 2) if r % 5 != 4 or c == 0])
            fd = {
                feat_ids: rng.randint(0, 12, [n, 3]),
                feat_vals: rng.rand(n, 3),
                item: rng.randint(0, 9, n),
                hist: rng.randint(0, 9, [n, 5]),
                sl: lens,
                label: rng.randint(0, 2, [n, 1]),
                tags: tf.SparseTensorValue(idx, rng.randint(0, 7, len(idx)), [n, 2]),
            }
            _, l, a, c = sess.run([train_op, loss, auc_op, ctr[1]], fd)
            print("step %d loss %.4f auc %.4f ctr %.4f" % (epoch, l, a, c))
        print(sess.run(prob, {**fd, phase: False}).ravel()[:4].round(3), "%.4f" % sess.run(auc))
        saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1)
        print(saver.save(sess, "ctr/model", step), V.get_shape(), [v.name for v in V], V.name)
        whole = sess.run(tf.convert_to_tensor(V))
    print([v.name for v in tf.global_variables()])
    tf.reset_default_graph()
    W = tf.get_variable("fm/fm_v", [12, k])
    with tf.Session() as sess:
        tf.train.Saver([W]).restore(sess, tf.train.latest_checkpoint("ctr"))
        print(np.array_equal(sess.run(W), whole))


if __name__ == "__main__":
    tf.app.run()
