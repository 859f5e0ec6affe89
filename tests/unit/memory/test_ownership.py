"""Who else holds a value is told from its references, on this Python; where it cannot be told, everything is shared."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl
from dtfctl.runtime.client.backend import own_values
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory import ownership
from dtfctl.runtime.memory.held_value import change_all
from dtfctl.runtime.memory.ownership import is_sole, sole_count


def made() -> Any:
    return np.zeros(1 << 18, np.float32)


def variable_of(value: Any) -> Variable:
    variable = Variable(dtypes.float32, TensorShape(value.shape), "v")
    variable.assign(value)
    return variable


def test_references_tell_on_this_python() -> None:
    alone, shared = ownership.measure()
    assert 0 < alone < shared
    assert alone == ownership._SOLE


@pytest.mark.parametrize(
    ("alone", "shared", "free_threaded", "sole"),
    [
        (3, 4, False, 3),  # 3.11 to 3.13
        (1, 2, False, 1),  # 3.14, which borrows the references of locals
        (2, 3, False, 2),
        (3, 3, False, -1),  # not told apart
        (4, 5, False, -1),  # somebody counts along, such as a debugger
        (0, 1, False, -1),
        (1 << 30, 1 << 30, False, -1),  # immortal, or not counted
        (3, 4, True, -1),
    ],
)
def test_what_is_measured_decides(alone: int, shared: int, free_threaded: bool, sole: int) -> None:
    assert sole_count(alone, shared, free_threaded) == sole


def _thread(value: Any) -> Any:
    """A thread that is in the middle of something with it."""
    begin, go_on = threading.Event(), threading.Event()

    def work(value: Any) -> None:
        begin.set()
        go_on.wait()
        assert value is not None

    thread = threading.Thread(target=work, args=(value,))
    thread.start()
    begin.wait()
    return go_on, thread


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda value: [value],
    "view": lambda value: value[3:5],
    "reshaped": lambda value: value.reshape(2, -1).T,
    "bytes": lambda value: memoryview(value)[:8],
    "closure": lambda value: lambda: value,
    "object array": lambda value: np.array([value, None], object),
    "iterator": lambda value: iter(value),
    "queue": lambda value: (held := queue.SimpleQueue(), held.put(value)),
    "thread": _thread,
}


@pytest.fixture(params=list(HOLDERS))
def hold(request: pytest.FixtureRequest) -> Any:
    threads: list[Any] = []

    def hold(value: Any) -> Any:
        held = HOLDERS[request.param](value)
        if request.param == "thread":
            threads.append(held)
        return held

    yield hold
    for go_on, thread in threads:
        go_on.set()
        thread.join()


def test_every_holder_counts(hold: Any) -> None:
    value = made()
    assert is_sole(value)
    held = hold(value)
    assert held is not None and not is_sole(value)


@pytest.mark.parametrize("how", ["change", "update", "rows", "all"])
def test_variables_are_written_in_place_unless_held(hold: Any, how: str) -> None:
    def write(variable: Variable) -> int:
        """Add one; where that was written."""
        at: list[int] = []

        def add(array: Any) -> None:
            array += 1
            at.append(array.ctypes.data)

        def update(now: Any, then: Any) -> None:
            np.add(now, 1, then)
            at.append(then.ctypes.data)

        with variable.lock:
            if how == "change":
                variable.change(add)
            elif how == "update":
                variable.update(update)
            elif how == "rows":
                variable.change(add, np.arange(10))
            else:
                change_all([other, variable], lambda _, array: add(array))
        return at[0]

    other = variable_of(made())
    variable = variable_of(made())
    first = variable.read().ctypes.data
    assert write(variable) == first
    held = hold(variable.read())
    before = variable.read().copy()
    kept = variable.read()
    place = write(variable)
    assert place != first and (kept == before).all()
    del kept
    assert held is not None
    assert write(variable) == place, "nobody holds the new one"
    assert (variable.read() == 3).all()


def test_what_is_fetched_is_copied_where_somebody_holds_it(hold: Any) -> None:
    values = [made()]
    at = values[0].ctypes.data
    values = own_values(values)
    assert values[0].ctypes.data == at
    held = hold(values[0])
    values = own_values(values)
    assert held is not None and values[0].ctypes.data != at


@pytest.mark.parametrize("how", ["change", "update"])
def test_where_references_tell_nothing_all_is_copied(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "_SOLE", -1)
    variable = variable_of(made())
    first = variable.read().ctypes.data
    with variable.lock:
        if how == "change":
            variable.change(lambda array: array.fill(1))
        else:
            variable.update(lambda now, then: np.add(now, 1, then))
    assert variable.read().ctypes.data != first and (variable.read() == 1).all()
    fetched = [variable.read()]
    own_values(fetched)
    assert fetched[0].ctypes.data != variable.read().ctypes.data
    made_for = [made()]
    at = made_for[0].ctypes.data
    assert own_values(made_for)[0].ctypes.data != at


@pytest.mark.parametrize("how", ["change", "update"])
def test_an_update_that_fails_leaves_a_value(how: str) -> None:
    def fail(*arrays: Any) -> None:
        raise ValueError("no")

    variable = variable_of(made())
    for _ in range(2):
        with variable.lock, pytest.raises(ValueError, match="no"):
            getattr(variable, how)(fail)
        held = variable.read()
        assert held.shape == (1 << 18,) and variable.is_initialized
    variable.close()
    assert not variable.is_initialized


def test_a_read_waits_for_an_update_in_place() -> None:
    variable = variable_of(made())
    begun, go_on = threading.Event(), threading.Event()

    def write(array: Any) -> None:
        array[: array.size // 2] = 1
        begun.set()
        assert go_on.wait(60.0)
        array[array.size // 2 :] = 1

    def work() -> None:
        with variable.lock:
            variable.change(write)

    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
    writer = threading.Thread(target=work)
    writer.start()
    assert begun.wait(60.0)
    assert variable.is_initialized
    reader = threading.Thread(target=lambda: seen.put(variable.read()))
    reader.start()
    reader.join(0.2)
    assert seen.empty()
    go_on.set()
    assert (seen.get(timeout=60.0) == 1).all()
    for thread in (writer, reader):
        thread.join()


def test_only_memory_counts_references() -> None:
    """Askers must come by a value in one of the ways that were measured, so they stand in one room."""
    root = Path(dtfctl.__file__).parent
    texts = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}
    asked = {path for path, text in texts.items() if "is_sole" in text or "getrefcount" in text}
    assert asked == {f"runtime/memory/{name}.py" for name in ("held_value", "ownership", "sharing")}
