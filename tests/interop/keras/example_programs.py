"""Whole programs in the manner of Keras's examples of 2019: what each trains, samples and predicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.keras.more_programs import _data


def _given(*models: Any) -> None:
    """Give models weights that nothing draws."""
    for model in models:
        random = np.random.RandomState(4)
        values = [0.8 * random.rand(*value.shape) - 0.4 for value in model.get_weights()]
        names = [w.name for layer in model.layers for w in layer.weights]
        model.set_weights([abs(v) if "variance" in name else v for v, name in zip(values, names)])


def _history(history: Any) -> dict[str, list[float]]:
    return {name: [float(v) for v in values] for name, values in history.history.items()}


def _state(model: Any) -> dict[str, Any]:
    return {
        "weights": [w.name for w in model.weights],
        "trainable": [w.name for w in model.trainable_weights],
        "values": [np.asarray(v).ravel()[:6].tolist() for v in model.get_weights()],
        "layers": [layer.name for layer in model.layers],
        "shapes": [str(layer.output_shape) for layer in model.layers],
    }


def digits(tf: Any, folder: str) -> Any:
    """Classify images with convolutions; the channels' place is asked of the backend."""
    keras = tf.keras
    x, y = _data(20, 28 * 28), np.arange(20) % 10
    if keras.backend.image_data_format() == "channels_first":
        x, shape = x.reshape(20, 1, 28, 28), (1, 28, 28)
    else:
        x, shape = x.reshape(20, 28, 28, 1), (28, 28, 1)
    targets = keras.utils.to_categorical(y, 10)
    model = keras.models.Sequential()
    model.add(keras.layers.Conv2D(4, kernel_size=(3, 3), activation="relu", input_shape=shape))
    model.add(keras.layers.Conv2D(6, (3, 3), activation="relu"))
    model.add(keras.layers.MaxPooling2D(pool_size=(2, 2)))
    model.add(keras.layers.Dropout(0.25, seed=1))
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(8, activation="relu"))
    model.add(keras.layers.Dropout(0.5, seed=2))
    model.add(keras.layers.Dense(10, activation="softmax"))
    model.compile(
        loss=keras.losses.categorical_crossentropy, optimizer=keras.optimizers.Adadelta(0.5), metrics=["accuracy"]
    )
    _given(model)
    history = model.fit(
        x, targets, batch_size=8, epochs=2, verbose=0, validation_data=(x[:5], targets[:5]), shuffle=False
    )
    score = model.evaluate(x, targets, verbose=0)
    return {**_state(model), "history": _history(history), "score": [float(v) for v in score]}


def reviews(tf: Any, folder: str) -> Any:
    """Classify sequences of words that are padded: embedding, mask, memory."""
    keras = tf.keras
    random = np.random.RandomState(9)
    texts = [random.randint(1, 30, random.randint(2, 12)).tolist() for _ in range(16)]
    x = keras.preprocessing.sequence.pad_sequences(texts, maxlen=9)
    y = np.array([sum(t) % 2 for t in texts])
    model = keras.Sequential()
    model.add(keras.layers.Embedding(30, 6, mask_zero=True, input_length=9))
    model.add(keras.layers.SpatialDropout1D(0.2, seed=6))
    model.add(keras.layers.LSTM(5, return_sequences=True, kernel_regularizer=keras.regularizers.l2(1e-3)))
    model.add(keras.layers.Bidirectional(keras.layers.GRU(4)))
    model.add(keras.layers.Dense(1, activation="sigmoid"))
    model.compile("adam", "binary_crossentropy", ["accuracy"])
    _given(model)
    history = model.fit(
        *(x, y), batch_size=5, epochs=3, verbose=0, shuffle=False, class_weight={0: 1.0, 1: 2.5}, validation_split=0.25
    )
    found = model.predict(x[:4], batch_size=3)
    return {**_state(model), "history": _history(history), "padded": x.tolist(), "predicted": found.tolist()}


