"""Exporters: when `train_and_evaluate` writes SavedModels."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from typing import Any

from dtfctl.runtime import api as tf


class Exporter:
    """Writes a SavedModel after an evaluation, if it finds it worth it."""

    @property
    def name(self) -> str:
        """The name of the folder it writes to."""
        raise NotImplementedError

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        """Write a model, or not; gives its folder or None."""
        raise NotImplementedError


class _Saving(Exporter):
    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ) -> None:
        self._name, self._receiver, self._extra, self._as_text = name, serving_input_receiver_fn, assets_extra, as_text

    @property
    def name(self) -> str:
        return self._name

    def _save(self, estimator: Any, export_path: str, checkpoint_path: str) -> Any:
        return estimator.export_saved_model(export_path, self._receiver, self._extra, self._as_text, checkpoint_path)


class FinalExporter(_Saving):
    """Writes one model, at the end."""

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        if not is_the_final_export:
            return None
        return self._save(estimator, export_path, checkpoint_path)


class LatestExporter(_Saving):
    """Writes a model after each evaluation and keeps the newest."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text)
        if exports_to_keep is not None and exports_to_keep <= 0:
            raise ValueError("`exports_to_keep`, if provided, must be positive number")
        self._keep = exports_to_keep

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        made = self._save(estimator, export_path, checkpoint_path)
        self._forget_old(export_path)
        return made

    def _forget_old(self, folder: str) -> None:
        if self._keep is None:
            return
        numbers = sorted(int(name) for name in os.listdir(folder) if name.isdigit())
        for number in numbers[: -self._keep]:
            shutil.rmtree(os.path.join(folder, str(number)))


def _loss_smaller(best_eval_result: Mapping[str, Any], current_eval_result: Mapping[str, Any]) -> bool:
    for result in (best_eval_result, current_eval_result):
        if not result or "loss" not in result:
            raise ValueError("eval_result cannot be empty, and must have a loss")
    return bool(best_eval_result["loss"] > current_eval_result["loss"])


class BestExporter(LatestExporter):
    """Writes a model whenever an evaluation is better than all before, also those of an earlier run.

    Args:
        compare_fn: whether the second result is better than the first; one whose loss is smaller when None.
        event_file_pattern: of the event files of earlier evaluations, below the model's folder.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: Callable[[], Any] | None = None,
        event_file_pattern: str | None = None,
        compare_fn: Callable[..., bool] = _loss_smaller,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ) -> None:
        if serving_input_receiver_fn is None:
            raise ValueError("`serving_input_receiver_fn` must be defined.")
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        self._compare, self._pattern = compare_fn, event_file_pattern
        self._best: Any = None
        self._looked = False

    def export(
        self, estimator: Any, export_path: str, checkpoint_path: str, eval_result: Any, is_the_final_export: bool
    ) -> Any:
        if not self._looked and self._pattern:
            self._best = self._earlier(os.path.join(estimator.model_dir, self._pattern))
        self._looked = True
        if self._best is not None and not self._compare(best_eval_result=self._best, current_eval_result=eval_result):
            return None
        self._best = eval_result
        return super().export(estimator, export_path, checkpoint_path, eval_result, is_the_final_export)

    def _earlier(self, pattern: str) -> Any:
        """Return the best result that earlier evaluations wrote down."""
        best = None
        for path in tf.gfile.Glob(pattern):
            for event in tf.train.summary_iterator(path):
                result = {v.tag: v.simple_value for v in event.summary.value if v.HasField("simple_value")}
                if "loss" in result and (
                    best is None or self._compare(best_eval_result=best, current_eval_result=result)
                ):
                    best = result
        return best
