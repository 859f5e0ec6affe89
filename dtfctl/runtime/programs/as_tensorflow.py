"""`import tensorflow` means this front end.

A finder answers for `tensorflow` and all below it with modules that look names up here: `tensorflow.compat.v1` and
`tensorflow.nn` are the namespaces of `dtfctl.runtime`, `tensorflow.contrib.layers` is `dtfctl.contrib.layers`, and
`tensorflow.python.ops.rnn_cell_impl` offers what its counterpart here has, then every public name.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import pkgutil
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import dtfctl.runtime as tf
from dtfctl import protocol
from dtfctl.runtime.api import missing
from dtfctl.runtime.ops.ragged_ops.dispatch import taking_ragged
from dtfctl.runtime.programs.counterparts import generated

_SAME = ("compat.v1", "_api.v1", "compat.v1.compat.v1")
# Where TensorFlow's internal modules have their counterparts, and which public namespaces hold their names.
_PACKAGES = ("ops", "framework", "train", "platform", "client", "data", "api")
_NAMESPACES = (
    "nn",
    "train",
    "layers",
    "losses",
    "summary",
    "math",
    "linalg",
    "io",
    "saved_model",
    "graph_util",
    "data",
)
_RENAMED = {
    "all_util": "programs.counterparts.all_util",
    "array_grad": "programs.counterparts.gradient_functions",
    "basic_loops": "programs.counterparts.basic_loops",
    "builder": "programs.counterparts.saved_model_builder",
    "clustering_ops": "programs.counterparts.generated",
    "compat": "programs.counterparts.compat",
    "composite_tensor": "framework.composite",
    "confusion_matrix": "programs.counterparts.confusion_matrix",
    "control_flow_grad": "programs.counterparts.gradient_functions",
    "control_flow_ops": "programs.counterparts.control_flow_ops",
    "core_rnn_cell": "programs.counterparts.rnn_cell_impl",
    "core_rnn_cell_impl": "programs.counterparts.rnn_cell_impl",
    "critical_section_ops": "programs.counterparts.critical_section_ops",
    "data_flow_grad": "programs.counterparts.gradient_functions",
    "data_flow_ops": "programs.counterparts.data_flow_ops",
    "dataset_ops": "programs.counterparts.dataset_ops",
    "deprecation": "programs.counterparts.deprecation",
    "device": "framework.device_spec",
    "device_lib": "programs.counterparts.device_lib",
    "directives": "programs.counterparts.directives",
    "eager.context": "programs.counterparts.eager_context",
    "error_codes_pb2": "programs.counterparts.error_codes_pb2",
    "errors_impl": "api.errors",
    "feature_column_lib": "feature_column",
    "file_io": "programs.counterparts.file_io",
    "framework.config": "programs.counterparts.framework_config",
    "framework.ops": "programs.counterparts.graph_ops",
    "framework.test_util": "programs.counterparts.test_util",
    "freeze_graph": "programs.counterparts.freeze_graph",
    "function_utils": "programs.counterparts.function_utils",
    "global_shuffle_op": "programs.counterparts.random_access",
    "googletest": "api.test",
    "gradient_checker": "testing.gradient_checker",
    "gradient_checker_v2": "programs.counterparts.gradient_checker_v2",
    "gradients_impl": "framework.gradients",
    "image_grad": "programs.counterparts.gradient_functions",
    "image_ops": "api.image",
    "init_ops_v2": "programs.counterparts.init_ops_v2",
    "inplace_ops": "programs.counterparts.inplace_ops",
    "inspect_checkpoint": "programs.counterparts.inspect_checkpoint",
    "layers.utils": "programs.counterparts.layers_utils",
    "linalg_grad": "programs.counterparts.gradient_functions",
    "linear_operator_circulant": "programs.counterparts.linear_operator_circulant",
    "linear_operator_toeplitz": "programs.counterparts.linear_operator_circulant",
    "linear_operator_util": "programs.counterparts.linear_operator_util",
    "list_ops": "programs.counterparts.list_ops",
    "lookup_ops": "programs.counterparts.lookup_ops",
    "manip_grad": "programs.counterparts.gradient_functions",
    "map_ops": "programs.counterparts.map_ops",
    "math_grad": "programs.counterparts.gradient_functions",
    "math_ops": "programs.counterparts.math_ops",
    "metrics_impl": "api.metrics",
    "model_fn": "estimator",
    "nest": "framework.nest",
    "nn_grad": "programs.counterparts.gradient_functions",
    "nn_impl": "programs.counterparts.nn_ops",
    "nn_ops": "programs.counterparts.nn_ops",
    "numpy_compat": "programs.counterparts.numpy_compat",
    "ops.metrics": "api.metrics",
    "optimize_for_inference_lib": "programs.counterparts.optimize_for_inference_lib",
    "parallel_for.control_flow_ops": "programs.counterparts.parallel_for_control_flow",
    "parallel_for.gradients": "programs.counterparts.parallel_for_gradients",
    "random_access": "programs.counterparts.random_access",
    "random_crop_ops": "programs.counterparts.stateless_random_ops",
    "random_grad": "programs.counterparts.gradient_functions",
    "random_ops": "api.random",
    "random_seed": "programs.counterparts.random_seed",
    "resource_variable_ops": "programs.counterparts.resource_variable_ops",
    "resources": "programs.counterparts.resources",
    "rnn_cell": "programs.counterparts.rnn_cell_impl",
    "rnn_cell_impl": "programs.counterparts.rnn_cell_impl",
    "rnn_grad": "programs.counterparts.gradient_functions",
    "session": "programs.counterparts.session",
    "sparse_grad": "programs.counterparts.gradient_functions",
    "sparse_ops": "programs.counterparts.sparse_ops",
    "sparse_tensor": "programs.counterparts.sparse_tensor",
    "stateless_random_ops": "programs.counterparts.stateless_random_ops",
    "string_ops": "api.strings",
    "strip_unused_lib": "programs.counterparts.strip_unused_lib",
    "summary": "api.summary",
    "tensor_array_grad": "programs.counterparts.gradient_functions",
    "tensor_getitem_override": "programs.counterparts.tensor_getitem_override",
    "tensor_util": "framework.tensor_util",
    "test": "api.test",
    "tf2": "programs.counterparts.tf2",
    "tf_contextlib": "programs.counterparts.tf_contextlib",
    "tf_decorator": "programs.counterparts.tf_decorator",
    "tf_export": "programs.counterparts.tf_export",
    "tf_inspect": "programs.counterparts.tf_inspect",
    "tf_logging": "platform.tf_logging",
    "training.evaluation": "programs.counterparts.evaluation",
    "variable_v1": "programs.counterparts.variable_v1",
}
# Folders of TensorFlow's own modules: what is below any other name is no module but a name of it.
_FOLDERS = frozenset(
    {
        "autograph",
        "checkpoint",
        "client",
        "compiler",
        "core",
        "data",
        "datasets",
        "debug",
        "distribute",
        "distributions",
        "eager",
        "estimator",
        "example",
        "experimental",
        "feature_column",
        "framework",
        "grappler",
        "io",
        "keras",
        "lang",
        "layers",
        "learn",
        "lib",
        "linalg",
        "losses",
        "module",
        "nets",
        "ops",
        "parallel_for",
        "platform",
        "polymorphic_function",
        "profiler",
        "protobuf",
        "python",
        "ragged",
        "saved_model",
        "sharding",
        "signal",
        "slim",
        "sparse",
        "structured",
        "summary",
        "tools",
        "tpu",
        "trackable",
        "tracking",
        "train",
        "training",
        "types",
        "util",
        "utils",
        "writer",
        "xla",
    }
)


class Alias(ModuleType):
    """A module of TensorFlow's name whose attributes are those of modules here, the first that has one."""

    def __init__(self, name: str, path: str, targets: Sequence[Any]) -> None:
        super().__init__(name)
        self.__dict__["_path"] = path
        self.__dict__["_targets"] = tuple(targets)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return self._starred()
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        words = self._path.split(".")
        if words[0] in ("python", "core", "compiler") and len(words) <= 2 and words[-1] != "tf2":
            # `from tensorflow.python.framework import ops`: packages hold modules.
            return importlib.import_module(f"{self.__name__}.{name}")
        if words[0] == "python":
            public = _public_names().get(".".join([*words[1:], name]))
            found = None if public is None else _public(public)
            if found is not None:
                return found
        if f"{words[-1]}.{name}" in _RENAMED:
            return importlib.import_module(f"{self.__name__}.{name}")
        for target in self._targets:
            try:
                return taking_ragged(getattr(target, name))
            except AttributeError:
                continue
        full = f"{self._path}.{name}" if self._path else name
        # A name that TensorFlow's module would have, and that is not here, is no module.
        below = None if "python" in words else _find(full)
        if below is not None:
            return importlib.import_module(f"{self.__name__}.{name}")
        raise AttributeError(missing.explain(full))

    def _starred(self) -> list[str]:
        """List what `import *` takes: of an internal module what its counterpart has, not every public name."""
        first = self._targets[0]
        names = getattr(first, "__all__", None) or [
            n for n in dir(first) if not n.startswith("_") and not isinstance(getattr(first, n, None), ModuleType)
        ]
        return sorted(names)

    def __dir__(self) -> list[str]:
        return sorted({name for target in self._targets for name in dir(target)})