def siamese(tf: Any, folder: str) -> Any:
    """Tell pairs apart by the distance between what one network makes of each."""
    keras, backend = tf.keras, tf.keras.backend

    def distance(vectors: Any) -> Any:
        first, second = vectors
        total = backend.sum(backend.square(first - second), axis=1, keepdims=True)
        return backend.sqrt(backend.maximum(total, backend.epsilon()))

    def distance_shape(shapes: Any) -> Any:
        return shapes[0][0], 1

    def contrastive(y_true: Any, y_pred: Any) -> Any:
        far = backend.square(backend.maximum(1 - y_pred, 0))
        return backend.mean(y_true * backend.square(y_pred) + (1 - y_true) * far)

    def right(y_true: Any, y_pred: Any) -> Any:
        return backend.mean(backend.equal(y_true, backend.cast(y_pred < 0.5, y_true.dtype)))

    one = keras.layers.Input(shape=(5, 4))
    x = keras.layers.Flatten()(one)
    x = keras.layers.Dense(8, activation="relu")(x)
    x = keras.layers.Dropout(0.1, seed=3)(x)
    base = keras.models.Model(one, keras.layers.Dense(4, activation="relu")(x))
    left, other = keras.layers.Input(shape=(5, 4)), keras.layers.Input(shape=(5, 4))
    apart = keras.layers.Lambda(distance, output_shape=distance_shape)([base(left), base(other)])
    model = keras.models.Model([left, other], apart)
    model.compile(loss=contrastive, optimizer=keras.optimizers.RMSprop(), metrics=[right])
    _given(model)
    pairs = [_data(12, 5, 4, seed=1), _data(12, 5, 4, seed=2)]
    y = (np.arange(12) % 2).astype("float32")
    history = model.fit(pairs, y, batch_size=4, epochs=3, verbose=0, shuffle=False, validation_data=(pairs, y))
    out = {
        "history": _history(history),
        "predicted": model.predict(pairs).tolist(),
        "base": base.predict(pairs[0][:2]).tolist(),
    }
    counts = [layer.count_params() for layer in model.layers]
    return {**_state(model), **out, "counts": counts, "metrics": model.metrics_names}


def variational(tf: Any, folder: str) -> Any:
    """An autoencoder that samples what it decodes, with a loss of its own."""
    keras, backend = tf.keras, tf.keras.backend

    def sample(args: Any) -> Any:
        mean, log_var = args
        batch, size = backend.shape(mean)[0], backend.int_shape(mean)[1]
        noise = backend.random_normal(shape=(batch, size), seed=3)
        return mean + backend.exp(0.5 * log_var) * noise

    inputs = keras.layers.Input(shape=(12,), name="encoder_input")
    hidden = keras.layers.Dense(8, activation="relu")(inputs)
    mean, log_var = keras.layers.Dense(2, name="z_mean")(hidden), keras.layers.Dense(2, name="z_log_var")(hidden)
    z = keras.layers.Lambda(sample, output_shape=(2,), name="z")([mean, log_var])
    encoder = keras.models.Model(inputs, [mean, log_var, z], name="encoder")
    latent = keras.layers.Input(shape=(2,), name="z_sampling")
    x = keras.layers.Dense(8, activation="relu")(latent)
    decoder = keras.models.Model(latent, keras.layers.Dense(12, activation="sigmoid")(x), name="decoder")
    outputs = decoder(encoder(inputs)[2])
    vae = keras.models.Model(inputs, outputs, name="vae_mlp")
    rebuilt = keras.losses.binary_crossentropy(inputs, outputs) * 12
    kl = -0.5 * backend.sum(1 + log_var - backend.square(mean) - backend.exp(log_var), axis=-1)
    vae.add_loss(backend.mean(rebuilt + kl))
    vae.compile(optimizer="adam")
    _given(vae)
    x = _data(16, 12)
    history = vae.fit(x, epochs=3, batch_size=4, verbose=0, shuffle=False, validation_data=(x[:4], None))
    found = [each.tolist() for each in encoder.predict(x[:2])[:2]]
    names = [layer.name for layer in vae.layers][:3]
    return {
        "names": names,
        "history": _history(history),
        "encoded": found,
        "decoded": decoder.predict(_data(2, 2)).tolist(),
    }


