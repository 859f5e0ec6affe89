"""Actors that share a global network and push gradients to it in turns."""

import threading

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
GLOBAL = "Global_Net"
sess = tf.Session()


class ACNet:
    def __init__(self, scope, g=None):
        if scope == GLOBAL:
            with tf.variable_scope(scope):
                self.s = tf.placeholder(tf.float32, [None, 3], "S")
                self.ap, self.cp = self._net(scope)[-2:]
        else:
            with tf.variable_scope(scope):
                self.s = tf.placeholder(tf.float32, [None, 3], "S")
                self.a = tf.placeholder(
                    tf.int32,
                    [
                        None,
                    ],
                    "A",
                )
                self.vt = tf.placeholder(tf.float32, [None, 1], "Vtarget")
                self.prob, self.v, self.ap, self.cp = self._net(scope)
                td = tf.subtract(self.vt, self.v, name="TD_error")
                with tf.name_scope("c_loss"):
                    self.cl = tf.reduce_mean(tf.square(td))
                with tf.name_scope("a_loss"):
                    lp = tf.reduce_sum(
                        tf.log(self.prob + 1e-5) * tf.one_hot(self.a, 2, dtype=tf.float32), axis=1, keep_dims=True
                    )
                    ent = -tf.reduce_sum(self.prob * tf.log(self.prob + 1e-5), axis=1, keep_dims=True)
                    self.al = tf.reduce_mean(-(lp * tf.stop_gradient(td) + 0.001 * ent))
                with tf.name_scope("local_grad"):
                    ag = tf.gradients(self.al, self.ap)
                    cg = tf.gradients(self.cl, self.cp)
            with tf.name_scope("sync"):
                with tf.name_scope("pull"):
                    self.pull = [l.assign(x) for l, x in zip(self.ap + self.cp, g.ap + g.cp)]
                with tf.name_scope("push"):
                    self.push = [OPT_A.apply_gradients(zip(ag, g.ap)), OPT_C.apply_gradients(zip(cg, g.cp))]

    def _net(self, scope):
        w = tf.random_normal_initializer(0.0, 0.1, seed=1)
        with tf.variable_scope("actor"):
            la = tf.layers.dense(self.s, 12, tf.nn.relu6, kernel_initializer=w, name="la")
            p = tf.layers.dense(la, 2, tf.nn.softmax, kernel_initializer=w, name="ap")
        with tf.variable_scope("critic"):
            lc = tf.layers.dense(self.s, 10, tf.nn.relu6, kernel_initializer=w, name="lc")
            v = tf.layers.dense(lc, 1, kernel_initializer=w, name="v")
        return (
            p,
            v,
            tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=scope + "/actor"),
            tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=scope + "/critic"),
        )


with tf.device("/cpu:0"):
    OPT_A = tf.train.RMSPropOptimizer(0.001, name="RMSPropA")
    OPT_C = tf.train.RMSPropOptimizer(0.001, name="RMSPropC")
    G = ACNet(GLOBAL)
    W = [ACNet("W_%i" % i, G) for i in range(3)]
coord = tf.train.Coordinator()
sess.run(tf.global_variables_initializer())
lock = threading.Lock()
turn = [0]
cv = threading.Condition()


def work(k):
    r = np.random.RandomState(k)
    for _it in range(3):
        with cv:
            cv.wait_for(lambda: turn[0] % 3 == k)
            f = {W[k].s: r.randn(5, 3), W[k].a: r.randint(0, 2, 5), W[k].vt: r.randn(5, 1)}
            sess.run(W[k].pull)
            sess.run(W[k].push, f)
            turn[0] += 1
            cv.notify_all()


th = [threading.Thread(target=work, args=(k,)) for k in range(3)]
[t.start() for t in th]
coord.join(th)
print(sess.run(G.ap[0]).ravel()[:6], sess.run(G.cp[-1]))
print([v.name for v in tf.global_variables() if "RMS" in v.name])
tf.train.Saver(G.ap + G.cp).save(sess, "a3c/m")
