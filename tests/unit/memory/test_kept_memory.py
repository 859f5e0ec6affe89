"""Large arrays that came through sockets: their memory is used again, and given back when nobody needs it for long."""

from __future__ import annotations

import gc
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.client.backend import own_values
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.variable import Variable
from dtfctl.runtime.memory import kept_memory
from dtfctl.runtime.memory.kept_memory import Kept
from dtfctl.runtime.memory.region import Memory, Region, address
from tests.unit.services.test_transports import Pair, tensor

MB = 1 << 20
FLOAT = np.dtype(np.float32)


@pytest.fixture(params=["tcp", "grpc"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(request.param, tmp_path)
    yield made
    made.close()


def received(pair: Pair, value: Any) -> Any:
    pair.a.send((tensor(value), tensor(np.float32(0))))
    # Of one key they keep their order; once the second is there, who read the first has let go of it.
    frame = pair.at_b.take(2)[0]
    return frame.value


def region(size: int) -> Region:
    return Region(Memory(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), size)


def resident(of: Region) -> int:
    """Bytes of a region that have memory, in pages.

    Looked up page by page: what smaps tells is of a whole mapping, and the kernel makes one of two that touch.
    """
    page = mmap.PAGESIZE
    with open("/proc/self/pagemap", "rb") as file:
        file.seek(of._start // page * 8)
        entries = np.frombuffer(file.read(of.size // page * 8), np.uint64)
    return int(np.count_nonzero(entries >> np.uint64(63))) * page


@pytest.mark.slow
def test_what_is_received_takes_the_place_of_what_was_let_go_of(pair: Pair) -> None:
    places = set()
    for i in range(5):
        got = received(pair, np.full(MB, i, np.float32))
        assert got[[0, -1]].tolist() == [i, i]
        places.add(address(got))
        del got
        gc.collect()
    assert len(places) == 1


def test_what_somebody_holds_stays_as_it_is(pair: Pair) -> None:
    held = [received(pair, np.full(MB, i, np.float32))[5:6] for i in range(4)]
    received(pair, np.full(MB, 9, np.float32))
    assert [part.tolist() for part in held] == [[0], [1], [2], [3]]


def test_a_variable_that_holds_a_received_tensor_is_updated_in_place(pair: Pair) -> None:
    v = Variable(dtypes.float32, TensorShape([MB]), "v")
    v.assign(received(pair, np.zeros(MB, np.float32)))
    at = address(v.read())
    with v.lock:
        v.change(lambda a: a.fill(1))
        v.update(lambda now, then: np.add(now, 1, then))
    assert address(v.read()) == at
    held = v.read()
    with v.lock:
        v.change(lambda a: a.fill(7))
    assert held[0] == 2, "but not under a reader"


def test_a_fetched_tensor_is_the_clients_own_without_a_copy(pair: Pair) -> None:
    values = [received(pair, np.zeros(MB, np.float32)), np.zeros(MB, np.float32)]
    at = [address(value) for value in values]
    assert [address(value) for value in own_values(values)] == at
    kept = list(values)
    assert not {address(value) for value in own_values(values)} & set(at), "but not what somebody else holds"
    assert [address(value) for value in kept] == at


def test_idle_memory_goes_back_to_the_system_and_busy_memory_stays() -> None:
    kept = region(64 * MB)
    held = [kept.empty((4 * MB,), np.dtype(np.uint8)) for _ in range(5)]
    for array in held:
        assert array is not None
        array[:] = 1
    assert resident(kept) == 20 * MB
    array = None
    kept.trim_idle()
    del held[1:]
    kept.trim_idle()
    assert resident(kept) == 4 * MB, "nobody has used the rest since the last look"
    for _ in range(3):
        again = kept.empty((8 * MB,), np.dtype(np.uint8))
        assert again is not None
        again[:] = 2
        del again
        kept.trim_idle()
        assert resident(kept) == 12 * MB, "it was used since the last look"
    kept.trim_idle()
    assert resident(kept) == 4 * MB
    assert held[0] is not None
    assert set(held[0].tolist()) == {1}


def test_all_that_is_free_goes_back_when_a_session_has_ended() -> None:
    kept = region(64 * MB)
    first, second = (kept.empty((MB,), FLOAT) for _ in range(2))
    assert first is not None
    assert second is not None
    first[:] = second[:] = 1
    del first
    kept.trim()
    assert resident(kept) == 4 * MB
    assert set(second.tolist()) == {1}


def test_what_does_not_fit_is_left_to_the_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_memory, "_kept", Kept(4 * MB))
    fits, does_not = (kept_memory.empty((MB,), FLOAT) for _ in range(2))
    assert kept_memory.owns(fits)
    assert does_not.flags.owndata
    assert kept_memory.empty((10,), FLOAT).flags.owndata


def test_without_address_space_arrays_come_from_the_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> Kept:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(kept_memory, "_kept", None)
    monkeypatch.setattr(kept_memory, "_is_refused", False)
    monkeypatch.setattr(kept_memory, "Kept", refuse)
    assert kept_memory.empty((MB,), FLOAT).flags.owndata
    monkeypatch.undo()
    assert kept_memory.owns(kept_memory.empty((MB,), FLOAT))


def test_a_forked_child_has_memory_of_its_own() -> None:
    before = kept_memory.empty((MB,), FLOAT)
    before[:] = 1
    child = os.fork()
    if child == 0:
        code = 1
        try:
            after = kept_memory.empty((MB,), FLOAT)
            after[:] = 2
            code = 0 if not np.shares_memory(before, after) and before[0] == 1 and kept_memory.owns(after) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert before[0] == 1


def test_references_held_by_a_region_are_none() -> None:
    array = kept_memory.empty((MB,), FLOAT)
    assert sys.getrefcount(array) == 2, "or variables would never be updated in place"