@functools.cache
def _public_names() -> dict[str, str]:
    """Read what is called otherwise, or stands elsewhere, than in the module of TensorFlow that defines it."""
    names: dict[str, str] = json.loads(Path(__file__).with_name("internal_names.json").read_text())
    return names


def _public(name: str) -> Any:
    """Return what `tf.NAME` is, None where it is not there."""
    found: Any = tf
    for word in name.split("."):
        found = getattr(found, word, None)
    return found


def _find(path: str) -> list[Any] | None:
    """Find what `tensorflow.PATH` is here: modules to look names up in, or None."""
    for prefix in _SAME:
        if path == prefix:
            return [tf]
        path = path.removeprefix(f"{prefix}.")
    words = path.split(".")
    if words[0] == "contrib":
        return _contrib(words)
    if words[0] in ("python", "core", "compiler"):
        return _internal(words)
    found: Any = tf
    for word in words:
        found = getattr(found, word, None)
    return [found] if isinstance(found, ModuleType) else None


def _module(name: str) -> list[Any] | None:
    try:
        return [importlib.import_module(name)]
    except ModuleNotFoundError:
        return None


def _contrib(words: list[str]) -> list[Any] | None:
    """Return the counterpart of a module of `tensorflow.contrib`.

    What is at `contrib.SPACE.python.SOMETHING` there is at `contrib.SPACE`, or in its module of the last name, here.
    """
    if "python" not in words:
        return _module(f"dtfctl.{'.'.join(words)}")
    if not _is_module(words):
        return None
    space = _module(f"dtfctl.{'.'.join(words[: words.index('python')])}")
    if space is None:
        return None
    own = space[0]
    for word in words[words.index("python") + 1 :]:
        below = getattr(own, word, None)
        own = below if isinstance(below, ModuleType) else own
    same = _module(f"dtfctl.contrib.{words[-1]}") or []
    return [own, *same, *space, tf.nn, tf.nn.rnn_cell]


