"""Programs that change images at random, cut series into windows and pair words; schedules and constraints."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np

from tests.interop.keras.example_programs import _given, _history
from tests.interop.keras.more_programs import _data


def _firsts(batches: Any) -> Any:
    """What is in some batches: shapes, and some numbers of each."""
    out = []
    for batch in batches:
        parts = batch if isinstance(batch, tuple) else (batch,)
        flat = [each for part in parts for each in (part if isinstance(part, list) else [part])]
        out.append([[list(np.shape(each)), np.asarray(each, float).ravel()[::7][:12].tolist()] for each in flat])
    return out


def augmented(tf: Any, folder: str) -> Any:
    """Images that are turned, moved, sheared, zoomed, flipped and tinted; trained on as they come."""
    keras = tf.keras
    image = keras.preprocessing.image
    x, y = _data(10, 8, 6, 3) * 200, np.eye(2)[np.arange(10) % 2]
    kinds: list[dict[str, Any]] = [
        {"rotation_range": 40},
        {"width_shift_range": 0.3, "height_shift_range": 0.2, "fill_mode": "reflect"},
        {"width_shift_range": [1, 2], "height_shift_range": 3, "fill_mode": "wrap"},
        {"shear_range": 20, "zoom_range": 0.4, "fill_mode": "constant", "cval": 7.0},
        {"zoom_range": (0.5, 0.9), "horizontal_flip": True, "vertical_flip": True, "interpolation_order": 0},
        {"channel_shift_range": 30.0, "rescale": 1 / 255},
        {"samplewise_center": True, "samplewise_std_normalization": True},
        {"featurewise_center": True, "featurewise_std_normalization": True, "horizontal_flip": True},
        {"zca_whitening": True, "zca_epsilon": 1e-1},
        {"preprocessing_function": lambda v: v[::-1] - 1, "rotation_range": 10, "shear_range": 3, "zoom_range": 0.1},
    ]
    out: dict[str, Any] = {}
    for index, kind in enumerate(kinds):
        made = image.ImageDataGenerator(**kind)
        if "featurewise_center" in kind or "zca_whitening" in kind:
            made.fit(x, augment=index % 2 == 1, rounds=2, seed=3)
            learned = [v for v in (made.mean, made.std, made.zca_whitening_matrix) if v is not None]
            out[f"learned {index}"] = [np.asarray(v, float).ravel()[:8].tolist() for v in learned]
        flow = made.flow(x, y, batch_size=4, seed=5)
        out[f"{index}"] = _firsts(next(flow) for _ in range(4))
        drawn = made.get_random_transform((8, 6, 3), seed=9)
        out[f"drawn {index}"] = {k: None if v is None else float(v) for k, v in drawn.items()}
    first = image.ImageDataGenerator(rotation_range=20, data_format="channels_first", validation_split=0.3)
    small = _data(10, 1, 5, 5)
    for subset in ("training", "validation"):
        flow = first.flow((small, [_data(10, 2), _data(10)]), y, 3, False, sample_weight=_data(10), subset=subset)
        out[subset] = [*_firsts(flow[i] for i in range(len(flow))), len(flow), flow.n]
    np.random.seed(3)
    tools = [
        image.random_rotation(small[0], 30), image.random_shift(small[1], 0.2, 0.4), image.random_shear(small[2], 12),
        image.random_zoom(small[3], (0.6, 1.4)), image.random_channel_shift(small[4], 0.3),
        image.apply_channel_shift(x[0], 9.0, 2), image.apply_affine_transform(x[0], 10, 1, 2, 3, 1.1, 0.9, 0, 1, 2),
    ]  # fmt: skip
    out["tools"] = _firsts(tools)
    model = keras.Sequential([keras.layers.Flatten(input_shape=(8, 6, 3)), keras.layers.Dense(2, activation="softmax")])
    model.compile("sgd", "categorical_crossentropy", metrics=["accuracy"])
    _given(model)
    made = image.ImageDataGenerator(rescale=1 / 255)
    train, held = made.flow(x, y, batch_size=4, shuffle=False), made.flow(x[:6], y[:6], 3, False)
    history = model.fit_generator(
        train, steps_per_epoch=len(x) // 4, epochs=2, verbose=0, validation_data=held, validation_steps=2, shuffle=False
    )
    out["history"] = _history(history)
    out["evaluated"] = [float(v) for v in model.evaluate_generator(made.flow(x, y, 5, False), steps=2)]
    out["predicted"] = model.predict_generator(
        image.ImageDataGenerator(rescale=1 / 255).flow(x, None, 4, False)
    ).tolist()
    return out


def files(tf: Any, folder: str) -> Any:
    """Images in folders: written, read, resized, as batches of classes; made brighter."""
    image = tf.keras.preprocessing.image
    noise = np.random.RandomState(2).randint(0, 256, (9, 7, 6, 3)).astype("float32")
    for index, each in enumerate(noise):
        where = os.path.join(folder, "pets", "cats" if index % 3 else "dogs")
        os.makedirs(where, exist_ok=True)
        image.save_img(os.path.join(where, f"{index}.png"), each, scale=False)
    path = os.path.join(folder, "pets", "cats", "1.png")
    out: dict[str, Any] = {"read": np.asarray(image.img_to_array(image.load_img(path)) - noise[1]).tolist()}
    ways: list[dict[str, Any]] = [
        *({"target_size": (4, 9), "interpolation": way} for way in ("nearest", "bilinear", "bicubic", "lanczos")),
        {"grayscale": False, "color_mode": "grayscale", "target_size": (3, 3)},
        {"color_mode": "rgba"},
        {"target_size": (4, 4), "keep_aspect_ratio": True},
    ]
    out["ways"] = [_firsts([image.img_to_array(image.load_img(path, **way))]) for way in ways]
    out["first"] = _firsts([image.img_to_array(image.load_img(path), data_format="channels_first", dtype="uint8")])
    shapes = [image.array_to_img(v, scale=s) for v, s in ((noise[0], True), (noise[0, ..., :1] / 99, False))]
    out["modes"] = [[img.mode, list(img.size), np.asarray(img, float).ravel()[:9].tolist()] for img in shapes]
    out["bright"] = _firsts(
        [image.apply_brightness_shift(noise[0], 0.4), image.apply_brightness_shift(noise[1] - 9, 2.0, False)]
    )
    made = image.ImageDataGenerator(
        rescale=1 / 255, brightness_range=(0.5, 1.5), rotation_range=20, validation_split=0.34
    )
    modes: list[dict[str, Any]] = [
        {"class_mode": "categorical", "subset": "training"},
        {"class_mode": "binary", "subset": "validation"},
        {"class_mode": "sparse", "classes": ["dogs", "cats"], "color_mode": "grayscale"},
        {"class_mode": "input", "shuffle": False},
        {"class_mode": None, "interpolation": "bilinear"},
    ]
    for index, mode in enumerate(modes):
        flow = made.flow_from_directory(os.path.join(folder, "pets"), (6, 5), batch_size=3, seed=4, **mode)
        out[f"{index}"] = [
            _firsts(next(flow) for _ in range(3)),
            flow.class_indices,
            sorted(flow.filenames),
            flow.samples,
        ]
    kept = os.path.join(folder, "kept")
    os.makedirs(kept)
    next(image.ImageDataGenerator().flow(noise, batch_size=2, save_to_dir=kept, save_prefix="a", seed=1))
    out["kept"] = sorted(os.listdir(kept))
    return out


def tables(tf: Any, folder: str) -> Any:
    """Images that a table names, with classes, lists of classes, numbers and weights."""
    image = tf.keras.preprocessing.image
    noise = np.random.RandomState(3).randint(0, 256, (7, 6, 5, 3)).astype("float32")
    for index, each in enumerate(noise):
        image.save_img(os.path.join(folder, f"{index}.png"), each, scale=False)
    columns: dict[str, Any] = {
        "filename": [*(f"{i}.png" for i in range(7)), "missing.png", "notes.txt"],
        "class": ["b", "a", "b", "c", "a", "b", "a", "a", "b"],
        "tags": [["x"], ["x", "y"], ["y"], ["z"], ["z", "x"], ["y"], ["x"], ["x"], ["x"]],
        "two": ["u", "v"] * 4 + ["u"],
        "size": [0.5 * i for i in range(9)],
        "count": [3 * i for i in range(9)],
    }
    try:
        from pandas import DataFrame

        table = DataFrame(columns)
    except ImportError:
        table = columns
    made = image.ImageDataGenerator(rescale=1 / 255, horizontal_flip=True, validation_split=0.4)
    modes: list[dict[str, Any]] = [
        {}, {"subset": "validation"}, {"subset": "training", "class_mode": "sparse"}, {"classes": ["c", "a"]},
        {"y_col": "tags"}, {"y_col": "tags", "classes": ["y", "z"], "weight_col": "size"},
        {"y_col": "two", "class_mode": "binary", "weight_col": "count"}, {"y_col": "size", "class_mode": "raw"},
        {"y_col": ["size", "count"], "class_mode": "raw"}, {"y_col": ["size", "count"], "class_mode": "multi_output"},
        {"class_mode": "input", "shuffle": False}, {"class_mode": None, "color_mode": "grayscale"},
    ]  # fmt: skip
    out: dict[str, Any] = {}
    for index, mode in enumerate(modes):
        flow = made.flow_from_dataframe(table, folder, target_size=(4, 4), batch_size=3, seed=4, **mode)
        batches = [next(flow) for _ in range(3)]
        out[f"{index}"] = [_firsts(batches), getattr(flow, "class_indices", None), list(flow.filenames), flow.samples]
        if hasattr(flow, "class_indices"):
            out[f"labels {index}"] = list(flow.labels)
    refused: list[dict[str, Any]] = [
        {"class_mode": "other kinds"}, {"class_mode": "multi_output"}, {"x_col": "size"}, {"class_mode": "binary"},
        {"y_col": "size"}, {"weight_col": "two"}, {"y_col": "tags", "class_mode": "sparse"},
    ]  # fmt: skip
    for index, mode in enumerate(refused):
        try:
            made.flow_from_dataframe(table, folder, **mode)
        except (TypeError, ValueError) as e:
            out[f"refused {index}"] = type(e).__name__
    return out


def series(tf: Any, folder: str) -> Any:
    """Windows of series, pairs of words."""
    sequence = tf.keras.preprocessing.sequence
    data, targets = np.arange(40).reshape(20, 2) / 10, np.arange(20) * 1.5
    kinds: list[dict[str, Any]] = [
        {"length": 4},
        {"length": 6, "sampling_rate": 2, "batch_size": 5},
        {"length": 3, "stride": 3, "batch_size": 2, "start_index": 2, "end_index": 15},
        {"length": 3, "reverse": True, "batch_size": 4},
        {"length": 3, "shuffle": True, "batch_size": 4},
    ]
    out: dict[str, Any] = {}
    for index, kind in enumerate(kinds):
        made = sequence.TimeseriesGenerator(data, targets, **kind)
        out[f"{index}"] = [len(made), _firsts(made[i] for i in range(len(made)))]
        out[f"config {index}"] = made.get_config()
    model = tf.keras.Sequential([tf.keras.layers.LSTM(3, input_shape=(4, 2)), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
    _given(model)
    made = sequence.TimeseriesGenerator(data, targets, length=4, batch_size=5)
    out["history"] = _history(model.fit_generator(made, epochs=2, shuffle=False, verbose=0))
    out["table"] = sequence.make_sampling_table(9, 1e-3).tolist()
    random.seed(5)
    words = [3, 1, 0, 5, 2, 4, 3]
    out["pairs"] = [
        sequence.skipgrams(words, 8),
        sequence.skipgrams(words, 8, window_size=1, negative_samples=0.5, categorical=True, seed=3),
        sequence.skipgrams(words, 8, 2, 0.0, False),
        sequence.skipgrams(words * 3, 8, sampling_table=sequence.make_sampling_table(8, 1e-1), seed=2),
    ]
    return out


def rates(tf: Any, folder: str) -> Any:
    """Rates of learning that fall along cosines."""
    schedules, backend = tf.keras.optimizers.schedules, tf.keras.backend
    kinds = [
        schedules.CosineDecay(0.5, 10),
        schedules.CosineDecay(0.5, 10, alpha=0.1),
        schedules.CosineDecay(0.1, 10, warmup_target=0.6, warmup_steps=4, alpha=0.2),
        schedules.CosineDecayRestarts(0.5, 4),
        schedules.CosineDecayRestarts(0.5, 3, t_mul=1.0, m_mul=0.8, alpha=0.05),
        schedules.CosineDecayRestarts(0.4, 2, t_mul=1.5, m_mul=0.5),
    ]
    values = [[float(backend.get_value(kind(step))) for step in (0, 1, 2, 3, 5, 7, 11, 14, 30)] for kind in kinds]
    configs = [kind.get_config() for kind in kinds]
    again = [float(backend.get_value(schedules.deserialize(schedules.serialize(k))(5))) for k in kinds]
    histories = []
    for kind in (kinds[0], kinds[3]):
        model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
        model.compile(tf.keras.optimizers.SGD(kind), "mse")
        _given(model)
        histories.append(_history(model.fit(_data(6, 3), _data(6, 2), 3, 3, 0, shuffle=False)))
    return {"values": values, "configs": configs, "again": again, "histories": histories}


def held(tf: Any, folder: str) -> Any:
    """Weights that are brought back after each step."""
    keras, backend = tf.keras, tf.keras.backend
    radial = keras.constraints.RadialConstraint()
    found = [backend.get_value(radial(tf.constant(_data(n, n, 2, 3)))).tolist() for n in (2, 3, 4, 5, 6)]
    model = keras.Sequential(
        [
            keras.layers.Conv2D(2, 4, kernel_constraint="radial_constraint", input_shape=(5, 5, 2)),
            keras.layers.Flatten(),
            keras.layers.Dense(2, kernel_constraint=keras.constraints.MinMaxNorm(0.2, 0.5, 0.7)),
        ]
    )
    model.compile("sgd", "mse")
    _given(model)
    history = model.fit(_data(6, 5, 5, 2), _data(6, 2), 3, 2, 0, shuffle=False)
    return {"found": found, "history": _history(history), "kernel": model.get_weights()[0].tolist()}


PROGRAMS = {f.__name__: f for f in (augmented, files, tables, series, rates, held)}
