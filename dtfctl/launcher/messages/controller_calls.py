"""The controller's calls, for both sides; see protocol/controller.proto."""

from __future__ import annotations

from dtfctl.launcher.identity.certificates import Role
from dtfctl.launcher.rpc.method import Method
from dtfctl.protocol import agent_pb2, controller_pb2 as pb

SERVICE = "dtf.controller.Controller"
CLI: frozenset[Role] = frozenset({"cli"})

PING = Method(SERVICE, "Ping", pb.Nothing, pb.ControllerStatus, CLI)
APPLY = Method(SERVICE, "Apply", pb.ApplyRequest, pb.ApplyReply, CLI)
STATUS = Method(SERVICE, "Status", pb.StatusRequest, pb.ClusterStatus, CLI)
SUBMIT = Method(SERVICE, "Submit", pb.SubmitRequest, pb.SubmitReply, CLI)
JOBS = Method(SERVICE, "Jobs", pb.JobsRequest, pb.JobsReply, CLI)
CANCEL = Method(SERVICE, "Cancel", pb.CancelRequest, pb.JobsReply, CLI)
DESIRE = Method(SERVICE, "Desire", pb.DesireRequest, pb.DesireReply, CLI)
SCALE = Method(SERVICE, "Scale", pb.ScaleRequest, pb.ApplyReply, CLI)
DESIRE_HOSTS = Method(SERVICE, "DesireHosts", pb.DesireHostsRequest, pb.DesireHostsReply, CLI)
READ_LOGS = Method(SERVICE, "ReadLogs", pb.LogsRequest, pb.LogsReply, CLI)
EVENTS = Method(SERVICE, "Events", pb.EventsRequest, pb.EventsReply, CLI)
CERTIFICATES = Method(SERVICE, "Certificates", pb.CertificatesRequest, pb.CertificatesReply, CLI)
DOWN = Method(SERVICE, "Down", pb.DownRequest, pb.DownReply, CLI)

READ_SPEC = Method(SERVICE, "ReadSpec", pb.Nothing, pb.SpecReply, CLI)
EXEC = Method(SERVICE, "Exec", agent_pb2.ExecInput, agent_pb2.ExecOutput, CLI, talks=True)
FETCH = Method(SERVICE, "Fetch", agent_pb2.FetchRequest, agent_pb2.FilePart, CLI, streams=True)
STORE = Method(SERVICE, "Store", agent_pb2.StoreInput, agent_pb2.Stored, CLI, talks=True)
EXAMINE = Method(SERVICE, "Examine", agent_pb2.ExamineRequest, agent_pb2.Examination, CLI)
PUT_BLOB = Method(SERVICE, "PutBlob", agent_pb2.BlobPiece, agent_pb2.BlobHeld, CLI)
INSPECT = Method(SERVICE, "Inspect", agent_pb2.InspectRequest, agent_pb2.Inspection, CLI)