def _is_module(words: list[str]) -> bool:
    """Tell whether a path within TensorFlow's own modules can be a module: below a folder."""
    if words[-1] == "python":
        return True
    # `framework.ops` and `summary.summary` are modules of a folder's name.
    above = words[-3:-1]
    return above[-1] in _FOLDERS and above != ["framework", "ops"] and above[0] != "".join(above[1:])


def _internal(words: list[str]) -> list[Any] | None:
    """Return the counterpart of a module of `tensorflow.python`, then the public names; None for what is no module."""
    last = words[-1]
    if last.startswith("gen_") and last.endswith(("_ops", "_ops_v2")):
        return [generated]
    if last.endswith("_pb2") and last not in _RENAMED:
        return _messages(last)
    own: list[Any] = []
    if len(words) > 2 or last in _RENAMED:
        # The modules of a folder whose names are all in one module here.
        below = "programs.counterparts.ragged" if words[-2:-1] == ["ragged"] else None
        renamed = _RENAMED.get(".".join(words[-2:])) or _RENAMED.get(last) or below
        candidates = [renamed] if renamed else [f"{package}.{last}" for package in _PACKAGES]
        for candidate in candidates:
            own = _module(f"dtfctl.runtime.{candidate}") or []
            if own:
                break
    # `tensorflow.python.saved_model.builder` is `tf.saved_model.builder`.
    space = _public(".".join(words[1:])) if len(words) > 1 else None
    if isinstance(space, ModuleType):
        own = [*own, space]
    # TensorFlow's modules have those that they import, too: `tensorflow.python.ops.rnn.rnn_cell_impl`. What is known to
    # be missing is none of them.
    if len(words) > 1 and not own and (not _is_module(words) or missing.is_known(".".join(words))):
        return None
    return [*own, tf, *(getattr(tf, n) for n in _NAMESPACES), _Passed(last)]


