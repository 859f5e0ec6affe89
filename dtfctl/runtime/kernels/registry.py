"""Which function computes which op, for which types, on which device.

A kernel is made in two stages. Its *factory* gets a `KernelBuild` (the node's attributes, types and device) once, when
a plan is built, and returns the *kernel*: a plain function from input arrays to an output array, or to a tuple or
list of arrays when the op has several outputs or none (`None`/`()` for none). Plans call it directly, with nothing in
between.

    @register_kernel("LeakyRelu", T=FLOATS, devices=CPU_GPU)
    def leaky_relu(k: KernelBuild) -> Kernel:
        alpha, xp = k.attr("alpha"), k.xp
        return lambda x: xp.where(x > 0, x, x * x.dtype.type(alpha))

Values are arrays (see framework.dtypes); numpy scalars are accepted as 0-d results, except for object dtypes, where
the result must be an array. Inputs are immutable: a kernel never writes into them, nor returns a view of something that
will change; returning an input or a view of it is fine. An argument declared `ref` arrives as a `Variable`. With
`step=True` the kernel takes the `StepContext` first. With `blocking=True` it may wait for other steps or nodes and is
never run where others would have to wait for it. What else is known of how it behaves is in its `promises`.

A family's modules, all of kernels/<family>, are imported when an op of it is first looked up.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.function_library import FunctionLibrary
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.op_signature import op_family
from dtfctl.runtime.framework.plugins import load_plugins
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.own import looked_at
from dtfctl.runtime.kernels.promises import NONE, Promises

if TYPE_CHECKING:
    from dtfctl.runtime.kernels.context import FunctionCaller, StepContext

Kernel = Callable[..., Any]
Factory = Callable[["KernelBuild"], Kernel]

CPU = ("CPU",)
GPU = ("GPU",)
CPU_GPU = ("CPU", "GPU")

FLOATS = (dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.float64)
COMPLEX = (dtypes.complex64, dtypes.complex128)
SIGNED = (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
UNSIGNED = (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64)
INTS = SIGNED + UNSIGNED
REALS = FLOATS + INTS
NUMBERS = REALS + COMPLEX
INDICES = (dtypes.int32, dtypes.int64)


@dataclass
class KernelBuild:
    """What a factory may know: the node and where it will run; `functions` runs the library's functions."""

    node: Node
    device: Device
    resources: ResourceManager
    library: FunctionLibrary = field(default_factory=FunctionLibrary)
    functions: FunctionCaller | None = None

    def attr(self, name: str, default: Any = None) -> Any:
        return self.node.attr(name, default)

    def text_attr(self, name: str, default: str = "") -> str:
        return self.node.text_attr(name, default)

    def int32_attr(self, name: str) -> int:
        """Read an integer attribute that TensorFlow keeps in 32 bits.

        Raises:
            InvalidArgumentError: it does not fit.
        """
        value = int(self.node.attr(name))
        if not -(2**31) <= value < 2**31:
            raise InvalidArgumentError(f"Attr {name} has value {value} out of range for an int32", self.node.name)
        return value

    def dtype(self, attr: str) -> DType:
        """Read a type attribute."""
        value = self.node.attr(attr)
        if not isinstance(value, DType):
            raise InvalidArgumentError(f"Attribute '{attr}' of '{self.node.op}' is not a type", self.node.name)
        return value

    @property
    def xp(self) -> Any:
        """The array namespace of the device: numpy or cupy."""
        return self.device.array_module

    def xp_for(self, attr: str) -> Any:
        """Choose the array namespace for values of a type attribute: numpy where they are arrays of objects."""
        return np if self.dtype(attr).is_object else self.xp

    @property
    def function_caller(self) -> FunctionCaller:
        """`functions`, which a kernel of an op that calls functions cannot do without."""
        if self.functions is None:
            raise InternalError(f"Op '{self.node.op}' calls functions, but nothing here runs them", self.node.name)
        return self.functions

    @cached_property
    def resource_name(self) -> str:
        """`shared_name`, or the node's name: what a resource op's resource is called."""
        return self.text_attr("shared_name") or self.node.name

    @cached_property
    def container(self) -> str:
        return self.text_attr("container") or self.resources.default_container


@dataclass(frozen=True)
class KernelSpec:
    """One registration.

    Attributes:
        types: for each type attribute the types this kernel takes; an attribute not named takes all.
        step: the kernel wants the StepContext as first argument.
        blocking: the kernel may wait.
        pieces: the kernel works in pieces (kernels/pieces.py), between which it looks whether its step was told to end.
        host_inputs, host_outputs: argument names that live in host memory although the kernel runs on a GPU.
        alike: the kernel knows nothing of its node but op and attributes; nodes of which these are equal may share it.
        promises: what plans may take for granted.
    """

    op: str
    factory: Factory
    devices: tuple[str, ...]
    types: Mapping[str, frozenset[DType]]
    step: bool = False
    blocking: bool = False
    host_inputs: tuple[str, ...] = ()
    host_outputs: tuple[str, ...] = ()
    priority: int = 0
    alike: bool = False
    pieces: bool = False
    promises: Promises = NONE

    def fits(self, node: Node, device_type: str) -> bool:
        return device_type in self.devices and all(self._allows(node, a, ts) for a, ts in self.types.items())

    @staticmethod
    def _allows(node: Node, attr: str, allowed: frozenset[DType]) -> bool:
        value = node.attr(attr)
        values = value if isinstance(value, tuple) else (value,)
        return all(isinstance(v, DType) and v.base_dtype in allowed for v in values)


_KERNELS: dict[str, list[KernelSpec]] = {}
_LOADED: set[str] = set()
_LOAD_LOCK = threading.RLock()
FAMILIES = (
    "array",
    "collective",
    "compression",
    "control",
    "data_flow",
    "dataset",
    "image",
    "io",
    "linalg",
    "math",
    "nn",
    "ragged",
    "random",
    "sparse",
    "state",
    "string",
    "training",
)


