"""Scripts of TensorFlow 1 run as they are, names that are not there say so, and `check` finds them before."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.programs.checking import check

SCRIPT = """
import tensorflow as tf
import tensorflow.compat.v1 as tf1
from tensorflow.compat.v1 import nn
from tensorflow.python.framework import ops
from tensorflow.python.ops import math_ops, rnn_cell_impl
import tensorflow.python.training.moving_averages as averages
from tensorflow.python.platform import gfile
from tensorflow.contrib import rnn
import tensorflow.contrib.layers as layers
import helper

assert tf.compat.v1.nn.relu is nn.relu and tf1.Session is tf.Session
assert tf.__version__ == tf.VERSION == tf1.__version__ == "1.15.0"
assert tf.compat.as_str(b"text") == "text" and tf.compat.as_bytes("text") == b"text"
assert ops.convert_to_tensor is tf.convert_to_tensor and math_ops.add is tf.add
assert rnn_cell_impl.LSTMCell is tf.nn.rnn_cell.LSTMCell
assert averages.assign_moving_average and gfile.Exists("/")
assert layers.xavier_initializer and rnn.LSTMCell is tf.contrib.rnn.LSTMCell
flags = tf.app.flags
flags.DEFINE_integer("steps", 1, "")


def main(_):
    with tf.Session() as session:
        print("it gives", session.run(helper.double(tf.constant(21.0))), flags.FLAGS.steps)


if __name__ == "__main__":
    tf.disable_v2_behavior()
    tf.app.run()
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "dtfctl.run", *words], capture_output=True, text=True, timeout=240)


def test_a_script_runs_with_its_own_import_line(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("import tensorflow as tf\n\n\ndef double(x):\n    return tf.add(x, x)\n")
    done = run(str(script), "--steps=3")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "it gives 42.0 3\n"


def test_an_import_that_is_not_there_says_so(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("from tensorflow.examples.tutorials.mnist import input_data\n")
    done = run(str(script))
    assert done.returncode == 1
    assert "tf.examples is not there; use" in done.stderr and "docs/coming-from-tensorflow-1.md" in done.stderr


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tpu", "tf.tpu is not there; use"),
        ("nn.approx_max_k", "tf.nn.approx_max_k is not there; use"),
        ("reduce_smu", "no such name in tf.compat.v1; did you mean tf.reduce_sum?"),
    ],
)
def test_a_missing_name_says_what_to_use(name: str, says: str) -> None:
    with pytest.raises(AttributeError) as caught:
        eval(f"tf.{name}", {"tf": tf})
    assert says in str(caught.value)
    assert "dtfctl.runtime.api" not in str(caught.value)


def test_check_lists_what_is_missing_by_line() -> None:
    source = "\n".join(
        [
            "import tensorflow.compat.v1 as tf",
            "from tensorflow import tpu",
            "import numpy as np",
            "x = tf.nn.relu(tf.Session().graph.version)",
            "y = tf.nn.approx_max_k(x), np.approx",
            "def f(tf2=tf.tpu.rewrite): return tf.reduce_sum(x)",
        ]
    )
    found = check(source, "script.py")
    assert [(item.line, item.name) for item in found] == [(2, "tpu"), (5, "nn.approx_max_k"), (6, "tpu.rewrite")]


def test_check_says_it_by_its_exit_code(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("import tensorflow as tf\ntf.nn.relu(1.0)\n")
    bad.write_text("import tensorflow as tf\n\ntf.tpu.rewrite()\n")
    assert run("--check", str(good)).returncode == 0
    done = run("--check", str(good), str(bad))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{bad}:3:1: tf.tpu.rewrite is not there; use ")
