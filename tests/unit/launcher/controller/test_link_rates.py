"""A link that degrades while tasks use it is an event, and noise is none."""

from __future__ import annotations

from collections.abc import Iterable

from dtfctl.launcher.controller.decisions.link_faults import LinkNews
from dtfctl.launcher.controller.decisions.link_rates import LinkRates
from dtfctl.launcher.model import TaskLink

HOSTS = {"worker/0": "a", "ps/0": "b"}


def feed(rates: LinkRates, figures: Iterable[float], samples: int = 0, begin: float = 0.0) -> list[LinkNews]:
    """One look a second, each with a new transfer."""
    news = []
    for n, mb_s in enumerate(figures):
        link = TaskLink("ps/0", "tcp", True, mb_s * 1e6, samples + n + 1)
        news += rates.look([("worker/0", link)], HOSTS, begin + n)
    return news


def test_a_link_that_stays_slow_is_an_event_once_and_so_is_its_recovery() -> None:
    rates = LinkRates()
    (slow,) = feed(rates, [117] * 20 + [12] * 60)
    assert slow == LinkNews(
        "link.degraded", "host:b", "from a: worker/0 to ps/0: 12 MB/s, and 117 before (in training)"
    )
    (well,) = feed(rates, [115] * 30, 80, 80.0)
    assert (well.kind, well.reason) == ("link.recovered", "from a: worker/0 to ps/0: 115 MB/s (in training)")
    (again,) = feed(rates, [12] * 30, 110, 110.0)
    assert again.kind == "link.degraded"


def test_what_lasts_for_a_moment_is_no_event() -> None:
    assert feed(LinkRates(), ([117] * 9 + [12] * 8) * 10) == []


def test_one_high_figure_is_not_what_the_link_holds() -> None:
    assert feed(LinkRates(), [12, 3000, 12, 12] * 20) == []


def test_programs_on_a_busy_machine_are_not_taken_for_a_link() -> None:
    assert feed(LinkRates(), [3000] * 20 + [180] * 60) == []
    (slow,) = feed(LinkRates(), [3000] * 20 + [80] * 60)
    assert "80 MB/s, and 3,000 before" in slow.reason


def test_a_figure_that_nothing_has_confirmed_since_counts_once() -> None:
    rates = LinkRates()
    feed(rates, [117] * 20)
    link = TaskLink("ps/0", "tcp", True, 12e6, 21)
    assert [news for n in range(60) for news in rates.look([("worker/0", link)], HOSTS, 20.0 + n)] == []


def test_a_task_that_started_again_is_measured_anew() -> None:
    rates = LinkRates()
    feed(rates, [117] * 20)
    (slow,) = feed(rates, [12] * 30, 0, 20.0)
    assert slow.kind == "link.degraded"
    assert rates.look([], {}, 60.0) == []
    assert feed(rates, [12] * 30, 0, 61.0) == [], "of tasks that are gone nothing is known"
