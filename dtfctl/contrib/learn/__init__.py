"""`tf.contrib.learn`: what came before `tf.estimator`, as far as it is the same, and text as numbers."""

from __future__ import annotations

from typing import Any

from dtfctl.contrib.learn import datasets, preprocessing
from dtfctl.runtime.estimator import Estimator, RunConfig

__all__ = ["Estimator", "ModeKeys", "RunConfig", "datasets", "preprocessing"]


class ModeKeys:
    """What a model function is called for."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"

    @classmethod
    def validate(cls, key: Any) -> None:
        """Refuse another word.

        Raises:
            ValueError: it is none of them.
        """
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError(f"Invalid mode {key}.")
