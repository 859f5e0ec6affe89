"""The controller's calls, for both sides; see protocol/controller.proto."""

from __future__ import annotations

from dtfctl.launcher.certificates import Role
from dtfctl.launcher.rpc import Method
from dtfctl.protocol import controller_pb2 as pb

SERVICE = "dtf.controller.Controller"
CLI: frozenset[Role] = frozenset({"cli"})

PING = Method(SERVICE, "Ping", pb.Nothing, pb.ControllerStatus, CLI)
APPLY = Method(SERVICE, "Apply", pb.ApplyRequest, pb.ApplyReply, CLI)
STATUS = Method(SERVICE, "Status", pb.StatusRequest, pb.ClusterStatus, CLI)
SUBMIT = Method(SERVICE, "Submit", pb.SubmitRequest, pb.SubmitReply, CLI)
JOBS = Method(SERVICE, "Jobs", pb.JobsRequest, pb.JobsReply, CLI)
CANCEL = Method(SERVICE, "Cancel", pb.CancelRequest, pb.JobsReply, CLI)
DESIRE = Method(SERVICE, "Desire", pb.DesireRequest, pb.DesireReply, CLI)
READ_LOGS = Method(SERVICE, "ReadLogs", pb.LogsRequest, pb.LogsReply, CLI)
EVENTS = Method(SERVICE, "Events", pb.EventsRequest, pb.EventsReply, CLI)
DOWN = Method(SERVICE, "Down", pb.DownRequest, pb.DownReply, CLI)
