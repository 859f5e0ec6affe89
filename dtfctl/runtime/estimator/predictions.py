"""Predictions: which ones, and those of each example of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def chosen(predictions: Any, keys: Any) -> Any:
    """Choose predictions by their keys; all of them when there are no keys."""
    if not keys:
        return predictions
    if not isinstance(predictions, dict):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    keys = [keys] if isinstance(keys, str) else keys
    found = {key: value for key, value in predictions.items() if key in keys}
    if not found:
        raise ValueError(f"Expected to run at least one output from {list(predictions)}, provided {keys}.")
    return found


def _length(batch: Mapping[str, Any]) -> int:
    lengths = {value.shape[0] for value in batch.values()}
    if len(lengths) != 1:
        raise ValueError(f"Batch length of predictions should be same. Got {lengths}.")
    return int(lengths.pop())


def examples(batch: Any) -> Iterator[Any]:
    """Yield the predictions of each example."""
    if isinstance(batch, dict):
        for i in range(_length(batch)):
            yield {key: value[i] for key, value in batch.items()}
    else:
        yield from batch
