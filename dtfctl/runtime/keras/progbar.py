"""A bar that says how far something is, and the means of what it came to."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any


class Progbar:
    """A bar on the screen, or a line at the end.

    Args:
        target: how many steps there are, None if nobody knows.
        verbose: 0 for nothing, 1 for a bar, 2 for a line at the end.
        interval: how many seconds are between two bars at least.
        stateful_metrics: names of values that are said as they are; of others the mean is.
    """

    def __init__(
        self,
        target: int | None,
        width: int = 30,
        verbose: int = 1,
        interval: float = 0.05,
        stateful_metrics: Sequence[str] | None = None,
        unit_name: str = "step",
    ) -> None:
        self.target, self.width, self.verbose, self.interval = target, width, verbose, interval
        self.unit_name, self.stateful_metrics = unit_name, set(stateful_metrics or ())
        self._values: dict[str, tuple[Any, int]] = {}
        self._seen = self._shown = 0
        self._began = time.monotonic()
        self._last = 0.0

    def update(self, current: int, values: Sequence[tuple[str, Any]] | None = None, finalize: Any = None) -> None:
        """Go to a step.

        Args:
            values: names, each with what the last steps came to.
            finalize: whether it is the last; at the target when None.
        """
        done = finalize if finalize is not None else self.target is not None and current >= self.target
        steps = max(current - self._seen, 1)
        for name, value in values or ():
            if name in self.stateful_metrics:
                self._values[name] = (value, 1)
            else:
                total, count = self._values.get(name, (0.0, 0))
                self._values[name] = (total + value * steps, count + steps)
        self._seen = current
        now = time.monotonic()
        if self.verbose == 1 and (done or now - self._last >= self.interval):
            self._show(current, now, done)
            self._last = now
        elif self.verbose == 2 and done:
            place = f"{current}/{self.target}" if self.target is not None else str(current)
            print(f"{place} - {now - self._began:.0f}s{self._means()}")

    def add(self, n: int, values: Sequence[tuple[str, Any]] | None = None) -> None:
        """Go on by some steps."""
        self.update(self._seen + n, values)

    def _means(self) -> str:
        parts = []
        for name, (total, count) in self._values.items():
            mean = float(total) / max(1, count)
            parts.append(f" - {name}: {mean:.4f}" if abs(mean) > 1e-3 else f" - {name}: {mean:.4e}")
        return "".join(parts)

    def _show(self, current: int, now: float, done: bool) -> None:
        each = (now - self._began) / max(1, current)
        if self.target is None:
            bar = f"{current:7d}/Unknown"
        else:
            filled = int(self.width * current / self.target) if self.target else self.width
            head = "=" * (filled - 1) + (">" if current < self.target else "=") if filled else ""
            bar = f"{current:{len(str(self.target))}d}/{self.target} [{head.ljust(self.width, '.')}]"
        if done or self.target is None:
            took = f"{each:.0f}s" if each >= 1 else f"{each * 1e3:.0f}ms" if each >= 1e-3 else f"{each * 1e6:.0f}us"
            text = f"{bar} - {now - self._began:.0f}s {took}/{self.unit_name}{self._means()}"
        else:
            text = f"{bar} - ETA: {each * (self.target - current):.0f}s{self._means()}"
        begin = "\r" if sys.stdout.isatty() else "\n"
        sys.stdout.write(begin + text.ljust(self._shown) + ("\n" if done else ""))
        sys.stdout.flush()
        self._shown = len(text)
