"""Functions whose arguments are not TensorFlow's, by name or pattern, with why."""

from __future__ import annotations

MADE_HERE = "programs do not make these themselves: the functions that do have TensorFlow's arguments"
SAME = "the default is another way to say the same"
SEVERAL = "takes several types of ops, by place"
KEYWORDS = "what it is given beyond these is a TypeError: nothing is ignored"

EXCEPTIONS: dict[str, str] = {
    "DType": MADE_HERE,
    "dtypes.DType": MADE_HERE,
    "Operation": MADE_HERE,
    "Tensor": MADE_HERE,
    "data.Dataset": MADE_HERE,
    "data.Iterator": MADE_HERE,
    "data.experimental.Optional": MADE_HERE,
    "distribute.StrategyExtended": MADE_HERE,
    "NoGradient": SEVERAL,
    "NotDifferentiable": SEVERAL,
    "RegisterGradient": SEVERAL,
    "no_gradient": SEVERAL,
    "data.Dataset.map_with_legacy_function": "is `map`, with its arguments in their order",
    "distribute.Strategy.make_input_fn_iterator": SAME,
    "distribute.cluster_resolver.TFConfigClusterResolver": KEYWORDS,
    "distribute.experimental.CollectiveHints": "is refused by place, and has compression and implementation by name",
    "distribute.experimental.CommunicationOptions": "is refused by place, and has compression by name",
    "distribute.experimental.MultiWorkerMirroredStrategy": SAME,
    "experimental.Optional": MADE_HERE,
    "flags.DEFINE_*": "flags are argparse's: what is absl's own is a TypeError",
    "flags.Flag": MADE_HERE,
    "flags.FLAGS": "is an object that parses a command line, as absl's is",
    "function": "no Python is rewritten into ops, whatever `autograph` says; the rest is a TypeError",
    "layers.BatchNormalization.call": "takes `training` among its keywords, with `tf.layers.batch_normalization`'s",
    "layers.Dropout.call": "takes `training` among its keywords, with `tf.layers.dropout`'s",
    "layers.InputSpec": KEYWORDS,
    "layers.Layer.add_*": "has the arguments of `tf.get_variable` after these, by name",
    "layers.Layer.apply": "inputs come first there too",
    "linalg.LinearOperatorCirculant*": SAME,
    "nn.rnn_cell.*": KEYWORDS,
    "profiler.profile": SAME,
    "sparse.split": SAME,
    "sparse_split": SAME,
    "test.TestCase.assertMultiLineEqual": KEYWORDS,
    "test.TestCase.assertProtoEqualsVersion": "the producer is compared if it is given: ours is not TensorFlow's",
    "test.TestCase.enter_context": "takes a context manager there too, which Python cannot say",
    "train.SyncReplicasOptimizer.get_slot*": "is the wrapped optimizer's, with its arguments",
    "train.export_meta_graph": KEYWORDS,
}
