"""Models that are compiled and trained: the loss and metrics as one graph, the steps as functions of arrays."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from dtfctl.runtime.framework import context, nest
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import (
    backend,
    feeding,
    loops,
    losses,
    metrics as metrics_module,
    optimizers,
    state,
    whole_models,
)
from dtfctl.runtime.keras.endpoint import Endpoint, call_metrics, make_metrics, output_loss, per_output
from dtfctl.runtime.keras.from_generators import FromGenerators
from dtfctl.runtime.keras.network import Network
from dtfctl.runtime.keras.replicated import Replicas
from dtfctl.runtime.keras.trainable_state import TrainableState
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.replication import contexts


class Model(FromGenerators, Network):
    """Layers with `compile`, `fit`, `evaluate` and `predict`.

    Made of `inputs` and `outputs` that come from `tf.keras.Input`, or by subclasses that define `call`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.optimizer: Any = None
        self.loss: Any = None
        self.stop_training = False
        self.history: Any = None
        self._compiled: dict[str, Any] | None = None
        self._endpoints: list[Endpoint] = []
        self._feed_inputs: list[Any] = []
        self._functions: dict[str, Any] = {}
        self._total_loss: Any = None
        self._weights_fed = False
        self._trained: TrainableState | None = None
        self._input_structure: Any = None
        self._replicas: Replicas | None = None

    # Compiling.

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        sample_weight_mode: Any = None,
        weighted_metrics: Any = None,
        target_tensors: Any = None,
        distribute: Any = None,
        from_serialized: bool = False,
        **kwargs: Any,
    ) -> None:
        """Say how the model is trained.

        Args:
            optimizer: an object or a name; one of `tf.train` too.
            loss: a name, function or object; a list or dictionary of them for several outputs.
            metrics: names, functions or objects; lists or a dictionary of them for several outputs.
            loss_weights: what each output's loss is multiplied by.
            sample_weight_mode: None; "temporal" for weights of steps.
            target_tensors: take the place of the targets that `fit` is given.
            from_serialized: metrics that are objects are from a file, with names that they had when it was written.

        In the scope of a strategy `fit`, `evaluate` and `predict` cut each batch into parts for its replicas.
        """
        if context.get_default_graph().executes:
            raise RuntimeError("tf.keras models are trained in graph mode: do not enable eager execution")
        for name, value in (("distribute", distribute), *kwargs.items()):
            if value not in (None, False):
                raise NotImplementedError(
                    f"tf.keras Model.compile: `{name}` is not supported; train over several devices or tasks in the "
                    "scope of a strategy (docs/distributed-training.md)"
                )
        self._replicas = None
        if contexts.has_strategy():
            if target_tensors is not None:
                raise NotImplementedError("tf.keras Model.compile in a strategy's scope: give the targets to `fit`")
            self._replicas = Replicas(self, contexts.get_strategy())
        else:
            for variable in self.weights:
                if getattr(variable, "distribute_strategy", None) is not None:
                    raise ValueError(
                        f"Variable {variable.name} was made in the scope of {variable.distribute_strategy}: call "
                        "`compile` in that scope, too"
                    )
        self.optimizer = optimizers.get(optimizer)
        if target_tensors is not None:
            target_tensors = nest.flatten(target_tensors)
        self.loss = loss
        self._compiled = {
            "loss": loss,
            "metrics": metrics,
            "loss_weights": loss_weights,
            "weighted_metrics": weighted_metrics,
            "target_tensors": target_tensors,
            "sample_weight_mode": sample_weight_mode,
            "from_serialized": from_serialized,
        }
        self._endpoints, self._total_loss, self._functions = [], None, {}
        self._weights_fed = False
        self._trained = TrainableState(self)
        if self.inputs and self.outputs:
            self._finish_compile()

    def _finish_compile(self) -> None:
        """Make targets, metrics and the loss: once inputs and outputs are known."""
        given = self._compiled
        assert given is not None and self.outputs is not None
        names = self.output_names
        functions = per_output(given["loss"], names, "loss")
        weights = per_output(given["loss_weights"], names, "loss_weights", 1.0)
        targets = given["target_tensors"] or [None] * len(names)
        for output, name, loss, weight, target in zip(self.outputs, names, functions, weights, targets):
            endpoint = Endpoint(output, name, losses.loss_of(loss), 1.0 if weight is None else weight)
            if endpoint.loss is not None:
                endpoint.target = target
                if target is None:
                    rank = output.shape.rank
                    shape = None if rank is None else [None] * rank
                    endpoint.target = array_ops.placeholder(output.dtype, shape, name=f"{name}_target")
            self._endpoints.append(endpoint)
        with self._scope_of_replicas():
            make_metrics(self._endpoints, given["metrics"], False, given["from_serialized"])
        if self._replicas is None:
            with name_scope("metrics"):
                for e in self._endpoints:
                    if e.loss is not None:
                        call_metrics(e, e.metrics, None)
        self._make_total_loss()

    @property
    def should_checkpoint(self) -> bool:
        """Whether this process is the one that saves the model; others are workers of a strategy beside it."""
        return self._replicas is None or self._replicas.should_checkpoint

    def _scope_of_replicas(self) -> Any:
        """Enter the scope of the strategy that the model was compiled in."""
        return contextlib.nullcontext() if self._replicas is None else self._replicas.scope()

    def _trained_as_compiled(self) -> Any:
        """Let `trainable` be what it was when the model was compiled."""
        return contextlib.nullcontext() if self._trained is None else self._trained.restored()

    def _make_total_loss(self) -> None:
        """Make the loss, over weights of examples if they are fed, and the metrics that weigh."""
        assert self._compiled is not None
        with self._scope_of_replicas():
            if self._compiled["weighted_metrics"] and not any(e.weighted_metrics for e in self._endpoints):
                make_metrics(
                    self._endpoints, self._compiled["weighted_metrics"], True, self._compiled["from_serialized"]
                )
        self._functions.pop("train", None)
        self._functions.pop("test", None)
        several = len(self._endpoints) > 1
        if several:
            for e in self._endpoints:
                if e.loss is not None and e.loss_metric is None:
                    with self._scope_of_replicas():
                        e.loss_metric = metrics_module.Mean(name=f"{e.name}_loss")
        if self._replicas is not None:
            if all(e.loss is None for e in self._endpoints) and not self.losses:
                raise ValueError("The model cannot be compiled because it has no loss to optimize.")
            return
        with name_scope("metrics"):
            for e in self._endpoints:
                if e.loss is not None:
                    call_metrics(e, e.weighted_metrics, e.sample_weight)
        found: list[Any] = []
        with name_scope("loss"):
            for e in self._endpoints:
                if e.loss is None:
                    continue
                with name_scope(f"{e.name}_loss"):
                    value = output_loss(e)
                if several:
                    e.loss_metric(value)
                found.append(e.weight * value)
            custom = self.get_losses_for(None) + self.get_losses_for(self.inputs)
            if not found and not custom:
                raise ValueError("The model cannot be compiled because it has no loss to optimize.")
            if custom:
                found.append(math_ops.add_n(custom))
            self._total_loss = math_ops.add_n(found) if len(found) > 1 else found[0]

    @property
    def metrics(self) -> list[Any]:
        """The metrics that are reported, in their order; the loss itself is not among them."""
        found = []
        if self.__dict__.get("_compiled") is not None:
            found += [e.loss_metric for e in self._endpoints if e.loss_metric is not None]
            for e in self._endpoints:
                found += [*dict(e.metrics).values(), *dict(e.weighted_metrics).values()]
        return [*found, *self._added_metrics()]

    @property
    def metrics_names(self) -> list[str]:
        """The names of what `evaluate` returns: the loss, those of the outputs, the metrics."""
        return ["loss", *(m.name for m in self.metrics)]

    @property
    def total_loss(self) -> Any:
        """The loss that is minimized: a scalar."""
        return self._total_loss

    @property
    def targets(self) -> list[Any]:
        """The placeholders, or tensors, of the targets."""
        return [e.target for e in self._endpoints if e.target is not None]

    @property
    def sample_weights(self) -> list[Any]:
        """The tensors of the examples' weights; None where there are none."""
        return [e.sample_weight for e in self._endpoints]

    def reset_metrics(self) -> None:
        """Set the metrics to zero."""
        backend.batch_set_value([(v, np.zeros(v.shape.as_list())) for m in self.metrics for v in m.weights])

    # The inputs and outputs of subclasses.

    def _called(self, inputs: Any, outputs: Any) -> None:
        if not self.inputs and not isinstance(inputs, dict):
            self._set_inputs(nest.flatten(inputs), None, outputs)
        if self._input_structure is None:
            self._input_structure = nest.map_structure(lambda _: None, inputs)

    def _set_inputs(self, inputs: list[Any], names: list[str] | None, outputs: Any) -> None:
        self.inputs = inputs
        self.input_names = names or [f"input_{i + 1}" for i in range(len(inputs))]
        self.outputs = nest.flatten(outputs)
        self.output_names = [f"output_{i + 1}" for i in range(len(self.outputs))]
        self.built = True

    def _make_inputs(self, x: Any) -> None:
        """Make placeholders that fit data, and call the model with them: for models that were not called yet."""
        keys = sorted(x) if isinstance(x, dict) else None
        values = [x[k] for k in keys] if keys else list(x) if isinstance(x, (list, tuple)) else [x]
        names = keys or [f"input_{i + 1}" for i in range(len(values))]
        tensors = [feeding.input_for(v, n) for v, n in zip(values, names)]
        with self._scope_of_replicas():
            if keys:
                outputs = self(dict(zip(keys, tensors)))
                self._set_inputs(tensors, keys, outputs)
            else:
                self(tensors if isinstance(x, (list, tuple)) else tensors[0])

    def _ready(self, x: Any, training: bool) -> None:
        if not self.inputs:
            self._make_inputs(x)
        if training:
            if self._compiled is None:
                raise RuntimeError(
                    "You must compile your model before training/testing. Use `model.compile(optimizer, loss)`."
                )
            if not self._endpoints:
                self._finish_compile()

    # Steps.

    def _feeds(self, mode: str) -> list[Any]:
        assert self.inputs is not None
        inputs = [t for t in self.inputs if not isinstance(t, Tensor) or t.op.type.startswith("Placeholder")]
        if mode == "predict":
            return inputs
        targets = [e.target for e in self._endpoints if e.is_fed]
        weights = [e.sample_weight for e in self._endpoints if e.weight_is_fed]
        return [*inputs, *targets, *weights]

    def _use_weights(self, given: list[Any]) -> None:
        """Make the loss anew when examples are weighed for the first time."""
        wanted = any(w is not None for w in given)
        if not wanted or self._weights_fed:
            return
        mode = (self._compiled or {}).get("sample_weight_mode")
        for e in self._endpoints:
            if e.loss is not None:
                temporal = (mode.get(e.name) if isinstance(mode, dict) else mode) == "temporal"
                shape = [None, None] if temporal else [None]
                default: Any = np.ones([1] * len(shape), np.float32)
                e.sample_weight = array_ops.placeholder_with_default(
                    default, shape=shape, name=f"{e.name}_sample_weights"
                )
        self._weights_fed = True
        self._make_total_loss()

    def _use_tensors_as_weights(self, given: list[Any]) -> None:
        """Weigh examples by tensors of this graph, one for each output."""
        for e, weight in zip(self._endpoints, given, strict=True):
            e.sample_weight = weight
        self._weights_fed = True
        self._make_total_loss()

    def _function(self, mode: str) -> Any:
        if mode in self._functions:
            return self._functions[mode]
        if self._replicas is not None:
            return self._replicas.function(mode)
        if mode == "predict":
            with name_scope("predict"):
                made = backend.function(self._feeds(mode), list(self.outputs or ()), updates=self.state_updates)
        elif mode == "test":
            with name_scope("evaluation"):
                made = backend.function(self._feeds(mode), self._results(), updates=self._all_updates("test"))
        else:
            phase = state.learning_phase()
            extra = [] if isinstance(phase, int) else [phase]
            with name_scope("training"), self._trained_as_compiled():
                updates = self.optimizer.get_updates(loss=self._total_loss, params=self.trainable_weights)
                updates += self._all_updates("train")
            with name_scope("training"):
                made = backend.function([*self._feeds(mode), *extra], self._results(), updates=updates)
        self._functions[mode] = made
        return made

    def _all_updates(self, mode: str) -> list[Any]:
        if mode == "test":
            return self.state_updates
        return self.get_updates_for(None) + self.get_updates_for(self.inputs)

    def _results(self) -> list[Any]:
        return [self._total_loss, *(m._result for m in self.metrics)]

    def _step(self, mode: str, values: list[Any]) -> list[Any]:
        if self._replicas is not None:
            return self._replicas.step(mode, values)
        function = self._function(mode)
        if mode == "train" and len(function.inputs) > len(values):
            values = [*values, True]
        return list(function(values))

    # What programs call.

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: Any = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_freq: Any = 1,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Train for some epochs, on arrays, a generator or a `tf.data.Dataset`.

        Args:
            x, y: arrays; lists or dictionaries of them for several. A dataset or generator gives both.
            batch_size: 32 if it is not said.
            verbose: 0 for nothing, 1 for a bar, 2 for a line an epoch.
            validation_split: what part of the data, from its end, is kept for validation.
            shuffle: draw the order anew each epoch, with NumPy's global generator.
            max_queue_size, workers, use_multiprocessing: of generators, which run in this thread here.

        Returns:
            A History, whose `history` has a list of values for each name.
        """
        if "nb_epoch" in kwargs:
            epochs = kwargs.pop("nb_epoch")
        if kwargs:
            raise TypeError(f"Unrecognized keyword arguments: {kwargs}")
        return loops.fit(
            self,
            x,
            y,
            batch_size=batch_size,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_split=validation_split,
            validation_data=validation_data,
            shuffle=shuffle,
            class_weight=class_weight,
            sample_weight=sample_weight,
            initial_epoch=initial_epoch,
            steps_per_epoch=steps_per_epoch,
            validation_steps=validation_steps,
            validation_freq=validation_freq,
        )

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: int = 1,
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        return_dict: bool = False,
    ) -> Any:
        """Compute loss and metrics: a number, or a list in the order of `metrics_names`.

        Args:
            max_queue_size, workers, use_multiprocessing: of generators, which run in this thread here.
            return_dict: give them by their names.
        """
        found = loops.evaluate(self, x, y, batch_size, verbose, sample_weight, steps, callbacks)
        return self._named(found) if return_dict else found

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: int = 0,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
    ) -> Any:
        """Compute the outputs: an array, or a list for several outputs.

        Args:
            max_queue_size, workers, use_multiprocessing: of generators, which run in this thread here.
        """
        return loops.predict(self, x, batch_size, verbose, steps, callbacks)

    def train_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        class_weight: Any = None,
        reset_metrics: bool = True,
        return_dict: bool = False,
    ) -> Any:
        """Do one step of training on one batch; returns loss and metrics, by their names with `return_dict`."""
        found = self._on_batch("train", x, y, sample_weight, class_weight, reset_metrics)
        return self._named(found) if return_dict else found

    def test_on_batch(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        reset_metrics: bool = True,
        return_dict: bool = False,
    ) -> Any:
        """Compute loss and metrics of one batch; by their names with `return_dict`."""
        found = self._on_batch("test", x, y, sample_weight, None, reset_metrics)
        return self._named(found) if return_dict else found

    def _named(self, found: Any) -> dict[str, Any]:
        """Give what `evaluate` returns by the names of it."""
        return dict(zip(self.metrics_names, found if isinstance(found, list) else [found], strict=True))

    def _on_batch(self, mode: str, x: Any, y: Any, sample_weight: Any, class_weight: Any, reset: bool) -> Any:
        self._ready(x, True)
        values = feeding.batch(self, x, y, sample_weight, class_weight)
        outs = self._step(mode, values)
        if reset:
            self.reset_metrics()
        return outs[0] if len(outs) == 1 else outs

    def predict_on_batch(self, x: Any) -> Any:
        """Compute the outputs for one batch."""
        self._ready(x, False)
        outs = self._step("predict", feeding.inputs(self, x))
        return outs[0] if len(outs) == 1 else outs

    def save(
        self,
        filepath: Any,
        overwrite: bool = True,
        include_optimizer: bool = True,
        save_format: str | None = None,
        signatures: Any = None,
        options: Any = None,
    ) -> None:
        """Write layers, values, how it is compiled and the optimizer's state: HDF5, or a SavedModel with "tf"."""
        whole_models.save_model(self, filepath, overwrite, include_optimizer, save_format, signatures, options)
