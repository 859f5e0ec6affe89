"""Attention and a beam search written by hand, in a loop whose tensors grow."""

# seq2seq with attention by hand and beam search in while_loop
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
V, E, H, B, T, K = 9, 6, 8, 2, 5, 3
tf.set_random_seed(1)
src = tf.placeholder(tf.int32, [B, T], "src")
tgt = tf.placeholder(tf.int32, [B, T], "tgt")
sl = tf.placeholder(tf.int32, [B], "len")
with tf.variable_scope("seq2seq", initializer=tf.random_uniform_initializer(-0.3, 0.3, seed=7)):
    with tf.device("/cpu:0"):
        emb = tf.get_variable("embedding", [V, E])
    with tf.variable_scope("encoder"):
        (of, ob), (sf, sb) = tf.nn.bidirectional_dynamic_rnn(
            tf.nn.rnn_cell.GRUCell(H), tf.nn.rnn_cell.GRUCell(H), tf.nn.embedding_lookup(emb, src), sl, dtype=tf.float32
        )
        mem = tf.concat([of, ob], -1)
        st0 = tf.layers.dense(tf.concat([sf, sb], -1), H, tf.tanh, name="bridge")
    cell = tf.nn.rnn_cell.GRUCell(H, name="dec_cell")
    att = tf.layers.Dense(H, use_bias=False, name="att")
    proj = tf.layers.Dense(V, name="proj")

    def step(tok, st, mem, sl):
        q = att(mem)
        sc = tf.reduce_sum(q * tf.expand_dims(st, 1), -1)
        sc = tf.where(tf.sequence_mask(sl, T), sc, tf.fill(tf.shape(sc), -1e9))
        al = tf.nn.softmax(sc)
        ctx = tf.squeeze(tf.matmul(tf.expand_dims(al, 1), mem), 1)
        o, st = cell(tf.concat([tf.nn.embedding_lookup(emb, tok), ctx], -1), st)
        return proj(tf.concat([o, ctx], -1)), st, al

    st = st0
    logits = []
    for t in range(T):
        l, st, _ = step(tgt[:, t - 1] if t else tf.ones([B], tf.int32), st, mem, sl)
        logits.append(l)
    logits = tf.stack(logits, 1)
    w = tf.cast(tf.not_equal(tgt, 0), tf.float32)
    loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tgt, logits=logits) * w) / tf.reduce_sum(
        w
    )
    params = tf.trainable_variables()
    gr = tf.gradients(loss, params)
    gr, gn = tf.clip_by_global_norm(gr, 5.0)
    train = tf.train.AdamOptimizer(0.02).apply_gradients(zip(gr, params))
    bm = tf.reshape(tf.tile(tf.expand_dims(mem, 1), [1, K, 1, 1]), [B * K, T, 2 * H])
    bl = tf.reshape(tf.tile(tf.expand_dims(sl, 1), [1, K]), [-1])
    bs = tf.reshape(tf.tile(tf.expand_dims(st0, 1), [1, K, 1]), [B * K, H])

    def cond(i, toks, lp, st, fin):
        return tf.logical_and(i < T, tf.logical_not(tf.reduce_all(fin)))

    def body(i, toks, lp, st, fin):
        l, st, _ = step(tf.reshape(toks[:, :, -1], [-1]), st, bm, bl)
        lps = tf.nn.log_softmax(l)
        lps = tf.reshape(lps, [B, K, V])
        eos = tf.one_hot(2, V, on_value=0.0, off_value=-1e9)
        lps = tf.where(tf.tile(tf.expand_dims(fin, -1), [1, 1, V]), tf.tile(tf.reshape(eos, [1, 1, V]), [B, K, 1]), lps)
        tot = tf.reshape(tf.expand_dims(lp, -1) + lps, [B, K * V])
        lp, ix = tf.nn.top_k(tot, K)
        par = ix // V
        tok = ix % V
        bi = tf.range(B)[:, None] * K + par
        st = tf.gather(st, tf.reshape(bi, [-1]))
        co = tf.stack([tf.tile(tf.range(B)[:, None], [1, K]), par], -1)
        toks = tf.concat([tf.gather_nd(toks, co), tf.expand_dims(tok, -1)], -1)
        fin = tf.logical_or(tf.gather_nd(fin, co), tf.equal(tok, 2))
        return i + 1, toks, lp, st, fin

    i0 = [
        tf.constant(0),
        tf.ones([B, K, 1], tf.int32),
        tf.concat([tf.zeros([B, 1]), tf.fill([B, K - 1], -1e9)], 1),
        bs,
        tf.zeros([B, K], tf.bool),
    ]
    _, seqs, scores, _, _ = tf.while_loop(
        cond,
        body,
        i0,
        shape_invariants=[
            tf.TensorShape([]),
            tf.TensorShape([B, K, None]),
            tf.TensorShape([B, K]),
            tf.TensorShape([B * K, H]),
            tf.TensorShape([B, K]),
        ],
        parallel_iterations=1,
        back_prop=False,
    )
with tf.Session() as s:
    s.run(tf.global_variables_initializer())
    r = np.random.RandomState(0)
    f = {src: r.randint(3, V, (B, T)), tgt: np.array([[4, 5, 2, 0, 0], [3, 6, 7, 2, 0]]), sl: [5, 3]}
    for i in range(8):
        l, n, _ = s.run([loss, gn, train], f)
        print("%d %.4f %.4f" % (i, l, n))
    q, c = s.run([seqs, scores], f)
    print(q)
    print(np.round(c, 3))
    tf.train.Saver(max_to_keep=2).save(s, "ck/nmt", global_step=8)
print([v.name for v in params])
