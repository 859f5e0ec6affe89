"""`Scaffold`: the pieces every training program needs, filled in where the program does not give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.variable_collections import (
    global_variables,
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from dtfctl.runtime.train.checkpoint_defaults import how_many
from dtfctl.runtime.train.saver import Saver


class Scaffold:
    """Init, ready, local init and summary ops and the saver, from arguments, collections or defaults.

    Args:
        init_op, init_feed_dict, init_fn: how the chief initializes when there is no checkpoint.
        ready_op: names the variables that are not ready; ready_for_local_init_op: the same before local init.
        local_init_op: run in every new session; summary_op: what summary hooks fetch; saver: what saves and restores.
        copy_from_scaffold: take what is not given from there.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[..., Any] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ) -> None:
        base = copy_from_scaffold
        self._user_init_fn: Callable[..., Any] | None = init_fn
        if init_fn is None and base is not None:
            self._user_init_fn = base._user_init_fn

        def choose(given: Any, name: str) -> Any:
            return given if given is not None or base is None else getattr(base, name)

        self._init_op = choose(init_op, "init_op")
        self._init_feed_dict = choose(init_feed_dict, "init_feed_dict")
        self._ready_op = choose(ready_op, "ready_op")
        self._ready_for_local_init_op = choose(ready_for_local_init_op, "ready_for_local_init_op")
        self._local_init_op = choose(local_init_op, "local_init_op")
        self._local_init_feed_dict = choose(local_init_feed_dict, "local_init_feed_dict")
        self._summary_op = choose(summary_op, "summary_op")
        self._saver = choose(saver, "saver")
        self._finalized = False

    def finalize(self) -> Scaffold:
        """Make what is missing and finalize the graph."""
        if not self._finalized:
            self._fill()
            self._finalized = True
        context.get_default_graph().finalize()
        return self

    def _fill(self) -> None:
        if self._init_op is None:
            self._init_op = Scaffold.get_or_default("init_op", GraphKeys.INIT_OP, _default_init_op)
        if self._ready_op is None:
            self._ready_op = Scaffold.get_or_default("ready_op", GraphKeys.READY_OP, _default_ready_op)
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = Scaffold.get_or_default(
                "ready_for_local_init_op", GraphKeys.READY_FOR_LOCAL_INIT_OP, _default_ready_for_local_init_op
            )
        if self._local_init_op is None:
            self._local_init_op = Scaffold.get_or_default(
                "local_init_op", GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op
            )
        if self._summary_op is None:
            self._summary_op = Scaffold.get_or_default("summary_op", GraphKeys.SUMMARY_OP, _merge_all_summaries)
        if self._saver is None:
            self._saver = _default_saver()
        self._saver.build()

    @property
    def init_fn(self) -> Callable[[Any], None] | None:
        """The function given, wrapped to take the session alone."""
        user = self._user_init_fn
        return None if user is None else lambda sess: user(self, sess)

    @property
    def init_op(self) -> Any:
        return self._init_op

    @property
    def init_feed_dict(self) -> Any:
        return self._init_feed_dict

    @property
    def ready_op(self) -> Any:
        return self._ready_op

    @property
    def ready_for_local_init_op(self) -> Any:
        return self._ready_for_local_init_op

    @property
    def local_init_op(self) -> Any:
        return self._local_init_op

    @property
    def local_init_feed_dict(self) -> Any:
        return self._local_init_feed_dict

    @property
    def summary_op(self) -> Any:
        return self._summary_op

    @property
    def saver(self) -> Any:
        return self._saver

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """Return what the collection holds, else a new default, which is added to it.

        Raises:
            RuntimeError: the collection holds more than one.
        """
        graph = context.get_default_graph()
        found = graph.get_collection(collection_key)
        if len(found) > 1:
            raise RuntimeError(
                f"More than one item in the collection '{collection_key}'. Please indicate which one to use by passing "
                f"it to the tf.Scaffold constructor as: tf.Scaffold({arg_name}=item to use)"
            )
        if found:
            return found[0]
        made = default_constructor()
        if made is not None:
            graph.add_to_collection(collection_key, made)
        return made

    @staticmethod
    def default_local_init_op() -> Any:
        """Initializers of local variables and of tables."""
        tables = context.get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
        return group(local_variables_initializer(), *tables, name="local_init")


def _default_init_op() -> Any:
    resources = context.get_default_graph().get_collection(GraphKeys.RESOURCES)
    return group(global_variables_initializer(), *[r.create for r in resources], name="global_init")


def _default_ready_op() -> Any:
    return report_uninitialized_variables()


def _default_ready_for_local_init_op() -> Any:
    return report_uninitialized_variables(global_variables())


def _merge_all_summaries() -> Any:
    found = context.get_default_graph().get_collection(GraphKeys.SUMMARIES)
    return apply_op("MergeSummary", inputs=found) if found else None


def _default_saver() -> Saver:
    graph = context.get_default_graph()
    found = graph.get_collection(GraphKeys.SAVERS)
    if len(found) > 1:
        raise RuntimeError("More than one item in collection SAVERS. Please pass the saver to use to tf.Scaffold.")
    if found:
        given: Saver = found[0]
        return given
    saver = Saver(sharded=True, allow_empty=True, max_to_keep=how_many(outside_a_job=5))
    graph.add_to_collection(GraphKeys.SAVERS, saver)
    return saver