def writer(tf: Any, folder: str) -> Any:
    """Learn a text letter by letter; a callback writes on after each epoch."""
    keras = tf.keras
    text = "the quick brown fox jumps over the lazy dog and the cat. " * 2
    letters = sorted(set(text))
    numbers = {letter: i for i, letter in enumerate(letters)}
    length = 10
    sentences = [text[i : i + length] for i in range(0, len(text) - length, 3)]
    following = [text[i + length] for i in range(0, len(text) - length, 3)]
    x, y = np.zeros((len(sentences), length, len(letters)), bool), np.zeros((len(sentences), len(letters)), bool)
    for i, sentence in enumerate(sentences):
        for t, letter in enumerate(sentence):
            x[i, t, numbers[letter]] = 1
        y[i, numbers[following[i]]] = 1
    model = keras.models.Sequential()
    model.add(keras.layers.LSTM(12, input_shape=(length, len(letters))))
    model.add(keras.layers.Dense(len(letters), activation="softmax"))
    model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.RMSprop(lr=0.01))
    _given(model)
    written = []

    def sample(predictions: Any, temperature: float) -> int:
        shares = np.exp(np.log(np.asarray(predictions).astype("float64")) / temperature)
        return int(np.argmax(np.random.multinomial(1, shares / shares.sum(), 1)))

    def write_on(epoch: int, logs: Any) -> None:
        sentence, made = text[:length], ""
        for _ in range(8):
            row = np.zeros((1, length, len(letters)))
            for t, letter in enumerate(sentence):
                row[0, t, numbers[letter]] = 1.0
            letter = letters[sample(model.predict(row, verbose=0)[0], 0.5 + epoch)]
            sentence, made = sentence[1:] + letter, made + letter
        written.append([epoch, float(logs["loss"]), made])

    callback = keras.callbacks.LambdaCallback(on_epoch_end=write_on)
    history = model.fit(x, y, batch_size=16, epochs=3, callbacks=[callback], verbose=0)
    return {**_state(model), "history": _history(history), "written": written}


def translator(tf: Any, folder: str) -> Any:
    """An encoder's state begins a decoder; both are models of their own to write with."""
    keras = tf.keras
    encoder_inputs = keras.layers.Input(shape=(None, 5))
    encoder = keras.layers.LSTM(6, return_state=True)
    _, h, c = encoder(encoder_inputs)
    states = [h, c]
    decoder_inputs = keras.layers.Input(shape=(None, 4))
    decoder = keras.layers.LSTM(6, return_sequences=True, return_state=True)
    outputs, _, _ = decoder(decoder_inputs, initial_state=states)
    dense = keras.layers.Dense(4, activation="softmax")
    model = keras.models.Model([encoder_inputs, decoder_inputs], dense(outputs))
    model.compile(optimizer="rmsprop", loss="categorical_crossentropy", metrics=["accuracy"])
    _given(model)
    random = np.random.RandomState(8)
    x, into = np.eye(5)[random.randint(0, 5, (10, 4))], np.eye(4)[random.randint(0, 4, (10, 3))]
    wanted = np.roll(into, -1, 1)
    history = model.fit([x, into], wanted, batch_size=4, epochs=3, validation_split=0.2, verbose=0, shuffle=False)
    encoder_model = keras.models.Model(encoder_inputs, states)
    given = [keras.layers.Input(shape=(6,)), keras.layers.Input(shape=(6,))]
    outputs, h, c = decoder(decoder_inputs, initial_state=given)
    decoder_model = keras.models.Model([decoder_inputs, *given], [dense(outputs), h, c])
    written = []
    for row in range(3):
        held = encoder_model.predict(x[row : row + 1])
        token, said = np.zeros((1, 1, 4)), []
        token[0, 0, 0] = 1.0
        for _ in range(4):
            shares, *held = decoder_model.predict([token, *held])
            said.append(int(np.argmax(shares[0, -1])))
            token = np.eye(4)[[[said[-1]]]]
        written.append(said)
    held = [each.tolist() for each in encoder_model.predict(x[:2])]
    return {**_state(model), "history": _history(history), "written": written, "held": held}


