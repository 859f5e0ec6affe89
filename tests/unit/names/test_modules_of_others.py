"""Modules beside TensorFlow's that programs import mean what does it here: `keras`, and what tf-slim takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KERAS = """
import numpy as np
import keras
import keras.backend as K
from keras import layers
from keras.engine.topology import Layer
from keras.layers.core import Dense
from keras.layers import Input, Lambda
from keras.models import Model, Sequential
from keras.optimizers import SGD
from keras.utils.np_utils import to_categorical
import tensorflow as tf

assert keras.layers.Dense is tf.keras.layers.Dense is Dense and Layer is tf.keras.layers.Layer
assert K.epsilon() == tf.keras.backend.epsilon() and layers.Dense is Dense
into = Input((3,))
model = Model(into, Lambda(lambda x: K.sum(x, axis=-1, keepdims=True))(Dense(2, kernel_initializer="ones")(into)))
assert np.allclose(model.predict(np.ones((2, 3), "float32")), 6)
assert to_categorical([1], 3).tolist() == [[0, 1, 0]] and Sequential and SGD
try:
    import keras.nowhere
except ModuleNotFoundError as e:
    assert e.name == "keras.nowhere", e
else:
    raise AssertionError
"""

EVALUATION = """
import sys
from dtfctl.runtime.programs.as_tensorflow import install
install()
import tensorflow as tf
from tensorflow.python.ops import variables
from tensorflow.python.training import evaluation

parts = tf.get_variable("p", [4, 2], partitioner=tf.fixed_size_partitioner(2))
assert isinstance(parts, variables.PartitionedVariable)
assert len(tf.placeholder(tf.float32, [None, 2]).get_shape()._dims) == 2
assert tf.placeholder(tf.float32).get_shape()._dims is None

w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0))
tf.train.get_or_create_global_step()
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(w.assign(5.0))
    path = tf.train.Saver().save(session, sys.argv[1] + "/model")
mean, update = tf.metrics.mean(w * 2)
step = evaluation._get_or_create_eval_step()
assert step is evaluation._get_or_create_eval_step() and step.name == "eval_step:0", step
assert step in tf.local_variables() and step not in tf.global_variables()
found = evaluation._evaluate_once(
    path, eval_ops=update, final_ops={"mean": mean, "step": step},
    hooks=[evaluation._StopAfterNEvalsHook(3)],
)
assert found == {"mean": 10.0, "step": 3}, found
"""


def _run(program: str, folder: Path) -> None:
    script = folder / "program.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "dtfctl.run", str(script), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr


def test_keras_is_that_of_tensorflow_where_it_is_not_installed(tmp_path: Path) -> None:
    _run(KERAS, tmp_path)


def test_evaluations_stop_after_so_many_batches(tmp_path: Path) -> None:
    _run(EVALUATION, tmp_path)
