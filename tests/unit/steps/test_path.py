"""Which way a step goes: the table, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from dtfctl.runtime.steps.path import StepFacts, StepPath, choose_path


@pytest.mark.parametrize(
    ("facts", "path", "reason"),
    [
        ({"is_in_process": True}, StepPath.DIRECT, "one plan"),
        ({"is_in_process": True, "not_one_plan": "it is on a GPU"}, StepPath.MASTER, "it is on a GPU"),
        ({"is_in_process": True, "others": ["ps", "chief"]}, StepPath.MASTER, "parts in chief, ps"),
        ({"is_in_process": True, "has_options": True}, StepPath.MASTER, "RunOptions"),
        ({"is_in_process": True, "has_timeout": True, "others": ["ps"]}, StepPath.MASTER, "operation_timeout_in_ms"),
        ({"others": ["ps"]}, StepPath.CLIENT, "on this host"),
        ({}, StepPath.CALL, "only the master's own task"),
        ({"others": ["ps"], "elsewhere": "ps"}, StepPath.CALL, "ps is not on the host"),
        ({"others": ["ps"], "has_options": True}, StepPath.RPC, "RunOptions"),
        ({"others": ["ps"], "has_timeout": True}, StepPath.RPC, "operation_timeout_in_ms"),
        ({"others": ["ps"], "only_rpc": "the rpc_options ask for it"}, StepPath.RPC, "ask for it"),
    ],
)
def test_every_step_has_one_way_and_a_reason(facts: dict[str, Any], path: StepPath, reason: str) -> None:
    choice = choose_path(StepFacts(**facts))
    assert choice.path is path
    assert reason in choice.reason
    assert str(choice) == f"{path.value}: {choice.reason}"
