"""What programs import from TensorFlow's own modules leads to what does it here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from dtfctl.runtime.programs.as_tensorflow import install
install()
import tensorflow as tf
from tensorflow.contrib import cluster_resolver, predictor
from tensorflow.python.client import device_lib
from tensorflow.python.client.session import register_session_run_conversion_functions
from tensorflow.python.estimator import model_fn
from tensorflow.python.lib.io import file_io
from tensorflow.python.ops.gradient_checker import compute_gradient_error
from tensorflow.python.ops.resource_variable_ops import ResourceVariable
from tensorflow.python.platform import googletest
from tensorflow.python.saved_model.builder import SavedModelBuilder
from tensorflow.python.util.all_util import remove_undocumented
from tensorflow.python.util.function_utils import fn_args

path = sys.argv[1] + "/text"
file_io.write_string_to_file(path, "some text")
assert file_io.file_exists(path) and file_io.read_file_to_string(path) == "some text"
assert file_io.read_file_to_string(path, binary_mode=True) == b"some text"
assert file_io.get_matching_files(sys.argv[1] + "/t*") == [path]
cpu = device_lib.list_local_devices()[0]
assert (cpu.name, cpu.device_type) == ("/device:CPU:0", "CPU"), cpu
assert fn_args(lambda features, labels, *, mode: 0) == ("features", "labels", "mode")
assert issubclass(googletest.TestCase, tf.test.TestCase) and model_fn.ModeKeys.EVAL == "eval"
assert isinstance(tf.get_variable("v", [], use_resource=True), ResourceVariable)
remove_undocumented(__name__)


class Pair:
    def __init__(self, a, b):
        self.parts = [a, b]


register_session_run_conversion_functions(Pair, lambda p: (p.parts, tuple))
with tf.Session() as session:
    assert session.run(Pair(tf.constant(1), tf.constant(2))) == (1, 2)
"""


def test_modules_of_tensorflow_s_own(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], check=True, timeout=120)
