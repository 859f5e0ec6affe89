"""Errors of a step's parts as they travel between tasks, and as they are told to who runs the step."""

from __future__ import annotations

from collections.abc import Sequence

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError, error_from_code


def report_of(error: OpError) -> worker_pb2.StepReport:
    """Write an error as the report that ends a part."""
    return worker_pb2.StepReport(code=error.error_code, message=error.text, derived=error.derived)


def error_of(task: str, report: worker_pb2.StepReport) -> OpError | None:
    """Read the error of a task's report; None where its part succeeded."""
    if not report.code:
        return None
    return error_from_code(report.code, f"From {task}:\n{report.message}", derived=report.derived)


def dead_fetch(name: str, fetches: Sequence[str]) -> OpError:
    """Make the error for a fetch on the branch not taken, with both of TensorFlow's texts for it."""
    return InvalidArgumentError(
        f"The tensor returned for {name} was not valid. Retval[{list(fetches).index(name)}] does not have value"
    )


def located(task: str, error: OpError) -> OpError:
    """Say of an error which task it comes from."""
    return error_from_code(error.error_code, f"From {task}:\n{error.message}")
