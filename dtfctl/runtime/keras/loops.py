"""The loops of `fit`, `evaluate` and `predict`: over arrays, generators and datasets."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.errors import OutOfRangeError
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import feeding, state
from dtfctl.runtime.keras.callbacks import CallbackList, configure
from dtfctl.runtime.keras.sequence import Sequence


class Batches:
    """The batches of an epoch, each as a model's step takes it.

    Args:
        steps: how many an epoch has; None where only the end tells.
        samples: how many examples; None where they are counted in steps.
        make: begins an epoch.
        sized: whether callbacks see how many examples a batch has, and the mean of training weighs batches by that.

    Attributes:
        last: how many examples the last batch had.
    """

    def __init__(
        self,
        steps: int | None,
        samples: int | None,
        make: Callable[[], Iterator[tuple[int, list[Any]]]],
        sized: bool = False,
    ) -> None:
        self.steps, self.samples, self.make, self.sized = steps, samples, make, sized
        self.last = 1


def _is_iterative(x: Any) -> bool:
    return isinstance(x, (Dataset, Sequence)) or inspect.isgenerator(x) or (hasattr(x, "__next__"))


def _is_generated(x: Any) -> bool:
    return _is_iterative(x) and not isinstance(x, Dataset)


def _of_arrays(values: list[Any], batch_size: int, shuffle: Any, replicas: Any = None) -> Batches:
    count = len(values[0]) if values else 0
    steps = math.ceil(count / batch_size)
    if replicas is not None:
        replicas.check_batches(count, batch_size)

    def make() -> Iterator[tuple[int, list[Any]]]:
        indices = np.arange(count)
        order = replicas.order() if replicas is not None and shuffle else np.random
        if shuffle == "batch":
            whole = count // batch_size
            rows = indices[: whole * batch_size].reshape(whole, batch_size)
            order.shuffle(rows)
            indices = np.append(rows.flatten(), indices[whole * batch_size :])
        elif shuffle:
            order.shuffle(indices)
        for step in range(steps):
            chosen = indices[step * batch_size : (step + 1) * batch_size]
            # One batch is fed as it is, whatever the order.
            yield len(chosen), values if steps == 1 else feeding.cut(values, chosen)

    return Batches(steps, count, make, True)


def _beside(values: list[Any], trained: Batches) -> Batches:
    """Cut arrays of validation into batches as large as the last that a generator gave for training."""

    def make() -> Iterator[tuple[int, list[Any]]]:
        for indices in np.split(np.arange(len(values[0])), range(trained.last, len(values[0]), trained.last)):
            yield len(indices), feeding.cut(values, indices)

    return Batches(None, None, make, True)


def _of_tensors(values: list[Any], steps: int) -> Batches:
    def make() -> Iterator[tuple[int, list[Any]]]:
        for _ in range(steps):
            yield 1, values

    return Batches(steps, None, make)


def _prepare(model: Any, mode: str, item: Any, class_weight: Any = None) -> list[Any]:
    parts = item if isinstance(item, tuple) else (item,)
    if mode == "predict":
        model._ready(parts[0], False)
        return feeding.inputs(model, parts[0])
    if len(parts) not in (1, 2, 3):
        raise ValueError(f"Batches are (inputs, targets) or (inputs, targets, weights), not {len(parts)} values")
    x, y, weight = (*parts, None, None)[:3]
    model._ready(x, True)
    return feeding.batch(model, x, y, weight, class_weight)


def _of_dataset(model: Any, mode: str, dataset: Any, steps: int | None, class_weight: Any, forever: bool) -> Batches:
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    began = False

    def make() -> Iterator[tuple[int, list[Any]]]:
        nonlocal began
        session = state.get_session()
        if not (forever and began):
            session.run(iterator.initializer)
        began = True
        count = 0
        while steps is None or count < steps:
            try:
                item = session.run(element)
            except OutOfRangeError:
                if steps is not None:
                    raise ValueError(
                        f"Your dataset ran out of data after {count} of {steps} steps: it must give at least "
                        "steps_per_epoch * epochs batches. You may need to use the repeat() function."
                    ) from None
                return
            count += 1
            values = _prepare(model, mode, item if nest.is_nested(item) else (item,), class_weight)
            yield len(values[0]) if values else 1, values

    return Batches(steps, None, make)


def _passes(source: Any, shuffle: bool) -> Iterator[Any]:
    """Give the batches of a sequence, pass after pass; it learns when one is over."""
    while True:
        order = list(range(len(source)))
        if shuffle:
            random.shuffle(order)
        for count, index in enumerate(order, 1):
            item = source[index]
            if count == len(order):
                source.on_epoch_end()
            yield item


def _of_iterator(model: Any, mode: str, source: Any, steps: int | None, class_weight: Any, shuffle: Any) -> Batches:
    whole = isinstance(source, Sequence)
    if whole and steps is None:
        steps = len(source)
    if steps is None:
        raise ValueError("Please specify the number of steps via `steps_per_epoch` or `steps`: a generator has no end")

    # Training goes on in a sequence where the epoch before has ended; evaluation begins anew.
    passes = _passes(source, shuffle is True) if whole and mode == "train" else None

    def make() -> Iterator[tuple[int, list[Any]]]:
        items = passes or (_passes(source, False) if whole else source)
        for _ in range(steps or 0):
            item = next(items)
            values = _prepare(
                model, mode, tuple(item) if isinstance(item, list) and mode != "predict" else item, class_weight
            )
            yield len(values[0]) if values else 1, values

    return Batches(steps, None, make, True)


def _batches(
    model: Any,
    mode: str,
    x: Any,
    y: Any,
    weight: Any,
    class_weight: Any,
    batch_size: int | None,
    steps: int | None,
    shuffle: Any,
) -> Batches:
    if isinstance(x, Dataset):
        if y is not None:
            raise ValueError(
                "You passed a dataset as input `x`: it gives the targets as well, so `y` must not be given"
            )
        return _of_dataset(model, mode, x, steps, class_weight, steps is not None and mode == "train")
    if _is_iterative(x):
        return _of_iterator(model, mode, x, steps, class_weight, shuffle)
    symbolic = any(isinstance(t, Tensor) for t in nest.flatten(x))
    if symbolic:
        raise NotImplementedError(
            "tf.keras: tensors as data are given as tf.keras.Input(tensor=...) and compile(target_tensors=...), or as "
            "a tf.data.Dataset"
        )
    model._ready(x, mode != "predict")
    values = feeding.inputs(model, x) if mode == "predict" else feeding.batch(model, x, y, weight, class_weight)
    if not values or steps is not None:
        if steps is None:
            raise ValueError("If your data is in the form of symbolic tensors, you should specify `steps_per_epoch`.")
        return _of_tensors(values, steps)
    return _of_arrays(values, batch_size or 32, shuffle, model._replicas if mode != "predict" else None)


def _run_epoch(
    model: Any, mode: str, batches: Batches, callbacks: CallbackList, epoch: Iterator[tuple[int, list[Any]]]
) -> list[Any]:
    """Run the steps of one epoch; returns the mean loss and what the metrics came to."""
    results: list[Any] = []
    weight = step = 0
    # A mean of evaluation is one of steps where the examples are not counted beforehand.
    by_steps = not batches.sized or (batches.samples is None and mode == "test")
    for step, (size, values) in enumerate(epoch):
        batches.last = size
        logs: dict[str, Any] = {"batch": step, "size": size if batches.sized else 1}
        callbacks.on_batch_begin(mode, step, logs)
        outs = model._step(mode, values)
        share = 1 if by_steps else size
        weight += share
        results = [(results[0] if results else 0.0) + outs[0] * share, *outs[1:]]
        callbacks.on_batch_end(mode, step, {**logs, **_logged(model, outs)})
        if model.stop_training and mode == "train":
            break
    if not results:
        raise ValueError("Empty training data.")
    if batches.steps is None:
        batches.steps = step + 1
    return [results[0] / weight, *results[1:]]


def _logged(model: Any, values: Any) -> dict[str, Any]:
    """Name losses and metrics, as plain numbers where they are numbers: programs write histories down as JSON."""
    pairs = zip(model.metrics_names, values)
    return {name: float(value) if np.ndim(value) == 0 else value for name, value in pairs}


def fit(
    model: Any,
    x: Any,
    y: Any,
    *,
    batch_size: int | None,
    epochs: int,
    verbose: int,
    callbacks: Any,
    validation_split: float,
    validation_data: Any,
    shuffle: Any,
    class_weight: Any,
    sample_weight: Any,
    initial_epoch: int,
    steps_per_epoch: int | None,
    validation_steps: int | None,
    validation_freq: Any,
) -> Any:
    """Train a model; see `Model.fit`."""
    batches = None
    held_out: Batches | None = None
    if validation_data is not None:
        data = validation_data
        if isinstance(data, (tuple, list)):
            vx, vy, vw = (*data, None)[:3]
        else:
            vx, vy, vw = data, None, None
        if not _is_iterative(x):
            model._ready(x, True)
        batches = _batches(model, "train", x, y, sample_weight, class_weight, batch_size, steps_per_epoch, shuffle)
        if _is_generated(x) and not _is_iterative(vx) and model._replicas is None:
            model._ready(vx, True)
            held_out = _beside(feeding.batch(model, vx, vy, vw, None), batches)
        else:
            # TensorFlow draws an order for it too: NumPy's generator goes on alike.
            held_out = _batches(model, "test", vx, vy, vw, None, batch_size, validation_steps, True)
        if not _is_iterative(x) and model._weights_fed:
            batches = _batches(model, "train", x, y, sample_weight, class_weight, batch_size, steps_per_epoch, shuffle)
    elif validation_split and 0.0 < validation_split < 1.0:
        if _is_iterative(x):
            raise ValueError("`validation_split` is only supported for arrays; give `validation_data`")
        model._ready(x, True)
        values = feeding.batch(model, x, y, sample_weight, class_weight)
        at = int(len(values[0]) * (1.0 - validation_split))
        held_out = _of_arrays([v[at:] for v in values], batch_size or 32, True, model._replicas)
        batches = _of_arrays([v[:at] for v in values], batch_size or 32, shuffle, model._replicas)
    else:
        batches = _batches(model, "train", x, y, sample_weight, class_weight, batch_size, steps_per_epoch, shuffle)
    if not _is_iterative(x):
        model._function("train")
    if verbose and batches.samples is not None:
        held = f", validate on {held_out.samples} samples" if held_out is not None and held_out.samples else ""
        print(f"Train on {batches.samples} samples{held}")
    watchers = configure(
        callbacks,
        model,
        do_validation=held_out is not None,
        batch_size=batch_size,
        epochs=epochs,
        steps=batches.steps,
        samples=batches.samples,
        verbose=verbose,
    )
    model.stop_training = False
    watchers.on_begin("train")
    for epoch in range(initial_epoch, epochs):
        if model.stop_training:
            break
        model.reset_metrics()
        watchers.on_epoch_begin(epoch, {})
        results = _run_epoch(model, "train", batches, watchers, batches.make())
        logs = _logged(model, results)
        if held_out is not None and _validates(validation_freq, epoch) and not model.stop_training:
            model.reset_metrics()
            watchers.on_begin("test")
            found = _run_epoch(model, "test", held_out, watchers, held_out.make())
            watchers.on_end("test")
            logs |= {f"val_{name}": value for name, value in _logged(model, found).items()}
        watchers.on_epoch_end(epoch, logs)
    watchers.on_end("train")
    return model.history


def _validates(frequency: Any, epoch: int) -> bool:
    if isinstance(frequency, int):
        return (epoch + 1) % frequency == 0
    return epoch + 1 in frequency


def evaluate(
    model: Any, x: Any, y: Any, batch_size: Any, verbose: int, sample_weight: Any, steps: Any, callbacks: Any
) -> Any:
    """Compute loss and metrics; see `Model.evaluate`."""
    batches = _batches(model, "test", x, y, sample_weight, None, batch_size, steps, False)
    watchers = configure(callbacks, model, samples=batches.samples, steps=batches.steps, verbose=verbose, mode="test")
    if model._endpoints:
        model.reset_metrics()
    watchers.on_begin("test")
    epoch = batches.make()
    if not model._endpoints:
        epoch = _first_ready(model, epoch)
    results = _run_epoch(model, "test", batches, watchers, epoch)
    watchers.on_end("test")
    return results[0] if len(results) == 1 else results


def _first_ready(model: Any, epoch: Iterator[tuple[int, list[Any]]]) -> Iterator[tuple[int, list[Any]]]:
    for index, item in enumerate(epoch):
        if index == 0:
            model.reset_metrics()
        yield item


def predict(model: Any, x: Any, batch_size: Any, verbose: int, steps: Any, callbacks: Any) -> Any:
    """Compute the outputs; see `Model.predict`."""
    batches = _batches(model, "predict", x, None, None, None, batch_size, steps, False)
    watchers = configure(callbacks, model, samples=batches.samples, steps=batches.steps, verbose=0, mode="predict")
    watchers.on_begin("predict")
    found: list[list[Any]] = []
    for step, (size, values) in enumerate(batches.make()):
        logs = {"batch": step, "size": size}
        watchers.on_batch_begin("predict", step, logs)
        found.append(model._step("predict", values))
        watchers.on_batch_end("predict", step, {**logs, "outputs": found[-1]})
    watchers.on_end("predict")
    outputs = [np.concatenate(parts) if len(parts) > 1 else parts[0] for parts in zip(*found)]
    return outputs[0] if len(outputs) == 1 else outputs
