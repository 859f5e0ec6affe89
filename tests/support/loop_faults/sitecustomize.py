"""A fault in a step of every loop, for processes that have this folder in PYTHONPATH and DTF_TEST_LOOP_FAULTS.

Python imports this module when it starts. `guard.run`, under which all loops of dtfctl run, is wrapped: in the thread
of a loop its lines are traced until one within its `while` has raised, once for each loop, and until the loop has come
there again. Which line that is says DTF_TEST_LOOP_FAULT, the number of lines of it that are run before. Both are
noted in the folder that DTF_TEST_LOOP_FAULTS names.
"""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

FOLDER = os.environ.get("DTF_TEST_LOOP_FAULTS", "")


class Injected(Exception):
    """What nobody foresaw."""


def lines_within(code: CodeType) -> set[int]:
    """Those of the statements in its outermost loops.

    Not those of `with`: it comes to its line once more when it ends, where what is raised keeps a lock for ever.
    """
    lines, first = inspect.getsourcelines(code)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.While)]
    inside = {
        node.lineno
        for loop in loops
        for part in loop.body
        for node in ast.walk(part)
        if isinstance(node, ast.stmt) and not isinstance(node, ast.With)
    }
    return {number + first - 1 for number in inside}


class Loop:
    """One that raises, once in each process."""

    known: dict[tuple[int, str, str], str] = {}

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self._function = function
        self._code: CodeType = getattr(function, "__func__", function).__code__  # type: ignore[attr-defined]
        self._lines = lines_within(self._code)
        self._left = int(os.environ.get("DTF_TEST_LOOP_FAULT", "0"))
        self._name = name

    def __call__(self, *args: Any) -> object:
        if self._state != "again":
            sys.settrace(self._on_call)
        try:
            return self._function(*args)
        finally:
            sys.settrace(None)

    @property
    def _key(self) -> tuple[int, str, str]:
        return os.getpid(), self._code.co_qualname, self._name

    @property
    def _state(self) -> str:
        return self.known.get(self._key, "")

    def _become(self, state: str) -> None:
        self.known[self._key] = state
        sys.settrace(None)
        command = Path("/proc/self/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
        file = Path(self._code.co_filename)
        with open(Path(FOLDER) / f"{os.getpid()}.txt", "a") as notes:
            notes.write("\t".join((state, str(file), self._code.co_qualname, self._name, command)) + "\n")

    def _on_call(self, frame: FrameType, _event: str, _value: object) -> Any:
        return self._on_line if frame.f_code is self._code else None

    def _on_line(self, frame: FrameType, event: str, _value: object) -> Any:
        if event == "line" and frame.f_lineno in self._lines:
            if self._state == "":
                self._left -= 1
                if self._left < 0:
                    self._become("raised")
                    raise Injected(f"at line {frame.f_lineno} of {self._code.co_qualname}")
            elif self._state == "raised":
                self._become("again")
                return None
        return self._on_line


def wrap() -> None:
    from dtfctl import guard

    real = guard.run

    def run(function: Callable[..., object], args: Sequence[Any] = (), *, name: str, **more: Any) -> None:
        real(Loop(function, name), args, name=name, **more)

    guard.run = run


if FOLDER:
    wrap()
