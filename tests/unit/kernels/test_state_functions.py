"""The functions on variables, for both kinds of variable."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.ops import state_ops
from dtfctl.runtime.ops.variables import Variable
from tests.support.interpreter import Interpreter


@pytest.mark.parametrize("use_resource", [False, True])
def test_updates_of_both_kinds_agree(use_resource: bool) -> None:
    with Graph().as_default() as graph:
        v = Variable(np.array([1.0, 2.0, 3.0], np.float32), use_resource=use_resource, name="v")
        updates = [
            state_ops.assign_add(v, [1.0, 1.0, 1.0]),
            state_ops.assign_sub(v, [0.0, 1.0, 0.0]),
            state_ops.scatter_add(v, constant([0, 0]), constant([10.0, 20.0])),
            state_ops.scatter_update(v, constant([2]), constant([7.0])),
            state_ops.scatter_nd_sub(v, constant([[1]]), constant([0.5])),
            state_ops.scatter_max(v, constant([1]), constant([9.0])),
        ]
        fetches = [u._as_graph_element() if hasattr(u, "_as_graph_element") else u for u in updates]
        initialized = state_ops.is_variable_initialized(v)
    interpreter = Interpreter(graph.as_graph_def())
    assert not interpreter.run([initialized.name])[0]
    interpreter.run([], {}, [v.initializer.name])
    assert interpreter.run([initialized.name])[0]
    got = [interpreter.run([f.name])[0].tolist() for f in fetches]
    assert got == [[2, 3, 4], [2, 2, 4], [32, 2, 4], [32, 2, 7], [32, 1.5, 7], [32, 9, 7]]
