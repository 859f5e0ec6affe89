"""`tf.distribute`."""

from __future__ import annotations

from dtfctl.runtime.api.distribute import experimental
from dtfctl.runtime.replication.contexts import (
    experimental_set_strategy,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)
from dtfctl.runtime.replication.loss_scaling import get_loss_reduction
from dtfctl.runtime.replication.reduce_op import ReduceOp
from dtfctl.runtime.strategies.cross_device_ops import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    NcclAllReduce,
    ReductionToOneDevice,
)
from dtfctl.runtime.strategies.extended import StrategyExtended
from dtfctl.runtime.strategies.inputs import InputContext, InputReplicationMode
from dtfctl.runtime.strategies.mirrored_strategy import MirroredStrategy
from dtfctl.runtime.strategies.one_device import OneDeviceStrategy
from dtfctl.runtime.strategies.replica_context import ReplicaContext
from dtfctl.runtime.strategies.strategy import Strategy
from dtfctl.runtime.train import cluster_resolver
from dtfctl.runtime.train.server_lib import Server
