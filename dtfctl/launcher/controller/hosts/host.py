"""Hold what the controller knows about one host: the link to its agent, its newest report, what is on its way."""

from __future__ import annotations

from dtfctl.health.monitor import Monitor
from dtfctl.launcher.controller.hosts.agent_link import AgentLink
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.messages.reports import Report, TaskReport
from dtfctl.launcher.model import HostState
from dtfctl.launcher.providers.base import AgentEndpoint, HostFailed


class Host:
    """What the controller knows about one host."""

    def __init__(self, link: AgentLink, monitor: Monitor, since: float = 0.0) -> None:
        self.link = link
        self.monitor = monitor
        self.since = since
        """When it was first looked for."""
        self.report: Report | None = None
        self.tasks: dict[str, TaskReport] = {}
        """Of the newest report."""
        self.endpoint: AgentEndpoint | None = None
        self.state: HostState = "pending"
        """By its agent's reports alone: pending, up, suspect or down."""
        self.last_error = ""
        self.failure: HostFailed | None = None
        """Why it could not be brought up, or reached again."""
        self.stage = ""
        """What is being done to it before its agent runs."""
        self.orders: HostOrders | None = None
        self.refreshing = 0
        """Looks at its files and set-up that are on their way."""
        self.outdated: HostFailed | None = None
        """Why its files or its set-up are not what the spec says."""
        self.unshared: HostFailed | None = None
        """Why the folder that hosts share is not to be relied on here."""
        self.is_probed = False
        """A probe of it is on its way."""
        self.is_leaving = False
        """Its agent is being shut down, because the cluster does not need it any more."""

    def is_behind(self, epoch: int) -> bool:
        """Tell whether the newest report is from before the newest orders, or there is none of either."""
        if self.report is None or self.orders is None:
            return True
        return (self.report.epoch, self.report.revision) != (epoch, self.orders.revision)
