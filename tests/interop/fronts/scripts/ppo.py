"""Proximal policy optimization with distributions."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()


class Env:
    def __init__(s):
        s.r = np.random.RandomState(0)

    def reset(s):
        s.x = s.r.randn(3)
        s.t = 0
        return s.x.copy()

    def step(s, a):
        s.x = 0.9 * s.x + 0.1 * np.r_[a[:1], s.x[:2]]
        s.t += 1
        return s.x.copy(), -float((s.x**2).sum()), s.t >= 8, {}


class PPO:
    def __init__(self):
        self.sess = tf.Session()
        self.tfs = tf.placeholder(tf.float32, [None, 3], "state")
        with tf.variable_scope("critic"):
            l1 = tf.layers.dense(self.tfs, 20, tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(seed=1))
            self.v = tf.layers.dense(l1, 1, kernel_initializer=tf.glorot_uniform_initializer(seed=2))
            self.dr = tf.placeholder(tf.float32, [None, 1], "discounted_r")
            self.adv = self.dr - self.v
            self.closs = tf.reduce_mean(tf.square(self.adv))
            self.ctrain = tf.train.AdamOptimizer(2e-3).minimize(self.closs)
        pi, pp = self._net("pi", True)
        old, op = self._net("oldpi", False)
        with tf.variable_scope("sample_action"):
            self.act = tf.squeeze(pi.sample(1, seed=3), axis=0)
        with tf.variable_scope("update_oldpi"):
            self.upd = [o.assign(p) for p, o in zip(pp, op)]
        self.tfa = tf.placeholder(tf.float32, [None, 1], "action")
        self.tfadv = tf.placeholder(tf.float32, [None, 1], "advantage")
        with tf.variable_scope("loss"):
            with tf.variable_scope("surrogate"):
                ratio = tf.exp(pi.log_prob(self.tfa) - old.log_prob(self.tfa))
                surr = ratio * self.tfadv
            self.aloss = -tf.reduce_mean(tf.minimum(surr, tf.clip_by_value(ratio, 0.8, 1.2) * self.tfadv))
            self.kl = tf.reduce_mean(tf.distributions.kl_divergence(old, pi))
            self.ent = tf.reduce_mean(pi.entropy())
        with tf.variable_scope("atrain"):
            self.atrain = tf.train.AdamOptimizer(1e-3).minimize(self.aloss - 0.01 * self.ent)
        tf.summary.FileWriter("log/", self.sess.graph)
        self.sess.run(tf.global_variables_initializer())

    def _net(self, name, trainable):
        with tf.variable_scope(name):
            l = tf.layers.dense(
                self.tfs, 20, tf.nn.relu, trainable=trainable, kernel_initializer=tf.glorot_uniform_initializer(seed=4)
            )
            mu = 2 * tf.layers.dense(
                l,
                1,
                tf.nn.tanh,
                trainable=trainable,
                name="mu",
                kernel_initializer=tf.glorot_uniform_initializer(seed=5),
            )
            sg = tf.layers.dense(
                l,
                1,
                tf.nn.softplus,
                trainable=trainable,
                name="sg",
                kernel_initializer=tf.glorot_uniform_initializer(seed=6),
            )
            nd = tf.distributions.Normal(loc=mu, scale=sg + 0.1)
        return nd, tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope=name)

    def update(self, s, a, r):
        self.sess.run(self.upd)
        adv = self.sess.run(self.adv, {self.tfs: s, self.dr: r})
        for _ in range(4):
            l, k, _ = self.sess.run([self.aloss, self.kl, self.atrain], {self.tfs: s, self.tfa: a, self.tfadv: adv})
        for _ in range(4):
            c, _ = self.sess.run([self.closs, self.ctrain], {self.tfs: s, self.dr: r})
        return l, k, c

    def choose(self, s):
        return np.clip(self.sess.run(self.act, {self.tfs: s[None]})[0], -2, 2)


env, ppo = Env(), PPO()
rr = np.random.RandomState(1)
for ep in range(3):
    s = env.reset()
    S, A, R = [], [], []
    done = False
    while not done:
        a = rr.randn(1)
        s2, r, done, _ = env.step(a)
        S.append(s)
        A.append(a)
        R.append(r)
        s = s2
    d = []
    v = 0
    for r in R[::-1]:
        v = r + 0.9 * v
        d.append(v)
    print(
        "Ep: %i" % ep,
        "|aloss {:.5f} kl {:.6f} closs {:.4f}".format(
            *ppo.update(np.vstack(S), np.vstack(A), np.array(d[::-1])[:, None])
        ),
    )
print(ppo.choose(env.reset()).shape, [v.name for v in tf.trainable_variables()])
print(ppo.sess.run(ppo.ent, {ppo.tfs: np.ones((2, 3))}))
tf.train.Saver().save(ppo.sess, "ppo/params", write_meta_graph=False)