def register_kernel(
    op: str | Iterable[str],
    *,
    devices: tuple[str, ...] = CPU,
    step: bool = False,
    blocking: bool = False,
    host_inputs: tuple[str, ...] = (),
    host_outputs: tuple[str, ...] = (),
    priority: int = 0,
    alike: bool = False,
    pieces: bool = False,
    promises: Promises = NONE,
    **types: Iterable[DType],
) -> Callable[[Factory], Factory]:
    """Decorator: the function is the factory of `op`'s kernel (or of several ops', which then read `k.node.op`)."""

    def add(factory: Factory) -> Factory:
        allowed = {attr: frozenset(ts) for attr, ts in types.items()}
        for name in (op,) if isinstance(op, str) else op:
            spec = KernelSpec(
                name,
                looked_at(factory) if op_family(name) == "custom" else factory,
                devices,
                allowed,
                step,
                blocking,
                host_inputs,
                host_outputs,
                priority,
                alike,
                pieces,
                promises,
            )
            _KERNELS.setdefault(name, []).append(spec)
        return factory

    return add


def kernels_of(op: str) -> list[KernelSpec]:
    """List every registration for `op`, its family's modules imported first."""
    load_family(op_family(op))
    return _KERNELS.get(op, [])


@cache
def op_promises(op: str, promise: str) -> bool:
    """Tell whether every kernel of an op on a CPU says that something holds, for who asks before kernels are chosen.

    Args:
        promise: an attribute of `Promises` that is true or false.
    """
    specs = [s for s in kernels_of(op) if "CPU" in s.devices]
    return bool(specs) and all(getattr(s.promises, promise) is True for s in specs)


def load_all_kernels() -> Mapping[str, list[KernelSpec]]:
    """Import every family and return all registrations (for documentation and tests)."""
    for family in (*FAMILIES, "custom"):
        load_family(family)
    return _KERNELS


def load_family(family: str) -> None:
    """Import the modules of a family ("math"); "custom" is what plugins register."""
    if family in _LOADED:
        return
    with _LOAD_LOCK:
        if family == "custom":
            load_plugins()
        else:
            package = importlib.import_module(f"dtfctl.runtime.kernels.{family}")
            for module in sorted(found.name for found in pkgutil.iter_modules(package.__path__)):
                importlib.import_module(f"{package.__name__}.{module}")
        _LOADED.add(family)


@dataclass
class _Choice:
    """Which of an op's `count` registrations fit which values of `attrs`, all that they look at, on which device."""

    count: int
    attrs: tuple[str, ...]
    found: dict[tuple[Any, ...], KernelSpec | None] = field(default_factory=dict)


_CHOICES: dict[str, _Choice] = {}
# Combinations of types an op is remembered with.
_MOST_CHOICES = 1000


def _fits_memory(node: Node, device_type: str) -> bool:
    """Tell whether the device can hold the node's tensors: of the types numpy itself lacks cupy has bfloat16 only."""
    if device_type != "GPU":
        return True
    types = {t.base_dtype for t in (*node.input_types, *node.output_types)} - {dtypes.bfloat16}
    return all(t.is_object or np.dtype(t.np).isbuiltin == 1 for t in types)


def find_kernel(node: Node, device_type: str) -> KernelSpec | None:
    """Find the registration that fits the node's types on that kind of device, or None."""
    specs = kernels_of(node.op)
    if not specs:
        return None
    # Registrations come in whole families, or with plugins.
    choice = _CHOICES.get(node.op)
    if choice is None or choice.count != len(specs):
        named = {a for s in specs for a in s.types}
        typed = {a.name for a in node.signature.attrs if a.kind in ("type", "list(type)")}
        choice = _CHOICES[node.op] = _Choice(len(specs), tuple(sorted(named | typed)))
    key = device_type, *map(node.attr, choice.attrs)
    try:
        return choice.found[key]
    except KeyError:
        fitting = [s for s in specs if s.fits(node, device_type)] if _fits_memory(node, device_type) else []
        found = max(fitting, key=lambda s: s.priority) if fitting else None
        if len(choice.found) < _MOST_CHOICES:
            choice.found[key] = found
        return found


def require_kernel(node: Node, device_type: str) -> KernelSpec:
    """Find the registration that fits the node's types on that kind of device.

    Raises:
        NotFoundError: there is none; the message lists what is registered, as TensorFlow's does.
    """
    spec = find_kernel(node, device_type)
    if spec is None:
        known = kernels_of(node.op)
        listing = "\n".join(
            f"  device={'/'.join(s.devices)}; "
            + "; ".join(f"{a} in [{', '.join(sorted(t.name for t in ts))}]" for a, ts in s.types.items())
            for s in known
        )
        attrs = ", ".join(f"{k}={v.name}" for k, v in node.attrs.items() if isinstance(v, DType))
        raise NotFoundError(
            f"No OpKernel was registered to support Op '{node.op}' used by {{{{node {node.name}}}}} with these attrs: "
            f"[{attrs}]\nRegistered devices: [{device_type}]\nRegistered kernels:\n"
            f"{listing or '  <no registered kernels>'}",
            node.name,
        )
    return spec


def run_kernel(spec: KernelSpec, kernel: Kernel, step: StepContext, inputs: Iterable[Any]) -> tuple[Any, ...]:
    """Call a kernel and give its outputs as a tuple, whatever form it returned."""
    result = kernel(step, *inputs) if spec.step else kernel(*inputs)
    return as_outputs(result)


def as_outputs(result: Any) -> tuple[Any, ...]:
    if result is None:
        return ()
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
