"""Where the runtime names ops: what is known of an op stands with its kernel or its signature, not in a list elsewhere.

A list of op names far from kernels is a promise nobody looks at (kernels/promises.py has those that are). The lists
that stand here mean exactly these ops: control flow, and what carries values in and out of graphs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import dtfctl.runtime as tf
from dtfctl.runtime.framework import structural_ops
from dtfctl.runtime.framework.op_signature import op_names

ROOT = Path(tf.__file__).parent
ROOMS = ("compiler", "eager", "executor", "memory", "rendezvous", "services", "steps")
# Where ops are also met as types of nodes, while graphs are built and sessions run.
FRONT = ("client", "collective", "data", "framework", "train")
# By file: the ops that one list names, and why it may.
LISTS = {
    "client/freeze.py": [
        (
            {"Identity", "Enter", "Exit", "Switch", "Merge", "NextIteration"},
            "a handle goes through them as it is, and this attribute says its type",
        ),
        (
            {"If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile"}
            | {"PartitionedCall", "StatefulPartitionedCall"},
            "which of their inputs and attributes belong to the functions",
        ),
    ],
    "collective/merging.py": [({"Add", "Mul", "Min", "Max"}, "what an all-reduce calls its merge")],
    "data/__init__.py": [
        ({"FixedLengthRecordDataset", "Iterator", "TFRecordDataset", "TextLineDataset"}, "names of classes"),
    ],
    "data/one_shot.py": [
        ({"Placeholder", "PlaceholderWithDefault", "HashTableV2"}, "a program that runs once has no state and no feed"),
    ],
    "framework/constant_value.py": [
        (
            {
                "Add",
                "AddV2",
                "BroadcastTo",
                "Cast",
                "ConcatV2",
                "Const",
                "Equal",
                "ExpandDims",
                "Fill",
                "FloorDiv",
                "FloorMod",
            }
            | {"Greater", "Identity", "Less", "LogicalNot", "Max", "Maximum", "Minimum", "Mul", "Neg", "Pack", "Prod"}
            | {"Range", "Rank", "Reshape", "Shape", "Size", "Squeeze", "StridedSlice", "Sub"},
            "each beside the function that computes it while a graph is built",
        ),
        ({"Cast", "Identity"}, "a shape goes through them as it is"),
    ],
    "framework/graph_util.py": [
        ({"DynamicStitch", "ParallelDynamicStitch"}, "TensorFlow leaves them to the CPU"),
        ({"Identity", "StopGradient"}, "they do nothing in a graph that is not trained"),
    ],
    "executor/regions.py": [
        ({"MatMul", "_MatMulByFactor"}, "they may be steps of tapes: of what is beside them one op is worth a region"),
    ],
    "executor/schedule.py": [
        (
            {"AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp"},
            "what moving averages are updated by, and may wait",
        ),
        ({"Identity", "ReadVariableOp"}, "which ops read a variable, of each of its kinds"),
    ],
    "train/saveables.py": [
        ({"Variable", "VariableV2", "VarHandleOp"}, "what a tensor that is to be saved must be the value of"),
    ],
    "train/prefetching.py": [
        ({"ReadVariableOp", "Identity"}, "which ops read a variable, of each of its kinds"),
        ({"Identity", "CompressedTransfer"}, "what a read passes through beside its variable"),
    ],
    "train/device_setter.py": [
        (
            {"Variable", "VariableV2", "VarHandleOp", "MutableHashTable", "MutableHashTableV2"}
            | {"MutableHashTableOfTensors", "MutableHashTableOfTensorsV2", "MutableDenseHashTable"}
            | {"MutableDenseHashTableV2", "ResourceConditionalAccumulator"},
            "a name of tf: TensorFlow's list of what replicas put on a ps",
        ),
    ],
    "compiler/urgency.py": [
        (
            {
                "Identity",
                "IdentityN",
                "ReadVariableOp",
                "Cast",
                "EncodeTensor",
                "DecodeTensor",
                "CompressedTransfer",
            },
            "who only hands a value on does not need it",
        ),
    ],
    "compiler/colocation.py": [
        ({"IdentityN", "DeleteMultiDeviceIterator"}, "of many resources each has a device of its own"),
    ],
    "compiler/expand.py": [({"Identity", "Enter", "Exit"}, "a resource goes through them as it is")],
    "compiler/passes/branches.py": [
        ({"If", "StatelessIf", "Case", "StatelessCase"}, "which call takes the place of a conditional"),
    ],
    "compiler/place.py": [({"GetSessionHandle", "GetSessionHandleV2"}, "a handle stands for a value where it is")],
    "executor/frame_nodes.py": [
        ({"_SwitchN", "_Arg", "_Retval", "Const", "NoOp", "ControlTrigger"}, "how the frame machine runs each"),
    ],
    "executor/loops.py": [({"Enter", "NextIteration"}, "the inputs of a loop variable's Merge")],
}


@cache
def modules(*rooms: str) -> list[tuple[str, ast.AST]]:
    paths = sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))
    return [(str(path.relative_to(ROOT)), ast.parse(path.read_text())) for path in paths]


def lists_of_ops(tree: ast.AST, names: frozenset[str]) -> Iterator[set[str]]:
    """Find sets, tuples, lists, keys of dicts and text to be split with more than one name of an op in them."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
            elements: list[ast.expr | None] = [*node.elts]
        elif isinstance(node, ast.Dict):
            elements = node.keys
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = re.findall(r"\w+", node.value)
            found = set(words) & names
            # What is told to people has other words between them.
            if len(found) > 1 and sum(word in names for word in words) > len(words) / 2:
                yield found
            continue
        else:
            continue
        found = {e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)} & names
        if len(found) > 1:
            yield found


