"""A tagger: characters and words, a random field written as a scan, pretrained rows fed once, metrics of streams."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
rng = np.random.RandomState(4)
N_TAGS, N_WORDS, N_CHARS = 4, 20, 9


def log_norm(logits, lengths, transitions):
    first = logits[:, 0]

    def forward(state, x):
        alphas, t = state
        new = tf.reduce_logsumexp(tf.expand_dims(alphas, 2) + tf.expand_dims(transitions, 0), 1) + x
        return tf.where(t < lengths, new, alphas), t + 1

    rest = tf.transpose(logits[:, 1:], [1, 0, 2])
    ones = tf.ones_like(lengths)
    alphas, _ = tf.scan(forward, rest, (first, ones), name="forward")
    return tf.cond(
        tf.equal(tf.shape(logits)[1], 1),
        lambda: tf.reduce_logsumexp(first, [1]),
        lambda: tf.reduce_logsumexp(alphas[-1], [1]),
    )


def sequence_score(logits, tags, lengths, transitions):
    _b, n = tf.shape(tags)[0], tf.shape(tags)[1]
    mask = tf.sequence_mask(lengths, maxlen=n, dtype=tf.float32)
    unary = tf.reduce_sum(tf.batch_gather(logits, tf.expand_dims(tags, 2))[:, :, 0] * mask, 1)
    flat = tf.gather(tf.reshape(transitions, [-1]), tags[:, :-1] * N_TAGS + tags[:, 1:])
    return unary + tf.reduce_sum(flat * mask[:, 1:], 1)


def viterbi(score, transitions):
    trellis, back = np.zeros_like(score), np.zeros_like(score, dtype=np.int32)
    trellis[0] = score[0]
    for t in range(1, len(score)):
        v = np.expand_dims(trellis[t - 1], 1) + transitions
        trellis[t], back[t] = score[t] + v.max(0), v.argmax(0)
    path = [int(trellis[-1].argmax())]
    for bp in reversed(back[1:]):
        path.append(int(bp[path[-1]]))
    return path[::-1]


class NER:
    def __init__(self):
        self.word_ids = tf.placeholder(tf.int32, shape=[None, None], name="word_ids")
        self.lengths = tf.placeholder(tf.int32, shape=[None], name="sequence_lengths")
        self.char_ids = tf.placeholder(tf.int32, shape=[None, None, None], name="char_ids")
        self.word_lengths = tf.placeholder(tf.int32, shape=[None, None], name="word_lengths")
        self.labels = tf.placeholder(tf.int32, shape=[None, None], name="labels")
        self.dropout = tf.placeholder(dtype=tf.float32, shape=[], name="dropout")
        with tf.variable_scope("words"):
            self.pretrained = tf.placeholder(tf.float32, [N_WORDS, 6])
            table = tf.Variable(tf.zeros([N_WORDS, 6]), name="_word_embeddings", dtype=tf.float32, trainable=False)
            self.load = table.assign(self.pretrained)
            word_embeddings = tf.nn.embedding_lookup(table, self.word_ids, name="word_embeddings")
        with tf.variable_scope("chars"):
            chars = tf.get_variable("_char_embeddings", [N_CHARS, 5], initializer=tf.random_normal_initializer(seed=1))
            emb = tf.nn.embedding_lookup(chars, self.char_ids, name="char_embeddings")
            s = tf.shape(emb)
            emb = tf.reshape(emb, shape=[s[0] * s[1], s[-2], 5])
            lengths = tf.reshape(self.word_lengths, shape=[s[0] * s[1]])
            init = tf.random_uniform_initializer(-0.4, 0.4, seed=2)
            fw = tf.nn.rnn_cell.LSTMCell(4, state_is_tuple=True, initializer=init)
            bw = tf.nn.rnn_cell.LSTMCell(4, state_is_tuple=True, initializer=init, use_peepholes=True)
            _, ((_, output_fw), (_, output_bw)) = tf.nn.bidirectional_dynamic_rnn(
                fw, bw, emb, sequence_length=lengths, dtype=tf.float32
            )
            output = tf.reshape(tf.concat([output_fw, output_bw], axis=-1), shape=[s[0], s[1], 8])
            x = tf.nn.dropout(tf.concat([word_embeddings, output], axis=-1), self.dropout)
        with tf.variable_scope("bi-lstm", initializer=tf.random_normal_initializer(stddev=0.3, seed=3)):
            (o1, o2), _ = tf.nn.bidirectional_dynamic_rnn(
                tf.nn.rnn_cell.GRUCell(5),
                tf.nn.rnn_cell.LSTMCell(5, num_proj=4, cell_clip=3.0),
                x,
                self.lengths,
                dtype=tf.float32,
                time_major=False,
            )
            output = tf.concat([o1, o2], axis=-1)
        with tf.variable_scope("proj"):
            W = tf.get_variable("W", [9, N_TAGS], initializer=tf.glorot_normal_initializer(seed=4))
            b = tf.get_variable("b", shape=[N_TAGS], dtype=tf.float32, initializer=tf.zeros_initializer())
            nsteps = tf.shape(output)[1]
            pred = tf.matmul(tf.reshape(output, [-1, 9]), W) + b
            self.logits = tf.reshape(pred, [-1, nsteps, N_TAGS])
        with tf.variable_scope("crf", reuse=tf.AUTO_REUSE):
            init = tf.random_uniform_initializer(-0.1, 0.1, seed=5)
            self.trans = tf.get_variable("transitions", [N_TAGS, N_TAGS], initializer=init)
            score = sequence_score(self.logits, self.labels, self.lengths, self.trans)
            self.loss = tf.reduce_mean(log_norm(self.logits, self.lengths, self.trans) - score)
        tf.summary.scalar("loss", self.loss)
        with tf.variable_scope("train_step"):
            optimizer = tf.train.AdamOptimizer(0.05)
            grads, vs = zip(*optimizer.compute_gradients(self.loss))
            grads, self.gnorm = tf.clip_by_global_norm(grads, 1.0)
            self.train_op = optimizer.apply_gradients(zip(grads, vs))
        flat = tf.boolean_mask(tf.argmax(self.logits, -1), tf.sequence_mask(self.lengths))
        true = tf.boolean_mask(self.labels, tf.sequence_mask(self.lengths))
        with tf.name_scope("metrics"):
            self.metrics = {
                "acc": tf.metrics.accuracy(true, flat),
                "prec": tf.metrics.precision(tf.equal(true, 1), tf.equal(flat, 1)),
                "iou": tf.metrics.mean_iou(true, flat, N_TAGS),
                "per": tf.metrics.mean_per_class_accuracy(true, flat, N_TAGS),
                "rec": tf.metrics.recall_at_k(tf.cast(true[:, None], tf.int64), tf.one_hot(flat, N_TAGS), 1),
            }
            self.reset = tf.variables_initializer(tf.local_variables(scope="metrics"))


def batch(n):
    lengths = rng.randint(1, 6, n)
    words = rng.randint(1, N_WORDS, [n, max(lengths)])
    chars = rng.randint(0, N_CHARS, [n, max(lengths), 3])
    return words, lengths, chars, rng.randint(1, 4, [n, max(lengths)]), words % N_TAGS


m = NER()
with tf.Session() as sess:
    sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    sess.run(m.load, {m.pretrained: rng.randn(N_WORDS, 6)})
    writer = tf.summary.FileWriter("log", sess.graph)
    merged = tf.summary.merge_all()
    for epoch in range(3):
        sess.run(m.reset)
        for i in range(3):
            w, n, c, cl, y = batch(5)
            fd = {m.word_ids: w, m.lengths: n, m.char_ids: c, m.word_lengths: cl, m.labels: y, m.dropout: 1.0}
            _, loss, norm, s = sess.run([m.train_op, m.loss, m.gnorm, merged], fd)
            sess.run({k: v[1] for k, v in m.metrics.items()}, fd)
            writer.add_summary(s, epoch * 3 + i)
        got = sess.run({k: v[0] for k, v in m.metrics.items()})
        print("epoch %d loss %.4f norm %.4f" % (epoch, loss, norm), {k: round(float(v), 3) for k, v in got.items()})
    writer.close()
    logits, trans = sess.run([m.logits, m.trans], fd)
    print([viterbi(l[:k], trans) for l, k in zip(logits, n)])
    tf.train.Saver().save(sess, "tagger/model.weights")
print([v.name for v in tf.global_variables()][:16])
print([v.name for v in tf.local_variables()])
