"""Imports point downward only: a module may use its own layer and those below, never one above or beside its stack.

The programs `dtfctl/task.py`, `dtfctl/seed.py`, `dtfctl/plaintext_port.py`, `dtfctl/profile_tasks.py`,
`dtfctl/show_graph.py`, `dtfctl/checkpoint_files.py`, `dtfctl/run.py` and those in `dtfctl/jobs` are the places where
launcher and runtime meet, and `dtfctl/simulate`, which starts neither.
"""

from __future__ import annotations

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import dtfctl

ROOT = Path(dtfctl.__file__).parent

LAUNCHER_SIDE = [{"protocol", "net"}, {"health"}, {"launcher"}, {"dashboard", "tune", "simulate"}, {"cli"}]
RUNTIME = [
    {"protocol", "net"},
    {"runtime.framework", "runtime.memory", "runtime.compression"},
    {"runtime.platform"},
    {"runtime.ops", "runtime.checkpoint"},
    {"runtime.compiler", "runtime.kernels", "runtime.rendezvous", "runtime.replication"},
    {"runtime.executor"},
    {"runtime.steps"},
    {"runtime.collective"},
    {"runtime.services"},
    {"runtime.client", "runtime.eager", "runtime.profiler"},
    {"runtime.inspect"},
    {"runtime.train", "runtime.data"},
    {"runtime.strategies"},
    {"runtime.pipelines"},
    {"runtime.export", "runtime.testing"},
    {"runtime.keras"},
    {"runtime.api", "runtime"},
    {"runtime.distributions", "runtime.feature_column"},
    {"runtime.estimator"},
    {"runtime.programs", "contrib"},
    {"serve", "simulate"},
]
LAUNCHER = [
    {"launcher.errors", "launcher.model"},
    {"launcher.system"},
    {"launcher.paths", "launcher.selectors", "launcher.identity", "launcher.spec"},
    {"launcher.rpc", "launcher.messages.codec"},
    {"launcher.messages"},
    {"launcher.transfer"},
    {"launcher.checkpoints"},
    {"launcher.agent"},
    {"launcher.providers"},
    {"launcher.controller"},
    {"launcher.operator"},
    {"launcher.api"},
]
"""The rooms of the launcher."""
AGENT = [
    {"launcher.agent.tell"},
    {"launcher.agent.start"},
    {"launcher.agent.units"},
    {"launcher.agent.lease", "launcher.agent.loop"},
    {"launcher.agent.access"},
    {"launcher.agent.program", "launcher.agent.__main__", "launcher.agent.fork"},
]
CONTROLLER = [
    {"launcher.controller.state"},
    {"launcher.controller.decisions"},
    {"launcher.controller.hosts"},
    {"launcher.controller.workloads"},
    {"launcher.controller.rebuild", "launcher.controller.loop"},
    {"launcher.controller.serve"},
    {"launcher.controller.__main__"},
]
"""What is known, what follows from it (pure), and who carries it out: with hosts, then with tasks and jobs by these."""
OVERHEARD = {("launcher.controller.rebuild", "launcher.agent.units.state_file")}
"""Controller and agent know of each other what they say (`launcher.messages`); and a controller that has lost its
database reads what agents had written for themselves."""
FREE = {
    "jobs",
    "task",
    "seed",
    "plaintext_port",
    "profile_tasks",
    "show_graph",
    "checkpoint_files",
    "run",
    "__main__",
    "",
}
"""May import anything: the meeting places, which nobody imports, and the package itself."""
SHARED = {
    "errors",
    "cores",
    "_version",
    "net",
    "protocol",
    "values",
    "durable",
    "copied",
    "guard",
    "tracing",
    "later",
    "figures",
    "serving",
    "thresholds",
}
"""May be imported from anywhere."""


def layer(module: str) -> str:
    """The layer of a module: `runtime.ops` of `dtfctl.runtime.ops.math`, `cli` of `dtfctl.cli.main`."""
    parts = module.split(".")[1:]
    if parts[:1] == ["runtime"] and len(parts) > 1 and (ROOT / "runtime" / parts[1]).is_dir():
        return f"runtime.{parts[1]}"
    return parts[0] if parts else ""


def may_import(importer: str, imported: str) -> bool:
    """Whether layer `importer` may import layer `imported`."""
    if importer == imported or importer in FREE or imported in SHARED or imported == "":
        return True
    for stack in (LAUNCHER_SIDE, RUNTIME):
        heights = {name: height for height, names in enumerate(stack) for name in names}
        if importer in heights and imported in heights:
            return heights[imported] <= heights[importer]
    return False


def room(module: str, rooms: list[set[str]]) -> int | None:
    """The height of the room that a module is in, by the longest name that is its own or its package's."""
    heights = {f"dtfctl.{name}": height for height, names in enumerate(rooms) for name in names}
    while module:
        if module in heights:
            return heights[module]
        module = module.rpartition(".")[0]
    return None


def climbs(importer: str, imported: str) -> bool:
    """Whether it is an import from a room of the launcher to one above it."""
    for rooms in (LAUNCHER, AGENT, CONTROLLER):
        own, other = room(importer, rooms), room(imported, rooms)
        if own is not None and other is not None and other > own:
            return True
    return False


def imports(tree: ast.AST, module: str, is_package: bool) -> set[str]:
    """The modules of this package that run-time code of `tree` imports, wherever in the file."""
    found = set()
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        # Expressions hold no imports, and are most of a tree.
        for blocks in ("body", "handlers", "orelse", "finalbody", "cases"):
            waiting.extend(getattr(node, blocks, ()))
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                package = package[: len(package) - node.level + 1]
                base = ".".join([*package, *([node.module] if node.module else [])])
            # `from dtfctl.runtime import ops` names a module in what it imports.
            names = {f"{base}.{alias.name}" for alias in node.names}
            found |= {name for name in names if is_module(name)} or {base}
    return {name for name in found if name == "dtfctl" or name.startswith("dtfctl.")}