def test_lists_of_ops_stand_with_what_they_say() -> None:
    found: dict[str, list[set[str]]] = {}
    names = frozenset(op_names())
    for path, tree in modules(*ROOMS, *FRONT):
        lists = list(lists_of_ops(tree, names))
        if lists and path != "framework/structural_ops.py":
            found[path] = lists
    wanted = {path: [ops for ops, _ in lists] for path, lists in LISTS.items()}
    assert found == wanted, "say it where the kernel is registered (kernels/promises.py), or in the op's signature"


def test_a_list_is_found() -> None:
    source = 'A = frozenset(("MatMul", "Conv2D"))\nB = {"Neg": 1, "Exp": 2}\nC = ["Tile", x]\nD = ("no", "op")'
    assert list(lists_of_ops(ast.parse(source), frozenset(op_names()))) == [{"Neg", "Exp"}, {"MatMul", "Conv2D"}]


def test_a_list_that_is_split_text_is_found() -> None:
    source = (
        'A = words("""\n Tanh\n Exp # Sum""")\nB = "Neg|Exp|Log".split("|")\nC = "a Switch whose Merge is not there"'
    )
    found = list(lists_of_ops(ast.parse(source), frozenset(op_names())))
    assert found == [{"Tanh", "Exp", "Sum"}, {"Neg", "Exp", "Log"}]


def test_structural_ops_are_ops() -> None:
    for name, value in vars(structural_ops).items():
        if isinstance(value, frozenset):
            assert value <= set(op_names()), name


# Ops that a comparison is about, besides structural ones.
ALONE = {
    "AddN": "a loop adds up the gradient of what it uses by it",
    "CompressedTransfer": "it does nothing where both of its ends are on one host",
    "Cast": "to the type it is of, it gives what it gets",
    "Const": "its value is in the graph",
    "Identity": "a read of a variable, and the values that may go by another name",
    "IdentityN": "where the body of a call ends",
    "MatMul": "products that share a factor or a sum have forms of their own",
    "Reshape": "the first of two says nothing",
    "Transpose": "two may undo each other",
}


def test_single_ops_are_named_for_what_they_mean() -> None:
    named = set()
    for path, tree in modules(*ROOMS, *FRONT):
        if path.partition("/")[0] in FRONT:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                named |= {s.value for s in sides if isinstance(s, ast.Constant) and isinstance(s.value, str)}
    structural = set().union(*(v for v in vars(structural_ops).values() if isinstance(v, frozenset)))
    assert (named & set(op_names())) - structural == set(ALONE)
