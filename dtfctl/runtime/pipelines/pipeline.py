"""`tf.distribute.experimental.Pipeline`: training with a model that is spread over several devices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.gradients import aggregate
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.variable_collections import trainable_variables
from dtfctl.runtime.pipelines import costs, schedules
from dtfctl.runtime.pipelines.backward import Backward
from dtfctl.runtime.pipelines.microbatches import Call, Calls, split
from dtfctl.runtime.pipelines.schedules import Schedule, Unit
from dtfctl.runtime.pipelines.stages import Devices, StagePart, parts_of, place, relevant_ops
from dtfctl.runtime.pipelines.units import chain
from dtfctl.runtime.replication import contexts


class PipelineStep(NamedTuple):
    """A step of a pipeline.

    Attributes:
        train_op: makes the step.
        loss: the whole batch's, before the step.
    """

    train_op: Any
    loss: Tensor


class Pipeline:
    """A model in stages, each on a device of its own, through which micro-batches go one behind the other.

    The graph is one, for one client: stages send each other activations and gradients as any devices do, gradients
    of all micro-batches are added up, and variables are updated once a step. So a step is that of one device with the
    whole batch, whichever schedule.

    Args:
        devices: the stages' devices, the first stage's first: tasks ("/job:worker/task:0"), or devices of one.
        microbatches: in how many parts each batch is cut.
        schedule: "1f1b" goes backwards as soon as there is a gradient; "gpipe" when all micro-batches have gone
            forwards, for which a stage holds the activations of all of them.
        recompute: compute a stage's activations again before its gradients, instead of holding them.
        cut: "devices" takes each op's stage from its device, as `pipeline.stage(i)` and `tf.device` give it; "measured"
            measures the ops of a micro-batch here, and cuts the model into stages that take about the same time.

    Raises:
        ValueError: there are no devices, two of them are the same, or another argument has no meaning.
    """

    def __init__(
        self,
        devices: Sequence[str],
        microbatches: int,
        schedule: str = "1f1b",
        recompute: bool = False,
        cut: str = "devices",
    ) -> None:
        self._devices = Devices(devices)
        if microbatches < 1:
            raise ValueError(f"A batch is cut into at least one micro-batch, not {microbatches}")
        try:
            self._schedule = Schedule(schedule.lower())
        except ValueError:
            names = " or ".join(repr(s.value) for s in Schedule)
            raise ValueError(f"There is no schedule {schedule!r}: take {names}") from None
        if cut not in ("devices", "measured"):
            raise ValueError(f"A model is cut by 'devices' or as 'measured', not by {cut!r}")
        self._microbatches, self._recompute, self._cut = microbatches, recompute, cut

    @property
    def devices(self) -> tuple[str, ...]:
        return self._devices.names

    @property
    def microbatches(self) -> int:
        return self._microbatches

    @property
    def ideal_bubble(self) -> float:
        """The part of a step in which a stage has nothing to do, if all stages take the same time."""
        return schedules.ideal_bubble(len(self.devices), self._microbatches)

    def stage(self, index: int) -> contextlib.AbstractContextManager[None]:
        """Place the ops made in a block on a stage's device.

        Raises:
            ValueError: there is no such stage.
        """
        if not 0 <= index < len(self.devices):
            raise ValueError(f"There is no stage {index}: the pipeline has stages 0 to {len(self.devices) - 1}")
        return context.get_default_graph().device(self.devices[index])

    def minimize(
        self,
        optimizer: Any,
        model: Callable[..., Any],
        args: Sequence[Any] = (),
        global_step: Any = None,
        var_list: Any = None,
        name: str | None = None,
    ) -> PipelineStep:
        """Make an op that does one step towards a smaller loss, with a batch.

        Args:
            model: see `compute_gradients`; so is `args`.
            global_step: is counted up.
            var_list: variables to train; all trainable ones when None.
        """
        loss, pairs = self.compute_gradients(model, args, var_list)
        return PipelineStep(optimizer.apply_gradients(pairs, global_step=global_step, name=name), loss)

    def compute_gradients(
        self, model: Callable[..., Any], args: Sequence[Any] = (), var_list: Any = None
    ) -> tuple[Tensor, list[tuple[Any, Any]]]:
        """Make the loss of a batch, and its gradients, by all micro-batches.

        Args:
            model: is called once for each micro-batch, with its part of `args`, and returns its loss: a scalar, the
                mean over its examples. All calls have the first one's variables.
            args: structures of tensors whose first dimension is the batch. Parts differ by one example at most; each
                counts by its examples.
            var_list: variables that gradients are wanted of; all trainable ones when None.

        Returns:
            the loss, and (gradient, variable) pairs for an optimizer's `apply_gradients`.

        Raises:
            ValueError: the model's ops cannot be divided into stages, or the batch into micro-batches.
            RuntimeError: this is in a strategy's scope, or eager execution is enabled.
        """
        graph = context.get_default_graph()
        if graph.executes:
            raise RuntimeError("A pipeline is a graph: leave out tf.enable_eager_execution()")
        if contexts.has_strategy():
            raise RuntimeError("A pipeline has devices of its own: leave out the strategy's scope")
        batch = split(tuple(args), self._microbatches)
        calls = Calls(model)
        made: list[tuple[Call, list[StagePart]]] = []
        cut: costs.Cut | None = None
        for part in batch.parts:
            with graph.device(None) if self._cut == "measured" else contextlib.nullcontext():
                call = calls.next(part)
            if self._cut == "measured":
                cut = cut or costs.measure(call, len(self.devices))
                cut.place(call, self._devices)
            made.append((call, self._divided(call)))
        variables = list(trainable_variables()) if var_list is None else list(var_list)
        forward = {(k, s): part.ops for k, (_, parts) in enumerate(made) for s, part in enumerate(parts)}
        backward, gradients = self._backward(made, batch.weights, variables)
        for stage, device in enumerate(self.devices):
            units = schedules.units_of(self._schedule, stage, len(self.devices), self._microbatches)
            work = [(u, (forward if u.is_forward else backward)[u.microbatch, stage]) for u in units]
            chain(work, device, self._recompute)
        return _mean([call.loss for call, _ in made], batch.weights), list(zip(gradients, variables))

    def _divided(self, call: Call) -> list[StagePart]:
        order, dependent = relevant_ops(call)
        stages = place(call, order, dependent, self._devices)
        parts = parts_of(call, order, dependent, stages, len(self.devices))
        idle = [str(i) for i, part in enumerate(parts) if not part.ops]
        if idle:
            raise ValueError(
                f"Stage {', '.join(idle)} of the pipeline has nothing to compute: put a part of the model into "
                f"`with pipeline.stage({idle[0]})`, or let it be cut with cut='measured'"
            )
        return parts

    def _backward(
        self, made: Sequence[tuple[Call, list[StagePart]]], weights: Sequence[Any], variables: Sequence[Any]
    ) -> tuple[dict[tuple[int, int], list[Operation]], list[Any]]:
        stages, order = len(self.devices), schedules.backward_order(self._schedule, self._microbatches)
        walks = {s: schedules.units_of(self._schedule, s, stages, self._microbatches) for s in range(stages)}
        backward = Backward(self._devices, variables)
        units: dict[tuple[int, int], list[Operation]] = {}
        for k in order:
            again = [self._recompute and not _follows_at_once(walks[s], k) for s in range(stages)]
            for stage, ops in enumerate(backward.add(*made[k], weights[k], again)):
                units[k, stage] = ops
        return units, backward.sums()


def _follows_at_once(units: Sequence[Unit], microbatch: int) -> bool:
    """Tell whether a stage goes backwards with a micro-batch right after it has gone forwards with it."""
    return units.index(Unit(False, microbatch)) == units.index(Unit(True, microbatch)) + 1


def _mean(losses: Sequence[Tensor], weights: Sequence[Any]) -> Tensor:
    with context.get_default_graph().colocate_with(losses[-1].op, ignore_existing=True):
        parts = []
        for loss, weight in zip(losses, weights, strict=True):
            factor = weight if isinstance(weight, float) else apply_op("Cast", x=weight, DstT=loss.dtype.base_dtype)
            parts.append(apply_op("Mul", x=loss, y=factor))
        return aggregate(parts)  # type: ignore[no-any-return]
