"""What of an op is short stands in the table (`ops/op_defs`) and nowhere else."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

import pytest

import dtfctl.runtime.ops

OPS = Path(dtfctl.runtime.ops.__file__).parent
BUILDERS = {"apply_op", "apply_op_nested", "apply_op_outputs", "make_op"}
USED_BY_THE_TABLE = {
    "dtfctl.runtime.framework.op_builder",
    "dtfctl.runtime.framework.convert",
    "dtfctl.runtime.framework.tensor_shape",
    "dtfctl.runtime.ops.gradients.common",
    "dtfctl.runtime.ops.operands",
    "dtfctl.runtime.ops.shapes.indexing",
}
"""The modules an entry can use: those of `ops` that need the table themselves are not among them."""
FUNCTIONS = {"register_shape", "register_gradient"}


def kind_of_misplaced(function: ast.FunctionDef, importable: set[str]) -> str:
    """What of the table a function is; empty where it does more than an entry can say."""
    statements = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if len(statements) != 1 or not isinstance(statements[0], ast.Return) or statements[0].value is None:
        return ""
    value = statements[0].value
    arguments = {a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]}
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id in FUNCTIONS:
            names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
            bound = {n.id for n in ast.walk(value) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            if names <= arguments | bound | importable | set(dir(builtins)):
                return decorator.func.id.removeprefix("register_")
    if function.decorator_list or "name" not in arguments or not isinstance(value, ast.Call):
        return ""
    if not (isinstance(value.func, ast.Name) and value.func.id in BUILDERS):
        return ""
    given = [*value.args, *(k.value for k in value.keywords)]
    is_handed_on = all(isinstance(v, ast.Constant) or (isinstance(v, ast.Name) and v.id in arguments) for v in given)
    return "function" if is_handed_on and isinstance(value.args[0], ast.Constant) else ""


def misplaced(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    importable = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module in USED_BY_THE_TABLE or node.module == "numpy")
        for alias in node.names
    } | {"dtypes"}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (kind := kind_of_misplaced(node, importable)):
            yield f"{node.name} ({kind})"


@pytest.mark.parametrize("path", sorted(p for p in OPS.rglob("*.py") if "op_defs" not in p.parts), ids=str)
def test_what_is_short_stands_in_the_table(path: Path) -> None:
    assert not list(misplaced(path.read_text())), "these belong in an entry of ops/op_defs"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(x, name=None):\n    return apply_op('Relu', name, features=x)", ["f (function)"]),
        ("def f(x, name=None):\n    return apply_op('Relu', name, features=prepared(x))", []),
        ("def f(x):\n    return apply_op('Relu', features=x)", []),
        ("@register_shape('Relu')\ndef f(op):\n    return [op.inputs[0].shape]", ["f (shape)"]),
        ("@register_shape('Relu')\ndef f(op):\n    return [_of_its_own(op)]", []),
        ("@register_gradient('Relu')\ndef f(op, grad):\n    return [grad for _ in op.inputs]", ["f (gradient)"]),
        (
            (
                "from dtfctl.runtime.framework.op_builder import apply_op\n"
                "@register_gradient('Relu')\ndef f(op, grad):\n    'Doc.'\n    return apply_op('ReluGrad', g=grad)"
            ),
            ["f (gradient)"],
        ),
        ("@register_gradient('Relu')\ndef f(op, grad):\n    x = op.inputs[0]\n    return x * grad", []),
    ],
)
def test_what_counts_as_short(source: str, found: list[str]) -> None:
    assert list(misplaced(source)) == found