def loaded_by_name(tree: ast.AST) -> set[str]:
    """Find the modules that `import_module` is given by name; of a name with gaps, the package that it begins with."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module":
            name = node.args[0]
            if isinstance(name, ast.JoinedStr):
                name = name.values[0]
                text = ast.literal_eval(name).rpartition(".")[0] if isinstance(name, ast.Constant) else ""
            else:
                text = ast.literal_eval(name) if isinstance(name, ast.Constant) else ""
            found.add(text)
    return {name for name in found if name.startswith("dtfctl.")}


def is_module(name: str) -> bool:
    path = ROOT.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if not path.name.endswith("_pb2.py"))


def module_of(path: Path) -> str:
    names = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(names[:-1] if path.name == "__init__.py" else names)


@cache
def imported_by(path: Path) -> set[str]:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    by_name = loaded_by_name(tree) if "import_module" in text else set()
    return imports(tree, module_of(path), path.name == "__init__.py") | by_name


@pytest.mark.slow
def test_imports_point_downward() -> None:
    wrong = [
        f"{module} ({layer(module)}) imports {name}"
        for module, names in ((module_of(path), imported_by(path)) for path in modules())
        for name in sorted(names)
        if not may_import(layer(module), layer(name)) or climbs(module, name)
    ]
    assert not wrong, "upward:\n" + "\n".join(wrong)


def test_the_controller_knows_of_agents_only_what_they_say() -> None:
    found = set()
    for path in (ROOT / "launcher" / "controller").rglob("*.py"):
        module = module_of(path).removeprefix("dtfctl.")
        names = imported_by(path)
        found |= {(module, name.removeprefix("dtfctl.")) for name in names if name.startswith("dtfctl.launcher.agent")}
    assert found == OVERHEARD


def circle(known: dict[str, set[str]]) -> list[str]:
    """Modules each of which imports the one before it, the first at the end again; none where there is no circle."""
    try:
        TopologicalSorter(known).prepare()
    except CycleError as e:
        return list(e.args[1])
    return []


@pytest.mark.slow
def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count: they may put off a cost, and not hide who needs whom."""
    known = {module_of(path): imported_by(path) - {module_of(path)} for path in modules()}
    assert circle(known) == []


def test_a_circle_is_found_wherever_it_is_entered() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set(), "f": {"a"}}) == []
    found = circle({"a": {"b"}, "b": {"c"}, "c": {"d", "b"}, "d": set(), "f": {"a"}})
    assert set(found) == {"b", "c"} and found[0] == found[-1]


def test_every_module_of_the_launcher_is_in_a_room() -> None:
    names = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in (ROOT / "launcher").rglob("*.py")
    }
    homeless = {name for name in names if room(name.removesuffix(".__init__"), LAUNCHER) is None}
    assert homeless == {"dtfctl.launcher.__init__"}
    for part, rooms in (("agent", AGENT), ("controller", CONTROLLER)):
        inside = {name for name in names if name.startswith(f"dtfctl.launcher.{part}.")}
        homeless = {name for name in inside if room(name.removesuffix(".__init__"), rooms) is None}
        assert homeless == {f"dtfctl.launcher.{part}.__init__"}


def test_modules_loaded_by_their_name_count_as_imported() -> None:
    text = """
import importlib

def load(family):
    importlib.import_module("dtfctl.runtime.ops")
    importlib.import_module(f"dtfctl.runtime.kernels.{family}")
    importlib.import_module(f"{family}.math")
    importlib.import_module(family)
"""
    assert loaded_by_name(ast.parse(text)) == {"dtfctl.runtime.ops", "dtfctl.runtime.kernels"}


def test_the_rules_tell_up_from_down() -> None:
    assert may_import("cli", "launcher")
    assert may_import("launcher", "net") and may_import("runtime.services", "net")
    assert not may_import("net", "launcher") and not may_import("net", "runtime.framework")
    assert not may_import("launcher", "cli")
    assert may_import("runtime.services", "runtime.framework")
    assert not may_import("runtime.framework", "runtime.services")
    assert not may_import("launcher", "runtime.client")
    assert not may_import("runtime.client", "launcher")
    assert may_import("task", "runtime.services")
    assert may_import("plaintext_port", "runtime.services")
    assert not may_import("cli", "plaintext_port")
    assert not may_import("launcher", "plaintext_port")
    assert climbs("dtfctl.launcher.agent.loop", "dtfctl.launcher.controller.state.store")
    assert not climbs("dtfctl.launcher.controller.loop", "dtfctl.launcher.messages.agent")
    assert climbs("dtfctl.launcher.agent.tell.peers", "dtfctl.launcher.agent.units.unit")
    assert climbs("dtfctl.launcher.controller.decisions.job_queue", "dtfctl.launcher.controller.workloads.job_manager")
    assert not climbs(
        "dtfctl.launcher.controller.workloads.job_manager", "dtfctl.launcher.controller.decisions.job_queue"
    )


def test_imports_are_found_in_every_form() -> None:
    source = (
        "import dtfctl.cli.main\nfrom dtfctl.launcher import api\nfrom . import problems\n"
        "def f():\n    from dtfctl import errors\nif TYPE_CHECKING:\n    import dtfctl.runtime\n"
    )
    found = imports(ast.parse(source), "dtfctl.launcher.spec.load", is_package=False)
    assert {layer(name) for name in found} == {"cli", "launcher", "errors"}
