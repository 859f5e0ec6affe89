"""Workers in step that share out each batch by how fast they are."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import variable_scope
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.init_ops import zeros_initializer
from dtfctl.runtime.ops.variables import VariableAggregation, VariableSynchronization
from dtfctl.runtime.replication import contexts


class BalancedBatch:
    """Shares of a batch by measured step time: a worker that computes half as fast gets half as many examples.

    The batch, and so the step and its learning rate, stay what they are: with a loss divided by the size of the whole
    batch the weights are those of one device. How long each worker computes for an example is measured in each step,
    from when it has its share to when it has its gradients; all tell each other in the next step, before they take
    their shares, so all cut at the same places, also after one of them has begun anew.

    `part` and then `minimize` are called within a replica, once each; every worker has one, and gets whole batches.

    Args:
        strategy: `MultiWorkerMirroredStrategy`, or one with a single replica.
        newest: what the newest step counts in the mean of times, above 0 and up to 1.
        least: examples that each worker gets at least.

    Raises:
        ValueError: an argument is out of range. NotImplementedError: a worker has several devices.
    """

    def __init__(self, strategy: Any, newest: float = 0.3, least: int = 1) -> None:
        if not 0 < newest <= 1:
            raise ValueError(f"The newest step counts above 0 and up to 1, not {newest}")
        if least < 1:
            raise ValueError(f"Each worker gets one example at least, not {least}")
        if len(strategy.extended.worker_devices) > 1:
            raise NotImplementedError("Batches are shared out to workers with one device each, not with several")
        self._strategy, self._newest, self._least = strategy, newest, least
        self._began: Tensor | None = None
        self._rows: Tensor | None = None
        self._seconds: Any = None

    def part(self, batch: Any) -> Any:
        """Take this worker's share of a whole batch.

        Args:
            batch: a structure of tensors whose first dimension is the batch, the same in all workers.
        """
        replica = contexts.get_replica_context()
        if replica is None:
            raise RuntimeError("`part` is called within a replica: in a function given to `strategy.run`")
        flat = [convert_to_tensor(v) for v in nest.flatten(batch)]
        self._seconds = variable_scope.get_variable(
            "balanced_batch/seconds_per_example",
            [],
            dtypes.float64,
            zeros_initializer(),
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
            synchronization=VariableSynchronization.ON_READ,
            aggregation=VariableAggregation.ONLY_FIRST_REPLICA,
        )
        own = apply_op("Reshape", tensor=self._seconds.read_value(), shape=convert_to_tensor([1], dtypes.int32))
        every = replica.all_gather(own, axis=0)
        first, last = self._bounds(every, _rows(flat[0]), replica.replica_id_in_sync_group)
        graph = context.get_default_graph()
        with graph.control_dependencies([first, last]):
            self._began = apply_op("Timestamp")
        with graph.control_dependencies([self._began]):
            parts = [_slice(tensor, first, last) for tensor in flat]
            self._rows = apply_op("Sub", x=last, y=first)
        return nest.pack_sequence_as(batch, parts)

    def minimize(self, optimizer: Any, loss: Any, global_step: Any = None, var_list: Any = None) -> Any:
        """Make an op that does one step towards a smaller loss, and measures it.

        Args:
            loss: this worker's share of the whole batch's: the sum over its examples, divided by the whole batch.

        Raises:
            RuntimeError: `part` was not called before.
        """
        if self._began is None or self._rows is None:
            raise RuntimeError("A BalancedBatch measures from `part(batch)` on: call that before `minimize`")
        pairs = optimizer.compute_gradients(loss, var_list=var_list)
        found = [g.values if isinstance(g, IndexedSlices) else g for g, _ in pairs if g is not None]
        graph = context.get_default_graph()
        with graph.control_dependencies(found):
            ended = apply_op("Timestamp")
        rows = apply_op("Cast", x=self._rows, DstT=dtypes.float64)
        now = apply_op("RealDiv", x=apply_op("Sub", x=ended, y=self._began), y=rows)
        before = self._seconds.read_value()
        mixed = before * (1 - self._newest) + now * self._newest
        known = apply_op("Greater", x=before, y=convert_to_tensor(0.0, dtypes.float64))
        kept = self._seconds.assign(apply_op("SelectV2", condition=known, t=mixed, e=now), read_value=False)
        return group(optimizer.apply_gradients(pairs, global_step=global_step), kept)

    def _bounds(self, seconds: Tensor, rows: Tensor, which: int) -> tuple[Tensor, Tensor]:
        """Return the first row of a worker, and that of the next one."""
        workers = self._strategy.num_replicas_in_sync
        zero, one = convert_to_tensor(0.0, dtypes.float64), convert_to_tensor(1.0, dtypes.float64)
        known = apply_op("Greater", x=seconds, y=zero)
        speeds = apply_op("DivNoNan", x=apply_op("OnesLike", x=seconds), y=seconds)
        count = apply_op("Sum", input=apply_op("Cast", x=known, DstT=dtypes.float64), reduction_indices=[0])
        # Who has not been measured is taken to be like the others.
        mean = apply_op("DivNoNan", x=apply_op("Sum", input=speeds, reduction_indices=[0]), y=count)
        mean = apply_op("SelectV2", condition=apply_op("Greater", x=mean, y=zero), t=mean, e=one)
        speeds = apply_op("SelectV2", condition=known, t=speeds, e=mean)
        sums = apply_op("Cumsum", x=speeds, axis=convert_to_tensor(0, dtypes.int32))
        whole = apply_op("Sum", input=speeds, reduction_indices=[0])
        left = apply_op("Cast", x=rows - workers * self._least, DstT=dtypes.float64)
        enough = apply_op("GreaterEqual", x=rows, y=convert_to_tensor(workers * self._least, dtypes.int32))
        said = f"A batch has fewer examples than {workers} workers get at least ({self._least} each); it has"
        with context.get_default_graph().control_dependencies(
            [make_op("Assert", condition=enough, data=[convert_to_tensor(said), rows])]
        ):
            ends = [
                convert_to_tensor(0, dtypes.int32),
                *(
                    apply_op("Cast", x=apply_op("Floor", x=left * sums[i] / whole + 0.5), DstT=dtypes.int32)
                    + (i + 1) * self._least
                    for i in range(workers - 1)
                ),
                apply_op("Identity", input=rows),
            ]
        return ends[which], ends[which + 1]


def _rows(tensor: Tensor) -> Tensor:
    shape = apply_op("Shape", input=tensor)
    found: Tensor = apply_op("StridedSlice", input=shape, begin=[0], end=[1], strides=[1], shrink_axis_mask=1)
    return found


def _slice(tensor: Tensor, first: Tensor, last: Tensor) -> Tensor:
    one = convert_to_tensor([1], dtypes.int32)
    begin, end = (apply_op("Reshape", tensor=bound, shape=one) for bound in (first, last))
    part: Tensor = apply_op("StridedSlice", input=tensor, begin=begin, end=end, strides=one)
    if tensor.shape.rank is not None:
        part.set_shape([None, *tensor.shape.as_list()[1:]])
    return part
