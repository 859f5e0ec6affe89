"""Objects that hold variables, as object-based checkpoints name them: by the attributes that lead to them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dtfctl.protocol.trackable_object_graph_pb2 import TrackableObjectGraph
from dtfctl.runtime.framework import context
from dtfctl.runtime.ops.variables import Variable
from dtfctl.runtime.train.optimizer import Optimizer

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
ATTRIBUTE = "VARIABLE_VALUE"
_ATTRIBUTES = "/.ATTRIBUTES/"


def children_of(value: Any) -> dict[str, Any]:
    """Return what an object holds that a checkpoint keeps, by name."""
    if isinstance(value, Variable):
        return {}
    if hasattr(value, "_trackable_children"):
        return dict(value._trackable_children())
    if isinstance(value, Optimizer):
        graph = context.get_default_graph()
        return {name: v for (name, g), v in sorted(value._non_slots.items(), key=lambda i: i[0][0]) if g is graph}
    if isinstance(value, dict):
        return {str(key): v for key, v in value.items() if is_trackable(v)}
    if isinstance(value, (list, tuple)):
        return {str(index): v for index, v in enumerate(value) if is_trackable(v)}
    return {}


def is_trackable(value: Any) -> bool:
    """Tell whether a checkpoint can keep what it holds."""
    if isinstance(value, (Variable, Optimizer, dict, list, tuple)):
        return True
    return hasattr(value, "_trackable_children")


def slots_of(optimizer: Any, variable: Any) -> dict[str, Any]:
    """Return what an optimizer keeps beside a variable, by name."""
    if hasattr(optimizer, "_trackable_slots"):
        return dict(optimizer._trackable_slots(variable))
    if isinstance(optimizer, Optimizer):
        return {name: held[variable] for name, held in sorted(optimizer._slots.items()) if variable in held}
    return {}


def _escaped(name: str) -> str:
    return name.replace(".", "..").replace("/", ".S")


@dataclass
class ObjectGraph:
    """All objects that a root leads to, those near it first."""

    objects: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)

    def add(self, value: Any, path: str) -> int:
        """Number an object."""
        self.numbers[id(value)] = len(self.objects)
        self.objects.append(value)
        self.paths.append(path)
        return len(self.objects) - 1


def walk(root: Any) -> ObjectGraph:
    """Find all objects below a root, and the shortest path to each."""
    found = ObjectGraph()
    found.add(root, "")
    index = 0
    while index < len(found.objects):
        path = found.paths[index]
        for name, child in children_of(found.objects[index]).items():
            if id(child) not in found.numbers:
                found.add(child, f"{path}/{_escaped(name)}" if path else _escaped(name))
        index += 1
    return found


def serialize(root: Any) -> tuple[TrackableObjectGraph, dict[str, Any]]:
    """Describe the objects below a root; returns that, and the variables by the keys of their values."""
    found = walk(root)
    proto = TrackableObjectGraph()
    variables: dict[str, Any] = {}
    count = len(found.objects)
    for index in range(count):
        node = proto.nodes.add()
        for name, child in children_of(found.objects[index]).items():
            node.children.add(node_id=found.numbers[id(child)], local_name=name)
    for optimizer_index in range(count):
        for index in range(count):
            variable = found.objects[index]
            if not isinstance(variable, Variable):
                continue
            for name, slot in slots_of(found.objects[optimizer_index], variable).items():
                number = found.numbers.get(id(slot))
                if number is None:
                    owner = found.paths[optimizer_index]
                    path = f"{found.paths[index]}/.OPTIMIZER_SLOT/{owner}/{_escaped(name)}"
                    number = found.add(slot, path)
                    proto.nodes.add()
                proto.nodes[optimizer_index].slot_variables.add(
                    original_variable_node_id=index, slot_name=name, slot_variable_node_id=number
                )
    for index, value in enumerate(found.objects):
        if isinstance(value, Variable):
            key = f"{found.paths[index]}{_ATTRIBUTES}{ATTRIBUTE}"
            proto.nodes[index].attributes.add(name=ATTRIBUTE, full_name=value._shared_name, checkpoint_key=key)
            variables[key] = value
    return proto, variables


@dataclass
class Match:
    """What of a checkpoint belongs to which variable of the program."""

    values: dict[str, Any] = field(default_factory=dict)
    """Variables by the keys of their values."""
    objects: list[Any] = field(default_factory=list)
    """All objects of the program below the root."""
    nodes: set[int] = field(default_factory=set)
    """The checkpoint's objects that were found."""


def match(root: Any, proto: TrackableObjectGraph) -> Match:
    """Find the variables of a program that a checkpoint has values for, by the names that lead to them."""
    result = Match(objects=walk(root).objects)
    placed: dict[int, Any] = {0: root}
    pending = [0]
    while pending:
        number = pending.pop(0)
        children = children_of(placed[number])
        for reference in proto.nodes[number].children:
            child = children.get(reference.local_name)
            if child is not None and reference.node_id not in placed:
                placed[reference.node_id] = child
                pending.append(reference.node_id)
    for number, value in list(placed.items()):
        for slot in proto.nodes[number].slot_variables:
            variable = placed.get(slot.original_variable_node_id)
            if variable is not None:
                held = slots_of(value, variable).get(slot.slot_name)
                if held is not None:
                    placed[slot.slot_variable_node_id] = held
                    result.objects.append(held)
    for number, value in placed.items():
        result.nodes.add(number)
        if isinstance(value, Variable):
            for attribute in proto.nodes[number].attributes:
                result.values[attribute.checkpoint_key] = value
    return result
