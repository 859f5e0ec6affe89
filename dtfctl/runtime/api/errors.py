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
