"""How many examples a property is tried on: few with every change, all of them in `make nightly`."""

from __future__ import annotations

import os

IS_NIGHTLY = os.environ.get("DTF_NIGHTLY") == "1"
SHARE = 5
FEWEST = 20


def examples(count: int) -> int:
    """Give `count` in `make nightly`, else a fifth of it, and 20 at the least."""
    return count if IS_NIGHTLY else min(count, max(FEWEST, count // SHARE))
