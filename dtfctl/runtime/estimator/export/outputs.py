"""What signatures give: predictions, classes, values."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf

DEFAULT = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY


class ExportOutput:
    """What one signature gives."""

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        """Make the signature from what it takes, tensors by name."""
        raise NotImplementedError(f"{type(self).__name__}.as_signature_def")


class PredictOutput(ExportOutput):
    """Tensors by name."""

    def __init__(self, outputs: Any) -> None:
        named = outputs if isinstance(outputs, dict) else {"output": outputs}
        for key, value in named.items():
            if not isinstance(key, str) or not tf.is_tensor(value):
                raise ValueError(f"Prediction outputs must be tensors by name; got {key}: {value}")
        self.outputs = dict(named)

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        return tf.saved_model.predict_signature_def(receiver_tensors, self.outputs)


class RegressionOutput(ExportOutput):
    """A floating tensor."""

    def __init__(self, value: Any) -> None:
        if not (tf.is_tensor(value) and value.dtype.is_floating):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self.value = value

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        return tf.saved_model.regression_signature_def(_examples(receiver_tensors), self.value)


class ClassificationOutput(ExportOutput):
    """Classes, as strings, their scores, or both."""

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        if scores is not None and not (tf.is_tensor(scores) and scores.dtype.is_floating):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not (tf.is_tensor(classes) and classes.dtype == tf.string):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        self.scores, self.classes = scores, classes

    def as_signature_def(self, receiver_tensors: dict[str, Any]) -> Any:
        return tf.saved_model.classification_signature_def(_examples(receiver_tensors), self.classes, self.scores)


def _examples(receivers: dict[str, Any]) -> Any:
    (examples,) = receivers.values() if len(receivers) == 1 else (None,)
    if examples is None or examples.dtype != tf.string:
        raise ValueError("a classification or regression takes one tensor of serialized tf.Examples")
    return examples


def with_default(outputs: dict[str, Any] | None, predictions: Any) -> dict[str, Any]:
    """Return outputs by name of which one is the default, made of the predictions where there are none.

    Raises:
        TypeError: one is no ExportOutput.
        ValueError: there are several, and none of them is the default.
    """
    if outputs is None:
        outputs = {DEFAULT: PredictOutput(predictions)}
    if not isinstance(outputs, dict):
        raise TypeError(f"export_outputs must be dict, given: {outputs}")
    for key, value in outputs.items():
        if not isinstance(value, ExportOutput):
            raise TypeError(f"Values in export_outputs must be ExportOutput objects. Given: {value} for key: {key}")
    if DEFAULT in outputs:
        return dict(outputs)
    if len(outputs) > 1:
        raise ValueError(
            f'Multiple export_outputs were provided, but none of them is specified as the default: "{DEFAULT}".'
        )
    (only,) = outputs.values()
    return {**outputs, DEFAULT: only}


def signatures(receiver_tensors: Any, outputs: dict[str, Any], alternatives: dict[str, Any] | None) -> dict[str, Any]:
    """Make the signatures of a SavedModel; those that cannot be made of what it takes are left out."""
    if not isinstance(receiver_tensors, dict):
        receiver_tensors = {"input": receiver_tensors}
    found: dict[str, Any] = {}
    for key, output in outputs.items():
        try:
            found[key] = output.as_signature_def(receiver_tensors)
        except ValueError as e:
            tf.logging.info("The signature %r is left out of the export: %s", key, e)
    for name, tensors in (alternatives or {}).items():
        tensors = tensors if isinstance(tensors, dict) else {"input": tensors}
        for key, output in outputs.items():
            try:
                found[f"{name}:{key}"] = output.as_signature_def(tensors)
            except ValueError as e:
                tf.logging.info("The signature %r is left out of the export: %s", f"{name}:{key}", e)
    return {key: made for key, made in found.items() if tf.saved_model.is_valid_signature(made)}
