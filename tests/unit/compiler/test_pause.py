"""The cycle collector's pauses."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dtfctl.runtime.compiler.pause import collector_paused


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    """The tests' own objects are frozen, and pauses leave the collector alone where any is."""
    gc.unfreeze()
    yield
    gc.freeze()


def make(count: int) -> list[list[int]]:
    return [[i] for i in range(count)]


def test_what_a_pause_made_is_not_walked_as_young() -> None:
    with collector_paused():
        assert not gc.isenabled()
        kept = make(20_000)
    assert gc.isenabled()
    assert gc.get_count()[0] < 10_000
    assert any(o is kept[0] for o in gc.get_objects(generation=2))


def test_a_pause_in_a_pause_changes_nothing() -> None:
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


MANY_PAUSES = """
import weakref
from dtfctl.runtime.compiler.pause import collector_paused

class Thing:
    def __init__(self):
        self.me = self

alive, most = [], 0
for _ in range(60):
    with collector_paused():
        things = [Thing() for _ in range(20_000)]
    alive.append(weakref.ref(things[0]))
    del things
    most = max(most, sum(ref() is not None for ref in alive))
print(most)
"""


@pytest.mark.slow
def test_garbage_of_many_pauses_is_collected() -> None:
    # By a process of its own: how much garbage is too much depends on how much is in use.
    ran = subprocess.run([sys.executable, "-c", MANY_PAUSES], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 45


def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    try:
        with collector_paused():
            kept = make(20_000)
        assert gc.get_freeze_count() >= frozen - 1000
        assert len(kept) == 20_000
    finally:
        gc.unfreeze()
