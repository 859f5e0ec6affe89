"""The steps of a model that was compiled in the scope of a `tf.distribute` strategy.

Each replica calls the model with its part of a batch, and adds what it found to the others': losses and gradients are
shares of the whole batch's, so that any number of replicas ends with the weights that one has with the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.protocol.config_pb2 import ConfigProto
from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.keras import losses, state
from dtfctl.runtime.keras.backend.values import Function
from dtfctl.runtime.keras.endpoint import Endpoint, call_metrics, output_loss
from dtfctl.runtime.keras.metrics import Metric
from dtfctl.runtime.keras.network import Network
from dtfctl.runtime.keras.node import depends_on
from dtfctl.runtime.keras.reduction import Reduction
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.replication import contexts


class Replicas:
    """What a model's replicas compute in a step, and which part of a batch each of them gets.

    Raises:
        ValueError: variables of the model were made outside of the strategy's scope.
        NotImplementedError: workers of the strategy do not train in step, or a layer keeps states between batches.
    """

    def __init__(self, model: Any, strategy: Any) -> None:
        extended = strategy.extended
        resolver = strategy.cluster_resolver
        self._strategy, self._model = strategy, model
        self._local = len(extended.worker_devices)
        self._clustered = bool(resolver is not None and resolver.cluster_spec())
        if self._clustered and strategy.num_replicas_in_sync == self._local and extended.num_input_pipelines > 1:
            raise NotImplementedError(
                f"tf.keras Model.compile in the scope of {strategy}: its workers do not train in step. Use "
                "MultiWorkerMirroredStrategy, or strategy.run with an optimizer of tf.train"
            )
        for layer in model._all_layers():
            if layer is not model and not isinstance(layer, (Metric, Network)) and layer.stateful:
                raise NotImplementedError(
                    f"The layer {layer.name} keeps states between batches, which replicas cannot share: leave out "
                    "`stateful`"
                )
        for variable in model.weights:
            if not extended.variable_created_in_scope(variable):
                raise ValueError(
                    f"Variable {variable.name} was not created in the distribution strategy scope of {strategy}. It is "
                    "most likely because not all layers in the model were created within the scope: build the model "
                    "in `with strategy.scope():`"
                )
        self._numbers = [extended.replica_context(i).replica_id_in_sync_group for i in range(self._local)]
        self._seed: Any = None
        self._order: Any = None
        if strategy.num_replicas_in_sync > self._local:
            # The first worker's value is that of all.
            first = np.random.randint(np.iinfo(np.int32).max)
            self._seed = Variable(first, trainable=False, dtype=dtypes.int32, name="order_of_examples")
            state.track_variable(self._seed)
        state.run_by(self._make_session)

    @property
    def should_checkpoint(self) -> bool:
        """Whether this process is the one that saves."""
        return bool(self._strategy.extended.should_checkpoint)

    def scope(self) -> Any:
        """Enter the strategy's scope, for what is made after the model was compiled."""
        return self._strategy.scope()

    def order(self) -> Any:
        """Return what draws the order of examples: NumPy's global generator, one that all workers share where there
        are several."""
        if self._seed is None:
            return np.random
        if self._order is None:
            self._order = np.random.RandomState(int(state.get_session().run(self._seed)))
        return self._order

    def _make_session(self) -> Any:
        config = self._strategy.update_config_proto(ConfigProto())
        # What an earlier program left on the servers is not gone on from.
        config.isolate_session_state = True
        indices = [
            d.device_index or 0
            for d in map(DeviceSpec.from_string, self._strategy.extended.worker_devices)
            if d.device_type == "CPU"
        ]
        if not self._clustered and max(indices, default=0):
            config.device_count["CPU"] = max(indices) + 1
        return state.new_session(self._strategy.cluster_resolver.master() if self._clustered else "", config)

    # Parts of a batch.

    def check_batches(self, samples: int, batch_size: int) -> None:
        """Check that no batch of arrays has too few examples.

        Raises:
            ValueError: one has fewer than there are replicas.
        """
        last = samples % batch_size
        for size in (min(samples, batch_size), last):
            if size:
                self._require(size)

    def _require(self, size: int) -> None:
        count = self._strategy.num_replicas_in_sync
        if size < count:
            raise ValueError(
                f"A batch of {size} examples cannot be shared by {count} replicas: choose a batch_size (that of all "
                "replicas together) so that the last batch has at least one for each, or batch a Dataset with "
                "drop_remainder=True"
            )

    def _parts(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Cut a batch for the replicas of this process.

        Returns:
            the arrays of each replica, one replica's after the other's; the share that each has of the batch.
        """
        size, count = len(values[0]), self._strategy.num_replicas_in_sync
        self._require(size)
        whole, more = divmod(size, count)
        arrays: list[Any] = []
        shares: list[Any] = []
        for number in self._numbers:
            begin = number * whole + min(number, more)
            end = begin + whole + (number < more)
            arrays += [np.asarray(v)[begin:end] for v in values]
            shares.append(np.float32((end - begin) / size))
        return arrays, shares

    # Steps.

    def step(self, mode: str, values: Sequence[Any]) -> list[Any]:
        """Compute the loss and the metrics of a batch, or its outputs; train by it where the mode is "train"."""
        if mode == "predict":
            return self._predict(values)
        function = self.function(mode)
        arrays, shares = self._parts(values)
        training = [True] if mode == "train" and len(function.inputs) > len(arrays) + len(shares) else []
        return list(function([*arrays, *shares, *training]))

    def function(self, mode: str) -> Any:
        """Return the function of a mode of the model, made when it is first asked for."""
        made = self._model._functions.get(mode)
        if made is None:
            with self.scope(), name_scope("training" if mode == "train" else "evaluation"):
                made = self._made(mode)
            self._model._functions[mode] = made
        return made

    def _inputs(self, mode: str) -> list[list[Any]]:
        """Make placeholders of each replica that are like the model's."""
        graph = context.get_default_graph()
        out = []
        for i, device in enumerate(self._strategy.extended.worker_devices):
            with graph.device(device), graph.name_scope(f"inputs_of_{i}"):
                out.append([array_ops.placeholder(f.dtype, f.shape) for f in self._model._feeds(mode)])
        return out

    def _made(self, mode: str) -> Function:
        strategy, model = self._strategy, self._model
        fed = self._inputs(mode)
        shares = [array_ops.placeholder(dtypes.float32, ()) for _ in fed]
        flat = {t for column in fed for t in column} | set(model._feeds(mode))

        def replica() -> tuple[Any, Any, list[Any]]:
            i = contexts.get_replica_context().local_id
            return self._in_replica(mode, fed[i], shares[i], flat - set(fed[i]))

        loss, updates, metrics = strategy.run(replica)
        total = strategy.reduce("SUM", loss)
        results = []
        with control_dependencies(list(strategy.experimental_local_results(metrics))):
            for metric in model.metrics:
                with name_scope(metric.name):
                    results.append(metric.result())
        phase = state.learning_phase()
        extra = [phase] if mode == "train" and not isinstance(phase, int) else []
        inputs = [*(t for column in fed for t in column), *shares, *extra]
        return Function(inputs, [total, *results], strategy.experimental_local_results(updates))

    def _called(self, fed: list[Any]) -> list[Any]:
        """Call the model within a replica."""
        model = self._model
        if model._topology is not None:
            return list(nest.flatten(model(fed if len(fed) > 1 else fed[0])))
        return list(nest.flatten(model(nest.pack_sequence_as(model._input_structure, fed))))

    def _in_replica(self, mode: str, fed: list[Any], share: Any, foreign: set[Any]) -> tuple[Any, Any, Any]:
        model = self._model
        before = {id(x) for layer in model._all_layers() for x in (*layer._added_losses, *layer._updates)}
        count = len(model.inputs)
        outputs = self._called(fed[:count])
        given = iter(fed[count:])
        endpoints = [Endpoint(o, e.name, e.loss, e.weight) for o, e in zip(outputs, model._endpoints, strict=True)]
        for mine, e in zip(endpoints, model._endpoints, strict=True):
            mine.target = next(given) if e.is_fed else None
            mine.metrics, mine.weighted_metrics, mine.loss_metric = e.metrics, e.weighted_metrics, e.loss_metric
        for mine, e in zip(endpoints, model._endpoints, strict=True):
            mine.sample_weight = next(given) if e.sample_weight is not None else None

        def own(found: Sequence[Any]) -> list[Any]:
            """Choose what this call has added, and not another replica's."""
            new = [x for x in found if id(x) not in before]
            return [x for x, yes in zip(new, depends_on(new, list(foreign)), strict=True) if not yes]

        counted: list[Operation] = []
        terms: list[Any] = []
        with name_scope("loss"):
            for e in endpoints:
                if e.loss is None:
                    continue
                with name_scope(f"{e.name}_loss"):
                    value = _part_of_loss(e, share)
                if e.loss_metric is not None:
                    counted.append(e.loss_metric.update_state(*_mean_of_part(value, e, share)))
                terms.append(e.weight * value)
            terms += [math_ops.cast(share, x.dtype) * x for x in own(model.losses)]
        for e in endpoints:
            if e.loss is not None:
                counted += call_metrics(e, e.metrics, None, _update)
                counted += call_metrics(e, e.weighted_metrics, e.sample_weight, _update)
        total = math_ops.add_n(terms) if len(terms) > 1 else terms[0]
        updates: list[Any] = list(counted)
        if mode == "train":
            with model._trained_as_compiled():
                updates += model.optimizer.get_updates(loss=total, params=model.trainable_weights)
                updates += own(model.updates)
        return total, group(*updates), group(*counted)

    def _predict(self, values: Sequence[Any]) -> list[Any]:
        """Compute the outputs for this process's examples: all it is given, whatever others predict."""
        used = min(self._local, len(values[0]))
        key = f"predict {used}"
        function = self._model._functions.get(key)
        if function is None:
            with self.scope(), name_scope("predict"):
                fed = self._inputs("predict")

                def replica() -> list[Any]:
                    return self._called(fed[contexts.get_replica_context().local_id])

                columns = [self._strategy.experimental_local_results(o) for o in self._strategy.run(replica)]
                outputs = [column[i] for i in range(used) for column in columns]
                function = Function([t for part in fed[:used] for t in part], outputs)
            self._model._functions[key] = function
        cut = [np.array_split(np.asarray(v), used) for v in values]
        found = function([part[i] for i in range(used) for part in cut])
        width = len(found) // used
        return [np.concatenate(found[i::width]) for i in range(width)]


def _update(metric: Any, *seen: Any, **weighed: Any) -> Any:
    return metric.update_state(*seen, **weighed)


def _sums(e: Endpoint) -> bool:
    return isinstance(e.loss, losses.Loss) and e.loss.reduction == Reduction.SUM


def _part_of_loss(e: Endpoint, share: Any) -> Any:
    """Compute what one replica adds to the whole batch's loss: a sum, or its share of the mean."""
    value = output_loss(e)
    return value if _sums(e) else math_ops.cast(share, value.dtype) * value


def _mean_of_part(value: Any, e: Endpoint, share: Any) -> tuple[Any, Any]:
    """Return what a mean over batches takes of a replica: value and weight, whose sum over replicas is the batch's."""
    weight = math_ops.cast(share, value.dtype)
    return math_ops.div_no_nan(value, weight), weight
