"""Write dtfctl/runtime/api/tensorflow_names.json: the names of tf.compat.v1, which those here are compared with.

TF_USE_LEGACY_KERAS=1 PYTHON_WITH_TENSORFLOW tools/list_tensorflow_names.py
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

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


def main() -> None:
    import tensorflow.compat.v1 as tf

    names = sorted({*names_of(tf), "__version__", "app", "app.flags", "app.run", "compat"})
    lines = ",\n".join(json.dumps(name) for name in names)
    TARGET.write_text(f'{{"tensorflow": {json.dumps(tf.__version__)}, "names": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
