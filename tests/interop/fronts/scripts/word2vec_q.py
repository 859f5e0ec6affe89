"""Skip-grams through a queue that a thread feeds, with flags."""

import collections
import threading

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
flags = tf.app.flags
flags.DEFINE_integer("emb", 8, "")
flags.DEFINE_list("words", "a,b,c", "")
flags.DEFINE_enum("mode", "train", ["train", "eval"], "")
flags.DEFINE_string("save_path", None, "Directory")
FLAGS = flags.FLAGS
text = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "the",
    "fox",
    "runs",
    "and",
    "the",
    "dog",
    "sleeps",
    "the",
    "quick",
    "fox",
]


class Options:
    def __init__(self):
        self.emb = FLAGS.emb
        self.batch = 4


def main(argv):
    o = Options()
    cnt = collections.Counter(text).most_common()
    d = {w: i for i, (w, _) in enumerate(cnt)}
    data = [d[w] for w in text]
    V = len(d)
    pairs = [(data[i], data[i + j]) for i in range(len(data)) for j in (-1, 1) if 0 <= i + j < len(data)]
    with tf.Graph().as_default(), tf.Session() as s:
        tf.set_random_seed(2)
        exi = tf.placeholder(tf.int32, [])
        lbi = tf.placeholder(tf.int64, [1])
        q = tf.FIFOQueue(100, [tf.int32, tf.int64], [[], [1]], name="pairs")
        enq = q.enqueue([exi, lbi])
        close = q.close()
        ex, lb = q.dequeue_many(o.batch)
        ex.set_shape([o.batch])
        iw = 0.5 / o.emb
        emb = tf.Variable(tf.random_uniform([V, o.emb], -iw, iw, seed=3), name="emb")
        smw = tf.Variable(tf.zeros([V, o.emb]), name="sm_w_t")
        smb = tf.Variable(tf.zeros([V]), name="sm_b")
        gs = tf.Variable(0, name="global_step")
        ids, _tc, _sc = tf.nn.fixed_unigram_candidate_sampler(
            true_classes=lb,
            num_true=1,
            num_sampled=3,
            unique=True,
            range_max=V,
            distortion=0.75,
            unigrams=[c for _, c in cnt],
            seed=5,
        )
        e = tf.nn.embedding_lookup(emb, ex)
        tw = tf.nn.embedding_lookup(smw, tf.reshape(lb, [-1]))
        tb = tf.nn.embedding_lookup(smb, tf.reshape(lb, [-1]))
        ids = tf.constant([0, 1, 2], tf.int64)
        swt = tf.nn.embedding_lookup(smw, ids)
        sb = tf.nn.embedding_lookup(smb, ids)
        tl = tf.reduce_sum(tf.multiply(e, tw), 1) + tb
        sl = tf.matmul(e, swt, transpose_b=True) + sb
        loss = (
            tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.ones_like(tl), logits=tl))
            + tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.zeros_like(sl), logits=sl))
        ) / o.batch
        lr = 0.2 * tf.maximum(0.0001, 1.0 - tf.cast(gs, tf.float32) / 50.0)
        opt = tf.train.GradientDescentOptimizer(lr)
        tr = opt.minimize(loss, global_step=gs, gate_gradients=opt.GATE_NONE)
        nce = tf.reduce_mean(
            tf.nn.nce_loss(
                smw,
                smb,
                tf.expand_dims(tf.constant([1, 2], tf.int64), 1),
                tf.nn.embedding_lookup(emb, [1, 2]),
                num_sampled=3,
                num_classes=V,
                sampled_values=(ids, tf.ones([2, 1]) * 0.3, tf.ones([3]) * 0.2),
            )
        )
        nemb = tf.nn.l2_normalize(emb, 1)
        sim = tf.matmul(tf.gather(nemb, [0, 1]), nemb, transpose_b=True)
        _, top = tf.nn.top_k(sim, 3)
        s.run(tf.global_variables_initializer())

        def feed():
            for a, b in pairs:
                s.run(enq, {exi: a, lbi: [b]})
            s.run(close)

        t = threading.Thread(target=feed)
        t.daemon = True
        t.start()
        n = 0
        try:
            while True:
                l, _g, _ = s.run([loss, gs, tr])
                n += 1
                print("Step %d loss %.5f" % (n, l)) if n % 3 == 0 else None
        except tf.errors.OutOfRangeError as err:
            print("closed", type(err).__name__)
        print(s.run(gs), f"{s.run(nce):.5f}", s.run(top).shape, FLAGS.words, FLAGS.mode, FLAGS.save_path, argv[1:])
        tf.train.Saver().save(s, "w2v.ckpt", global_step=n)


if __name__ == "__main__":
    tf.app.run()
# args: --words=x,y --mode=eval extra
