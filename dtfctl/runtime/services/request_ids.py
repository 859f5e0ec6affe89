"""Recently seen request ids: clients repeat a request when a connection breaks, and a step must not run twice."""

from __future__ import annotations

import threading
from collections import OrderedDict

from dtfctl.runtime.framework.errors import AbortedError


class RecentRequestIds:
    """Remembers the newest `capacity` ids."""

    def __init__(self, capacity: int = 100_000) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._seen: OrderedDict[int, None] = OrderedDict()

    def check(self, request_id: int, method: str) -> None:
        """Note an id; 0 stands for none.

        Raises:
            AbortedError: it was seen before.
        """
        if not request_id:
            return
        with self._lock:
            if request_id in self._seen:
                raise AbortedError(
                    f"The same {method} request was received twice. The connection was interrupted and the request "
                    "sent again; it is not run a second time."
                )
            self._seen[request_id] = None
            if len(self._seen) > self._capacity:
                self._seen.popitem(last=False)
