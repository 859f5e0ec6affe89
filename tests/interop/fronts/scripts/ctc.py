"""Speech-like sequences, sparse labels, beams and edit distances."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("num_hidden", 12, "hidden")
flags.DEFINE_integer("num_layers", 2, "")
flags.DEFINE_float("momentum", 0.9, "m")
flags.DEFINE_boolean("verbose", True, "")
num_features, num_classes = 5, 6


def sparse_tuple_from(seqs, dtype=np.int32):
    idx = []
    val = []
    for n, s in enumerate(seqs):
        idx.extend(zip([n] * len(s), range(len(s))))
        val.extend(s)
    return (
        np.asarray(idx, np.int64),
        np.asarray(val, dtype),
        np.asarray([len(seqs), np.asarray(idx, np.int64).max(0)[1] + 1], np.int64),
    )


def main(_):
    graph = tf.Graph()
    with graph.as_default():
        tf.set_random_seed(5)
        inputs = tf.placeholder(tf.float32, [None, None, num_features])
        targets = tf.sparse_placeholder(tf.int32)
        seq_len = tf.placeholder(tf.int32, [None])
        cells = [
            tf.nn.rnn_cell.LSTMCell(
                FLAGS.num_hidden, state_is_tuple=True, initializer=tf.orthogonal_initializer(seed=i)
            )
            for i in range(FLAGS.num_layers)
        ]
        stack = tf.nn.rnn_cell.MultiRNNCell(cells, state_is_tuple=True)
        outputs, _ = tf.nn.dynamic_rnn(stack, inputs, seq_len, dtype=tf.float32)
        shape = tf.shape(inputs)
        bs = shape[0]
        W = tf.Variable(
            tf.constant(np.random.RandomState(0).randn(FLAGS.num_hidden, num_classes).astype("f") * 0.1), name="W"
        )
        b = tf.Variable(tf.constant(0.0, shape=[num_classes]), name="b")
        logits = tf.matmul(tf.reshape(outputs, [-1, FLAGS.num_hidden]), W) + b
        logits = tf.reshape(logits, [bs, -1, num_classes])
        logits = tf.transpose(logits, (1, 0, 2))
        loss = tf.nn.ctc_loss(targets, logits, seq_len)
        cost = tf.reduce_mean(loss)
        opt = tf.train.MomentumOptimizer(1e-2, FLAGS.momentum).minimize(cost)
        decoded, logp = tf.nn.ctc_beam_search_decoder(logits, seq_len, beam_width=10)
        greedy, neg = tf.nn.ctc_greedy_decoder(logits, seq_len)
        ler = tf.reduce_mean(tf.edit_distance(tf.cast(decoded[0], tf.int32), targets))
        dense = tf.sparse_tensor_to_dense(greedy[0], default_value=-1)
        print(dense, ler, decoded[0].values, logp)
    with tf.Session(graph=graph) as s:
        tf.global_variables_initializer().run()
        rng = np.random.RandomState(1)
        x = rng.randn(3, 9, num_features)
        L = [9, 7, 8]
        T = [[1, 2, 0], [3], [4, 4]]
        feed = {inputs: x, targets: sparse_tuple_from(T), seq_len: L}
        for e in range(12):
            c, _ = s.run([cost, opt], feed)
            if e % 4 == 0:
                print(f"Epoch {e + 1}/{12}, train_cost = {c:.3f}, train_ler = {s.run(ler, feed):.3f}")
        d = s.run([dense, neg, logp], feed)
        print(d)


if __name__ == "__main__":
    tf.app.run()
# args: --num_hidden=10 --noverbose
