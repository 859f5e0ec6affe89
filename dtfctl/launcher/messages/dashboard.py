"""What is said about the dashboard: to the controller that has it served, and to the process that serves it."""

from __future__ import annotations

from dtfctl.values import value


@value
class DashboardRequest:
    """Have the page served, if it is not yet."""

    port: int | None = None
    """None: where it is, or else a free one. 0: a free one."""


@value
class DashboardReply:
    """Where it is served, on the loopback of the controller's machine, and what lets in."""

    port: int
    token: str
    from_spec: bool = False
    """The cluster's file wants it."""


@value
class DashboardClosed:
    was_open: bool


@value
class StudyToShow:
    """What the page shows of a study."""

    name: str
    """The study's name: letters, digits, `-` and `_`."""
    content: str
    """The JSON that `dashboard.studies` reads."""


@value
class ServedPage:
    """A page that is wanted: a file that only its user can read, written by the controller alone."""

    port: int
    token: str
    session: str
    """What the cookie says that a browser gets for the token."""
    any_port: bool = True
    """Nobody has said which port: where that one is taken, another will do."""
    from_spec: bool = False
    """The cluster's file wants it."""


@value
class ServingProcess:
    """Who serves it: a file that this process writes."""

    pid: int
    start_ticks: int
    serves: bool = False
    """Whether it answers yet."""
