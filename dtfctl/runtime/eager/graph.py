"""The default graph of an eager program: it keeps no operations, it runs them.

Everything of the front end that builds graphs (conversions, name scopes, the ops' Python functions, the gradient
functions) asks the default graph to create operations. This one gives them back already computed, which is all that
eager execution needs.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.eager import control_flow, tape
from dtfctl.runtime.eager.calls import call_body
from dtfctl.runtime.eager.kernels import EagerKernels
from dtfctl.runtime.eager.tensor import EagerOperation, EagerTensor
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.dtypes import DType, resource, variant
from dtfctl.runtime.framework.func_graph import FuncGraph
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_signature import OpSignature, get_signature
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import infer_shapes
from dtfctl.runtime.framework.structural_ops import PLACEHOLDERS

_LARGEST_SEED = 2**31 - 1


class EagerGraph(Graph):
    """Runs each operation as it is created."""

    executes = True

    def __init__(self) -> None:
        self._seed: int | None = None
        self._random = random.Random()
        super().__init__()
        self.kernels = EagerKernels(self.library)
        self._constant = EagerOperation(self, "Const", get_signature("Const"), {})

    # Random numbers: ops without a seed of their own draw one from a generator that the global seed starts.
    @property
    def seed(self) -> int | None:
        return self._seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self._seed = seed
        self._random = random.Random(seed)
        if hasattr(self, "kernels"):
            self.kernels.forget_random_state()

    @property
    def seeds_given(self) -> int:
        return self._random.randint(0, _LARGEST_SEED)

    @seeds_given.setter
    def seeds_given(self, count: int) -> None:
        pass

    # Operations -------------------------------------------------------------------------------------------------------

    def add_op(
        self,
        signature: OpSignature,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, graph_pb2.AttrValue],
        name: str | None = None,
        compute_device: bool = True,
    ) -> Operation:
        """Run an op.

        Returns:
            Its record; the outputs have values.

        Raises:
            OpError: it fails. RuntimeError: it makes no sense outside a graph.
        """
        if signature.name in PLACEHOLDERS:
            raise RuntimeError("tf.placeholder() is not compatible with eager execution.")
        if signature.has_ref_input or signature.has_ref_output:
            raise RuntimeError(
                f"{signature.name} op does not support eager execution: it works on a reference. Use a resource "
                "variable, queue or table."
            )
        attrs = dict(attrs)
        if "container" in attrs and signature.is_stateful and not attrs["container"].s:
            attrs["container"] = encode_attr("string", self._scopes.container)
        override = self._gradient_overrides.get(signature.name)
        bound = self.kernels.bind(signature, attrs)
        tensors = [self._own(t) for t in inputs]
        values = self.kernels.run(signature.name, bound, [t._value for t in tensors])
        name = (name or signature.name).rstrip("/")
        if override is not None:
            attrs["_gradient_op_type"] = encode_attr("string", override)
        op = self.record(signature, attrs, name, tensors, values, bound.output_types)
        if "shared_name" in attrs and op.origin is not None:
            # Resources without a name end with the kernel that made them: the handle keeps it.
            op.origin.kernel = bound
        return op

    def record(
        self,
        signature: OpSignature,
        attrs: Mapping[str, graph_pb2.AttrValue],
        name: str,
        inputs: Sequence[EagerTensor],
        values: Sequence[Any],
        types: Sequence[DType],
    ) -> EagerOperation:
        """Record an op that ran, and show that to the tapes that watch its inputs."""
        origin = EagerOperation(self, name, signature, attrs)
        op = EagerOperation(self, name, signature, attrs, inputs, origin)
        op.outputs = [EagerTensor(origin, i, t, v) for i, (t, v) in enumerate(zip(types, values))]
        if any(t is resource or t is variant for t in types):
            shapes = [t._shape for t in op.outputs]
            infer_shapes(op)
            for tensor, shape in zip(op.outputs, shapes):
                tensor._shape = shape
        tape.record(op)
        return op

    def constant(self, value: np.ndarray[Any, Any], dtype: DType) -> EagerTensor:
        """Make a tensor of this value, which is copied: the program may change its array later."""
        return EagerTensor(self._constant, 0, dtype, value.copy())

    def _own(self, tensor: Tensor) -> EagerTensor:
        if not isinstance(tensor, EagerTensor):
            raise TypeError(
                f"The tensor {tensor!r} of a graph cannot be used where ops run eagerly: it has no value here. "
                "Return it from the function it was made in, or run its graph in a tf.Session."
            )
        return tensor

    def capture(self, tensor: Tensor) -> Tensor:
        return self._own(tensor)

    def call(self, body: FuncGraph, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Run a traced function."""
        return call_body(self, body, [self._own(t) for t in (*arguments, *body.external_captures)])

    # What graphs build ops for, and Python does here. The front end asks where `executes` holds. --------------------

    def cond(self, pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any], strict: bool) -> Any:
        return control_flow.cond(pred, true_fn, false_fn, strict)

    def switch_case(self, index: Any, functions: Sequence[Callable[[], Any]]) -> Any:
        return control_flow.switch_case(index, functions)

    def while_loop(
        self, cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Sequence[Any], maximum_iterations: Any
    ) -> list[Any]:
        return control_flow.while_loop(cond, body, loop_vars, maximum_iterations)

    def loss_gradients(self, loss: Callable[[], Any], variables: Sequence[Any] | None, grad_loss: Any) -> Any:
        """(gradients, variables) of a loss; the variables it reads when None are named."""
        with tape.GradientTape() as recording:
            if variables is not None:
                recording.watch(variables)
            value = loss()
        watched = list(recording.watched_variables()) if variables is None else list(variables)
        return recording.gradient(value, watched, grad_loss), watched

    def make_variable(self) -> type[Any]:
        from dtfctl.runtime.eager.variables import EagerVariable

        return EagerVariable

    # Scopes: order is the program's, names need not differ, and there is one device. ---------------------------------

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        yield

    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Checks the name; ops run on the CPU."""
        if callable(device_name_or_function) and not isinstance(device_name_or_function, DeviceSpec):
            raise RuntimeError("tf.device does not support functions when eager execution is enabled.")
        if device_name_or_function is not None:
            DeviceSpec.from_string(str(device_name_or_function))
        yield

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        return f"{self._scopes.name}/{name}" if self._scopes.name else name

    def add_to_collection(self, name: Any, value: Any) -> None:
        """Keeps the global step alone: the program holds its variables and losses, which end with its references."""
        if name == GraphKeys.GLOBAL_STEP:
            super().add_to_collection(name, value)

    def get_operations(self) -> list[Operation]:
        return []
