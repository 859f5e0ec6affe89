"""TensorFlow's error classes: one per status code, with the codes gRPC uses.

Every failure inside the runtime is an `OpError` subclass. `message` is the text users match on; `node` names the graph
node at fault when there is one, and is shown as TensorFlow shows it, as a ` [[{{node NAME}}]]` suffix.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from dtfctl.errors import DtfctlError


class Code(IntEnum):
    """Status codes, numbered as in gRPC and in TensorFlow's error::Code."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class OpError(DtfctlError):
    """A step, or the graph it runs, failed.

    Attributes:
        message: what went wrong, without the node suffix.
        code: the status code.
        node: name of the node at fault, or None.
        derived: True when this error only follows from another task's or node's failure; the master reports a
            derived error only when no other exists.
    """

    code: Code = Code.UNKNOWN
    # The operation at fault and its NodeDef, set by the session that reports the error.
    op: Any = None
    node_def: Any = None

    def __init__(
        self,
        *given: Any,
        node_def: Any = None,
        op: Any = None,
        message: Any = None,
        error_code: int | None = None,
        node: Any = None,
        derived: bool = False,
    ) -> None:
        """Make an error from its text and the name of the node at fault, by place.

        Programs of TensorFlow give (node_def, op, message), and OpError itself the error_code too, by place or name.
        """
        if len(given) > 2 or message is not None:
            theirs = dict(zip(("node_def", "op", "message", "error_code"), given))
            node_def, op = theirs.get("node_def", node_def), theirs.get("op", op)
            message, error_code = theirs.get("message", message), theirs.get("error_code", error_code)
        elif given:
            message, node = given[0], given[1] if len(given) > 1 else node
        self.node_def, self.op = node_def, op
        if error_code is not None:
            self.code = Code(error_code)
        super().__init__(message)
        self.message = str(message)
        self.node = node
        self.derived = derived

    @property
    def error_code(self) -> int:
        return int(self.code)

    @property
    def text(self) -> str:
        """The message with TensorFlow's node suffix, as it travels to clients."""
        if self.node is None or "{{node " in self.message:
            return self.message
        return f"{self.message}\n\t [[{{{{node {self.node}}}}}]]"

    def at(self, node: str) -> OpError:
        """Locate this error at `node` unless it already names one; give it back."""
        if self.node is None:
            self.node = node
        return self

    def __str__(self) -> str:
        return self.text


class CancelledError(OpError):
    code = Code.CANCELLED


class UnknownError(OpError):
    code = Code.UNKNOWN


class InvalidArgumentError(OpError):
    code = Code.INVALID_ARGUMENT


class DeadlineExceededError(OpError):
    code = Code.DEADLINE_EXCEEDED


class NotFoundError(OpError):
    code = Code.NOT_FOUND


class AlreadyExistsError(OpError):
    code = Code.ALREADY_EXISTS


class PermissionDeniedError(OpError):
    code = Code.PERMISSION_DENIED


class ResourceExhaustedError(OpError):
    code = Code.RESOURCE_EXHAUSTED


class FailedPreconditionError(OpError):
    code = Code.FAILED_PRECONDITION


class AbortedError(OpError):
    code = Code.ABORTED


class OutOfRangeError(OpError):
    code = Code.OUT_OF_RANGE


class UnimplementedError(OpError):
    code = Code.UNIMPLEMENTED


class InternalError(OpError):
    code = Code.INTERNAL


class UnavailableError(OpError):
    code = Code.UNAVAILABLE


class DataLossError(OpError):
    code = Code.DATA_LOSS


class UnauthenticatedError(OpError):
    code = Code.UNAUTHENTICATED


_BY_CODE: dict[int, type[OpError]] = {int(c.code): c for c in OpError.__subclasses__()}


def error_from_code(code: int, message: str, *, derived: bool = False) -> OpError:
    """Make the exception for a wire status; an unknown code becomes `UnknownError`, as in TensorFlow."""
    return _BY_CODE.get(code, UnknownError)(message, derived=derived)
