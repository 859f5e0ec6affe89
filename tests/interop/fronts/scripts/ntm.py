"""A neural Turing machine as a cell of its own."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


class NTMCell(tf.nn.rnn_cell.RNNCell):
    def __init__(self, units, N, M, shift=1, reuse=False):
        super().__init__(_reuse=reuse)
        self.u, self.N, self.M, self.s = units, N, M, shift
        self.controller = tf.nn.rnn_cell.BasicLSTMCell(units)

    @property
    def state_size(self):
        return (self.controller.state_size, self.N, self.M * self.N, self.M)

    @property
    def output_size(self):
        return self.M

    def zero_state(self, b, dtype):
        with tf.variable_scope("init", reuse=tf.AUTO_REUSE):
            mem = tf.get_variable(
                "mem", [1, self.N * self.M], initializer=tf.random_uniform_initializer(-0.1, 0.1, seed=3)
            )
            return (
                self.controller.zero_state(b, dtype),
                tf.tile(
                    tf.nn.softmax(
                        tf.get_variable("w", [1, self.N], initializer=tf.truncated_normal_initializer(seed=1))
                    ),
                    [b, 1],
                ),
                tf.tile(mem, [b, 1]),
                tf.zeros([b, self.M]),
            )

    def call(self, x, state):
        cs, w, mem, r = state
        with tf.variable_scope("controller"):
            o, cs = self.controller(tf.concat([x, r], 1), cs)
        n = self.M + 1 + 1 + (2 * self.s + 1) + 1 + 2 * self.M
        with tf.variable_scope("o2p"):
            p = tf.layers.dense(o, n, kernel_initializer=tf.glorot_uniform_initializer(seed=4))
        k, beta, g, s, gamma, er, ad = tf.split(p, [self.M, 1, 1, 2 * self.s + 1, 1, self.M, self.M], 1)
        mem = tf.reshape(mem, [-1, self.N, self.M])
        k = tf.tanh(k)
        beta = tf.nn.softplus(beta)
        g = tf.sigmoid(g)
        s = tf.nn.softmax(s)
        gamma = tf.log(tf.exp(gamma) + 1) + 1
        sim = tf.squeeze(tf.matmul(mem, tf.expand_dims(k, 2)), 2) / (
            tf.norm(mem, axis=2) * tf.norm(k, axis=1, keepdims=True) + 1e-8
        )
        wc = tf.nn.softmax(beta * sim)
        wg = g * wc + (1 - g) * w
        s_ = tf.concat(
            [s[:, : self.s + 1], tf.zeros([tf.shape(s)[0], self.N - (2 * self.s + 1)]), s[:, -self.s :]], axis=1
        )
        t = tf.concat([tf.reverse(s_, axis=[1])] * 2, axis=1)
        M = tf.stack([t[:, self.N - i - 1 : self.N * 2 - i - 1] for i in range(self.N)], axis=1)
        w_ = tf.reduce_sum(tf.expand_dims(wg, 1) * M, axis=2)
        sh = tf.pow(w_, gamma)
        w = sh / tf.reduce_sum(sh, axis=1, keepdims=True)
        mem = mem * (1 - tf.matmul(tf.expand_dims(w, -1), tf.expand_dims(tf.sigmoid(er), 1))) + tf.matmul(
            tf.expand_dims(w, -1), tf.expand_dims(tf.tanh(ad), 1)
        )
        r = tf.reduce_sum(tf.expand_dims(w, 2) * mem, axis=1)
        return tf.sigmoid(
            tf.layers.dense(
                tf.concat([o, r], 1), self.M, name="out", kernel_initializer=tf.glorot_uniform_initializer(seed=5)
            )
        ), (cs, w, tf.reshape(mem, [-1, self.N * self.M]), r)


tf.set_random_seed(1)
x = tf.placeholder(tf.float32, [2, 5, 4])
cell = NTMCell(8, 6, 4)
st = cell.zero_state(2, tf.float32)
outs = []
with tf.variable_scope("root"):
    for t in range(5):
        if t:
            tf.get_variable_scope().reuse_variables()
        o, st = cell(x[:, t], st)
        outs.append(o)
y = tf.stack(outs, 1)
loss = tf.losses.sigmoid_cross_entropy(tf.cast(x > 0, tf.float32), y)
opt = tf.train.RMSPropOptimizer(1e-2, momentum=0.9)
gv = opt.compute_gradients(loss)
tr = opt.apply_gradients([(tf.clip_by_value(g, -10, 10), v) for g, v in gv if g is not None])
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    rng = np.random.RandomState(0)
    for i in range(5):
        print(i, f"{s.run([loss, tr], {x: rng.randn(2, 5, 4)})[0]:.5f}")
    print(s.run(st[1], {x: rng.randn(2, 5, 4)}))
    tf.train.Saver().save(s, "ntm/model", global_step=5)
for v in tf.global_variables():
    print(v.name, v.shape.as_list())
