"""Which lines `logs` shows, and in which order, from what a controller answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dtfctl.launcher.errors import PartlyDone, UsageError
from dtfctl.launcher.messages.controller import LogsReply, OutputChunk, OutputPosition
from dtfctl.launcher.operator import history, output
from dtfctl.launcher.operator.history import LogQuery


class Answers:
    """A connection that gives these replies, then the last one again."""

    def __init__(self, *replies: LogsReply) -> None:
        self.replies = list(replies)

    def call(self, method: Any, request: Any, **options: Any) -> LogsReply:
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def reply(
    *chunks: tuple[str, Sequence[str], bool], final: bool = False, ended: bool = False, away: Sequence[str] = ()
) -> LogsReply:
    """Chunks are (process, "SECOND out text" lines, at_end)."""
    found = []
    for process, lines, at_end in chunks:
        data = "".join(f"2026-01-31T12:00:{line[:2]}.000Z{line[2:]}\n" for line in lines).encode()
        found.append(OutputChunk(OutputPosition(process, "h"), data, at_end))
    return LogsReply(tuple(found), final, tuple(away), ended or final)


def texts(query: LogQuery, *replies: LogsReply) -> list[str]:
    return [f"{line.source} {line.text}" for line in history.logs(Answers(*replies), query)]  # type: ignore[arg-type]


DONE = reply()


def test_a_process_of_which_more_is_to_be_read_holds_later_lines_back() -> None:
    first = reply(("worker/0", ["01 out a", "02 out b"], False), ("worker/1", ["05 out late"], True))
    second = reply(("worker/0", ["03 out c", "06 out d"], True), ("worker/1", [], True))
    assert texts(LogQuery(), first, second, DONE) == [
        "worker/0 a",
        "worker/0 b",
        "worker/0 c",
        "worker/1 late",
        "worker/0 d",
    ]


def test_the_tail_counts_whole_lines_of_each_process_that_are_left_by_the_filters() -> None:
    answer = reply(
        ("worker/0", ["01 out x1", "02 out+ x", "03 out 2", "04 out y", "05 err x3"], True),
        ("worker/1", ["02 out x9"], True),
    )
    assert texts(LogQuery(grep="^x", tail=2), answer, DONE) == ["worker/1 x9", "worker/0 x2", "worker/0 x3"]
    assert texts(LogQuery(streams=("out",), tail=1), answer, DONE) == ["worker/1 x9", "worker/0 y"]
    assert texts(LogQuery(grep="nothing"), answer, DONE) == []


def test_a_pattern_sees_lines_that_were_written_in_parts() -> None:
    answer = reply(("ps/0", ["01 out+ 12", "01 out+ 34", "02 out 56"], True))
    assert texts(LogQuery(grep="^123456$"), answer, DONE) == ["ps/0 123456"]


def test_a_host_that_does_not_answer_is_an_error_after_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "AWAY_S", 0.0)
    half = reply(("worker/0", ["01 out a"], True), away=["node2"])
    for query in (LogQuery(), LogQuery(tail=5, streams=("out",)), LogQuery("job:j", follow=True)):
        lines = history.logs(Answers(half, reply(away=["node2"], ended=True)), query)  # type: ignore[arg-type]
        assert next(lines).text == "a"
        with pytest.raises(PartlyDone, match="no answer from node2"):
            next(lines)


def test_one_process_of_a_job() -> None:
    answer = reply(("job:j-1:worker/0", ["01 out a"], True), ("job:j-1:worker/1", ["02 out b"], True))
    assert texts(LogQuery("job:j-1:worker/1"), answer, DONE) == ["j-1:worker/1 b"]
    assert texts(LogQuery("job:j-1"), answer, DONE) == ["j-1:worker/0 a", "j-1:worker/1 b"]


def test_a_pattern_that_is_none_is_the_users_mistake() -> None:
    with pytest.raises(UsageError, match="not a regular expression"):
        texts(LogQuery(grep="["), DONE)


def test_lines_that_are_followed_come_after_the_tail() -> None:
    old = reply(("worker/0", ["01 err a", "02 err b"], True))
    new = reply(("worker/0", ["03 err c", "04 out d"], True))
    assert texts(LogQuery(follow=True, tail=1, streams=("err",)), old, new, reply(final=True)) == [
        "worker/0 b",
        "worker/0 c",
    ]


def test_of_a_process_that_is_far_ahead_no_more_is_asked_for_than_can_be_given() -> None:
    """Two processes with much output, one after the other: the later one's must not pile up in memory."""
    written = {"worker/0": range(3000), "worker/1": range(3000, 6000)}
    sizes: list[int] = []

    class Hosts:
        def call(self, method: Any, request: Any, **options: Any) -> LogsReply:
            at = {item.process: item.offset for item in request.positions}
            held = {item.process for item in request.positions if item.hold}
            found = []
            for process, numbers in written.items():
                if process in held:
                    continue
                begin = at.get(process, 0)
                part = numbers[begin : begin + 100]
                stamps = (f"2026-01-31T{n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}.000Z out {n}\n" for n in part)
                end = begin + len(part)
                position = OutputPosition(process, "h", offset=end)
                found.append(OutputChunk(position, "".join(stamps).encode(), end == len(numbers)))
            return LogsReply(tuple(found), final=not held and not any(chunk.data for chunk in found))

    reader = output.LogReader(Hosts(), "job:x")  # type: ignore[arg-type]
    seen = []
    while not (batch := reader.read(0.0)).final:
        seen += [int(line.text) for line in batch.lines]
        sizes.append(len(batch.lines))
    assert seen == list(range(6000))
    assert max(sizes) <= 200
