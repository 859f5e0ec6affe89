"""`tf.keras.utils`."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.keras.enqueuers import (
    GeneratorEnqueuer as GeneratorEnqueuer,
    OrderedEnqueuer as OrderedEnqueuer,
    SequenceEnqueuer as SequenceEnqueuer,
)
from dtfctl.runtime.keras.node import node_of
from dtfctl.runtime.keras.preprocessing.image_files import (
    array_to_img as array_to_img,
    img_to_array as img_to_array,
    load_img as load_img,
    save_img as save_img,
)
from dtfctl.runtime.keras.preprocessing.sequence import pad_sequences as pad_sequences
from dtfctl.runtime.keras.progbar import Progbar as Progbar
from dtfctl.runtime.keras.registry import (
    CustomObjectScope as CustomObjectScope,
    custom_object_scope as custom_object_scope,
    deserialize_keras_object as deserialize_keras_object,
    get_custom_objects as get_custom_objects,
    get_registered_name as get_registered_name,
    get_registered_object as get_registered_object,
    register_keras_serializable as register_keras_serializable,
    serialize_keras_object as serialize_keras_object,
)
from dtfctl.runtime.keras.sequence import Sequence as Sequence


def to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> Any:
    """Make one-hot rows of numbers of classes: [...] -> [..., num_classes]."""
    y = np.array(y, dtype="int")
    shape = y.shape[:-1] if y.ndim > 1 and y.shape[-1] == 1 else y.shape
    flat = y.ravel()
    count = num_classes or int(np.max(flat)) + 1
    out = np.zeros((len(flat), count), dtype=dtype)
    out[np.arange(len(flat)), flat] = 1
    return out.reshape((*shape, count))


def to_ordinal(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> Any:
    """Make rows that say which numbers of classes are below each: [...] -> [..., num_classes - 1]."""
    y = np.array(y, dtype="int")
    shape = y.shape[:-1] if y.ndim > 1 and y.shape[-1] == 1 else y.shape
    count = num_classes or int(np.max(y)) + 1
    below = np.arange(count - 1) < y.reshape(-1, 1)
    return below.astype(dtype).reshape((*shape, count - 1))


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """Divide an array by its norm along an axis."""
    norms = np.atleast_1d(np.linalg.norm(x, order, axis))
    norms[norms == 0] = 1
    return x / np.expand_dims(norms, axis)


def get_source_inputs(tensor: Any, layer: Any = None, node_index: int | None = None) -> list[Any]:
    """List the inputs that a tensor of a functional model is computed from."""
    pending, found, seen = [node_of(tensor)], [], set()
    while pending:
        node = pending.pop(0)
        if node in seen:
            continue
        seen.add(node)
        if node.is_input:
            found.append(node.outputs)
        pending = [*node.parents, *pending]
    return found


def get_file(*args: Any, **kwargs: Any) -> str:
    """Fail: nothing is downloaded."""
    raise NotImplementedError(
        "tf.keras.utils.get_file downloads nothing here: fetch the file yourself and give its path"
    )


def plot_model(*args: Any, **kwargs: Any) -> None:
    """Fail: nothing is drawn."""
    raise NotImplementedError(
        "tf.keras.utils.plot_model draws nothing here: see Model.summary, or write the graph for TensorBoard"
    )
