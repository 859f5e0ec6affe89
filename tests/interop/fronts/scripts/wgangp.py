"""A critic with a gradient penalty."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.set_random_seed(2)
rng = np.random.RandomState(3)
B = 8


def G(z, reuse=None):
    with tf.variable_scope("Generator", reuse=reuse):
        h = tf.layers.dense(z, 16, tf.nn.relu, kernel_initializer=tf.keras.initializers.he_normal(seed=1))
        return tf.layers.dense(h, 2, kernel_initializer=tf.glorot_normal_initializer(seed=2))


def D(x):
    with tf.variable_scope("Discriminator", reuse=tf.AUTO_REUSE):
        h = tf.layers.dense(
            x, 16, tf.nn.leaky_relu, name="fc1", kernel_initializer=tf.glorot_normal_initializer(seed=3)
        )
        h = tf.layers.dense(h, 16, tf.nn.elu, name="fc2", kernel_initializer=tf.glorot_normal_initializer(seed=4))
        return tf.layers.dense(h, 1, name="fc3", kernel_initializer=tf.glorot_normal_initializer(seed=5))


real = tf.placeholder(tf.float32, [B, 2])
z = tf.placeholder(tf.float32, [B, 4])
eps = tf.placeholder(tf.float32, [B, 1])
fake = G(z)
dr, df = D(real), D(fake)
gc = -tf.reduce_mean(df)
dc = tf.reduce_mean(df) - tf.reduce_mean(dr)
inter = real + eps * (fake - real)
grads = tf.gradients(D(inter), [inter])[0]
slopes = tf.sqrt(tf.reduce_sum(tf.square(grads), reduction_indices=[1]))
gp = tf.reduce_mean((slopes - 1.0) ** 2)
dc += 10 * gp
gt = tf.train.AdamOptimizer(1e-2, beta1=0.0, beta2=0.9).minimize(
    gc, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="Generator")
)
dt = tf.train.AdamOptimizer(1e-2, beta1=0.0, beta2=0.9).minimize(
    dc, var_list=tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, "Discriminator")
)
hess = tf.hessians(tf.reduce_sum(D(inter)[0]), inter)[0]
with tf.Session(config=tf.ConfigProto(allow_soft_placement=True, gpu_options=tf.GPUOptions(allow_growth=True))) as s:
    s.run(tf.initialize_all_variables())
    for it in range(6):
        if it > 0:
            s.run(gt, {z: rng.randn(B, 4)})
        for _ in range(3):
            l, p, _ = s.run([dc, gp, dt], {real: rng.randn(B, 2) * 0.3, z: rng.randn(B, 4), eps: rng.rand(B, 1)})
        print("iter", it, f"critic {l:.5f} gp {p:.5f}")
    print(
        s.run(slopes, {real: np.ones((B, 2)), z: np.ones((B, 4)), eps: np.ones((B, 1)) * 0.5})[:3],
        s.run(hess, {real: np.ones((B, 2)), z: np.ones((B, 4)), eps: np.ones((B, 1)) * 0.5}).shape,
    )
    tf.train.Saver(tf.trainable_variables()).save(s, "./wgan.ckpt", write_meta_graph=False)
print([v.name for v in tf.global_variables()])
