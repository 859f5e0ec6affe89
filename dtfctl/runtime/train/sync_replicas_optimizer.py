"""`SyncReplicasOptimizer`: gradients of several replicas averaged into one update.

Each variable has an accumulator beside it. Workers add their gradients, stamped with the step they were computed for;
the accumulator drops those that are stale. The chief waits for `replicas_to_aggregate` gradients of each variable,
applies their average, advances the global step and hands out as many tokens as there are replicas; a worker starts its
next step when it gets one. With more replicas than gradients wanted, the slowest are backups (Chen et al., 2016).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.op_defs.control import no_op
from dtfctl.runtime.ops.transfer_compression import compressed_gradient
from dtfctl.runtime.ops.variable_collections import global_variables, report_uninitialized_variables
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train.optimizer import GradAndVar, Optimizer
from dtfctl.runtime.train.queue_runner import QueueRunner
from dtfctl.runtime.train.session_run_hook import SessionRunHook


class _Queue:
    """The little of a FIFO queue that the token protocol needs."""

    def __init__(self, dtype: Any, capacity: int, shared_name: str) -> None:
        self._dtype = dtype
        self.queue_ref: Tensor = apply_op(
            "FIFOQueueV2",
            component_types=[dtype],
            shapes=[[]],
            capacity=capacity,
            shared_name=shared_name,
            name=shared_name,
        )

    @property
    def name(self) -> str:
        return self.queue_ref.op.name

    def dequeue(self) -> Tensor:
        (value,) = apply_op_outputs("QueueDequeueV2", handle=self.queue_ref, component_types=[self._dtype])
        value.set_shape([])
        return value

    def enqueue_many(self, values: Tensor) -> Operation:
        return make_op("QueueEnqueueManyV2", handle=self.queue_ref, components=[values])

    def close(self, cancel_pending_enqueues: bool = False) -> Operation:
        return make_op("QueueCloseV2", handle=self.queue_ref, cancel_pending_enqueues=cancel_pending_enqueues)


class _UpdateRunner(QueueRunner):
    """Runs the chief's updates.

    When training stops, an update waits for gradients that no worker will send. Closing the session ends it; waiting
    for it first would only hold up the end by a coordinator's grace period.
    """

    _awaited_on_stop = False


class SyncReplicasOptimizer(Optimizer):
    """Wraps an optimizer for synchronous training between graphs.

    Args:
        opt: applies the averaged gradients.
        replicas_to_aggregate: gradients in one update; total_num_replicas: workers, more of them are backups.
        variable_averages, variables_to_average: moving averages updated with each step.
    """

    def __init__(
        self,
        opt: Optimizer,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        total = replicas_to_aggregate if total_num_replicas is None else total_num_replicas
        super().__init__(use_locking, name)
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = total
        self._tokens_per_step = max(total, replicas_to_aggregate)
        self._variable_averages, self._variables_to_average = variable_averages, variables_to_average
        self._global_step: Any = None
        self._gradients_applied = False
        self._chief_queue_runner: QueueRunner | None = None
        self._accumulators: list[tuple[Tensor, str, bool]] = []
        self._set_step_ops: list[Operation] = []

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[GradAndVar]:
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(  # type: ignore[override]
        self, grads_and_vars: Iterable[GradAndVar], global_step: Any = None, name: str | None = None
    ) -> Any:
        """Make an op for every worker: it adds its gradients and waits for a token of the next step.

        Raises:
            ValueError: there are no gradients or no global step.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        self._global_step = global_step
        graph = context.get_default_graph()
        # Beside the worker, not on a ps: a name of its own for each worker keeps them apart all the same.
        with graph.device(_worker_device(graph)):
            self._local_step = Variable(
                constant(0, dtypes.int64),
                trainable=False,
                collections=[GraphKeys.LOCAL_VARIABLES],
                name="sync_rep_local_step",
            )
        local_step: Tensor = self._local_step._as_graph_element()
        self.local_step_init_op = self._local_step.assign(_int64(global_step.value()), read_value=False)
        self.chief_init_op = self.local_step_init_op
        self.ready_for_local_init_op = report_uninitialized_variables(global_variables())
        aggregated: list[GradAndVar] = []
        train_ops: list[Operation] = []
        with graph.name_scope(self._name):
            for i, (grad, var) in enumerate(pairs):
                with graph.device(var.device):
                    if grad is None:
                        aggregated.append((None, var))
                    elif isinstance(grad, IndexedSlices):
                        aggregated.append((self._sparse(grad, var, local_step, train_ops, i), var))
                    else:
                        grad = compressed_gradient(var, grad, self._opt)
                        aggregated.append((self._dense(grad, var, local_step, train_ops, i), var))
            with graph.device(global_step.device), graph.name_scope(""):
                update_op = self._opt.apply_gradients(aggregated, global_step)
            with graph.device(global_step.device):
                tokens = _Queue(dtypes.int64, -1, "sync_token_q")
                self._sync_token_queue = tokens
            with graph.device(global_step.device), graph.control_dependencies(train_ops):
                token = tokens.dequeue()
            train_op = self._local_step.assign(token, read_value=False)
            with graph.control_dependencies([update_op]), graph.device(global_step.device):
                step_tokens = apply_op("Fill", dims=[self._tokens_per_step], value=_int64(global_step.read_value()))
                sync_op = tokens.enqueue_many(step_tokens)
            if self._variable_averages is not None:
                with graph.control_dependencies([sync_op]):
                    sync_op = self._variable_averages.apply(self._variables_to_average)
            with graph.device(global_step.device):
                dummy = _Queue(dtypes.int32, 1, "dummy_queue")
            self._chief_queue_runner = _UpdateRunner(
                dummy, [sync_op], close_op=no_op("close_dummy"), cancel_op=tokens.close(cancel_pending_enqueues=True)
            )
            for handle, device, is_ref in self._accumulators:
                self._set_step(handle, device, is_ref)
            self.chief_init_op = group(self.local_step_init_op, *self._set_step_ops)
            self._gradients_applied = True
        return train_op

    def _set_step(self, handle: Tensor, device: str, is_ref: bool) -> None:
        with context.get_default_graph().device(device):
            step = _int64(self._global_step.value())
            op = "AccumulatorSetGlobalStep" if is_ref else "ResourceAccumulatorSetGlobalStep"
            self._set_step_ops.append(make_op(op, handle=handle, new_global_step=step, name="SetGlobalStep"))

    def _dense(self, grad: Tensor, var: Any, local_step: Tensor, train_ops: list[Operation], i: int) -> Tensor:
        dtype = grad.dtype.base_dtype
        handle = apply_op(
            "ResourceConditionalAccumulator",
            dtype=dtype,
            shape=var.shape,
            shared_name=f"{var.name}/grad_accum",
            name="conditional_accumulator",
        )
        train_ops.append(
            make_op("ResourceAccumulatorApplyGradient", handle=handle, local_step=local_step, gradient=grad)
        )
        self._accumulators.append((handle, var.device, False))
        taken: Tensor = apply_op(
            "ResourceAccumulatorTakeGradient", handle=handle, num_required=self._replicas_to_aggregate, dtype=dtype
        )
        taken.set_shape(var.shape)
        return taken

    def _sparse(
        self, grad: IndexedSlices, var: Any, local_step: Tensor, train_ops: list[Operation], i: int
    ) -> IndexedSlices:
        dtype = grad.dtype.base_dtype
        handle = apply_op("SparseConditionalAccumulator", dtype=dtype, shape=None, shared_name=f"{var.name}/grad_accum")
        train_ops.append(
            make_op(
                "SparseAccumulatorApplyGradient",
                handle=handle,
                local_step=local_step,
                gradient_indices=apply_op("Cast", x=grad.indices, DstT=dtypes.int64),
                gradient_values=grad.values,
                gradient_shape=[],
                has_known_shape=False,
            )
        )
        self._accumulators.append((handle, var.device, True))
        indices, values, _ = apply_op_outputs(
            "SparseAccumulatorTakeGradient", handle=handle, num_required=self._replicas_to_aggregate, dtype=dtype
        )
        shape = convert_to_tensor(var.shape.as_list(), dtypes.int64)
        return IndexedSlices(values, indices, shape)

    def get_chief_queue_runner(self) -> QueueRunner:
        """Return the threads only the chief runs: they apply the averages and hand out tokens.

        Raises:
            ValueError: `apply_gradients` was not called.
        """
        if not self._gradients_applied or self._chief_queue_runner is None:
            raise ValueError("Should be called after apply_gradients().")
        return self._chief_queue_runner

    def get_init_tokens_op(self, num_tokens: int = -1) -> Operation:
        """Tokens for the first step.

        Raises:
            ValueError: too few, or `apply_gradients` was not called.
        """
        if not self._gradients_applied:
            raise ValueError("get_init_tokens_op() should be called after apply_gradients().")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(f"Too few tokens to finish the first step: {num_tokens} (given) vs {needed} (needed)")
        graph = context.get_default_graph()
        if num_tokens <= 0:
            return no_op("no_init_tokens")
        with graph.device(self._global_step.device), graph.name_scope(self._name):
            tokens = apply_op("Fill", dims=[num_tokens], value=_int64(self._global_step.value()))
            return self._sync_token_queue.enqueue_many(tokens)

    def get_slot(self, var: Any, name: str) -> Any:
        return self._opt.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        return self._opt.get_slot_names()

    def variables(self) -> list[Any]:
        return self._opt.variables()

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> SyncReplicasHook:
        """Make the hook that initializes, and on the chief starts the queue runner."""
        return SyncReplicasHook(self, is_chief, num_tokens)


