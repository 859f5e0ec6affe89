"""`tf.config` and `tf.contrib.eager`, `predictor`, `cluster_resolver`: what TF1 programs ask of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.contrib import cluster_resolver, predictor
from dtfctl.runtime.client import device_settings


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Settings of their own, on a machine with two GPUs."""
    gpus = tuple(device_settings.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(2))
    cpu = device_settings.PhysicalDevice("/physical_device:CPU:0", "CPU")
    monkeypatch.setattr(device_settings, "_all", lambda: (cpu, *gpus))
    kept = vars(device_settings.SETTINGS).copy()
    device_settings.SETTINGS.__init__()  # type: ignore[misc]
    yield device_settings.SETTINGS
    vars(device_settings.SETTINGS).update(kept)


def test_the_cpu_is_always_there() -> None:
    assert [d.name for d in tf.config.list_physical_devices("CPU")] == ["/physical_device:CPU:0"]
    assert [d.name for d in tf.config.experimental.list_logical_devices("CPU")] == ["/device:CPU:0"]


def test_a_session_begins_with_what_was_set(settings: Any) -> None:
    gpus = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices(gpus[1], "GPU")
    tf.config.experimental.set_memory_growth(gpus[1], True)
    tf.config.threading.set_intra_op_parallelism_threads(3)
    tf.config.set_soft_device_placement(True)
    assert tf.config.get_visible_devices("GPU") == [gpus[1]]
    assert [d.name for d in tf.config.list_logical_devices()] == ["/device:CPU:0", "/device:GPU:0"]
    config = settings.config()
    assert config.gpu_options.visible_device_list == "1" and config.gpu_options.allow_growth
    assert config.intra_op_parallelism_threads == 3 and config.allow_soft_placement
    tf.config.set_visible_devices([], "GPU")
    with tf.Session() as session:
        assert session._config.device_count["GPU"] == 0
        assert session._config.intra_op_parallelism_threads == 3


def test_what_cannot_be_set_says_so(settings: Any) -> None:
    cpu, gpu = tf.config.list_physical_devices()[:2]
    with pytest.raises(ValueError, match="cannot be hidden"):
        tf.config.set_visible_devices([], "CPU")
    with pytest.raises(ValueError, match="is no CPU"):
        tf.config.set_visible_devices(gpu, "CPU")
    with pytest.raises(ValueError, match="list_physical_devices"):
        tf.config.set_visible_devices(device_settings.PhysicalDevice("/physical_device:GPU:7", "GPU"), "GPU")
    with pytest.raises(ValueError, match="is no GPU"):
        tf.config.experimental.set_memory_growth(cpu, True)


def test_a_program_that_may_use_tpus_can_be_imported_without() -> None:
    with pytest.raises(NotImplementedError, match="use_tpu=False"):
        cluster_resolver.TPUClusterResolver("name", zone=None)


def test_a_saved_model_as_a_function(tmp_path: Path) -> None:
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2])
        w = tf.get_variable("w", [2, 1], initializer=tf.ones_initializer())
        y = tf.matmul(x, w)
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
    function = predictor.from_saved_model(folder)
    np.testing.assert_allclose(function({"x": [[1.0, 2.0]]})["y"], [[3.0]])
    with pytest.raises(ValueError, match="unexpected keys"):
        function({"z": 1.0})
    with pytest.raises(ValueError, match="serving_default"):
        predictor.from_saved_model(folder, signature_def_key="other")
    function.close()


EAGER = """
import dtfctl.runtime as tf
import dtfctl.contrib.eager as tfe
tfe.enable_eager_execution()
assert tfe.in_eager_mode() and not tfe.in_graph_mode() and tfe.num_gpus() == 0
square = lambda x, y: x * x * y
value, (by_x,) = tfe.value_and_gradients_function(square, params=["x"])(3.0, 2.0)
assert float(value) == 18.0 and float(by_x) == 12.0
assert [float(g) for g in tfe.gradients_function(square)(3.0, 2.0)] == [12.0, 9.0]
w = tfe.Variable(2.0)
loss, found = tfe.implicit_value_and_gradients(lambda x: w * x)(5.0)
assert float(loss) == 10.0 and float(found[0][0]) == 5.0 and found[0][1] is w
tf.train.GradientDescentOptimizer(0.1).apply_gradients(tfe.implicit_gradients(lambda x: w * x)(5.0))
assert abs(float(w.numpy()) - 1.5) < 1e-6
assert [int(v) for v in tfe.Iterator(tf.data.Dataset.range(3))] == [0, 1, 2]
try:
    tfe.implicit_gradients(lambda: tf.constant(1.0))()
except ValueError as e:
    assert "tf.Variable" in str(e)
else:
    raise AssertionError("no variable was read")
"""


def test_gradients_of_functions_as_contrib_eager_has_them() -> None:
    subprocess.run([sys.executable, "-c", EAGER], check=True, timeout=120)
