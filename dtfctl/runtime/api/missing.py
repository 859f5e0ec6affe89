"""What is said of TensorFlow's names that are not here: what to use instead, and where that is written."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = "docs/coming-from-tensorflow-1.md"

# By name, or by a namespace for all below it; the longest that fits is said.
INSTEAD: dict[str, str] = {
    "audio": "scipy or soundfile, before feeding; `tf.audio` reads WAV files only",
    "autograph": "`tf.cond` and `tf.while_loop`",
    "compat": "`tf.compat.v1` and the conversions of `tf.compat`",
    "config": "`tf.ConfigProto`, given to the session",
    "contrib": "`dtfctl.contrib`, where it has the name, else `tf.layers`, `tf.nn` and `tf.train`",
    "contrib.boosted_trees": "gradient boosting of scikit-learn or XGBoost",
    "contrib.cudnn_rnn": "`tf.nn.rnn_cell` and `tf.nn.dynamic_rnn`, on a GPU too",
    "contrib.factorization": "scikit-learn's `KMeans`, `NMF` and `GaussianMixture`",
    "contrib.image": "`tf.image`",
    "contrib.framework": "the functions of `tf` and `tf.train`, and those of `contrib.framework` that are there",
    "contrib.layers": "`tf.layers`, `tf.feature_column`, and the layers of `contrib.layers` that are there",
    "contrib.opt": "the optimizers of `tf.train`, or a subclass of `tf.train.Optimizer`",
    "contrib.rnn": "the cells of `tf.nn.rnn_cell`, or a subclass of `tf.nn.rnn_cell.RNNCell`",
    "contrib.slim.nets": "the network written out with the layers of `contrib.slim`",
    "contrib.training": "`tf.data`, `tf.train`, and `contrib.slim.learning` or `contrib.slim.evaluation`",
    "contrib.learn": "`tf.estimator`; `contrib.learn.preprocessing` is there",
    "contrib.summary": "`tf.summary` and `tf.summary.FileWriter`",
    "contrib.tensor_forest": "scikit-learn's random forests",
    "contrib.tfprof": "`tf.profiler`",
    "contrib.tpu": "`contrib.tpu.TPUEstimator` with use_tpu=False: there are no TPUs here",
    "data": "`tf.data.Dataset` and its iterators",
    "debugging": "`tf.Assert`, `tf.check_numerics` and `tf.Print`",
    "distribute": "strategies as in docs/distributed-training.md",
    "dtypes": "`tf.as_dtype` and the types themselves",
    "enable_eager_execution": "`tf.Session`, or `dtfctl.runtime.eager`",
    "enable_v2_behavior": "`tf.Session`: programs here are TF1's",
    "errors": "`tf.errors.OpError` and its classes",
    "estimator.BaselineClassifier": "`tf.estimator.LinearClassifier` without columns that matter, or a constant",
    "estimator.BaselineEstimator": "`tf.estimator.LinearEstimator`, or a constant",
    "estimator.BaselineRegressor": "`tf.estimator.LinearRegressor`, or the labels' mean",
    "estimator.BoostedTreesClassifier": "gradient boosting of scikit-learn or XGBoost",
    "estimator.BoostedTreesEstimator": "gradient boosting of scikit-learn or XGBoost",
    "estimator.BoostedTreesRegressor": "gradient boosting of scikit-learn or XGBoost",
    "estimator.experimental": "`tf.estimator.LinearClassifier` with `tf.train.FtrlOptimizer` for LinearSDCA",
    "examples": "`tf.examples.tutorials.mnist.input_data`, which reads MNIST's files",
    "experimental": "`tf.raw_ops`, where it is an op",
    "flags": "`tf.app.flags`, which is argparse with absl's surface",
    "image": "`tf.image.resize_images` and the other functions of `tf.image`",
    "image.extract_patches": "`tf.image.extract_image_patches`",
    "image.non_max_suppression_padded": "`tf.image.non_max_suppression`",
    "io": "`tf.train` and `tf.gfile`",
    "keras": "what `tf.keras` has, or `tf.layers`, `tf.losses` and `tf.train`",
    "keras.applications": "the model written out, and `load_weights`",
    "keras.layers.DenseFeatures": "`tf.feature_column.input_layer`, whose result is fed to layers",
    "keras.utils.multi_gpu_model": "a model made in the scope of `tf.distribute.MirroredStrategy`",
    "keras.utils.multi_gpu_utils": "a model made in the scope of `tf.distribute.MirroredStrategy`",
    "keras.wrappers": "`tf.keras.Model` itself",
    "layers": "the functions of `tf.layers`, and `tf.nn`",
    "linalg": "the functions of `tf.linalg`",
    "lite": "`tf.graph_util` and `tf.saved_model`",
    "LMDBReader": "`tf.TFRecordReader`",
    "mlir": "`tf.Graph.as_graph_def`",
    "Module": "`tf.make_template` and variable scopes",
    "nn": "`tf.nn` and `tf.raw_ops`",
    "profiler": "options of `tf.profiler.profile`, which choose nodes by op, device and name",
    "quantization": "fake quantisation in `tf.quantization`",
    "experimental.DynamicRaggedShape": "`tf.RaggedTensor.shape`, `row_lengths` and `bounding_shape`",
    "io.RaggedFeature": "`tf.io.VarLenFeature`, and `tf.RaggedTensor.from_sparse` of what it gives",
    "random": "`tf.random_uniform` and the other functions of `tf.random`",
    "resource_loader": "`open`, beside `__file__`",
    "saved_model": "`tf.saved_model.simple_save`, `tf.saved_model.loader` and `tf.saved_model.builder`",
    "signal": "scipy.signal, before feeding",
    "strings": "`tf.strings` and `tf.string_split`",
    "summary": "`tf.summary.scalar`, `histogram`, `image`, `audio`, `text` and `merge_all`",
    "sysconfig": "docs/custom-ops.md: ops and kernels in Python",
    "test": "`tf.test.TestCase`, or pytest",
    "tpu": "CPUs and GPUs: there are no TPUs here",
    "train": "`tf.train.Saver` and the classes of `tf.train`",
    "train.warm_start": "`tf.train.init_from_checkpoint`",
    "types": "`tf.Tensor`",
    "wrap_function": "`tf.Graph` and `tf.import_graph_def`",
    # Names from before TensorFlow 1.0.
    "all_variables": "`tf.global_variables`",
    "batch_matmul": "`tf.matmul`",
    "concat_v2": "`tf.concat`",
    "histogram_summary": "`tf.summary.histogram`",
    "image_summary": "`tf.summary.image`",
    "merge_all_summaries": "`tf.summary.merge_all`",
    "merge_summary": "`tf.summary.merge`",
    "nn.bidirectional_rnn": "`tf.nn.static_bidirectional_rnn`",
    "nn.rnn": "`tf.nn.static_rnn`",
    "nn.seq2seq": "`dtfctl.contrib.legacy_seq2seq`",
    "pack": "`tf.stack`",
    "scalar_summary": "`tf.summary.scalar`",
    "train.SummaryWriter": "`tf.summary.FileWriter`",
    "unpack": "`tf.unstack`",
    # Names of TensorFlow 2.
    "optimizers": "`tf.keras.optimizers`, or the optimizers of `tf.train`",
    "random.set_seed": "`tf.set_random_seed`",
    "xla": "nothing: steps are compiled here without it",
}


@functools.cache
def tensorflow_names() -> frozenset[str]:
    """Return every public name of `tf.compat.v1` in TensorFlow 2.21, as "nn.relu"."""
    text = Path(__file__).with_name("tensorflow_names.json").read_text()
    return frozenset(json.loads(text)["names"])


def instead_of(name: str) -> str | None:
    """Return what to use in place of "nn.conv_transpose", or None where nothing is known."""
    words = name.split(".")
    for count in range(len(words), 0, -1):
        found = INSTEAD.get(".".join(words[:count]))
        if found is not None:
            return found
    return None


def is_known(name: str) -> bool:
    """Tell whether a name, public or of an internal module, is one of those listed with what to use in its place."""
    return name.removeprefix("python.") in INSTEAD


def explain(name: str) -> str:
    """Write what an error says of a name that is not here."""
    public = name.removeprefix("python.")
    advice = instead_of(name) or (
        instead_of(public) if is_known(public) or is_known(public.rpartition(".")[0]) else None
    )
    if name in tensorflow_names() or advice is not None:
        use = f"; use {advice}" if advice is not None else "; `tf.raw_ops` has every op by its type"
        return f"tf.{name} is not there{use} ({PAGE})"
    import difflib

    # Nobody means a private name: who asks for one looks whether it is there (inspection, mocks).
    is_private = name.rpartition(".")[2].startswith("_")
    close = [] if is_private else difflib.get_close_matches(name, tensorflow_names(), 1, 0.8)
    meant = f"; did you mean tf.{close[0]}?" if close else f" ({PAGE})"
    return f"tf.{name} is not there, and TensorFlow 2.21 has no such name in tf.compat.v1{meant}"


def say_what_is_missing(module: ModuleType, path: str) -> None:
    """Let a namespace answer for names that it does not have."""

    # What imports names when they are asked for.
    own = vars(module).get("__getattr__")

    def missing(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if own is None:
            raise AttributeError(explain(f"{path}.{name}"), name=name, obj=module)
        try:
            return own(name)
        except AttributeError as e:
            raise AttributeError(explain(f"{path}.{name}"), name=name, obj=module) from e

    if not getattr(own, "says_what_is_missing", False):
        missing.says_what_is_missing = True  # type: ignore[attr-defined]
        module.__getattr__ = missing  # type: ignore[method-assign]
