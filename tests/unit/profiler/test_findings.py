"""What is said of figures that are too large, and that it fits how tasks send to each other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dtfctl import thresholds
from dtfctl.runtime.profiler.findings import Facts, Finding, TaskLinkFacts, find

WORKER = Facts("worker/0", False, 10.0, 0.5, {"ps/0": 0.5}, 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0)
PAIR = {"from": "ps/0", "to": "worker/0", "wire_share": 0.4}
SAYS_COMPRESS = "runtime.compression"


def found(link: TaskLinkFacts | None) -> dict[str, Finding]:
    links = {} if link is None else {("ps/0", "worker/0"): link, ("worker/0", "ps/0"): link}
    return {item.kind: item for item in find([WORKER], [PAIR], links)}


def test_between_hosts_compression_is_advised_where_none_is_in_use() -> None:
    items = found(TaskLinkFacts("tcp, encrypted", crosses_hosts=True))
    assert SAYS_COMPRESS in items["wire"].advice and SAYS_COMPRESS in items["sync"].advice
    assert items["wire"].advice.startswith("ps/0 sends to worker/0 (tcp, encrypted) in 40% of its step: ")


def test_compression_that_is_on_is_told_and_not_advised() -> None:
    link = TaskLinkFacts("tcp, topk on (takes 1 ms, saves 8 ms)", crosses_hosts=True, compression="on")
    items = found(link)
    assert SAYS_COMPRESS not in items["wire"].advice + items["sync"].advice
    assert "already sent smaller" in items["wire"].advice and "topk on" in items["wire"].advice


def test_compression_that_does_not_pay_is_not_advised() -> None:
    link = TaskLinkFacts("tcp, topk off (takes 41 ms, saves 8 ms)", crosses_hosts=True, compression="off")
    items = found(link)
    assert SAYS_COMPRESS not in items["wire"].advice + items["sync"].advice
    assert "compression does not pay" in items["wire"].advice


def test_on_one_host_neither_compression_nor_the_network_is_advised() -> None:
    items = found(TaskLinkFacts("shm", crosses_hosts=False))
    for kind in ("wire", "sync"):
        assert SAYS_COMPRESS not in items[kind].advice and "--links" not in items[kind].advice
        assert "larger batch" in items[kind].advice


def test_what_is_not_known_of_a_way_is_not_taken_for_known() -> None:
    assert SAYS_COMPRESS in found(None)["wire"].advice


@pytest.mark.parametrize("over", [False, True])
def test_a_worker_that_computes_and_one_that_waits_are_judged_by_the_same_thresholds(over: bool) -> None:
    share = 1.0 if over else 0.01
    task = replace(WORKER, sync=share, waits={"worker/1": share}, input=share, copied_ms=100 * share, collecting=share)
    judged = {item.kind: item for item in find([task], [{**PAIR, "wire_share": share}], {})}
    known = {
        "sync": thresholds.SYNC,
        "wait": thresholds.WAIT,
        "input": thresholds.INPUT,
        "copies": thresholds.COPIES,
        "collector": thresholds.COLLECTOR,
        "wire": thresholds.WIRE,
    }
    assert judged.keys() == known.keys()
    for kind, threshold in known.items():
        assert (judged[kind].threshold, judged[kind].unit) == (threshold.much, threshold.unit)
        assert judged[kind].is_crossed is over and bool(judged[kind].advice) is over


def test_the_page_has_these_thresholds() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)`: [^|]*\| ([\d.]+(?: ?%| ms| times)?) \|", page, re.MULTILINE))
    expected = {
        "sync": thresholds.SYNC,
        "wait": thresholds.WAIT,
        "input": thresholds.INPUT,
        "copies": thresholds.COPIES,
        "conflicts": thresholds.CONFLICTS,
        "straggler": thresholds.STRAGGLER,
        "wire": thresholds.WIRE,
        "script": thresholds.SCRIPT,
        "collector": thresholds.COLLECTOR,
    }
    assert {kind: text.replace(" %", "%").removesuffix(" times") for kind, text in rows.items()} == {
        kind: threshold.words for kind, threshold in expected.items()
    }
