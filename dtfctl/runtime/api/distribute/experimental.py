"""`tf.distribute.experimental`."""

from __future__ import annotations

from dtfctl.runtime.strategies.multi_worker import MultiWorkerMirroredStrategy
from dtfctl.runtime.strategies.parameter_server import CentralStorageStrategy, ParameterServerStrategy
from dtfctl.runtime.strategies.reduce_op import (
    CollectiveCommunication,
    CommunicationImplementation,
    CommunicationOptions,
    Hints as CollectiveHints,
)