def own_layer(tf: Any, folder: str) -> Any:
    """A layer, a loss and a regularizer of the program's own, in a file and in a description."""
    keras, backend = tf.keras, tf.keras.backend

    class Antirectifier(keras.layers.Layer):  # type: ignore[name-defined,misc]
        def __init__(self, scale: float = 1.0, **kwargs: Any) -> None:
            self.scale = scale
            super().__init__(**kwargs)

        def build(self, input_shape: Any) -> None:
            self.gain = self.add_weight(name="gain", shape=(int(input_shape[-1]) * 2,), initializer="ones")
            super().build(input_shape)

        def compute_output_shape(self, input_shape: Any) -> Any:
            shape = list(input_shape)
            shape[-1] *= 2
            return tuple(shape)

        def call(self, inputs: Any) -> Any:
            inputs = backend.l2_normalize(inputs - backend.mean(inputs, axis=1, keepdims=True), axis=1)
            return self.scale * self.gain * backend.concatenate([backend.relu(inputs), backend.relu(-inputs)], axis=1)

        def get_config(self) -> Any:
            return {**super().get_config(), "scale": self.scale}

    def steep(y_true: Any, y_pred: Any) -> Any:
        return backend.mean(backend.abs(y_true - y_pred) ** 1.5, axis=-1)

    def heavy(weights: Any) -> Any:
        return 0.01 * backend.sum(backend.abs(weights))

    model = keras.models.Sequential(
        [
            keras.layers.Dense(6, input_shape=(4,), kernel_regularizer=heavy),
            Antirectifier(0.5),
            keras.layers.Activation("tanh"),
            keras.layers.Dense(2),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01, clipnorm=0.5), loss=steep, metrics=[steep, "mae"])
    _given(model)
    x, y = _data(10, 4), _data(10, 2)
    history = model.fit(x, y, epochs=2, batch_size=5, verbose=0, shuffle=False)
    own = {"Antirectifier": Antirectifier, "steep": steep, "heavy": heavy}
    model.save(f"{folder}/own.h5")
    text = model.to_json()
    loaded = keras.models.load_model(f"{folder}/own.h5", custom_objects=own)
    went_on = [float(v) for v in loaded.train_on_batch(x, y)]
    with keras.utils.CustomObjectScope(own):
        again = keras.models.model_from_json(text)
    again.set_weights(model.get_weights())
    failed = ""
    try:
        keras.models.model_from_json(text)
    except ValueError:
        failed = "ValueError"
    return {
        **_state(model),
        "history": _history(history),
        "went_on": went_on,
        "again": again.predict(x[:2]).tolist(),
        "failed": failed,
        "metrics": loaded.metrics_names,
    }


