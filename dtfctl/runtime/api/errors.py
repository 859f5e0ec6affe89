"""`tf.errors`."""

from __future__ import annotations

from dtfctl.runtime.framework.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    Code,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
)

OK = Code.OK
CANCELLED = Code.CANCELLED
UNKNOWN = Code.UNKNOWN
INVALID_ARGUMENT = Code.INVALID_ARGUMENT
DEADLINE_EXCEEDED = Code.DEADLINE_EXCEEDED
NOT_FOUND = Code.NOT_FOUND
ALREADY_EXISTS = Code.ALREADY_EXISTS
PERMISSION_DENIED = Code.PERMISSION_DENIED
RESOURCE_EXHAUSTED = Code.RESOURCE_EXHAUSTED
FAILED_PRECONDITION = Code.FAILED_PRECONDITION
ABORTED = Code.ABORTED
OUT_OF_RANGE = Code.OUT_OF_RANGE
UNIMPLEMENTED = Code.UNIMPLEMENTED
INTERNAL = Code.INTERNAL
UNAVAILABLE = Code.UNAVAILABLE
DATA_LOSS = Code.DATA_LOSS
UNAUTHENTICATED = Code.UNAUTHENTICATED

_CLASSES: dict[int, type[OpError]] = {int(kind.code): kind for kind in OpError.__subclasses__()}


def exception_type_from_error_code(error_code: int) -> type[OpError]:
    """Return the class of errors of a code; KeyError where there is none."""
    return _CLASSES[int(error_code)]


def error_code_from_exception_type(cls: type) -> int | None:
    """Return the code of a class of errors, None for a class that has none."""
    return next((code for code, kind in _CLASSES.items() if kind is cls), None)
