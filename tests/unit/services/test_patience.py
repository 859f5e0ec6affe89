"""How long a thread looks out before it sleeps."""

from __future__ import annotations

from dtfctl.runtime.rendezvous.patience import Patience


class Source:
    """Something to look at.

    Attributes:
        looked: how often somebody did.
    """

    def __init__(self) -> None:
        self.looked = 0
        self.things: list[str] = []

    def __call__(self, timeout: float) -> list[str]:
        assert timeout == 0
        self.looked += 1
        return self.things


def waits_until_a_look(patience: Patience, source: Source) -> int:
    before = source.looked
    count = 0
    while source.looked == before:
        patience.look(source)
        count += 1
    return count


def test_what_is_there_is_found() -> None:
    source = Source()
    source.things = ["frame"]
    patience = Patience()
    assert [patience.look(source) for _ in range(100)] == [["frame"]] * 100
    assert source.looked == 100


def test_looks_in_vain_become_rare_and_finds_frequent_again() -> None:
    source = Source()
    patience = Patience(0.0005)
    assert patience.look(source) == []
    vain = [waits_until_a_look(patience, source) for _ in range(12)]
    assert vain == sorted(vain)
    assert vain[0] == 2 and 100 < vain[-1] < 1000
    source.things = ["frame"]
    for _ in range(20):
        waits_until_a_look(patience, source)
    assert all(patience.look(source) == ["frame"] for _ in range(10))
    source.things = []
    assert patience.look(source) == []
    assert waits_until_a_look(patience, source) == 2