def transfer(tf: Any, folder: str) -> Any:
    """Learn some classes, then others with the first layers as they are, then with all of them."""
    keras = tf.keras
    features = [
        keras.layers.Conv2D(3, 3, padding="valid", input_shape=(8, 8, 1)),
        keras.layers.BatchNormalization(),
        keras.layers.Activation("relu"),
        keras.layers.MaxPooling2D(2),
        keras.layers.Flatten(),
    ]
    classes = [
        keras.layers.Dense(6),
        keras.layers.Activation("relu"),
        keras.layers.Dense(3),
        keras.layers.Activation("softmax"),
    ]
    model = keras.models.Sequential(features + classes)
    model.compile(loss="categorical_crossentropy", optimizer="adadelta", metrics=["accuracy"])
    _given(model)
    x, y = _data(9, 8, 8, 1), np.eye(3)[np.arange(9) % 3]
    out = {"first": _history(model.fit(x, y, batch_size=3, epochs=2, verbose=0, shuffle=False))}
    for layer in features:
        layer.trainable = False
    model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.Adam(0.01), metrics=["accuracy"])
    before = model.get_weights()
    out["second"] = _history(model.fit(x, y[::-1], batch_size=3, epochs=2, verbose=0, shuffle=False))
    out["still"] = [bool(np.array_equal(a, b)) for a, b in zip(before, model.get_weights())]
    base = keras.models.Model(model.inputs, model.get_layer(index=4).output)
    base.trainable = False
    top = keras.layers.Dense(2, name="top")(base.output)
    whole = keras.models.Model(base.input, top)
    whole.compile("sgd", "mse")
    out["third"] = _history(whole.fit(x, _data(9, 2), epochs=1, verbose=0, shuffle=False)) and len(
        whole.trainable_weights
    )
    model.pop()
    model.pop()
    model.add(keras.layers.Dense(2, name="new"))
    model.trainable = True
    model.compile("sgd", "mse")
    weights = model.get_weights()
    weights[-2:] = [np.full_like(w, 0.1) for w in weights[-2:]]
    model.set_weights(weights)
    out["fourth"] = _history(model.fit(x, _data(9, 2), epochs=2, verbose=0, shuffle=False))
    model.save_weights(f"{folder}/transfer.h5")
    other = keras.models.Sequential([keras.layers.Conv2D(3, 3, input_shape=(8, 8, 1), name=features[0].name)])
    other.load_weights(f"{folder}/transfer.h5", by_name=True)
    out["by_name"] = [w.tolist() for w in other.get_weights()]
    return {**_state(model), **out}


