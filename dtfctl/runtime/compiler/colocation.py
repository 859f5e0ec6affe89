"""Groups of nodes that must share a device: union-find over what each node asks for and what kernels it has.

Semantics are those of TensorFlow's ColocationGraph: a group's device is the merge of its members' partial names, its
kinds of device the intersection of what their kernels support; an edge that carries a reference or a resource joins its
ends, and there the producer's device overrides what the consumer asked for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from functools import cache

from dtfctl.runtime.compiler.devices import DeviceInfo, DeviceSet, parse_device
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import Node, NodeGraph
from dtfctl.runtime.framework.op_signature import op_family
from dtfctl.runtime.kernels.registry import find_kernel, kernels_of

log = logging.getLogger(__name__)
_ANY = DeviceSpec()
_PREFIX = b"loc:@"
# What only passes each of its resources on, or ends them one by one. (An Identity's device is its input's.)
_OF_MANY = frozenset(("IdentityN", "DeleteMultiDeviceIterator"))
_PARTS = (("job", "jobs"), ("replica", "replicas"), ("task", "tasks"))
_DEVICE_PARTS = (("device_type", "types"), ("device_index", "ids"))


def _hands_on(node: Node) -> bool:
    """Tell whether a node only passes resources on, or to functions a dataset runs now and then.

    Calls do not: one that is not expanded runs on one device, which has to be that of its resources.
    """
    if node.op in _OF_MANY:
        return True
    signature = node.signature
    return signature.takes_functions and any(a.dtype is dtypes.variant for a in (*signature.inputs, *signature.outputs))


def merge_specs(a: DeviceSpec, b: DeviceSpec, soft: bool = False) -> DeviceSpec:
    """Return what both partial names say. With `soft`, kind and number they disagree on are dropped.

    Raises:
        ValueError: they disagree.
    """
    if a == b or b == _ANY:
        return a
    if a == _ANY:
        return b
    for part, plural in _PARTS:
        one, other = getattr(a, part), getattr(b, part)
        if one is not None and other is not None and one != other:
            raise ValueError(_disagree(plural, a, b))
    for part, plural in _DEVICE_PARTS:
        one, other = getattr(a, part), getattr(b, part)
        if one is not None and other is not None and one != other:
            if not soft:
                raise ValueError(_disagree(plural, a, b))
            gone = {"device_index": None} | ({"device_type": None} if part == "device_type" else {})
            a, b = replace(a, **gone), replace(b, **gone)
    return a.merge(b)


def _disagree(plural: str, a: DeviceSpec, b: DeviceSpec) -> str:
    return f"Cannot merge devices with incompatible {plural}: '{a}' and '{b}'"


def compatible(a: DeviceSpec, b: DeviceSpec) -> bool:
    return a is b or not a.conflicts(b)


@dataclass(eq=False, slots=True)
class Group:
    """A node, or as the root of its tree, the group of nodes colocated with it.

    Attributes:
        requested: merge of what its members ask for.
        resource: merge of what its members that make references or resources ask for; cannot be overridden.
        supported: kinds of device all members have kernels for, with the lowest priority of those kernels.
        members: its nodes.
    """

    node: Node
    requested: DeviceSpec
    resource: DeviceSpec
    supported: dict[str, int]
    parent: Group | None = None
    assigned: DeviceInfo | None = None
    candidates: tuple[DeviceInfo, ...] | None = None
    members: list[Node] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Asked:
    """What nodes of equal op, attributes and device ask for.

    Attributes:
        may_join: an input may have to be on their device.
        classes: what they are to be colocated with.
        candidates: devices for those of them that are alone, once known.
    """

    supported: dict[str, int]
    requested: DeviceSpec
    resource: DeviceSpec
    may_join: bool
    classes: list[bytes]
    candidates: tuple[DeviceInfo, ...] | None = None


class ColocationGraph:
    """Groups of a graph's nodes.

    Args:
        graph: nodes with the devices they ask for.
        pinned: devices some nodes have already, by name.
        soft: `allow_soft_placement`.

    Raises:
        InvalidArgumentError: a device name is malformed, or nodes that must share a device cannot.
    """

    def __init__(self, graph: NodeGraph, devices: DeviceSet, pinned: dict[str, str], soft: bool) -> None:
        self._graph = graph
        self._devices = devices
        self._soft = soft
        self._support: dict[tuple[object, ...], dict[str, int]] = {}
        self._type_attrs: dict[str, list[str]] = {}
        self._fitting: dict[tuple[int, int], tuple[DeviceSpec, dict[str, int], tuple[DeviceInfo, ...]]] = {}
        # The graph holds the attributes, so their identity stays theirs.
        alike: dict[tuple[str, int, str], Asked] = {}
        self._asked: dict[Node, Asked] = {}
        # Of nodes that are not alone, and of those that were looked at as groups.
        self._groups: dict[Node, Group] = {}
        for node in graph:
            key = node.op, id(node.raw_attrs), node.device
            asked = alike.get(key)
            if asked is None:
                asked = alike[key] = self._ask(node)
            self._asked[node] = asked
            if pinned and node.name in pinned:
                self._pin(node, asked, pinned[node.name])
        self._colocate_edges()
        self._colocate_classes()

    def root(self, node: Node) -> Group:
        group = self._groups.get(node)
        if group is None:
            asked = self._asked[node]
            group = Group(node, asked.requested, asked.resource, asked.supported, None, None, None, [node])
            self._groups[node] = group
        while group.parent is not None:
            if group.parent.parent is not None:
                group.parent = group.parent.parent
            group = group.parent
        return group

    def _pin(self, node: Node, asked: Asked, device: str) -> None:
        if device in self._devices.by_name:
            spec = parse_device(device)
            self._groups[node] = Group(
                node, spec, spec, asked.supported, None, self._devices.by_name[device], None, [node]
            )

    def _ask(self, node: Node) -> Asked:
        supported = self._supported(node)
        if not supported:
            raise InvalidArgumentError(no_kernel(node, self._devices), node.name)
        requested = resource = _ANY
        if node.device:
            try:
                requested = parse_device(node.device)
            except ValueError:
                raise InvalidArgumentError(
                    f"Malformed device specification '{node.device}' in node: {{{{node {node.name}}}}}", node.name
                ) from None
            if _makes_handle(node):
                resource = requested
        raw = node.raw_attrs.get("_class")
        classes = [] if raw is None else [s[len(_PREFIX) :] for s in raw.list.s if s.startswith(_PREFIX)]
        return Asked(supported, requested, resource, any(map(_may_colocate, node.input_types)), classes)

    def _supported(self, node: Node) -> dict[str, int]:
        """Kinds of device with a kernel for the node, with its priority; all, for calls of functions.

        An op no kernel is registered for at all goes anywhere: only steps that need it fail.
        """
        attrs = self._type_attrs.get(node.op)
        if attrs is None:
            attrs = self._type_attrs[node.op] = [a.name for a in node.signature.attrs if "type" in a.kind]
        key = (node.op, *[node.attr(a) for a in attrs])
        known = self._support.get(key)
        if known is None:
            if node.op in self._graph.library.functions or not kernels_of(node.op):
                known = dict.fromkeys(self._devices.types, 0)
            else:
                specs = {t: find_kernel(node, t) for t in self._devices.types}
                known = {t: s.priority for t, s in specs.items() if s is not None}
            self._support[key] = known
        return known

    # Joining groups ---------------------------------------------------------------------------------------------------

    def _colocate_edges(self) -> None:
        for node, asked in self._asked.items():
            if not asked.may_join:
                continue
            for edge, dtype in zip(node.inputs, node.input_types):
                if dtype.is_ref or dtype is dtypes.resource:
                    if not _hands_on(node):
                        self._colocate_edge(edge.node, node)
                elif dtype is dtypes.variant and is_dataset(edge.node) and is_dataset(node):
                    self._colocate_edge(edge.node, node)

    def _colocate_edge(self, source: Node, node: Node) -> None:
        """Join the ends of an edge that carries a reference, resource or dataset: the consumer follows."""
        src, dst = self.root(source), self.root(node)
        if src is dst:
            return
        for what, a, b in (
            ("assigned", _spec_of(src.assigned), _spec_of(dst.assigned)),
            ("resource", src.resource, dst.resource),
        ):
            if not compatible(a, b):
                raise InvalidArgumentError(
                    "Cannot place the graph because a reference or resource edge connects colocation groups with "
                    f"incompatible {what} devices: {a} vs {b}. The edge src node is name='{source.name}' "
                    f"(op='{source.op}'), and the dst node is name='{node.name}' (op='{node.op}').",
                    node.name,
                )
        if not compatible(src.requested, dst.requested):
            log.info(
                "Ignoring device specification %s for node '%s' because its input from '%s' is on %s",
                dst.requested,
                node.name,
                source.name,
                src.requested,
            )
            dst.requested = _override(src.requested, dst.resource)
        try:
            self._join(source, node, src, dst)
        except InvalidArgumentError as e:
            raise InvalidArgumentError(
                "Nodes were connected by a reference or resource connection (requiring them to be on the same "
                f"device), but the two nodes were assigned two different devices: {e.message}",
                node.name,
            ) from None

    def _colocate_classes(self) -> None:
        named = {node: asked.classes for node, asked in self._asked.items() if asked.classes}
        if not named:
            return
        names = {name.decode(errors="surrogateescape") for wanted in named.values() for name in wanted}
        first: dict[bytes, Node] = {}
        for node in self._graph:
            for name in named.get(node, ()):
                self._colocate_class(node, name, first)
            if node.name in names:
                self._colocate_class(node, node.name.encode(), first)

    def _colocate_class(self, node: Node, name: bytes, first: dict[bytes, Node]) -> None:
        other = first.setdefault(name, node)
        if other is node:
            return
        a, b = self.root(other), self.root(node)
        if a is b:
            return
        try:
            self._join(other, node, a, b)
        except InvalidArgumentError as e:
            if not self._soft:
                raise e.at(node.name) from None
            log.warning("Not colocating '%s' with '%s': %s", node.name, other.name, e.message)

    def _join(self, x: Node, y: Node, a: Group, b: Group) -> None:
        """Make two groups one.

        Raises:
            InvalidArgumentError: their devices or their kernels disagree; nothing is changed.
        """
        where = f"{{{{colocation_node {x.name}}}}} and {{{{colocation_node {y.name}}}}}"
        try:
            requested = merge_specs(a.requested, b.requested, self._soft)
            resource = merge_specs(a.resource, b.resource)
            if requested is not a.requested or resource is not a.resource:
                requested = _override(requested, resource)
        except ValueError as e:
            raise InvalidArgumentError(f"Cannot colocate nodes {where}: {e}") from None
        supported = {t: min(p, b.supported[t]) for t, p in a.supported.items() if t in b.supported}
        if not supported:
            raise InvalidArgumentError(
                f"Cannot colocate nodes {where} because no device type supports both of those nodes and the other "
                f"nodes colocated with them.{self.describe(a)}{self.describe(b)}"
            )
        if len(a.members) < len(b.members):
            a, b = b, a
        b.parent = a
        a.requested, a.resource, a.supported = requested, resource, supported
        a.assigned = a.assigned or b.assigned
        a.candidates = None
        a.members += b.members
        b.members = []

    # Choosing ---------------------------------------------------------------------------------------------------------

    def assigned(self, node: Node) -> DeviceInfo | None:
        """Return where the node's group goes, if that is known."""
        return self.root(node).assigned if node in self._groups else None

    def assign(self, node: Node, device: DeviceInfo) -> None:
        """Assign the node's whole group to `device`."""
        if node not in self._groups:
            return
        group = self.root(node)
        if group.assigned is None and len(group.members) > 1:
            group.assigned = device
            group.requested = parse_device(device.name)
            group.candidates = (device,)

    def candidates(self, node: Node) -> tuple[DeviceInfo, ...]:
        """Devices a node may go to with its group, best first.

        Raises:
            InvalidArgumentError: there is none.
        """
        if node in self._groups:
            return self._candidates(node, self.root(node))
        asked = self._asked[node]
        if asked.candidates is None:
            asked.candidates = self._candidates(node, self.root(node))
        return asked.candidates

    def _candidates(self, node: Node, group: Group) -> tuple[DeviceInfo, ...]:
        if group.candidates is None:
            found = self._fitting_devices(group)
            if not found and self._soft and group.requested != _ANY:
                found = self._soft_candidates(group)
            if not found:
                raise InvalidArgumentError(
                    f"Cannot assign a device for operation {node.name}: {self._why_none(node, group)}", node.name
                )
            group.candidates = found
        return group.candidates

    def _fitting_devices(self, group: Group) -> tuple[DeviceInfo, ...]:
        """Devices a group may go to as it asks, worked out once for groups that share what they ask for."""
        requested, supported = group.requested, group.supported
        key = id(requested), id(supported)
        known = self._fitting.get(key)
        if known is None:
            found = self._filter(group, self._devices.matching(requested))
            # Held with them, so that their identities are not used again.
            known = self._fitting[key] = requested, supported, found
        return known[2]

    @staticmethod
    def _filter(group: Group, devices: tuple[DeviceInfo, ...]) -> tuple[DeviceInfo, ...]:
        found = [d for d in devices if d.device_type in group.supported]
        if any(group.supported.values()):
            found.sort(key=lambda d: -group.supported[d.device_type])
        return tuple(found)

    def _soft_candidates(self, group: Group) -> tuple[DeviceInfo, ...]:
        kept = group.requested.without_device()
        preferred = kept
        if group.resource.device_type is not None:
            preferred = replace(preferred, device_type=group.requested.device_type)
        if group.resource.device_index is not None:
            preferred = replace(preferred, device_index=group.requested.device_index)
        found = self._filter(group, self._devices.matching(preferred))
        if not found and preferred != kept:
            found = self._filter(group, self._devices.matching(kept))
            if found:
                log.warning("Changed the device of resources to place '%s':%s", group.node.name, self.describe(group))
        return found

    def _why_none(self, node: Node, group: Group) -> str:
        debug = self.describe(group)
        if group.requested == _ANY:
            inputs = ", ".join(dtypes.WIRE_NAME[t] for t in node.input_types)
            return (
                "Node had no OpKernel registered to support this operation: "
                f"Operation was {node.op} and inputs were [{inputs}].\n{debug}"
            )
        names = ", ".join(self._devices.names())
        if not node.device or parse_device(node.device) != group.requested:
            return (
                f"Could not satisfy explicit device specification '{node.device}' because the node "
                f"{{{{colocation_node {node.name}}}}} was colocated with a group of nodes that required incompatible "
                f"device '{group.requested}'. All available devices [{names}]. {debug}"
            )
        if not self._devices.matching(group.requested):
            return (
                f"{{{{node {node.name}}}}} was explicitly assigned to {node.device} but available devices are "
                f"[ {names} ]. Make sure the device specification refers to a valid device."
            )
        if group.requested.device_type is not None:
            return (
                f"Could not satisfy explicit device specification '{node.device}' because no supported kernel for "
                f"{group.requested.device_type} devices is available.{debug}\nOp: {node.op}\n"
                f"Registered kernels:\n{list_kernels(node.op)}"
            )
        return f"Could not satisfy explicit device specification '{node.device}'{debug}"

    def describe(self, group: Group) -> str:
        """Return the group's members, for messages."""
        shown = group.members[:20]
        kinds = "".join(
            f"\n{op}: {' '.join(self._supported(node))} " for op, node in {n.op: n for n in group.members}.items()
        )
        nodes = "".join(f"\n  {n.name} ({n.op}) {n.device}" for n in shown)
        more = f"\n  and {len(group.members) - len(shown)} more" if len(group.members) > len(shown) else ""
        return (
            "\nColocation Debug Info:\nColocation group had the following types and supported devices: "
            f"\nRoot: requested '{group.requested}', resource '{group.resource}', supported "
            f"[{', '.join(group.supported)}]{kinds}\n\nColocation members, user-requested devices, and framework "
            f"assigned devices, if any:{nodes}{more}\n"
        )


