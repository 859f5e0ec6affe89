"""The agent's calls, for both sides; see protocol/agent.proto."""

from __future__ import annotations

from dtfctl.launcher.certificates import Role
from dtfctl.launcher.rpc import Method
from dtfctl.protocol import agent_pb2 as pb

SERVICE = "dtf.agent.Agent"
CONTROLLER: frozenset[Role] = frozenset({"controller"})

APPLY = Method(SERVICE, "Apply", pb.HostOrders, pb.Applied, CONTROLLER)
WATCH = Method(SERVICE, "Watch", pb.WatchRequest, pb.Report, CONTROLLER, streams=True)
READ_LOGS = Method(SERVICE, "ReadLogs", pb.ReadLogsRequest, pb.ReadLogsReply, CONTROLLER)
SHUTDOWN = Method(SERVICE, "Shutdown", pb.ShutdownRequest, pb.Report, CONTROLLER)
