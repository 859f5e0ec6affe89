"""The base of Keras's optimizers: hyperparameters and slots as variables, gradients and their application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import IndexedSlices, constant
from dtfctl.runtime.framework.func_graph import init_scope
from dtfctl.runtime.framework.gradients import gradients
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.backend.values import batch_set_value, set_value
from dtfctl.runtime.keras.optimizers.schedules import LearningRateSchedule
from dtfctl.runtime.ops import clip_ops, init_ops, math_ops
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.variables import Variable, VariableAggregation
from dtfctl.runtime.replication import contexts
from dtfctl.runtime.replication.values import value_container

_KEYWORDS = {"clipnorm", "clipvalue", "lr", "decay", "global_clipnorm"}


class Optimizer:
    """Subclasses define `_create_slots`, `_resource_apply_dense` and `_resource_apply_sparse`.

    Args:
        name: of the scope that its variables and ops are under.
        clipnorm, clipvalue, global_clipnorm: cut gradients before they are applied.
        decay: divide the learning rate by 1 + decay * iterations.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        for key, value in kwargs.items():
            if key not in _KEYWORDS:
                raise TypeError(f"Unexpected keyword argument passed to optimizer: {key}")
            if value is not None and value < 0:
                raise ValueError(f"Expected {key} >= 0, received: {value}")
        self._hyper: dict[str, Any] = {}
        self._slots: dict[int, dict[str, Any]] = {}
        self._weights: list[Any] = []
        self._iterations: Any = None
        self._made = False
        self._name = name
        self.clipnorm, self.clipvalue = kwargs.get("clipnorm"), kwargs.get("clipvalue")
        self.global_clipnorm = kwargs.get("global_clipnorm")
        self._initial_decay = kwargs.get("decay") or 0.0
        self._saved_weights: list[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        hyper = self.__dict__.get("_hyper", {})
        name = "learning_rate" if name == "lr" else name
        if name in hyper:
            return self._get_hyper(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        name = "learning_rate" if name == "lr" else name
        if name in self.__dict__.get("_hyper", {}):
            self._set_hyper(name, value)
        else:
            object.__setattr__(self, name, value)

    # Hyperparameters and slots.

    def _set_hyper(self, name: str, value: Any) -> None:
        held = self._hyper.get(name)
        if isinstance(held, Variable) and not callable(value):
            set_value(held, value)
        else:
            self._hyper[name] = value

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        if not self._made:
            self._create_hypers()
        value = self._hyper[name]
        if isinstance(value, LearningRateSchedule):
            return value
        if callable(value) and not isinstance(value, Variable):
            value = value()
        return math_ops.cast(value, dtype) if dtype is not None else value

    @property
    def iterations(self) -> Any:
        """The variable that counts the steps: int64."""
        if self._iterations is None:
            self._iterations = self.add_weight("iter", (), dtypes.int64, init_ops.Zeros())
            self._weights.append(self._iterations)
        return self._iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        if self._iterations is not None:
            raise RuntimeError(
                "Cannot set `iterations` to a new Variable after the Optimizer weights have been created."
            )
        self._iterations = variable
        self._weights.append(variable)

    def _create_hypers(self) -> None:
        if self._made:
            return
        self._made = True
        for name, value in sorted(self._hyper.items()):
            if isinstance(value, (Tensor, Variable)) or callable(value):
                continue
            self._hyper[name] = self.add_weight(name, (), dtypes.float32, init_ops.Constant(value))

    def add_weight(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = "zeros",
        trainable: bool = False,
        synchronization: Any = None,
        aggregation: Any = VariableAggregation.NONE,
    ) -> Any:
        """Make a variable of the optimizer's own."""
        from dtfctl.runtime.keras import initializers

        found, dtype, shape = initializers.get(initializer), dtype or dtypes.float32, list(shape)

        def initial_value() -> Any:
            return found(shape, dtype=dtype)

        variable = Variable(initial_value, name=name, trainable=trainable, dtype=dtype, use_resource=True)
        state.track_variable(variable)
        return variable

    def add_slot(self, var: Any, slot_name: str, initializer: Any = "zeros") -> Any:
        """Make a variable beside `var`, unless it is there."""
        from dtfctl.runtime.keras import initializers

        slots = self._slots.setdefault(id(value_container(var)), {})
        if slot_name not in slots:
            found, shape, dtype = initializers.get(initializer), var.shape.as_list(), var.dtype.base_dtype

            def initial_value() -> Any:
                return found(shape, dtype=dtype)

            with _beside(var):
                slot = Variable(
                    initial_value,
                    name=f"{var._shared_name}/{slot_name}",
                    trainable=False,
                    dtype=dtype,
                    use_resource=True,
                )
            slots[slot_name] = slot
            state.track_variable(slot)
            self._weights.append(slot)
        return slots[slot_name]

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """Return the variable of this name beside `var`."""
        return self._slots[id(value_container(var))][slot_name]

    def get_slot_names(self) -> list[str]:
        """Return the names of its slots."""
        return list(dict.fromkeys(name for slots in self._slots.values() for name in slots))

    @property
    def weights(self) -> list[Any]:
        """The count of steps, then the slots."""
        return self._weights

    def variables(self) -> list[Any]:
        """Return the count of steps, then the slots."""
        return self._weights

    def get_weights(self) -> list[Any]:
        """Read `weights` in Keras's session."""
        return list(state.get_session().run(self._weights)) if self._weights else []

    def set_weights(self, weights: Any) -> None:
        """Give `weights` values.

        Raises:
            ValueError: there are more or fewer, or one has another shape.
        """
        if len(self._weights) != len(weights):
            raise ValueError(
                f"You called `set_weights(weights)` on optimizer {self._name} with a weight list of length "
                f"{len(weights)}, but the optimizer was expecting {len(self._weights)} weights."
            )
        for v, w in zip(self._weights, weights):
            if tuple(v.shape.as_list()) != np.shape(w):
                raise ValueError(f"Optimizer weight shape {v.shape} not compatible with provided shape {np.shape(w)}")
        batch_set_value(list(zip(self._weights, weights)))

    def make_weights(self, variables: list[Any]) -> None:
        """Make the count of steps and the slots of variables, as the first step does."""
        with name_scope(self._name):
            self._make_weights(variables)

    def _make_weights(self, variables: list[Any]) -> None:
        with init_scope():
            _ = self.iterations
            self._create_hypers()
            self._create_slots(variables)

    def _trackable_children(self) -> dict[str, Any]:
        children = {"iter": self._iterations} if self._iterations is not None else {}
        children |= {name: v for name, v in sorted(self._hyper.items()) if isinstance(v, Variable)}
        return children

    def _trackable_slots(self, var: Any) -> dict[str, Any]:
        """Return the slots of a variable, by name."""
        return self._slots.get(id(value_container(var)), {})

    # A step.

    def minimize(self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None) -> Any:
        """Make an op that does one step towards a smaller loss: a tensor, or a function that makes it."""
        variables = var_list() if callable(var_list) else nest.flatten(var_list)
        tensor = loss() if callable(loss) else loss
        with name_scope(f"{self._name}/gradients"):
            grads = gradients(tensor, variables, grad_loss)
        return self.apply_gradients(list(zip(grads, variables)), name=name)

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Compute the gradients of a loss.

        Raises:
            ValueError: the loss does not depend on one of the variables.
        """
        params = nest.flatten(params)
        with name_scope(f"{self._name}/gradients"):
            grads = gradients(loss, params)
        for grad, param in zip(grads, params):
            if grad is None:
                raise ValueError(
                    f"Variable {param} has `None` for gradient. Please make sure that all of your ops have a gradient "
                    "defined (i.e. are differentiable). Common ops without gradient: K.argmax, K.round, K.eval."
                )
        return grads

    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """Make the ops of one step."""
        return [self.apply_gradients(list(zip(self.get_gradients(loss, params), params)))]

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Any:
        """Make an op that applies gradients and counts the step.

        Raises:
            ValueError: all gradients are None.
        """
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError(f"No gradients provided for any variable: {[v.name for _, v in grads_and_vars]}.")
        if contexts.has_strategy():
            replica = contexts.get_replica_context()
            if replica is None:
                raise RuntimeError(
                    "apply_gradients is called within a replica: in a function given to `strategy.run`, not across them"
                )
            return replica.merge_call(self._apply_to_copies, args=(pairs, name))
        return self._apply_all(pairs, name, lambda var, update, grad: [update(var, grad)])

    def _apply_to_copies(self, strategy: Any, grads_and_vars: Any, name: str | None) -> Any:
        """Apply the sum of all replicas' gradients to every copy of the variables."""
        pairs, extended = list(grads_and_vars), strategy.extended
        if extended.shards_optimizer_state:
            raise NotImplementedError("shard_optimizer_state=True is for optimizers of tf.train, not of Keras")
        summed = extended.batch_reduce_to("SUM", pairs)

        def each(var: Any, update: Callable[..., Any], grad: Any) -> list[Any]:
            return list(extended.update(var, update, args=(grad,), group=False))

        return self._apply_all([(g, v) for g, (_, v) in zip(summed, pairs, strict=True)], name, each)

    def _apply_all(self, pairs: list[tuple[Any, Any]], name: str | None, each: Callable[..., list[Any]]) -> Any:
        """Apply gradients and count the step; `each(var, update, grad)` calls `update(copy, grad)` where copies are."""
        variables = [v for _, v in pairs]
        graph = context.get_default_graph()

        def update(var: Any, grad: Any) -> Any:
            with graph.colocate_with(var.op), name_scope(f"update_{var.op.name}"):
                return self._apply(grad, var, prepared)

        with name_scope(self._name):
            self._make_weights(variables)
            prepared = self._prepare(variables)
            pairs = self._cut(pairs)
            updates = []
            with name_scope(name or self._name):
                for grad, var in pairs:
                    updates += each(var, update, grad)
                with control_dependencies([group(*updates)]):
                    return self.iterations.assign_add(constant(1, dtypes.int64), read_value=False)

    def _cut(self, pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        grads, variables = [g for g, _ in pairs], [v for _, v in pairs]
        if self.clipnorm is not None:
            grads = [clip_ops.clip_by_norm(g, self.clipnorm) for g in grads]
        if self.global_clipnorm is not None:
            grads = list(clip_ops.clip_by_global_norm(grads, self.global_clipnorm)[0])
        if self.clipvalue is not None:
            grads = [clip_ops.clip_by_value(g, -self.clipvalue, self.clipvalue) for g in grads]
        return list(zip(grads, variables))

    def _apply(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        if not getattr(var, "_is_resource", False):
            raise ValueError(
                f"Keras optimizers train resource variables, and {var.name} is a reference variable: make it with "
                "use_resource=True, or train with an optimizer of tf.train"
            )
        if isinstance(grad, IndexedSlices):
            if var.constraint is not None:
                raise RuntimeError(f"Cannot use a constraint function on a sparse variable: {var.name}")
            if self._sums_duplicates:
                unique, positions = apply_op_outputs("Unique", x=grad.indices, out_idx=dtypes.int32)
                count = apply_op("Shape", input=unique)[0]
                values = apply_op("UnsortedSegmentSum", data=grad.values, segment_ids=positions, num_segments=count)
                return self._resource_apply_sparse(values, var, unique, prepared)
            return self._resource_apply_sparse(grad.values, var, grad.indices, prepared)
        update = self._resource_apply_dense(grad, var, prepared)
        if var.constraint is not None:
            with control_dependencies([update]):
                return var.assign(var.constraint(var), read_value=False)
        return update

    _sums_duplicates = True

    def _prepare(self, variables: list[Any]) -> dict[str, Any]:
        """Make the tensors that updates of all variables share."""
        return {"lr": self._decayed_lr()}

    def _decayed_lr(self, dtype: Any = dtypes.float32) -> Any:
        rate = self._get_hyper("learning_rate")
        if isinstance(rate, LearningRateSchedule):
            rate = rate(math_ops.cast(self.iterations, dtypes.float32))
        rate = math_ops.cast(rate, dtype)
        if isinstance(rate, Variable):
            rate = rate.value()
        if self._initial_decay > 0.0:
            steps = math_ops.cast(self.iterations, dtype)
            rate = rate / (1.0 + math_ops.cast(self._get_hyper("decay"), dtype) * steps)
        return rate

    def _create_slots(self, variables: list[Any]) -> None:
        """Make the slots that these variables need."""

    def _resource_apply_dense(self, grad: Any, var: Any, prepared: dict[str, Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot apply dense gradients")

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any, prepared: dict[str, Any]) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot apply sparse gradients, as of embeddings")

    # As a value.

    def _described(self, name: str) -> Any:
        value = self._hyper[name]
        if isinstance(value, LearningRateSchedule):
            from dtfctl.runtime.keras import registry

            return registry.serialize_keras_object(value)
        if isinstance(value, Variable):
            return float(state.get_session().run(value))
        return value() if callable(value) else value

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        config: dict[str, Any] = {"name": self._name}
        for key in ("clipnorm", "clipvalue", "global_clipnorm"):
            if getattr(self, key) is not None:
                config[key] = getattr(self, key)
        config |= {name: self._described(name) for name in self._hyper}
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make the optimizer that `get_config` described."""
        from dtfctl.runtime.keras.optimizers import schedules

        config = dict(config)
        if "lr" in config:
            config["learning_rate"] = config.pop("lr")
        if isinstance(config.get("learning_rate"), dict):
            config["learning_rate"] = schedules.deserialize(config["learning_rate"], custom_objects)
        return cls(**config)


def _beside(var: Any) -> Any:
    """Make variables where another is; in a strategy's scope with a copy beside each of its copies."""
    if contexts.has_strategy():
        return contexts.get_strategy().extended.colocate_vars_with(var)
    return context.get_default_graph().colocate_with(var.op)


def scatter_add(var: Any, indices: Any, values: Any) -> Any:
    """Add rows to a variable; returns the op."""
    return make_op(
        "ResourceScatterAdd", resource=var.handle, indices=indices, updates=values, dtype=var.dtype.base_dtype
    )


def after(op: Any, read: Callable[[], Any]) -> Any:
    """Read what there is once an op has run."""
    with control_dependencies([op]):
        return read()
