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
    script.write_text("from tensorflow.contrib.tensor_forest import forest\n")
    done = run(str(script))
    assert done.returncode == 1
    assert (
        "tf.contrib.tensor_forest is not there; use" in done.stderr
        and "docs/coming-from-tensorflow-1.md" in done.stderr
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tpu", "tf.tpu is not there; use"),
        ("nn.quantized_conv2d", "tf.nn.quantized_conv2d is not there; use"),
        ("reduce_smu", "no such name in tf.compat.v1; did you mean tf.reduce_sum?"),
        ("train.SummaryWriter", "use `tf.summary.FileWriter`"),
        ("pack", "use `tf.stack`"),
        ("nn.seq2seq.model_with_buckets", "use `dtfctl.contrib.legacy_seq2seq`"),
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
            "y = tf.nn.quantized_conv2d(x), np.approx",
            "def f(tf2=tf.tpu.rewrite): return tf.reduce_sum(x)",
        ]
    )
    found = check(source, "script.py")
    assert [(item.line, item.name) for item in found] == [(2, "tpu"), (5, "nn.quantized_conv2d"), (6, "tpu.rewrite")]


def test_check_says_it_by_its_exit_code(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text("import tensorflow as tf\ntf.nn.relu(1.0)\n")
    bad.write_text("import tensorflow as tf\n\ntf.tpu.rewrite()\n")
    assert run("--check", str(good)).returncode == 0
    done = run("--check", str(good), str(bad))
    assert done.returncode == 1
    assert done.stdout.startswith(f"{bad}:3:1: tf.tpu.rewrite is not there; use ")


INTERNAL = """
from tensorflow.python.framework import constant_op, dtypes, errors_impl, function, ops, random_seed
from tensorflow.python.framework import tensor_shape, tensor_util
from tensorflow.python.ops import array_ops, check_ops, clip_ops, control_flow_ops, data_flow_ops, gen_array_ops
from tensorflow.python.ops import gen_math_ops, gen_nn_ops, gradients_impl, init_ops, lookup_ops, math_ops, nn_ops
from tensorflow.python.ops import nn, partitioned_variables, random_ops, rnn, sparse_ops, state_ops, tensor_array_ops
from tensorflow.python.ops import variable_scope as vs, variables
from tensorflow.python.ops.rnn import rnn_cell_impl
from tensorflow.python.ops.rnn_cell_impl import RNNCell, _Linear
from tensorflow.python.platform import gfile, test, tf_logging as logging
from tensorflow.python.training import moving_averages, optimizer, saver, session_run_hook, training_util
from tensorflow.python.util import deprecation, nest, tf_decorator, tf_inspect
from tensorflow.python.util.deprecation import deprecated
import numpy as np
import tensorflow as tf


@deprecated("2020-01-01", "use another")
def twice(x):
    return math_ops.multiply(x, constant_op.constant(2.0, dtypes.float32))


decorated = tf_decorator.make_decorator(twice, lambda x: x)
assert rnn_cell_impl.RNNCell is RNNCell and tf_decorator.unwrap(decorated)[1] is twice
with ops.name_scope("here"):
    a = array_ops.ones([2, 3], dtypes.float32)
    product = gen_math_ops.mat_mul(a, array_ops.transpose(a), False, False, name="product")
    other = gen_math_ops._mat_mul(a, a, transpose_b=True)
    padded = gen_array_ops.pad(twice(a), [[0, 0], [1, 0]])
    image, kernel = np.ones([1, 2, 2, 1], np.float32), np.ones([1, 1, 1, 1], np.float32)
    conv = gen_nn_ops.conv2d(image, kernel, [1, 1, 1, 1], "VALID")
    assert rnn_cell_impl._like_rnncell(rnn_cell_impl.GRUCell(2))
    assert rnn_cell_impl._concat(3, [4], static=True) == [3, 4]
    held = control_flow_ops.with_dependencies([control_flow_ops.no_op()], a)
with vs.variable_scope("layer"):
    line = _Linear([a, a], 4, True)
    out = line([a, a])
slope = gradients_impl.gradients(out, [v for v in variables.trainable_variables()])
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    print(session.run(product).tolist(), product.op.name, session.run(other).tolist())
    print(session.run(padded).tolist(), session.run(conv).shape, session.run(held).shape, session.run(out).shape)
    print([v.op.name for v in tf.global_variables()], [s.shape.as_list() for s in slope])
for module, name in ((math_ops, "no_such_name"), (gen_math_ops, "no_such_op")):
    try:
        getattr(module, name)
    except AttributeError as e:
        print(e)
try:
    from tensorflow.python.ops.math_ops import no_such_name
except ImportError as e:
    print(e)
"""


def test_imports_from_tensorflows_own_modules(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERNAL)
    done = run(str(script))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "[[3.0, 3.0], [3.0, 3.0]] here/product [[3.0, 3.0], [3.0, 3.0]]"
    assert lines[1] == "[[0.0, 2.0, 2.0, 2.0], [0.0, 2.0, 2.0, 2.0]] (1, 2, 2, 1) (2, 3) (2, 4)"
    assert lines[2] == "['layer/kernel', 'layer/bias'] [[6, 4], [4]]"
    assert all("no_such" in line for line in lines[3:]) and len(lines) == 6
    assert [m.name for m in check(INTERNAL, "script.py")] == ["python.ops.math_ops.no_such_name"]


def test_names_of_a_module_with_a_folders_name() -> None:
    script = """
from tensorflow.python.framework import ops
from tensorflow.python.framework.ops import GraphKeys
from tensorflow.python.summary.summary import scalar
from tensorflow.python.summary import summary
print(ops.GraphKeys.UPDATE_OPS, GraphKeys.LOSSES, summary.FileWriter, ops.no_such_name, summary.no_such_name)
"""
    assert [m.name for m in check(script, "script.py")] == [
        "python.framework.ops.no_such_name",
        "python.summary.summary.no_such_name",
    ]


def test_a_check_finds_values_that_are_none() -> None:
    assert check("import tensorflow as tf\nx = y[tf.newaxis]\nz = tf.no_such_thing\n", "x.py")[0].line == 3


def test_generated_functions_have_tensorflows_names() -> None:
    from dtfctl.runtime.programs.counterparts.generated import snake_case

    names = {
        "MatMul": "mat_mul",
        "Conv2D": "conv2d",
        "Conv2DBackpropInput": "conv2d_backprop_input",
        "MaxPool3DGrad": "max_pool3d_grad",
        "L2Loss": "l2_loss",
        "BiasAddV1": "bias_add_v1",
        "FusedBatchNormV3": "fused_batch_norm_v3",
        "IFFT2D": "ifft2d",
        "TopKV2": "top_kv2",
        "LRN": "lrn",
    }
    assert {op: snake_case(op) for op in names} == names


def test_all_of_a_module_is_imported(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "nest = 'own'\n"
        "from tensorflow.python.ops.rnn_cell import *\n"
        "from tensorflow.contrib.rnn import *\n"
        "assert issubclass(GRUCell, RNNCell) and static_rnn\n"
        "assert nest == 'own'\n"
        "from tensorflow import *\n"
        "assert constant(1).dtype is int32\n"
    )
    done = run(str(script))
    assert done.returncode == 0, done.stderr


def test_a_check_leaves_out_what_a_script_sets_or_asks_for() -> None:
    source = """
import tensorflow as tf
tf.model = tf.keras.Sequential()
tf.model.add(tf.keras.layers.Dense(3))
setattr(tf.nn, "mine", 1)
print(tf.nn.mine, tf.nn.other)
if hasattr(tf, "rare"):
    tf.rare()
"""
    assert [(m.line, m.name) for m in check(source, "x.py")] == [(6, "nn.other")]


def test_a_check_knows_other_things_of_tensorflows_name() -> None:
    source = """
import tensorflow as tf
def local(tf):
    return tf.nothing
def assigned():
    tf = 3
    return lambda: tf.real
print(lambda tf: tf.nothing, [tf.nothing for tf in "abc"], tf.absent)
def imported():
    import tensorflow as tf
    return tf.absent_too
def shared():
    global tf
    tf = tf.compat.v1
    return tf.absent_as_well
"""
    assert [(m.line, m.name) for m in check(source, "x.py")] == [
        (8, "absent"),
        (11, "absent_too"),
        (15, "absent_as_well"),
    ]


MODULES = """
import tensorflow as tf
from tensorflow.contrib.linalg import LinearOperatorTriL
from tensorflow.contrib.tensorboard.plugins import projector
from tensorflow.python.layers.utils import constant_value, smart_cond
from tensorflow.python.ops import inplace_ops
from tensorflow.python.ops.init_ops_v2 import glorot_normal
from tensorflow.python.ops.lookup_ops import index_table_from_tensor, index_to_string_table_from_tensor
x = tf.zeros([3, 2])
one = inplace_ops.alias_inplace_update(x, 1, [1.0, 2.0])
more = inplace_ops.alias_inplace_add(one, [0, 1], tf.ones([2, 2]))
whole = inplace_ops.alias_inplace_sub(more, None, tf.ones([3, 2]))
words = index_to_string_table_from_tensor(["a", "b"]).lookup(tf.constant([1, 5], tf.int64))
chosen = smart_cond(tf.constant(True), lambda: 1, lambda: 2)
with tf.Session() as session:
    session.run(tf.tables_initializer())
    print(session.run([one, more, whole, words]), chosen, constant_value(tf.constant(0) > 1))
    print(session.run(glorot_normal(seed=1)((2, 3))).shape, projector.ProjectorConfig().embeddings, LinearOperatorTriL)
"""


def test_modules_that_few_programs_import(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(MODULES)
    done = run(str(script))
    assert done.returncode == 0, done.stderr
    assert "".join(done.stdout.split()).startswith(
        "[array([[0.,0.],[1.,2.],[0.,0.]],dtype=float32),array([[1.,1.],[2.,3.],[0.,0.]],dtype=float32),"
        "array([[0.,0.],[1.,2.],[-1.,-1.]],dtype=float32),array([b'b',b'UNK'],dtype=object)]1False(2,3)"
    )
    assert check(MODULES, "script.py") == []


def test_a_check_finds_what_is_missing_within_tensorflow_and_in_keras() -> None:
    source = """
import tensorflow as tf
from tensorflow.python.keras.utils import multi_gpu_model, to_categorical
from tensorflow.python.keras.utils.multi_gpu_utils import multi_gpu_model
from keras.utils import multi_gpu_model as parallel, np_utils
from keras.utils.np_utils import to_categorical as coded
from keras.engine.topology import Layer, Input
import keras.backend as K
print(K.epsilon(), K.no_such_function)
"""
    found = check(source, "x.py")
    assert [m.line for m in found] == [3, 4, 5, 9]
    assert all("tf.distribute.MirroredStrategy" in m.message for m in found[:3])
    assert found[3].name == "keras.backend.no_such_function"