class _Passed:
    """What a module of TensorFlow passes on of `gen_math_ops` and its kin, and these themselves."""

    def __init__(self, module: str) -> None:
        self._names = frozenset(_generated_names().get(module, "").split())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("gen_") and name.endswith("_ops"):
            return importlib.import_module(f"tensorflow.python.ops.{name}")
        if name not in self._names:
            raise AttributeError(name)
        return getattr(generated, name)


@functools.cache
def _generated_names() -> dict[str, str]:
    """Read what modules within tensorflow.python.ops pass on, by their last name, as words."""
    names: dict[str, str] = json.loads(Path(__file__).with_name("generated_names.json").read_text())
    return {module.rpartition(".")[2]: words for module, words in names.items()}


def _messages(name: str) -> list[Any]:
    """Return the modules of messages here, that of a name first: what is in which file differs."""
    all_names = sorted(m.name for m in pkgutil.iter_modules(protocol.__path__) if m.name.endswith("_pb2"))
    return [importlib.import_module(f"dtfctl.protocol.{n}") for n in sorted(all_names, key=lambda n: n != name)]


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "tensorflow" and not fullname.startswith("tensorflow."):
            return None
        below = fullname.partition(".")[2]
        if below and _find(below) is None:
            raise ModuleNotFoundError(missing.explain(below), name=fullname)
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        below = spec.name.partition(".")[2]
        return Alias(spec.name, below, [tf] if not below else _find(below) or [])

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing: the module's names are looked up."""


# Modules of Keras 2 whose names are, in `tf.keras`, all in the module above; of `engine` in `layers` and `models`.
_KERAS_PARTS = {
    "layers": (
        "advanced_activations convolutional convolutional_recurrent core cudnn_recurrent embeddings local merge noise "
        "normalization pooling recurrent wrappers"
    ),
    "engine": "base_layer input_layer network sequential topology training",
    "utils": "data_utils generic_utils io_utils layer_utils np_utils vis_utils",
}


def _keras(path: str) -> list[Any] | None:
    """Find what a module of Keras 2 is in `tf.keras`: modules to look names up in, or None."""
    space, _, part = path.partition(".")
    keras = _public("keras")
    if space == "engine" and part in ("", *_KERAS_PARTS[space].split()):
        return [keras.layers, keras.models, keras]
    if part in _KERAS_PARTS.get(space, "").split():
        return [getattr(keras, space)]
    return _find(f"keras.{path}" if path else "keras")


def keras_name(module: str) -> str | None:
    """Return what `import keras...` means below `tf`, None for other modules, and where Keras is installed."""
    name, _, below = module.partition(".")
    if name != "keras" or importlib.util.find_spec("keras") is not None:
        return None
    space, _, part = below.partition(".")
    if space == "engine" and part in ("", *_KERAS_PARTS["engine"].split()):
        return "keras.layers" if part in ("base_layer", "input_layer", "topology", "") else "keras.models"
    return f"keras.{space if part in _KERAS_PARTS.get(space, '').split() else below}".rstrip(".")


class _KerasFinder(MetaPathFinder, Loader):
    """Answers for `keras` where no other finder has: Keras is not installed."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        name, _, below = fullname.partition(".")
        if name != "keras" or _keras(below) is None:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        below = spec.name.partition(".")[2]
        return Alias(spec.name, f"keras.{below}" if below else "keras", _keras(below) or [])

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing: the module's names are looked up."""


def install() -> None:
    """Let `import tensorflow`, and `import keras` where Keras is not installed, mean this front end from now on."""
    loaded = sys.modules.get("tensorflow")
    if loaded is not None and not isinstance(loaded, Alias):
        raise ImportError("TensorFlow has been imported already; start the program with `python -m dtfctl.run`")
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
        sys.meta_path.append(_KerasFinder())
