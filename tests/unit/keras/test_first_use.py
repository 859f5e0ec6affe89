"""What a program's first layer finds, in a process that has imported nothing else of Keras."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from dtfctl import runtime as tf
print(tf.keras.layers.Flatten()(tf.zeros([2, 3, 4])).shape.as_list())
"""


def test_a_layer_takes_a_plain_tensor_before_any_model_is_made() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "[2, 12]\n"), ran.stderr