def adversaries(tf: Any, folder: str) -> Any:
    """A generator and a discriminator that train on batches in turn; the second is fixed in the first's model."""
    keras = tf.keras
    optimizer = keras.optimizers.Adam(0.002, 0.5)
    discriminator = keras.models.Sequential(
        [
            keras.layers.Flatten(input_shape=(4, 4, 1)),
            keras.layers.Dense(8),
            keras.layers.LeakyReLU(alpha=0.2),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    discriminator.compile(loss="binary_crossentropy", optimizer=optimizer, metrics=["accuracy"])
    generator = keras.models.Sequential(
        [
            keras.layers.Dense(8, input_dim=3),
            keras.layers.LeakyReLU(alpha=0.2),
            keras.layers.BatchNormalization(momentum=0.8),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Reshape((4, 4, 1)),
        ]
    )
    z = keras.layers.Input(shape=(3,))
    image = generator(z)
    discriminator.trainable = False
    combined = keras.models.Model(z, discriminator(image))
    combined.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(0.002, 0.5))
    _given(discriminator, generator)
    real, ones, zeros = _data(6, 4, 4, 1), np.ones((6, 1)), np.zeros((6, 1))
    steps = []
    for step in range(4):
        noise = np.random.RandomState(step).normal(0, 1, (6, 3))
        made = generator.predict(noise)
        first = discriminator.train_on_batch(real, ones)
        second = discriminator.train_on_batch(made, zeros)
        steps.append(
            [*(float(v) for v in first), *(float(v) for v in second), float(combined.train_on_batch(noise, ones))]
        )
    counts = [len(discriminator.trainable_weights), len(combined.trainable_weights)]
    out = {"steps": steps, "counts": counts, "made": generator.predict(np.ones((1, 3))).tolist()}
    return {**_state(generator), **out, "judged": discriminator.predict(real).tolist()}


def in_a_session(tf: Any, folder: str) -> Any:
    """Layers and a model within a graph of the program's own, trained by an optimizer of tf.train."""
    keras = tf.keras
    with tf.Graph().as_default(), tf.Session() as session:
        keras.backend.set_session(session)
        images = tf.placeholder(tf.float32, (None, 12))
        labels = tf.placeholder(tf.float32, (None, 3))
        x = keras.layers.Dense(8, activation="relu", kernel_regularizer="l2")(images)
        x = keras.layers.Dropout(0.5, seed=4)(x)
        normal = keras.layers.BatchNormalization()
        x = normal(x)
        logits = keras.layers.Dense(3)(x)
        loss = tf.reduce_mean(keras.losses.categorical_crossentropy(labels, tf.nn.softmax(logits)))
        with tf.control_dependencies(normal.updates):
            train = tf.train.AdamOptimizer(0.05).minimize(loss)
        accuracy = tf.reduce_mean(keras.metrics.categorical_accuracy(labels, logits))
        model = keras.models.Sequential(
            [keras.layers.Dense(4, activation="tanh", input_shape=(12,)), keras.layers.Dense(1)]
        )
        value = model(images)
        second = tf.reduce_mean(tf.square(value - 1.0))
        descend = tf.train.MomentumOptimizer(0.1, 0.9).minimize(second, var_list=model.trainable_weights)
        session.run(tf.global_variables_initializer())
        random = np.random.RandomState(4)
        for variable in tf.trainable_variables():
            session.run(variable.assign(0.8 * random.rand(*variable.shape.as_list()) - 0.4))
        data, targets = _data(8, 12), np.eye(3)[np.arange(8) % 3]
        steps = []
        for _ in range(4):
            feed = {images: data, labels: targets, keras.backend.learning_phase(): 1}
            got = session.run([loss, second, train, descend], feed)
            steps.append([float(v) for v in got[:2]])
        found = session.run([accuracy, value], {images: data, labels: targets, keras.backend.learning_phase(): 0})
        names = [v.name for v in tf.global_variables()]
        moving = [v.tolist() for v in session.run(normal.non_trainable_weights)]
        read = [v.tolist() for v in model.get_weights()]
    return {
        "steps": steps,
        "accuracy": float(found[0]),
        "value": found[1].tolist(),
        "names": names,
        "moving": moving,
        "read": read,
    }


def scheduled(tf: Any, folder: str) -> Any:
    """Rates that follow the step, callbacks that stop and slow down and write files."""
    keras = tf.keras
    model = keras.Sequential([keras.layers.Dense(4, activation="relu", input_shape=(3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.2), "mse", ["mae"])
    _given(model)
    x, y = _data(12, 3), _data(12, 1)
    seen: list[Any] = []
    names = [f"on_{when}_{what}" for when in ("epoch", "batch", "train") for what in ("begin", "end")]
    watch = keras.callbacks.LambdaCallback(**{n: (lambda *_, n=n, **__: seen.append(n)) for n in names})
    calls = [
        watch,
        keras.callbacks.CSVLogger(f"{folder}/log.csv", append=False),
        keras.callbacks.ReduceLROnPlateau("val_loss", 0.5, 1, min_delta=0.01, cooldown=1, min_lr=0.02),
        keras.callbacks.EarlyStopping("val_loss", patience=4, restore_best_weights=True, baseline=None),
        keras.callbacks.ModelCheckpoint(
            folder + "/w.{epoch:02d}-{val_loss:.3f}.h5", save_weights_only=True, save_best_only=True
        ),
        keras.callbacks.TerminateOnNaN(),
        keras.callbacks.BaseLogger(),
    ]
    history = model.fit(
        x, y, batch_size=4, epochs=12, verbose=0, callbacks=calls, validation_data=(x[:3], 1 - y[:3]), shuffle=False
    )
    with open(f"{folder}/log.csv") as file:
        head, *rows = file.read().split("\n")
    import os

    files = sorted(name for name in os.listdir(folder) if name.startswith("w."))
    log = [[float(v) for v in row.split(",")] for row in rows if row]
    stops = keras.Sequential([keras.layers.Dense(1, input_shape=(3,))])
    stops.compile(keras.optimizers.SGD(1e30), "mse")
    ended = stops.fit(x, y, epochs=5, batch_size=4, verbose=0, callbacks=[keras.callbacks.TerminateOnNaN()])
    out = {"seen": seen[:20], "count": len(seen), "head": head, "log": log, "files": files}
    return {**_state(model), "history": _history(history), **out, "ended": len(ended.epoch)}


PROGRAMS = {
    f.__name__: f
    for f in (
        *(digits, reviews, siamese, variational, writer, translator, own_layer, transfer, adversaries, in_a_session),
        scheduled,
    )
}
