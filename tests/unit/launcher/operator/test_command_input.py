"""What a command of `exec` is given: nothing is lost, and who tells of a window's new size never waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from dtfctl.launcher.messages.commands import ExecInput, ExecStart, Input, TerminalSize
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.operator.host_access import Command, Target, Terminal

MOST_WAITING = 64


class Held:
    """A connection over which nothing goes before the test takes it."""

    def channel(self) -> Held:
        return self

    def talk(self, _method: Any, requests: Iterator[ExecInput]) -> Held:
        self.requests = requests
        return self

    def cancel(self) -> None:
        return


def test_the_newest_size_arrives_although_the_command_reads_nothing() -> None:
    held = Held()
    command = Command(cast(Connection, held), Target("worker/1", "h", "worker/1"), ["sh"], Terminal(24, 80, "xterm"))
    command.resize(25, 81)
    for number in range(MOST_WAITING - 1):
        command.write(b"%d" % number)
    for rows in (30, 40):
        command.resize(rows, 120)  # by the handler of a signal: the thread that would make room is the one it stops
    first, size, *typed = [next(held.requests).what for _ in range(MOST_WAITING + 1)]
    assert isinstance(first, ExecStart) and size == TerminalSize(40, 120)
    assert typed == [Input(b"%d" % number) for number in range(MOST_WAITING - 1)]
    command.resize(50, 120)
    command.close()
    assert [item.what for item in held.requests] == [TerminalSize(50, 120)]
