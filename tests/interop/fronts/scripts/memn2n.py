"""End-to-end memory networks."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


def position_encoding(sentence_size, embedding_size):
    encoding = np.ones((embedding_size, sentence_size), dtype=np.float32)
    ls = sentence_size + 1
    le = embedding_size + 1
    for i in range(1, le):
        for j in range(1, ls):
            encoding[i - 1, j - 1] = (i - (embedding_size + 1) / 2) * (j - (sentence_size + 1) / 2)
    encoding = 1 + 4 * encoding / embedding_size / sentence_size
    encoding[:, -1] = 1.0
    return np.transpose(encoding)


def zero_nil_slot(t, name=None):
    with tf.op_scope([t], name, "zero_nil_slot") as name:
        t = tf.convert_to_tensor(t, name="t")
        s = tf.shape(t)[1]
        z = tf.zeros(tf.stack([1, s]))
        return tf.concat(axis=0, values=[z, tf.slice(t, [1, 0], [-1, -1])], name=name)


def add_gradient_noise(t, stddev=1e-3, name=None):
    with tf.op_scope([t, stddev], name, "add_gradient_noise") as name:
        t = tf.convert_to_tensor(t, name="t")
        gn = tf.random_normal(tf.shape(t), stddev=stddev, seed=7)
        return tf.add(t, gn * 0.0, name=name)


class MemN2N:
    def __init__(self, batch, vocab, sent, mem, emb, hops=3, session=None, name="MemN2N"):
        self._b, self._v, self._s, self._m, self._e, self._h, self._name = batch, vocab, sent, mem, emb, hops, name
        self._stories = tf.placeholder(tf.int32, [None, mem, sent], name="stories")
        self._q = tf.placeholder(tf.int32, [None, sent], name="queries")
        self._a = tf.placeholder(tf.int32, [None, vocab], name="answers")
        self._lr = tf.placeholder(tf.float32, [], name="learning_rate")
        self._opt = tf.train.GradientDescentOptimizer(learning_rate=self._lr)
        self._enc = tf.constant(position_encoding(sent, emb), name="encoding")
        rs = np.random.RandomState(0)
        with tf.variable_scope(name):
            nil = np.zeros((1, emb), "f")
            A = np.concatenate([nil, rs.randn(vocab - 1, emb).astype("f") * 0.1])
            C = np.concatenate([nil, rs.randn(vocab - 1, emb).astype("f") * 0.1])
            self.A_1 = tf.Variable(A, name="A")
            self.C = []
            for h in range(hops):
                with tf.variable_scope(f"hop_{h}"):
                    self.C.append(tf.Variable(C, name="C"))
        self._nil_vars = set([self.A_1.name] + [x.name for x in self.C])
        logits = self._inference(self._stories, self._q)
        ce = tf.nn.softmax_cross_entropy_with_logits(
            logits=logits, labels=tf.cast(self._a, tf.float32), name="cross_entropy"
        )
        self.loss = tf.reduce_sum(ce, name="cross_entropy_sum")
        gv = self._opt.compute_gradients(self.loss)
        gv = [(tf.clip_by_norm(g, 40.0), v) for g, v in gv]
        gv = [(add_gradient_noise(g), v) for g, v in gv]
        self.train_op = self._opt.apply_gradients(
            [((zero_nil_slot(g), v) if v.name in self._nil_vars else (g, v)) for g, v in gv], name="train_op"
        )
        self.pred = tf.argmax(logits, 1, name="predict_op")
        self._sess = session
        self._sess.run(tf.global_variables_initializer())

    def _inference(self, stories, queries):
        with tf.variable_scope(self._name):
            u = [tf.reduce_sum(tf.nn.embedding_lookup(self.A_1, queries) * self._enc, 1)]
            for h in range(self._h):
                m = tf.reduce_sum(
                    (
                        tf.nn.embedding_lookup(self.A_1, stories)
                        if h == 0
                        else tf.nn.embedding_lookup(self.C[h - 1], stories)
                    )
                    * self._enc,
                    2,
                )
                ut = tf.transpose(tf.expand_dims(u[-1], -1), [0, 2, 1])
                dotted = tf.reduce_sum(m * ut, 2)
                probs = tf.nn.softmax(dotted)
                pt = tf.transpose(tf.expand_dims(probs, -1), [0, 2, 1])
                with tf.variable_scope(f"hop_{h}"):
                    mC = tf.nn.embedding_lookup(self.C[h], stories)
                c = tf.transpose(tf.reduce_sum(mC * self._enc, 2), [0, 2, 1])
                u.append(u[-1] + tf.reduce_sum(c * pt, 2))
            with tf.variable_scope(f"hop_{self._h}"):
                return tf.matmul(u[-1], tf.transpose(self.C[-1], [1, 0]))


with tf.Session() as s:
    m = MemN2N(8, 12, 4, 3, 6, session=s)
    r = np.random.RandomState(1)
    st = r.randint(0, 12, (8, 3, 4))
    q = r.randint(0, 12, (8, 4))
    a = np.eye(12)[r.randint(1, 12, 8)]
    for e in range(5):
        l, _ = s.run([m.loss, m.train_op], {m._stories: st, m._q: q, m._a: a, m._lr: 0.05})
        print("-----------------------\nEpoch %d loss %.5f" % (e, l))
    print(s.run(m.pred, {m._stories: st, m._q: q}))
    print(sorted(m._nil_vars))
    tf.train.Saver().save(s, "memn2n", global_step=3)
