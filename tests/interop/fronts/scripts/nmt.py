"""Translation: vocabulary tables, buckets of a dataset, attention by hand, a while loop that decodes greedily."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
from tensorflow.python.layers import core as layers_core
from tensorflow.python.ops import lookup_ops

rng = np.random.RandomState(2)
WORDS = ["<unk>", "<s>", "</s>"] + ["w%d" % i for i in range(9)]
with open("vocab.txt", "w") as f:
    f.write("\n".join(WORDS) + "\n")
with open("train.src", "w") as f, open("train.tgt", "w") as g:
    for _ in range(40):
        line = ["w%d" % i for i in rng.randint(0, 10, rng.randint(2, 8))]
        f.write(" ".join(line) + "\n")
        g.write(" ".join(line[::-1]) + "\n")

src_table = lookup_ops.index_table_from_file("vocab.txt", default_value=0)
tgt_table = tf.lookup.StaticHashTable(
    tf.lookup.TextFileInitializer(
        "vocab.txt", tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    ),
    0,
)
reverse = tf.lookup.StaticHashTable(
    tf.lookup.TextFileInitializer(
        "vocab.txt", tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE
    ),
    "<unk>",
)


def get_iterator(batch_size, num_buckets):
    sos = tf.cast(tgt_table.lookup(tf.constant("<s>")), tf.int32)
    eos = tf.cast(tgt_table.lookup(tf.constant("</s>")), tf.int32)
    data = tf.data.Dataset.zip((tf.data.TextLineDataset("train.src"), tf.data.TextLineDataset("train.tgt")))
    data = data.shard(1, 0).skip(2)
    data = data.map(lambda s, t: (tf.string_split([s]).values, tf.string_split([t]).values)).prefetch(4)
    data = data.filter(lambda s, t: tf.logical_and(tf.size(s) > 2, tf.size(t) > 0))
    data = data.map(lambda s, t: (s[:6], t[:6]))
    data = data.map(lambda s, t: (tf.cast(src_table.lookup(s), tf.int32), tf.cast(tgt_table.lookup(t), tf.int32)))
    data = data.map(lambda s, t: (s, tf.concat(([sos], t), 0), tf.concat((t, [eos]), 0)))
    data = data.map(lambda s, ti, to: (s, ti, to, tf.size(s), tf.size(ti)))

    def key_func(s, ti, to, sl, tl):
        return tf.to_int64(tf.minimum(num_buckets, tf.maximum(sl // 3, tl // 3)))

    def batching(x):
        shapes = (tf.TensorShape([None]), tf.TensorShape([None]), tf.TensorShape([None]), [], [])
        return x.padded_batch(batch_size, padded_shapes=shapes, padding_values=(eos, eos, eos, 0, 0))

    data = data.apply(
        tf.data.experimental.group_by_window(
            key_func=key_func, reduce_func=lambda k, w: batching(w), window_size=batch_size
        )
    )
    return data.make_initializable_iterator()


class Model:
    def __init__(self, units=8):
        init = tf.random_uniform_initializer(-0.3, 0.3, seed=4)
        tf.get_variable_scope().set_initializer(init)
        with tf.variable_scope("embeddings", dtype=tf.float32):
            self.embedding = tf.get_variable("embedding_share", [len(WORDS), units])
        with tf.variable_scope("build_network"):
            self.output_layer = layers_core.Dense(len(WORDS), use_bias=False, name="output_projection")
        self.cell = tf.nn.rnn_cell.GRUCell(units)
        self.units = units

    def encode(self, source, length):
        with tf.variable_scope("encoder", reuse=tf.AUTO_REUSE):
            emb = tf.nn.embedding_lookup(self.embedding, source)
            fw, bw = (tf.nn.rnn_cell.GRUCell(self.units // 2, name="cell") for _ in range(2))
            outs, states = tf.nn.bidirectional_dynamic_rnn(fw, bw, emb, sequence_length=length, dtype=tf.float32)
            return tf.concat(outs, -1), tf.concat(states, -1)

    def attend(self, query, memory, length):
        with tf.variable_scope("attention", reuse=tf.AUTO_REUSE):
            keys = tf.layers.dense(memory, self.units, use_bias=False, name="memory_layer")
            score = tf.squeeze(tf.matmul(keys, tf.expand_dims(query, 2)), [2])
            mask = tf.sequence_mask(length, tf.shape(memory)[1])
            score = tf.where(mask, score, tf.fill(tf.shape(score), float("-inf")))
            align = tf.nn.softmax(score)
            return tf.reduce_sum(tf.expand_dims(align, 2) * memory, 1), align

    def step(self, ids, state, memory, length):
        with tf.variable_scope("decoder", reuse=tf.AUTO_REUSE):
            context, align = self.attend(state, memory, length)
            x = tf.concat([tf.nn.embedding_lookup(self.embedding, ids), context], 1)
            out, state = self.cell(x, state)
            return self.output_layer(out), state, align


it = get_iterator(8, 3)
source, target_in, target_out, src_len, tgt_len = it.get_next()
model = Model()
memory, state = model.encode(source, src_len)
logits_ta = tf.TensorArray(tf.float32, size=tf.reduce_max(tgt_len), element_shape=[None, len(WORDS)])


def train_body(t, s, ta):
    l, s, _ = model.step(target_in[:, t], s, memory, src_len)
    return t + 1, s, ta.write(t, l)


_, _, ta = tf.while_loop(lambda t, *_: t < tf.reduce_max(tgt_len), train_body, [0, state, logits_ta])
logits = tf.transpose(ta.stack(), [1, 0, 2])
cross = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target_out, logits=logits)
weights = tf.sequence_mask(tgt_len, tf.shape(target_out)[1], dtype=logits.dtype)
loss = tf.reduce_sum(cross * weights) / tf.to_float(tf.size(tgt_len))
params = tf.trainable_variables()
global_step = tf.Variable(0, trainable=False)
lr = tf.cond(
    global_step < 3,
    lambda: tf.constant(0.1),
    lambda: tf.train.exponential_decay(0.1, global_step - 3, 2, 0.5, staircase=True),
    name="learning_rate_decay_cond",
)
clipped, norm = tf.clip_by_global_norm(tf.gradients(loss, params, colocate_gradients_with_ops=True), 5.0)
update = tf.train.GradientDescentOptimizer(lr).apply_gradients(zip(clipped, params), global_step=global_step)


def infer_body(t, ids, s, done, out):
    l, s, _ = model.step(ids, s, memory, src_len)
    ids = tf.where(done, tf.fill(tf.shape(ids), 2), tf.argmax(l, -1, output_type=tf.int32))
    return [t + 1, ids, s, tf.logical_or(done, tf.equal(ids, 2)), tf.concat([out, ids[:, None]], 1)]


begin = tf.ones_like(src_len)
shapes = [tf.TensorShape([]), begin.shape, state.shape, tf.TensorShape([None]), tf.TensorShape([None, None])]
steps, _, _, _, decoded = tf.while_loop(
    lambda t, ids, s, done, out: tf.logical_and(t < 2 * tf.reduce_max(src_len), ~tf.reduce_all(done)),
    infer_body,
    [0, begin, state, tf.zeros_like(begin, tf.bool), tf.zeros([tf.shape(begin)[0], 0], tf.int32)],
    shape_invariants=shapes,
    maximum_iterations=9,
)
words = reverse.lookup(tf.to_int64(decoded))
with tf.Session() as sess:
    sess.run([tf.global_variables_initializer(), tf.tables_initializer()])
    for epoch in range(3):
        sess.run(it.initializer)
        total, n = 0.0, 0
        while True:
            try:
                _, l, g, m, r = sess.run([update, loss, norm, tf.shape(source), lr])
                total, n = total + l, n + 1
            except tf.errors.OutOfRangeError:
                break
        print("epoch %d loss %.4f batches %d gN %.3f" % (epoch, total / n, n, g), m)
    sess.run(it.initializer)
    w, t, s = sess.run([words, steps, source])
    print(t, w.shape, s.shape, [b" ".join(row) for row in w[:2]])
    print([v.name for v in params])
    print(logits, decoded, words, norm)
    tf.train.Saver(params).save(sess, "nmt/translate.ckpt", global_step=global_step, write_meta_graph=False)
