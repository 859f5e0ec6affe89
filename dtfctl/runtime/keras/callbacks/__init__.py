"""`tf.keras.callbacks`: what is called while a model is trained."""

from __future__ import annotations

from dtfctl.runtime.keras.callbacks.base import (
    Callback as Callback,
    CallbackList as CallbackList,
    History as History,
    configure as configure,
)
from dtfctl.runtime.keras.callbacks.telling import (
    BaseLogger as BaseLogger,
    CSVLogger as CSVLogger,
    LambdaCallback as LambdaCallback,
    ProgbarLogger as ProgbarLogger,
    RemoteMonitor as RemoteMonitor,
    TensorBoard as TensorBoard,
)
from dtfctl.runtime.keras.callbacks.watching import (
    EarlyStopping as EarlyStopping,
    LearningRateScheduler as LearningRateScheduler,
    ModelCheckpoint as ModelCheckpoint,
    ReduceLROnPlateau as ReduceLROnPlateau,
    TerminateOnNaN as TerminateOnNaN,
)
