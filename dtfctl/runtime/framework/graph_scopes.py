"""What a graph is built in: names, devices, colocation, control dependencies, containers, attributes of new ops."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.operation import Operation, Tensor

VALID_OP_NAME = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_VALID_SCOPE_NAME = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")

DeviceFunction = Callable[[Operation], Any]


class ControlBlock:
    """One `control_dependencies` block: what it waits for, and the ops made inside it so far."""

    def __init__(self, ops: list[Operation]) -> None:
        self.ops = ops
        self.created: set[Operation] = set()


class Scopes(threading.local):
    """What is open in a thread. Blocks replace what they change and put it back: nothing here is changed in place."""

    def __init__(self) -> None:
        self.name = ""
        self.devices: list[DeviceFunction | None] = []
        self.colocation: list[Operation] = []
        self.controls: list[ControlBlock] = []
        self.container = ""
        self.attrs: dict[str, graph_pb2.AttrValue] = {}
        self.creators: list[Callable[..., Any]] = []


class ScopedGraph:
    """The scopes that ops are made in. `Graph` is what they are made in."""

    building_function: bool

    def __init__(self) -> None:
        self._scopes = Scopes()
        self._names: dict[str, int] = {}
        self._gradient_overrides: dict[str, str] = {}

    def switch_to_thread_local(self) -> None:
        """Do nothing: each thread has scopes of its own here."""

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Tensor | Operation:
        """Find the tensor or operation meant by an object or name."""
        raise NotImplementedError

    # Names ------------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefix the names of ops made inside. "" or None resets to the root; a name ending in "/" re-enters one."""
        if name:
            pattern = _VALID_SCOPE_NAME if self._scopes.name else VALID_OP_NAME
            if not pattern.match(name):
                raise ValueError(f"'{name}' is not a valid {'scope' if self._scopes.name else 'root scope'} name")
        old = self._scopes.name
        if not name:
            new = ""
        elif name.endswith("/"):
            new = name[:-1]
        else:
            new = self.unique_name(name)
        self._scopes.name = new
        try:
            yield new + "/" if new else ""
        finally:
            self._scopes.name = old

    def get_name_scope(self) -> str:
        return self._scopes.name

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Choose a name no other op or scope has, inside the current scope; names differing in case alone are equal."""
        if self._scopes.name:
            name = f"{self._scopes.name}/{name}"
        key = name.lower()
        count = self._names.get(key, 0)
        if mark_as_used:
            self._names[key] = count + 1
        if not count:
            return name
        base = key
        while key in self._names:
            key, count = f"{base}_{count}", count + 1
        if mark_as_used:
            self._names[base] = count
            self._names[key] = 1
        return f"{name}_{count - 1}"

    # Devices and colocation -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Place ops made inside: a (partial) device string, a DeviceSpec, or a function of the op; None clears."""
        if device_name_or_function is None:
            function = None
        elif callable(device_name_or_function) and not isinstance(device_name_or_function, DeviceSpec):
            function = device_name_or_function
        else:
            spec = DeviceSpec.from_string(str(device_name_or_function))
            function = _merger(spec)
        old = self._scopes.devices
        self._scopes.devices = [*old, function]
        try:
            yield
        finally:
            self._scopes.devices = old

    def apply_device_scopes(self, op: Operation) -> None:
        """Complete an op's device from the scopes around; what it says itself wins."""
        for function in reversed(self._scopes.devices):
            if function is None:
                break
            op._device = str(function(op) or "")

    def _apply_devices(self, op: Operation) -> None:
        self.apply_device_scopes(op)
        colocated: Sequence[Operation] = self._scopes.colocation
        if colocated:
            groups = sorted({g for other in colocated for g in other.colocation_groups()})
            for other in colocated:
                if other.device:
                    op._device = other.device
            op.attrs["_class"] = encode_attr("list(string)", groups)

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Place ops made inside where `op` is; None clears."""
        old, old_devices = self._scopes.colocation, self._scopes.devices
        if op is None:
            self._scopes.colocation = []
        else:
            target = op if isinstance(op, Operation) else op.op
            self._scopes.colocation = [target] if ignore_existing else [*old, target]
        if ignore_existing:
            self._scopes.devices = []
        try:
            yield
        finally:
            self._scopes.colocation, self._scopes.devices = old, old_devices

    # Control dependencies ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Iterator[None]:
        """Let ops made inside run after all of these; None clears what is around."""
        old = self._scopes.controls
        if control_inputs is None:
            self._scopes.controls = []
            try:
                yield
            finally:
                self._scopes.controls = old
            return
        ops: list[Operation] = []
        for item in control_inputs:
            element = item
            for attribute in ("_as_graph_element", "handle"):
                if not isinstance(element, (Tensor, Operation, str)) and hasattr(element, attribute):
                    found = getattr(element, attribute)
                    element = found() if callable(found) else found
            if hasattr(element, "values") and not isinstance(element, (Tensor, Operation, str)):
                element = element.values
            element = self.as_graph_element(element) if not self.building_function else element
            op = element.op if isinstance(element, Tensor) else element
            if isinstance(op, Operation) and op.graph is self and op not in ops:
                ops.append(op)
        self._scopes.controls = [*old, ControlBlock(ops)]
        try:
            yield
        finally:
            self._scopes.controls = old

    def _controls_for(self, inputs: Sequence[Tensor]) -> list[Operation]:
        """Find the control inputs of a new op; those its data inputs already wait for are left out."""
        sources = {t.op for t in inputs}
        out: list[Operation] = []
        for controller in self._scopes.controls:
            if not sources.isdisjoint(controller.created):
                continue
            out += [op for op in controller.ops if op not in sources and op not in out]
        return out

    @property
    def _waits_for_ops(self) -> bool:
        """Whether ops made now run after others because of `control_dependencies`."""
        return bool(self._scopes.controls)

    # Other scopes -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Keep the state of stateful ops made inside in this resource container."""
        old = self._scopes.container
        self._scopes.container = container_name
        try:
            yield container_name
        finally:
            self._scopes.container = old

    @contextlib.contextmanager
    def attr_scope(self, attrs: Mapping[str, graph_pb2.AttrValue]) -> Iterator[None]:
        """Give ops made inside these attributes unless they have them."""
        old = self._scopes.attrs
        self._scopes.attrs = {**old, **attrs}
        try:
            yield
        finally:
            self._scopes.attrs = old

    @contextlib.contextmanager
    def variable_creator_scope(self, creator: Callable[..., Any]) -> Iterator[None]:
        """Let `creator(next_creator, **arguments)` make the variables made inside."""
        old = self._scopes.creators
        self._scopes.creators = [*old, creator]
        try:
            yield
        finally:
            self._scopes.creators = old

    def open_scopes(self) -> dict[str, Any]:
        """Return what is open in this thread, for `take_scopes` of another."""
        return dict(vars(self._scopes))

    def take_scopes(self, scopes: Mapping[str, Any]) -> None:
        """Let this thread be in the scopes that another one was in."""
        vars(self._scopes).update(scopes)

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> Iterator[None]:
        """Differentiate ops made inside with another registered gradient, by op type."""
        old = self._gradient_overrides
        self._gradient_overrides = {**old, **op_type_map}
        try:
            yield
        finally:
            self._gradient_overrides = old


def _merger(spec: DeviceSpec) -> DeviceFunction:
    return lambda op: spec.merge(DeviceSpec.from_string(op.device)).to_string()
