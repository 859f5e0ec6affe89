"""tools/run_tests.py: what may fail beside others and pass alone, and what may not."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def run_tests() -> ModuleType:
    path = Path(__file__).resolve().parents[2] / "tools" / "run_tests.py"
    spec = importlib.util.spec_from_file_location("run_tests", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("failed", "again"),
    [
        ([("tests/lab/test_up.py::test_a", "call")], ["tests/lab/test_up.py::test_a"]),
        ([("tests/cluster/test_cli.py::test_a", "setup")] * 2, ["tests/cluster/test_cli.py::test_a"]),
        ([("tests/unit/kernels/test_math_oracle.py::test_a", "call")], []),
        ([("tests/lab/test_up.py::test_a", "call"), ("tests/unit/spec/test_load.py::test_b", "call")], []),
        ([("tests/lab/test_up.py::test_a", "call"), ("tests/lab/test_up.py::test_a", "teardown")], []),
        ([(f"tests/lab/test_up.py::test_{n}", "call") for n in range(5)], []),
        ([], []),
    ],
)
def test_only_few_tests_that_start_processes_get_a_second_try(
    run_tests: ModuleType, tmp_path: Path, failed: list[tuple[str, str]], again: list[str]
) -> None:
    failures = tmp_path / "failures"
    failures.write_text("".join(json.dumps({"test": test, "when": when}) + "\n" for test, when in failed))
    assert run_tests.may_run_again(failures) == again
