"""Training a model function with a replica on each device of a strategy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.estimator.functions import IteratorHook, arguments
from dtfctl.runtime.estimator.spec import EstimatorSpec


@contextlib.contextmanager
def losses_divided(strategy: Any) -> Iterator[None]:
    """Let optimizers divide replicas' losses by their number, unless the model adds losses up."""
    strategy._scale_loss_for_estimator = True
    try:
        yield
    finally:
        strategy._scale_loss_for_estimator = False


def replicated(
    strategy: Any,
    input_fn: Callable[..., Any],
    offered: dict[str, Any],
    call_model_fn: Callable[[Any, Any], EstimatorSpec],
) -> tuple[EstimatorSpec, list[Any]]:
    """Call an input function for this process and a model function for each replica, in the strategy's scope.

    Each replica takes a whole batch of what the input function gives.

    Args:
        offered: what an input function may take; the strategy adds `input_context`.

    Returns:
        what the replicas gave as one: the mean of their losses (the sum where the model adds up), their training as
        one op, the first one's hooks and scaffold; and the hooks that begin the input.

    Raises:
        ValueError: the input function gives no dataset.
    """

    def dataset(context: Any) -> Any:
        takes = arguments(input_fn)
        given = {**offered, "input_context": context}
        found = input_fn(**{k: v for k, v in given.items() if k in takes})
        if not isinstance(found, tf.data.Dataset):
            raise ValueError("dataset_fn() must return a tf.data.Dataset when using a tf.distribute.Strategy.")
        return found

    iterator = strategy.make_input_fn_iterator(dataset)
    specs: list[EstimatorSpec] = []

    def replica(element: Any) -> Any:
        features, labels = element if isinstance(element, tuple) and len(element) == 2 else (element, None)
        spec = call_model_fn(features, labels)
        specs.append(spec)
        return spec.loss, spec.train_op

    loss, train = strategy.run(replica, args=(iterator.get_next(),))
    reduction = tf.distribute.get_loss_reduction()
    first = specs[0]._replace(
        loss=strategy.reduce(reduction, loss),
        train_op=strategy.group(train),
        training_hooks=tuple(specs[0].training_hooks),
    )
    return first, [IteratorHook(iterator.initialize())]


def check_strategy(strategy: Any, evaluates: Any) -> None:
    """Raise unless an estimator can train by the strategy.

    Raises:
        TypeError: it is no strategy. ValueError: one to evaluate by is given.
    """
    if evaluates is not None:
        raise ValueError(
            "eval_distribute is not supported: an estimator evaluates on one device. Leave it out; train_distribute is "
            "supported"
        )
    if strategy is not None and not isinstance(strategy, tf.distribute.Strategy):
        raise TypeError(f"train_distribute must be a tf.distribute.Strategy, not {type(strategy).__name__}")
