"""Bars, batches made by threads, layers whose variables lie as cuDNN has them, and callbacks that tell."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

keras = tf.keras


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


class Squares(keras.utils.Sequence):
    def __init__(self) -> None:
        self.epochs = 0
        self.at_ends: list[int] = []
        self.made = 0

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        self.made += 1
        return index * index + 100 * self.epochs

    def on_epoch_end(self) -> None:
        self.epochs += 1
        self.at_ends.append(self.made)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_sequence_is_given_in_order_epoch_after_epoch(workers: int) -> None:
    squares = Squares()
    enqueuer = keras.utils.OrderedEnqueuer(squares)
    enqueuer.start(workers=workers, max_queue_size=4)
    given = enqueuer.get()
    found = [next(given) for _ in range(10)]
    enqueuer.stop()
    assert found == [0, 1, 4, 9, 16, 100, 101, 104, 109, 116] and squares.at_ends[:1] == [5]
    assert not enqueuer.is_running()


def test_what_a_generator_raises_is_raised_where_batches_are_taken() -> None:
    def numbers() -> Any:
        yield 1
        yield 2
        raise KeyError("gone")

    enqueuer = keras.utils.GeneratorEnqueuer(numbers())
    enqueuer.start(workers=2)
    given = enqueuer.get()
    assert [next(given), next(given)] == [1, 2]
    with pytest.raises(KeyError, match="gone"):
        next(given)
    assert not enqueuer.is_running()
    short = keras.utils.GeneratorEnqueuer(iter([7, 8]))
    short.start()
    assert list(short.get()) == [7, 8]
    short.stop()


def test_a_bar_says_how_far_it_is_and_means(capsys: pytest.CaptureFixture[str]) -> None:
    bar = keras.utils.Progbar(4, width=8, interval=0, stateful_metrics=["best"])
    for step in range(4):
        bar.add(1, [("loss", float(step)), ("best", step / 2)])
    lines = [line for line in capsys.readouterr().out.split("\n") if line]
    assert [line[:12] for line in lines] == ["1/4 [=>.....", "2/4 [===>...", "3/4 [=====>.", "4/4 [======="]
    assert "loss: 1.5000 - best: 1.5000" in lines[-1] and "ETA" in lines[0] and "step" in lines[-1]
    keras.utils.Progbar(2, verbose=2).update(2, [("loss", 1e-5)])
    assert capsys.readouterr().out.strip() == "2/2 - 0s - loss: 1.0000e-05"


def test_training_goes_on_in_a_sequence_where_the_epoch_before_has_ended() -> None:
    seen: list[float] = []

    class Numbers(Squares):
        def __getitem__(self, index: int) -> Any:
            self.made += 1
            seen.append(index)
            return np.full((1, 3), index, "float32"), np.zeros((1, 2), "float32")

    model, _, _ = small()
    numbers = Numbers()
    model.fit(numbers, steps_per_epoch=3, epochs=3, verbose=0, shuffle=False)
    assert seen == [0, 1, 2, 3, 4, 0, 1, 2, 3] and numbers.at_ends == [5]
    seen.clear()
    model.evaluate(numbers, steps=2, verbose=0)
    model.evaluate(numbers, verbose=0)
    assert seen == [0, 1, 0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("plain", "other", "own"),
    [
        ("LSTM", "CuDNNLSTM", {"recurrent_activation": "sigmoid"}),
        ("GRU", "CuDNNGRU", {"recurrent_activation": "sigmoid", "reset_after": True}),
    ],
)
def test_layers_with_cudnns_variables_compute_what_the_others_do(
    plain: str, other: str, own: dict[str, Any], tmp_path: Path
) -> None:
    x = np.random.RandomState(3).rand(5, 4, 2).astype("float32")
    y = np.random.RandomState(4).rand(5, 4, 3).astype("float32")

    def made(kind: str, **own: Any) -> Any:
        layer = getattr(keras.layers, kind)
        model = keras.Sequential([layer(3, return_sequences=True, input_shape=(4, 2), **own)])
        model.compile(keras.optimizers.SGD(0.5), "mse")
        return model

    model, changed = made(plain, **own), made(other)
    random = np.random.RandomState(5)
    model.set_weights([random.rand(*w.shape) - 0.5 for w in model.get_weights()])
    model.save_weights(str(tmp_path / "plain.h5"))
    changed.load_weights(str(tmp_path / "plain.h5"))
    np.testing.assert_allclose(changed.predict(x), model.predict(x), rtol=1e-5, atol=1e-6)
    # Two biases that are added take two steps where one takes one: kernels are compared.
    model.train_on_batch(x, y)
    changed.train_on_batch(x, y)
    changed.save_weights(str(tmp_path / "changed.h5"))
    again = made(plain, **own)
    again.load_weights(str(tmp_path / "changed.h5"))
    for have, want in zip(again.get_weights()[:2], model.get_weights()[:2], strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


def test_cudnns_layers_say_that_they_take_no_mask() -> None:
    with pytest.raises(ValueError, match="Masking is not supported for CuDNNLSTM: use LSTM"):
        keras.Sequential([keras.layers.Masking(input_shape=(4, 2)), keras.layers.CuDNNLSTM(3)])


def small() -> tuple[Any, Any, Any]:
    model = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
    model.compile("sgd", "mse")
    return model, np.ones((8, 3), np.float32), np.zeros((8, 2), np.float32)


def test_a_monitor_posts_each_epoch() -> None:
    posted: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            posted.append((self.path, self.headers["Content-Type"], body, self.headers["X-Key"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}"
    model, x, y = small()
    form = keras.callbacks.RemoteMonitor(root, "/here", headers={"X-Key": "k"})
    whole = keras.callbacks.RemoteMonitor(root, send_as_json=True)
    history = model.fit(x, y, epochs=1, verbose=0, callbacks=[form, whole])
    server.shutdown()
    server.server_close()
    (path, kind, body, key), (other, other_kind, text, _) = posted
    assert (path, kind, key) == ("/here", "application/x-www-form-urlencoded", "k")
    assert (other, other_kind) == ("/publish/epoch/end/", "application/json")
    want = {"epoch": 0, "loss": pytest.approx(float(history.history["loss"][0]))}
    assert json.loads(urllib.parse.parse_qs(body)["data"][0]) == want == json.loads(text)


def test_a_monitor_whose_server_is_gone_lets_training_go_on(caplog: pytest.LogCaptureFixture) -> None:
    model, x, y = small()
    history = model.fit(x, y, epochs=2, verbose=0, callbacks=[keras.callbacks.RemoteMonitor("http://127.0.0.1:9")])
    assert len(history.epoch) == 2 and "could not reach RemoteMonitor's server" in caplog.text


def test_a_checkpoint_after_some_batches(tmp_path: Path) -> None:
    model, x, y = small()
    path = str(tmp_path / "w-{epoch}-{batch}.h5")
    kept = keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=3)
    model.fit(x, y, batch_size=2, epochs=2, verbose=0, callbacks=[kept])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["w-1-3.h5", "w-2-2.h5"]
    with pytest.raises(ValueError, match="Unrecognized save_freq"):
        keras.callbacks.ModelCheckpoint(path, save_freq="sometimes")


def test_what_tensorboard_is_told(tmp_path: Path) -> None:
    model, x, y = small()
    told = keras.callbacks.TensorBoard(str(tmp_path), histogram_freq=2, update_freq="batch", write_graph=False)
    model.fit(x, y, batch_size=4, epochs=3, verbose=0, callbacks=[told])
    [file] = tmp_path.iterdir()
    found = [(v.tag, e.step) for e in tf.train.summary_iterator(str(file)) for v in e.summary.value]
    assert [step for tag, step in found if tag == "batch_loss"] == list(range(6))
    assert [step for tag, step in found if tag == "epoch_loss"] == [8, 16, 24]
    assert [step for tag, step in found if tag == "dense/kernel_0"] == [0, 2]
    with pytest.raises(NotImplementedError, match=r"tf\.summary"):
        keras.callbacks.TensorBoard(write_images=True)


def test_flows_of_tables_and_images_without_pillow_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    image = keras.preprocessing.image
    with pytest.raises(TypeError, match=r"pandas\.DataFrame"):
        image.ImageDataGenerator().flow_from_dataframe("table.csv")
    import sys

    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"dtfctl\[image\]"):
        image.ImageDataGenerator().flow_from_dataframe({"filename": ["a.png"], "class": ["a"]})
    with pytest.raises(ImportError, match=r"dtfctl\[image\]"):
        image.load_img("anything.png")