def _worker_device(graph: Any) -> str:
    """Return where an op that is no variable goes in the current device scopes."""
    with graph.control_dependencies(None):
        return no_op("sync_rep_worker").device


def _int64(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype.base_dtype is dtypes.int64 else apply_op("Cast", x=tensor, DstT=dtypes.int64)


class SyncReplicasHook(SessionRunHook):
    """Made by `SyncReplicasOptimizer.make_session_run_hook`."""

    def __init__(self, sync_optimizer: SyncReplicasOptimizer, is_chief: bool, num_tokens: int) -> None:
        self._optimizer, self._is_chief, self._num_tokens = sync_optimizer, is_chief, num_tokens

    def begin(self) -> None:
        optimizer = self._optimizer
        if not optimizer._gradients_applied:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be called before using the hook.")
        if self._is_chief:
            self._local_init = optimizer.chief_init_op
            self._ready = optimizer.ready_for_local_init_op
            self._runner = optimizer.get_chief_queue_runner()
            self._tokens = optimizer.get_init_tokens_op(self._num_tokens)
        else:
            self._local_init = optimizer.local_step_init_op
            self._ready = optimizer.ready_for_local_init_op

    def after_create_session(self, session: Any, coord: Any) -> None:
        missing = session.run(self._ready)
        if missing is not None and missing.size:
            names = ", ".join(m.decode() for m in missing)
            raise RuntimeError(f"Init operations did not make model ready for local_init. Not initialized: {names}")
        session.run(self._local_init)
        if self._is_chief:
            session.run(self._tokens)
            self._runner.create_threads(session, coord=coord, daemon=True, start=True)
