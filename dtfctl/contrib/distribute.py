"""`tf.contrib.distribute`: what is `tf.distribute` now."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.api import distribute as _distribute

__all__ = ["CollectiveAllReduceStrategy", "MirroredStrategy", "OneDeviceStrategy"]

CollectiveAllReduceStrategy = _distribute.experimental.MultiWorkerMirroredStrategy
MirroredStrategy = _distribute.MirroredStrategy
OneDeviceStrategy = _distribute.OneDeviceStrategy


def __getattr__(name: str) -> Any:
    return getattr(_distribute, name)
