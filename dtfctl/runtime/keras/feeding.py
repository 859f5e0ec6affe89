"""Arrays as models take them: lists in the order of inputs and outputs, checked and weighed."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import losses
from dtfctl.runtime.ops.array_ops import placeholder


def input_for(value: Any, name: str) -> Any:
    """Make the placeholder that fits an array; a tensor is itself."""
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value)
    shape = [None, *array.shape[1:]] if array.ndim > 1 else [None, 1]
    dtype = as_dtype(array.dtype)
    return placeholder("float32" if dtype.is_floating else dtype, shape, name=name)


def _listed(data: Any, names: list[str], what: str) -> list[Any]:
    if data is None:
        return [None] * len(names)
    if isinstance(data, dict):
        missing = [n for n in names if n not in data]
        if missing:
            raise ValueError(f'No data provided for "{missing[0]}". Need data for each key in: {names}')
        return [data[n] for n in names]
    if isinstance(data, (list, tuple)):
        if len(names) == 1 and (not data or np.isscalar(data[0]) or len(data) != 1):
            return [data]
        if len(data) != len(names):
            raise ValueError(
                f"Error when checking model {what}: the list of Numpy arrays that you are passing to your model is not "
                f"the size the model expected. Expected to see {len(names)} array(s), for inputs {names} but instead "
                f"got a list of {len(data)} arrays"
            )
        return list(data)
    if len(names) != 1:
        raise ValueError(f"The model expects {len(names)} {what} arrays, but only received one array.")
    return [data]


def _array(value: Any, tensor: Any, name: str, what: str) -> Any:
    if hasattr(value, "values") and hasattr(value, "iloc"):
        value = value.values
    array = np.asarray(value)
    rank = tensor.shape.rank
    if array.ndim == 1 and rank not in (1, None):
        array = array[:, None]
    if rank is None:
        return array
    if array.ndim != rank:
        raise ValueError(
            f"Error when checking {what}: expected {name} to have {rank} dimensions, but "
            f"got array with shape {array.shape}"
        )
    known = tensor.shape.as_list()
    if any(k is not None and k != n for k, n in zip(known[1:], array.shape[1:])):
        raise ValueError(
            f"Error when checking {what}: expected {name} to have shape {tuple(known[1:])} but got array with shape "
            f"{array.shape[1:]}"
        )
    return array


def inputs(model: Any, x: Any) -> list[Any]:
    """List the arrays of the inputs that are fed."""
    fed = [
        (t, n)
        for t, n in zip(model.inputs, model.input_names)
        if not isinstance(t, Tensor) or t.op.type.startswith("Placeholder")
    ]
    if not fed:
        return []
    values = _listed(x, [n for _, n in fed], "input")
    if any(v is None for v in values):
        raise ValueError(f"No data was given for the input {fed[0][1]}")
    return [_array(v, t, n, "input") if isinstance(t, Tensor) else v for v, (t, n) in zip(values, fed)]


def batch(model: Any, x: Any, y: Any, sample_weight: Any = None, class_weight: Any = None) -> list[Any]:
    """List the arrays of inputs, targets and weights, as a step of the model takes them.

    Raises:
        ValueError: there are too few, or one has a shape that does not fit.
    """
    values = inputs(model, x)
    trained = [e for e in model._endpoints if e.loss is not None]
    fed = [e for e in trained if e.target.op.type == "Placeholder"]
    targets = _listed(y, [e.name for e in fed], "target") if fed else []
    arrays: list[Any] = []
    for e, target in zip(fed, targets):
        if target is None:
            raise ValueError(f"No target was given for the output {e.name}")
        array = np.asarray(target.values if hasattr(target, "iloc") else target)
        rank = e.output.shape.rank
        if rank is not None and array.ndim == rank - 1:
            array = np.expand_dims(array, -1)
        _check_target(e, array)
        arrays.append(array)
    sizes = {len(a) for a in (*values, *arrays)}
    if len(sizes) > 1:
        raise ValueError(
            "Input arrays should have the same number of samples as target arrays. Found "
            f"{len(values[0]) if values else 0} input samples and {len(arrays[0]) if arrays else 0} target samples."
        )
    given = _listed(sample_weight, [e.name for e in trained], "sample_weight")
    by_output = _by_output(class_weight or None, [e.name for e in trained])
    weights: list[Any] = []
    for e, weight, by_class, array in zip(trained, given, by_output, arrays or [None] * len(trained)):
        if by_class is not None:
            if array is None:
                raise ValueError("class_weight needs targets that are arrays")
            weights.append(_of_classes(by_class, array, weight, e.name))
        else:
            weights.append(None if weight is None else np.asarray(weight, np.float32))
    model._use_weights(weights)
    if model._weights_fed:
        count = sizes.pop() if sizes else 1
        for i, (e, weight) in enumerate(zip(trained, weights)):
            if weight is None:
                rank = e.sample_weight.shape.rank
                shape = (count,) if rank == 1 else arrays[i].shape[:2]
                weights[i] = np.ones(shape, np.float32)
        return [*values, *arrays, *weights]
    return [*values, *arrays]


def _check_target(e: Any, array: Any) -> None:
    function = getattr(e.loss, "fn", None)
    if function is losses.sparse_categorical_crossentropy or function is None:
        return
    if function is losses.categorical_crossentropy and array.shape[-1] == 1:
        raise ValueError(
            f"You are passing a target array of shape {array.shape} while using as loss `categorical_crossentropy`. "
            "`categorical_crossentropy` expects targets to be binary matrices (1s and 0s) of shape (samples, classes): "
            "use `tf.keras.utils.to_categorical`, or the loss `sparse_categorical_crossentropy`."
        )
    checked = (losses.mean_squared_error, losses.binary_crossentropy, losses.categorical_crossentropy)
    if function not in checked or e.output.shape.rank is None:
        return
    known = e.output.shape.as_list()
    if array.ndim != len(known) or any(k is not None and k != n for k, n in zip(known[1:], array.shape[1:])):
        raise ValueError(
            f"A target array with shape {array.shape} was passed for an output of shape {tuple(known)} while using as "
            f"loss `{function.__name__}`. This loss expects targets to have the same shape as the output."
        )


def _by_output(class_weight: Any, names: list[str]) -> list[Any]:
    """Give each output its weights of classes."""
    if isinstance(class_weight, (list, tuple)):
        if len(class_weight) != len(names):
            raise ValueError(f"class_weight has {len(class_weight)} entries, the model has the outputs {names}")
        return list(class_weight)
    if isinstance(class_weight, dict) and (len(names) > 1 or names[0] in class_weight):
        return [class_weight.get(name) for name in names]
    return [class_weight] * len(names)


def _of_classes(by_class: dict[int, float], y: Any, weight: Any, name: str) -> Any:
    if y.ndim > 2:
        raise ValueError(f"`class_weight` not supported for 3+ dimensional targets, as of {name}")
    classes = np.argmax(y, axis=1) if y.ndim == 2 and y.shape[1] > 1 else y.reshape(-1)
    found = np.asarray([by_class[c] for c in classes.astype(int) if c in by_class], np.float32)
    if len(found) != len(classes):
        missing = sorted(set(classes.tolist()) - set(by_class))
        raise ValueError(
            f"`class_weight` must contain all classes in the data. The classes {missing} exist but not in it"
        )
    return found if weight is None else found * np.asarray(weight, np.float32)


def cut(values: list[Any], indices: Any) -> list[Any]:
    """Take rows of arrays."""
    return [v[indices] for v in values]
