"""`tf.distribute.experimental`."""

from __future__ import annotations

from dtfctl.runtime.pipelines.pipeline import Pipeline
from dtfctl.runtime.pipelines.placing import devices_along_links
from dtfctl.runtime.replication.reduce_op import (
    CollectiveCommunication,
    CommunicationImplementation,
    CommunicationOptions,
    Hints as CollectiveHints,
)
from dtfctl.runtime.strategies.balanced import BalancedBatch
from dtfctl.runtime.strategies.elastic import run_elastic
from dtfctl.runtime.strategies.hybrid import HybridStrategy
from dtfctl.runtime.strategies.multi_worker import MultiWorkerMirroredStrategy
from dtfctl.runtime.strategies.parameter_server import CentralStorageStrategy, ParameterServerStrategy