@cache
def _may_colocate(dtype: dtypes.DType) -> bool:
    """Tell whether an edge of this type may have to stay on one device."""
    return dtype.is_ref or dtype is dtypes.resource or dtype is dtypes.variant


def _spec_of(device: DeviceInfo | None) -> DeviceSpec:
    return _ANY if device is None else parse_device(device.name)


def _override(requested: DeviceSpec, fixed: DeviceSpec) -> DeviceSpec:
    """`requested`, made to say what `fixed` says."""
    return requested if fixed == _ANY else requested.merge(fixed)


def _makes_handle(node: Node) -> bool:
    """Tell whether a node is a source of a reference or resource: where it is asked to be is where it must be."""
    if node.inputs or len(node.output_types) != 1:
        return False
    dtype = node.output_types[0]
    return dtype.is_ref or dtype is dtypes.resource


def is_dataset(node: Node) -> bool:
    """Tell whether ops of a type make a dataset."""
    outputs = node.output_types
    return (
        len(outputs) == 1 and outputs[0] is dtypes.variant and "Dataset" in node.op and op_family(node.op) == "dataset"
    )


def list_kernels(op: str) -> str:
    lines = [
        f"  device='{device}'"
        + "".join(f"; {a} in [{', '.join(sorted(dtypes.WIRE_NAME[t] for t in ts))}]" for a, ts in spec.types.items())
        for spec in kernels_of(op)
        for device in spec.devices
    ]
    return "\n".join(lines) or "  <no registered kernels>"


def no_kernel(node: Node, devices: DeviceSet) -> str:
    attrs = ", ".join(
        f"{name}={dtypes.WIRE_NAME[value]}" for name, value in node.attrs.items() if isinstance(value, dtypes.DType)
    )
    return (
        f"No OpKernel was registered to support Op '{node.op}' used by {{{{node {node.name}}}}} with these attrs: "
        f"[{attrs}]\nRegistered devices: [{', '.join(sorted(devices.types))}]\nRegistered kernels:\n"
        f"{list_kernels(node.op)}"
    )
