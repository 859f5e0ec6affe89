"""How long what was told to end may take to do so."""

from __future__ import annotations

from dtfctl.runtime.framework.errors import CancelledError, DeadlineExceededError, OpError

GRACE_S = 0.3
"""How long a step that was told to end may take before it is answered for."""
FAILED_GRACE_S = 10.0
"""The same after an error in it: nobody waits for an end at that time, and all is quiet once it is reported."""

ENDED = CancelledError("Step has ended", derived=True)
"""Why a step is cancelled that has ended as it should."""


def is_told(reason: OpError | None) -> bool:
    """Tell whether a step was told to end, rather than failed."""
    return isinstance(reason, (CancelledError, DeadlineExceededError))


def grace_s(reason: OpError | None) -> float:
    """Give the seconds that parts of a step which ends for that reason may take."""
    return GRACE_S if is_told(reason) else FAILED_GRACE_S
