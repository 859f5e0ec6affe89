"""A graph under construction: its operations, and their collections. Its scopes are in `graph_scopes`."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.graph_scopes import VALID_OP_NAME, ScopedGraph
from dtfctl.runtime.framework.graph_stack import push_graph
from dtfctl.runtime.framework.graph_wire import NodeWriter
from dtfctl.runtime.framework.op_signature import OpSignature, get_signature
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import infer_shapes

# TensorFlow's graph producer version at 2.21; consumers use it to decide on default behaviours.
PRODUCER_VERSION = 2474


class Graph(ScopedGraph):
    """Operations by name. Thread-safe for construction; a session may run it while it grows.

    Attributes:
        executes: True where operations run as they are created (runtime.eager).
    """

    executes = False

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._operations: dict[str, Operation] = {}
        self._version = 0
        # Ops of control flow that were given more outputs, with the version in which they were.
        self._grown: dict[Operation, int] = {}
        self._finalized = False
        self._collections: dict[Any, list[Any]] = {}
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()
        self.library = FunctionLibrary()
        self.python_functions: dict[str, Any] = {}
        self.seed: int | None = None
        # How many random ops took their own seed from the graph's: TensorFlow numbers them.
        self.seeds_given = 0
        self._last_id = 0
        # True in the body of a function; captures of outer tensors then go through `capture`.
        self.building_function = False
        # Objects that live as long as the graph: iterators' functions, py_func callbacks.
        self._keep_alive: list[Any] = []

    @property
    def version(self) -> int:
        """Grows with every change; a session extends its remote graph when it differs."""
        return self._version

    @property
    def finalized(self) -> bool:
        return self._finalized

    def finalize(self) -> None:
        """Refuse new operations from now on."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")

    def _changed(self, op: Operation) -> None:
        self._version += 1

    def _grew(self, op: Operation) -> None:
        """Let sessions that know an op send it again, with the outputs that it has now."""
        self._changed(op)
        self._grown[op] = self._version

    @contextlib.contextmanager
    def as_default(self) -> Iterator[Graph]:
        """Make this the graph new ops go to, in this thread."""
        with push_graph(self):
            yield self

    # Operations -------------------------------------------------------------------------------------------------------

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        dtypes: Sequence[Any] | None = None,
        input_types: Sequence[Any] | None = None,
        name: str | None = None,
        attrs: Mapping[str, graph_pb2.AttrValue] | None = None,
        op_def: Any = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:
        """Add an operation by its type and attributes, as programs of TensorFlow make their own.

        Args:
            inputs: tensors, those of lists one after the other.
            dtypes, input_types: what the attributes say, too; types of outputs that differ are an error.
            op_def, compute_shapes: without effect: ops are known by their type, and shapes always inferred.

        Raises:
            TypeError: an output's type is not that of `dtypes`.
            InvalidArgumentError: the type is not registered.
        """
        op = self.add_op(get_signature(op_type), inputs, attrs or {}, name, compute_device)
        wanted = [as_dtype(t).base_dtype for t in dtypes or [] if t is not None]
        found = [t.dtype.base_dtype for t in op.outputs]
        if dtypes is not None and wanted != found:
            raise TypeError(f"outputs of '{op.name}' (op: '{op_type}') are of types {found}, not {wanted}")
        return op

    def add_op(
        self,
        signature: OpSignature,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, graph_pb2.AttrValue],
        name: str | None = None,
        compute_device: bool = True,
    ) -> Operation:
        """Add an operation; `framework.op_builder.apply_op` is the convenient way.

        Args:
            name: wanted name inside the current name scope; one that ends in "/" is taken as it is.

        Raises:
            ValueError: the name is malformed, an input is of another graph, or static shapes do not fit.
        """
        self._check_not_finalized()
        with self._lock:
            inputs = [self._own(t) for t in inputs]
            name = signature.name if name is None else name
            unique = name[:-1] if name.endswith("/") else self.unique_name(name)
            if not VALID_OP_NAME.match(unique):
                raise ValueError(f"'{unique}' is not a valid node name")
            if unique in self._operations:
                raise ValueError(f"Duplicate node name in graph: '{unique}'")
            controls = self._controls_for(inputs)
            op = Operation(self, unique, signature, inputs, dict(attrs), controls, "")
            if signature.is_stateful and "container" in op.attrs and not op.attrs["container"].s:
                op.attrs["container"] = encode_attr("string", self._scopes.container)
            for key, value in self._scopes.attrs.items():
                op.attrs.setdefault(key, value)
            override = self._gradient_overrides.get(signature.name)
            if override is not None:
                op.attrs.setdefault("_gradient_op_type", encode_attr("string", override))
            infer_shapes(op)
            self._last_id += 1
            op._id = self._last_id
            self._operations[unique] = op
            self._names.setdefault(unique.lower(), 1)
            self._version += 1
            for controller in self._scopes.controls:
                controller.created.add(op)
            if compute_device:
                self._apply_devices(op)
            return op

    def _own(self, tensor: Tensor) -> Tensor:
        if tensor.graph is not self:
            return self.capture(tensor)
        return tensor

    def capture(self, tensor: Tensor) -> Tensor:
        """Bring in a tensor of another graph; only function bodies can."""
        if tensor._value is not None:
            raise RuntimeError("Attempting to capture an EagerTensor without building a function.")
        raise ValueError(f"{tensor!r} must be from the same graph as the operation that uses it")

    def captured_by(self, op: Operation) -> Tensor | None:
        """Return the tensor of a graph around this one that an op stands for; None where there is none."""
        return None

    def get_operations(self) -> list[Operation]:
        return list(self._operations.values())

    def get_operation_by_name(self, name: str) -> Operation:
        """Find the operation of a name; KeyError when there is none."""
        found = self.as_graph_element(name, allow_tensor=False)
        assert isinstance(found, Operation)
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """Find the tensor of a name; KeyError when there is none, ValueError for an operation's name."""
        found = self.as_graph_element(name, allow_operation=False)
        assert isinstance(found, Tensor)
        return found

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Tensor | Operation:
        """Find the tensor or operation meant by an object or name.

        Raises:
            TypeError: of no such kind; KeyError: no such name; ValueError: another graph's, or a malformed name.
        """
        convert = getattr(obj, "_as_graph_element", None)
        if convert is not None:
            obj = convert()
        if isinstance(obj, bytes):
            obj = obj.decode()
        wanted = " or ".join([w for w, ok in (("Tensor", allow_tensor), ("Operation", allow_operation)) if ok])
        if isinstance(obj, Tensor) and allow_tensor:
            if obj.graph is not self:
                raise ValueError(f"Tensor {obj} is not an element of this graph.")
            return obj
        if isinstance(obj, Operation) and allow_operation:
            if obj.graph is not self:
                raise ValueError(f"Operation {obj!r} is not an element of this graph.")
            return obj
        if not isinstance(obj, str):
            raise TypeError(f"Can not convert a {type(obj).__name__} into a {wanted}.")
        return self._by_name(obj, allow_tensor, allow_operation)

    def _by_name(self, name: str, allow_tensor: bool, allow_operation: bool) -> Tensor | Operation:
        if ":" in name:
            if not allow_tensor:
                raise ValueError(f"Name {name!r} appears to refer to a Tensor, not an Operation.")
            op_name, _, index = name.rpartition(":")
            if not index.isdigit():
                raise ValueError(
                    f"The name {name!r} looks a like a Tensor name, but is not a valid one. "
                    'Tensor names must be of the form "<op_name>:<output_index>".'
                )
            op = self._operations.get(op_name)
            if op is None:
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. "
                    f"The operation, {op_name!r}, does not exist in the graph."
                )
            if int(index) >= len(op.outputs):
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, "
                    f"exists but only has {len(op.outputs)} outputs."
                )
            return op.outputs[int(index)]
        op = self._operations.get(name)
        if op is None:
            if not allow_operation:
                raise ValueError(
                    f"The name {name!r} looks like an (invalid) Operation name, not a Tensor. "
                    'Tensor names must be of the form "<op_name>:<output_index>".'
                )
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        if not allow_operation:
            raise ValueError(
                f"The name {name!r} refers to an Operation, not a Tensor. "
                'Tensor names must be of the form "<op_name>:<output_index>".'
            )
        return op

    def as_graph_def(
        self,
        from_version: int | None = None,
        add_shapes: bool = False,
        use_pybind11_proto: bool = False,
        *,
        grown_since: int | None = None,
    ) -> graph_pb2.GraphDef:
        """Serialize the graph as it travels.

        Args:
            from_version: only ops of a higher id, and those that have more outputs than in version `grown_since`.
            use_pybind11_proto: how TensorFlow makes the same message; without effect.
        """
        writer = NodeWriter()
        for op in self._operations.values():
            is_known = from_version is not None and op._id <= from_version
            if is_known and (grown_since is None or self._grown.get(op, 0) <= grown_since):
                continue
            attrs = op.attrs
            if add_shapes and op.outputs:
                attrs = {**attrs, "_output_shapes": encode_attr("list(shape)", [t.shape for t in op.outputs])}
            writer.add(op._name, op.signature.name, op.input_names, writer.rest(op._device, attrs))
        out = graph_pb2.GraphDef()
        writer.write(out)
        out.versions.producer = PRODUCER_VERSION
        if self.library.functions:
            out.library.CopyFrom(self.library.to_proto())
            out.versions.min_consumer = 12
        return out

    @property
    def last_id(self) -> int:
        """Id of the newest operation; `as_graph_def(from_version=id)` gives those after it."""
        return self._last_id

    # Collections, feeding and fetching --------------------------------------------------------------------------------

    def add_to_collection(self, name: Any, value: Any) -> None:
        self._check_not_finalized()
        self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        for name in [names] if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        items = self._collections.get(name, [])
        if scope is None:
            return list(items)
        pattern = re.compile(scope)
        return [i for i in items if hasattr(i, "name") and pattern.match(i.name)]

    def get_collection_ref(self, name: Any) -> list[Any]:
        """Get the list of a collection itself, not a copy."""
        return self._collections.setdefault(name, [])

    def get_all_collection_keys(self) -> list[str]:
        return [k for k in self._collections if isinstance(k, str)]

    @property
    def collections(self) -> list[str]:
        return self.get_all_collection_keys()

    def clear_collection(self, name: Any) -> None:
        self._collections.pop(name, None)

    def prevent_feeding(self, tensor: Tensor) -> None:
        self._unfeedable.add(tensor)

    def is_feedable(self, tensor: Tensor) -> bool:
        return tensor not in self._unfeedable

    def prevent_fetching(self, op: Operation) -> None:
        self._unfetchable.add(op)

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        return (tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op) not in self._unfetchable
