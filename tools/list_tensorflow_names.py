"""Write the names of tf.compat.v1, which those here are compared with, and those of its modules for what is public.

The first go to dtfctl/runtime/api/tensorflow_names.json; the second to dtfctl/runtime/programs/internal_names.json,
where "ops.math_ops.reduce_sum_v1" is "reduce_sum": only what has another name outside, or is in a namespace of few.
generated_names.json says which functions of gen_math_ops and its kin TensorFlow's other modules pass on, and
tests/unit/names/stock_arguments.json what arguments the first have, which a test compares ours with.

TF_USE_LEGACY_KERAS=1 PYTHON_WITH_TENSORFLOW tools/list_tensorflow_names.py
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "unit" / "names"))
import stock_arguments

TARGET = Path(__file__).resolve().parent.parent / "dtfctl" / "runtime" / "api" / "tensorflow_names.json"

# Other packages' names under TensorFlow's, and what no TF1 program has.
LEFT_OUT = ("app.", "compat", "lite", "raw_ops", "keras.applications", "keras.backend", "keras.datasets")
LEFT_OUT += ("keras.dtensor", "keras.estimator", "keras.experimental")


def names_of(module: ModuleType, prefix: str = "") -> set[str]:
    """Public names, with those of namespaces below."""
    found: set[str] = set()
    for word in dir(module):
        name = f"{prefix}{word}"
        if word.startswith("_") or name.startswith(LEFT_OUT):
            continue
        found.add(name)
        value = getattr(module, word, None)
        if isinstance(value, ModuleType) and value.__name__.startswith(("tensorflow", "tf_keras", "keras")):
            found |= names_of(value, f"{name}.")
    return found


INTERNAL = TARGET.parents[1] / "programs" / "internal_names.json"
GENERATED = INTERNAL.with_name("generated_names.json")

# Namespaces in which `import tensorflow.python...` looks for a name anyway (runtime.programs.as_tensorflow).
SEARCHED = ("", "nn", "train", "layers", "losses", "summary", "math", "linalg", "io", "saved_model", "graph_util")
SEARCHED += ("data",)


def internal_names(names: list[str]) -> dict[str, str]:
    """Find the public name of what TensorFlow's modules define, by module and name within tensorflow.python."""
    import tensorflow.compat.v1 as tf
    from tensorflow.python.util import tf_decorator

    public: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found: object = tf
        for word in name.split("."):
            found = getattr(found, word, None)
        if found is None or isinstance(found, ModuleType) or name.startswith("tpu"):
            continue
        real = tf_decorator.unwrap(found)[1]
        module, own = getattr(real, "__module__", None) or "", getattr(real, "__name__", None)
        if own and module.startswith("tensorflow.python."):
            public[f"{module.removeprefix('tensorflow.python.')}.{own}"].append(name)
    return {
        key: min(found, key=lambda name: (name.count("."), len(name), name))
        for key, found in sorted(public.items())
        if not any(n.rpartition(".")[0] in SEARCHED and n.rpartition(".")[2] == key.rpartition(".")[2] for n in found)
    }


def generated_names() -> dict[str, str]:
    """List by module, within tensorflow.python.ops, what it passes on of the functions made for ops, by words."""
    ops = "tensorflow.python.ops."
    modules = {name.removeprefix(ops): m for name, m in sys.modules.items() if name.startswith(ops)}
    made = {
        id(value): word
        for name, module in modules.items()
        if name.startswith("gen_")
        for word, value in vars(module).items()
        if word == word.lower() and not word.endswith("_eager_fallback")
        if getattr(value, "__module__", "") == f"{ops}{name}"
    }
    passed = {
        name: sorted(word for word, value in vars(module).items() if made.get(id(value)) == word)
        for name, module in sorted(modules.items())
        if not name.startswith("gen_") and name != "standard_ops"
    }
    return {name: " ".join(words) for name, words in passed.items() if words}


def main() -> None:
    import tensorflow.compat.v1 as tf

    names = sorted({*names_of(tf), "__version__", "app", "app.flags", "app.run", "compat"})
    lines = ",\n".join(json.dumps(name) for name in names)
    INTERNAL.write_text(json.dumps(internal_names(names), indent=0) + "\n")
    GENERATED.write_text(json.dumps(generated_names(), indent=0) + "\n")
    stock_arguments.write(tf, names)
    TARGET.write_text(f'{{"tensorflow": {json.dumps(tf.__version__)}, "names": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
