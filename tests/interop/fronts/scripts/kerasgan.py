"""Layers of Keras in graph mode: a backend session, functions, a trainable switch, callbacks, weights in checkpoints."""

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
K = tf.keras.backend
layers, Input, Model, Sequential = tf.keras.layers, tf.keras.Input, tf.keras.models.Model, tf.keras.models.Sequential
Activation, BatchNormalization, Conv2D, Dense = (
    layers.Activation,
    layers.BatchNormalization,
    layers.Conv2D,
    layers.Dense,
)
Concatenate, Dropout, Embedding, Flatten = layers.Concatenate, layers.Dropout, layers.Embedding, layers.Flatten
Lambda, LeakyReLU, Reshape, UpSampling2D = layers.Lambda, layers.LeakyReLU, layers.Reshape, layers.UpSampling2D
Adam, multiply = tf.keras.optimizers.Adam, layers.multiply

sess = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
K.set_session(sess)
rng = np.random.RandomState(0)
init = tf.keras.initializers.glorot_uniform


class Scale(tf.keras.layers.Layer):
    def __init__(self, start=1.0, **kwargs):
        super().__init__(**kwargs)
        self.start = start

    def build(self, input_shape):
        constant = tf.keras.initializers.Constant(self.start)
        self.gamma = self.add_weight(name="gamma", shape=(int(input_shape[-1]),), initializer=constant, trainable=True)
        super().build(input_shape)

    def call(self, x):
        return x * self.gamma

    def compute_output_shape(self, input_shape):
        return input_shape


def build_generator():
    model = Sequential(name="g_body")
    model.add(Dense(4 * 2 * 2, activation="relu", input_dim=5, kernel_initializer=init(seed=1)))
    model.add(Reshape((2, 2, 4)))
    model.add(BatchNormalization(momentum=0.8))
    model.add(UpSampling2D())
    model.add(Conv2D(3, kernel_size=3, padding="same", kernel_initializer=init(seed=2)))
    model.add(Activation("relu"))
    model.add(Scale(0.5, name="scale"))
    model.add(Conv2D(1, kernel_size=3, padding="same", kernel_initializer=init(seed=3)))
    model.add(Activation("tanh"))
    noise, label = Input(shape=(5,), name="noise"), Input(shape=(1,), dtype="int32", name="label")
    emb = Flatten()(Embedding(3, 5, embeddings_initializer=tf.keras.initializers.RandomUniform(seed=4))(label))
    return Model([noise, label], model(multiply([noise, emb])), name="generator")


def build_discriminator():
    img = Input(shape=(4, 4, 1), name="img")
    x = Conv2D(4, 3, strides=2, padding="same", kernel_initializer=init(seed=5), name="c1")(img)
    x = LeakyReLU(alpha=0.2)(x)
    x = Dropout(0.0)(x)
    x = Flatten()(x)
    stats = Lambda(lambda t: K.concatenate([K.mean(t, axis=[1, 2]), K.std(t, axis=[1, 2])]), name="stats")(img)
    x = Concatenate()([x, stats])
    validity = Dense(1, activation="sigmoid", kernel_initializer=init(seed=6), name="validity")(x)
    aux = Dense(3, activation="softmax", kernel_initializer=init(seed=7), name="aux")(x)
    return Model(img, [validity, aux], name="discriminator")


d = build_discriminator()
losses = ["binary_crossentropy", "sparse_categorical_crossentropy"]
d.compile(loss=losses, optimizer=Adam(0.01, 0.5), metrics=["accuracy"], loss_weights=[1.0, 0.5])
g = build_generator()
noise, label = Input(shape=(5,)), Input(shape=(1,))
img = g([noise, label])
d.trainable = False
valid, target = d(img)
combined = Model([noise, label], [valid, target])
combined.compile(loss=losses, optimizer=Adam(0.01, 0.5))
print(d.metrics_names, len(combined.trainable_weights), combined.count_params())
X, Y = rng.rand(12, 4, 4, 1).astype("float32"), rng.randint(0, 3, (12, 1))
for step in range(4):
    z, lab = rng.randn(6, 5), rng.randint(0, 3, (6, 1))
    fake = g.predict([z, lab])
    real = d.train_on_batch(X[:6], [np.ones((6, 1)), Y[:6]])
    made = d.train_on_batch(fake, [np.zeros((6, 1)), lab])
    gl = combined.train_on_batch([z, lab], [np.ones((6, 1)), lab])
    print("%d [D loss: %.4f, acc.: %.2f] [G loss: %.4f]" % (step, 0.5 * (real[0] + made[0]), 100 * real[3], gl[0]))
features = K.function([d.input], [d.get_layer("c1").output, K.mean(d.get_layer("stats").output)])
maps, mean = features([X[:2]])
print(maps.shape, "%.4f" % mean, K.int_shape(d.get_layer("stats").output), K.image_data_format())
grads = K.gradients(K.mean(d.output[0]), d.input)[0]
grads /= K.sqrt(K.mean(K.square(grads))) + 1e-5
print("%.4f" % K.function([d.input, K.learning_phase()], [K.sum(K.abs(grads))])([X[:2], 0])[0])
print([w.name for w in g.weights], [u.name for u in g.updates])


class History(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        K.set_value(self.model.optimizer.lr, K.get_value(self.model.optimizer.lr) * 0.5)
        print("epoch", epoch, sorted(logs), "%.5f" % K.get_value(self.model.optimizer.lr))


clf = Sequential(
    [
        Flatten(input_shape=(4, 4, 1)),
        Dense(8, activation="elu", kernel_initializer=init(seed=8)),
        Dense(3, activation="softmax", kernel_initializer=init(seed=9), kernel_regularizer="l2"),
    ]
)


def focal(y_true, y_pred):
    return -K.sum(y_true * K.pow(1 - y_pred, 2) * K.log(y_pred + K.epsilon()), axis=-1)


clf.compile("rmsprop", loss=focal, metrics=["accuracy", tf.keras.metrics.categorical_accuracy])
early = tf.keras.callbacks.EarlyStopping(monitor="val_loss", patience=5)
plateau = tf.keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.2, patience=3)
hist = clf.fit(
    X,
    np.eye(3)[Y[:, 0]],
    batch_size=4,
    epochs=3,
    verbose=0,
    shuffle=False,
    validation_data=(X[:4], np.eye(3)[Y[:4, 0]]),
    callbacks=[History(), early, plateau],
)
print({k: np.round(v, 4).tolist() for k, v in sorted(hist.history.items()) if "loss" in k})
print(np.round(clf.evaluate(X, np.eye(3)[Y[:, 0]], verbose=0), 4))
clf.save_weights("clf/weights")
lines = []
clf.summary(print_fn=lines.append)
print(any("Total params: 163" in line for line in lines))
with sess.as_default():
    before = clf.predict(X[:2])
    clf.set_weights([w * 0 for w in clf.get_weights()])
    clf.load_weights("clf/weights")
    print(np.allclose(before, clf.predict(X[:2])), len(sess.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)))
