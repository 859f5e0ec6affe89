"""How values of several replicas become one, and what communication may be told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from dtfctl.runtime.compression import parse_codec
from dtfctl.runtime.ops.variables import VariableAggregation


class ReduceOp(Enum):
    """What one value is made of those of all replicas."""

    SUM = "SUM"
    MEAN = "MEAN"

    @staticmethod
    def from_variable_aggregation(aggregation: VariableAggregation) -> ReduceOp:
        """Return what a variable's aggregation does with values.

        Raises:
            ValueError: it makes no value of several.
        """
        if aggregation == VariableAggregation.SUM:
            return ReduceOp.SUM
        if aggregation == VariableAggregation.MEAN:
            return ReduceOp.MEAN
        raise ValueError(
            f"Could not convert from `tf.VariableAggregation` {aggregation} to`tf.distribute.ReduceOp` type"
        )


def as_reduce_op(value: Any) -> ReduceOp:
    """Return the ReduceOp of this name; one that is given stays as it is."""
    if isinstance(value, ReduceOp):
        return value
    try:
        return ReduceOp(str(getattr(value, "value", value)).upper())
    except ValueError:
        raise ValueError(f"A reduction is tf.distribute.ReduceOp.SUM or MEAN, not {value!r}") from None


class CommunicationImplementation(Enum):
    """What carries a collective out. AUTO chooses by size and group; RING passes pieces on in a ring."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


@dataclass(frozen=True, kw_only=True)
class CommunicationOptions:
    """What the collectives of a strategy may be told.

    Attributes:
        bytes_per_pack: gradients are reduced together up to this size, in bytes; 0 leaves it to the strategy.
        timeout_seconds: a collective that takes longer fails with DeadlineExceededError; None waits.
        implementation: what carries it out; or a function of yours, which is called with this process's values, one of
            each of its devices, and the group of all replicas, and returns the sums for these devices
            (docs/distributed-training.md).
        compression: the codec of sums of 32-bit floats between hosts ("bfloat16", "float16", "int8",
            "topk:ratio=0.01"); what it leaves out is added to the next ones. Within a host nothing is encoded.
    """

    bytes_per_pack: int = 0
    timeout_seconds: float | None = None
    implementation: CommunicationImplementation | Callable[..., Any] = CommunicationImplementation.AUTO
    compression: str = "none"

    def __post_init__(self) -> None:
        if self.bytes_per_pack < 0:
            raise ValueError(f"bytes_per_pack must be >=0, got {self.bytes_per_pack}")
        if callable(self.implementation):
            if self.compression != "none" or self.timeout_seconds is not None:
                raise ValueError(
                    "An implementation that is a function says compression and timeout_seconds itself, where it calls "
                    "all_reduce of a group: options=tf.distribute.experimental.CommunicationOptions(...)"
                )
        elif not isinstance(self.implementation, CommunicationImplementation):
            object.__setattr__(self, "implementation", CommunicationImplementation(self.implementation))
        if self.compression != "none":
            parse_codec(self.compression)

    def merge(self, options: CommunicationOptions | None) -> CommunicationOptions:
        """Return these options with what `options` says that is not its default."""
        if options is None:
            return self
        return CommunicationOptions(
            bytes_per_pack=options.bytes_per_pack or self.bytes_per_pack,
            timeout_seconds=self.timeout_seconds if options.timeout_seconds is None else options.timeout_seconds,
            implementation=self.implementation
            if options.implementation is CommunicationImplementation.AUTO
            else options.implementation,
            compression=self.compression if options.compression == "none" else options.compression,
        )


Hints = CommunicationOptions
CollectiveCommunication = CommunicationImplementation
